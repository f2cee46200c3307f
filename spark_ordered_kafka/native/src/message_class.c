#include "message_class.h"

#include <stdbool.h>

struct message_base message_base;
PyTypeObject *message_type;

static PyObject *set(PyObject *self, PyObject *value, PyCFunction setter)
{
    if (!PyObject_GC_IsTracked(self))
        PyObject_GC_Track(self);
    return setter(self, value);
}

#define OVERRIDE(name)                                                                                             \
    static PyObject *name(PyObject *self, PyObject *value)                                                         \
    {                                                                                                              \
        return set(self, value, message_base.name);                                                                \
    }
SETTERS(OVERRIDE)
#undef OVERRIDE

static void message_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    message_base.dealloc(self);
    Py_DECREF((PyObject *)type);
}

static int message_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return message_base.traverse(self, visit, arg);
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
#define FIND_GETTER(name) (message_base.name = method_of(message, #name, METH_NOARGS)) != NULL &&
#define FIND_SETTER(name) (message_base.name = method_of(message, #name, METH_O)) != NULL &&
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
    message_base.type = (PyTypeObject *)type;
    message_base.dealloc = (destructor)PyType_GetSlot(message_base.type, Py_tp_dealloc);
    message_base.traverse = (traverseproc)PyType_GetSlot(message_base.type, Py_tp_traverse);
    return true;
}

static PyObject *make_type(void)
{
#define METHOD(name) {#name, name, METH_O, "As confluent_kafka.Message has it."},
    static PyMethodDef methods[] = {SETTERS(METHOD){NULL, NULL, 0, NULL}};
#undef METHOD
    PyType_Slot slots[] = {
        {Py_tp_dealloc, message_dealloc},
        {Py_tp_traverse, message_traverse},
        {Py_tp_clear, PyType_GetSlot(message_base.type, Py_tp_clear)},
        {Py_tp_methods, methods},
        {Py_tp_doc, "A confluent_kafka.Message that Python's cyclic collector tracks once it may be in a cycle."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "spark_ordered_kafka.native._kernel.Message",
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };

    return PyType_FromSpecWithBases(&spec, (PyObject *)message_base.type);
}

PyObject *message_class(void)
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
    /* Kept for good, as is the subclass. */
    if (!find_base(type)) {
        Py_DECREF(type);
        return NULL;
    }
    message_type = (PyTypeObject *)make_type();
    return (PyObject *)message_type;
}

void message_adopt(PyObject *message)
{
    if (!Py_IS_TYPE(message, message_base.type))
        return;
    Py_INCREF((PyObject *)message_type);
    Py_SET_TYPE(message, message_type);
    PyObject_GC_UnTrack(message);
}
