/* Columns that Python hands over, read where they lie: Arrow arrays, or lists of bytes objects. */
#ifndef ORDERED_KAFKA_COLUMNS_H
#define ORDERED_KAFKA_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arrow.h"
#include "kernel.h"

/* Some bytes; `data` is NULL for a null and for nothing else. */
struct text {
    const uint8_t *data;
    size_t length;
};

/* Of texts: an array of binary or large_binary, or a list of bytes and None. */
struct column {
    int64_t length;
    int64_t offset;               /* of the first row in the buffers */
    const uint8_t *validity;      /* NULL: no nulls */
    const int32_t *short_offsets; /* of binary; NULL for large_binary */
    const int64_t *long_offsets;
    const uint8_t *data;
    struct text *texts; /* of a list; NULL for an array */
    PyObject *owner;    /* keeps what the texts lie in */
};

/* Of a row's headers: an array of list or large_list of struct<key: utf8, value: binary>. */
struct headers_column {
    int64_t length;
    int64_t offset;
    const uint8_t *validity;
    const int32_t *short_offsets;
    const int64_t *long_offsets;
    struct column keys;
    struct column values;
    PyObject *owner;
};

/* Those that open return false with TypeError set for another type; `name` is that of the argument. Closing is idempotent,
 * and right for a zeroed column. */
bool column_open(struct column *column, PyObject *texts, const char *name);
void column_close(struct column *column);
bool headers_open(struct headers_column *headers, PyObject *array);
void headers_close(struct headers_column *headers);

static inline bool bit_at(const uint8_t *bits, int64_t place)
{
    return bits == NULL || (bits[place >> 3] >> (place & 7) & 1) != 0;
}

static inline struct text column_text(const struct column *column, int64_t row)
{
    static const uint8_t nothing = 0;
    struct text text = {NULL, 0};
    int64_t place = column->offset + row, start, end;

    if (column->texts != NULL)
        return column->texts[row];
    if (!bit_at(column->validity, place))
        return text;
    if (column->short_offsets != NULL) {
        start = column->short_offsets[place];
        end = column->short_offsets[place + 1];
    } else {
        start = column->long_offsets[place];
        end = column->long_offsets[place + 1];
    }
    /* An array whose texts are all empty need not have a buffer for them. */
    text.data = column->data == NULL ? &nothing : column->data + start;
    text.length = (size_t)(end - start);
    return text;
}

/* A row's headers are the rows of `keys` and `values` from the one that is returned to before `end`; none for a null. */
static inline int64_t headers_of(const struct headers_column *headers, int64_t row, int64_t *end)
{
    int64_t place = headers->offset + row;

    if (!bit_at(headers->validity, place)) {
        *end = 0;
        return 0;
    }
    if (headers->short_offsets != NULL) {
        *end = headers->short_offsets[place + 1];
        return headers->short_offsets[place];
    }
    *end = headers->long_offsets[place + 1];
    return headers->long_offsets[place];
}

#endif
