#include "hashing.h"
#include "kernel.h"
#include "messages.h"
#include "reading.h"
#include "rows.h"
#include "unanswered.h"

#include <stdbool.h>

/* confluent-kafka's, kept for good. */
static PyTypeObject *consumer_type, *producer_type;

static bool find_types(void)
{
    PyObject *module;

    if (producer_type != NULL)
        return true;
    module = PyImport_ImportModule("confluent_kafka.cimpl");
    if (module == NULL)
        return false;
    consumer_type = (PyTypeObject *)PyObject_GetAttrString(module, "Consumer");
    producer_type = consumer_type == NULL ? NULL : (PyTypeObject *)PyObject_GetAttrString(module, "Producer");
    Py_DECREF(module);
    return producer_type != NULL;
}

rd_kafka_t *handle_of(PyObject *client)
{
    rd_kafka_t *handle;

    if (!find_types())
        return NULL;
    if (!PyType_IsSubtype(Py_TYPE(client), consumer_type) && !PyType_IsSubtype(Py_TYPE(client), producer_type)) {
        PyErr_Format(PyExc_TypeError, "a Consumer or a Producer is needed, not %R", Py_TYPE(client));
        return NULL;
    }
    handle = *(rd_kafka_t **)((char *)client + sizeof(PyObject));
    if (handle == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the client has been closed");
    return handle;
}

static PyObject *bind(PyObject *self, PyObject *args)
{
    const char *path, *missing;
    PyObject *type;

    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    missing = librdkafka_bind(path);
    if (missing != NULL)
        return PyErr_Format(PyExc_OSError, "confluent-kafka does not lead to librdkafka: no %s", missing);
    type = messages_bind();
    if (type == NULL || PyModule_AddObjectRef(self, "Message", type) < 0)
        return NULL;
    return PyLong_FromLong(rk.rd_kafka_version());
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS,
     "bind(path) -> int\n\nResolve librdkafka's functions through the loaded library at path, and confluent-kafka's Message;\n"
     "librdkafka's version number. Raises OSError or ImportError where one is missing."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "spark_ordered_kafka.native._kernel", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    PyMethodDef *const parts[] = {hashing_methods, reading_methods, fingerprint_methods, producing_methods,
                                  unanswered_methods, messages_methods};
    PyObject *module = PyModule_Create(&definition);

    hashing_prepare();
    for (size_t part = 0; module != NULL && part < sizeof parts / sizeof *parts; part++)
        if (PyModule_AddFunctions(module, parts[part]) < 0) {
            Py_DECREF(module);
            return NULL;
        }
    return module;
}
