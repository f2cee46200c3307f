#include "builder.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096
#define MOST_BUFFERS 3

static bool buffer_reserve(struct buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity > 0 ? buffer->capacity : FIRST_CAPACITY;
    char *data;

    if (more <= buffer->capacity - buffer->length)
        return true;
    if (more > SIZE_MAX / 4 || buffer->length > SIZE_MAX / 4)
        return false;
    while (capacity - buffer->length < more)
        capacity *= 2;
    data = realloc(buffer->data, capacity);
    if (data == NULL)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool buffer_append(struct buffer *buffer, const void *data, size_t length)
{
    if (!buffer_reserve(buffer, length))
        return false;
    if (length > 0)
        memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
    return true;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

bool validity_append(struct validity *validity, bool valid)
{
    if (validity->length % 8 == 0 && !buffer_append(&validity->bits, "", 1))
        return false;
    if (valid)
        validity->bits.data[validity->length / 8] |= (char)(1 << (validity->length % 8));
    else
        validity->nulls++;
    validity->length++;
    return true;
}

/* The offset of the row that comes next; that of the first row stands before all. */
static bool strings_end_row(struct strings *strings, bool valid)
{
    int32_t end = (int32_t)strings->data.length;

    return buffer_append(&strings->offsets, &end, sizeof end) && validity_append(&strings->validity, valid);
}

static bool strings_begin(struct strings *strings)
{
    int32_t zero = 0;

    return strings->offsets.length > 0 || buffer_append(&strings->offsets, &zero, sizeof zero);
}

bool strings_append(struct strings *strings, const void *data, size_t length)
{
    return strings_begin(strings) && buffer_append(&strings->data, data, data != NULL ? length : 0) &&
           strings_end_row(strings, data != NULL);
}

/* How many bytes of the text are its next character or, where `*valid` becomes false, what decoders replace at once
 * ("maximal subpart" of the Unicode standard, table 3-7). */
static size_t utf8_next(const unsigned char *text, size_t length, bool *valid)
{
    unsigned char first = text[0], low = 0x80, high = 0xBF;
    size_t wanted = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    size_t found = 1;

    if (first == 0xE0)
        low = 0xA0;
    else if (first == 0xED)
        high = 0x9F;
    else if (first == 0xF0)
        low = 0x90;
    else if (first == 0xF4)
        high = 0x8F;
    while (found < wanted && found < length && text[found] >= low && text[found] <= high) {
        low = 0x80, high = 0xBF;
        found++;
    }
    *valid = found == wanted;
    return found;
}

bool strings_append_utf8(struct strings *strings, const char *text, size_t length)
{
    size_t at = 0, size;
    bool valid;

    if (!strings_begin(strings))
        return false;
    while (at < length) {
        size = utf8_next((const unsigned char *)text + at, length - at, &valid);
        if (!buffer_append(&strings->data, valid ? text + at : "\xEF\xBF\xBD", valid ? size : 3))
            return false;
        at += size;
    }
    return strings_end_row(strings, true);
}

void strings_free(struct strings *strings)
{
    buffer_free(&strings->validity.bits);
    buffer_free(&strings->offsets);
    buffer_free(&strings->data);
    *strings = (struct strings){0};
}

/* What an exported array owns. Its children may be moved away one by one; their structs stay here. */
struct owned {
    const void *buffers[MOST_BUFFERS];
    struct ArrowArray **pointers;
    struct ArrowArray *children;
};

static void owned_free(struct owned *owned)
{
    free(owned->pointers);
    free(owned->children);
    free(owned);
}

static void release(struct ArrowArray *array)
{
    struct owned *owned = array->private_data;

    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release != NULL)
            array->children[i]->release(array->children[i]);
    for (int64_t i = 0; i < array->n_buffers; i++)
        free((void *)owned->buffers[i]);
    owned_free(owned);
    array->release = NULL;
}

bool arrow_export(struct ArrowArray *array, int64_t length, int64_t nulls, struct buffer *const *buffers, size_t count,
                  size_t children)
{
    struct owned *owned = calloc(1, sizeof *owned);

    if (owned == NULL)
        return false;
    owned->pointers = calloc(children + 1, sizeof *owned->pointers);
    owned->children = calloc(children + 1, sizeof *owned->children);
    if (owned->pointers == NULL || owned->children == NULL) {
        owned_free(owned);
        return false;
    }
    for (size_t i = 0; i < children; i++)
        owned->pointers[i] = &owned->children[i];
    for (size_t i = 0; i < count; i++)
        if (buffers[i] != NULL) {
            owned->buffers[i] = buffers[i]->data;
            *buffers[i] = (struct buffer){0};
        }
    *array = (struct ArrowArray){
        .length = length,
        .null_count = nulls,
        .n_buffers = (int64_t)count,
        .n_children = (int64_t)children,
        .buffers = owned->buffers,
        .children = owned->pointers,
        .release = release,
        .private_data = owned,
    };
    return true;
}

bool strings_export(struct strings *strings, struct ArrowArray *array)
{
    struct validity *validity = &strings->validity;
    struct buffer *buffers[] = {&validity->bits, &strings->offsets, &strings->data};

    /* An array without rows has an offset all the same. */
    return strings_begin(strings) && arrow_export(array, validity->length, validity->nulls, buffers, 3, 0);
}
