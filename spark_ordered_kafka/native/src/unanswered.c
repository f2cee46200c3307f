/* A request whose connection broke, or that timed out, may still reach its broker, after whatever was sent in its stead.
 * librdkafka tells its plugins of each, before it sends it again: so once the outcome of a transaction is known, the
 * number of its lost requests is, too.
 */
#include "unanswered.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME "ordered-kafka"
#define PROPERTY "ordered.kafka.unanswered"

/* Belongs to a Python object and to the client whose configuration names its address. */
struct counter {
    atomic_int owners;
    atomic_llong unanswered;
};

static void disown(struct counter *counter)
{
    if (atomic_fetch_sub(&counter->owners, 1) == 1)
        free(counter);
}

/* Those by which a transaction is made; what another one was asked for matters to no later transaction. */
static int is_of_a_transaction(int16_t api_key)
{
    switch (api_key) {
    case 0:  /* Produce */
    case 24: /* AddPartitionsToTxn */
    case 25: /* AddOffsetsToTxn */
    case 26: /* EndTxn */
    case 28: /* TxnOffsetCommit */
        return 1;
    default:
        return 0;
    }
}

static rd_kafka_resp_err_t on_response(rd_kafka_t *client, int socket, const char *broker, int32_t broker_id,
                                       int16_t api_key, int16_t api_version, int32_t number, size_t size,
                                       int64_t microseconds, rd_kafka_resp_err_t err, void *counter)
{
    (void)client, (void)socket, (void)broker, (void)broker_id, (void)api_version, (void)number, (void)size;
    (void)microseconds;
    if (err != 0 && is_of_a_transaction(api_key))
        atomic_fetch_add(&((struct counter *)counter)->unanswered, 1);
    return 0;
}

static rd_kafka_resp_err_t on_new(rd_kafka_t *client, const rd_kafka_conf_t *conf, void *counter, char *error,
                                  size_t error_size)
{
    (void)conf, (void)error, (void)error_size;
    return rk.rd_kafka_interceptor_add_on_response_received(client, NAME, on_response, counter);
}

static rd_kafka_resp_err_t on_conf_destroy(void *counter)
{
    /* Of a client's configuration: all its threads have ended. */
    disown(counter);
    return 0;
}

static rd_kafka_conf_res_t on_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error,
                                       size_t error_size, void *unused)
{
    struct counter *counter;

    (void)error, (void)error_size, (void)unused;
    if (strcmp(name, PROPERTY) != 0)
        return RD_KAFKA_CONF_UNKNOWN;
    counter = (struct counter *)(uintptr_t)strtoull(value, NULL, 10);
    if (rk.rd_kafka_conf_interceptor_add_on_conf_destroy(conf, NAME, on_conf_destroy, counter) != 0)
        return RD_KAFKA_CONF_INVALID;
    atomic_fetch_add(&counter->owners, 1);
    return rk.rd_kafka_conf_interceptor_add_on_new(conf, NAME, on_new, counter) == 0 ? RD_KAFKA_CONF_OK
                                                                                    : RD_KAFKA_CONF_INVALID;
}

rd_kafka_resp_err_t conf_init(rd_kafka_conf_t *conf, void **opaque, char *error, size_t error_size)
{
    (void)opaque, (void)error, (void)error_size;
    return rk.rd_kafka_conf_interceptor_add_on_conf_set(conf, NAME, on_conf_set, NULL);
}

static void destroy(PyObject *capsule)
{
    disown(PyCapsule_GetPointer(capsule, NAME));
}

static PyObject *counter_new(PyObject *self, PyObject *unused)
{
    struct counter *counter = malloc(sizeof *counter);
    PyObject *capsule;

    (void)self, (void)unused;
    if (counter == NULL)
        return PyErr_NoMemory();
    atomic_init(&counter->owners, 1);
    atomic_init(&counter->unanswered, 0);
    capsule = PyCapsule_New(counter, NAME, destroy);
    if (capsule == NULL)
        free(counter);
    return capsule;
}

static PyObject *counter_property(PyObject *self, PyObject *capsule)
{
    void *counter = PyCapsule_GetPointer(capsule, NAME);

    (void)self;
    return counter == NULL ? NULL : Py_BuildValue("sN", PROPERTY, PyUnicode_FromFormat("%zu", (size_t)counter));
}

static PyObject *counter_value(PyObject *self, PyObject *capsule)
{
    struct counter *counter = PyCapsule_GetPointer(capsule, NAME);

    (void)self;
    return counter == NULL ? NULL : PyLong_FromLongLong(atomic_load(&counter->unanswered));
}

PyMethodDef unanswered_methods[] = {
    {"unanswered_new", counter_new, METH_NOARGS,
     "unanswered_new() -> counter\n\nOf the requests of one producer's transactions that got no answer."},
    {"unanswered_property", counter_property, METH_O,
     "unanswered_property(counter) -> (str, str)\n\nThe property by which a producer's configuration names the counter. It"
     " must have this\nmodule's file in plugin.library.paths."},
    {"unanswered", counter_value, METH_O,
     "unanswered(counter) -> int\n\nHow many there were. Once the outcome of a transaction is known, the number has all that"
     " were lost in it."},
    {NULL, NULL, 0, NULL},
};
