/* The part of librdkafka's public API (rdkafka.h, stable since 1.x) that the kernel calls.
 *
 * The functions are those of the library that confluent-kafka has loaded: a second copy of librdkafka in the process
 * would know nothing of its clients. So nothing is linked; librdkafka_bind() looks each function up by name.
 */
#ifndef ORDERED_KAFKA_LIBRDKAFKA_H
#define ORDERED_KAFKA_LIBRDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef int rd_kafka_resp_err_t;
typedef int rd_kafka_timestamp_type_t;

typedef struct {
    rd_kafka_resp_err_t err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

#define RD_KAFKA_MSG_F_COPY 0x2
#define RD_KAFKA_RESP_ERR__INVALID_ARG (-186)

/* What follows in the arguments of rd_kafka_producev(). */
enum rd_kafka_vtype {
    RD_KAFKA_VTYPE_END = 0,
    RD_KAFKA_VTYPE_RKT = 2,
    RD_KAFKA_VTYPE_PARTITION = 3,
    RD_KAFKA_VTYPE_VALUE = 4,
    RD_KAFKA_VTYPE_KEY = 5,
    RD_KAFKA_VTYPE_MSGFLAGS = 7,
    RD_KAFKA_VTYPE_HEADERS = 10,
};

typedef enum { RD_KAFKA_CONF_UNKNOWN = -2, RD_KAFKA_CONF_INVALID = -1, RD_KAFKA_CONF_OK = 0 } rd_kafka_conf_res_t;

/* What librdkafka calls of a plugin. */
typedef rd_kafka_conf_res_t rd_kafka_on_conf_set(rd_kafka_conf_t *, const char *name, const char *value, char *error,
                                                 size_t error_size, void *opaque);
typedef rd_kafka_resp_err_t rd_kafka_on_conf_destroy(void *opaque);
typedef rd_kafka_resp_err_t rd_kafka_on_new(rd_kafka_t *, const rd_kafka_conf_t *, void *opaque, char *error,
                                            size_t error_size);
typedef rd_kafka_resp_err_t rd_kafka_on_response_received(rd_kafka_t *, int socket, const char *broker,
                                                          int32_t broker_id, int16_t api_key, int16_t api_version,
                                                          int32_t number, size_t size, int64_t microseconds,
                                                          rd_kafka_resp_err_t err, void *opaque);

/* RDKAFKA(result, name, parameters) for each function. */
#define RDKAFKA_FUNCTIONS(RDKAFKA)                                                                                 \
    RDKAFKA(int, rd_kafka_version, (void))                                                                         \
    RDKAFKA(const char *, rd_kafka_err2str, (rd_kafka_resp_err_t err))                                             \
    RDKAFKA(rd_kafka_topic_t *, rd_kafka_topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *))         \
    RDKAFKA(void, rd_kafka_topic_destroy, (rd_kafka_topic_t *))                                                    \
    RDKAFKA(int, rd_kafka_produce_batch,                                                                           \
            (rd_kafka_topic_t *, int32_t partition, int flags, rd_kafka_message_t *, int count))                   \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_producev, (rd_kafka_t *, ...))                                           \
    RDKAFKA(rd_kafka_headers_t *, rd_kafka_headers_new, (size_t initial_count))                                    \
    RDKAFKA(void, rd_kafka_headers_destroy, (rd_kafka_headers_t *))                                                \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_header_add,                                                              \
            (rd_kafka_headers_t *, const char *name, ssize_t name_size, const void *value, ssize_t size))          \
    RDKAFKA(rd_kafka_queue_t *, rd_kafka_queue_get_partition, (rd_kafka_t *, const char *topic, int32_t partition)) \
    RDKAFKA(void, rd_kafka_queue_forward, (rd_kafka_queue_t *, rd_kafka_queue_t *to))                              \
    RDKAFKA(void, rd_kafka_queue_destroy, (rd_kafka_queue_t *))                                                    \
    RDKAFKA(int, rd_kafka_consume_callback_queue,                                                                  \
            (rd_kafka_queue_t *, int timeout_ms, void (*)(rd_kafka_message_t *, void *opaque), void *opaque))      \
    RDKAFKA(void, rd_kafka_yield, (rd_kafka_t *))                                                                  \
    RDKAFKA(const char *, rd_kafka_message_errstr, (const rd_kafka_message_t *))                                   \
    RDKAFKA(int64_t, rd_kafka_message_timestamp, (const rd_kafka_message_t *, rd_kafka_timestamp_type_t *))        \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))    \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_header_get_all,                                                          \
            (const rd_kafka_headers_t *, size_t, const char **name, const void **value, size_t *size))              \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_conf_interceptor_add_on_conf_set,                                        \
            (rd_kafka_conf_t *, const char *name, rd_kafka_on_conf_set *, void *opaque))                           \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_conf_interceptor_add_on_conf_destroy,                                    \
            (rd_kafka_conf_t *, const char *name, rd_kafka_on_conf_destroy *, void *opaque))                       \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_conf_interceptor_add_on_new,                                             \
            (rd_kafka_conf_t *, const char *name, rd_kafka_on_new *, void *opaque))                                \
    RDKAFKA(rd_kafka_resp_err_t, rd_kafka_interceptor_add_on_response_received,                                    \
            (rd_kafka_t *, const char *name, rd_kafka_on_response_received *, void *opaque))

struct librdkafka {
#define RDKAFKA_MEMBER(result, name, parameters) result(*name) parameters;
    RDKAFKA_FUNCTIONS(RDKAFKA_MEMBER)
#undef RDKAFKA_MEMBER
};

/* The functions, once they are bound. */
extern struct librdkafka rk;

/* Look the functions up in the shared library at `path` and in those it depends on. Returns NULL, or the name of what is
 * missing (the path itself where it is not loaded). */
const char *librdkafka_bind(const char *path);

#endif
