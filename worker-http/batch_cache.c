/* SPDX-License-Identifier: Apache-2.0
 *
 * A few slots, the longest unused one goes first, and further ones until all together are within the
 * cap. A slot whose decoder failed is empty.
 */
#include "worker-http/batch_cache.h"

void batch_cache_init(struct batch_cache *c, size_t cap)
{
	*c = (struct batch_cache){ .cap = cap };
	record_decoder_init(&c->plain, cap);
	for (unsigned i = 0; i < BATCH_CACHE_SLOTS; i++)
		record_decoder_init(&c->slot[i].decoder, cap);
}

void batch_cache_done(struct batch_cache *c)
{
	record_decoder_done(&c->plain);
	for (unsigned i = 0; i < BATCH_CACHE_SLOTS; i++)
		record_decoder_done(&c->slot[i].decoder);
}

static bool slot_has(const struct batch_slot *s, const struct batch_log *log, const struct record_batch *b)
{
	return s->used != 0 && s->log.partition == log->partition &&
		memcmp(s->log.topic_id, log->topic_id, sizeof(log->topic_id)) == 0 &&
		memcmp(s->header, b->bytes.p, RECORD_BATCH_HEADER) == 0;
}

/* The slot that holds it, or the longest unused one. */
static struct batch_slot *find_slot(struct batch_cache *c, const struct batch_log *log, const struct record_batch *b)
{
	struct batch_slot *oldest = &c->slot[0];
	for (unsigned i = 0; i < BATCH_CACHE_SLOTS; i++) {
		if (slot_has(&c->slot[i], log, b))
			return &c->slot[i];
		if (c->slot[i].used < oldest->used)
			oldest = &c->slot[i];
	}
	return oldest;
}

static void slot_clear(struct batch_slot *s)
{
	record_decoder_done(&s->decoder);
	s->used = 0;
}

/* Clears others, the longest unused first, until all together are within the cap. */
static void evict(struct batch_cache *c, const struct batch_slot *keep)
{
	for (;;) {
		size_t sum = 0;
		struct batch_slot *oldest = NULL;
		for (unsigned i = 0; i < BATCH_CACHE_SLOTS; i++) {
			struct batch_slot *s = &c->slot[i];
			sum += s->decoder.scratch.capacity;
			if (s != keep && s->used != 0 && (oldest == NULL || s->used < oldest->used))
				oldest = s;
		}
		if (sum <= c->cap || oldest == NULL)
			return;
		slot_clear(oldest);
	}
}

static int slot_fill(struct batch_cache *c, struct batch_slot *s, const struct batch_log *log,
		     const struct record_batch *b)
{
	s->used = 0;
	int r = record_decoder_open(&s->decoder, b);
	if (r != 0) {
		slot_clear(s);
		return r;
	}
	c->decoded += buf_len(&s->decoder.scratch);
	s->log = *log;
	memcpy(s->header, b->bytes.p, RECORD_BATCH_HEADER);
	s->used = ++c->clock;
	evict(c, s);
	return 0;
}

int batch_cache_open(struct batch_cache *c, const struct batch_log *log, const struct record_batch *b,
		     struct record_decoder **ret_decoder)
{
	if ((b->attributes & BATCH_CODEC_MASK) == CODEC_NONE) {
		*ret_decoder = &c->plain;
		return record_decoder_open(&c->plain, b);
	}
	struct batch_slot *s = find_slot(c, log, b);
	int r = slot_has(s, log, b) ? record_decoder_again(&s->decoder, b) : slot_fill(c, s, log, b);
	s->used = r == 0 ? ++c->clock : 0;
	*ret_decoder = &s->decoder;
	return r;
}

bool batch_cache_must_decompress(const struct batch_cache *c, const struct batch_log *log, const struct record_batch *b)
{
	bool must_be = (b->attributes & BATCH_CODEC_MASK) != CODEC_NONE;
	for (unsigned i = 0; i < BATCH_CACHE_SLOTS && must_be; i++)
		must_be = !slot_has(&c->slot[i], log, b);
	return must_be;
}
