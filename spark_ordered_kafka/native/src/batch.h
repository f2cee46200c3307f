/* Records of a partition as a batch of Arrow columns. */
#ifndef ORDERED_KAFKA_BATCH_H
#define ORDERED_KAFKA_BATCH_H

#include "builder.h"
#include "kernel.h"

/* Zeroed, but for `with_headers`, it is empty. The caller keeps `bytes`, the sum of batch_bytes_of(), below 2 GiB. */
struct batch {
    bool with_headers;
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

/* The bytes that a record adds at most: a header's name may grow to three times its size when it is made UTF-8. */
int64_t batch_bytes_of(const struct batch *batch, const rd_kafka_message_t *message);
/* False where there is no memory; the batch is then only to be freed. */
bool batch_append(struct batch *batch, const rd_kafka_message_t *message);
/* A capsule of the batch's struct array, which takes its content; None without rows, NULL with an exception set. */
PyObject *batch_capsule(struct batch *batch);
void batch_free(struct batch *batch);

#endif
