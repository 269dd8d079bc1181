/* SPDX-License-Identifier: Apache-2.0
 *
 * The fixture's commands of data objects, trims and expiry, and forks at random (meta_fixture.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/object_message.h"
#include "storaged/meta/state_fork.h"
#include "t/unit/meta_fixture.h"

struct commit_message {
	Meta__CommitObjects m;
	Meta__CommitObjects__Wal wal;
	struct object_message add[8];
	Meta__ObjectRow *add_pointer[8];
	Meta__ObjectId remove[8], *remove_pointer[8];
};

static void commit_fill(struct commit_message *x, const struct fixture *f, const struct commit_args *a)
{
	meta__commit_objects__init(&x->m);
	meta__commit_objects__wal__init(&x->wal);
	x->m.node = a->node != 0 ? a->node : f->node;
	x->m.session = f->session;
	x->wal.node = a->wal.node;
	x->wal.session = a->wal.session;
	x->wal.from = a->wal.from;
	x->wal.to = a->wal.to;
	x->m.wal = a->has_wal ? &x->wal : NULL;
	x->m.add = x->add_pointer;
	x->m.remove = x->remove_pointer;
	for (; x->m.n_add < 8 && a->add[x->m.n_add].bytes != 0; x->m.n_add++) {
		object_message_fill(&x->add[x->m.n_add], &a->add[x->m.n_add]);
		x->add_pointer[x->m.n_add] = &x->add[x->m.n_add].m;
	}
	for (; x->m.n_remove < 8 && a->remove[x->m.n_remove].node != 0; x->m.n_remove++) {
		object_id_fill(&x->remove[x->m.n_remove], a->remove[x->m.n_remove]);
		x->remove_pointer[x->m.n_remove] = &x->remove[x->m.n_remove];
	}
}

uint32_t fixture_commit(struct fixture *f, const struct commit_args *a)
{
	struct commit_message x;
	commit_fill(&x, f, a);
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_COMMIT_OBJECTS;
	c.commit_objects = &x.m;
	return fixture_run(f, &c);
}

uint32_t fixture_check_commit(struct fixture *f, const struct commit_args *a)
{
	struct commit_message x;
	struct pico_error e;
	commit_fill(&x, f, a);
	state_check_commit(f->s, &x.m, &e);
	memcpy(f->message, e.message, sizeof(e.message));
	return e.kind;
}

uint32_t fixture_objects_deleted(struct fixture *f, const struct object_id *id, size_t n)
{
	Meta__ObjectId m[8], *pointer[8];
	must(n <= 8);
	Meta__ObjectsDeleted d = META__OBJECTS_DELETED__INIT;
	for (size_t i = 0; i < n; i++) {
		object_id_fill(&m[i], id[i]);
		pointer[i] = &m[i];
	}
	d.id = pointer;
	d.n_id = n;
	d.node = f->node;
	d.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_OBJECTS_DELETED;
	c.objects_deleted = &d;
	return fixture_run(f, &c);
}

uint32_t fixture_trim(struct fixture *f, const uint64_t *log_id, const uint64_t *start, size_t n)
{
	Meta__TrimMany__Trim m[8], *pointer[8];
	must(n <= 8);
	Meta__TrimMany t = META__TRIM_MANY__INIT;
	for (size_t i = 0; i < n; i++) {
		meta__trim_many__trim__init(&m[i]);
		m[i].log_id = log_id[i];
		m[i].start = start[i];
		pointer[i] = &m[i];
	}
	t.trim = pointer;
	t.n_trim = n;
	t.node = f->node;
	t.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_TRIM_MANY;
	c.trim_many = &t;
	return fixture_run(f, &c);
}

uint32_t fixture_expire(struct fixture *f, const uint8_t id[16], int64_t expires_at_ms)
{
	Meta__ExpireTopic x = META__EXPIRE_TOPIC__INIT;
	x.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	x.expires_at_ms = expires_at_ms;
	x.node = f->node;
	x.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_EXPIRE_TOPIC;
	c.expire_topic = &x;
	return fixture_run(f, &c);
}

uint32_t fixture_touch(struct fixture *f, const uint8_t id[16], int64_t expires_at_ms)
{
	Meta__TouchExpiry x = META__TOUCH_EXPIRY__INIT;
	x.topic_id = (ProtobufCBinaryData){ .data = (uint8_t *)id, .len = 16 };
	x.expires_at_ms = expires_at_ms;
	x.node = f->node;
	x.session = f->session;
	Meta__Command c = META__COMMAND__INIT;
	c.kind_case = META__COMMAND__KIND_TOUCH_EXPIRY;
	c.touch_expiry = &x;
	return fixture_run(f, &c);
}

static unsigned random_below(unsigned *seed, unsigned n)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 8) % n;
}

void fixture_random_objects(struct fixture *f, unsigned *seed)
{
	struct commit_args a = { .has_wal = random_below(seed, 2) == 0 };
	const struct state_session *w = state_session_next(f->s, 1, random_below(seed, 3));
	if (w != NULL) {
		a.wal.node = w->node;
		a.wal.session = w->session;
		a.wal.from = w->watermark + (random_below(seed, 5) == 0);
		a.wal.to = a.wal.from + random_below(seed, 4);
	}
	for (unsigned i = 0, n = random_below(seed, 4); i < n; i++) {
		unsigned level = random_below(seed, 4), log = random_below(seed, 20);
		a.add[i] = (struct object_row){
			.id = { f->node, f->session, random_below(seed, 60) }, .origin = 1, .level = level, .first_log = log,
			.last_log = log + (level == DATA_LEVEL_SINGLE ? 0 : random_below(seed, 3)), .bytes = 1 + log,
			.end_offset = level == DATA_LEVEL_SINGLE,
		};
	}
	struct object_id known[8];
	unsigned n_known = 0;
	const struct object_row *row = catalogue_next(state_catalogue(f->s), NULL);
	for (; row != NULL && n_known < 3; row = catalogue_next(state_catalogue(f->s), &row->id))
		if (random_below(seed, 4) == 0)
			known[n_known++] = row->id;
	unsigned what = random_below(seed, 4);
	if (what == 0) {
		fixture_objects_deleted(f, known, n_known);
	} else if (what == 1) {
		uint64_t log_id[2] = { 1 + random_below(seed, 50), 1 + random_below(seed, 50) };
		uint64_t start[2] = { random_below(seed, 100), random_below(seed, 100) };
		fixture_trim(f, log_id, start, 2);
	} else {
		memcpy(a.remove, known, n_known * sizeof(known[0]));
		fixture_commit(f, &a);
	}
}

uint32_t fixture_put_kv(struct fixture *f, const char *key, size_t n, uint64_t version)
{
	Meta__PutKv x = META__PUT_KV__INIT;
	Meta__Command c = META__COMMAND__INIT;
	uint8_t *value = must_calloc(1, n + 1);
	memset(value, 'v', n);
	x.key = (char *)key;
	x.value = (ProtobufCBinaryData){ .len = n, .data = value };
	x.check = version != UINT64_MAX;
	x.version = version;
	x.node = f->node;
	x.session = f->session;
	c.kind_case = META__COMMAND__KIND_PUT_KV;
	c.put_kv = &x;
	uint32_t error = fixture_run(f, &c);
	free(value);
	return error;
}

uint32_t fixture_delete_kv(struct fixture *f, const char *key, uint64_t version)
{
	Meta__DeleteKv x = META__DELETE_KV__INIT;
	Meta__Command c = META__COMMAND__INIT;
	x.key = (char *)key;
	x.check = version != UINT64_MAX;
	x.version = version;
	x.node = f->node;
	x.session = f->session;
	c.kind_case = META__COMMAND__KIND_DELETE_KV;
	c.delete_kv = &x;
	return fixture_run(f, &c);
}

void fixture_random_kv(struct fixture *f, unsigned *seed)
{
	char key[16];
	snprintf(key, sizeof(key), "%c/%u", "ab"[random_below(seed, 2)], random_below(seed, 12));
	const struct kv_entry *e = kv_find(state_kv(f->s), slice_str(key));
	uint64_t version = random_below(seed, 3) > 0 ? UINT64_MAX : e != NULL ? e->version : random_below(seed, 2);
	if (random_below(seed, 3) == 0)
		fixture_delete_kv(f, key, version);
	else
		fixture_put_kv(f, key, random_below(seed, 40), version);
}

static const struct state_topic *some_topic(struct fixture *f, unsigned *seed)
{
	const struct state_topic *t = NULL, *x = state_topic_next_any(f->s, slice_of("", 0));
	for (unsigned n = random_below(seed, 30); x != NULL && n > 0; n--) {
		t = x;
		x = state_topic_next_any(f->s, slice_str(x->name));
	}
	return t;
}

void fixture_random_fork(struct fixture *f, unsigned *seed)
{
	const struct state_topic *t = some_topic(f, seed);
	uint8_t id[16] = { 9 };
	char name[32];
	snprintf(name, sizeof(name), "/f/%u", random_below(seed, 20));
	struct create_args a = { .name = name, .source = id, .n_points = 1, .ttl = random_below(seed, 2) * 60 };
	if (t != NULL) {
		memcpy(id, t->id, 16);
		a.n_points = t->n_partitions <= 4 ? t->n_partitions : 4;
		a.type = t->content_type;
	}
	for (size_t i = 0; i < a.n_points; i++) {
		a.offset[i] = random_below(seed, 100);
		a.parent_end[i] = a.offset[i] - (i == 0 && random_below(seed, 4) == 0 ? a.offset[i] / 2 : 0);
		a.initial |= a.parent_end[i] < a.offset[i];
	}
	fixture_create(f, &a);
}
