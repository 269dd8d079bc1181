/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the engine share: a process with an engine in a world, and appends, reads and waits that
 * remember their answers.
 */
#ifndef T_UNIT_ENGINE_H
#define T_UNIT_ENGINE_H

#include "storaged/engine/engine.h"
#include "storaged/engine/wal_format.h"
#include "t/unit/engine_world.h"

#define N_LOGS 4

struct process {
	struct world *world;
	struct engine *engine;
	struct log *logs[N_LOGS];       /* ids 100, 101, .. */
	uint64_t session;               /* running */
	bool serving, stopped;
	int fatal;                      /* exit code; 0: none */
	char fatal_text[512];
	unsigned n_reclaims, n_gone;
	uint64_t position;              /* last on_wal_position */
	struct engine_recovery_stats stats;
	struct engine_session ended[16];
	struct proposal {
		struct env_task task;
		engine_proposed_cb *done;       /* NULL: free */
		void *done_arg;
	} proposals[4];                 /* under way */
	unsigned n_commits, n_recovered, n_merges, n_rewrites, n_trims;
	unsigned n_warnings;
	char warning[400];              /* the last */
	size_t n_deleted;               /* objects */
};

/* What the metadata knows: it outlives processes, as the store does. */
struct metadata {
	struct catalogue *catalogue;
	uint64_t watermark[16];         /* by session */
	bool recovered[16];
	uint64_t start[N_LOGS];         /* UINT64_MAX: the log is deleted */
	struct { int64_t ms, bytes; } rule[N_LOGS];     /* of retention; -1: none */
	bool forgets_nothing;           /* deletions are not answered */
};
extern struct metadata metadata;

struct append {
	struct engine_append a;         /* first */
	unsigned n_answers, order;      /* order: 1 is the first answered of all */
	struct pico_error error;
	uint8_t batch[8192];
};

struct read {
	struct engine_read r;           /* first */
	unsigned n_answers;
	struct pico_error error;
};

/* Fresh for each test(); the configuration may be changed before the start. */
extern struct world world;
extern struct process process;
extern struct engine_config test_config;
extern unsigned answers;                /* appends answered so far */
int test_setup(void **state);
int test_teardown(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, test_setup, test_teardown)

/* A process of session n_ended + 1 over sessions 1..n_ended, with those of logs 100 to 103 that were not deleted. Not serving yet. */
void process_start(struct process *p, struct world *w, size_t n_ended);
/* The two halves of process_start(): without logs, and from there on. */
void process_new(struct process *p, struct world *w);
void process_go(struct process *p, size_t n_ended);
/* Started, and everything run until it serves. */
void process_serve(struct process *p, struct world *w, size_t n_ended);
/* All that was appended goes into data objects, which takes ten minutes. */
void process_pack(struct process *p);
/* The metadata applies it. */
void log_trim(struct process *p, int i, uint64_t start);
void log_delete(struct process *p, int i);
/* kill -9: only the store and the metadata stay. */
void process_kill(struct process *p);

/* The records of that text, separated by '|' (NULL: no records) to logs[i]. Fields may be set before append_send(). */
struct append *append_new(struct process *p, int i, const char *text);
void append_send(struct process *p, struct append *a);
struct append *append_do(struct process *p, int i, const char *text);
void append_producer(struct append *a, const char *id, uint64_t epoch, uint64_t seq);
/* Of an append that was answered once. */
void append_free(struct append *a);
/* Sends, runs until all is quiet, asserts the offsets, frees. */
void append_now(struct process *p, int i, const char *text, uint64_t base);
/* Records "0".."n-1" of an empty log, each in an object of its own. */
void append_fill(struct process *p, int i, unsigned n);
/* Answered with success, without records lost: base, next. */
void assert_stored(const struct append *a, uint64_t base, uint64_t next);
void assert_refused(const struct append *a, enum pico_error_kind kind);
void assert_open(const struct append *a);       /* no answer yet */

/* Reads and compares: the records of logs[i] from `from` on are these texts, joined by '|'. */
void assert_records(struct process *p, int i, uint64_t from, const char *texts);
struct read *read_new(struct process *p, int i, uint64_t from, uint32_t max_bytes);
/* The texts of its pieces, joined by '|'; drops the pins. Valid until the next call. */
const char *read_texts(struct read *r);
void read_free(struct read *r);

/* Puts an object of node 7 into the store. */
void plant(uint64_t session, uint64_t seq, enum wal_kind kind, const char *put_id);

#endif
