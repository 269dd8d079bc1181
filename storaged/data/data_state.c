/* SPDX-License-Identifier: Apache-2.0
 *
 * State entries decoded, compared and folded. What decodes is within the bounds of storaged/engine and in the order
 * that its tables need: producers by last use. A producer's whole window stands in each entry that names it, so the
 * newest word on a producer is all there is to say about it.
 */
#include "storaged/data/data_state.h"

#include <stdlib.h>

#include "common/must.h"
#include "storaged/data/data_format.h"
#include "storaged/engine/kafka_producer.h"
#include "storaged/engine/producer.h"

#define OFFSET_END_MAX ((uint64_t)INT64_MAX + 1)

/* ----------------------------------------------------------------- decoding */

static bool id_is_good(const char *id)
{
	size_t n = strlen(id);
	return n > 0 && n <= PRODUCER_ID_MAX;
}

/* Of one list, whose entries were last used in this order. */
static bool used_is_good(const Frame__State *s, int64_t used_ms, int64_t *last_ms)
{
	if (used_ms < *last_ms || used_ms > s->last_append_ms)
		return false;
	*last_ms = used_ms;
	return true;
}

static const char *strings_check(const Frame__State *s)
{
	int64_t last_ms = 0;
	if (s->n_producers > PRODUCERS_MAX)
		return "it has too many producers";
	for (size_t i = 0; i < s->n_producers; i++) {
		const Frame__State__StringProducer *p = s->producers[i];
		if (!id_is_good(p->id) || p->first_offset > p->next || p->next > s->next)
			return "a producer is out of range";
		if (!used_is_good(s, p->used_ms, &last_ms))
			return "its producers are not in order of their last use";
	}
	return NULL;
}

static bool window_is_good(const Frame__State *s, const Frame__State__KafkaProducer *p)
{
	if (p->n_written == 0 || p->n_written > KAFKA_PRODUCER_WINDOW)
		return false;
	for (size_t i = 0; i < p->n_written; i++) {
		const Frame__State__Written *w = p->written[i];
		if (w->first < 0 || w->last < 0 || w->offset >= s->next ||
		    (i > 0 && w->offset <= p->written[i - 1]->offset))
			return false;
	}
	return true;
}

static const char *kafka_check(const Frame__State *s)
{
	int64_t last_ms = 0;
	if (s->n_kafka > KAFKA_PRODUCERS_MAX)
		return "it has too many Kafka producers";
	for (size_t i = 0; i < s->n_kafka; i++) {
		const Frame__State__KafkaProducer *p = s->kafka[i];
		if (p->id < 0 || p->epoch < 0 || p->epoch > INT16_MAX || !window_is_good(s, p))
			return "a Kafka producer is out of range";
		if (!used_is_good(s, p->used_ms, &last_ms))
			return "its Kafka producers are not in order of their last use";
	}
	return NULL;
}

static const char *epochs_check(const Frame__State *s)
{
	if (s->n_epochs > DATA_STATE_EPOCHS_MAX)
		return "it has too many epochs";
	for (size_t i = 0; i < s->n_epochs; i++) {
		const Frame__State__EpochStart *e = s->epochs[i];
		if (e->epoch > s->epoch || e->first_offset > s->next ||
		    (i > 0 && (e->epoch <= s->epochs[i - 1]->epoch ||
			       e->first_offset < s->epochs[i - 1]->first_offset)))
			return "its epochs are out of order";
	}
	return NULL;
}

static const char *state_check(const Frame__State *s, uint64_t log_id)
{
	if (s->log_id != log_id)
		return "it is of another log";
	if (s->next > OFFSET_END_MAX || s->last_append_ms < 0)
		return "its offset or time is out of range";
	if (s->complete != (s->n_incomplete == 0) || s->n_incomplete > DATA_STATE_INCOMPLETE_MAX)
		return "its count of incomplete entries is out of range";
	if (s->since > s->next || (s->complete && (s->since != 0 || s->whole)))
		return "what it goes on from is out of range";
	if (s->has_closer != (s->closer != NULL) || (s->has_closer && (!s->closed || !id_is_good(s->closer->id))))
		return "who closed it is malformed";
	if (s->stream_seq.len > DATA_STATE_STREAM_SEQ_MAX || (s->stream_seq.len > 0 && !s->has_stream_seq))
		return "its stream sequence is malformed";
	const char *fault = epochs_check(s);
	if (fault == NULL)
		fault = strings_check(s);
	return fault != NULL ? fault : kafka_check(s);
}

Frame__State *data_state_decode(struct slice entry, uint64_t log_id, const char **ret_fault)
{
	Frame__State *s = NULL;
	*ret_fault = "it is longer than a state entry can be";
	if (entry.n > DATA_ENTRY_MAX)
		return NULL;
	s = frame__state__unpack(NULL, entry.n, entry.p);
	*ret_fault = s == NULL ? "it is not a state entry" : state_check(s, log_id);
	if (*ret_fault == NULL)
		return s;
	data_state_free(s);
	return NULL;
}

void data_state_free(Frame__State *s)
{
	if (s != NULL)
		frame__state__free_unpacked(s, NULL);
}

/* A base-128 number of at most 64 bits. */
static bool number_take(struct slice *s, uint64_t *ret)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64 && s->n > 0; shift += 7) {
		uint8_t byte = *s->p;
		*s = slice_of(s->p + 1, s->n - 1);
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = v;
			return true;
		}
	}
	return false;
}

/* Fields stand in order of their numbers; zeros are left out. */
bool data_state_peek(struct slice entry, struct data_state_brief *ret)
{
	enum { EPOCH = 2, NEXT, LAST_APPEND_MS, BYTES, CLOSED };
	uint64_t tag, field[CLOSED + 1] = { 0 };
	while (entry.n > 0) {
		if (!number_take(&entry, &tag))
			return false;
		if (tag >> 3 > CLOSED)
			break;
		if ((tag & 7) == 1 && entry.n >= 8)
			entry = slice_of(entry.p + 8, entry.n - 8);
		else if ((tag & 7) != 0 || !number_take(&entry, &field[tag >> 3]))
			return false;
	}
	*ret = (struct data_state_brief){
		.epoch = (uint32_t)field[EPOCH], .next = field[NEXT], .last_append_ms = (int64_t)field[LAST_APPEND_MS],
		.closed = field[CLOSED] != 0,
	};
	return true;
}

int data_state_compare(const Frame__State *a, const Frame__State *b)
{
	if (a->epoch != b->epoch)
		return a->epoch > b->epoch ? 1 : -1;
	if (a->next != b->next)
		return a->next > b->next ? 1 : -1;
	if (!a->closed != !b->closed)
		return a->closed ? 1 : -1;
	return (a->complete != 0) - (b->complete != 0);
}

/* ------------------------------------------------------------------ folding */

/* A producer of either kind, as folding sees it. */
struct word {
	int64_t used_ms;
	int64_t number;                 /* Kafka's id, else 0 */
	const char *id;                 /* a string producer's, else "" */
	uint64_t at;                    /* offset of its last records: rises with each word of it */
	size_t order;                   /* older's first, each list's own order */
	void *message;
};

static int by_id(const void *a, const void *b)
{
	const struct word *x = a, *y = b;
	if (x->number != y->number)
		return x->number > y->number ? 1 : -1;
	int c = strcmp(x->id, y->id);
	if (c == 0)
		c = (x->at > y->at) - (x->at < y->at);
	return c != 0 ? c : (x->order > y->order) - (x->order < y->order);
}

static int by_use(const void *a, const void *b)
{
	const struct word *x = a, *y = b;
	if (x->used_ms != y->used_ms)
		return x->used_ms > y->used_ms ? 1 : -1;
	if (x->at != y->at)
		return x->at > y->at ? 1 : -1;
	return (x->order > y->order) - (x->order < y->order);
}

static bool is_same(const struct word *a, const struct word *b)
{
	return a->number == b->number && strcmp(a->id, b->id) == 0;
}

/* Frees `message` of each word that does not stay; returns how many stay, at the front in order of last use. */
static size_t words_fold(struct word *words, size_t n, size_t n_max, int64_t idle_at)
{
	size_t kept = 0, first;
	qsort(words, n, sizeof(*words), by_id);
	for (size_t i = 0; i < n; i++) {
		bool stays = words[i].used_ms > idle_at && (i + 1 == n || !is_same(&words[i], &words[i + 1]));
		if (stays)
			words[kept++] = words[i];
		else
			protobuf_c_message_free_unpacked(words[i].message, NULL);
	}
	qsort(words, kept, sizeof(*words), by_use);
	first = kept > n_max ? kept - n_max : 0;
	for (size_t i = 0; i < first; i++)
		protobuf_c_message_free_unpacked(words[i].message, NULL);
	memmove(words, words + first, (kept - first) * sizeof(*words));
	return kept - first;
}

static void strings_fold(Frame__State *newer, Frame__State *older, int64_t idle_at)
{
	size_t n = older->n_producers + newer->n_producers;
	struct word *words = must_calloc(n + 1, sizeof(*words));
	for (size_t i = 0; i < n; i++) {
		Frame__State__StringProducer *p = i < older->n_producers ? older->producers[i] :
						  newer->producers[i - older->n_producers];
		words[i] = (struct word){
			.used_ms = p->used_ms, .id = p->id, .at = p->first_offset, .order = i, .message = p,
		};
	}
	older->n_producers = 0;
	newer->n_producers = words_fold(words, n, PRODUCERS_MAX, idle_at);
	newer->producers = must_realloc(newer->producers, (n + 1) * sizeof(*newer->producers));
	for (size_t i = 0; i < newer->n_producers; i++)
		newer->producers[i] = words[i].message;
	free(words);
}

static void kafka_fold(Frame__State *newer, Frame__State *older, int64_t idle_at)
{
	size_t n = older->n_kafka + newer->n_kafka;
	struct word *words = must_calloc(n + 1, sizeof(*words));
	for (size_t i = 0; i < n; i++) {
		Frame__State__KafkaProducer *p = i < older->n_kafka ? older->kafka[i] : newer->kafka[i - older->n_kafka];
		words[i] = (struct word){
			.used_ms = p->used_ms, .number = p->id, .id = "", .at = p->written[p->n_written - 1]->offset, .order = i,
			.message = p,
		};
	}
	older->n_kafka = 0;
	newer->n_kafka = words_fold(words, n, KAFKA_PRODUCERS_MAX, idle_at);
	newer->kafka = must_realloc(newer->kafka, (n + 1) * sizeof(*newer->kafka));
	for (size_t i = 0; i < newer->n_kafka; i++)
		newer->kafka[i] = words[i].message;
	free(words);
}

/* Whether it goes on from there, or what lies between them is in a third one. */
static void span_fold(Frame__State *newer, const Frame__State *older)
{
	bool follows = older->next >= newer->since;
	if (follows && older->complete) {
		newer->complete = true;
		newer->whole = false;
		newer->n_incomplete = 0;
		newer->since = 0;
		return;
	}
	newer->whole |= older->complete || older->whole;
	if (follows && older->since < newer->since)
		newer->since = older->since;
}

const char *data_state_fold(Frame__State *newer, Frame__State *older)
{
	must(newer->log_id == older->log_id && data_state_compare(newer, older) >= 0);
	bool fits = older->next <= newer->next && older->last_append_ms <= newer->last_append_ms;
	if (fits && !newer->complete) {
		strings_fold(newer, older, newer->last_append_ms - PRODUCER_IDLE_MS);
		kafka_fold(newer, older, newer->last_append_ms - KAFKA_PRODUCER_IDLE_MS);
		span_fold(newer, older);
	}
	data_state_free(older);
	return fits ? NULL : "an older state entry reaches farther than a newer one";
}

static int compare_newest_first(const void *a, const void *b)
{
	return -data_state_compare(*(Frame__State *const *)a, *(Frame__State *const *)b);
}

const char *data_state_fold_all(Frame__State **entries, size_t n)
{
	const char *first = NULL;
	must(n > 0);
	qsort(entries, n, sizeof(*entries), compare_newest_first);
	for (size_t i = 1; i < n; i++) {
		const char *fault = data_state_fold(entries[0], entries[i]);
		first = first != NULL ? first : fault;
	}
	return first;
}
