/* SPDX-License-Identifier: Apache-2.0 */
#include "common/subscription.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/topic_name.h"

bool sub_id_is_legal(struct slice id)
{
	for (size_t i = 0; i < id.n; i++) {
		uint8_t c = id.p[i], letter = c | 0x20;
		if ((c < '0' || c > '9') && (letter < 'a' || letter > 'z') && memchr("._~-", c, 4) == NULL)
			return false;
	}
	return id.n > 0 && id.n <= SUB_ID_MAX;
}

/* ------------------------------------------------------------------ patterns */

/* Takes the first segment off. */
static struct slice take_segment(struct slice *path)
{
	const uint8_t *slash = path->n > 0 ? memchr(path->p, '/', path->n) : NULL;
	struct slice segment = slice_of(path->p, slash != NULL ? (size_t)(slash - path->p) : path->n);
	size_t used = segment.n + (slash != NULL);
	*path = slice_of(path->p + used, path->n - used);
	return segment;
}

/* A run of text with `*` in it; the last star that was passed is tried again further on. */
static bool segment_matches(struct slice pattern, struct slice text)
{
	size_t p = 0, t = 0, star = SIZE_MAX, from = 0;
	while (t < text.n) {
		if (p < pattern.n && pattern.p[p] == '*') {
			star = p++;
			from = t;
		} else if (p < pattern.n && pattern.p[p] == text.p[t]) {
			p++;
			t++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			t = ++from;
		} else {
			return false;
		}
	}
	while (p < pattern.n && pattern.p[p] == '*')
		p++;
	return p == pattern.n;
}

/* The same with segments for bytes and `**` for stars. */
bool sub_pattern_matches(struct slice pattern, struct slice path)
{
	struct slice again = { 0 }, from = { 0 };
	bool star = false;
	while (path.n > 0) {
		struct slice p = pattern, t = path;
		struct slice segment = take_segment(&p);
		if (slice_is(segment, "**")) {
			star = true;
			again = pattern = p;
			from = path;
		} else if (pattern.n > 0 && segment_matches(segment, take_segment(&t))) {
			pattern = p;
			path = t;
		} else if (star && from.n > 0) {
			take_segment(&from);
			pattern = again;
			path = from;
		} else {
			return false;
		}
	}
	return pattern.n == 0 || slice_is(pattern, "**");
}

struct slice sub_pattern_prefix(struct slice pattern)
{
	const uint8_t *star = pattern.n > 0 ? memchr(pattern.p, '*', pattern.n) : NULL;
	return star != NULL ? slice_of(pattern.p, (size_t)(star - pattern.p)) : pattern;
}

/* ------------------------------------------------------------------ links */

Sub__Link *sub_link_find(const Sub__Subscription *s, struct slice path)
{
	for (size_t i = 0; i < s->n_link; i++)
		if (slice_is(path, s->link[i]->path))
			return s->link[i];
	return NULL;
}

Sub__Link *sub_link_add(Sub__Subscription *s, struct slice path, bool named)
{
	if (s->n_link >= SUB_LINKS_MAX)
		return NULL;
	Sub__Link *link = must_calloc(1, sizeof(*link));
	sub__link__init(link);
	sub_set_string(&link->path, path);
	link->named = named;
	s->link = must_realloc(s->link, (s->n_link + 1) * sizeof(Sub__Link *));
	s->link[s->n_link++] = link;
	return link;
}

void sub_link_remove(Sub__Subscription *s, Sub__Link *link)
{
	size_t i = 0;
	while (s->link[i] != link)
		i++;
	s->n_link--;
	memmove(&s->link[i], &s->link[i + 1], (s->n_link - i) * sizeof(Sub__Link *));
	sub__link__free_unpacked(link, NULL);
}

bool sub_topic_is_new_match(const Sub__Subscription *s, const Ipc__Topic *topic)
{
	struct slice path = slice_of(topic->name + 1, strlen(topic->name) - 1);
	return topic->n_partitions == 1 && !topic_path_is_reserved(slice_str(topic->name)) &&
	       sub_pattern_matches(slice_str(s->pattern), path) && sub_link_find(s, path) == NULL;
}

void sub_refs_fill(const Sub__Subscription *s, Ipc__GetManyRequest *m)
{
	m->topic = must_calloc(s->n_link + 1, sizeof(*m->topic));
	m->n_topic = s->n_link;
	for (size_t i = 0; i < s->n_link; i++) {
		size_t n = strlen(s->link[i]->path);
		m->topic[i] = must_calloc(1, sizeof(Ipc__TopicRef));
		ipc__topic_ref__init(m->topic[i]);
		m->topic[i]->name = must_calloc(1, n + 2);
		m->topic[i]->name[0] = '/';
		memcpy(m->topic[i]->name + 1, s->link[i]->path, n);
	}
}

void sub_refs_free(Ipc__GetManyRequest *m)
{
	for (size_t i = 0; i < m->n_topic; i++) {
		free(m->topic[i]->name);
		free(m->topic[i]);
	}
	free(m->topic);
}

void sub_link_set_tail(Sub__Link *link, const Ipc__Topic *topic)
{
	link->exists = topic != NULL && topic->n_partitions == 1;
	link->tail = link->exists ? topic->partitions[0]->confirm : 0;
}

bool sub_is_pending(const Sub__Subscription *s)
{
	for (size_t i = 0; i < s->n_link; i++)
		if (s->link[i]->exists && s->link[i]->tail > s->link[i]->acked)
			return true;
	return false;
}

/* ------------------------------------------------------------------ storage */

void sub_set_string(char **field, struct slice value)
{
	if (*field != protobuf_c_empty_string)
		free(*field);
	*field = must_calloc(1, value.n + 1);
	if (value.n > 0)
		memcpy(*field, value.p, value.n);
}

int sub_pack(Sub__Subscription *s, struct buf *out)
{
	for (size_t i = 0; i < s->n_link; i++) {
		s->link[i]->tail = 0;
		s->link[i]->exists = false;
	}
	size_t n = sub__subscription__get_packed_size(s);
	uint8_t *p = n <= SUB_PACKED_MAX ? buf_reserve(out, n) : NULL;
	if (p == NULL)
		return -E2BIG;
	sub__subscription__pack(s, p);
	buf_commit(out, n);
	return 0;
}

/* ------------------------------------------------------------------ the wake */

void sub_wake(Sub__Subscription *s, struct env *env)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t random[16];
	char text[32];
	env_random(env, random, sizeof(random));
	for (size_t i = 0; i < sizeof(random); i++) {
		text[2 * i] = hex[random[i] >> 4];
		text[2 * i + 1] = hex[random[i] & 15];
	}
	sub_set_string(&s->wake_id, slice_of(text, sizeof(text)));
	s->generation++;
	s->phase = SUB__PHASE__WAKING;
	for (size_t i = 0; i < s->n_link; i++)
		s->link[i]->snapshot = s->link[i]->exists ? s->link[i]->tail : s->link[i]->acked;
}

static void token_hash(Sub__Subscription *s, struct slice token)
{
	if (s->token.len != SHA256_DIGEST_LENGTH) {
		free(s->token.data);
		s->token.data = must_calloc(1, SHA256_DIGEST_LENGTH);
		s->token.len = SHA256_DIGEST_LENGTH;
	}
	SHA256(token.p, token.n, s->token.data);
}

void sub_token(Sub__Subscription *s, struct env *env, char ret_token[static SUB_TOKEN_TEXT])
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint8_t random[43];
	env_random(env, random, sizeof(random));
	for (size_t i = 0; i < sizeof(random); i++)
		ret_token[i] = letters[random[i] & 63];
	ret_token[sizeof(random)] = '\0';
	token_hash(s, slice_str(ret_token));
}

bool sub_token_is_good(const Sub__Subscription *s, struct slice token)
{
	uint8_t hash[SHA256_DIGEST_LENGTH];
	SHA256(token.n > 0 ? token.p : (const uint8_t *)"", token.n, hash);
	return s->token.len == sizeof(hash) && CRYPTO_memcmp(hash, s->token.data, sizeof(hash)) == 0;
}

void sub_idle(Sub__Subscription *s)
{
	s->phase = SUB__PHASE__IDLE;
	s->attempts = 0;
	s->until_ms = 0;
	sub_set_string(&s->holder, slice_of(NULL, 0));
}

void sub_ack_snapshot(Sub__Subscription *s)
{
	for (size_t i = 0; i < s->n_link; i++)
		if (s->link[i]->snapshot > s->link[i]->acked)
			s->link[i]->acked = s->link[i]->snapshot;
}
