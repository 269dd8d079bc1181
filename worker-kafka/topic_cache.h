/* SPDX-License-Identifier: Apache-2.0
 *
 * What requests by name need to know of topics, for a second after storaged said it. A name may have gone to another
 * topic meanwhile, by a PATCH over HTTP. Produce carries the settings version, so a stale entry is noticed there; whatever else
 * changes something, or says where a consumer begins, has its names resolved anew. A read under a name that was taken away
 * may go on that long.
 */
#ifndef WORKER_KAFKA_TOPIC_CACHE_H
#define WORKER_KAFKA_TOPIC_CACHE_H

#include "worker-kafka/request.h"

struct topic_info {
	uint8_t id[16];
	uint32_t n_partitions;
	uint64_t settings_version;
	uint32_t max_message_bytes;     /* of one batch */
	bool log_append_time;
};

/* A topic that a request names. */
struct topic_want {
	struct slice name;
	const struct topic_info *info;  /* in the request's region; NULL: kind says why */
	enum pico_error_kind kind;
};

struct topic_cache *topic_cache_new(struct server *s);
void topic_cache_free(struct topic_cache *c);

/* Fills in all of `want`, then `done`, perhaps at once. Uses the request's call. */
void topic_cache_resolve(struct request *r, struct topic_want *want, size_t n, void (*done)(struct request *r));
/* The same, and storaged is asked for each, whatever is known. */
void topic_cache_resolve_anew(struct request *r, struct topic_want *want, size_t n, void (*done)(struct request *r));
/* storaged said this of a topic just now. */
void topic_cache_put(struct topic_cache *c, const Ipc__Topic *topic);
/* Whether somebody heard of another topic of that name, or of newer settings, than a request knows. */
bool topic_cache_has_news(struct topic_cache *c, struct slice name, const struct topic_info *known);
void topic_cache_drop(struct topic_cache *c, struct slice name);

#endif
