/* SPDX-License-Identifier: Apache-2.0
 *
 * Trim, which is also what deletes records: a log begins later. Answered when the metadata has applied it, for from then
 * on nobody is shown what lies below.
 */
#include "storaged/handle.h"

static void trim_answer(struct op *op)
{
	struct pico_error e;
	const struct state_topic *t = state_topic_by_id(meta_state(op->node->meta), op->topic_id);
	if (t == NULL) {
		pico_error_set(&e, PICO_NOT_FOUND, "no such stream");
		op_fail(op, &e);
		return;
	}
	Ipc__TrimAnswer a = IPC__TRIM_ANSWER__INIT;
	a.start = t->partition[op->partition].start;
	op_answer(op, &a.base);
}

static void on_trimmed(void *arg, const Meta__Result__One *result)
{
	op_applied(arg, result, trim_answer);
}

static int trim_propose(struct op *op, uint64_t log_id, uint64_t start)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__TrimMany many = META__TRIM_MANY__INIT;
	Meta__TrimMany__Trim trim = META__TRIM_MANY__TRIM__INIT, *pointer = &trim;
	command.kind_case = META__COMMAND__KIND_TRIM_MANY;
	command.trim_many = &many;
	many.trim = &pointer;
	many.n_trim = 1;
	trim.log_id = log_id;
	trim.start = start;
	return meta_propose(op->node->meta, &command, on_trimmed, op);
}

/* Only what is durable is trimmed: a start beyond the end would outlive records that a crash takes back. */
static bool trim_is_fine(struct call *c, const struct log *log, int64_t offset)
{
	struct pico_error e;
	if (offset >= -1 && (offset == -1 || (uint64_t)offset <= log_confirm(log)))
		return true;
	if (offset < -1) {
		call_fail(c, PICO_BAD_REQUEST, "a trim names an offset, or -1 for the end");
		return false;
	}
	pico_error_set(&e, PICO_OUT_OF_RANGE, "offset %lld is beyond the end", (long long)offset);
	e.has_next_offset = true;
	e.next_offset = log_confirm(log);
	c->on_answer(c, &e, NULL);
	return false;
}

void handle_trim(struct node *n, struct call *c)
{
	const Ipc__TrimRequest *r = (const Ipc__TrimRequest *)c->request;
	const struct state_topic *t = node_find_topic(n, c, r->log != NULL ? r->log->topic : NULL);
	struct log *log = t != NULL ? node_find_log(n, c, t, r->log->partition) : NULL;
	if (log == NULL || !trim_is_fine(c, log, r->offset))
		return;
	uint64_t start = r->offset == -1 ? log_confirm(log) : (uint64_t)r->offset;
	struct op *op = op_new(n, c);
	op->refs = 1;
	op->partition = r->log->partition;
	memcpy(op->topic_id, t->id, sizeof(op->topic_id));
	op_arm(op, op_deadline_unknown);
	if (start <= log_start(log)) {
		trim_answer(op);
		op_unref(op);
	} else if (trim_propose(op, log_id(log), start) < 0) {
		struct pico_error e;
		pico_error_set(&e, PICO_THROTTLED, "too many metadata changes are waiting; try again");
		op_fail(op, &e);
		op_unref(op);
	}
}
