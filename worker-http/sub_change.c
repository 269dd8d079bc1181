/* SPDX-License-Identifier: Apache-2.0 */
#include "worker-http/sub_change.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/topic_name.h"
#include "worker-http/ds.h"
#include "worker-http/server.h"

#define TRIES_MAX 20
#define LIST_PAGE 1000

void change_free(void *state)
{
	struct change *c = state;
	sub_body_free(&c->body);
	if (c->s != NULL)
		sub__subscription__free_unpacked(c->s, NULL);
	free(c->path);
	free(c->list_after);
	free(c);
}

/* ------------------------------------------------------------------ storing */

static void on_stored(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct change *c = r->state;
	r->call = NULL;
	if (error->kind == PICO_CONFLICT && ++c->tries < TRIES_MAX)
		change_start(r);
	else if (error->kind != PICO_OK)
		ds_answer_error(r, error);
	else
		c->kind->answer(r, c);
}

static void store(struct request *r)
{
	struct change *c = r->state;
	Ipc__KvPutRequest m = IPC__KV_PUT_REQUEST__INIT;
	char key[sizeof(SUB_PREFIX) + SUB_ID_MAX];
	struct buf packed;
	buf_init(&packed, SUB_PACKED_MAX);
	snprintf(key, sizeof(key), SUB_PREFIX "%s", c->id);
	if (sub_pack(c->s, &packed) < 0) {
		sub_answer_error(r, 429, "TOO_MANY_STREAMS", "a subscription has no room for so many streams", NULL);
	} else {
		m.key = key;
		m.value = (ProtobufCBinaryData){ .data = buf_head(&packed), .len = buf_len(&packed) };
		m.check = true;
		m.version = c->version;
		m.deadline_ms = request_deadline(r);
		request_call(r, IPC_KV_PUT, &m.base, slice_of(NULL, 0), m.deadline_ms, on_stored);
	}
	buf_done(&packed);
}

static void judge(struct request *r)
{
	struct change *c = r->state;
	if (c->kind->judge(r, c))
		store(r);
}

/* ------------------------------------------------------------------ tails */

static void on_tails(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct change *c = r->state;
	const Ipc__GetManyAnswer *a = (const Ipc__GetManyAnswer *)m;
	r->call = NULL;
	if (error->kind != PICO_OK) {
		ds_answer_error(r, error);
		return;
	}
	for (size_t i = 0; i < a->n_one && i < c->s->n_link; i++)
		sub_link_set_tail(c->s->link[i], a->one[i]->topic);
	judge(r);
}

static void look_up_tails(struct request *r)
{
	struct change *c = r->state;
	Ipc__GetManyRequest m = IPC__GET_MANY_REQUEST__INIT;
	if (!c->kind->needs_tails || c->s->n_link == 0) {
		judge(r);
		return;
	}
	sub_refs_fill(c->s, &m);
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GET_MANY, &m.base, slice_of(NULL, 0), m.deadline_ms, on_tails);
	sub_refs_free(&m);
}

/* ------------------------------------------------------------------ what a pattern matches */

static void list_matches(struct request *r);

/* A stream that is there already is linked where it ends. False: there is no room. */
static bool link_topic(struct change *c, const Ipc__Topic *t)
{
	if (!sub_topic_is_new_match(c->s, t))
		return true;
	Sub__Link *link = sub_link_add(c->s, slice_str(t->name + 1), false);
	if (link != NULL)
		link->acked = t->partitions[0]->confirm;
	return link != NULL;
}

static void on_listed(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct change *c = r->state;
	const Ipc__ListAnswer *a = (const Ipc__ListAnswer *)m;
	bool room = true;
	r->call = NULL;
	if (error->kind != PICO_OK) {
		ds_answer_error(r, error);
		return;
	}
	for (size_t i = 0; i < a->n_topics && room; i++)
		room = link_topic(c, a->topics[i]);
	free(c->list_after);
	c->list_after = a->has_more && a->n_topics > 0 ? must_strdup(a->topics[a->n_topics - 1]->name) : NULL;
	if (!room)
		sub_answer_error(r, 429, "TOO_MANY_STREAMS", "the pattern matches too many streams", NULL);
	else if (c->list_after != NULL)
		list_matches(r);
	else
		look_up_tails(r);
}

static void list_matches(struct request *r)
{
	struct change *c = r->state;
	Ipc__ListRequest m = IPC__LIST_REQUEST__INIT;
	struct slice prefix = sub_pattern_prefix(slice_str(c->s->pattern));
	char text[TOPIC_PATH_MAX + 2];
	snprintf(text, sizeof(text), "/%.*s", (int)prefix.n, (const char *)prefix.p);
	m.prefix = text;
	m.start_after = c->list_after != NULL ? c->list_after : "";
	m.limit = LIST_PAGE;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_LIST, &m.base, slice_of(NULL, 0), m.deadline_ms, on_listed);
}

/* ------------------------------------------------------------------ reading */

static void begin(struct request *r)
{
	struct change *c = r->state;
	if (!c->kind->begin(r, c))
		return;
	if (c->version == 0 && c->s->pattern[0] != '\0')
		list_matches(r);
	else
		look_up_tails(r);
}

static void on_read(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct change *c = r->state;
	const Ipc__KvGetAnswer *a = (const Ipc__KvGetAnswer *)m;
	r->call = NULL;
	if (c->s != NULL)
		sub__subscription__free_unpacked(c->s, NULL);
	c->s = NULL;
	c->version = 0;
	if (error->kind == PICO_OK) {
		c->s = sub__subscription__unpack(NULL, a->entry->value.len, a->entry->value.data);
		c->version = a->entry->version;
	}
	if (error->kind == PICO_NOT_FOUND && !c->kind->creates)
		sub_answer_error(r, 404, "NOT_FOUND", "no such subscription", NULL);
	else if (error->kind != PICO_OK && error->kind != PICO_NOT_FOUND)
		ds_answer_error(r, error);
	else if (error->kind == PICO_OK && c->s == NULL)
		sub_answer_error(r, 500, "INTERNAL", "what is stored of it cannot be read", NULL);
	else
		begin(r);
}

void change_call_get(struct request *r, const char *key, topics_cb *cb)
{
	Ipc__KvGetRequest m = IPC__KV_GET_REQUEST__INIT;
	m.key = (char *)key;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_KV_GET, &m.base, slice_of(NULL, 0), m.deadline_ms, cb);
}

void change_start(struct request *r)
{
	struct change *c = r->state;
	char key[sizeof(SUB_PREFIX) + SUB_ID_MAX];
	snprintf(key, sizeof(key), SUB_PREFIX "%s", c->id);
	change_call_get(r, key, on_read);
}

bool change_always(struct request *r, struct change *c)
{
	return true;
}

void change_answer_done(struct request *r, struct change *c)
{
	answer_send_empty(r, 204);
}
