/* SPDX-License-Identifier: Apache-2.0
 *
 * The topics of a Kafka bench: made, found, deleted; ids for its producers.
 */
#ifndef CLI_KAFKA_TOPICS_H
#define CLI_KAFKA_TOPICS_H

#include "cli/kafka_client.h"

/* One partition; those of a topic stand together. */
struct kafka_part {
	uint32_t topic;
	int32_t partition;
	unsigned node;                  /* of the topics' addresses: its leader */
	int32_t leader_epoch;
};

struct kafka_topics {
	const struct kafka_client *client;
	unsigned n;
	unsigned partitions;            /* each has so many */
	char prefix[64];
	bool made;                      /* there may be some to delete */
	struct slice *name;             /* n names */
	struct kmsg_uuid *id;
	struct kafka_part *part;        /* n * partitions */
	struct bench_address *node;     /* those that lead something */
	unsigned n_nodes;
	struct region region;           /* all of these */
};

/* Makes n topics and waits until every partition has a leader. CLI_OK, or told; kafka_topics_done() in any case. */
int kafka_topics_make(struct kafka_topics *t, const struct kafka_client *k, unsigned n, unsigned partitions);
/* CLI_OK, or told. */
int kafka_topics_delete(struct kafka_topics *t);
void kafka_topics_done(struct kafka_topics *t);
/* n ids of idempotent producers. CLI_OK, or told. */
int kafka_producers_make(const struct kafka_client *k, struct kafka_producer *producers, unsigned n);

#endif
