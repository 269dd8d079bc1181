/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the state, for state.c, apply*.c and snapshot.c alone. Whoever changes an
 * entity calls its touch function first: that keeps changed_idx and, while a snapshot is being encoded, saves
 * the entity as it was.
 */
#ifndef STORAGED_META_STATE_PRIV_H
#define STORAGED_META_STATE_PRIV_H

#include "storaged/meta/name_index.h"
#include "storaged/meta/snapshot.h"
#include "storaged/meta/topic_hash.h"

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
	enum { DELETED_TOPIC, DELETED_OBJECT } kind;
	union {
		uint8_t topic_id[16];
		struct object_id object;
	};
};

/* A snapshot being encoded: entities changed in (base, idx]. */
struct snapshot_cursor {
	bool active;
	uint64_t base, idx;
	struct state_topic *next;       /* the oldest one not yet encoded; NULL: none */
	const struct object_row *next_object;   /* likewise */
	state_entity_cb *cb;
	void *arg;
};

struct state {
	uint64_t idx;
	uint64_t chain;
	int64_t clock_ms;
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

	struct topic_hash by_id;
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
/* Forgets it; the key is kept for the next snapshot. */
void state_topic_drop(struct state *s, struct state_topic *t, uint64_t idx);
/* Before each change. */
void state_topic_touch(struct state *s, struct state_topic *t, uint64_t idx);
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
/* apply_topic.c */
void apply_create_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_close_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_delete_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* NULL when it is good. */
const char *apply_config_fault(Meta__Config *const *config, size_t n);
const char *apply_alias_fault(const char *alias);
/* The topic of that id; NULL and refused when there is none. */
struct state_topic *apply_named_topic(const struct state *s, const ProtobufCBinaryData *id, Meta__Result__One *one);
/* Owners of n new partitions: those given, else by placement, the first one's on `first` when that is not NULL. False:
 * no node takes any. */
bool apply_choose_owners(struct state *s, const uint32_t *given, struct state_node *first,
			 Meta__PartitionEntity *partition, size_t n);
/* apply_settings.c */
void apply_update_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_grow_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* apply_objects.c */
void apply_commit_objects(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_objects_deleted(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* apply_trim.c */
void apply_trim_many(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_expire_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_touch_expiry(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* apply.c */
/* What a check says, as an error; frees what it left in `one`. */
void apply_checked(Meta__Result__One *one, struct pico_error *ret_error);
void apply_refuse(Meta__Result__One *one, enum pico_error_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void apply_bytes(ProtobufCBinaryData *ret, const void *p, size_t n);

#endif
