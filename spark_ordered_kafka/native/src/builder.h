/* Arrow columns that grow row by row, and leave as one struct array of the C data interface. */
#ifndef ORDERED_KAFKA_BUILDER_H
#define ORDERED_KAFKA_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arrow.h"

/* All functions that return bool return false where there is no memory; what was built so far stays whole. */

struct buffer {
    char *data;
    size_t length, capacity;
};

bool buffer_append(struct buffer *buffer, const void *data, size_t length);
void buffer_free(struct buffer *buffer);

/* Which rows are not null. */
struct validity {
    struct buffer bits;
    int64_t length, nulls;
};

bool validity_append(struct validity *validity, bool valid);

/* A column of type binary or utf8, whose offsets are int32: the caller keeps the sum of all lengths below 2 GiB. */
struct strings {
    struct validity validity;
    struct buffer offsets, data;
};

/* `data` NULL: null. */
bool strings_append(struct strings *strings, const void *data, size_t length);
/* The same, with U+FFFD in place of what is no UTF-8. */
bool strings_append_utf8(struct strings *strings, const char *text, size_t length);
void strings_free(struct strings *strings);

/* What becomes an ArrowArray; its release callback frees what it was made of. */

/* `array` takes the buffers over, which are `count` and zero afterwards; NULL ones count as absent. Makes room for
 * `children`, which the caller fills in. False, with nothing taken over, where there is no memory. */
bool arrow_export(struct ArrowArray *array, int64_t length, int64_t nulls, struct buffer *const *buffers, size_t count,
                  size_t children);
bool strings_export(struct strings *strings, struct ArrowArray *array);

#endif
