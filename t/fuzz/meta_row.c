/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as rows of the command log on a small cluster, and as entities in the place of a snapshot's. A state that
 * rows or a snapshot made has a snapshot that loads, and the loaded one has the same; another that is fed the same rows
 * is the same. Input: bytes {what, length as two bytes, payload} again and again; what: 0 to 3 a row of that proposer, else
 * an entity (what - 4: which one it replaces; beyond those a new one).
 */
#include <stdlib.h>

#include "common/must.h"
#include "storaged/meta/snapshot.h"
#include "storaged/meta/state_fork.h"
#include "t/fuzz/fuzz.h"

#define ROW_KINDS 4

static const struct { uint32_t node; uint64_t session; } proposers[ROW_KINDS] = { { 1, 2 }, { 2, 1 }, { 1, 1 }, { 1, 0 } };

struct entities {
	struct sql_entity *e;           /* owned, as are its bytes */
	size_t n, capacity;
};

/* ------------------------------------------------------------------ snapshots */

static void keep(void *arg, const struct sql_entity *e)
{
	struct entities *k = arg;
	must(e->payload.p != NULL);
	if (k->n == k->capacity) {
		k->capacity = k->capacity == 0 ? 16 : 2 * k->capacity;
		k->e = must_realloc(k->e, k->capacity * sizeof(k->e[0]));
	}
	k->e[k->n] = *e;
	k->e[k->n].key.p = must_memdup(e->key.p, e->key.n);
	k->e[k->n++].payload.p = must_memdup(e->payload.p, e->payload.n);
}

static struct entities *snapshot(struct state *s)
{
	struct entities *k = must_calloc(1, sizeof(*k));
	state_covered(s, state_idx(s));
	state_snapshot_begin(s, 0, keep, k);
	while (state_snapshot_step(s, 3))
		;
	state_snapshot_end(s);
	return k;
}

static void entities_free(struct entities *k)
{
	for (size_t i = 0; i < k->n; i++) {
		free((void *)k->e[i].key.p);
		free((void *)k->e[i].payload.p);
	}
	free(k->e);
	free(k);
}

static void must_be_same(const struct entities *a, const struct entities *b)
{
	must(a->n == b->n);
	for (size_t i = 0; i < a->n; i++) {
		size_t k = 0;
		while (k < b->n && !slice_eq(a->e[i].key, b->e[k].key))
			k++;
		must(k < b->n && a->e[i].idx == b->e[k].idx && slice_eq(a->e[i].payload, b->e[k].payload));
	}
}

/* It comes back as it is. */
static void check_state(struct state *s)
{
	struct entities *a = snapshot(s);
	struct state *loaded = state_new();
	must(state_load(loaded, state_idx(s), a->e, a->n) == 0);
	struct entities *b = snapshot(loaded);
	must_be_same(a, b);
	must(state_n_topics(s) == state_n_topics(loaded));
	must(catalogue_bytes(state_catalogue(s)) == catalogue_bytes(state_catalogue(loaded)));
	const struct state_topic *t = state_topic_next_any(s, slice_of("", 0));
	for (; t != NULL; t = state_topic_next_any(s, slice_str(t->name))) {
		uint64_t log = t->partition[0].log_id;
		must(state_log_living_start(s, log) == state_log_living_start(loaded, log));
		must(t->soft_deleted || state_topic_by_id(loaded, t->id) != NULL);
	}
	state_free(loaded);
	entities_free(a);
	entities_free(b);
}

/* ------------------------------------------------------------------ rows */

/* Both take the row alike. */
static void apply(struct state *s, struct state *twin, unsigned what, struct slice payload)
{
	struct sql_row row = {
		.idx = state_idx(s) + 1, .node = proposers[what].node, .session = proposers[what].session,
		.proposal = state_idx(s) + 1, .payload = payload, .chain = state_chain_next(state_chain(s), payload),
	};
	Meta__Result *a = NULL, *b = NULL;
	int err = state_apply(s, &row, &a), twin_err = state_apply(twin, &row, &b);
	must(err == twin_err);
	if (err != 0)
		return;
	must(a->n_one == b->n_one && meta__result__get_packed_size(a) == meta__result__get_packed_size(b));
	meta__result__free_unpacked(a, NULL);
	meta__result__free_unpacked(b, NULL);
}

static void apply_one(struct state *s, struct state *twin, unsigned what, Meta__Command *command)
{
	Meta__Row row = META__ROW__INIT;
	uint8_t bytes[1024];
	row.commands = &command;
	row.n_commands = 1;
	row.now_ms = 1000;
	must(meta__row__get_packed_size(&row) <= sizeof(bytes));
	apply(s, twin, what, slice_of(bytes, meta__row__pack(&row, bytes)));
}

static void register_node(struct state *s, struct state *twin, uint32_t node, uint8_t boot)
{
	Meta__Command c = META__COMMAND__INIT;
	Meta__RegisterNode r = META__REGISTER_NODE__INIT;
	uint8_t id[16] = { boot };
	c.kind_case = META__COMMAND__KIND_REGISTER_NODE;
	c.register_node = &r;
	r.node = node;
	r.boot_id = r.instance = (ProtobufCBinaryData){ .data = id, .len = sizeof(id) };
	r.slots = 1;
	Meta__Row row = META__ROW__INIT;
	Meta__Command *pointer = &c;
	uint8_t bytes[256];
	row.commands = &pointer;
	row.n_commands = 1;
	struct sql_row sql = { .idx = state_idx(s) + 1, .node = node, .payload = slice_of(bytes, meta__row__pack(&row, bytes)) };
	Meta__Result *a, *b;
	must(state_apply(s, &sql, &a) == 0 && state_apply(twin, &sql, &b) == 0);
	meta__result__free_unpacked(a, NULL);
	meta__result__free_unpacked(b, NULL);
}

static void create(struct state *s, struct state *twin, uint8_t id_byte, const char *name, Meta__Fork *fork)
{
	Meta__Command c = META__COMMAND__INIT;
	Meta__CreateTopic create = META__CREATE_TOPIC__INIT;
	uint8_t id[16];
	memset(id, id_byte, sizeof(id));
	c.kind_case = META__COMMAND__KIND_CREATE_TOPIC;
	c.create_topic = &create;
	create.topic_id = (ProtobufCBinaryData){ .data = id, .len = sizeof(id) };
	create.name = (char *)name;
	create.content_type = (char *)"text/plain";
	create.ttl_seconds = fork == NULL ? 60 : 0;
	create.node = 1;
	create.session = 2;
	create.fork = fork;
	uint32_t owner = 1;
	create.owners = &owner;
	create.n_owners = fork == NULL;
	apply_one(s, twin, 0, &c);
}

static void commit(struct state *s, struct state *twin)
{
	Meta__Command c = META__COMMAND__INIT;
	Meta__CommitObjects m = META__COMMIT_OBJECTS__INIT;
	Meta__ObjectId id = META__OBJECT_ID__INIT;
	Meta__ObjectRow row = META__OBJECT_ROW__INIT, *add = &row;
	c.kind_case = META__COMMAND__KIND_COMMIT_OBJECTS;
	c.commit_objects = &m;
	m.node = id.node = row.origin = 1;
	m.session = id.session = 2;
	row.id = &id;
	row.first_log = 1;
	row.last_log = 2;
	m.add = &add;
	m.n_add = 1;
	apply_one(s, twin, 0, &c);
}

/* Node 1: session 1 ENDED, 2 ACTIVE; node 2: session 1 ACTIVE. Topic A.. at /a, its fork B.. at /b, object 1/2/0. */
static void world(struct state *s, struct state *twin)
{
	Meta__Command c = META__COMMAND__INIT;
	Meta__InitCluster init = META__INIT_CLUSTER__INIT;
	uint8_t id[16];
	memset(id, 'A', sizeof(id));
	c.kind_case = META__COMMAND__KIND_INIT_CLUSTER;
	c.init_cluster = &init;
	init.uuid = (ProtobufCBinaryData){ .data = id, .len = sizeof(id) };
	init.format = STATE_FORMAT;
	apply_one(s, twin, 3, &c);
	register_node(s, twin, 1, 1);
	register_node(s, twin, 1, 2);
	register_node(s, twin, 2, 3);
	create(s, twin, 'A', "/a", NULL);
	Meta__Fork fork = META__FORK__INIT;
	Meta__Fork__Point point = META__FORK__POINT__INIT, *points = &point;
	fork.source = init.uuid;
	point.offset = point.parent_end = 10;
	fork.points = &points;
	fork.n_points = 1;
	create(s, twin, 'B', "/b", &fork);
	commit(s, twin);
	must(state_n_topics(s) == 2 && catalogue_count(state_catalogue(s)) == 1);
}

/* ------------------------------------------------------------------ entities */

static const char *const new_keys[] = { "topic/43", "object/1/2/9", "session/1/3", "node/3", "other/1" };
#define NEW_KEYS (sizeof(new_keys) / sizeof(new_keys[0]))

static void set_entity(struct entities *k, unsigned which, uint64_t idx, struct slice payload)
{
	which %= (unsigned)(k->n + NEW_KEYS);
	if (which >= k->n) {
		struct sql_entity e = { .key = slice_str(new_keys[which - k->n]), .idx = idx, .payload = payload };
		keep(k, &e);
		return;
	}
	free((void *)k->e[which].payload.p);
	k->e[which].payload = slice_of(must_memdup(payload.p, payload.n), payload.n);
}

static void check_entities(const struct entities *k, uint64_t idx)
{
	struct state *s = state_new(), *twin = state_new();
	if (state_load(s, idx, k->e, k->n) == 0) {
		must(state_load(twin, idx, k->e, k->n) == 0);
		check_state(s);
		for (unsigned i = 0; i < ROW_KINDS; i++) {      /* and goes on */
			Meta__Command c = META__COMMAND__INIT;
			Meta__Noop noop = META__NOOP__INIT;
			c.kind_case = META__COMMAND__KIND_NOOP;
			c.noop = &noop;
			noop.node = proposers[i].node;
			noop.session = proposers[i].session;
			apply_one(s, twin, i, &c);
		}
		create(s, twin, 'C', "/c", NULL);
		check_state(s);
	}
	state_free(s);
	state_free(twin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state *s = state_new(), *twin = state_new();
	world(s, twin);
	struct entities *k = NULL;
	while (size >= 3) {
		size_t n = (size_t)data[1] | (size_t)data[2] << 8;
		n = n < size - 3 ? n : size - 3;
		struct slice payload = slice_of(data + 3, n);
		if (data[0] < ROW_KINDS) {
			apply(s, twin, data[0], payload);
		} else {
			if (k == NULL)
				k = snapshot(s);
			set_entity(k, data[0] - ROW_KINDS, state_idx(s), payload);
		}
		data += 3 + n;
		size -= 3 + n;
	}
	check_state(s);
	if (k != NULL) {
		check_entities(k, state_idx(s));
		entities_free(k);
	}
	struct entities *a = snapshot(s), *b = snapshot(twin);
	must_be_same(a, b);
	entities_free(a);
	entities_free(b);
	state_free(s);
	state_free(twin);
	return 0;
}
