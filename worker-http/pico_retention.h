/* SPDX-License-Identifier: Apache-2.0
 *
 * How long a stream keeps its records, by age and by bytes: Kafka's configs retention.ms and retention.bytes under the
 * names they have here. -1 keeps all, whatever the node's default is; a stream without one follows that default.
 */
#ifndef WORKER_HTTP_PICO_RETENTION_H
#define WORKER_HTTP_PICO_RETENTION_H

#include "common/json_scan.h"
#include "worker-http/request.h"

enum pico_retention_kind { PICO_RETENTION_MS, PICO_RETENTION_BYTES, PICO_RETENTIONS };

/* The configs of a create or an update in the making; the message points inside. Zero-initialised is empty. */
struct pico_retention {
	Ipc__ConfigEntry entry[PICO_RETENTIONS], *pointer[PICO_RETENTIONS];
	char value[PICO_RETENTIONS][24];        /* empty: not set */
	bool clears[PICO_RETENTIONS];           /* an update: the node's default again */
	char *cleared[PICO_RETENTIONS];
};

/* Pico-Retention-Ms, Pico-Retention-Bytes. An empty header counts as absent. False when refused (answered). */
bool pico_take_retention(struct request *r, struct pico_retention *x, Ipc__CreateRequest *m);
/* Those that the topic has, as header fields, and as members of its JSON object, each with a comma in front. */
void pico_retention_fields(struct request *r, const Ipc__Topic *topic);
void pico_retention_json(struct buf *out, const Ipc__Topic *topic);

/* A member of PATCH /_streams: a number, or null. False when refused (answered). */
bool pico_set_retention(struct request *r, struct pico_retention *x, enum pico_retention_kind kind, enum json_token token,
			struct slice value);
bool pico_sets_retention(const struct pico_retention *x);
void pico_retention_update(struct pico_retention *x, Ipc__UpdateRequest *m);
/* Both as members of GET /_streams, each with a comma in front; null: as the node says. */
void pico_retention_settings(struct buf *out, const Ipc__Topic *topic);

#endif
