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

#include "batch.h"

#define CAPSULE "spark_ordered_kafka.reading"

struct reading {
    PyObject *consumer;
    rd_kafka_t *handle;
    rd_kafka_queue_t *queue;
    bool busy;
};

struct limits {
    int64_t end, records, bytes;
    int timeout;
};

/* What is no record: the end of the partition, or an error. */
struct event {
    bool happened;
    rd_kafka_resp_err_t code;
    int64_t offset;
    char *text;
};

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
    int64_t size = batch_bytes_of(&filling->batch, message);

    if (message->offset >= limits->end) {
        filling->position = limits->end;
        return DONE;
    }
    if (filling->batch.bytes + size > INT32_MAX)
        return TOO_LARGE;
    if (!batch_append(&filling->batch, message))
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
        /* Without an assignment, messages left in the queue would stay in memory with the partition. */
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
    array = batch_capsule(&filling->batch);
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
    limits.end = end, limits.records = records, limits.bytes = bytes, filling.batch.with_headers = headers != 0;
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
