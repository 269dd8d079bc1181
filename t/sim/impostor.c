/* SPDX-License-Identifier: Apache-2.0
 *
 * Another node in the command log, which no process stands behind: rows that a cluster's other nodes may write, rows of a
 * node that has no idea, and rows of one that lies. It has no log, and wants none. What it may do takes effect: it
 * registers, again and again, and adds and removes objects of its own, which hold nothing. All else is refused:
 * somebody else's WAL, somebody else's names, rows that make no sense, objects that are in use. That it is refused shows
 * in the logs, for what it would take is there.
 */
#include "t/sim/run.h"

#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "storaged/data/data_builder.h"
#include "storaged/data/data_state.h"
#include "storaged/engine/wal_format.h"
#include "storaged/meta/object_message.h"
#include "storaged/op.h"

#define NODE 2u
#define ROWS_MAX 4u
#define NOBODYS 999999u                 /* a number that no object has */

/* A commit being thought up. */
struct lie {
	Meta__CommitObjects m;
	Meta__CommitObjects__Wal wal;
	struct object_message row[ROWS_MAX];
	Meta__ObjectRow *add[ROWS_MAX];
	Meta__ObjectId gone[ROWS_MAX], *remove[ROWS_MAX];
};

/* False: not taken, the database is away. */
static bool propose(struct run *r, uint64_t session, Meta__Command *command)
{
	const struct sql_row *last = sim_db_last(&r->db);
	Meta__Row row = META__ROW__INIT;
	row.commands = &command;
	row.n_commands = 1;
	if (last == NULL)
		return false;
	size_t n = meta__row__get_packed_size(&row);
	uint8_t *bytes = must_calloc(1, n + 1);
	meta__row__pack(&row, bytes);
	sim_db_push(&r->db, &(struct sql_row){
		.idx = last->idx + 1, .node = NODE, .session = session, .proposal = session == 0 ? 0 : ++r->impostor.proposal,
		.chain = state_chain_next(last->chain, slice_of(bytes, n)), .payload = slice_of(bytes, n),
	});
	r->sim.faults[SIM_FOREIGN_ROW]++;
	free(bytes);
	return true;
}

/* A session of it has an open object, and no more. */
static void put_open(struct run *r)
{
	struct wal_header h = { .kind = WAL_OPEN, .node = NODE, .session = r->impostor.session, .put_id = { 7 } };
	uint8_t object[WAL_HEADER];
	char key[WAL_KEY_MAX];
	wal_header_encode(object, &h);
	wal_key(key, NODE, h.session, 0);
	sim_bucket_add(r->two_buckets ? &r->wal_bucket : &r->bucket, key, slice_of(object, sizeof(object)));
}

static void propose_register(struct run *r)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__RegisterNode m = META__REGISTER_NODE__INIT;
	uint8_t boot_id[16] = { 0 }, instance[16] = { 9 };
	boot_id[0] = (uint8_t)(r->impostor.session + 1);
	m.node = NODE;
	m.boot_id = (ProtobufCBinaryData){ .len = 16, .data = boot_id };
	m.instance = (ProtobufCBinaryData){ .len = 16, .data = instance };
	m.host = (char *)"elsewhere";
	command.kind_case = META__COMMAND__KIND_REGISTER_NODE;
	command.register_node = &m;
	if (!propose(r, 0, &command))
		return;
	r->impostor.session++;
	r->impostor.proposal = 0;
	put_open(r);
}

/* ---------------------------------------------------------------------- commits */

static struct object_id own_id(const struct run *r, uint64_t number)
{
	return (struct object_id){ .node = NODE, .session = r->impostor.session, .number = number };
}

static void lie_add(struct lie *l, const struct object_row *row)
{
	size_t i = l->m.n_add++;
	object_message_fill(&l->row[i], row);
	l->add[i] = &l->row[i].m;
}

static void lie_remove(struct lie *l, struct object_id id)
{
	size_t i = l->m.n_remove++;
	object_id_fill(&l->gone[i], id);
	l->remove[i] = &l->gone[i];
}

static void lie_begin(struct run *r, struct lie *l)
{
	memset(l, 0, sizeof(*l));
	meta__commit_objects__init(&l->m);
	l->m.node = NODE;
	l->m.session = r->impostor.session;
	l->m.add = l->add;
	l->m.remove = l->remove;
}

static void lie_propose(struct run *r, struct lie *l)
{
	Meta__Command command = META__COMMAND__INIT;
	command.kind_case = META__COMMAND__KIND_COMMIT_OBJECTS;
	command.commit_objects = &l->m;
	propose(r, r->impostor.session, &command);
}

/* Any object that a node that lives knows of; false: there is none. */
static bool known_object(struct run *r, struct object_row *ret_row)
{
	const struct sim_node *n = nodes_serving(r);
	const struct catalogue *c = n != NULL ? state_catalogue(meta_state(n->node->meta)) : NULL;
	size_t count = c != NULL ? catalogue_count(c) : 0;
	if (count == 0)
		return false;
	const struct object_row *row = NULL;
	for (uint64_t i = 1 + sim_below(&r->sim, count); i > 0; i--)
		row = catalogue_next(c, row != NULL ? &row->id : NULL);
	*ret_row = *row;
	return true;
}

/* Good and bad ones, of few numbers, so that they meet. */
static struct object_row any_row(struct run *r)
{
	struct sim *s = &r->sim;
	struct object_row row = {
		.id = own_id(r, 1 + sim_below(s, 5)), .origin = sim_chance(s, 900) ? 1 + (uint32_t)sim_below(s, 2) : 3,
		.level = (uint32_t)sim_below(s, sim_chance(s, 50) ? 5 : 4), .first_log = 1 + sim_below(s, 4), .bytes = 1000,
	};
	row.last_log = row.level == DATA_LEVEL_SINGLE ? row.first_log : row.first_log + sim_below(s, 3);
	if (row.level == DATA_LEVEL_SINGLE)
		row.end_offset = 1 + (row.first_offset = sim_below(s, 3)) + sim_below(s, 3);
	if (sim_chance(s, 50))
		row.id.session++;
	if (sim_chance(s, 50))
		row.last_log = 0;
	if (sim_chance(s, 100))
		row.run = 1 + sim_below(s, 50);
	return row;
}

static void any_wal(struct run *r, struct lie *l)
{
	struct sim *s = &r->sim;
	meta__commit_objects__wal__init(&l->wal);
	l->wal.node = 1 + (uint32_t)sim_below(s, 2);
	l->wal.session = l->wal.node == NODE && sim_chance(s, 700) ? 1 + sim_below(s, r->impostor.session)
								   : 1 + sim_below(s, 12);
	l->wal.from = sim_chance(s, 700) ? 0 : sim_below(s, 3);
	l->wal.to = sim_below(s, 4);
	l->m.wal = &l->wal;
}

/* Something takes the place of an object that is in use; never the whole of it is as it should be. */
static void usurp(struct run *r, struct lie *l)
{
	struct sim *s = &r->sim;
	struct object_row row;
	if (!known_object(r, &row))
		return;
	lie_remove(l, row.id);
	row.id = own_id(r, 1);
	row.origin = sim_chance(s, 700) ? row.origin : NODE;
	row.level = sim_chance(s, 700) ? row.level : (uint32_t)sim_below(s, 3);
	row.run += sim_below(s, 2);
	row.first_log -= row.first_log > 0 ? sim_below(s, 2) : 0;
	row.last_log += sim_below(s, 2);
	if (row.level == DATA_LEVEL_SINGLE)
		row.last_log = row.first_log;
	else
		row.first_offset = row.end_offset = 0;
	lie_add(l, &row);
}

static void propose_lie(struct run *r)
{
	struct sim *s = &r->sim;
	struct lie l;
	struct object_row known;
	lie_begin(r, &l);
	if (sim_chance(s, 50))
		l.m.node = 0;           /* "whoever wrote the row" */
	if (sim_chance(s, 400))
		any_wal(r, &l);
	if (sim_chance(s, 400))
		usurp(r, &l);
	while (l.m.n_add < ROWS_MAX && sim_chance(s, 600)) {
		struct object_row row = any_row(r);
		lie_add(&l, &row);
	}
	if (l.m.n_remove == 0 && sim_chance(s, 300) && known_object(r, &known)) {
		lie_remove(&l, known.id);
		lie_remove(&l, known.id);
	}
	if (l.m.n_remove < 2)
		lie_remove(&l, own_id(r, NOBODYS));
	lie_propose(r, &l);
}

/* ---------------------------------------------------------------- objects of its own */

/* An object of one state entry, of a log that there is not, in the bucket. */
static struct object_row own_object(struct run *r, struct object_id id)
{
	struct object_row row;
	char key[DATA_KEY_MAX];
	Frame__State state = FRAME__STATE__INIT;
	state.log_id = UINT32_MAX;
	state.complete = true;
	uint8_t entry[64], object[1024];
	size_t n = frame__state__get_packed_size(&state), at = 0;
	must(n <= sizeof(entry));
	frame__state__pack(&state, entry);
	struct data_builder *b = data_builder_new(id, NODE, 0);
	data_builder_state(b, state.log_id, slice_of(entry, n));
	data_builder_finish(b, &row);
	must(row.bytes <= sizeof(object));
	while (at < row.bytes) {
		struct iovec iov;
		uint64_t length;
		must(data_builder_iovec(b, at, row.bytes - at, &iov, 1, &length) == 1);
		memcpy(object + at, iov.iov_base, iov.iov_len);
		at += length;
	}
	data_builder_free(b);
	data_key(key, id);
	sim_bucket_add(&r->bucket, key, slice_of(object, at));
	return row;
}

/* One more of its objects, and sometimes one less. */
static void propose_own(struct run *r)
{
	struct lie l;
	struct object_row row = own_object(r, own_id(r, 1000 + r->impostor.proposal));
	lie_begin(r, &l);
	lie_add(&l, &row);
	if (r->impostor.last.node != 0 && sim_chance(&r->sim, 500)) {
		lie_remove(&l, r->impostor.last);
		r->impostor.last.node = 0;
	} else {
		r->impostor.last = row.id;
	}
	lie_propose(r, &l);
}

/* That objects are gone which are in use, or which never were. */
static void propose_deleted(struct run *r)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__ObjectsDeleted m = META__OBJECTS_DELETED__INIT;
	Meta__ObjectId id[1], *ids[1] = { &id[0] };
	struct object_row known;
	object_id_fill(&id[0], known_object(r, &known) && !known.marked ? known.id : own_id(r, NOBODYS));
	m.id = ids;
	m.n_id = 1;
	m.node = NODE;
	m.session = r->impostor.session;
	command.kind_case = META__COMMAND__KIND_OBJECTS_DELETED;
	command.objects_deleted = &m;
	propose(r, r->impostor.session, &command);
}

/* That a session of the real node was recovered. */
static void propose_recovered(struct run *r)
{
	Meta__Command command = META__COMMAND__INIT;
	Meta__SessionRecovered m = META__SESSION_RECOVERED__INIT;
	m.node = 1;
	m.session = 1 + sim_below(&r->sim, 12);
	m.cut = sim_below(&r->sim, 4);
	m.by_session = r->impostor.session;
	command.kind_case = META__COMMAND__KIND_SESSION_RECOVERED;
	command.session_recovered = &m;
	propose(r, r->impostor.session, &command);
}

/* -------------------------------------------------------------------------- life */

static void impostor_turn(void *arg)
{
	struct run *r = arg;
	struct sim *s = &r->sim;
	if (!r->nemesis)
		return;
	sim_after(s, sim_between(s, 10 * SIM_MS, SIM_S), NULL, "impostor", impostor_turn, NULL, r);
	uint64_t what = sim_below(s, 100);
	if (r->newest_session == 0)
		return;                 /* no node registers before the cluster's object is there */
	if (r->impostor.session == 0 || what < 10)
		propose_register(r);
	else if (what < 75)
		propose_lie(r);
	else if (what < 85)
		propose_own(r);
	else if (what < 95)
		propose_deleted(r);
	else
		propose_recovered(r);
}

void impostor_begin(struct run *r)
{
	sim_after(&r->sim, SIM_S, NULL, "impostor", impostor_turn, NULL, r);
}
