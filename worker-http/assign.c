/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/assign.h"

#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"

#define NAMES_MAX (64u << 20)           /* of all members: far above what a group may hold */

/* One member wants one stream. */
struct want {
	size_t at, n;                   /* its name, in `names` */
	size_t member;
};

struct stream {
	size_t first, n;                /* of the wants: who wants it */
	size_t owner;                   /* member */
};

struct deal {
	struct buf names;
	struct want *want;
	size_t n_wants, capacity;
	struct stream *stream;
	size_t n_streams;
	size_t *load;                   /* streams a member has got */
};

static struct slice name_of(const struct deal *d, const struct want *w)
{
	return slice_of(buf_head(&d->names) + w->at, w->n);
}

/* ------------------------------------------------------------------ what is wanted */

static bool want_add(struct deal *d, struct slice span, size_t member)
{
	size_t at = buf_len(&d->names);
	if (json_string(span, &d->names) < 0)
		return false;
	if (d->n_wants == d->capacity) {
		d->capacity = d->capacity * 2 + 16;
		d->want = must_realloc(d->want, d->capacity * sizeof(*d->want));
	}
	d->want[d->n_wants++] = (struct want){ .at = at, .n = buf_len(&d->names) - at, .member = member };
	return true;
}

/* False, and nothing is added: no array of strings. */
static bool take_names(struct deal *d, struct slice json, size_t member)
{
	struct json_scan j;
	enum json_token token;
	size_t before = d->n_wants;
	json_scan_init(&j, json);
	if (json_next(&j) != JSON_ARRAY)
		return false;
	while ((token = json_next(&j)) == JSON_STRING && want_add(d, j.span, member))
		;
	if (token == JSON_ARRAY_END && json_next(&j) == JSON_END)
		return true;
	d->n_wants = before;
	return false;
}

static int by_name(const void *a, const void *b, void *deal)
{
	const struct want *x = a, *y = b;
	int order = slice_cmp(name_of(deal, x), name_of(deal, y));
	return order != 0 ? order : (x->member > y->member) - (x->member < y->member);
}

/* In order of name and member, each pair once. */
static void order_wants(struct deal *d)
{
	size_t kept = 0;
	if (d->n_wants > 0)
		qsort_r(d->want, d->n_wants, sizeof(*d->want), by_name, d);
	for (size_t i = 0; i < d->n_wants; i++)
		if (kept == 0 || by_name(&d->want[kept - 1], &d->want[i], d) != 0)
			d->want[kept++] = d->want[i];
	d->n_wants = kept;
}

/* ------------------------------------------------------------------ who gets it */

static void find_streams(struct deal *d)
{
	d->stream = must_calloc(d->n_wants + 1, sizeof(*d->stream));
	for (size_t i = 0; i < d->n_wants; i++) {
		struct stream *last = &d->stream[d->n_streams > 0 ? d->n_streams - 1 : 0];
		if (d->n_streams == 0 || slice_cmp(name_of(d, &d->want[last->first]), name_of(d, &d->want[i])) != 0)
			d->stream[d->n_streams++].first = i;
		d->stream[d->n_streams - 1].n++;
	}
}

/* The wants stand in order of name, so their places do. */
static int by_subscribers(const void *a, const void *b)
{
	const struct stream *x = *(struct stream *const *)a, *y = *(struct stream *const *)b;
	return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : (x->first > y->first) - (x->first < y->first);
}

/* Members stand in order of id, so the first of equals has the lowest. */
static void deal_one(struct deal *d, struct stream *s)
{
	s->owner = d->want[s->first].member;
	for (size_t i = 1; i < s->n; i++) {
		size_t member = d->want[s->first + i].member;
		if (d->load[member] < d->load[s->owner])
			s->owner = member;
	}
	d->load[s->owner]++;
}

static void deal_streams(struct deal *d, size_t n_members)
{
	struct stream **turn = must_calloc(d->n_streams + 1, sizeof(struct stream *));
	d->load = must_calloc(n_members + 1, sizeof(*d->load));
	for (size_t i = 0; i < d->n_streams; i++)
		turn[i] = &d->stream[i];
	qsort(turn, d->n_streams, sizeof(struct stream *), by_subscribers);
	for (size_t i = 0; i < d->n_streams; i++)
		deal_one(d, turn[i]);
	free(turn);
}

static void put_name(const struct deal *d, const struct stream *s, struct buf *out)
{
	buf_put_u8(out, buf_len(out) == 0 ? '[' : ',');
	json_put_string(out, name_of(d, &d->want[s->first]));
}

static void put_end(struct buf *out)
{
	buf_put_str(out, buf_len(out) == 0 ? "[]" : "]");
}

static void deal_done(struct deal *d)
{
	buf_done(&d->names);
	free(d->want);
	free(d->stream);
	free(d->load);
}

static int by_id(const void *a, const void *b)
{
	return slice_cmp(((const struct assign_member *)a)->id, ((const struct assign_member *)b)->id);
}

void assign_streams(struct assign_member *members, size_t n)
{
	struct deal d = { 0 };
	buf_init(&d.names, NAMES_MAX);
	if (n > 0)
		qsort(members, n, sizeof(*members), by_id);
	for (size_t i = 0; i < n; i++)
		take_names(&d, members[i].subscription, i);
	order_wants(&d);
	find_streams(&d);
	deal_streams(&d, n);
	for (size_t i = 0; i < n; i++)
		buf_init(&members[i].assignment, NAMES_MAX);
	for (size_t i = 0; i < d.n_streams; i++)
		put_name(&d, &d.stream[i], &members[d.stream[i].owner].assignment);
	for (size_t i = 0; i < n; i++)
		put_end(&members[i].assignment);
	deal_done(&d);
}

bool assign_normalize(struct slice json, struct buf *out)
{
	struct deal d = { 0 };
	buf_init(&d.names, NAMES_MAX);
	bool good = take_names(&d, json, 0);
	order_wants(&d);
	find_streams(&d);
	for (size_t i = 0; good && i < d.n_streams; i++)
		put_name(&d, &d.stream[i], out);
	if (good)
		put_end(out);
	deal_done(&d);
	return good;
}
