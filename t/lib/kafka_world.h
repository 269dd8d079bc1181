/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-kafka between real TCP clients and a scripted storaged, all in one loop: server, connections, handlers,
 * Topics client and peers are the real ones. Every call is parked until the test answers it; those that ask for topics
 * are answered on the way (every name is a topic, but those that begin with "no"), unless topics_wait.
 */
#ifndef T_LIB_KAFKA_WORLD_H
#define T_LIB_KAFKA_WORLD_H

#include "common/kafka_frame.h"
#include "t/lib/loopback.h"
#include "worker-kafka/server.h"

enum { PRODUCE = 0, FETCH = 1, LIST_OFFSETS = 2, METADATA = 3, FIND_COORDINATOR = 10, API_VERSIONS = 18, CREATE_TOPICS = 19,
       DELETE_TOPICS = 20, INIT_PRODUCER_ID = 22 };

struct kafka_world {
	struct place place;
	struct worker worker;           /* its first half: child, loop, env, topics */
	struct server server;
	struct region region;           /* of answers and batches, until the end of the test */
	uint16_t port;
	bool drained;
	/* What topics are like. */
	uint32_t n_partitions, owner;
	uint64_t settings_version;
	const char *config[2];          /* one name and value */
	const char *missing;            /* one more that is none */
	uint32_t answer_max;            /* topics that one answer has room for */
	bool topics_wait;               /* what asks for topics is not answered on the way */
};
extern struct kafka_world k;

/* `change` sets options before the server starts; may be NULL. */
void world_open(void (*change)(struct conf *c));
void world_close(void);
/* Until so many connections are open. */
void wait_conns(unsigned n);

/* ------------------------------------------------------------------ requests and answers */

/* Sends a request; the struct is kmsg_X_request. */
void ask(struct client *c, int16_t key, int16_t version, int32_t correlation_id, const void *request);
/* The next frame: has this correlation id, and decodes to kmsg_X_response, which is returned. */
const void *answer(struct client *c, int16_t key, int16_t version, int32_t correlation_id);
/* Nothing comes for a while. */
void expect_silence(struct client *c);
/* The end of the connection comes without a byte before, and with so many lines of log that have `word`. */
void expect_cut(struct client *c, const char *word, unsigned n_lines);

/* Log lines go to a buffer from here on, until log_lines() counts those with the word. */
void log_capture(void);
unsigned log_lines(const char *word);

/* A batch of n records with that value, as a producer makes it: CreateTime, no producer id. */
struct slice batch_of(unsigned n, const char *value);
/* One with a value of n bytes. */
struct slice large_batch(size_t n);
uint8_t *bytes_of(struct slice batch);          /* to lie in it */
struct slice sealed(struct slice batch);        /* with the right CRC again */

struct part {
	const char *topic;
	int32_t partition;
	struct slice batch;             /* Produce */
	int64_t offset;                 /* Fetch */
	int32_t max_bytes;              /* Fetch; 0: much */
};
/* Of several topics those of the same follow each other. */
void ask_produce(struct client *c, int16_t version, int32_t correlation_id, int16_t acks, const struct part *parts, size_t n);
/* The i-th partition of an answer, over all topics. */
const struct kmsg_produce_response_partition *produced(const void *answer, size_t i);

struct fetch_form {
	int32_t max_wait_ms, min_bytes, max_bytes;      /* max_bytes 0: 50 MiB */
};
void ask_fetch(struct client *c, int16_t version, int32_t correlation_id, struct fetch_form form, const struct part *parts,
	       size_t n);
const struct kmsg_fetch_response_partition *fetched(const void *answer, size_t i);

/* ------------------------------------------------------------------ storaged */

/* The index-th call of that type, from 0; GET_MANY are answered meanwhile, unless they are what is waited for. */
struct seen *nth(enum ipc_type type, size_t index);
size_t n_calls(enum ipc_type type);
void give_topics(struct seen *s);
/* The same for all that ask now: on a slow machine what the worker knew of a topic is too old a second later. */
void give_all_topics(void);
Ipc__Topic *topic_of_name(const char *name);    /* as they are */
const uint8_t *id_of(const char *topic);        /* 16 bytes; static */
/* Every part of a SUBMIT stored: base, base + 1, ... */
void give_stored(struct seen *s, uint64_t base);
/* The same, but one part has an error. */
void give_part_error(struct seen *s, size_t part, enum pico_error_kind kind);
void give_kind(struct seen *s, enum pico_error_kind kind);

/* Memory that fetches are answered from. */
struct stock {
	struct segment segment;
	struct pin pin;
};
void stock_open(struct stock *s, uint32_t id, size_t size);
void stock_close(struct stock *s);

/* A part of a FETCH's answer. */
struct found {
	enum pico_error_kind error;
	uint64_t start, confirm;
	int32_t leader_epoch;
	uint32_t offset, length;        /* in the stock; length 0: nothing */
	uint64_t end;                   /* behind its records */
};
void give_fetched(struct seen *s, struct stock *stock, const struct found *found, size_t n);

#endif
