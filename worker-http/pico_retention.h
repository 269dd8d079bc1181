/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a stream keeps its records, by age and by bytes: Kafka's configs retention.ms and retention.bytes under the
 * names they have here. -1 keeps all, whatever the node's default is; a stream without one follows that default.
 */
#ifndef WORKER_HTTP_PICO_RETENTION_H
#define WORKER_HTTP_PICO_RETENTION_H

#include "worker-http/request.h"

#define PICO_RETENTIONS 2

/* The configs of a create in the making; the message points inside. */
struct pico_retention {
	Ipc__ConfigEntry entry[PICO_RETENTIONS], *pointer[PICO_RETENTIONS];
	char value[PICO_RETENTIONS][24];
};

/* Pico-Retention-Ms, Pico-Retention-Bytes. An empty header counts as absent. False when refused (answered). */
bool pico_take_retention(struct request *r, struct pico_retention *x, Ipc__CreateRequest *m);
/* Those that the topic has, as header fields, and as members of its JSON object, each with a comma in front. */
void pico_retention_fields(struct request *r, const Ipc__Topic *topic);
void pico_retention_json(struct buf *out, const Ipc__Topic *topic);

#endif
