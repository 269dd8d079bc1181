/* SPDX-License-Identifier: Apache-2.0
 *
 * Committed offsets of groups - set, looked up, taken away - and groups as things: described, listed, deleted. A commit is
 * answered when its record is durable; what is looked up is durable.
 */
#include <stdlib.h>

#include "common/metrics.h"
#include "storaged/coordinator.h"

#define ANSWER_BYTES_MAX (3u << 20)     /* of a page, below IPC_MESSAGE_MAX */
#define LIST_MAX 5000u
#define ENTRY_ROOM 64u                  /* of a record besides one entry's metadata */

static struct slice bytes_of(ProtobufCBinaryData b)
{
	return slice_of(b.data != NULL ? b.data : (const uint8_t *)"", b.len);
}

static ProtobufCBinaryData data_of(struct slice s)
{
	return (ProtobufCBinaryData){ .len = s.n, .data = (uint8_t *)(uintptr_t)s.p };
}

static bool key_of(ProtobufCBinaryData topic_id, uint32_t partition, struct offset_key *ret)
{
	*ret = (struct offset_key){ .partition = partition };
	if (topic_id.len != sizeof(ret->topic_id))
		return false;
	memcpy(ret->topic_id, topic_id.data, sizeof(ret->topic_id));
	return true;
}

static const struct state_topic *topic_of(const struct node *n, const struct offset_key *key)
{
	return state_topic_by_id(meta_state(n->meta), key->topic_id);
}

static bool partition_is_there(const struct node *n, const struct offset_key *key)
{
	const struct state_topic *t = topic_of(n, key);
	return t != NULL && key->partition < t->n_partitions;
}

static void throttle(struct op *op, const char *text)
{
	struct pico_error e;
	pico_error_set(&e, PICO_THROTTLED, "%s", text);
	op_fail(op, &e);
}

/* From here on it ends by its record alone. */
static void writes_now(struct op *op)
{
	op->on_cancel = NULL;
	op->on_stop = NULL;
	op->on_deadline = op_deadline_unknown;
}

/* ---------------------------------------------------------------------- commit */

struct commit {
	struct op *op;
	struct group_entry *entry;
	int64_t now_ms;
	size_t room;                    /* for new entries */
	size_t metadata_max;
	struct offset_entry *list;
	size_t n;
};

static Ipc__GroupError commit_check(struct commit *c, const Ipc__GroupCommitRequest__Part *p, struct offset_entry *e)
{
	if (!key_of(p->topic_id, p->partition, &e->key) || !partition_is_there(c->op->node, &e->key))
		return IPC__GROUP_ERROR__UNKNOWN_TOPIC;
	if (p->metadata.len > c->metadata_max)
		return IPC__GROUP_ERROR__METADATA_TOO_LARGE;
	if (p->offset < 0)
		return IPC__GROUP_ERROR__INVALID_REQUEST;
	const struct offset_entry *old = offsets_find(&c->entry->offsets, &e->key);
	size_t more = old == NULL ? ENTRY_ROOM + p->metadata.len
				  : p->metadata.len > old->metadata.n ? p->metadata.len - old->metadata.n : 0;
	if (more > c->room)
		return IPC__GROUP_ERROR__METADATA_TOO_LARGE;
	c->room -= more;
	return IPC__GROUP_ERROR__NONE;
}

static void commit_take(struct commit *c, const Ipc__GroupCommitRequest *r, struct group_call *gc)
{
	for (size_t i = 0; i < r->n_part; i++) {
		struct offset_entry *e = &c->list[c->n];
		gc->part[i] = commit_check(c, r->part[i], e);
		if (gc->part[i] != IPC__GROUP_ERROR__NONE)
			continue;
		e->offset = r->part[i]->offset;
		e->leader_epoch = r->part[i]->leader_epoch < 0 ? -1 : r->part[i]->leader_epoch;
		e->commit_ms = c->now_ms;
		e->expires_ms = r->retention_ms >= 0 && r->retention_ms < INT64_MAX - c->now_ms ? c->now_ms + r->retention_ms : -1;
		e->metadata = bytes_of(r->part[i]->metadata);
		c->n++;
	}
}

static void commit_answer(struct op *op)
{
	const struct group_call *gc = op->own;
	Ipc__GroupCommitAnswer a = IPC__GROUP_COMMIT_ANSWER__INIT;
	a.n_part = gc->n_parts;
	a.part = gc->part;
	op_answer(op, &a.base);
}

static void on_commit_stored(struct op *op, const struct pico_error *error)
{
	if (error != NULL) {
		op_fail(op, error);
		return;
	}
	metric_add(METRIC_GROUP_COMMITS, 1);
	commit_answer(op);
}

/* As many records as it takes; the last one brings the answer. */
static void commit_write(struct commit *c)
{
	size_t max = entry_record_max(c->entry), first = 0;
	while (first < c->n) {
		struct buf b;
		size_t n = 0, bytes = ENTRY_ROOM;
		do
			bytes += offset_entry_size(&c->list[first + n++]);
		while (first + n < c->n && bytes + offset_entry_size(&c->list[first + n]) <= max);
		buf_init(&b, bytes);
		offsets_write(&b, c->list + first, n);
		must(!b.failed);
		first += n;
		entry_write(c->entry, slice_of(must_memdup(buf_head(&b), buf_len(&b)), buf_len(&b)),
			    first == c->n ? c->op : NULL, on_commit_stored);
		buf_done(&b);
	}
}

static void run_commit(struct op *op, struct group_entry *entry)
{
	const Ipc__GroupCommitRequest *r = (const Ipc__GroupCommitRequest *)op->call->request;
	struct group_call *gc = op->own;
	struct group_caller caller = { bytes_of(r->member_id), slice_of(NULL, 0), r->generation };
	if (r->has_instance_id)
		caller.instance_id = bytes_of(r->instance_id);
	Ipc__GroupError e = entry == NULL ? IPC__GROUP_ERROR__ILLEGAL_GENERATION
					  : group_may_commit(entry->group, &caller, env_now_ms(op->node->env));
	if (e != IPC__GROUP_ERROR__NONE) {
		group_call_refuse(op, e);
		return;
	}
	if (!entry_may_write(entry, r->base.descriptor->sizeof_message + r->n_part * ENTRY_ROOM)) {
		throttle(op, "too many commits of this group wait for storage; try again");
		return;
	}
	size_t used = entry->offsets.bytes + entry->queue_bytes, left = group_memory_left(entry->offsets.memory);
	size_t room = used < OFFSETS_BYTES_MAX ? OFFSETS_BYTES_MAX - used : 0, record_max = entry_record_max(entry) - ENTRY_ROOM;
	struct commit c = { .op = op, .entry = entry, .now_ms = group_entry_stamp_ms(entry),
			    .room = room < left ? room : left,
			    .metadata_max = record_max < OFFSETS_METADATA_MAX ? record_max : OFFSETS_METADATA_MAX,
			    .list = must_calloc(r->n_part, sizeof(*c.list)) };
	gc->n_parts = r->n_part;
	gc->part = must_calloc(r->n_part, sizeof(*gc->part));
	commit_take(&c, r, gc);
	if (c.n == 0) {
		commit_answer(op);
	} else {
		writes_now(op);
		commit_write(&c);
	}
	free(c.list);
}

/* One that is of no member makes the group. */
void handle_group_commit(struct node *n, struct call *c)
{
	const Ipc__GroupCommitRequest *r = (const Ipc__GroupCommitRequest *)c->request;
	group_call_start(n, c, r->group, r->generation < 0, run_commit);
}

/* ----------------------------------------------------------------------- fetch */

struct fetched {
	Ipc__GroupOffsetFetchAnswer m;
	Ipc__GroupOffsetFetchAnswer__Part *part;
	size_t capacity, bytes;
};

static Ipc__GroupOffsetFetchAnswer__Part *fetched_add(struct fetched *f, const struct offset_entry *e)
{
	if (f->m.n_part == f->capacity) {
		f->capacity = f->capacity * 2 + 16;
		f->part = must_realloc(f->part, f->capacity * sizeof(*f->part));
	}
	Ipc__GroupOffsetFetchAnswer__Part *p = &f->part[f->m.n_part++];
	ipc__group_offset_fetch_answer__part__init(p);
	p->offset = p->leader_epoch = -1;
	f->bytes += ENTRY_ROOM;
	if (e == NULL)
		return p;
	p->offset = e->offset;
	p->leader_epoch = e->leader_epoch;
	p->metadata = data_of(e->metadata);
	f->bytes += e->metadata.n;
	return p;
}

static void fetched_answer(struct op *op, struct fetched *f)
{
	f->m.part = must_calloc(f->m.n_part, sizeof(*f->m.part));
	for (size_t i = 0; i < f->m.n_part; i++)
		f->m.part[i] = &f->part[i];
	op_answer(op, &f->m.base);
	free(f->m.part);
	free(f->part);
}

/* The topic's names where it is another one than before, and what lag is counted from. */
static void fetched_details(const struct op *op, const struct state_topic *t, bool is_new, struct fetched *f)
{
	Ipc__GroupOffsetFetchAnswer__Part *p = &f->part[f->m.n_part - 1];
	const struct log *log = p->partition < t->n_partitions ? node_log(op->node, t, p->partition) : NULL;
	if (is_new) {
		p->name = t->name;
		f->bytes += strlen(t->name);
	}
	p->n_partitions = t->n_partitions;
	p->has_bounds = log != NULL;
	if (log == NULL)
		return;
	p->start = log_start(log);
	p->confirm = log_confirm(log);
}

/* Of topics that Kafka clients can name, or of all. */
static void fetch_all(const struct op *op, const struct group_entry *entry, const Ipc__GroupOffsetFetchRequest *r,
		      struct fetched *f)
{
	struct offset_key after;
	const struct state_topic *before = NULL;
	bool from = key_of(r->after_topic_id, r->after_partition, &after);
	const struct offset_entry *e = offsets_next(&entry->offsets, from ? &after : NULL);
	for (; e != NULL; e = offsets_next(&entry->offsets, &e->key)) {
		const struct state_topic *t = topic_of(op->node, &e->key);
		if (t == NULL || (t->kafka_topic == NULL && !r->details))
			continue;
		f->m.has_more = f->bytes > ANSWER_BYTES_MAX || (r->limit > 0 && f->m.n_part == r->limit);
		if (f->m.has_more)
			return;
		Ipc__GroupOffsetFetchAnswer__Part *p = fetched_add(f, e);
		p->topic_id = data_of(slice_of(e->key.topic_id, sizeof(e->key.topic_id)));
		p->partition = e->key.partition;
		if (t != before && t->kafka_topic != NULL) {
			p->kafka_topic = t->kafka_topic;
			f->bytes += strlen(t->kafka_topic);
		}
		if (r->details)
			fetched_details(op, t, t != before, f);
		before = t;
	}
}

static void run_fetch(struct op *op, struct group_entry *entry)
{
	const Ipc__GroupOffsetFetchRequest *r = (const Ipc__GroupOffsetFetchRequest *)op->call->request;
	struct fetched f = { .m = IPC__GROUP_OFFSET_FETCH_ANSWER__INIT };
	struct offset_key key;
	if (r->all && entry != NULL)
		fetch_all(op, entry, r, &f);
	for (size_t i = 0; !r->all && i < r->n_part; i++) {
		bool known = key_of(r->part[i]->topic_id, r->part[i]->partition, &key) && partition_is_there(op->node, &key);
		fetched_add(&f, known && entry != NULL ? offsets_find(&entry->offsets, &key) : NULL);
	}
	fetched_answer(op, &f);
}

void handle_group_offset_fetch(struct node *n, struct call *c)
{
	group_call_start(n, c, ((const Ipc__GroupOffsetFetchRequest *)c->request)->group, false, run_fetch);
}

/* -------------------------------------------------------------- offsets go away */

static Ipc__GroupError gone_check(const struct op *op, const struct group_entry *entry, const struct offset_key *key)
{
	const struct state_topic *t = topic_of(op->node, key);
	if (t == NULL || key->partition >= t->n_partitions)
		return IPC__GROUP_ERROR__UNKNOWN_TOPIC;
	if (group_state(entry->group) != IPC__GROUP_STATE__EMPTY && t->kafka_topic != NULL &&
	    group_is_subscribed(entry->group, slice_str(t->kafka_topic)))
		return IPC__GROUP_ERROR__GROUP_SUBSCRIBED;
	return IPC__GROUP_ERROR__NONE;
}

static void gone_answer(struct op *op)
{
	const struct group_call *gc = op->own;
	Ipc__GroupOffsetDeleteAnswer a = IPC__GROUP_OFFSET_DELETE_ANSWER__INIT;
	a.n_part = gc->n_parts;
	a.part = gc->part;
	op_answer(op, &a.base);
}

static void on_gone_stored(struct op *op, const struct pico_error *error)
{
	if (error != NULL)
		op_fail(op, error);
	else
		gone_answer(op);
}

static void gone_write(struct op *op, struct group_entry *entry, const struct offset_key *key, size_t n)
{
	size_t max = (entry_record_max(entry) - ENTRY_ROOM) / sizeof(*key);
	writes_now(op);
	for (size_t first = 0; first < n; first += max) {
		struct buf b;
		size_t count = n - first < max ? n - first : max;
		buf_init(&b, ENTRY_ROOM + count * sizeof(*key));
		offsets_write_gone(&b, key + first, count);
		must(!b.failed);
		entry_write(entry, slice_of(must_memdup(buf_head(&b), buf_len(&b)), buf_len(&b)),
			    first + count == n ? op : NULL, on_gone_stored);
		buf_done(&b);
	}
}

static void run_offset_delete(struct op *op, struct group_entry *entry)
{
	const Ipc__GroupOffsetDeleteRequest *r = (const Ipc__GroupOffsetDeleteRequest *)op->call->request;
	struct group_call *gc = op->own;
	if (entry == NULL) {
		group_call_refuse(op, IPC__GROUP_ERROR__GROUP_NOT_FOUND);
		return;
	}
	if (group_state(entry->group) != IPC__GROUP_STATE__EMPTY && !slice_is(group_protocol_type(entry->group), "consumer")) {
		group_call_refuse(op, IPC__GROUP_ERROR__GROUP_NOT_EMPTY);
		return;
	}
	if (!entry_may_write(entry, r->n_part * ENTRY_ROOM)) {
		throttle(op, "too many changes of this group wait for storage; try again");
		return;
	}
	size_t n = 0;
	struct offset_key *key = must_calloc(r->n_part, sizeof(*key));
	gc->n_parts = r->n_part;
	gc->part = must_calloc(r->n_part, sizeof(*gc->part));
	for (size_t i = 0; i < r->n_part; i++) {
		bool good = key_of(r->part[i]->topic_id, r->part[i]->partition, &key[n]);
		gc->part[i] = good ? gone_check(op, entry, &key[n]) : IPC__GROUP_ERROR__UNKNOWN_TOPIC;
		n += gc->part[i] == IPC__GROUP_ERROR__NONE;
	}
	if (n > 0)
		gone_write(op, entry, key, n);
	else
		gone_answer(op);
	free(key);
}

void handle_group_offset_delete(struct node *n, struct call *c)
{
	group_call_start(n, c, ((const Ipc__GroupOffsetDeleteRequest *)c->request)->group, false, run_offset_delete);
}

/* ---------------------------------------------------------------------- groups */

static void run_deleted(struct op *op, struct group_entry *entry)
{
	if (entry == NULL)
		group_call_refuse(op, IPC__GROUP_ERROR__NONE);
	else
		throttle(op, "the group could not be deleted; try again");
}

static void run_delete(struct op *op, struct group_entry *entry)
{
	if (entry == NULL)
		group_call_refuse(op, IPC__GROUP_ERROR__GROUP_NOT_FOUND);
	else if (group_state(entry->group) != IPC__GROUP_STATE__EMPTY)
		group_call_refuse(op, IPC__GROUP_ERROR__GROUP_NOT_EMPTY);
	else if (group_entry_delete(entry) < 0)
		throttle(op, "too many metadata changes are waiting; try again");
	else
		group_call_await_delete(op, entry, run_deleted);
}

void handle_group_delete(struct node *n, struct call *c)
{
	group_call_start(n, c, ((const Ipc__GroupDeleteRequest *)c->request)->group, false, run_delete);
}

static void describe_member(const struct group *g, const struct group_member *x, Ipc__GroupDescribeAnswer__Member *m)
{
	ipc__group_describe_answer__member__init(m);
	m->member_id = data_of(member_id(x));
	m->has_instance_id = member_instance_id(x).p != NULL;
	m->instance_id = data_of(member_instance_id(x));
	m->client_id = data_of(member_client_id(x));
	m->client_host = data_of(member_client_host(x));
	m->metadata = data_of(member_metadata(g, x));
	m->assignment = data_of(member_assignment(x));
}

static void run_describe(struct op *op, struct group_entry *entry)
{
	Ipc__GroupDescribeAnswer a = IPC__GROUP_DESCRIBE_ANSWER__INIT;
	const struct group *g = entry != NULL ? entry->group : NULL;
	const struct group_member *x;
	size_t n = 0;
	a.state = g != NULL ? group_state(g) : IPC__GROUP_STATE__DEAD;
	for (x = g != NULL ? group_member_next(g, NULL) : NULL; x != NULL; x = group_member_next(g, x))
		n++;
	Ipc__GroupDescribeAnswer__Member *members = must_calloc(n, sizeof(*members));
	a.member = must_calloc(n, sizeof(*a.member));
	for (x = n > 0 ? group_member_next(g, NULL) : NULL; x != NULL; x = group_member_next(g, x)) {
		describe_member(g, x, &members[a.n_member]);
		a.member[a.n_member] = &members[a.n_member];
		a.n_member++;
	}
	if (g != NULL) {
		a.protocol_type = data_of(group_protocol_type(g));
		a.protocol = data_of(group_protocol(g));
		a.generation = group_generation(g);
	}
	op_answer(op, &a.base);
	free(a.member);
	free(members);
}

void handle_group_describe(struct node *n, struct call *c)
{
	group_call_start(n, c, ((const Ipc__GroupDescribeRequest *)c->request)->group, false, run_describe);
}

/* ------------------------------------------------------------------------ list */

/* What is known without reading a log. */
static void list_fill(const struct coordinator *co, struct slice id, Ipc__GroupListAnswer__Group *m)
{
	const struct group_entry *entry = coordinator_find(co, id);
	ipc__group_list_answer__group__init(m);
	m->group = data_of(slice_of(must_memdup(id.p, id.n), id.n));
	m->state = IPC__GROUP_STATE__EMPTY;
	if (entry == NULL || entry->group == NULL)
		return;
	m->state = group_state(entry->group);
	m->protocol_type = data_of(group_protocol_type(entry->group));
}

void handle_group_list(struct node *n, struct call *c)
{
	const Ipc__GroupListRequest *r = (const Ipc__GroupListRequest *)c->request;
	uint32_t limit = r->limit == 0 || r->limit > LIST_MAX ? LIST_MAX : r->limit;
	Ipc__GroupListAnswer a = IPC__GROUP_LIST_ANSWER__INIT;
	Ipc__GroupListAnswer__Group *groups = must_calloc(limit, sizeof(*groups));
	char after[GROUP_NAME_SIZE];
	uint8_t id[GROUP_ID_MAX];
	size_t id_n;
	a.group = must_calloc(limit, sizeof(*a.group));
	struct slice begin = bytes_of(r->after);
	group_name(slice_of(begin.p, begin.n < GROUP_ID_MAX ? begin.n : GROUP_ID_MAX), after);
	const struct state_topic *t = coordinator_next(n->coordinator, after, id, &id_n);
	for (; t != NULL; t = coordinator_next(n->coordinator, t->name, id, &id_n)) {
		a.has_more = a.n_group == limit;
		if (a.has_more)
			break;
		list_fill(n->coordinator, slice_of(id, id_n), &groups[a.n_group]);
		a.group[a.n_group] = &groups[a.n_group];
		a.n_group++;
	}
	call_answer(c, &a.base);
	for (size_t i = 0; i < a.n_group; i++)
		free(groups[i].group.data);
	free(a.group);
	free(groups);
}
