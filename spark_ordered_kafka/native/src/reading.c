/* Draining one assigned partition into Arrow arrays, without Python's lock.
 *
 * Records are taken from the partition's own queue, not from the consumer's: whatever makes confluent-kafka call Python
 * (logs, statistics, errors) stays in the consumer's queue, and is served by confluent-kafka's own poll(). And they are
 * taken by rd_kafka_consume_callback_queue(): rd_kafka_consume_batch_queue() would call confluent-kafka for an error of
 * the partition's, and that ends the process where the call did not come through confluent-kafka. */
#include "reading.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "builder.h"

#define CAPSULE "spark_ordered_kafka.reading"
#define TIMESTAMP_NOT_AVAILABLE 0

/* The columns of a drained batch, in the order of native/draining.py's schema. */
enum { KEY, VALUE, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS, COLUMNS };

struct reading {
    PyObject *consumer;
    rd_kafka_t *handle;
    rd_kafka_queue_t *queue;
    bool busy;
};

struct limits {
    int64_t end, records, bytes;
    int timeout;
    bool headers;
};

struct batch {
    int64_t rows, bytes;
    struct strings key, value;
    struct buffer offsets, timestamps, types;
    struct {
        struct validity validity;
        struct buffer offsets;
        int32_t count;
        struct strings name, value;
    } headers;
};

/* What is no record: the end of the partition, or an error. */
struct event {
    bool happened;
    rd_kafka_resp_err_t code;
    int64_t offset;
    char *text;
};

static void batch_free(struct batch *batch)
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

static const rd_kafka_headers_t *headers_of(const rd_kafka_message_t *message, const struct limits *limits)
{
    rd_kafka_headers_t *headers;

    if (!limits->headers || rk.rd_kafka_message_headers(message, &headers) != 0)
        return NULL;
    return headers;
}

/* The bytes of a record as they count here; a name may grow to three times its size when it is made UTF-8. */
static int64_t size_of(const rd_kafka_message_t *message, const rd_kafka_headers_t *headers)
{
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

/* Microseconds, the largest or least there is for what cannot be told in them. */
static int64_t microseconds(int64_t milliseconds)
{
    if (milliseconds > INT64_MAX / 1000)
        return INT64_MAX;
    return milliseconds < INT64_MIN / 1000 ? INT64_MIN : milliseconds * 1000;
}

static bool append(struct batch *batch, const rd_kafka_message_t *message, const rd_kafka_headers_t *headers,
                   const struct limits *limits)
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
           (!limits->headers || append_headers(batch, headers));
}

/* -- a batch ------------------------------------------------------------------------------------------------------- */

/* EMPTY: nothing more is there. TOO_LARGE: the record would make the offsets into the batch's bytes overflow. */
enum outcome { GO_ON, DONE, EMPTY, NO_MEMORY, TOO_LARGE };

struct filling {
    rd_kafka_t *handle;
    const struct limits *limits;
    struct batch batch;
    struct event event;
    int64_t position;
    enum outcome outcome;
};

static bool is_full(const struct batch *batch, const struct limits *limits)
{
    return batch->rows >= limits->records || batch->bytes >= limits->bytes;
}

static enum outcome take_event(const rd_kafka_message_t *message, struct event *event)
{
    event->happened = true;
    event->code = message->err;
    event->offset = message->offset;
    event->text = strdup(rk.rd_kafka_message_errstr(message));
    return event->text != NULL ? DONE : NO_MEMORY;
}

static enum outcome take_record(const rd_kafka_message_t *message, struct filling *filling)
{
    const struct limits *limits = filling->limits;
    const rd_kafka_headers_t *headers = headers_of(message, limits);
    int64_t size = size_of(message, headers);

    if (message->offset >= limits->end) {
        filling->position = limits->end;
        return DONE;
    }
    if (filling->batch.bytes + size > INT32_MAX)
        return TOO_LARGE;
    if (!append(&filling->batch, message, headers, limits))
        return NO_MEMORY;
    filling->batch.bytes += size;
    filling->position = message->offset + 1;
    return filling->position < limits->end && !is_full(&filling->batch, limits) ? GO_ON : DONE;
}

/* Called for each message; what comes behind a batch's end stays in the queue. */
static void take(rd_kafka_message_t *message, void *opaque)
{
    struct filling *filling = opaque;

    filling->outcome = message->err != 0 ? take_event(message, &filling->event) : take_record(message, filling);
    if (filling->outcome != GO_ON)
        rk.rd_kafka_yield(filling->handle);
}

static int64_t milliseconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Wait for a first message, and take what is there then. */
static void fill(struct reading *reading, struct filling *filling)
{
    int64_t deadline = milliseconds_now() + filling->limits->timeout, left = filling->limits->timeout;
    int served = 1;

    /* librdkafka's own marks are served, too, and are no reason to wait no longer. */
    while (filling->outcome == GO_ON && (served > 0 || left > 0)) {
        left = filling->batch.rows > 0 ? 0 : deadline - milliseconds_now();
        served = rk.rd_kafka_consume_callback_queue(reading->queue, left > 0 ? (int)left : 0, take, filling);
    }
    if (filling->outcome == GO_ON)
        filling->outcome = EMPTY;
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

static bool batch_export(struct batch *batch, const struct limits *limits, struct ArrowArray *array)
{
    if (!arrow_export(array, batch->rows, 0, (struct buffer *[]){NULL}, 1, limits->headers ? COLUMNS : HEADERS))
        return false;
    return strings_export(&batch->key, array->children[KEY]) && strings_export(&batch->value, array->children[VALUE]) &&
           numbers_export(&batch->offsets, batch->rows, array->children[OFFSET]) &&
           numbers_export(&batch->timestamps, batch->rows, array->children[TIMESTAMP]) &&
           numbers_export(&batch->types, batch->rows, array->children[TIMESTAMP_TYPE]) &&
           (!limits->headers || headers_export(batch, array->children[HEADERS]));
}

static void free_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, ARROW_ARRAY_CAPSULE);

    if (array == NULL) {
        PyErr_WriteUnraisable(capsule);
        return;
    }
    /* Whoever has imported it has moved the content, and set this to NULL. */
    if (array->release != NULL)
        array->release(array);
    free(array);
}

/* A capsule of the batch's struct array, None without rows. */
static PyObject *batch_capsule(struct batch *batch, const struct limits *limits)
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
    if (!batch_export(batch, limits, array)) {
        Py_DECREF(capsule);
        return PyErr_NoMemory();
    }
    return capsule;
}

static PyObject *event_tuple(const struct event *event)
{
    if (!event->happened)
        return Py_NewRef(Py_None);
    return Py_BuildValue("isL", (int)event->code, event->text, (long long)event->offset);
}

/* -- for Python ---------------------------------------------------------------------------------------------------- */

static void drop(rd_kafka_message_t *message, void *opaque)
{
    (void)message, (void)opaque;
}

static void reading_free(PyObject *capsule)
{
    struct reading *reading = PyCapsule_GetPointer(capsule, CAPSULE);

    if (reading == NULL) {
        PyErr_WriteUnraisable(capsule);
        return;
    }
    if (reading->queue != NULL) {
        Py_BEGIN_ALLOW_THREADS
        /* Without an assignment nobody takes what is left there; it would be kept with the partition. */
        while (rk.rd_kafka_consume_callback_queue(reading->queue, 0, drop, NULL) > 0)
            ;
        rk.rd_kafka_queue_destroy(reading->queue);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(reading->consumer);
    free(reading);
}

static PyObject *open_partition(PyObject *self, PyObject *args)
{
    PyObject *consumer, *capsule;
    rd_kafka_t *handle;
    struct reading *reading;
    const char *topic;
    int partition;

    (void)self;
    if (!PyArg_ParseTuple(args, "Osi", &consumer, &topic, &partition) || (handle = handle_of(consumer)) == NULL)
        return NULL;
    reading = calloc(1, sizeof *reading);
    if (reading == NULL)
        return PyErr_NoMemory();
    capsule = PyCapsule_New(reading, CAPSULE, reading_free);
    if (capsule == NULL) {
        free(reading);
        return NULL;
    }
    reading->consumer = Py_NewRef(consumer);
    reading->handle = handle;
    reading->queue = rk.rd_kafka_queue_get_partition(handle, topic, partition);
    if (reading->queue == NULL) {
        Py_DECREF(capsule);
        return PyErr_Format(PyExc_RuntimeError, "librdkafka has no queue for %s-%d", topic, partition);
    }
    rk.rd_kafka_queue_forward(reading->queue, NULL);
    return capsule;
}

static PyObject *result_of(struct filling *filling)
{
    PyObject *array, *event, *result = NULL;

    if (filling->outcome == NO_MEMORY)
        return PyErr_NoMemory();
    if (filling->outcome == TOO_LARGE)
        return PyErr_Format(PyExc_OverflowError, "the record at offset %lld is too large for an Arrow array",
                            (long long)filling->position);
    array = batch_capsule(&filling->batch, filling->limits);
    if (array == NULL)
        return NULL;
    event = event_tuple(&filling->event);
    if (event != NULL)
        result = Py_BuildValue("OLOO", array, (long long)filling->position, event,
                               filling->outcome == EMPTY ? Py_True : Py_False);
    Py_XDECREF(event);
    Py_DECREF(array);
    return result;
}

static bool check_limits(const struct limits *limits)
{
    bool right = limits->records >= 1 && limits->records < INT32_MAX && limits->bytes >= 1 && limits->timeout >= 0;

    if (!right)
        PyErr_SetString(PyExc_ValueError, "a batch has from 1 to 2147483646 records and a byte at least; times are from 0");
    return right;
}

static PyObject *drain(PyObject *self, PyObject *args)
{
    long long position, end, records, bytes;
    struct limits limits;
    struct filling filling = {.limits = &limits, .outcome = GO_ON};
    struct reading *reading;
    PyObject *capsule, *result;
    int headers;

    (void)self;
    if (!PyArg_ParseTuple(args, "OLLLLip", &capsule, &position, &end, &records, &bytes, &limits.timeout, &headers))
        return NULL;
    limits.end = end, limits.records = records, limits.bytes = bytes, limits.headers = headers != 0;
    reading = PyCapsule_GetPointer(capsule, CAPSULE);
    if (reading == NULL || !check_limits(&limits))
        return NULL;
    if (reading->busy)
        return PyErr_Format(PyExc_RuntimeError, "another thread drains this partition");
    filling.handle = reading->handle;
    filling.position = position;
    reading->busy = true;
    Py_BEGIN_ALLOW_THREADS
    fill(reading, &filling);
    Py_END_ALLOW_THREADS
    reading->busy = false;
    result = result_of(&filling);
    batch_free(&filling.batch);
    free(filling.event.text);
    return result;
}

PyMethodDef reading_methods[] = {
    {"open_partition", open_partition, METH_VARARGS,
     "open_partition(consumer, topic, partition) -> capsule\n\nTake the partition's records away from the consumer's poll():"
     " they come by drain() only. Call it before the partition is\nassigned, and drop the capsule after it is unassigned."},
    {"drain", drain, METH_VARARGS,
     "drain(capsule, position, end, records, bytes, timeout_ms, headers) -> (array, position, event, empty)\n\n"
     "Wait for a record of the partition and take what is there, without Python's lock: records below the offset `end`, at\n"
     "most so many, and no more once they have `bytes` bytes. `array` is a capsule of an ArrowArray (a struct), or None\n"
     "without records; `position` the offset behind the last record, `end` where one at or beyond it was met; `event`\n"
     "(code, text, offset) ends the batch, behind its records, or is None; `empty` says whether nothing more was there."},
    {NULL, NULL, 0, NULL},
};
