/* SPDX-License-Identifier: Apache-2.0
 *
 * A state under test, fed with rows of one command. Each call gives the command's error and leaves its
 * result in the fixture.
 */
#ifndef T_UNIT_META_FIXTURE_H
#define T_UNIT_META_FIXTURE_H

#include "storaged/meta/snapshot.h"

struct fixture {
	struct state *s;
	uint32_t node;                  /* proposer */
	uint64_t session, proposal;     /* number of the next row */
	uint64_t id;                    /* of the next topic */
	int64_t now_ms;
	/* the last row */
	int err;                        /* of state_apply() */
	struct { uint32_t error; bool created; uint64_t session, first_producer_id, kv_version; } one;
	char message[2048];
	uint8_t topic_id[16];
	uint8_t payload[8192];
	size_t payload_len;
	struct sql_row row;             /* its payload is the above */
};

void fixture_empty(struct fixture *f);
/* With a cluster and node 1, session 1. */
void fixture_new(struct fixture *f);
void fixture_done(struct fixture *f);

/* UINT32_MAX when the row was not applied; then f->err says why. */
uint32_t fixture_run(struct fixture *f, Meta__Command *c);
uint32_t fixture_run_as(struct fixture *f, Meta__Command *c, uint32_t node, uint64_t session, uint64_t proposal);

uint32_t fixture_init_cluster(struct fixture *f, uint8_t byte, size_t n);
uint32_t fixture_register(struct fixture *f, uint32_t node, uint8_t boot);
uint32_t fixture_register_slots(struct fixture *f, uint32_t node, uint8_t boot, uint32_t slots);
uint32_t fixture_recovered(struct fixture *f, uint32_t node, uint64_t session, uint64_t cut);

struct create_args {
	const char *name, *type;        /* NULL: text/plain */
	uint32_t partitions;
	size_t n_owners;
	uint32_t owner[4];
	uint64_t ttl;
	int64_t expires;
	bool closed, validate, initial, reserved, has_kafka;
	const char *schema, *kafka;
	const char *config[2];          /* name, value */
	uint8_t id;                     /* 16 times; 0: a fresh one */
	size_t id_len;                  /* 0: 16 */
	const uint8_t *source;          /* 16 bytes; NULL: no fork */
	size_t source_len;              /* 0: 16 */
	size_t n_points;                /* 0: 1 */
	uint64_t offset[4], parent_end[4], sub_offset;
	bool at_tail;
};
uint32_t fixture_create(struct fixture *f, const struct create_args *a);
/* Topic /taken/name with one of every setting: see its body; node 2 registers, too. */
void fixture_taken(struct fixture *f);
uint32_t fixture_create_name(struct fixture *f, const char *name);
uint32_t fixture_create_number(struct fixture *f, int i);
uint32_t fixture_close(struct fixture *f, const uint8_t id[16], uint32_t partition, bool begin);
uint32_t fixture_delete(struct fixture *f, const uint8_t id[16]);
struct update_args {
	const char *alias;              /* NULL: left alone */
	const char *schema;
	int validate;                   /* 0 left alone, 1 true, -1 false */
	const char *config[4];          /* name, value, name, value; NULL ends */
	const char *config_delete;
};
uint32_t fixture_update(struct fixture *f, const uint8_t id[16], const struct update_args *a);
uint32_t fixture_grow(struct fixture *f, const uint8_t id[16], uint32_t partitions, const uint32_t *owners, size_t n);
/* Of the proposer, unless the args say otherwise. */
struct commit_args {
	bool has_wal;
	struct { uint32_t node; uint64_t session, from, to; } wal;
	struct object_row add[8];       /* those with bytes */
	struct object_id remove[8];     /* those with a node */
	uint32_t node;                  /* 0: the fixture's */
};
uint32_t fixture_commit(struct fixture *f, const struct commit_args *a);
/* What state_check_commit() says; the message in f->message. */
uint32_t fixture_check_commit(struct fixture *f, const struct commit_args *a);
uint32_t fixture_objects_deleted(struct fixture *f, const struct object_id *id, size_t n);
/* n at most 8. */
uint32_t fixture_trim(struct fixture *f, const uint64_t *log_id, const uint64_t *start, size_t n);
uint32_t fixture_expire(struct fixture *f, const uint8_t id[16], int64_t expires_at_ms);
uint32_t fixture_touch(struct fixture *f, const uint8_t id[16], int64_t expires_at_ms);
/* With a check when version is not UINT64_MAX; value n bytes of 'v'. */
uint32_t fixture_put_kv(struct fixture *f, const char *key, size_t n, uint64_t version);
uint32_t fixture_delete_kv(struct fixture *f, const char *key, uint64_t version);
/* A put or delete of one of a few keys, some of them refused. */
void fixture_random_kv(struct fixture *f, unsigned *seed);
/* One row that begins to close up to n topics (at most 8). */
void fixture_close_some(struct fixture *f, unsigned n);
/* A commit, deletion of objects or a trim, much of it refused. */
void fixture_random_objects(struct fixture *f, unsigned *seed);
/* A fork of some topic, often refused. */
void fixture_random_fork(struct fixture *f, unsigned *seed);
/* A create, close, delete, update, growth or registration of something. */
void fixture_random_row(struct fixture *f, unsigned *seed);

/* What a snapshot's callback was given: the latest of each key. */
struct kept {
	struct sql_entity *e;
	size_t n;
};
void kept_add(void *arg, const struct sql_entity *e);
/* The whole state as it is now. k is empty. */
void fixture_keep(struct fixture *f, struct kept *k);
/* Byte for byte, but for what every row changes: clock and chain, number and result of the proposer's last one. */
bool kept_equal(const struct kept *a, const struct kept *b);
/* NULL: refused. */
struct state *kept_load(const struct kept *k, uint64_t idx);
void kept_done(struct kept *k);

#endif
