#include "rows.h"

#include <string.h>

bool rows_open(struct rows *rows, PyObject *keys, PyObject *values, PyObject *headers)
{
    memset(rows, 0, sizeof *rows);
    rows->with_headers = headers != Py_None;
    if (column_open(&rows->keys, keys, "keys") && column_open(&rows->values, values, "values")
        && (!rows->with_headers || headers_open(&rows->headers, headers))) {
        rows->length = rows->keys.length;
        if (rows->values.length == rows->length && (!rows->with_headers || rows->headers.length == rows->length))
            return true;
        PyErr_SetString(PyExc_ValueError, "keys, values and headers must be of one length");
    }
    rows_close(rows);
    return false;
}

void rows_close(struct rows *rows)
{
    column_close(&rows->keys);
    column_close(&rows->values);
    headers_close(&rows->headers);
}
