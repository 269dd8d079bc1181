/* SPDX-License-Identifier: Apache-2.0
 *
 * State entries of logs. Producers go out in order of last use, and come in that way, so that who has to go when
 * there are too many is the same after a restart.
 */
#include "storaged/engine/log_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "storaged/data/data_state.h"

#define STRING_BYTES 48u                /* of a producer in an entry, at most, beside its id */
#define KAFKA_BYTES 128u

/* An entry in the making: the message and what it points to. */
struct draft {
	Frame__State m;
	Frame__State__Closer closer;
	Frame__State__EpochStart epoch, *epochs[1];
	Frame__State__StringProducer *string, **strings;
	Frame__State__KafkaProducer *kafka, **kafkas;
	Frame__State__Written *written, **writtens;
	char *texts;                    /* ids, terminated */
};

/* ------------------------------------------------------------------ encoding */

static bool producers_fit(const struct log_extra *x)
{
	uint64_t bytes = (uint64_t)x->kafka.n * KAFKA_BYTES;
	for (uint32_t i = 0; i < x->producers.n && bytes <= DATA_STATE_COMPLETE_MAX; i++)
		bytes += STRING_BYTES + x->producers.entries[i].id_len;
	return bytes <= DATA_STATE_COMPLETE_MAX;
}

static char *text_copy(char **at, const char *p, size_t n)
{
	char *copy = *at;
	memcpy(copy, p, n);
	copy[n] = '\0';
	*at += n + 1;
	return copy;
}

static int compare_strings(const void *a, const void *b)
{
	const Frame__State__StringProducer *const *x = a, *const *y = b;
	if ((*x)->used_ms != (*y)->used_ms)
		return (*x)->used_ms < (*y)->used_ms ? -1 : 1;
	return (*x)->next < (*y)->next ? -1 : (*x)->next > (*y)->next;
}

static void draft_strings(struct draft *d, const struct producer_table *t, uint64_t since, char **text)
{
	d->string = must_calloc(t->n, sizeof(*d->string));
	d->strings = must_calloc(t->n, sizeof(*d->strings));
	d->m.producers = d->strings;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct producer *p = &t->entries[i];
		if (p->base < since)
			continue;
		Frame__State__StringProducer *to = &d->string[d->m.n_producers];
		frame__state__string_producer__init(to);
		to->id = text_copy(text, p->id, p->id_len);
		to->epoch = p->epoch;
		to->seq = p->seq;
		to->first_offset = p->base;
		to->next = p->next;
		to->used_ms = p->used_ms;
		d->strings[d->m.n_producers++] = to;
	}
	qsort(d->strings, d->m.n_producers, sizeof(*d->strings), compare_strings);
}

/* Its window, oldest first. */
static void draft_written(struct draft *d, size_t *n, const struct kafka_producer *p, Frame__State__KafkaProducer *to)
{
	to->written = &d->writtens[*n];
	to->n_written = p->n_written;
	for (unsigned k = 1; k <= p->n_written; k++) {
		unsigned at = (p->newest + KAFKA_PRODUCER_WINDOW - p->n_written + k) % KAFKA_PRODUCER_WINDOW;
		Frame__State__Written *x = &d->written[*n];
		frame__state__written__init(x);
		x->first = p->written[at].first;
		x->last = p->written[at].last;
		x->offset = p->written[at].base;
		d->writtens[(*n)++] = x;
	}
}

static void draft_kafka(struct draft *d, const struct kafka_producers *t, uint64_t since)
{
	size_t n = 0;
	d->kafka = must_calloc(t->n, sizeof(*d->kafka));
	d->kafkas = must_calloc(t->n, sizeof(*d->kafkas));
	d->written = must_calloc((size_t)t->n * KAFKA_PRODUCER_WINDOW, sizeof(*d->written));
	d->writtens = must_calloc((size_t)t->n * KAFKA_PRODUCER_WINDOW, sizeof(*d->writtens));
	d->m.kafka = d->kafkas;
	for (uint32_t i = t->oldest; i != 0; i = t->entries[i - 1].newer) {
		const struct kafka_producer *p = &t->entries[i - 1];
		if (kafka_producer_last(p)->base < since)
			continue;
		Frame__State__KafkaProducer *to = &d->kafka[d->m.n_kafka];
		frame__state__kafka_producer__init(to);
		to->id = p->id;
		to->epoch = p->epoch;
		to->used_ms = p->used_ms;
		draft_written(d, &n, p, to);
		d->kafkas[d->m.n_kafka++] = to;
	}
}

static void draft_extra(struct draft *d, const struct log_extra *x, uint64_t since)
{
	size_t text_bytes = x->closed_by_len + 1;
	for (uint32_t i = 0; i < x->producers.n; i++)
		text_bytes += x->producers.entries[i].id_len + 1;
	char *text = d->texts = must_calloc(1, text_bytes);
	draft_strings(d, &x->producers, since, &text);
	draft_kafka(d, &x->kafka, since);
	d->m.has_stream_seq = x->stream_seq != NULL;
	d->m.stream_seq.data = x->stream_seq;
	d->m.stream_seq.len = x->stream_seq_len;
	d->m.has_closer = x->has_closed_by;
	if (!x->has_closed_by)
		return;
	frame__state__closer__init(&d->closer);
	d->closer.id = text_copy(&text, x->closed_by_id, x->closed_by_len);
	d->closer.epoch = x->closed_by_epoch;
	d->closer.seq = x->closed_by_seq;
	d->m.closer = &d->closer;
}

static void draft_scalars(struct draft *d, const struct log *log)
{
	const struct log_state *s = &log->packed;
	frame__state__init(&d->m);
	d->m.log_id = log->id;
	d->m.epoch = log->epoch;
	d->m.next = s->next;
	d->m.last_append_ms = s->last_time;
	d->m.bytes = s->bytes;
	d->m.closed = s->closed;
	frame__state__epoch_start__init(&d->epoch);
	d->epoch.epoch = log->epoch;
	d->epochs[0] = &d->epoch;
	d->m.epochs = d->epochs;
	d->m.n_epochs = 1;
}

static void draft_done(struct draft *d)
{
	free(d->string);
	free(d->strings);
	free(d->kafka);
	free(d->kafkas);
	free(d->written);
	free(d->writtens);
	free(d->texts);
}

void log_state_encode(struct log *log, uint64_t since, struct buf *ret_entry)
{
	const struct log_extra *x = log->packed.extra;
	struct draft d = { 0 };
	draft_scalars(&d, log);
	bool complete = x == NULL || !log->has_entry || log->n_incomplete >= DATA_STATE_INCOMPLETE_MAX || producers_fit(x);
	log->has_entry = true;
	log->n_incomplete = complete ? 0 : log->n_incomplete + 1;
	d.m.complete = complete;
	d.m.n_incomplete = log->n_incomplete;
	if (x != NULL)
		draft_extra(&d, x, complete ? 0 : since);
	size_t n = frame__state__get_packed_size(&d.m);
	buf_init(ret_entry, n);
	uint8_t *to = buf_reserve(ret_entry, n);
	must(to != NULL);
	frame__state__pack(&d.m, to);
	buf_commit(ret_entry, n);
	draft_done(&d);
}

/* ------------------------------------------------------------------- loading */

/* Sequence numbers run from 0 to 2^31-1 and begin again. */
static uint32_t written_count(const Frame__State__Written *w)
{
	return (((uint32_t)w->last - (uint32_t)w->first) & INT32_MAX) + 1;
}

static void load_kafka(struct kafka_producers *t, const Frame__State *entry)
{
	for (size_t i = 0; i < entry->n_kafka; i++) {
		const Frame__State__KafkaProducer *p = entry->kafka[i];
		for (size_t k = 0; k < p->n_written; k++) {
			const Frame__State__Written *w = p->written[k];
			struct kafka_claim claim = {
				.id = p->id, .epoch = (int16_t)p->epoch, .first = w->first, .count = written_count(w),
			};
			kafka_producer_accept(t, &claim, p->used_ms, w->offset, 0);
		}
	}
}

static void load_strings(struct producer_table *t, const Frame__State *entry)
{
	for (size_t i = 0; i < entry->n_producers; i++) {
		const Frame__State__StringProducer *p = entry->producers[i];
		struct producer state = {
			.epoch = p->epoch, .seq = p->seq, .base = p->first_offset, .next = p->next, .used_ms = p->used_ms,
		};
		producer_accept(t, slice_str(p->id), &state);
	}
}

static void load_closer(struct log_extra *x, const Frame__State__Closer *c)
{
	x->has_closed_by = true;
	x->closed_by_len = (uint32_t)strlen(c->id);
	x->closed_by_id = must_memdup(c->id, x->closed_by_len);
	x->closed_by_epoch = c->epoch;
	x->closed_by_seq = c->seq;
}

static void load_stream_seq(struct log_extra *x, const ProtobufCBinaryData *seq)
{
	x->stream_seq = seq->len > 0 ? must_memdup(seq->data, seq->len) : must_calloc(1, 1);
	x->stream_seq_len = (uint32_t)seq->len;
}

void log_state_load(struct log_state *s, const Frame__State *entry)
{
	must(s->extra == NULL);
	*s = (struct log_state){
		.next = entry->next, .bytes = entry->bytes, .last_time = entry->last_append_ms, .closed = entry->closed,
	};
	if (entry->n_producers > 0)
		load_strings(&log_state_extra(s)->producers, entry);
	if (entry->n_kafka > 0)
		load_kafka(&log_state_extra(s)->kafka, entry);
	if (entry->has_closer && entry->closer != NULL)
		load_closer(log_state_extra(s), entry->closer);
	if (entry->has_stream_seq)
		load_stream_seq(log_state_extra(s), &entry->stream_seq);
}
