/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments in a list by age, extents in a ring. Filling a frame that does not fit the newest segment
 * goes to a spare one, which joins the list with its first commit: a refused batch leaves no hole.
 */
#include "storaged/engine/arena.h"

#include <stdlib.h>

#include "common/metrics.h"

#define PAGE 4096u

struct arena_segment {
	struct segment segment;
	struct pin pin;                 /* readers */
	struct arena *arena;
	struct arena_segment *newer;
	uint64_t extent_first, extent_end;
	uint32_t fill;
	uint32_t busy;                  /* extents of unfinished objects */
	uint32_t unpacked;              /* extents in no data object */
	bool asked_back;
};

void arena_init(struct arena *a, struct env *env, const struct arena_config *config)
{
	*a = (struct arena){ .env = env, .config = *config, .next_segment_id = config->first_segment_id };
	a->extent_capacity = 64;
	a->extents = must_calloc(a->extent_capacity, sizeof(*a->extents));
}

static void segment_free(struct arena *a, struct arena_segment *s)
{
	a->bytes -= s->segment.mem.size;
	metric_set(METRIC_ARENA_BYTES, a->bytes);
	if (s->segment.mem.base != NULL)
		a->env->ops->segment_free(a->env, &s->segment.mem);
	free(s);
}

static void leftover_free(struct arena *a)
{
	if (a->leftover.base != NULL)
		a->env->ops->segment_free(a->env, &a->leftover);
	a->leftover = (struct env_segment){ .fd = -1 };
}

void arena_done(struct arena *a)
{
	while (a->oldest != NULL) {
		struct arena_segment *s = a->oldest;
		a->oldest = s->newer;
		segment_free(a, s);
	}
	if (a->spare != NULL)
		segment_free(a, a->spare);
	free(a->extents);
}

/* ----------------------------------------------------------------- segments */

static void on_pin_free(struct pin *pin)
{
	struct arena_segment *s = (struct arena_segment *)((char *)pin - offsetof(struct arena_segment, pin));
	s->asked_back = false;
	s->arena->config.on_room(s->arena->config.arg);
}

/* What left is taken when it is of that size, else it goes now. */
static int memory_take(struct arena *a, uint64_t size, struct env_segment *ret)
{
	if (a->leftover.base != NULL && a->leftover.size == size) {
		*ret = a->leftover;
		a->leftover = (struct env_segment){ .fd = -1 };
		return 0;
	}
	leftover_free(a);
	return a->env->ops->segment_new(a->env, ENV_SEGMENT_SHARED_READ, size, ret);
}

static struct arena_segment *segment_new(struct arena *a, uint64_t size)
{
	struct arena_segment *s = must_calloc(1, sizeof(*s));
	if (memory_take(a, size, &s->segment.mem) != 0) {
		free(s);
		return NULL;
	}
	must(s->segment.mem.size >= size);
	s->segment.id = a->next_segment_id++;
	s->arena = a;
	s->pin.on_free = on_pin_free;
	a->bytes += s->segment.mem.size;
	metric_set(METRIC_ARENA_BYTES, a->bytes);
	return s;
}

struct extent *arena_extent(struct arena *a, uint64_t index)
{
	must(index >= a->extent_first && index < a->extent_end);
	return &a->extents[index & (a->extent_capacity - 1)];
}

struct iovec arena_iovec(const struct extent *x)
{
	must(x->segment != NULL);
	return (struct iovec){ .iov_base = x->segment->segment.mem.base + x->offset, .iov_len = x->length };
}

struct slice arena_bytes(const struct extent *x)
{
	struct iovec v = arena_iovec(x);
	return slice_of(v.iov_base, v.iov_len);
}

static bool segment_is_free(const struct arena_segment *s)
{
	return s->busy == 0 && s->unpacked == 0 && s->pin.count == 0;
}

static void segment_leave(struct arena *a, struct arena_segment *s, struct arena_segment *older)
{
	must(s->busy == 0 && s->unpacked == 0 && s->pin.count == 0 && s != a->newest);
	for (uint64_t i = s->extent_first; i < s->extent_end; i++) {
		a->config.on_frames_gone(a->config.arg, arena_bytes(arena_extent(a, i)));
		arena_extent(a, i)->segment = NULL;
	}
	while (a->extent_first < a->extent_end && arena_extent(a, a->extent_first)->segment == NULL)
		a->extent_first++;
	if (older == NULL)
		a->oldest = s->newer;
	else
		older->newer = s->newer;
	a->config.on_segment_gone(a->config.arg, &s->segment);
	if (!s->pin.abandoned) {
		leftover_free(a);
		a->leftover = s->segment.mem;
		s->segment.mem.base = NULL;
	}
	segment_free(a, s);
}

/* Lets the oldest segment go that may. */
static bool arena_evict(struct arena *a)
{
	struct arena_segment *older = NULL;
	for (struct arena_segment *s = a->oldest; s != a->newest; older = s, s = s->newer) {
		if (segment_is_free(s)) {
			segment_leave(a, s, older);
			return true;
		}
	}
	return false;
}

/* Asks the oldest segment back that only readers pin. */
static void arena_ask_back(struct arena *a)
{
	for (struct arena_segment *s = a->oldest; s != a->newest; s = s->newer) {
		if (s->busy == 0 && s->unpacked == 0 && !s->asked_back) {
			must(s->pin.count > 0);
			s->asked_back = true;
			a->config.on_reclaim(a->config.arg, &s->segment);
			return;
		}
	}
}

static bool arena_spare_for(struct arena *a, uint32_t size)
{
	uint64_t want = a->config.segment_size;
	if (size > want)
		want = ((uint64_t)size + PAGE - 1) / PAGE * PAGE;
	if (a->spare != NULL && a->spare->segment.mem.size >= size)
		return true;
	if (a->spare != NULL) {
		segment_free(a, a->spare);
		a->spare = NULL;
	}
	while (a->bytes + want > a->config.bytes_max) {
		if (!arena_evict(a)) {
			leftover_free(a);
			arena_ask_back(a);
			return false;
		}
	}
	a->spare = segment_new(a, want);
	return a->spare != NULL;
}

/* ------------------------------------------------------------------ filling */

bool arena_fits(const struct arena *a, uint64_t size)
{
	return a->unpacked == 0 || a->unpacked + size <= a->config.unpacked_max;
}

uint8_t *arena_reserve(struct arena *a, uint32_t size)
{
	must(size > 0 && size % 8 == 0);
	if (a->unstored + size > a->config.unstored_max || !arena_fits(a, size))
		return NULL;
	struct arena_segment *s = a->newest;
	if (s == NULL || s->segment.mem.size - s->fill < size) {
		if (!arena_spare_for(a, size))
			return NULL;
		s = a->spare;
	}
	a->reserved = s;
	return s->segment.mem.base + s->fill;
}

static void extents_grow(struct arena *a)
{
	struct extent *wider = must_calloc(a->extent_capacity * 2, sizeof(*wider));
	uint64_t mask = a->extent_capacity * 2 - 1;
	for (uint64_t i = a->extent_first; i < a->extent_end; i++)
		wider[i & mask] = *arena_extent(a, i);
	free(a->extents);
	a->extents = wider;
	a->extent_capacity *= 2;
}

static void arena_open_spare(struct arena *a)
{
	struct arena_segment *s = a->spare;
	a->spare = NULL;
	if (a->newest == NULL)
		a->oldest = s;
	else
		a->newest->newer = s;
	a->newest = s;
	s->extent_first = s->extent_end = a->extent_end;
}

static bool extent_continues(const struct extent *x, const struct arena_place *at)
{
	return x->session == at->session && x->seq == at->seq && x->body_position + x->length == at->body_position;
}

static void extent_add(struct arena *a, struct arena_segment *s, const struct arena_place *at, uint32_t size)
{
	if (a->extent_end - a->extent_first == a->extent_capacity)
		extents_grow(a);
	a->extents[a->extent_end & (a->extent_capacity - 1)] = (struct extent){
		.segment = s, .session = at->session, .seq = at->seq, .body_position = at->body_position, .offset = s->fill,
		.length = size,
	};
	s->extent_end = ++a->extent_end;
	s->unpacked++;
}

void arena_commit(struct arena *a, uint32_t size, struct arena_place at, bool stored)
{
	struct arena_segment *s = a->reserved;
	must(s != NULL && s->segment.mem.size - s->fill >= size);
	a->reserved = NULL;
	if (s == a->spare)
		arena_open_spare(a);
	must(s == a->newest);
	struct extent *last = a->extent_end > s->extent_first ? arena_extent(a, a->extent_end - 1) : NULL;
	if (last != NULL && extent_continues(last, &at)) {
		last->length += size;
	} else {
		extent_add(a, s, &at, size);
		s->busy += !stored;
	}
	s->fill += size;
	a->unpacked += size;
	a->unstored += stored ? 0 : size;
	metric_set(METRIC_ARENA_UNPACKED_BYTES, a->unpacked);
	metric_set(METRIC_ARENA_UNSTORED_BYTES, a->unstored);
}

void arena_packed(struct arena *a, uint32_t session, uint64_t seq_end)
{
	for (; a->extent_packed < a->extent_end; a->extent_packed++) {
		struct extent *x = arena_extent(a, a->extent_packed);
		if (x->session > session || (x->session == session && x->seq >= seq_end))
			break;
		must(x->segment->unpacked > 0 && a->unpacked >= x->length);
		x->segment->unpacked--;
		a->unpacked -= x->length;
	}
	metric_set(METRIC_ARENA_UNPACKED_BYTES, a->unpacked);
	a->config.on_room(a->config.arg);
}

void arena_stored(struct arena *a, uint64_t bytes)
{
	must(bytes <= a->unstored);
	a->unstored -= bytes;
	metric_set(METRIC_ARENA_UNSTORED_BYTES, a->unstored);
}

void arena_finish(struct arena *a, uint64_t extent_first, uint64_t extent_end)
{
	for (uint64_t i = extent_first; i < extent_end; i++) {
		struct arena_segment *s = arena_extent(a, i)->segment;
		must(s != NULL && s->busy > 0);
		s->busy--;
	}
	a->config.on_room(a->config.arg);
}

/* ------------------------------------------------------------------ finding */

static bool is_at_or_before(const struct extent *x, const struct arena_place *at)
{
	if (x->session != at->session)
		return x->session < at->session;
	if (x->seq != at->seq)
		return x->seq < at->seq;
	return x->body_position <= at->body_position;
}

static struct extent *extent_find(struct arena *a, const struct arena_place *at)
{
	uint64_t low = a->extent_first, high = a->extent_end;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (is_at_or_before(arena_extent(a, middle), at))
			low = middle + 1;
		else
			high = middle;
	}
	return low > a->extent_first ? arena_extent(a, low - 1) : NULL;
}

bool arena_find(struct arena *a, struct arena_place at, uint32_t length, struct piece *ret_piece)
{
	struct extent *x = extent_find(a, &at);
	if (x == NULL || x->session != at.session || x->seq != at.seq || x->segment == NULL)
		return false;
	uint32_t within = at.body_position - x->body_position;
	must(within < x->length && length <= x->length - within);
	*ret_piece = (struct piece){
		.segment = &x->segment->segment,
		.pin = &x->segment->pin,
		.offset = x->offset + within,
		.length = length,
	};
	return true;
}
