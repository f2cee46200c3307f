/* Messages of confluent-kafka's consumers, many at a time. */
#ifndef ORDERED_KAFKA_MESSAGES_H
#define ORDERED_KAFKA_MESSAGES_H

#include "kernel.h"

/* Make the class of messages that fetch() returns. Returns it (borrowed), or NULL with an exception set:
 * ImportError where Message lacks what is called here. */
PyObject *messages_bind(void);

extern PyMethodDef messages_methods[];

#endif
