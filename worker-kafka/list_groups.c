/* SPDX-License-Identifier: Apache-2.0
 *
 * ListGroups, versions 0 to 5. Groups that nobody has used since the node started are listed as Empty and without a
 * protocol type: their logs are not read for a list.
 *
 *   1 throttle time      3 flexible      4 states, and a filter by them (KIP-518)      5 types, likewise; all are classic
 */
#include "worker-kafka/group.h"

#include <strings.h>

#define GROUPS_MAX 100000u

static void list_ask(struct request *r, struct slice after);

static bool passes(const struct slice *filter, uint32_t n, const char *word)
{
	size_t len = strlen(word);
	for (uint32_t i = 0; i < n; i++)
		if (filter[i].n == len && strncasecmp((const char *)filter[i].p, word, len) == 0)
			return true;
	return n == 0;
}

static bool is_asked_for(const struct kmsg_list_groups_request *q, const Ipc__GroupListAnswer__Group *g)
{
	return passes(q->states_filter, q->n_states_filter, ipc_group_state_name(g->state)) &&
	       passes(q->types_filter, q->n_types_filter, "classic");
}

/* One page behind the others. */
static bool list_add(struct request *r, const Ipc__GroupListAnswer *a)
{
	struct kmsg_list_groups_response *d = r->state;
	struct kmsg_list_groups_response_group *all = KMSG_NEW(&r->region, list_groups_response_group, d->n_groups + a->n_group);
	if (all == NULL)
		return false;
	if (d->n_groups > 0)
		memcpy(all, d->groups, d->n_groups * sizeof(*all));
	d->groups = all;
	for (size_t i = 0; i < a->n_group; i++) {
		struct kmsg_list_groups_response_group *to = &all[d->n_groups];
		if (!is_asked_for(r->message, a->group[i]))
			continue;
		to->group_id = group_copy(r, a->group[i]->group);
		to->protocol_type = group_copy(r, a->group[i]->protocol_type);
		to->group_state = slice_str(ipc_group_state_name(a->group[i]->state));
		to->group_type = slice_str("classic");
		d->n_groups++;
	}
	return true;
}

static void on_page(struct request *r, const struct pico_error *e, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct kmsg_list_groups_response *d = r->state;
	const Ipc__GroupListAnswer *a = (const Ipc__GroupListAnswer *)m;
	d->error_code = (int16_t)group_error(r, e, IPC__GROUP_ERROR__NONE);
	if (a != NULL && !list_add(r, a)) {
		request_close(r, "memory");
		return;
	}
	if (a != NULL && a->has_more && a->n_group > 0 && d->n_groups < GROUPS_MAX)
		list_ask(r, group_copy(r, a->group[a->n_group - 1]->group));
	else
		request_answer(r, d);
}

static void list_ask(struct request *r, struct slice after)
{
	Ipc__GroupListRequest m = IPC__GROUP_LIST_REQUEST__INIT;
	m.after = group_bytes(after);
	request_call(r, IPC_GROUP_LIST, &m.base, NO_PAYLOAD, request_deadline(r, 0), on_page);
}

void list_groups_handle(struct request *r)
{
	r->state = KMSG_NEW(&r->region, list_groups_response, 1);
	if (r->state == NULL)
		request_close(r, "memory");
	else
		list_ask(r, slice_of(NULL, 0));
}
