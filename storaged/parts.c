/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls with many parts share: finding the part's log, and errors that stand in an answer.
 */
#include "storaged/parts.h"

struct part_error *part_error_new(const struct pico_error *e)
{
	must(e->kind != PICO_OK);
	struct part_error *p = must_calloc(1, sizeof(*p));
	p->e = *e;
	ipc_error_fill(&p->m, &p->e);
	return p;
}

struct log *part_find_log(struct node *n, const uint8_t *topic_id, size_t topic_id_len, uint32_t partition,
			  const struct state_topic **ret_topic, struct pico_error *ret_error)
{
	const struct state_topic *t = topic_id_len == 16 ? state_topic_by_id(meta_state(n->meta), topic_id) : NULL;
	if (t == NULL || !node_topic_is_there(n, t)) {
		bool gone = topic_id_len == 16 && state_soft_deleted_by_id(meta_state(n->meta), topic_id) != NULL;
		pico_error_set(ret_error, gone ? PICO_GONE : PICO_NOT_FOUND, gone ? "the stream was deleted" : "no such stream");
		return NULL;
	}
	*ret_topic = t;
	if (partition >= t->n_partitions) {
		pico_error_set(ret_error, PICO_NO_PARTITION, "no such partition");
		return NULL;
	}
	struct log *log = node_log(n, t, partition);
	if (log == NULL)
		pico_error_set(ret_error, PICO_NOT_OWNER, "node %u serves this partition", t->partition[partition].owner);
	return log;
}

bool part_epoch_is_good(const struct log *log, int32_t leader_epoch, struct pico_error *ret_error)
{
	if (leader_epoch == -1 || (uint32_t)leader_epoch == log_epoch(log))
		return true;
	if (leader_epoch < 0 || (uint32_t)leader_epoch < log_epoch(log))
		pico_error_set(ret_error, PICO_FENCED, "the partition's leader epoch is newer");
	else
		pico_error_set(ret_error, PICO_UNAVAILABLE, "the partition's leader epoch is not known here yet");
	return false;
}
