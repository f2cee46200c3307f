#include "columns.h"

#include <stdlib.h>
#include <string.h>

/* The structs behind an object with __arrow_c_array__; they live as long as what is returned, a new reference. Returns
 * NULL with TypeError set for another object. */
static PyObject *arrow_of(PyObject *array, const char *name, const struct ArrowSchema **schema, const struct ArrowArray **found)
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

/* A column that holds no owner. `formats`: Arrow's for offsets of 32 and of 64 bits. */
static bool column_view(struct column *column, const struct ArrowSchema *schema, const struct ArrowArray *array,
                        const char *const formats[2], const char *name)
{
    bool large = strcmp(schema->format, formats[1]) == 0;

    if (!large && strcmp(schema->format, formats[0]) != 0) {
        PyErr_Format(PyExc_TypeError, "%s must be of Arrow's format %s or %s, not %s", name, formats[0], formats[1],
                     schema->format);
        return false;
    }
    memset(column, 0, sizeof *column);
    column->length = array->length;
    column->offset = array->offset;
    column->validity = array->null_count == 0 ? NULL : array->buffers[0];
    column->short_offsets = large ? NULL : array->buffers[1];
    column->long_offsets = large ? array->buffers[1] : NULL;
    column->data = array->buffers[2];
    return true;
}

static bool text_of(struct text *text, PyObject *object, const char *name)
{
    if (object == Py_None) {
        text->data = NULL;
        text->length = 0;
        return true;
    }
    if (!PyBytes_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must hold bytes and None, not %R", name, (PyObject *)Py_TYPE(object));
        return false;
    }
    text->data = (const uint8_t *)PyBytes_AsString(object);
    text->length = (size_t)PyBytes_Size(object);
    return true;
}

static bool column_of_list(struct column *column, PyObject *list, const char *name)
{
    /* It keeps the objects, whatever becomes of the list. */
    PyObject *owner = PyList_AsTuple(list);
    Py_ssize_t length = owner == NULL ? -1 : PyTuple_Size(owner);

    memset(column, 0, sizeof *column);
    column->owner = owner;
    if (length < 0)
        return false;
    column->texts = malloc(((size_t)length + 1) * sizeof *column->texts);
    if (column->texts == NULL)
        PyErr_NoMemory();
    while (column->texts != NULL && column->length < length
           && text_of(&column->texts[column->length], PyTuple_GetItem(owner, (Py_ssize_t)column->length), name))
        column->length++;
    if (PyErr_Occurred() == NULL)
        return true;
    column_close(column);
    return false;
}

bool column_open(struct column *column, PyObject *texts, const char *name)
{
    static const char *const formats[2] = {"z", "Z"};
    const struct ArrowSchema *schema;
    const struct ArrowArray *found;
    PyObject *owner;

    if (PyList_Check(texts))
        return column_of_list(column, texts, name);
    owner = arrow_of(texts, name, &schema, &found);
    if (owner == NULL)
        return false;
    if (!column_view(column, schema, found, formats, name)) {
        Py_DECREF(owner);
        return false;
    }
    column->owner = owner;
    return true;
}

void column_close(struct column *column)
{
    PyObject *owner = column->owner;

    free(column->texts);
    column->texts = NULL;
    column->owner = NULL;
    Py_XDECREF(owner);
}

static bool headers_view(struct headers_column *headers, const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    static const char *const utf8[2] = {"u", "U"}, *const binary[2] = {"z", "Z"};
    bool large = strcmp(schema->format, "+L") == 0;
    const struct ArrowSchema *entry;
    const struct ArrowArray *entries;

    if ((!large && strcmp(schema->format, "+l") != 0) || (entry = schema->children[0], strcmp(entry->format, "+s") != 0)
        || entry->n_children != 2 || strcmp(entry->children[0]->name, "key") != 0
        || strcmp(entry->children[1]->name, "value") != 0) {
        PyErr_SetString(PyExc_TypeError, "headers must be a list<struct<key: utf8, value: binary>>");
        return false;
    }
    entries = array->children[0];
    headers->length = array->length;
    headers->offset = array->offset;
    headers->validity = array->null_count == 0 ? NULL : array->buffers[0];
    headers->short_offsets = large ? NULL : array->buffers[1];
    headers->long_offsets = large ? array->buffers[1] : NULL;
    if (!column_view(&headers->keys, entry->children[0], entries->children[0], utf8, "headers' key")
        || !column_view(&headers->values, entry->children[1], entries->children[1], binary, "headers' value"))
        return false;
    headers->keys.offset += entries->offset;
    headers->values.offset += entries->offset;
    return true;
}

bool headers_open(struct headers_column *headers, PyObject *array)
{
    const struct ArrowSchema *schema;
    const struct ArrowArray *found;
    PyObject *owner = arrow_of(array, "headers", &schema, &found);

    if (owner == NULL)
        return false;
    if (!headers_view(headers, schema, found)) {
        Py_DECREF(owner);
        return false;
    }
    headers->owner = owner;
    return true;
}

void headers_close(struct headers_column *headers)
{
    PyObject *owner = headers->owner;

    headers->owner = NULL;
    Py_XDECREF(owner);
}
