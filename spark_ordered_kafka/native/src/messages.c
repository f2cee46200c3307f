/* Messages of confluent-kafka's consumers, many at a time.
 *
 * They are confluent-kafka's own objects. Nothing is known of their layout: what is asked of each is asked by the C
 * functions of Message's methods, which cost little once Python's call is left out.
 *
 * What consume() costs most is Python's cyclic collector, which looks at each new message for cycles. A message that was
 * fetched holds strings and bytes, and is in none: the collector rests while messages are made, and is not told of them
 * after that. A setter may put one into a cycle; the subclass is there to tell the collector then. */
#include "messages.h"

#include <stdbool.h>

#include "hashing.h"

/* Of Python's youngest generation, by default. */
#define MANY 700

/* GETTER(name) and SETTER(name) for each method that is called or overridden. */
#define GETTERS(GETTER) GETTER(topic) GETTER(partition) GETTER(key) GETTER(error)
#define SETTERS(SETTER) SETTER(set_topic) SETTER(set_key) SETTER(set_value) SETTER(set_headers) SETTER(set_error)

static struct {
    PyTypeObject *type;
    destructor dealloc;
    traverseproc traverse;
#define MEMBER(name) PyCFunction name;
    GETTERS(MEMBER)
    SETTERS(MEMBER)
#undef MEMBER
} base;

static PyTypeObject *message_type;
static PyObject *collect; /* gc.collect() */

/* -- the class ----------------------------------------------------------------------------------------------------- */

static PyObject *set(PyObject *self, PyObject *value, PyCFunction setter)
{
    if (!PyObject_GC_IsTracked(self))
        PyObject_GC_Track(self);
    return setter(self, value);
}

#define OVERRIDE(name)                                                                                             \
    static PyObject *name(PyObject *self, PyObject *value)                                                         \
    {                                                                                                              \
        return set(self, value, base.name);                                                                        \
    }
SETTERS(OVERRIDE)
#undef OVERRIDE

static void message_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    base.dealloc(self);
    Py_DECREF((PyObject *)type);
}

static int message_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return base.traverse(self, visit, arg);
}

/* The C function of a method that takes what `flags` say. */
static PyCFunction method_of(PyObject *message, const char *name, int flags)
{
    PyObject *bound = PyObject_GetAttrString(message, name);
    PyCFunction found = NULL;

    if (bound != NULL && PyCFunction_Check(bound) && PyCFunction_GetFlags(bound) == flags)
        found = PyCFunction_GetFunction(bound);
    Py_XDECREF(bound);
    if (found == NULL) {
        PyErr_Clear();
        PyErr_Format(PyExc_ImportError, "confluent-kafka's Message has no method %s as it is known here", name);
    }
    return found;
}

static bool find_methods(PyObject *message)
{
#define FIND_GETTER(name) (base.name = method_of(message, #name, METH_NOARGS)) != NULL &&
#define FIND_SETTER(name) (base.name = method_of(message, #name, METH_O)) != NULL &&
    return GETTERS(FIND_GETTER) SETTERS(FIND_SETTER) true;
#undef FIND_GETTER
#undef FIND_SETTER
}

static bool find_base(PyObject *type)
{
    PyObject *message = PyObject_CallNoArgs(type);
    bool found = message != NULL && find_methods(message);

    Py_XDECREF(message);
    if (!found)
        return false;
    base.type = (PyTypeObject *)type;
    base.dealloc = (destructor)PyType_GetSlot(base.type, Py_tp_dealloc);
    base.traverse = (traverseproc)PyType_GetSlot(base.type, Py_tp_traverse);
    return true;
}

static bool find_collect(void)
{
    PyObject *module = PyImport_ImportModule("gc");

    if (collect == NULL && module != NULL)
        collect = PyObject_GetAttrString(module, "collect");
    Py_XDECREF(module);
    return collect != NULL;
}

static PyObject *make_type(void)
{
#define METHOD(name) {#name, name, METH_O, "As confluent_kafka.Message has it."},
    static PyMethodDef methods[] = {SETTERS(METHOD){NULL, NULL, 0, NULL}};
#undef METHOD
    PyType_Slot slots[] = {
        {Py_tp_dealloc, message_dealloc},
        {Py_tp_traverse, message_traverse},
        {Py_tp_clear, PyType_GetSlot(base.type, Py_tp_clear)},
        {Py_tp_methods, methods},
        {Py_tp_doc, "A confluent_kafka.Message that Python's cyclic collector is not told of before it may be in a cycle."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "spark_ordered_kafka.native._kernel.Message",
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };

    return PyType_FromSpecWithBases(&spec, (PyObject *)base.type);
}

PyObject *messages_bind(void)
{
    PyObject *module, *type;

    if (message_type != NULL)
        return (PyObject *)message_type;
    module = PyImport_ImportModule("confluent_kafka.cimpl");
    if (module == NULL)
        return NULL;
    type = PyObject_GetAttrString(module, "Message");
    Py_DECREF(module);
    if (type == NULL)
        return NULL;
    /* Kept for good, as what is made of it. */
    if (!find_collect() || !find_base(type)) {
        Py_DECREF(type);
        return NULL;
    }
    message_type = (PyTypeObject *)make_type();
    return (PyObject *)message_type;
}

/* -- fetching ------------------------------------------------------------------------------------------------------ */

/* Make a message, which nobody else has yet, one of ours: the class adds no fields, so that only the name of it changes. */
static void adopt(PyObject *message)
{
    if (!Py_IS_TYPE(message, base.type))
        return;
    Py_INCREF((PyObject *)message_type);
    Py_SET_TYPE(message, message_type);
    PyObject_GC_UnTrack(message);
}

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
        adopt(PyList_GetItem(found, place));
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

    if (message == NULL || Py_IS_TYPE(message, message_type) || PyObject_TypeCheck(message, base.type))
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
    PyObject *error = message == NULL ? NULL : base.error(message, NULL);

    place->topic = place->partition = NULL;
    if (error == NULL)
        return false;
    Py_DECREF(error);
    if (error != Py_None)
        return true;
    place->topic = base.topic(message, NULL);
    place->partition = base.partition(message, NULL);
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

/* The place of the first message from `start` on that does not go on the run that begins there; -1 with an exception set. */
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

/* -- strays -------------------------------------------------------------------------------------------------------- */

/* Returns false with TypeError set for no message, and for a key that is neither bytes nor None. */
static bool partition_of(PyObject *message, const struct placement *placement, int32_t *partition)
{
    PyObject *key = message == NULL ? NULL : base.key(message, NULL);
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

static PyObject *strays(PyObject *self, PyObject *args)
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
    {"strays", strays, METH_VARARGS,
     "strays(hash, initial_count, count, partition, messages) -> list of int\n\nThe places of those messages whose keys belong\n"
     "to other partitions."},
    {NULL, NULL, 0, NULL},
};
