#include "columns.h"

#include <string.h>

PyObject *arrow_of(PyObject *array, const char *name, const struct ArrowSchema **schema, const struct ArrowArray **found)
{
    PyObject *capsules = PyObject_CallMethod(array, "__arrow_c_array__", NULL);

    if (capsules == NULL) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Format(PyExc_TypeError, "%s must be an Arrow array, not %R", name, (PyObject *)Py_TYPE(array));
        return NULL;
    }
    if (!PyTuple_Check(capsules) || PyTuple_Size(capsules) != 2) {
        PyErr_Format(PyExc_TypeError, "%s gives no pair of capsules", name);
        Py_DECREF(capsules);
        return NULL;
    }
    *schema = PyCapsule_GetPointer(PyTuple_GetItem(capsules, 0), ARROW_SCHEMA_CAPSULE);
    *found = *schema == NULL ? NULL : PyCapsule_GetPointer(PyTuple_GetItem(capsules, 1), ARROW_ARRAY_CAPSULE);
    if (*found == NULL) {
        Py_DECREF(capsules);
        return NULL;
    }
    return capsules;
}

bool column_view(struct column *column, const struct ArrowSchema *schema, const struct ArrowArray *array, const char *name)
{
    bool large = strcmp(schema->format, "Z") == 0;

    if (!large && strcmp(schema->format, "z") != 0) {
        PyErr_Format(PyExc_TypeError, "%s must be binary or large_binary, not of Arrow's format %s", name, schema->format);
        return false;
    }
    column->length = array->length;
    column->offset = array->offset;
    column->validity = array->null_count == 0 ? NULL : array->buffers[0];
    column->short_offsets = large ? NULL : array->buffers[1];
    column->long_offsets = large ? array->buffers[1] : NULL;
    column->data = array->buffers[2];
    column->owner = NULL;
    return true;
}

bool column_open(struct column *column, PyObject *array, const char *name)
{
    const struct ArrowSchema *schema;
    const struct ArrowArray *found;
    PyObject *owner = arrow_of(array, name, &schema, &found);

    if (owner == NULL)
        return false;
    if (!column_view(column, schema, found, name)) {
        Py_DECREF(owner);
        return false;
    }
    column->owner = owner;
    return true;
}

void column_close(struct column *column)
{
    PyObject *owner = column->owner;

    column->owner = NULL;
    Py_XDECREF(owner);
}
