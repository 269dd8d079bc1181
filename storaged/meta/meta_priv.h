/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the command log: meta.c reads, applies and decides what comes next; meta_propose.c
 * queues and sends; meta_snapshot.c writes snapshots, meta_export.c
 * exports.
 */
#ifndef STORAGED_META_META_PRIV_H
#define STORAGED_META_META_PRIV_H

#include "storaged/meta/cluster.h"
#include "storaged/meta/export_format.h"
#include "storaged/meta/meta.h"
#include "storaged/meta/snapshot.h"

#define META_PENDING_MAX 65536
#define META_ROW_BYTES_MAX (1u << 20)   /* a row takes no further command beyond it */
#define META_FETCH_ROWS 16
#define META_BACKOFF_MIN_MS 20
#define META_BACKOFF_MAX_MS 1000
#define META_BUSY_MS 5000               /* a database held by a dying process */
#define META_SNAPSHOT_ROWS 1024
#define META_SNAPSHOT_COMMANDS 10000
#define META_SNAPSHOT_SLICE 256
#define META_ROWS_KEPT 10000
#define META_EXPORT_MS 60000

struct proposal {
	struct proposal *next;
	Meta__Command *command;         /* owned */
	size_t size;                    /* encoded */
	meta_result_cb *cb;             /* NULL once it ran */
	void *arg;
};

/* The row in flight: the same bytes under the same number until the state says that it was applied. */
struct batch {
	bool active, init;              /* init: InitCluster */
	uint64_t session, proposal;     /* session 0: InitCluster, RegisterNode */
	struct proposal *first;         /* owned; none in rows of session 0 */
	uint8_t *payload;               /* owned */
	size_t payload_len;
};

struct snapshot_entry {
	size_t key, key_len, payload, payload_len;      /* positions in bytes */
	uint64_t idx;
	bool deleted;
};

struct meta_snapshot {
	enum { SNAPSHOT_IDLE, SNAPSHOT_ENCODING, SNAPSHOT_WRITING } state;
	uint64_t base;                  /* what the database holds */
	uint64_t idx;                   /* what is being made */
	uint64_t n_commands;            /* applied since `base`, or since the encoding began */
	struct snapshot_entry *entry;   /* owned */
	size_t n, capacity;
	uint8_t *bytes;                 /* owned */
	size_t n_bytes, bytes_capacity;
	struct env_timer timer;
	uint64_t backoff_ms;
};

struct meta_export {
	enum { EXPORT_OFF, EXPORT_IDLE, EXPORT_ENCODING, EXPORT_PUTTING, EXPORT_LISTING, EXPORT_DELETING } state;
	uint64_t idx;                   /* what is being made */
	uint64_t n_entities, n_bytes;   /* of its body so far */
	uint32_t crc;
	struct iovec *iov;              /* header and body; owned, as is what it names */
	size_t n_iov, capacity, room;   /* room: behind the last one's end */
	char key[EXPORT_KEY_MAX];
	uint64_t done_idx, done_ms, done_bytes; /* the last one stored by this process; 0: none */
	struct env_timer timer, limit;
	meta_export_cb *cb;             /* who waits for the next one, or NULL */
	void *cb_arg;
	void (*on_last)(void *arg);     /* the stop that waits for it, or NULL */
	void *last_arg;
};

struct meta {
	struct env *env;
	struct sql_log *sql;
	struct meta_config config;
	char *host, *cluster_id, *http_address, *kafka_address;
	struct meta_events events;
	void *arg;

	struct state *state;
	uint64_t session;               /* ours; 0 before it is registered */
	bool loaded;                    /* the snapshot was read */
	bool must_read;                 /* to the end of the log before anything is sent */
	bool busy;                      /* an operation of step() is outstanding */
	bool refused;                   /* for good */
	bool ended;                     /* our session was ended */
	bool agreed;                    /* the cluster objects were looked at */
	uint64_t older_idx;             /* row that the database ended at when it looked like an older copy; 0: never */

	struct cluster_check check;
	struct proposal *pending, **pending_last;
	size_t n_pending;               /* waiting and in flight */
	struct batch batch;
	struct meta_snapshot snapshot;
	struct meta_export export;

	struct env_timer kick, retry;
	uint64_t backoff_ms, started_ms;
	int64_t stamp_ms;               /* stamp time at stamp_at_ms */
	uint64_t stamp_at_ms;
	int64_t clock_before_ms;        /* the state's clock before this process registered */
	bool faulty;
	char fault[CLUSTER_TEXT_MAX];
};

/* meta.c: goes on with whatever is next, when the callbacks of this turn are through. */
void meta_kick(struct meta *m);
/* Tries again after a while that doubles; fault says why. */
void meta_back_off(struct meta *m, const char *fault);
void meta_refuse(struct meta *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Is the node's newest session this process's? */
bool meta_is_registered(const struct meta *m);
/* Applies the next row: chain, commands, callbacks. False: refused, or a broken row. */
bool meta_apply(struct meta *m, const struct sql_row *row);
int64_t meta_stamp_ms(struct meta *m);

/* meta_propose.c */
void batch_propose_init(struct meta *m);
void batch_propose_register(struct meta *m);
void batch_propose_pending(struct meta *m);
void batch_send(struct meta *m);
/* A row's result i of our batch. */
void batch_result(struct meta *m, const struct sql_row *row, size_t i, const Meta__Result__One *result);
/* The state stands at the log's end: is the batch in it? Then it is answered and done. */
void batch_look(struct meta *m);
/* Everything waiting is answered NULL. */
void proposals_abandon(struct meta *m);
void proposals_free(struct meta *m);

/* meta_snapshot.c: begins one when it is time. */
void meta_snapshot_look(struct meta *m);
/* The state is about to be replaced. */
void meta_snapshot_cancel(struct meta *m);
void meta_snapshot_free(struct meta *m);

/* meta_export.c: the state is about to be replaced. */
void meta_export_cancel(struct meta *m);
void meta_export_free(struct meta *m);

#endif
