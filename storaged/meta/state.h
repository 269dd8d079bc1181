/* SPDX-License-Identifier: Apache-2.0
 *
 * The cluster's state: what the rows of the command log add up to. Apply is pure: state + command ->
 * state or a typed error; the clock is a field of the row. Readers use it directly, between two
 * applies nothing changes. Pointers into it are valid until the next apply.
 */
#ifndef STORAGED_META_STATE_H
#define STORAGED_META_STATE_H

#include "common/pico_error.h"
#include "common/slice.h"
#include "proto/meta.pb-c.h"
#include "storaged/data/catalogue.h"
#include "storaged/meta/kv.h"
#include "storaged/meta/sql_log.h"

#define STATE_FORMAT 1                  /* FORMAT: of disk and database together */
#define META_ROW_COMMANDS_MAX 256
#define STATE_CLOCK_LEAP_MS (90 * 24 * 3600000ll)      /* a node may have been off for so long */

struct state;
struct state_fork;

struct state_partition {
	uint64_t log_id;
	uint64_t start;                 /* log start offset */
	uint32_t owner;                 /* node id */
	uint32_t epoch;
	bool closed;
};

struct state_config {
	const char *name;               /* topic_config.def's, where it has it */
	char *value;
};

/* One block of memory: strings, partitions and config stand behind it. */
struct state_topic {
	uint8_t id[16];
	char *name;                     /* path */
	char *content_type;
	char *kafka_topic;              /* NULL: no alias */
	uint64_t settings_version : 53;
	uint32_t n_partitions : 11;     /* at most STATE_PARTITIONS_MAX */
	uint64_t ttl_seconds;
	int64_t expires_at_ms;          /* with a TTL: a deadline not before the true one; 0: not touched yet */
	char *schema_name;              /* NULL: none */
	uint64_t changed_idx;           /* row of the last change */
	int64_t created_ms : 48;
	uint32_t n_config : 9;          /* at most STATE_CONFIG_MAX */
	bool closed : 1, closing : 1, initial : 1, created_closed : 1, schema_validate : 1;
	bool soft_deleted : 1;          /* deleted; here for its forks alone */
	struct state_config *config;
	struct state_fork *fork;        /* owned; private (state_fork.h): NULL when it neither is a fork nor has any */
	struct state_topic *older, *newer;  /* private: in order of changed_idx */
	struct state_partition partition[];
};
_Static_assert(sizeof(struct state_topic) == 120, "a million topics have a million of these");

enum state_session_state { SESSION_ACTIVE, SESSION_ENDED, SESSION_RECOVERED };
struct state_session {
	uint32_t node;
	uint64_t session;
	enum state_session_state state;
	uint64_t watermark;             /* WAL objects below were packed */
	uint32_t recoverer;             /* node */
	uint64_t cut;                   /* RECOVERED */
	int64_t recovered_ms;
};

struct state *state_new(void);
void state_free(struct state *s);

/*
 * Applies one row whose chain the caller has checked; its idx is state_idx() + 1. 0: results, one a command, in
 * order; free with meta__result__free_unpacked(). -EALREADY: a row of a proposal already applied, skipped.
 * -EPERM: its session is not ACTIVE, every command was refused. In both cases there are no results. -EBADMSG: does
 * not decode; nothing changed.
 */
int state_apply(struct state *s, const struct sql_row *row, Meta__Result **ret_results);
/* The same with the payload already decoded; on_command sees the state right after each command and must not
 * change it. */
typedef void state_command_cb(void *arg, size_t i, const Meta__Command *command, const Meta__Result__One *result);
int state_apply_decoded(struct state *s, const struct sql_row *row, const Meta__Row *decoded,
			state_command_cb *on_command, void *arg);

/* The number of the last proposal of that session that was applied, 0 for none; and its results (as above, NULL if
 * none are known). Only the newest session of a node is remembered; another one is -ENOENT. */
int state_last_proposal(const struct state *s, uint32_t node, uint64_t session, uint64_t *ret_proposal,
			Meta__Result **ret_results);

uint64_t state_idx(const struct state *s);      /* of the last row applied */
uint64_t state_chain(const struct state *s);
int64_t state_clock_ms(const struct state *s);
/* To where the clock leapt when it last rose by more than that at once; 0: it never did. */
int64_t state_clock_leap_ms(const struct state *s);
const uint8_t *state_cluster_uuid(const struct state *s);   /* 16 bytes; NULL before InitCluster */
const char *state_cluster_id(const struct state *s);        /* NULL before InitCluster */
uint32_t state_format(const struct state *s);
size_t state_n_topics(const struct state *s);               /* without SOFT_DELETED ones */
uint64_t state_next_producer_id(const struct state *s);     /* no id from here on was ever given out */
bool state_was_registered(const struct state *s);           /* RegisterNode ever applied */

/* A SOFT_DELETED topic is not there, but for state_topic_by_log() and what state_fork.h has. */
const struct state_topic *state_topic_by_id(const struct state *s, const uint8_t id[16]);
const struct state_topic *state_topic_by_name(const struct state *s, struct slice path);
const struct state_topic *state_topic_by_alias(const struct state *s, struct slice alias);
/* Any spelling: a path when it begins with '/', else a Kafka name if there is one, else '/' + name. */
const struct state_topic *state_topic_find(const struct state *s, struct slice spelling);
/* The topic and index of a log; NULL when no topic has it. */
const struct state_topic *state_topic_by_log(const struct state *s, uint64_t log_id, uint32_t *ret_partition);
/* In order of log id, those of SOFT_DELETED topics, too: the first one > after; NULL at the end. Begin with 0. */
const struct state_topic *state_topic_next_log(const struct state *s, uint64_t after, uint64_t *ret_log_id,
					       uint32_t *ret_partition);
/* In order of name bytes: the first topic whose name is > start_after; NULL at the end. Begin with an empty slice. */
const struct state_topic *state_topic_next(const struct state *s, struct slice start_after);
/* The same of the topics that have an alias, in order of alias bytes. */
const struct state_topic *state_topic_next_alias(const struct state *s, struct slice start_after);

/* Whether two content types are the same: text before ';', trimmed, without case. */
bool state_media_type_equal(const char *a, const char *b);

/* Sessions of a node in ascending order: the first one with number > after; NULL at the end. */
const struct state_session *state_session_next(const struct state *s, uint32_t node, uint64_t after);
/* Every session of the node older than this one is RECOVERED. */
bool state_older_are_recovered(const struct state *s, uint32_t node, uint64_t session);

/* Small values. */
const struct kv *state_kv(const struct state *s);
/* Data objects. */
const struct catalogue *state_catalogue(const struct state *s);

/* NULL when no node of that id ever registered. */
const Meta__NodeEntity *state_node(const struct state *s, uint32_t node);
/* In order of id: the first node > after; NULL at the end. */
const Meta__NodeEntity *state_node_next(const struct state *s, uint32_t after);
/* Its newest session is ACTIVE. */
bool state_node_is_up(const struct state *s, uint32_t node);

/* What apply would say to the command now; PICO_OK: it would do it. A create's topic may be there already. */
void state_check_create(const struct state *s, const Meta__CreateTopic *c, bool *ret_exists, struct pico_error *ret_error);
void state_check_update(const struct state *s, const Meta__UpdateTopic *u, struct pico_error *ret_error);
void state_check_grow(const struct state *s, const Meta__GrowTopic *g, struct pico_error *ret_error);
/* node and session are set. */
void state_check_commit(const struct state *s, const Meta__CommitObjects *c, struct pico_error *ret_error);

/* chain = first 8 bytes, big-endian, of SHA-256(previous chain as 8 bytes big-endian ++ payload). */
uint64_t state_chain_next(uint64_t chain, struct slice payload);

#endif
