/* Reads a topic from its start and counts: what librdkafka can do where nothing is done with the records.
 *
 * consume LIBRDKAFKA BOOTSTRAP_SERVERS TOPIC PARTITIONS RECORDS
 *
 * Prints how many records came after the first batch, and in how many seconds. Nothing is linked: the library is the one
 * that confluent-kafka brings, named by its path.
 */
#define _POSIX_C_SOURCE 200809L

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#define BATCH 10000
#define TIMEOUT_MS 10000
#define CONSUMER 1

/* The part of rdkafka.h that is used. */
typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_partitions_s rd_kafka_partitions_t;

typedef struct {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *own;
} rd_kafka_message_t;

static rd_kafka_conf_t *(*conf_new)(void);
static int (*conf_set)(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
static rd_kafka_t *(*kafka_new)(int, rd_kafka_conf_t *, char *, size_t);
static rd_kafka_partitions_t *(*list_new)(int);
static struct rd_kafka_topic_partition_s *(*list_add)(rd_kafka_partitions_t *, const char *, int32_t);
static int (*list_set_offset)(rd_kafka_partitions_t *, const char *, int32_t, int64_t);
static int (*assign)(rd_kafka_t *, const rd_kafka_partitions_t *);
static rd_kafka_queue_t *(*queue_get)(rd_kafka_t *);
static ssize_t (*consume_batch)(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
static void (*message_destroy)(rd_kafka_message_t *);

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void find(void *library, const char *name, void *function) {
    /* ISO C has no cast from an object's pointer to a function's; POSIX promises that they have the same form. */
    void *found = dlsym(library, name);
    if (found == NULL)
        fail(name, "not in librdkafka");
    memcpy(function, &found, sizeof found);
}

static void bind(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL)
        fail(path, dlerror());
    find(library, "rd_kafka_conf_new", &conf_new);
    find(library, "rd_kafka_conf_set", &conf_set);
    find(library, "rd_kafka_new", &kafka_new);
    find(library, "rd_kafka_topic_partition_list_new", &list_new);
    find(library, "rd_kafka_topic_partition_list_add", &list_add);
    find(library, "rd_kafka_topic_partition_list_set_offset", &list_set_offset);
    find(library, "rd_kafka_assign", &assign);
    find(library, "rd_kafka_queue_get_consumer", &queue_get);
    find(library, "rd_kafka_consume_batch_queue", &consume_batch);
    find(library, "rd_kafka_message_destroy", &message_destroy);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[256];
    if (conf_set(conf, name, value, why, sizeof why) != 0)
        fail(name, why);
}

static rd_kafka_t *consumer(const char *bootstrap_servers) {
    char why[256];
    rd_kafka_conf_t *conf = conf_new();
    set(conf, "bootstrap.servers", bootstrap_servers);
    set(conf, "group.id", "bench");
    set(conf, "enable.auto.commit", "false");
    set(conf, "isolation.level", "read_committed");
    set(conf, "fetch.queue.backoff.ms", "1");
    rd_kafka_t *made = kafka_new(CONSUMER, conf, why, sizeof why);
    if (made == NULL)
        fail("consumer", why);
    return made;
}

static long consume(rd_kafka_queue_t *queue, long most) {
    static rd_kafka_message_t *messages[BATCH];
    long records = 0;
    ssize_t count = consume_batch(queue, TIMEOUT_MS, messages, (size_t)(most < BATCH ? most : BATCH));
    for (ssize_t i = 0; i < count; i++) {
        records += messages[i]->err == 0;
        message_destroy(messages[i]);
    }
    if (records == 0)
        fail("consume", "no records came for 10 s");
    return records;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 6)
        fail(argv[0], "give LIBRDKAFKA BOOTSTRAP_SERVERS TOPIC PARTITIONS RECORDS");
    bind(argv[1]);
    rd_kafka_t *reader = consumer(argv[2]);
    int partitions = atoi(argv[4]);
    long records = atol(argv[5]);
    rd_kafka_partitions_t *list = list_new(partitions);
    for (int32_t p = 0; p < partitions; p++) {
        list_add(list, argv[3], p);
        list_set_offset(list, argv[3], p, 0);
    }
    if (assign(reader, list) != 0)
        fail(argv[3], "cannot be assigned");
    rd_kafka_queue_t *queue = queue_get(reader);
    /* Connecting and looking for leaders are no part of the time. */
    long left = records - consume(queue, records / 10 + 1), after_first = left;
    double begun = seconds();
    while (left > 0)
        left -= consume(queue, left);
    printf("%ld %.6f\n", after_first, seconds() - begun);
    /* The process ends here: what it holds goes with it. */
    return 0;
}
