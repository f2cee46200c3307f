/* Messages of confluent-kafka's consumers, many at a time.
 *
 * The largest cost of consume() is Python's cyclic collector, which looks at each new message for cycles: it is disabled
 * while messages are made, and does not track them after that (message_class.h). */
#include "messages.h"

#include <stdbool.h>

#include "hashing.h"
#include "message_class.h"

/* The size of Python's youngest generation, by default. */
#define MANY 700

static PyObject *collect; /* gc.collect() */

static bool find_collect(void)
{
    PyObject *module = PyImport_ImportModule("gc");

    if (collect == NULL && module != NULL)
        collect = PyObject_GetAttrString(module, "collect");
    Py_XDECREF(module);
    return collect != NULL;
}

PyObject *messages_bind(void)
{
    return find_collect() ? message_class() : NULL;
}

/* -- fetching ------------------------------------------------------------------------------------------------------ */

/* `first`, and what is there already behind it. */
static PyObject *with_others(PyObject *consumer, PyObject *first, int others)
{
    PyObject *found = PyObject_CallMethod(consumer, "consume", "id", others, 0.0);

    if (found == NULL)
        return NULL;
    if (PyList_Insert(found, 0, first) < 0) {
        Py_DECREF(found);
        return NULL;
    }
    for (Py_ssize_t place = 0, count = PyList_Size(found); place < count; place++)
        message_adopt(PyList_GetItem(found, place));
    return found;
}

/* So many new objects make the collector look at the youngest ones as soon as it may, and at each message of the list, and
 * of those that are made of it. Before it knows the list it has next to nothing to look at. Returns false with an exception
 * set. */
static bool collect_youngest(PyObject *list)
{
    PyObject *done;

    if (PyList_Size(list) < MANY)
        return true;
    PyObject_GC_UnTrack(list);
    done = PyObject_CallFunction(collect, "i", 0);
    PyObject_GC_Track(list);
    Py_XDECREF(done);
    return done != NULL;
}

static PyObject *fetch(PyObject *self, PyObject *args)
{
    PyObject *consumer, *first, *found;
    int most, collects;
    double wait;

    (void)self;
    if (!PyArg_ParseTuple(args, "Oid", &consumer, &most, &wait))
        return NULL;
    first = PyObject_CallMethod(consumer, "poll", "d", wait);
    if (first == NULL)
        return NULL;
    if (first == Py_None) {
        Py_DECREF(first);
        return PyList_New(0);
    }
    collects = PyGC_Disable();
    found = with_others(consumer, first, most - 1);
    if (collects) {
        PyGC_Enable();
        if (found != NULL && !collect_youngest(found))
            Py_CLEAR(found);
    }
    Py_DECREF(first);
    return found;
}

/* -- runs ---------------------------------------------------------------------------------------------------------- */

static bool check_list(PyObject *messages)
{
    if (!PyList_Check(messages))
        PyErr_Format(PyExc_TypeError, "messages must be a list, not %R", Py_TYPE(messages));
    return PyList_Check(messages);
}

/* Borrowed; NULL with TypeError set for what is no message. */
static PyObject *message_at(PyObject *messages, Py_ssize_t at)
{
    PyObject *message = PyList_GetItem(messages, at);

    if (message == NULL || Py_IS_TYPE(message, message_type) || PyObject_TypeCheck(message, message_base.type))
        return message;
    return PyErr_Format(PyExc_TypeError, "messages must hold messages, not %R", Py_TYPE(message));
}

/* Where a message lies; no topic where it is no record. */
struct place {
    PyObject *topic;
    PyObject *partition;
};

static void place_clear(struct place *place)
{
    Py_CLEAR(place->topic);
    Py_CLEAR(place->partition);
}

/* Returns false with an exception set; NULL is no message. */
static bool place_of(PyObject *message, struct place *place)
{
    PyObject *error = message == NULL ? NULL : message_base.error(message, NULL);

    place->topic = place->partition = NULL;
    if (error == NULL)
        return false;
    Py_DECREF(error);
    if (error != Py_None)
        return true;
    place->topic = message_base.topic(message, NULL);
    place->partition = message_base.partition(message, NULL);
    return place->topic != NULL && place->partition != NULL;
}

/* 1 where both are records of one partition, 0 where not, -1 with an exception set. */
static int is_same(const struct place *one, const struct place *other)
{
    int same;

    if (one->topic == NULL || other->topic == NULL)
        return 0;
    same = PyObject_RichCompareBool(one->partition, other->partition, Py_EQ);
    return same == 1 ? PyObject_RichCompareBool(one->topic, other->topic, Py_EQ) : same;
}

/* The place of the first message from `start` on that does not continue the run that begins there; -1 with an exception set. */
static Py_ssize_t end_of_run(PyObject *messages, Py_ssize_t start, Py_ssize_t count)
{
    struct place first, next;
    Py_ssize_t at = start + 1;
    int same = place_of(message_at(messages, start), &first) ? 1 : -1;

    for (; same == 1 && at < count; at += same == 1) {
        same = place_of(message_at(messages, at), &next) ? is_same(&first, &next) : -1;
        place_clear(&next);
    }
    place_clear(&first);
    return same < 0 ? -1 : at;
}

static bool append_run(PyObject *runs, PyObject *messages, Py_ssize_t start, Py_ssize_t end)
{
    PyObject *run = PyList_GetSlice(messages, start, end);
    bool done = run != NULL && PyList_Append(runs, run) == 0;

    Py_XDECREF(run);
    return done;
}

static bool fill_runs(PyObject *runs, PyObject *messages)
{
    Py_ssize_t start = 0, end, count = PyList_Size(messages);

    for (; start < count; start = end) {
        end = end_of_run(messages, start, count);
        if (end < 0)
            return false;
        /* A list that is one run is it: there is nothing to copy. */
        if (end - start == count)
            return PyList_Append(runs, messages) == 0;
        if (!append_run(runs, messages, start, end))
            return false;
    }
    return true;
}

static PyObject *runs(PyObject *self, PyObject *messages)
{
    PyObject *found;

    (void)self;
    if (!check_list(messages))
        return NULL;
    found = PyList_New(0);
    if (found != NULL && !fill_runs(found, messages))
        Py_CLEAR(found);
    return found;
}

/* -- misrouted ----------------------------------------------------------------------------------------------------- */

/* Returns false with TypeError set for no message, and for a key that is neither bytes nor None. */
static bool partition_of(PyObject *message, const struct placement *placement, int32_t *partition)
{
    PyObject *key = message == NULL ? NULL : message_base.key(message, NULL);
    char *data = NULL;
    Py_ssize_t length = 0;
    bool is_known;

    if (key == NULL)
        return false;
    is_known = key == Py_None || PyBytes_AsStringAndSize(key, &data, &length) == 0;
    if (is_known)
        *partition = placement_of(placement, (struct text){(const uint8_t *)data, (size_t)length});
    Py_DECREF(key);
    return is_known;
}

static bool append_number(PyObject *numbers, Py_ssize_t number)
{
    PyObject *made = PyLong_FromSsize_t(number);
    bool done = made != NULL && PyList_Append(numbers, made) == 0;

    Py_XDECREF(made);
    return done;
}

static PyObject *misrouted(PyObject *self, PyObject *args)
{
    PyObject *messages, *found;
    const char *hash;
    long long initial_count, count;
    int own;
    int32_t partition;
    struct placement placement;

    (void)self;
    if (!PyArg_ParseTuple(args, "sLLiO", &hash, &initial_count, &count, &own, &messages)
        || !placement_open(&placement, hash, initial_count, count) || !check_list(messages))
        return NULL;
    found = PyList_New(0);
    for (Py_ssize_t row = 0, rows = PyList_Size(messages); found != NULL && row < rows; row++)
        if (!partition_of(message_at(messages, row), &placement, &partition)
            || (partition != own && partition != NO_PARTITION && !append_number(found, row)))
            Py_CLEAR(found);
    return found;
}

PyMethodDef messages_methods[] = {
    {"fetch", fetch, METH_VARARGS,
     "fetch(consumer, most, wait) -> list\n\nWhat poll(wait) returns, and up to most - 1 messages that are there behind it."},
    {"runs", runs, METH_O,
     "runs(messages) -> list of lists\n\nThe messages in their order: each list holds records of one partition that follow\n"
     "each other, or one event. It is the given list where that is one run."},
    {"misrouted", misrouted, METH_VARARGS,
     "misrouted(hash, initial_count, count, partition, messages) -> list of int\n\nThe places of those messages whose keys belong\n"
     "to other partitions."},
    {NULL, NULL, 0, NULL},
};
