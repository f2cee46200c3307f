/* Requests of a producer's transactions that got no answer. */
#ifndef ORDERED_KAFKA_UNANSWERED_H
#define ORDERED_KAFKA_UNANSWERED_H

#include "kernel.h"

/* librdkafka takes the kernel for a plugin of its own where `plugin.library.paths` names it. */
rd_kafka_resp_err_t conf_init(rd_kafka_conf_t *conf, void **opaque, char *error, size_t error_size);

extern PyMethodDef unanswered_methods[];

#endif
