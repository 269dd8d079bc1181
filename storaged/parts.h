/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that name many partitions at once (Kafka's): each part has a result or an error of its own.
 */
#ifndef STORAGED_PARTS_H
#define STORAGED_PARTS_H

#include "storaged/op.h"

#define PARTS_MAX 50000u                /* of one request */
#define DESCRIBE_PARTS_MAX 1000u

/* An error in an answer, with what its message borrows. Heap; free(). */
struct part_error {
	Ipc__Error m;
	struct pico_error e;
};
struct part_error *part_error_new(const struct pico_error *e);

/* The log that a part names, or NULL and the error that the part gets. */
struct log *part_find_log(struct node *n, const uint8_t *topic_id, size_t topic_id_len, uint32_t partition,
			  const struct state_topic **ret_topic, struct pico_error *ret_error);

/* Whether the client knows of the present owner's epoch; -1: it does not say. */
bool part_epoch_is_good(const struct log *log, int32_t leader_epoch, struct pico_error *ret_error);

/* The handlers, one a row of ipc_msg.def. */
void handle_submit(struct node *n, struct call *c);
void handle_fetch(struct node *n, struct call *c);
void handle_lookup(struct node *n, struct call *c);
void handle_describe_logs(struct node *n, struct call *c);
void handle_init_producer(struct node *n, struct call *c);
void handle_delete_records(struct node *n, struct call *c);

/* handle_producer.c: ids that nobody has got yet. Made by the first call, freed with the node; NULL is fine. */
struct producer_ids;
void producer_ids_free(struct producer_ids *ids);

#endif
