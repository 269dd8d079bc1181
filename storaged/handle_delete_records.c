/* SPDX-License-Identifier: Apache-2.0
 *
 * DeleteRecords: many logs begin later. All parts that are not refused are one TrimMany, so they take effect together;
 * each is answered with where its log begins once that is applied.
 */
#include <stdlib.h>

#include "storaged/parts.h"

#define DELETE_PARTS_MAX 10000u

struct delete_part {
	uint8_t topic_id[16];
	uint32_t partition;
	struct part_error *error;       /* owned */
	Ipc__DeleteRecordsAnswer__Part answer;
	Meta__TrimMany__Trim trim;
};

struct delete_op {
	size_t n;
	struct delete_part part[];
};

static void delete_free(struct op *op)
{
	struct delete_op *d = op->own;
	for (size_t i = 0; i < d->n; i++)
		free(d->part[i].error);
	free(d);
}

/* ---------------------------------------------------------------------- answer */

static void part_fail(struct delete_part *p, enum pico_error_kind kind, const char *text)
{
	struct pico_error e;
	pico_error_set(&e, kind, "%s", text);
	p->error = part_error_new(&e);
}

static void part_answer(const struct node *n, struct delete_part *p)
{
	const struct state_topic *t = state_topic_by_id(meta_state(n->meta), p->topic_id);
	if (p->error == NULL && (t == NULL || p->partition >= t->n_partitions))
		part_fail(p, PICO_NOT_FOUND, "no such stream");
	if (p->error != NULL)
		p->answer.error = &p->error->m;
	else
		p->answer.start = t->partition[p->partition].start;
}

static void delete_answer(struct op *op)
{
	struct delete_op *d = op->own;
	Ipc__DeleteRecordsAnswer a = IPC__DELETE_RECORDS_ANSWER__INIT;
	Ipc__DeleteRecordsAnswer__Part **list = must_calloc(d->n + 1, sizeof(*list));
	a.n_part = d->n;
	a.part = list;
	for (size_t i = 0; i < d->n; i++) {
		part_answer(op->node, &d->part[i]);
		list[i] = &d->part[i].answer;
	}
	op_answer(op, &a.base);
	free(list);
}

static void on_applied(void *arg, const Meta__Result__One *result)
{
	op_applied(arg, result, delete_answer);
}

/* ---------------------------------------------------------------------- question */

/* Only what is durable is deleted: a start beyond the end would outlive records that a crash takes back. */
static void part_begin(struct node *n, const Ipc__DeleteRecordsRequest__Part *r, struct delete_part *p)
{
	struct pico_error e;
	const struct state_topic *t;
	struct log *log = part_find_log(n, r->topic_id.data, r->topic_id.len, r->partition, &t, &e);
	ipc__delete_records_answer__part__init(&p->answer);
	meta__trim_many__trim__init(&p->trim);
	if (log == NULL) {
		p->error = part_error_new(&e);
	} else if (r->offset < -1 || (r->offset >= 0 && (uint64_t)r->offset > log_confirm(log))) {
		part_fail(p, PICO_OUT_OF_RANGE, "records up to the end can be deleted");
	} else {
		memcpy(p->topic_id, t->id, sizeof(p->topic_id));
		p->partition = r->partition;
		p->trim.log_id = log_id(log);
		p->trim.start = r->offset == -1 ? log_confirm(log) : (uint64_t)r->offset;
	}
}

static int delete_propose(struct op *op)
{
	struct delete_op *d = op->own;
	Meta__Command command = META__COMMAND__INIT;
	Meta__TrimMany many = META__TRIM_MANY__INIT;
	many.trim = must_calloc(d->n + 1, sizeof(*many.trim));
	command.kind_case = META__COMMAND__KIND_TRIM_MANY;
	command.trim_many = &many;
	for (size_t i = 0; i < d->n; i++)
		if (d->part[i].error == NULL)
			many.trim[many.n_trim++] = &d->part[i].trim;
	int r = many.n_trim > 0 ? meta_propose(op->node->meta, &command, on_applied, op) : 1;
	free(many.trim);
	return r;
}

void handle_delete_records(struct node *n, struct call *c)
{
	const Ipc__DeleteRecordsRequest *r = (const Ipc__DeleteRecordsRequest *)c->request;
	struct pico_error e;
	if (r->n_part > DELETE_PARTS_MAX) {
		call_fail(c, PICO_BAD_REQUEST, "records of at most %u partitions are deleted at once", DELETE_PARTS_MAX);
		return;
	}
	struct op *op = op_new(n, c);
	struct delete_op *d = op->own = must_calloc(1, sizeof(*d) + r->n_part * sizeof(d->part[0]));
	op->free_own = delete_free;
	op->refs = 1;
	d->n = r->n_part;
	for (size_t i = 0; i < d->n; i++)
		part_begin(n, r->part[i], &d->part[i]);
	op_arm(op, op_deadline_unknown);
	int proposed = delete_propose(op);
	if (proposed == 0)
		return;
	if (proposed < 0) {
		pico_error_set(&e, PICO_THROTTLED, "too many metadata changes are waiting; try again");
		op_fail(op, &e);
	} else {
		delete_answer(op);
	}
	op_unref(op);
}
