/* Columns of bytes that Python hands over: Arrow arrays of binary or large_binary, read where they lie. */
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

struct column {
    int64_t length;
    int64_t offset;               /* of the first row in the buffers */
    const uint8_t *validity;      /* NULL: no nulls */
    const int32_t *short_offsets; /* of binary; NULL for large_binary */
    const int64_t *long_offsets;
    const uint8_t *data;
    PyObject *owner; /* keeps the buffers alive */
};

/* The column of an object with __arrow_c_array__. Returns false with a Python exception set: TypeError for anything but a
 * binary or large_binary array. */
bool column_open(struct column *column, PyObject *array, const char *name);

/* Idempotent; a zeroed column may be closed, too. */
void column_close(struct column *column);

/* As column_open, of a part of another array; `owner` is not held. */
bool column_view(struct column *column, const struct ArrowSchema *schema, const struct ArrowArray *array, const char *name);

/* The structs behind an object with __arrow_c_array__; they live as long as what is returned, a new reference. Returns
 * NULL with TypeError set for another object. */
PyObject *arrow_of(PyObject *array, const char *name, const struct ArrowSchema **schema, const struct ArrowArray **found);

static inline bool bit_at(const uint8_t *bits, int64_t place)
{
    return bits == NULL || (bits[place >> 3] >> (place & 7) & 1) != 0;
}

static inline struct text column_text(const struct column *column, int64_t row)
{
    static const uint8_t nothing = 0;
    struct text text = {NULL, 0};
    int64_t place = column->offset + row, start, end;

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

#endif
