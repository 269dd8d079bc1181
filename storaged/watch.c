/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists behind fetches; what they keep and promise stands in the header.
 */
#include "storaged/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "common/metrics.h"
#include "storaged/parts.h"

#define BLOCK_MIN 16u
#define FORGOTTEN_MAX 1024u             /* beyond as many as are live */

struct watch_block {
	struct watch_block *next;
	uint32_t n, used;
	struct watch_entry entry[];
};

struct watches {
	struct watch *by_key;           /* uthash */
	uint64_t n_entries;
};

/* ------------------------------------------------------------------- places */

static void entry_move(struct watch_entry *e, enum watch_place to)
{
	struct watch *w = e->watch;
	if (e->place == WATCH_TODO)
		DL_DELETE(w->todo, e);
	if (e->place == WATCH_READY) {
		DL_DELETE(w->ready, e);
		w->bytes -= e->bytes;
		w->n_failed -= e->failed;
	}
	if (to == WATCH_TODO)
		DL_APPEND(w->todo, e);
	if (to == WATCH_READY) {
		DL_APPEND(w->ready, e);
		w->bytes += e->bytes;
		w->n_failed += e->failed;
	}
	e->place = (uint8_t)to;
}

static void entry_park(struct watch_entry *e)
{
	e->wait.from = log_confirm(e->wait.log);
	bool ready = engine_wait(e->watch->node->engine, &e->wait);
	must(!ready);
}

static void on_ready(struct engine_wait *wait, bool gone)
{
	struct watch_entry *e = (struct watch_entry *)((char *)wait - offsetof(struct watch_entry, wait));
	struct watch *w = e->watch;
	if (gone)
		wait->log = NULL;
	else
		entry_park(e);
	entry_move(e, WATCH_TODO);
	if (w->op != NULL)
		w->on_change(w->op);
}

bool watch_entry_check(struct watch_entry *e, struct pico_error *ret_error)
{
	const struct state_topic *t;
	if (e->wait.log == NULL) {
		e->wait.log = part_find_log(e->watch->node, e->topic_id, 16, e->partition, &t, ret_error);
		if (e->wait.log == NULL)
			return false;
		entry_park(e);
	}
	const struct log *log = e->wait.log;
	if (!part_epoch_is_good(log, e->leader_epoch, ret_error))
		return false;
	if (e->offset >= log_start(log) && e->offset <= log_confirm(log))
		return true;
	bool below = e->offset < log_start(log);
	pico_error_set(ret_error, PICO_OUT_OF_RANGE, below ? "the offset was trimmed" : "the offset is beyond the end");
	ret_error->has_start_offset = below;
	ret_error->start_offset = log_start(log);
	ret_error->has_next_offset = !below;
	ret_error->next_offset = log_confirm(log);
	return false;
}

static void entry_look(struct watch_entry *e)
{
	struct pico_error error;
	bool failed = !watch_entry_check(e, &error);
	uint64_t bytes = failed ? 0 : log_bytes_from(e->wait.log, e->offset, e->max_bytes);
	bool is_news = failed || bytes > 0 || e->told != log_confirm(e->wait.log);
	entry_move(e, WATCH_NOWHERE);
	e->failed = failed;
	e->bytes = bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
	if (is_news)
		entry_move(e, WATCH_READY);
}

void watch_begin(struct watch *w)
{
	while (w->ready != NULL)
		entry_move(w->ready, WATCH_TODO);
}

void watch_look(struct watch *w)
{
	while (w->todo != NULL)
		entry_look(w->todo);
}

void watch_answered(struct watch_entry *e)
{
	if (e->place == WATCH_READY)
		entry_move(e, WATCH_READY);
}

/* --------------------------------------------------------------------- hash */

static uint32_t hash_of(const uint8_t topic_id[16], uint32_t partition)
{
	uint64_t h;
	memcpy(&h, topic_id, sizeof(h));
	h = (h ^ ((uint64_t)partition * 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;
	return (uint32_t)(h >> 32);
}

/* Where the partition's number is, or belongs. */
static uint32_t *slot_find(struct watch *w, const uint8_t topic_id[16], uint32_t partition)
{
	uint32_t at = hash_of(topic_id, partition) & (w->n_slots - 1);
	for (; w->slots[at] != 0; at = (at + 1) & (w->n_slots - 1)) {
		const struct watch_entry *e = w->entry[w->slots[at] - 1];
		if (e->partition == partition && memcmp(e->topic_id, topic_id, 16) == 0)
			break;
	}
	return &w->slots[at];
}

static void slots_build(struct watch *w)
{
	free(w->slots);
	w->n_slots = w->capacity * 2;
	w->slots = must_calloc(w->n_slots, sizeof(*w->slots));
	for (uint32_t i = 0; i < w->n; i++)
		if (w->entry[i]->place != WATCH_FORGOTTEN)
			*slot_find(w, w->entry[i]->topic_id, w->entry[i]->partition) = i + 1;
}

static struct watch_entry *watch_get(struct watch *w, const uint8_t topic_id[16], uint32_t partition)
{
	uint32_t number = w->n_slots > 0 ? *slot_find(w, topic_id, partition) : 0;
	return number != 0 && w->entry[number - 1]->place != WATCH_FORGOTTEN ? w->entry[number - 1] : NULL;
}

/* ------------------------------------------------------------------ entries */

/* wanted: how many may follow at once. */
static struct watch_entry *entry_alloc(struct watch *w, size_t wanted)
{
	struct watch_block *b = w->blocks;
	if (b == NULL || b->used == b->n) {
		uint32_t n = wanted > BLOCK_MIN || w->key.number == 0 ? (uint32_t)wanted : BLOCK_MIN;
		b = must_calloc(1, sizeof(*b) + n * sizeof(b->entry[0]));
		b->n = n;
		b->next = w->blocks;
		w->blocks = b;
	}
	return &b->entry[b->used++];
}

static struct watch_entry *entry_new(struct watch *w, const Ipc__FetchRequest__Part *part, size_t wanted)
{
	struct watch_entry *e = entry_alloc(w, wanted);
	if (w->n == w->capacity) {
		uint32_t most = w->key.number == 0 ? (uint32_t)wanted : BLOCK_MIN;
		w->capacity = w->capacity == 0 ? most : w->capacity * 2;
		w->entry = must_realloc(w->entry, w->capacity * sizeof(*w->entry));
		if (w->key.number != 0)
			slots_build(w);
	}
	e->watch = w;
	e->wait.on_ready = on_ready;
	e->wait.closed_too = true;
	e->told = UINT64_MAX;
	e->index = w->n;
	e->partition = part->partition;
	memcpy(e->topic_id, part->topic_id.data, 16);
	w->entry[w->n++] = e;
	w->n_live++;
	if (w->key.number != 0) {
		*slot_find(w, e->topic_id, e->partition) = w->n;
		metric_set(METRIC_FETCH_WATCHED, ++w->node->watches->n_entries);
	}
	return e;
}

int watch_add(struct watch *w, Ipc__FetchRequest__Part *const *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const Ipc__FetchRequest__Part *part = parts[i];
		must(part->topic_id.len == 16);
		struct watch_entry *e = watch_get(w, part->topic_id.data, part->partition);
		if (e == NULL && w->key.number != 0 && w->node->watches->n_entries >= WATCHED_MAX)
			return -ENOBUFS;
		if (e == NULL && w->n - w->n_live > w->n_live + FORGOTTEN_MAX)
			return -ESTALE;
		if (e == NULL)
			e = entry_new(w, part, n - i);
		entry_move(e, WATCH_TODO);
		e->offset = part->offset;
		e->max_bytes = part->max_bytes;
		e->leader_epoch = part->leader_epoch;
	}
	return 0;
}

static void entry_unpark(struct watch_entry *e)
{
	if (e->wait.log != NULL)
		engine_wait_stop(&e->wait);
	e->wait.log = NULL;
}

void watch_forget(struct watch *w, Ipc__FetchRequest__Part *const *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		must(parts[i]->topic_id.len == 16);
		struct watch_entry *e = watch_get(w, parts[i]->topic_id.data, parts[i]->partition);
		if (e == NULL)
			continue;
		entry_unpark(e);
		entry_move(e, WATCH_FORGOTTEN);
		w->n_live--;
	}
}

/* ------------------------------------------------------------------ watches */

static struct watches *watches_of(struct node *n)
{
	if (n->watches == NULL)
		n->watches = must_calloc(1, sizeof(*n->watches));
	return n->watches;
}

struct watch *watch_find(struct node *n, uint64_t peer, uint64_t number)
{
	struct watch_key key = { .peer = peer, .number = number };
	struct watch *w;
	HASH_FIND(hh, watches_of(n)->by_key, &key, sizeof(key), w);
	return w;
}

struct watch *watch_new(struct node *n, uint64_t peer, uint64_t number)
{
	struct watches *all = watches_of(n);
	if (number != 0 && HASH_COUNT(all->by_key) >= WATCHES_MAX)
		return NULL;
	struct watch *w = must_calloc(1, sizeof(*w));
	w->node = n;
	w->key = (struct watch_key){ .peer = peer, .number = number };
	if (number != 0) {
		HASH_ADD(hh, all->by_key, key, sizeof(w->key), w);
		metric_set(METRIC_FETCH_WATCHES, HASH_COUNT(all->by_key));
	}
	return w;
}

void watch_free(struct watch *w)
{
	must(w->op == NULL);
	struct watches *all = w->node->watches;
	for (uint32_t i = 0; i < w->n && w->node->engine != NULL; i++)
		entry_unpark(w->entry[i]);
	if (w->key.number != 0) {
		HASH_DEL(all->by_key, w);
		all->n_entries -= w->n;
		metric_set(METRIC_FETCH_WATCHES, HASH_COUNT(all->by_key));
		metric_set(METRIC_FETCH_WATCHED, all->n_entries);
	}
	for (struct watch_block *b = w->blocks, *next; b != NULL; b = next) {
		next = b->next;
		free(b);
	}
	free(w->entry);
	free(w->slots);
	free(w);
}

void watches_drop_peer(struct node *n, uint64_t peer)
{
	struct watch *w, *next;
	if (n->watches == NULL)
		return;
	HASH_ITER(hh, n->watches->by_key, w, next)
		if (w->key.peer == peer)
			watch_free(w);
}

void watches_free(struct node *n)
{
	struct watch *w, *next;
	if (n->watches == NULL)
		return;
	HASH_ITER(hh, n->watches->by_key, w, next) {
		w->op = NULL;
		watch_free(w);
	}
	free(n->watches);
	n->watches = NULL;
}
