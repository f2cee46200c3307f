/* Records as a batch of Arrow columns, in the order of native/draining.py's schema. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

#define TIMESTAMP_NOT_AVAILABLE 0

enum { KEY, VALUE, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS, COLUMNS };

void batch_free(struct batch *batch)
{
    strings_free(&batch->key);
    strings_free(&batch->value);
    buffer_free(&batch->offsets);
    buffer_free(&batch->timestamps);
    buffer_free(&batch->types);
    buffer_free(&batch->headers.validity.bits);
    buffer_free(&batch->headers.offsets);
    strings_free(&batch->headers.name);
    strings_free(&batch->headers.value);
}

/* -- a record ------------------------------------------------------------------------------------------------------ */

static const rd_kafka_headers_t *headers_of(const struct batch *batch, const rd_kafka_message_t *message)
{
    rd_kafka_headers_t *headers;

    if (!batch->with_headers || rk.rd_kafka_message_headers(message, &headers) != 0)
        return NULL;
    return headers;
}

int64_t batch_bytes_of(const struct batch *batch, const rd_kafka_message_t *message)
{
    const rd_kafka_headers_t *headers = headers_of(batch, message);
    int64_t size = (int64_t)message->len + (int64_t)message->key_len;
    const char *name;
    const void *value;
    size_t length;

    for (size_t i = 0; headers != NULL && rk.rd_kafka_header_get_all(headers, i, &name, &value, &length) == 0; i++)
        size += 3 * (int64_t)strlen(name) + (int64_t)length;
    return size;
}

static bool append_headers(struct batch *batch, const rd_kafka_headers_t *headers)
{
    const char *name;
    const void *value;
    size_t length;

    if (batch->headers.offsets.length == 0 && !buffer_append(&batch->headers.offsets, &(int32_t){0}, sizeof(int32_t)))
        return false;
    for (size_t i = 0; headers != NULL && rk.rd_kafka_header_get_all(headers, i, &name, &value, &length) == 0; i++) {
        if (!strings_append_utf8(&batch->headers.name, name, strlen(name)) ||
            !strings_append(&batch->headers.value, value, length))
            return false;
        batch->headers.count++;
    }
    return buffer_append(&batch->headers.offsets, &batch->headers.count, sizeof batch->headers.count) &&
           validity_append(&batch->headers.validity, headers != NULL);
}

/* Microseconds; the largest or least int64_t for what does not fit. */
static int64_t microseconds(int64_t milliseconds)
{
    if (milliseconds > INT64_MAX / 1000)
        return INT64_MAX;
    return milliseconds < INT64_MIN / 1000 ? INT64_MIN : milliseconds * 1000;
}

bool batch_append(struct batch *batch, const rd_kafka_message_t *message)
{
    rd_kafka_timestamp_type_t type = TIMESTAMP_NOT_AVAILABLE;
    int64_t timestamp = microseconds(rk.rd_kafka_message_timestamp(message, &type));
    /* Java's TimestampType, which Spark shows, begins at -1. */
    int32_t java_type = (int32_t)type - 1;

    batch->rows++;
    return strings_append(&batch->key, message->key, message->key_len) &&
           strings_append(&batch->value, message->payload, message->len) &&
           buffer_append(&batch->offsets, &message->offset, sizeof message->offset) &&
           buffer_append(&batch->timestamps, &timestamp, sizeof timestamp) &&
           buffer_append(&batch->types, &java_type, sizeof java_type) &&
           (!batch->with_headers || append_headers(batch, headers_of(batch, message)));
}

/* -- as Arrow ------------------------------------------------------------------------------------------------------ */

static bool numbers_export(struct buffer *numbers, int64_t length, struct ArrowArray *array)
{
    return arrow_export(array, length, 0, (struct buffer *[]){NULL, numbers}, 2, 0);
}

static bool headers_export(struct batch *batch, struct ArrowArray *array)
{
    struct validity *validity = &batch->headers.validity;
    struct ArrowArray *pairs;

    if (!arrow_export(array, validity->length, validity->nulls,
                      (struct buffer *[]){&validity->bits, &batch->headers.offsets}, 2, 1))
        return false;
    pairs = array->children[0];
    return arrow_export(pairs, batch->headers.count, 0, (struct buffer *[]){NULL}, 1, 2) &&
           strings_export(&batch->headers.name, pairs->children[0]) &&
           strings_export(&batch->headers.value, pairs->children[1]);
}

static bool batch_export(struct batch *batch, struct ArrowArray *array)
{
    if (!arrow_export(array, batch->rows, 0, (struct buffer *[]){NULL}, 1, batch->with_headers ? COLUMNS : HEADERS))
        return false;
    return strings_export(&batch->key, array->children[KEY]) && strings_export(&batch->value, array->children[VALUE]) &&
           numbers_export(&batch->offsets, batch->rows, array->children[OFFSET]) &&
           numbers_export(&batch->timestamps, batch->rows, array->children[TIMESTAMP]) &&
           numbers_export(&batch->types, batch->rows, array->children[TIMESTAMP_TYPE]) &&
           (!batch->with_headers || headers_export(batch, array->children[HEADERS]));
}

static void free_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, ARROW_ARRAY_CAPSULE);

    if (array == NULL) {
        PyErr_WriteUnraisable(capsule);
        return;
    }
    /* An importer moves the content and sets this to NULL. */
    if (array->release != NULL)
        array->release(array);
    free(array);
}

PyObject *batch_capsule(struct batch *batch)
{
    struct ArrowArray *array;
    PyObject *capsule;

    if (batch->rows == 0)
        return Py_NewRef(Py_None);
    array = calloc(1, sizeof *array);
    if (array == NULL)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(array, ARROW_ARRAY_CAPSULE, free_array);
    if (capsule == NULL) {
        free(array);
        return NULL;
    }
    if (!batch_export(batch, array)) {
        Py_DECREF(capsule);
        return PyErr_NoMemory();
    }
    return capsule;
}
