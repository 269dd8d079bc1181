/* SPDX-License-Identifier: Apache-2.0
 *
 * A sorted array of pointers: entries are few, and lookups, prefixes and pages are all the same search.
 */
#include "storaged/meta/kv.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"

const char *kv_key_fault(const char *key)
{
	size_t n = strlen(key);
	if (n == 0 || n > KV_KEY_MAX)
		return "a key has 1 to 512 bytes";
	for (size_t i = 0; i < n; i++)
		if (key[i] <= ' ' || key[i] >= 0x7f)
			return "a key is printable ASCII without spaces";
	return NULL;
}

/* The first one whose key is >= the given one, or > with `behind`. */
static size_t place(const struct kv *kv, struct slice key, bool behind)
{
	size_t low = 0, high = kv->n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = slice_cmp(slice_str(kv->sorted[middle]->key), key);
		if (order < 0 || (behind && order == 0))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct kv_entry *kv_find(const struct kv *kv, struct slice key)
{
	size_t i = place(kv, key, false);
	return i < kv->n && slice_cmp(slice_str(kv->sorted[i]->key), key) == 0 ? kv->sorted[i] : NULL;
}

const struct kv_entry *kv_next(const struct kv *kv, struct slice after)
{
	size_t i = place(kv, after, true);
	return i < kv->n ? kv->sorted[i] : NULL;
}

const struct kv_entry *kv_changed_after(const struct kv *kv, uint64_t after)
{
	const struct kv_entry *e = kv->newest, *first = NULL;
	for (; e != NULL && e->version > after; e = e->older)
		first = e;
	return first;
}

/* ---------------------------------------------------------------- changes */

static size_t entry_bytes(const struct kv_entry *e)
{
	return strlen(e->key) + e->value.n;
}

bool kv_takes(const struct kv *kv, const char *key, size_t value_len)
{
	const struct kv_entry *old = kv_find(kv, slice_str(key));
	size_t without = kv->bytes - (old != NULL ? entry_bytes(old) : 0);
	return (old != NULL || kv->n < KV_ENTRIES_MAX) && without + strlen(key) + value_len <= KV_BYTES_MAX;
}

static void list_remove(struct kv *kv, struct kv_entry *e)
{
	if (e->older != NULL)
		e->older->newer = e->newer;
	else
		kv->oldest = e->newer;
	if (e->newer != NULL)
		e->newer->older = e->older;
	else
		kv->newest = e->older;
}

/* At the end, but for entries of one row that are loaded: those come in order of key. */
static void list_insert(struct kv *kv, struct kv_entry *e)
{
	e->older = kv->newest;
	while (e->older != NULL && e->older->version > e->version)
		e->older = e->older->older;
	e->newer = e->older != NULL ? e->older->newer : kv->oldest;
	*(e->older != NULL ? &e->older->newer : &kv->oldest) = e;
	*(e->newer != NULL ? &e->newer->older : &kv->newest) = e;
}

static void raise_version(struct kv *kv, uint64_t version)
{
	must(version > 0);
	if (kv->version < version)
		kv->version = version;
}

static struct kv_entry *entry_new(const char *key, struct slice value)
{
	size_t n = strlen(key);
	struct kv_entry *e = must_calloc(1, sizeof(*e) + n + 1 + value.n);
	memcpy(e->key, key, n);
	uint8_t *at = (uint8_t *)e->key + n + 1;
	if (value.n > 0)
		memcpy(at, value.p, value.n);
	e->value = slice_of(at, value.n);
	return e;
}

static void make_room(struct kv *kv, size_t at)
{
	if (kv->n == kv->capacity) {
		kv->capacity = kv->capacity == 0 ? 16 : 2 * kv->capacity;
		kv->sorted = must_realloc(kv->sorted, kv->capacity * sizeof(kv->sorted[0]));
	}
	memmove(kv->sorted + at + 1, kv->sorted + at, (kv->n - at) * sizeof(kv->sorted[0]));
	kv->n++;
}

void kv_put(struct kv *kv, const char *key, struct slice value, uint64_t version, uint64_t idx)
{
	size_t at = place(kv, slice_str(key), false);
	struct kv_entry *old = kv_find(kv, slice_str(key)), *e = entry_new(key, value);
	must(kv_takes(kv, key, value.n));
	raise_version(kv, version);
	e->version = version;
	e->changed_idx = idx;
	if (old != NULL) {
		kv->bytes -= entry_bytes(old);
		list_remove(kv, old);
		free(old);
	} else {
		make_room(kv, at);
	}
	kv->sorted[at] = e;
	kv->bytes += entry_bytes(e);
	list_insert(kv, e);
}

static void remember_gone(struct kv *kv, const char *key, uint64_t version)
{
	if (kv->n_gone == KV_GONE_MAX) {
		struct kv_gone *oldest = &kv->gone[kv->first_gone];
		kv->gone_since = oldest->version;
		free(oldest->key);
		kv->first_gone = (kv->first_gone + 1) % KV_GONE_MAX;
		kv->n_gone--;
	}
	kv->gone[(kv->first_gone + kv->n_gone++) % KV_GONE_MAX] =
		(struct kv_gone){ .version = version, .key = must_strdup(key) };
}

void kv_delete(struct kv *kv, struct kv_entry *e, uint64_t version)
{
	size_t at = place(kv, slice_str(e->key), false);
	must(at < kv->n && kv->sorted[at] == e);
	raise_version(kv, version);
	remember_gone(kv, e->key, version);
	kv->n--;
	memmove(kv->sorted + at, kv->sorted + at + 1, (kv->n - at) * sizeof(kv->sorted[0]));
	kv->bytes -= entry_bytes(e);
	list_remove(kv, e);
	free(e);
}

void kv_done(struct kv *kv)
{
	for (size_t i = 0; i < kv->n; i++)
		free(kv->sorted[i]);
	for (size_t i = 0; i < kv->n_gone; i++)
		free(kv->gone[(kv->first_gone + i) % KV_GONE_MAX].key);
	free(kv->sorted);
}
