/* SPDX-License-Identifier: Apache-2.0
 *
 * Small values of the metadata: get and list from the state, put and delete as one proposal each, watch parked until a key
 * below its prefix changes. A watch says what is there now, never what was there between.
 */
#include <stdlib.h>

#include "storaged/handle.h"

#define KV_ANSWER_BYTES (1u << 20)      /* of keys and values in one answer */
#define KV_LIST_DEFAULT 1000u
#define KV_LIST_MAX 10000u
#define KV_WATCHES_MAX 1000u            /* a node */

struct kv_watch {
	struct op *op;
	struct kv_watch *next, **prev;          /* node->kv_watches.first */
	uint64_t after;
	char prefix[KV_KEY_MAX + 1];
};

/* Entries for an answer; strings and bytes are the state's. */
struct kv_page {
	Ipc__KvEntry *m;                /* owned, as is pointer */
	Ipc__KvEntry **pointer;
	size_t n, capacity, bytes;
};

static void entry_fill(Ipc__KvEntry *m, const struct kv_entry *e)
{
	ipc__kv_entry__init(m);
	m->key = (char *)e->key;
	m->value = (ProtobufCBinaryData){ .len = e->value.n, .data = (uint8_t *)e->value.p };
	m->version = e->version;
}

static void page_add(struct kv_page *p, const struct kv_entry *e)
{
	if (p->n == p->capacity) {
		p->capacity = p->capacity == 0 ? 16 : 2 * p->capacity;
		p->m = must_realloc(p->m, p->capacity * sizeof(p->m[0]));
	}
	entry_fill(&p->m[p->n++], e);
	p->bytes += strlen(e->key) + e->value.n;
}

static Ipc__KvEntry **page_pointers(struct kv_page *p)
{
	p->pointer = must_calloc(p->n + 1, sizeof(p->pointer[0]));
	for (size_t i = 0; i < p->n; i++)
		p->pointer[i] = &p->m[i];
	return p->pointer;
}

static void page_done(struct kv_page *p)
{
	free(p->m);
	free(p->pointer);
}

static bool is_below(const char *key, const char *prefix)
{
	return strncmp(key, prefix, strlen(prefix)) == 0;
}

/* A prefix may be empty. False: answered. */
static bool prefix_is_good(struct call *c, const char *prefix)
{
	const char *fault = prefix[0] == '\0' ? NULL : kv_key_fault(prefix);
	if (fault != NULL)
		call_fail(c, PICO_BAD_REQUEST, "%s", fault);
	return fault == NULL;
}

/* ------------------------------------------------------------------------ get, list */

void handle_kv_get(struct node *n, struct call *c)
{
	const Ipc__KvGetRequest *r = (const Ipc__KvGetRequest *)c->request;
	const struct kv_entry *e = kv_find(state_kv(meta_state(n->meta)), slice_str(r->key));
	if (e == NULL) {
		call_fail(c, PICO_NOT_FOUND, "no such key");
		return;
	}
	Ipc__KvGetAnswer a = IPC__KV_GET_ANSWER__INIT;
	Ipc__KvEntry m;
	entry_fill(&m, e);
	a.entry = &m;
	call_answer(c, &a.base);
}

void handle_kv_list(struct node *n, struct call *c)
{
	const Ipc__KvListRequest *r = (const Ipc__KvListRequest *)c->request;
	const struct kv *kv = state_kv(meta_state(n->meta));
	uint32_t limit = r->limit == 0 ? KV_LIST_DEFAULT : r->limit < KV_LIST_MAX ? r->limit : KV_LIST_MAX;
	struct kv_page page = { 0 };
	Ipc__KvListAnswer a = IPC__KV_LIST_ANSWER__INIT;
	if (!prefix_is_good(c, r->prefix))
		return;
	const struct kv_entry *e = strcmp(r->start_after, r->prefix) < 0 ? kv_find(kv, slice_str(r->prefix)) : NULL;
	if (e == NULL)
		e = kv_next(kv, slice_str(strcmp(r->start_after, r->prefix) < 0 ? r->prefix : r->start_after));
	for (; e != NULL && is_below(e->key, r->prefix); e = kv_next(kv, slice_str(e->key))) {
		if (page.n == limit || page.bytes > KV_ANSWER_BYTES) {
			a.has_more = true;
			break;
		}
		page_add(&page, e);
	}
	a.entry = page_pointers(&page);
	a.n_entry = page.n;
	a.version = kv->version;
	call_answer(c, &a.base);
	page_done(&page);
}

/* ------------------------------------------------------------------------ put, delete */

/* What apply made of the command; one or the other. */
struct kv_change {
	bool created;
	uint64_t version;
};

static void change_answer(struct op *op)
{
	const struct kv_change *done = op->own;
	Ipc__KvPutAnswer put = IPC__KV_PUT_ANSWER__INIT;
	Ipc__KvDeleteAnswer delete = IPC__KV_DELETE_ANSWER__INIT;
	put.version = done->version;
	put.created = delete.existed = done->created;
	op_answer(op, op->call->row->type == IPC_KV_PUT ? &put.base : &delete.base);
}

static void on_change_applied(void *arg, const Meta__Result__One *result)
{
	struct op *op = arg;
	must(op->magic == OP_MAGIC);
	if (result != NULL)
		*(struct kv_change *)op->own = (struct kv_change){ result->created, result->kv_version };
	op_applied(op, result, change_answer);
}

static void change_free(struct op *op)
{
	free(op->own);
}

static void change_start(struct node *n, struct call *c, Meta__Command *command)
{
	struct op *op = op_new(n, c);
	op->own = must_calloc(1, sizeof(struct kv_change));
	op->free_own = change_free;
	op->refs = 1;
	op_arm(op, op_deadline_unknown);
	if (meta_propose(n->meta, command, on_change_applied, op) == 0)
		return;
	struct pico_error e;
	pico_error_set(&e, PICO_THROTTLED, "too many metadata changes are waiting; try again");
	op_fail(op, &e);
	op_unref(op);
}

void handle_kv_put(struct node *n, struct call *c)
{
	const Ipc__KvPutRequest *r = (const Ipc__KvPutRequest *)c->request;
	const char *fault = kv_key_fault(r->key);
	Meta__Command command = META__COMMAND__INIT;
	Meta__PutKv put = META__PUT_KV__INIT;
	if (fault != NULL) {
		call_fail(c, PICO_BAD_REQUEST, "%s", fault);
		return;
	}
	if (r->value.len > KV_VALUE_MAX) {
		call_fail(c, PICO_TOO_LARGE, "a value has at most %u bytes, not %zu", KV_VALUE_MAX, r->value.len);
		return;
	}
	put.key = r->key;
	put.value = r->value;
	put.check = r->check;
	put.version = r->version;
	command.kind_case = META__COMMAND__KIND_PUT_KV;
	command.put_kv = &put;
	change_start(n, c, &command);
}

void handle_kv_delete(struct node *n, struct call *c)
{
	const Ipc__KvDeleteRequest *r = (const Ipc__KvDeleteRequest *)c->request;
	Meta__Command command = META__COMMAND__INIT;
	Meta__DeleteKv delete = META__DELETE_KV__INIT;
	delete.key = r->key;
	delete.check = r->check;
	delete.version = r->version;
	command.kind_case = META__COMMAND__KIND_DELETE_KV;
	command.delete_kv = &delete;
	change_start(n, c, &command);
}

/* ------------------------------------------------------------------------ watch */

static size_t gone_collect(const struct kv *kv, const struct kv_watch *w, char **ret_gone)
{
	size_t n = 0;
	for (size_t i = 0; i < kv->n_gone; i++) {
		const struct kv_gone *g = &kv->gone[(kv->first_gone + i) % KV_GONE_MAX];
		if (g->version > w->after && is_below(g->key, w->prefix))
			ret_gone[n++] = g->key;
	}
	return n;
}

/* False: more than an answer holds. */
static bool changes_collect(const struct kv *kv, const struct kv_watch *w, struct kv_page *page)
{
	const struct kv_entry *e = kv_changed_after(kv, w->after);
	for (; e != NULL; e = e->newer) {
		if (!is_below(e->key, w->prefix))
			continue;
		if (page->bytes > KV_ANSWER_BYTES)
			return false;
		page_add(page, e);
	}
	return true;
}

/* Answers when there is something to say, or when it has to; then w is gone. */
static void watch_answer(struct kv_watch *w, bool at_once)
{
	const struct kv *kv = state_kv(meta_state(w->op->node->meta));
	struct kv_page page = { 0 };
	char *gone[KV_GONE_MAX];
	Ipc__KvWatchAnswer a = IPC__KV_WATCH_ANSWER__INIT;
	a.version = kv->version;
	a.reset = w->after > kv->version || w->after < kv->gone_since || !changes_collect(kv, w, &page);
	if (!a.reset) {
		a.entry = page_pointers(&page);
		a.n_entry = page.n;
		a.n_gone = gone_collect(kv, w, gone);
		a.gone = gone;
	}
	if (at_once || a.reset || a.n_entry > 0 || a.n_gone > 0)
		op_answer(w->op, &a.base);
	page_done(&page);
}

static void watch_free(struct op *op)
{
	struct kv_watch *w = op->own;
	*w->prev = w->next;
	if (w->next != NULL)
		w->next->prev = w->prev;
	op->node->kv_watches.n--;
	free(w);
}

static void watch_ends(struct op *op)
{
	watch_answer(op->own, true);
}

static void watch_cancel(struct op *op)
{
	struct pico_error e;
	pico_error_set(&e, PICO_CANCELLED, "cancelled");
	op_fail(op, &e);
}

void handle_kv_watch(struct node *n, struct call *c)
{
	const Ipc__KvWatchRequest *r = (const Ipc__KvWatchRequest *)c->request;
	if (!prefix_is_good(c, r->prefix))
		return;
	if (n->kv_watches.n == KV_WATCHES_MAX) {
		call_fail(c, PICO_THROTTLED, "%u watches are open", KV_WATCHES_MAX);
		return;
	}
	struct op *op = op_new(n, c);
	struct kv_watch *w = must_calloc(1, sizeof(*w));
	*w = (struct kv_watch){ .op = op, .after = r->after, .next = n->kv_watches.first, .prev = &n->kv_watches.first };
	memcpy(w->prefix, r->prefix, strlen(r->prefix));
	if (w->next != NULL)
		w->next->prev = &w->next;
	n->kv_watches.first = w;
	n->kv_watches.n++;
	op->own = w;
	op->free_own = watch_free;
	op->on_cancel = watch_cancel;
	op->on_stop = watch_ends;
	op_arm(op, watch_ends);
	watch_answer(w, false);
}

void kv_changed(struct node *n, const char *key)
{
	for (struct kv_watch *w = n->kv_watches.first, *next; w != NULL; w = next) {
		next = w->next;
		if (is_below(key, w->prefix))
			watch_answer(w, false);
	}
}
