/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the state, for state.c, apply*.c and snapshot.c alone. Whoever changes an
 * entity calls its touch function first: that keeps changed_idx and, while a snapshot is being encoded, saves
 * the entity as it was.
 */
#ifndef STORAGED_META_STATE_PRIV_H
#define STORAGED_META_STATE_PRIV_H

#include "storaged/data/id_hash.h"
#include "storaged/meta/log_map.h"
#include "storaged/meta/name_index.h"
#include "storaged/meta/snapshot.h"
#include "storaged/meta/state_fork.h"

#define STATE_PARTITIONS_MAX 1024
#define STATE_CONFIG_MAX 256            /* entries a topic */
#define STATE_CONFIG_TEXT_MAX 4096      /* bytes of a name or a value */

struct state_node {
	Meta__NodeEntity *e;            /* owned */
	uint64_t changed_idx;
	uint64_t n_logs;                /* owned by it now; counted, not stored */
};

struct session_entry {
	struct state_session s;
	uint64_t changed_idx;
};

/* A key that the next snapshot deletes. */
struct state_deleted {
	uint64_t idx;
	enum { DELETED_TOPIC, DELETED_OBJECT, DELETED_KV } kind;
	union {
		uint8_t topic_id[16];
		struct object_id object;
		char *kv_key;           /* owned */
	};
};

/* A snapshot being encoded: entities changed in (base, idx]. */
struct snapshot_cursor {
	bool active;
	uint64_t base, idx;
	struct state_topic *next;       /* the oldest one not yet encoded; NULL: none */
	const struct object_row *next_object;   /* likewise */
	const struct kv_entry *next_kv;
	state_entity_cb *cb;
	void *arg;
};

struct state {
	uint64_t idx;
	uint64_t chain;
	int64_t clock_ms, clock_leap_ms;
	bool has_uuid;
	uint8_t uuid[16];
	uint32_t format;
	char *cluster_id;               /* owned; NULL before InitCluster */
	uint64_t next_log_id;
	uint64_t next_producer_id;      /* none of those below it is given out again */
	uint64_t next_run;              /* from 1 on; of the catalogue */

	struct state_node *node;        /* owned, ascending */
	size_t n_nodes;
	struct session_entry *session;  /* owned, ascending by (node, session) */
	size_t n_sessions;

	struct catalogue *catalogue;    /* owned */
	struct kv kv;

	size_t n_soft_deleted;          /* topics */
	struct id_hash by_id;
	struct log_map by_log;
	struct name_index by_name, by_alias;
	struct state_topic *oldest, *newest;    /* by changed_idx */

	struct state_deleted *deleted;  /* owned, in order of idx */
	size_t n_deleted, deleted_capacity;
	struct snapshot_cursor cursor;
};

/* NULL when it is not there. Pointers hold until a node or session is added. */
struct state_node *state_node_find(const struct state *s, uint32_t node);
struct session_entry *state_session_find(const struct state *s, uint32_t node, uint64_t session);
/* e is copied. The node may be there already: replaced. */
struct state_node *state_node_put(struct state *s, const Meta__NodeEntity *e, uint64_t idx);
struct session_entry *state_session_put(struct state *s, const struct state_session *entry, uint64_t idx);

/* Makes the topic and enters it everywhere; its names, id and log ids are free, its sizes within bounds. */
struct state_topic *state_topic_add(struct state *s, const Meta__TopicEntity *e, uint64_t idx);
/* Any topic of the spelling, as state_topic_find(). */
struct state_topic *state_find_any(const struct state *s, struct slice spelling);
/* Forgets it, whatever it is; the key is kept for the next snapshot. Commands call state_topic_delete(). */
void state_topic_drop(struct state *s, struct state_topic *t, uint64_t idx);
/* Before each change. */
void state_topic_touch(struct state *s, struct state_topic *t, uint64_t idx);
/* state_fork.c: deletes it, or makes it SOFT_DELETED when forks of it are left; with the last fork of such ones they go. */
void state_topic_delete(struct state *s, struct state_topic *t, uint64_t idx);
/* What e says of a fork; it is linked to its source later. */
void state_fork_attach(struct state_topic *t, const Meta__TopicEntity *e);
/* False: its source is not there, or has other logs. True for a topic that is no fork. */
bool state_fork_link(struct state *s, struct state_topic *t);
void state_fork_fill(const struct state_topic *t, Meta__TopicEntity *e);
void state_fork_move(struct state_topic *from, struct state_topic *to);
/* t goes; nothing is forked from it. */
void state_fork_unlink(struct state_topic *t);
/* Sources above t; more than STATE_FORK_DEPTH_MAX: that many at least, perhaps a circle. */
uint32_t state_fork_depth(const struct state_topic *t);
/* t is the fork that was asked for. */
bool state_fork_is_same(const struct state_topic *t, const Meta__Fork *fork);
/* The topic has that log. */
uint32_t state_partition_index(const struct state_topic *t, uint64_t log_id);
/* For changes of its strings, config or number of partitions: t is freed, what e says (it may point into t) stands in its
 * place. Id and name are t's, the alias is t's or free. */
struct state_topic *state_topic_replace(struct state *s, struct state_topic *t, const Meta__TopicEntity *e, uint64_t idx);

void state_remember_deleted(struct state *s, struct state_deleted d);

/* A topic as a message whose strings are the topic's. */
struct topic_entity {
	Meta__TopicEntity e;
	Meta__PartitionEntity *partition;       /* owned, as are the arrays of pointers in e */
	Meta__Config *config;
};
void topic_entity_fill(struct topic_entity *ret, const struct state_topic *t);
void topic_entity_done(struct topic_entity *x);

/* snapshot.c: t is about to change: encode it if a running snapshot still wants it. */
void snapshot_save(struct state *s, struct state_topic *t);
/* The same of a row of the catalogue. */
void snapshot_save_object(struct state *s, const struct object_row *row);
/* And of a small value that is about to go or to be another one. */
void snapshot_save_kv(struct state *s, const struct kv_entry *e);

#endif
