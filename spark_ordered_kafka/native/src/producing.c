/* Queueing rows in librdkafka: each in the partition of its key, in their order within a partition. */
#include "hashing.h"
#include "rows.h"

#include <stdlib.h>
#include <string.h>

/* Rows that are sorted by partition at a time: what is made of them stays in the processor's cache. */
#define CHUNK 2048

/* A call, and how far it has come. */
struct produce {
    rd_kafka_t *handle;
    rd_kafka_topic_t *topic;
    struct rows rows;
    struct placement placement;
    unsigned long long turn; /* of null keys, which take turns over all partitions */
    long long start;
    long long room_rows;
    long long room_bytes;
    long long taken; /* rows that were queued, or were to be when one was refused */
    long long bytes;
    long long largest; /* bytes of the largest row */
    rd_kafka_resp_err_t error;
    long long refused; /* the row with the error */
};

struct scratch {
    rd_kafka_message_t messages[CHUNK];
    int32_t partitions[CHUNK];
    uint32_t ends[]; /* of each partition's rows among the messages */
};

static struct text key_of(const struct produce *call, int64_t row)
{
    return column_text(&call->rows.keys, row);
}

static struct text value_of(const struct produce *call, int64_t row)
{
    return column_text(&call->rows.values, row);
}

static int64_t size_of_headers(const struct headers_column *headers, int64_t row)
{
    int64_t size = 0, last, first = headers_of(headers, row, &last);

    for (int64_t header = first; header < last; header++)
        size += (int64_t)(column_text(&headers->keys, header).length + column_text(&headers->values, header).length);
    return size;
}

static int32_t partition_of(struct produce *call, struct text key)
{
    if (key.data == NULL)
        return (int32_t)(call->turn++ % call->placement.count);
    return placement_of(&call->placement, key);
}

/* The rows of the next chunk, as many as there is room for and at least one; their partitions are noted. */
static int take_chunk(struct produce *call, struct scratch *scratch)
{
    int64_t first = call->start + call->taken, rows = call->rows.length - first;
    int count = 0;

    if (rows > call->room_rows - call->taken)
        rows = call->room_rows - call->taken;
    for (; count < CHUNK && (count < rows || call->taken + count == 0); count++) {
        struct text key = key_of(call, first + count);
        int64_t size = (int64_t)(key.length + value_of(call, first + count).length);

        if (call->rows.with_headers)
            size += size_of_headers(&call->rows.headers, first + count);
        if (call->bytes + size > call->room_bytes && call->taken + count > 0)
            break;
        call->bytes += size;
        if (size > call->largest)
            call->largest = size;
        scratch->partitions[count] = partition_of(call, key);
    }
    return count;
}

/* Sort the chunk's rows by partition, stably, and point the messages to them. */
static void sort_chunk(const struct produce *call, struct scratch *scratch, int count)
{
    int64_t first = call->start + call->taken;
    uint32_t sum = 0, *ends = scratch->ends;

    memset(ends, 0, call->placement.count * sizeof *ends);
    for (int row = 0; row < count; row++)
        ends[scratch->partitions[row]]++;
    for (uint32_t partition = 0; partition < call->placement.count; partition++) {
        uint32_t rows = ends[partition];

        ends[partition] = sum;
        sum += rows;
    }
    memset(scratch->messages, 0, (size_t)count * sizeof *scratch->messages);
    for (int row = 0; row < count; row++) {
        rd_kafka_message_t *message = &scratch->messages[ends[scratch->partitions[row]]++];
        struct text key = key_of(call, first + row), value = value_of(call, first + row);

        /* librdkafka copies what they point to. */
        message->key = (void *)(uintptr_t)key.data;
        message->key_len = key.length;
        message->payload = (void *)(uintptr_t)value.data;
        message->len = value.length;
    }
}

/* The row of the chunk that is the `place`-th one of its partition. */
static int64_t nth_of(const struct scratch *scratch, int32_t partition, int place)
{
    int row = 0;

    while (scratch->partitions[row] != partition || place-- > 0)
        row++;
    return row;
}

/* Returns false where a row was refused; rows of other partitions, and behind it, may have been queued by then. */
static bool produce_chunk(struct produce *call, struct scratch *scratch, int count)
{
    uint32_t start = 0;

    sort_chunk(call, scratch, count);
    /* A call per partition: with one for all (RD_KAFKA_MSG_F_PARTITION) librdkafka 2.16 loses count of a record whose
     * partition it does not know, so that its queue never gets empty. */
    for (uint32_t partition = 0; partition < call->placement.count; partition++) {
        rd_kafka_message_t *messages = scratch->messages + start;
        int rows = (int)(scratch->ends[partition] - start), place = 0;

        start = scratch->ends[partition];
        if (rows == 0
            || rk.rd_kafka_produce_batch(call->topic, (int32_t)partition, RD_KAFKA_MSG_F_COPY, messages, rows) == rows)
            continue;
        while (messages[place].err == 0)
            place++;
        call->error = messages[place].err;
        call->refused = call->start + call->taken + nth_of(scratch, (int32_t)partition, place);
        return false;
    }
    return true;
}

/* NULL where memory is short or a header's key is null. */
static rd_kafka_headers_t *headers_for(const struct headers_column *headers, int64_t first, int64_t last)
{
    rd_kafka_headers_t *made = rk.rd_kafka_headers_new((size_t)(last - first));

    for (int64_t header = first; made != NULL && header < last; header++) {
        struct text key = column_text(&headers->keys, header), value = column_text(&headers->values, header);

        if (key.data == NULL
            || rk.rd_kafka_header_add(made, (const char *)key.data, (ssize_t)key.length, value.data, (ssize_t)value.length)
                   != 0) {
            rk.rd_kafka_headers_destroy(made);
            return NULL;
        }
    }
    return made;
}

static rd_kafka_resp_err_t produce_with_headers(const struct produce *call, int64_t row, int32_t partition)
{
    struct text key = key_of(call, row), value = value_of(call, row);
    rd_kafka_headers_t *headers = NULL;
    rd_kafka_resp_err_t error;
    int64_t last, first = headers_of(&call->rows.headers, row, &last);

    if (first < last && (headers = headers_for(&call->rows.headers, first, last)) == NULL)
        return RD_KAFKA_RESP_ERR__INVALID_ARG;
    error = rk.rd_kafka_producev(call->handle, RD_KAFKA_VTYPE_RKT, call->topic, RD_KAFKA_VTYPE_PARTITION, partition,
                                 RD_KAFKA_VTYPE_MSGFLAGS, RD_KAFKA_MSG_F_COPY, RD_KAFKA_VTYPE_KEY, key.data, key.length,
                                 RD_KAFKA_VTYPE_VALUE, value.data, value.length, RD_KAFKA_VTYPE_HEADERS, headers,
                                 RD_KAFKA_VTYPE_END);
    /* A record that was refused leaves them to us. */
    if (error != 0 && headers != NULL)
        rk.rd_kafka_headers_destroy(headers);
    return error;
}

static bool produce_each(struct produce *call, const struct scratch *scratch, int count)
{
    for (int row = 0; row < count; row++) {
        call->refused = call->start + call->taken + row;
        call->error = produce_with_headers(call, call->refused, scratch->partitions[row]);
        if (call->error != 0)
            return false;
    }
    return true;
}

static void produce_rows(struct produce *call, struct scratch *scratch)
{
    int count;

    do {
        count = take_chunk(call, scratch);
        if (!(call->rows.with_headers ? produce_each(call, scratch, count) : produce_chunk(call, scratch, count)))
            return;
        call->taken += count;
    } while (count == CHUNK);
}

/* Returns false with a Python exception set. */
static bool run(struct produce *call, const char *topic)
{
    struct scratch *scratch = malloc(sizeof *scratch + call->placement.count * sizeof *scratch->ends);

    if (scratch == NULL) {
        PyErr_NoMemory();
        return false;
    }
    Py_BEGIN_ALLOW_THREADS;
    /* A handle for each call, as confluent-kafka has it: librdkafka cannot be ended while one is there. */
    call->topic = rk.rd_kafka_topic_new(call->handle, topic, NULL);
    if (call->topic == NULL) {
        call->error = RD_KAFKA_RESP_ERR__INVALID_ARG;
    } else {
        produce_rows(call, scratch);
        rk.rd_kafka_topic_destroy(call->topic);
    }
    Py_END_ALLOW_THREADS;
    free(scratch);
    return true;
}

static PyObject *produce(PyObject *self, PyObject *args)
{
    PyObject *producer, *keys, *values, *headers;
    const char *topic, *hash;
    long long initial_count, count;
    struct produce call = {0};
    bool done;

    (void)self;
    if (!PyArg_ParseTuple(args, "Os(sLL)KOOOLLL", &producer, &topic, &hash, &initial_count, &count, &call.turn, &keys,
                          &values, &headers, &call.start, &call.room_rows, &call.room_bytes)
        || !placement_open(&call.placement, hash, initial_count, count) || (call.handle = handle_of(producer)) == NULL
        || !rows_open(&call.rows, keys, values, headers))
        return NULL;
    done = call.start >= 0 && call.start < call.rows.length;
    if (!done)
        PyErr_Format(PyExc_ValueError, "there is no row %lld among %lld", call.start, (long long)call.rows.length);
    done = done && run(&call, topic);
    rows_close(&call.rows);
    if (!done)
        return NULL;
    return Py_BuildValue("LLLKiL", call.taken, call.bytes, call.largest, call.turn, (int)call.error, call.refused);
}

PyMethodDef producing_methods[] = {
    {"produce", produce, METH_VARARGS,
     "produce(producer, topic, (hash, initial_count, count), turn, keys, values, headers, start, room_rows, room_bytes)\n"
     "-> (rows, bytes, largest, turn, error, row)\n\n"
     "Queue rows from start on, as many as there is room for and at least one, each in its key's partition. turn: of null\n"
     "keys, which take turns. error is librdkafka's code, not 0 where it refused the row; others may have been queued by\n"
     "then, so the transaction must be given up."},
    {NULL, NULL, 0, NULL},
};
