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
#include "storaged/meta/sql_log.h"

#define STATE_FORMAT 1                  /* FORMAT: of disk and database together */
#define META_ROW_COMMANDS_MAX 256

struct state;

struct state_partition {
	uint64_t log_id;
	uint64_t start;                 /* log start offset */
	uint32_t owner;                 /* node id */
	uint32_t epoch;
	bool closed;
};

struct state_topic {
	uint8_t id[16];
	char *name;                     /* path */
	char *content_type;
	char *kafka_topic;              /* NULL: no alias */
	uint64_t settings_version;
	int64_t created_ms;
	uint64_t ttl_seconds;
	int64_t expires_at_ms;
	char *schema_name;              /* NULL: none */
	uint64_t changed_idx;           /* row of the last change */
	uint32_t n_partitions;
	bool closed, closing, initial, created_closed, schema_validate;
	struct state_partition *partition;
};

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

/* Applies one row whose idx and chain the caller has checked. results: one a command, in order; free with
 * protobuf_c_message_free_unpacked. A row of a proposal already applied is skipped: -EALREADY. -EBADMSG: does
 * not decode. -EPERM: its session is not ACTIVE (every command refused). */
int state_apply(struct state *s, const struct sql_row *row, Meta__Result **ret_results);

uint64_t state_idx(const struct state *s);      /* of the last row applied */
uint64_t state_chain(const struct state *s);
int64_t state_clock_ms(const struct state *s);
const uint8_t *state_cluster_uuid(const struct state *s);   /* 16 bytes; NULL before InitCluster */
uint32_t state_format(const struct state *s);
size_t state_n_topics(const struct state *s);
bool state_was_registered(const struct state *s);           /* RegisterNode ever applied */

const struct state_topic *state_topic_by_id(const struct state *s, const uint8_t id[16]);
const struct state_topic *state_topic_by_name(const struct state *s, struct slice path);
const struct state_topic *state_topic_by_alias(const struct state *s, struct slice alias);
/* Any spelling: a path when it begins with '/', else a Kafka name if there is one, else '/' + name. */
const struct state_topic *state_topic_find(const struct state *s, struct slice spelling);
/* The topic and index of a log; NULL when no topic has it. */
const struct state_topic *state_topic_by_log(const struct state *s, uint64_t log_id, uint32_t *ret_partition);
/* In order of name bytes: the first topic whose name is > start_after; NULL at the end. Begin with an empty slice. */
const struct state_topic *state_topic_next(const struct state *s, struct slice start_after);

/* Sessions of a node in ascending order: the first one with number > after; NULL at the end. */
const struct state_session *state_session_next(const struct state *s, uint32_t node, uint64_t after);

/* Snapshot: entities changed after row `since`, and keys deleted since then. cb sees encoded bytes; payload
 * p == NULL: deleted. */
void state_entities(const struct state *s, uint64_t since, void (*cb)(void *arg, const struct sql_entity *e), void *arg);
/* Rebuilds from a snapshot. 0 or -EBADMSG. */
int state_load(struct state *s, uint64_t idx, const struct sql_entity *entities, size_t n);
/* Forget deleted keys that a snapshot at idx covers. */
void state_covered(struct state *s, uint64_t idx);

/* chain = first 8 bytes, big-endian, of SHA-256(previous chain as 8 bytes big-endian ++ payload). */
uint64_t state_chain_next(uint64_t chain, struct slice payload);

#endif
