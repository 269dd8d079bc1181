/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams in a small table, looked through whole: a read from the store costs far more.
 */
#include "storaged/engine/ahead.h"

#include <stdlib.h>

#include "storaged/engine/read.h"

#define STREAMS 64u
#define AHEAD 2u                        /* fetches */
#define RECENT 8u
#define WINDOW_MIN (512u << 10)
#define WINDOW_MAX (8u << 20)
#define CACHE_SHARE 16u                 /* window, twice that ahead, and room: a quarter of the cache */
#define ACTIVE_MS 2000u

struct stream {
	uint64_t log_id;                /* 0: free */
	uint64_t recent[RECENT];        /* where its last reads that went on began; ring by n_hits */
	uint64_t next;                  /* where it goes on, or it reads some of the last again, in other pieces */
	uint64_t end;                   /* what lies before is there, or being fetched */
	uint64_t ends[AHEAD];           /* of fetches that reach behind `next`, ascending */
	unsigned n_ends, n_hits;
	bool locating;                  /* a fetch was begun at `end`; how far it reaches is not known yet */
	uint64_t used_ms;
};

struct ahead {
	struct stream streams[STREAMS];
};

struct ahead *ahead_new(void)
{
	return must_calloc(1, sizeof(struct ahead));
}

void ahead_free(struct ahead *a)
{
	free(a);
}

static uint64_t stream_low(const struct stream *s)
{
	return s->recent[(s->n_hits + 1) % RECENT];
}

static struct stream *stream_find(struct ahead *a, uint64_t log_id_, uint64_t from)
{
	for (unsigned i = 0; i < STREAMS; i++)
		if (a->streams[i].log_id == log_id_ && from <= a->streams[i].next && from >= stream_low(&a->streams[i]))
			return &a->streams[i];
	return NULL;
}

/* A free one, or the longest unused. */
static struct stream *stream_new(struct ahead *a)
{
	struct stream *s = &a->streams[0];
	for (unsigned i = 1; i < STREAMS && s->log_id != 0; i++)
		if (a->streams[i].log_id == 0 || a->streams[i].used_ms < s->used_ms)
			s = &a->streams[i];
	return s;
}

static uint64_t window_of(const struct engine *e, const struct stream *s)
{
	uint64_t now = env_now_ms(e->env), n_active = 0;
	for (unsigned i = 0; i < STREAMS; i++) {
		const struct stream *x = &e->ahead->streams[i];
		n_active += x->log_id != 0 && x->n_hits > 0 && now - x->used_ms <= ACTIVE_MS;
	}
	uint64_t most = e->config.block_cache_size / CACHE_SHARE / (n_active > 0 ? n_active : 1);
	most = most < WINDOW_MAX ? most : WINDOW_MAX;
	uint64_t window = s->n_hits < 5 ? (uint64_t)WINDOW_MIN << (s->n_hits > 0 ? s->n_hits - 1 : 0) : WINDOW_MAX;
	return window < most ? window : most;
}

static void stream_reaches(struct stream *s, uint64_t end)
{
	must(s->n_ends < AHEAD && end > s->end);
	s->end = end;
	s->ends[s->n_ends++] = end;
}

/* Begins what is missing of the two. */
static void stream_go(struct engine *e, struct stream *s, struct log *log)
{
	while (s->n_ends < AHEAD && !s->locating && s->end < log_confirm(log) && !log_index_has(log, s->end)) {
		struct block *b = page_cache_find(e->cache, log->id, s->end);
		struct fetch *f = b == NULL ? fetch_find(e, log, s->end) : NULL;
		uint64_t end = b != NULL ? block_end_offset(b) : f != NULL ? fetch_end_offset(f) : 0;
		if (end > s->end)
			stream_reaches(s, end);
		else if (f == NULL && fetch_ahead(e, log, s->end, window_of(e, s)) == NULL)
			return;
		else
			s->locating = true;
	}
}

void ahead_read(struct engine *e, struct log *log, uint64_t from, uint64_t end)
{
	struct ahead *a = e->ahead;
	struct stream *s = stream_find(a, log->id, from);
	if (s == NULL) {
		s = stream_new(a);
		*s = (struct stream){ .log_id = log->id, .end = end };
		for (unsigned i = 0; i < RECENT; i++)
			s->recent[i] = from;
	} else if (end > s->next) {
		s->recent[++s->n_hits % RECENT] = from;
	}
	s->next = end > s->next ? end : s->next;
	s->used_ms = env_now_ms(e->env);
	while (s->n_ends > 0 && s->ends[0] <= s->next) {
		s->ends[0] = s->ends[1];
		s->n_ends--;
	}
	if (s->end < s->next) {
		s->end = s->next;
		s->locating = false;
	}
	if (s->n_hits > 0)
		stream_go(e, s, log);
}

uint64_t ahead_window(struct engine *e, const struct log *log, uint64_t from)
{
	const struct stream *s = stream_find(e->ahead, log->id, from);
	return s != NULL ? window_of(e, s) : 0;
}

void ahead_located(struct engine *e, struct log *log, uint64_t asked, uint64_t end)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		struct stream *s = &e->ahead->streams[i];
		if (s->log_id != log->id || !s->locating || s->end != asked)
			continue;
		s->locating = false;
		if (end > asked)
			stream_reaches(s, end);
		if (end > asked && !log->removed)
			stream_go(e, s, log);
	}
}
