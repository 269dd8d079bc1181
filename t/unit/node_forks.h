/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams beside what they have to show: a model is the list of records that a stream of one partition has from offset 0
 * on, trimmed ones, too; a fork's begins with a copy of its source's.
 */
#ifndef T_UNIT_NODE_FORKS_H
#define T_UNIT_NODE_FORKS_H

#include "t/unit/node_world.h"

#define MODEL_MAX 2000u

struct model_record {
	uint32_t number;                /* written into its value; nobody else has it */
	int64_t ms;
	uint64_t base;                  /* of its batch */
};

struct model {
	char name[32];
	uint8_t id[16];
	uint64_t start, end;
	struct model_record record[MODEL_MAX];
};

void model_create(struct model *m, const char *name);
/* Appends a batch of n records in that codec, all at time ms, as a Kafka client does. */
void model_push(struct model *m, uint32_t n, unsigned codec, int64_t ms);
/* At the tail when offset is UINT64_MAX; with the whole record at offset when `piece`. The batch around it is read and
 * cut as a worker does. */
void model_fork(struct model *m, const char *name, const struct model *source, uint64_t offset, bool piece);
/* The same request once more, its outcome: PICO_OK: it exists; FORK_CREATED: it was created; else why not. */
enum pico_error_kind fork_ask(const char *name, const struct model *source, uint64_t offset, bool piece);
#define FORK_CREATED 1000
void model_trim(struct model *m, uint64_t start);
void model_delete(const struct model *m);
void topics_delete(void);               /* all there are */

/* Reads from every offset, looks up every time, asks for the ends: all as the model says. */
void model_check(const struct model *m);
/* The same for few offsets: quick. */
void model_check_some(const struct model *m);

/* Waits until everything written so far stands in data objects. */
void packs_wait(void);
/* Unmarked objects, and their highest level. */
size_t objects_count(unsigned *ret_level);

#endif
