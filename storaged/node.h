/* SPDX-License-Identifier: Apache-2.0
 *
 * The role storaged, without an operating system: metadata, recovery, engine and the Topics calls over
 * struct env, object stores and a SQL log. storaged/main.c runs it for real, t/sim/ in simulation.
 *
 * Life: node_start() -> metadata registered -> ended sessions sealed, cut and read back -> the new session's
 * open object stored -> on_serving. Calls before that are answered UNAVAILABLE.
 */
#ifndef STORAGED_NODE_H
#define STORAGED_NODE_H

#include "storaged/call.h"
#include "storaged/meta/meta.h"
#include "storaged/objstore/url.h"

struct node;

struct node_config {
	struct meta_config meta;
	struct objstore_url wal_url;    /* WAL parameters where given; the store's defaults else */
	uint64_t wal_cache_size;        /* bytes of arena segments */
	uint64_t block_cache_size;      /* bytes of the page memfd */
	uint64_t open_logs;             /* with more than 32 bytes in memory; 0: 100,000 */
	uint64_t index_cache_size;      /* bytes of tops and pages of data objects; 0: 64 MiB */
	uint64_t wal_upload_threshold;  /* bytes of WAL that are a reason to pack it; 0: 2/5 of wal_cache_size */
	uint64_t wal_upload_interval_ms;        /* age of WAL that is one; 0: 600,000 */
	uint64_t gc_delay_ms;           /* between the mark of an object and its deletion */
	uint64_t sweep_interval_ms;     /* of the orphan sweep; 0: an hour */
	uint64_t rewrite_patience_ms;   /* that an object is more than half dead before it is rewritten; 0: ten minutes */
	int64_t retention_ms, retention_bytes;  /* of topics without a config of their own; < 0: all is kept */
	uint64_t retention_interval_ms; /* between two passes; 0: a minute */
	uint32_t segment_size;          /* 0: 8 MiB */
	uint32_t max_message_size;      /* stored batch */
	uint32_t max_partitions;        /* a topic */
	uint64_t max_logs;
	bool allow_unfenced_store;
	struct node_groups {            /* consumer groups; 0: the default of the option, but for the delay */
		uint64_t groups_max, members_max;       /* a node; a group */
		uint64_t memory_max;            /* bytes of all groups */
		uint64_t min_session_ms, max_session_ms;
		uint64_t initial_delay_ms;      /* before the first rebalance of an empty group */
		uint64_t retention_ms;          /* of offsets, from when the group is empty */
	} groups;
};

struct node_events {
	void (*on_serving)(void *arg);
	/* The start or the run cannot go on; code as in operations (1, 3, 75). The process exits after one line. */
	void (*on_fatal)(void *arg, int code, const char *text);
	/* Something that an operator should know; the node goes on. NULL: nobody listens. */
	void (*on_warning)(void *arg, const char *text);
	/* A segment that only readers pin is needed: the peers send Reclaim. */
	void (*on_reclaim)(void *arg, struct segment *segment);
	/* A segment is about to be freed: the peers send SegmentGone. No pin is left. */
	void (*on_segment_gone)(void *arg, struct segment *segment);
	/* Logs lost records or went; nobody has been told yet. What was read of any before may be gone. */
	void (*on_cut)(void *arg);
	/* The WAL object being filled changed: WalPosition. */
	void (*on_wal_position)(void *arg, uint64_t session, uint64_t seq);
};

/* All pointers are borrowed until node_free(). wal is where WAL objects go, data the rest; they may be the same. */
int node_new(struct env *env, struct objstore *data, struct objstore *wal, struct sql_log *sql,
	     const struct node_config *config, const struct node_events *events, void *arg, struct node **ret_node);
void node_start(struct node *n);
/* Waits end (WaitAnswer ready = false at once), appends in the arena are stored and answered, new calls are
 * UNAVAILABLE; then on_stopped. */
void node_stop(struct node *n, void (*on_stopped)(void *arg), void *arg);
/* At any time; calls outstanding are never answered. Frees everything (the simulator crashes a node this way). */
void node_free(struct node *n);

/* Takes a call; its answer comes through call->on_answer, perhaps before this returns. */
void node_call(struct node *n, struct call *call);
/* The worker cancelled or hung up: parked waits and reads, and appends not in the arena yet, are answered CANCELLED now.
 * Others go on. */
void node_cancel(struct node *n, struct call *call);

/* No call of that connection (call.peer) is left and none will come: what was kept for it goes. */
void node_peer_gone(struct node *n, uint64_t peer);

/* What /ready says. reason is "" when ready; valid until the next call. */
bool node_is_ready(struct node *n, const char **ret_reason);
void node_wal_position(const struct node *n, uint64_t *ret_session, uint64_t *ret_seq);

#endif
