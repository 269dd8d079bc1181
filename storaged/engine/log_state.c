/* SPDX-License-Identifier: Apache-2.0
 *
 * State entries of logs. Producers go out in order of last use, each with its whole window, and come in that way, so
 * that who has to go when there are too many is the same after a restart.
 */
#include "storaged/engine/log_state.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "storaged/bounds.h"
#include "storaged/data/data_state.h"

#define PRODUCER_BYTES_MIN 8u           /* of any producer in an entry */

/* An entry in the making: the message and what it points to. */
struct draft {
	Frame__State m;
	Frame__State__Closer closer;
	Frame__State__EpochStart epoch[DATA_STATE_EPOCHS_MAX], *epochs[DATA_STATE_EPOCHS_MAX];
	Frame__State__StringProducer *string, **strings;
	Frame__State__KafkaProducer *kafka, **kafkas;
	Frame__State__Written *written, **writtens;
	char *texts;                    /* ids, terminated */
};

/* Which producers an entry names. */
struct choice {
	uint64_t since;                 /* whose last records stand here or behind */
	int64_t last_ms;                /* not those that were idle for too long at this time */
};

/* ------------------------------------------------------------------ encoding */

static char *text_copy(char **at, const char *p, size_t n)
{
	char *copy = *at;
	memcpy(copy, p, n);
	copy[n] = '\0';
	*at += n + 1;
	return copy;
}

static int by_use(const void *a, const void *b)
{
	const struct producer *x = *(const struct producer *const *)a, *y = *(const struct producer *const *)b;
	if (x->used_ms != y->used_ms)
		return x->used_ms < y->used_ms ? -1 : 1;
	return x->next != y->next ? (x->next > y->next) - (x->next < y->next) : (x->base > y->base) - (x->base < y->base);
}

/* Those to be named, in order of last use; heap. */
static const struct producer **strings_choose(const struct producer_table *t, struct choice c, size_t *ret_n)
{
	const struct producer **chosen = must_calloc((size_t)t->n + 1, sizeof(const struct producer *));
	size_t n = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct producer *p = &t->entries[i];
		if (p->base >= c.since && c.last_ms - p->used_ms < PRODUCER_IDLE_MS)
			chosen[n++] = p;
	}
	qsort(chosen, n, sizeof(*chosen), by_use);
	*ret_n = n;
	return chosen;
}

static void draft_strings(struct draft *d, const struct producer_table *t, struct choice c, char **text)
{
	const struct producer **chosen = strings_choose(t, c, &d->m.n_producers);
	d->string = must_calloc(d->m.n_producers + 1, sizeof(*d->string));
	d->strings = must_calloc(d->m.n_producers + 1, sizeof(*d->strings));
	d->m.producers = d->strings;
	for (size_t i = 0; i < d->m.n_producers; i++) {
		const struct producer *p = chosen[i];
		Frame__State__StringProducer *to = d->strings[i] = &d->string[i];
		frame__state__string_producer__init(to);
		to->id = text_copy(text, p->id, p->id_len);
		to->epoch = p->epoch;
		to->seq = p->seq;
		to->first_offset = p->base;
		to->next = p->next;
		to->used_ms = p->used_ms;
	}
	free(chosen);
}

/* The chain is in order of time and of offsets, so those to be named are its new end: the first of them, or 0. */
static uint32_t kafka_choose(const struct kafka_producers *t, struct choice c, size_t *ret_n)
{
	uint32_t first = 0;
	*ret_n = 0;
	for (uint32_t i = t->newest; i != 0; i = t->entries[i - 1].older) {
		const struct kafka_producer *p = &t->entries[i - 1];
		if (kafka_producer_last(p)->base < c.since || c.last_ms - p->used_ms >= KAFKA_PRODUCER_IDLE_MS)
			break;
		first = i;
		(*ret_n)++;
	}
	return first;
}

/* The whole window, oldest first. */
static void draft_written(struct draft *d, size_t at, const struct kafka_producer *p, Frame__State__KafkaProducer *to)
{
	to->n_written = p->n_written;
	to->written = &d->writtens[at];
	for (unsigned k = 0; k < p->n_written; k++) {
		unsigned from = (p->newest + 1 + KAFKA_PRODUCER_WINDOW - p->n_written + k) % KAFKA_PRODUCER_WINDOW;
		const struct kafka_written *w = &p->written[from];
		Frame__State__Written *x = d->writtens[at + k] = &d->written[at + k];
		frame__state__written__init(x);
		x->first = w->first;
		x->last = w->last;
		x->offset = w->base;
	}
}

static void draft_kafka(struct draft *d, const struct kafka_producers *t, struct choice c)
{
	size_t n, k = 0;
	uint32_t i = kafka_choose(t, c, &n);
	d->kafka = must_calloc(n + 1, sizeof(*d->kafka));
	d->kafkas = must_calloc(n + 1, sizeof(*d->kafkas));
	d->written = must_calloc(n * KAFKA_PRODUCER_WINDOW + 1, sizeof(*d->written));
	d->writtens = must_calloc(n * KAFKA_PRODUCER_WINDOW + 1, sizeof(*d->writtens));
	d->m.kafka = d->kafkas;
	d->m.n_kafka = n;
	for (; i != 0; i = t->entries[i - 1].newer, k++) {
		const struct kafka_producer *p = &t->entries[i - 1];
		Frame__State__KafkaProducer *to = d->kafkas[k] = &d->kafka[k];
		frame__state__kafka_producer__init(to);
		to->id = p->id;
		to->epoch = p->epoch;
		to->used_ms = p->used_ms;
		draft_written(d, k * KAFKA_PRODUCER_WINDOW, p, to);
	}
	must(k == n);
}

static void draft_extra(struct draft *d, const struct log_extra *x, struct choice c)
{
	size_t text_bytes = x->closed_by_len + 1;
	for (uint32_t i = 0; i < x->producers.n; i++)
		text_bytes += x->producers.entries[i].id_len + 1;
	char *text = d->texts = must_calloc(1, text_bytes);
	draft_strings(d, &x->producers, c, &text);
	draft_kafka(d, &x->kafka, c);
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

/* A log that says nothing of epochs has had one. */
static void draft_epochs(struct draft *d, const struct log *log)
{
	const struct log_epoch only = { .epoch = log->epoch };
	const struct log_extra *x = log->open->packed.extra;
	const struct log_epoch *from = x != NULL && x->n_epochs > 0 ? x->epochs : &only;
	d->m.n_epochs = x != NULL && x->n_epochs > 0 ? x->n_epochs : 1;
	d->m.epochs = d->epochs;
	for (size_t i = 0; i < d->m.n_epochs; i++) {
		d->epochs[i] = &d->epoch[i];
		frame__state__epoch_start__init(&d->epoch[i]);
		d->epoch[i].epoch = from[i].epoch;
		d->epoch[i].first_offset = from[i].first_offset;
	}
}

static void draft_make(struct draft *d, const struct log *log, uint64_t since)
{
	const struct log_state *s = &log->open->packed;
	*d = (struct draft){ 0 };
	frame__state__init(&d->m);
	d->m.log_id = log->id;
	d->m.epoch = log->epoch;
	d->m.next = s->next;
	d->m.last_append_ms = s->last_time;
	d->m.bytes = s->bytes;
	d->m.closed = s->closed;
	draft_epochs(d, log);
	if (s->extra != NULL)
		draft_extra(d, s->extra, (struct choice){ .since = since, .last_ms = s->last_time });
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

/* Bytes that the producers take of the entry. */
static size_t draft_producer_bytes(const struct draft *d)
{
	Frame__State without = d->m;
	without.n_producers = without.n_kafka = 0;
	return frame__state__get_packed_size(&d->m) - frame__state__get_packed_size(&without);
}

/* With all producers, if that is due or they are few; else with those since the entry before. */
static void draft_choose(struct draft *d, const struct log *log, uint64_t since)
{
	const struct log_extra *x = log->open->packed.extra;
	size_t n = x == NULL ? 0 : (size_t)x->producers.n + x->kafka.n;
	bool due = !log->open->has_entry || log->open->n_incomplete >= DATA_STATE_INCOMPLETE_MAX;
	if (due || n * PRODUCER_BYTES_MIN <= bounds.state_complete) {
		draft_make(d, log, 0);
		d->m.complete = due || draft_producer_bytes(d) <= bounds.state_complete;
		if (d->m.complete)
			return;
		draft_done(d);
	}
	draft_make(d, log, since);
	d->m.complete = d->m.n_producers + d->m.n_kafka == n;
	d->m.since = d->m.complete ? 0 : since;
}

void log_state_encode(struct log *log, uint64_t since, struct slice card, struct buf *ret_entry)
{
	struct draft d;
	draft_choose(&d, log, since);
	d.m.card = (ProtobufCBinaryData){ .data = (uint8_t *)card.p, .len = card.n };
	struct log_open *o = log->open;
	o->has_entry = true;
	o->n_incomplete = d.m.complete ? 0 : o->n_incomplete + 1;
	d.m.n_incomplete = o->n_incomplete;
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

/* An epoch that is newer than the entry begins where the entry ends. The oldest goes. */
static void load_epochs(struct log_state *s, const Frame__State *entry, uint32_t epoch)
{
	const Frame__State__EpochStart *last = entry->n_epochs > 0 ? entry->epochs[entry->n_epochs - 1] : NULL;
	bool grows = epoch > entry->epoch;
	if (!grows && (last == NULL || (entry->n_epochs == 1 && last->epoch == epoch && last->first_offset == 0)))
		return;
	struct log_extra *x = log_state_extra(s);
	x->epochs = must_calloc(entry->n_epochs + 1, sizeof(*x->epochs));
	size_t first = entry->n_epochs + grows > DATA_STATE_EPOCHS_MAX ? 1 : 0;
	for (size_t i = first; i < entry->n_epochs; i++)
		x->epochs[x->n_epochs++] = (struct log_epoch){ entry->epochs[i]->epoch, entry->epochs[i]->first_offset };
	if (grows)
		x->epochs[x->n_epochs++] = (struct log_epoch){ epoch, entry->next };
}

void log_state_load(struct log_state *s, const Frame__State *entry, uint32_t epoch)
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
	load_epochs(s, entry, epoch);
}
