/* A subclass of confluent-kafka's Message that the cyclic collector does not track.
 *
 * Nothing is known of Message's layout: what is asked of a message is asked by the C functions of Message's methods, which
 * cost little once Python's call is left out. A message that was fetched holds strings and bytes, and is in no cycle. A
 * setter may put it into one, so the subclass's setters let the collector track it then. */
#ifndef ORDERED_KAFKA_MESSAGE_CLASS_H
#define ORDERED_KAFKA_MESSAGE_CLASS_H

#include "kernel.h"

/* GETTER(name) and SETTER(name) for each method that is called or overridden. */
#define GETTERS(GETTER) GETTER(topic) GETTER(partition) GETTER(key) GETTER(error)
#define SETTERS(SETTER) SETTER(set_topic) SETTER(set_key) SETTER(set_value) SETTER(set_headers) SETTER(set_error)

/* confluent-kafka's class, and the C functions of its methods; set by message_class(). */
extern struct message_base {
    PyTypeObject *type;
    destructor dealloc;
    traverseproc traverse;
#define MEMBER(name) PyCFunction name;
    GETTERS(MEMBER)
    SETTERS(MEMBER)
#undef MEMBER
} message_base;
extern PyTypeObject *message_type;

/* The subclass (borrowed), made at the first call; NULL with an exception set: ImportError where Message lacks a method
 * that is called here. */
PyObject *message_class(void);

/* Turn a new Message into one of the subclass, before anything else refers to it. The subclass adds no fields, so only the
 * type changes. */
void message_adopt(PyObject *message);

#endif
