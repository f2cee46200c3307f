/* Draining partitions into Arrow arrays. */
#ifndef ORDERED_KAFKA_READING_H
#define ORDERED_KAFKA_READING_H

#include "kernel.h"

extern PyMethodDef reading_methods[];

#endif
