/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of storaged's that this worker reads: segments mapped read-only, references into them, and batches out of
 * their pieces. A mapping lives until storaged says that the segment is gone (or the connection is) and the last
 * reference into it was released: what was answered before a restart stays readable.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utlist.h>

#include "common/record_batch.h"
#include "common/topics_impl.h"

#define JOINED_MAX (64u << 20)

/* ----------------------------------------------------------------- segments */

int topics_segment_add(struct topics *t, uint32_t id, uint64_t size, int fd)
{
	struct topics_segment *s;
	struct stat st;
	HASH_FIND(hh, t->segments, &id, sizeof(id), s);
	if (s != NULL || size == 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size < size)
		return -EPROTO;
	void *base = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	s = must_calloc(1, sizeof(*s));
	s->id = id;
	s->base = base;
	s->size = size;
	HASH_ADD(hh, t->segments, id, sizeof(s->id), s);
	return 0;
}

static void segment_free_if_unused(struct topics_segment *s)
{
	if (!s->gone || s->n_refs > 0)
		return;
	munmap(s->base, s->size);
	free(s);
}

static void segment_forget(struct topics *t, struct topics_segment *s)
{
	HASH_DEL(t->segments, s);
	s->gone = true;
	segment_free_if_unused(s);
}

void topics_segment_gone(struct topics *t, uint32_t id)
{
	struct topics_segment *s;
	HASH_FIND(hh, t->segments, &id, sizeof(id), s);
	if (s != NULL)
		segment_forget(t, s);
}

void topics_segments_forget(struct topics *t)
{
	struct topics_segment *s, *next;
	HASH_ITER(hh, t->segments, s, next)
		segment_forget(t, s);
}

/* --------------------------------------------------------------- references */

static struct topics_ref *ref_alloc(struct topics *t, const struct topics_piece_list *m)
{
	size_t n = m->n_segment;
	struct topics_ref *ref = must_calloc(1, sizeof(*ref) + n * sizeof(ref->segment[0]));
	ref->topics = t;
	ref->id = m->ref;
	ref->generation = t->generation;
	ref->n = n;
	ref->n_users = 1;
	ref->slice = must_calloc(n, sizeof(ref->slice[0]));
	DL_APPEND(t->refs, ref);
	return ref;
}

int topics_ref_new(struct topics *t, const struct topics_piece_list *m, struct topics_ref **ret_ref)
{
	size_t n = m->n_segment;
	*ret_ref = NULL;
	if (m->n_offset != n || m->n_length != n || (n > 0) != (m->ref != 0))
		return -EPROTO;
	if (n == 0)
		return 0;
	struct topics_ref *ref = ref_alloc(t, m);
	for (size_t i = 0; i < n; i++) {
		struct topics_segment *s;
		HASH_FIND(hh, t->segments, &m->segment[i], sizeof(uint32_t), s);
		if (s == NULL || m->offset[i] > s->size || m->length[i] > s->size - m->offset[i]) {
			ref->n = i;
			topics_ref_drop(ref);
			return -EPROTO;
		}
		s->n_refs++;
		ref->segment[i] = s;
		ref->slice[i] = slice_of(s->base + m->offset[i], m->length[i]);
	}
	*ret_ref = ref;
	return 0;
}

static void ref_tell_released(struct topics *t, uint64_t id)
{
	if (t->n_release == t->release_capacity) {
		t->release_capacity = t->release_capacity > 0 ? 2 * t->release_capacity : 64;
		t->release = must_realloc(t->release, t->release_capacity * sizeof(t->release[0]));
	}
	t->release[t->n_release++] = id;
	topics_wants_turn(t);
}

void topics_ref_drop(struct topics_ref *ref)
{
	if (ref == NULL || --ref->n_users > 0)
		return;
	struct topics *t = ref->topics;
	for (size_t i = 0; i < ref->n; i++) {
		ref->segment[i]->n_refs--;
		segment_free_if_unused(ref->segment[i]);
	}
	if (ref->generation == t->generation && t->conn == CONN_READY)
		ref_tell_released(t, ref->id);
	DL_DELETE(t->refs, ref);
	free(ref->slice);
	free(ref);
}

static void box_move(struct pieces_box *box, struct pieces_box **to)
{
	if (box->list != NULL)
		DL_DELETE(*box->list, box);
	if (to != NULL)
		DL_APPEND(*to, box);
	box->list = to;
}

struct topics_pieces *topics_ref_pieces(struct topics_ref *ref)
{
	struct pieces_box *box = must_calloc(1, sizeof(*box));
	box->pub = (struct topics_pieces){
		.topics = ref->topics, .ref = ref->id, .piece = ref->slice, .n_pieces = ref->n, .impl = ref,
	};
	ref->n_users++;
	box_move(box, &ref->boxes);
	return &box->pub;
}

void topics_pieces_release(struct topics_pieces *pieces)
{
	if (pieces == NULL)
		return;
	struct pieces_box *box = (struct pieces_box *)pieces;
	struct topics_ref *ref = pieces->impl;
	box_move(box, NULL);
	free(box);
	topics_ref_drop(ref);
}

static bool ref_is_in(const struct topics_ref *ref, uint32_t segment)
{
	for (size_t i = 0; i < ref->n; i++)
		if (!ref->segment[i]->gone && ref->segment[i]->id == segment)
			return true;
	return false;
}

/* First collected, then told: on_reclaim may release any of them. */
void topics_reclaim(struct topics *t, uint32_t segment)
{
	struct topics_ref *ref;
	struct pieces_box *box, *next;
	if (t->on_reclaim == NULL)
		return;
	DL_FOREACH(t->refs, ref) {
		if (!ref_is_in(ref, segment))
			continue;
		DL_FOREACH_SAFE(ref->boxes, box, next)
			if (!box->reclaimed)
				box_move(box, &t->reclaimed);
	}
	while ((box = t->reclaimed) != NULL) {
		ref = box->pub.impl;
		box->reclaimed = true;
		box_move(box, &ref->boxes);
		t->on_reclaim(t->on_reclaim_arg, &box->pub);
	}
}

/* ------------------------------------------------------------------ batches */

void batch_cursor_init(struct batch_cursor *c, const struct topics_pieces *pieces)
{
	*c = (struct batch_cursor){ .pieces = pieces };
	buf_init(&c->joined, JOINED_MAX);
}

void batch_cursor_done(struct batch_cursor *c)
{
	buf_done(&c->joined);
}

static struct slice cursor_rest(struct batch_cursor *c)
{
	while (c->piece < c->pieces->n_pieces && c->offset == c->pieces->piece[c->piece].n) {
		c->piece++;
		c->offset = 0;
	}
	if (c->piece == c->pieces->n_pieces)
		return slice_of(NULL, 0);
	struct slice s = c->pieces->piece[c->piece];
	return slice_of(s.p + c->offset, s.n - c->offset);
}

/* Moves bytes to `joined` until it has n. False: the pieces end before. */
static bool cursor_join(struct batch_cursor *c, size_t n)
{
	while (buf_len(&c->joined) < n) {
		struct slice s = cursor_rest(c);
		size_t take = n - buf_len(&c->joined) < s.n ? n - buf_len(&c->joined) : s.n;
		if (take == 0)
			return false;
		buf_put(&c->joined, s.p, take);
		if (c->joined.failed)
			return false;
		c->offset += take;
	}
	return true;
}

int batch_cursor_next(struct batch_cursor *c, struct slice *ret_batch)
{
	struct slice s = cursor_rest(c);
	if (s.n == 0)
		return 0;
	int64_t size = record_batch_size(s);
	if (size > 0 && (uint64_t)size <= s.n) {
		*ret_batch = slice_of(s.p, (size_t)size);
		c->offset += (size_t)size;
		return 1;
	}
	buf_reset(&c->joined, JOINED_MAX);
	if (!cursor_join(c, 12))
		return -EBADMSG;
	size = record_batch_size(buf_slice(&c->joined));
	if (size <= 0 || !cursor_join(c, (size_t)size))
		return -EBADMSG;
	*ret_batch = buf_slice(&c->joined);
	return 1;
}
