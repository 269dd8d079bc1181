/* SPDX-License-Identifier: Apache-2.0
 *
 * Lookup: the ends of many logs, and where a time is. storaged does not decompress, so it names the batch; the
 * worker looks inside. Everything is answered from memory and from what is durable.
 */
#include <stdlib.h>

#include "storaged/parts.h"

static void lookup_time(const struct log *log, const Ipc__LookupRequest__Part *r, Ipc__LookupAnswer__Part *a)
{
	struct log_time found;
	a->found = r->what == IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER ? log_find_time(log, r->timestamp_ms, &found)
								     : log_find_latest(log, &found);
	if (!a->found)
		return;
	a->offset = found.base;
	a->max_timestamp_ms = found.max_timestamp_ms;
}

static struct part_error *lookup_part(struct node *n, const Ipc__LookupRequest__Part *r, Ipc__LookupAnswer__Part *a)
{
	struct pico_error e;
	const struct state_topic *t;
	struct log *log = part_find_log(n, r->topic_id.data, r->topic_id.len, r->partition, &t, &e);
	if (log == NULL || !part_epoch_is_good(log, r->leader_epoch, &e))
		return part_error_new(&e);
	a->leader_epoch = (int32_t)log_epoch(log);
	switch (r->what) {
	case IPC__LOOKUP_REQUEST__WHAT__START:
	case IPC__LOOKUP_REQUEST__WHAT__END:
		a->found = true;
		a->offset = r->what == IPC__LOOKUP_REQUEST__WHAT__START ? log_start(log) : log_confirm(log);
		return NULL;
	case IPC__LOOKUP_REQUEST__WHAT__AT_OR_AFTER:
	case IPC__LOOKUP_REQUEST__WHAT__MAX_TIMESTAMP:
		lookup_time(log, r, a);
		return NULL;
	default:
		pico_error_set(&e, PICO_BAD_REQUEST, "a lookup of something unknown");
		return part_error_new(&e);
	}
}

void handle_lookup(struct node *n, struct call *c)
{
	const Ipc__LookupRequest *r = (const Ipc__LookupRequest *)c->request;
	if (r->n_part > PARTS_MAX) {
		call_fail(c, PICO_BAD_REQUEST, "a lookup has at most %u parts", PARTS_MAX);
		return;
	}
	Ipc__LookupAnswer a = IPC__LOOKUP_ANSWER__INIT;
	Ipc__LookupAnswer__Part *part = must_calloc(r->n_part, sizeof(*part));
	struct part_error **error = must_calloc(r->n_part, sizeof(*error));
	a.n_part = r->n_part;
	a.part = must_calloc(r->n_part, sizeof(*a.part));
	for (size_t i = 0; i < r->n_part; i++) {
		ipc__lookup_answer__part__init(&part[i]);
		error[i] = lookup_part(n, r->part[i], &part[i]);
		part[i].error = error[i] != NULL ? &error[i]->m : NULL;
		a.part[i] = &part[i];
	}
	call_answer(c, &a.base);
	for (size_t i = 0; i < a.n_part; i++)
		free(error[i]);
	free(error);
	free(part);
	free(a.part);
}
