#include "hashing.h"
#include "reading.h"
#include "kernel.h"
#include "unanswered.h"

rd_kafka_t *handle_of(PyObject *client)
{
    rd_kafka_t *handle = *(rd_kafka_t **)((char *)client + sizeof(PyObject));

    if (handle == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the client has been closed");
    return handle;
}

static PyObject *bind(PyObject *self, PyObject *args)
{
    const char *path, *missing;

    (void)self;
    if (!PyArg_ParseTuple(args, "s", &path))
        return NULL;
    missing = librdkafka_bind(path);
    if (missing != NULL)
        return PyErr_Format(PyExc_OSError, "confluent-kafka does not lead to librdkafka: no %s", missing);
    return PyLong_FromLong(rk.rd_kafka_version());
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS,
     "bind(path) -> int\n\nResolve librdkafka's functions through the loaded library at path; its version number.\n"
     "Raises OSError where one is missing."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "spark_ordered_kafka.native._kernel", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    PyObject *module = PyModule_Create(&definition);

    hashing_prepare();
    if (module != NULL
        && (PyModule_AddFunctions(module, hashing_methods) < 0 || PyModule_AddFunctions(module, reading_methods) < 0
            || PyModule_AddFunctions(module, unanswered_methods) < 0)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
