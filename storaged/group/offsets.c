/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. A record's value, little-endian:
 *
 *   0 format u8 = 1 | 1 kind u8 | 2 reserved u16 = 0 | 4 count u32     then
 *   kind 1, offsets    count entries: topic id 16, partition u32, leader epoch i32, offset i64, committed i64,
 *                      expires i64, metadata length u16, metadata
 *   kind 2, gone       count keys: topic id 16, partition u32
 *   kind 3, rebalance  count is the number of members: generation i32, ended i64, protocol type length u16, it
 */
#include "storaged/group/offsets.h"

#include <errno.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/wire.h"

#define RECORD_FORMAT 1
#define RECORD_HEADER 8
#define KEY_SIZE 20
#define ENTRY_SIZE 50           /* without metadata */
#define MALLOC_COST 48u             /* of an entry: two headers and a pointer */

enum record_kind { RECORD_OFFSETS = 1, RECORD_GONE = 2, RECORD_REBALANCE = 3 };

/* ----------------------------------------------------------------------- table */

static int key_compare(const struct offset_key *a, const struct offset_key *b)
{
	int c = memcmp(a->topic_id, b->topic_id, sizeof(a->topic_id));
	return c != 0 ? c : (a->partition > b->partition) - (a->partition < b->partition);
}

static int index_compare(const struct sorted_index *x, const void *probe, const void *item)
{
	return key_compare(probe, &((const struct offset_entry *)item)->key);
}

void offsets_init(struct offsets *o, struct group_memory *memory)
{
	*o = (struct offsets){ .memory = memory, .past.protocol_type = { NULL, 0 } };
	sorted_index_init(&o->index, index_compare);
}

/* In memory: itself, its metadata, its place in the index, and what malloc adds. */
static size_t entry_cost(const struct offset_entry *e)
{
	return sizeof(*e) + e->metadata.n + MALLOC_COST;
}

static void entry_free(struct offset_entry *e)
{
	free((void *)(uintptr_t)e->metadata.p);
	free(e);
}

static void remove_key(struct offsets *o, const struct offset_key *key)
{
	struct offset_entry *e = sorted_index_after(&o->index, key, true);
	if (e == NULL || key_compare(&e->key, key) != 0)
		return;
	sorted_index_remove(&o->index, key, e);
	o->bytes -= offset_entry_size(e);
	group_memory_change(o->memory, entry_cost(e), 0);
	entry_free(e);
}

void offsets_done(struct offsets *o)
{
	const struct offset_entry *e;
	while ((e = offsets_next(o, NULL)) != NULL) {
		struct offset_key key = e->key;
		remove_key(o, &key);
	}
	sorted_index_done(&o->index);
	free((void *)(uintptr_t)o->past.protocol_type.p);
	o->past.protocol_type = slice_of(NULL, 0);
}

const struct offset_entry *offsets_find(const struct offsets *o, const struct offset_key *key)
{
	const struct offset_entry *e = sorted_index_after(&o->index, key, true);
	return e != NULL && key_compare(&e->key, key) == 0 ? e : NULL;
}

const struct offset_entry *offsets_next(const struct offsets *o, const struct offset_key *after)
{
	static const struct offset_key least;
	return sorted_index_after(&o->index, after != NULL ? after : &least, after == NULL);
}

size_t offset_entry_size(const struct offset_entry *e)
{
	return ENTRY_SIZE + e->metadata.n;
}

static void put_entry(struct offsets *o, const struct offset_entry *from)
{
	remove_key(o, &from->key);
	struct offset_entry *e = must_memdup(from, sizeof(*from));
	e->metadata.p = must_memdup(from->metadata.p, from->metadata.n);
	sorted_index_add(&o->index, &e->key, e);
	o->bytes += offset_entry_size(e);
	group_memory_change(o->memory, 0, entry_cost(e));
}

/* --------------------------------------------------------------------- writing */

static void write_header(struct buf *out, enum record_kind kind, size_t count)
{
	uint8_t h[RECORD_HEADER] = { RECORD_FORMAT, (uint8_t)kind };
	must(count <= UINT32_MAX);
	put_le32(h + 4, (uint32_t)count);
	buf_put(out, h, sizeof(h));
}

static void write_key(struct buf *out, const struct offset_key *key)
{
	uint8_t b[KEY_SIZE];
	memcpy(b, key->topic_id, sizeof(key->topic_id));
	put_le32(b + 16, key->partition);
	buf_put(out, b, sizeof(b));
}

static void write_entry(struct buf *out, const struct offset_entry *e)
{
	uint8_t b[ENTRY_SIZE - KEY_SIZE];
	must(e->metadata.n <= OFFSETS_METADATA_MAX);
	put_le32(b, (uint32_t)e->leader_epoch);
	put_le64(b + 4, (uint64_t)e->offset);
	put_le64(b + 12, (uint64_t)e->commit_ms);
	put_le64(b + 20, (uint64_t)e->expires_ms);
	put_le16(b + 28, (uint16_t)e->metadata.n);
	write_key(out, &e->key);
	buf_put(out, b, sizeof(b));
	buf_put(out, e->metadata.p, e->metadata.n);
}

void offsets_write(struct buf *out, const struct offset_entry *entry, size_t n)
{
	must(n > 0);
	write_header(out, RECORD_OFFSETS, n);
	for (size_t i = 0; i < n; i++)
		write_entry(out, &entry[i]);
}

void offsets_write_gone(struct buf *out, const struct offset_key *key, size_t n)
{
	must(n > 0);
	write_header(out, RECORD_GONE, n);
	for (size_t i = 0; i < n; i++)
		write_key(out, &key[i]);
}

void offsets_write_past(struct buf *out, const struct group_past *past, int64_t past_ms)
{
	uint8_t b[14];
	must(past->protocol_type.n <= GROUP_WORD_MAX);
	write_header(out, RECORD_REBALANCE, past->n_members);
	put_le32(b, (uint32_t)past->generation);
	put_le64(b + 4, (uint64_t)past_ms);
	put_le16(b + 12, (uint16_t)past->protocol_type.n);
	buf_put(out, b, sizeof(b));
	buf_put(out, past->protocol_type.p, past->protocol_type.n);
}

bool offsets_write_some(const struct offsets *o, struct offset_key *after, bool *begun, size_t max, offsets_keep *keep,
			void *arg, struct buf *out)
{
	size_t head = buf_len(out);
	uint32_t count = 0;
	const struct offset_entry *e = offsets_next(o, *begun ? after : NULL);
	for (; e != NULL; e = offsets_next(o, &e->key)) {
		if (count > 0 && buf_len(out) - head + offset_entry_size(e) > max)
			break;
		*after = e->key;
		*begun = true;
		if (!keep(arg, e))
			continue;
		if (count++ == 0)
			write_header(out, RECORD_OFFSETS, 0);
		write_entry(out, e);
	}
	if (count > 0 && !out->failed)
		put_le32(buf_head(out) + head + 4, count);
	return e != NULL;
}

/* --------------------------------------------------------------------- reading */

static void read_key(struct wire_reader *r, struct offset_key *ret)
{
	struct slice id = wire_take(r, sizeof(ret->topic_id));
	if (id.p != NULL)
		memcpy(ret->topic_id, id.p, id.n);
	ret->partition = wire_le32(r);
}

static struct slice read_bytes(struct wire_reader *r, size_t max)
{
	struct slice n = wire_take(r, 2);
	struct slice s = n.p != NULL ? wire_take(r, get_le16(n.p)) : n;
	r->failed |= s.n > max;
	return s;
}

static void read_entry(struct wire_reader *r, struct offset_entry *ret)
{
	read_key(r, &ret->key);
	ret->leader_epoch = (int32_t)wire_le32(r);
	ret->offset = (int64_t)wire_le64(r);
	ret->commit_ms = (int64_t)wire_le64(r);
	ret->expires_ms = (int64_t)wire_le64(r);
	ret->metadata = read_bytes(r, OFFSETS_METADATA_MAX);
}

/* With o NULL it only checks. */
static bool fold_offsets(struct offsets *o, struct wire_reader r, uint32_t count)
{
	struct offset_entry e;
	for (uint32_t i = 0; i < count && !r.failed; i++) {
		read_entry(&r, &e);
		if (o != NULL)
			put_entry(o, &e);
	}
	return !r.failed && wire_left(&r) == 0;
}

static bool fold_gone(struct offsets *o, struct wire_reader r, uint32_t count)
{
	struct offset_key key;
	for (uint32_t i = 0; i < count && !r.failed; i++) {
		read_key(&r, &key);
		if (o != NULL)
			remove_key(o, &key);
	}
	return !r.failed && wire_left(&r) == 0;
}

static bool fold_past(struct offsets *o, struct wire_reader r, uint32_t count)
{
	struct group_past past = { .n_members = count, .generation = (int32_t)wire_le32(&r) };
	int64_t past_ms = (int64_t)wire_le64(&r);
	struct slice type = read_bytes(&r, GROUP_WORD_MAX);
	if (r.failed || wire_left(&r) != 0 || past.generation < 0)
		return false;
	if (o == NULL)
		return true;
	free((void *)(uintptr_t)o->past.protocol_type.p);
	past.protocol_type = slice_of(must_memdup(type.p, type.n), type.n);
	o->past = past;
	o->past_ms = past_ms;
	return true;
}

static bool fold(struct offsets *o, uint8_t kind, struct wire_reader r, uint32_t count)
{
	switch (kind) {
	case RECORD_OFFSETS: return fold_offsets(o, r, count);
	case RECORD_GONE: return fold_gone(o, r, count);
	case RECORD_REBALANCE: return fold_past(o, r, count);
	default: return false;
	}
}

int offsets_fold(struct offsets *o, struct slice value)
{
	struct wire_reader r = wire_reader(value);
	uint8_t format = wire_u8(&r), kind = wire_u8(&r);
	struct slice reserved = wire_take(&r, 2);
	uint32_t count = wire_le32(&r);
	if (format > RECORD_FORMAT)
		return -ENOTSUP;
	if (r.failed || format != RECORD_FORMAT || get_le16(reserved.p) != 0 || !fold(NULL, kind, r, count))
		return -EBADMSG;
	must(fold(o, kind, r, count));
	return 0;
}
