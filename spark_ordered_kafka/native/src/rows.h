/* Rows to write: keys, values, and headers where there are any. */
#ifndef ORDERED_KAFKA_ROWS_H
#define ORDERED_KAFKA_ROWS_H

#include "columns.h"

struct rows {
    int64_t length;
    bool with_headers;
    struct column keys;
    struct column values;
    struct headers_column headers;
};

/* `headers` may be None. Returns false with TypeError set for a type that is none of columns.h, with ValueError set where
 * one is longer than another. */
bool rows_open(struct rows *rows, PyObject *keys, PyObject *values, PyObject *headers);
void rows_close(struct rows *rows);

extern PyMethodDef fingerprint_methods[];
extern PyMethodDef producing_methods[];

#endif
