/* What the parts of the kernel share. Each part has a table of the Python functions that it adds to the module. */
#ifndef ORDERED_KAFKA_KERNEL_H
#define ORDERED_KAFKA_KERNEL_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include "librdkafka.h"

/* The rd_kafka_t of a confluent-kafka Consumer or Producer, which is the first member behind the object's head: known for
 * the versions that native/kernel.py lets through. Returns NULL, with an exception set, where it is
 * none of those, or closed. */
rd_kafka_t *handle_of(PyObject *client);

#endif
