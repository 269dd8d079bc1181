/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that comes out, as entities at one new row behind everything that any export stands at. It is loaded once
 * before it is given away: what the node would refuse is refused here.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/must.h"
#include "common/wire.h"
#include "storaged/meta/kv.h"
#include "storaged/meta/object_message.h"
#include "storaged/meta/snapshot.h"
#include "storaged/offline/restore_priv.h"

#define ROWS_APART 1000000u             /* an export that is still on its way is older than what is built here, too */

#define SHOWN_MAX 100u          /* lines of one kind in the report */
#define PRODUCER_IDS_SKIPPED (1ll << 32)        /* given out after the export and not seen in any record */
#define VERSIONS_SKIPPED (1ull << 32)           /* of small values, likewise */

static void emit(struct restoring *r, const char *key, const ProtobufCMessage *m)
{
	struct restored *out = r->out;
	size_t n = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = must_calloc(1, n + 1);
	protobuf_c_message_pack(m, bytes);
	if ((out->n_entities & (out->n_entities - 1)) == 0)
		out->entity = must_realloc(out->entity, (out->n_entities == 0 ? 1 : 2 * out->n_entities) * sizeof(*out->entity));
	out->entity[out->n_entities++] = (struct sql_entity){
		.key = slice_of(must_strdup(key), strlen(key)), .idx = out->row.idx, .payload = slice_of(bytes, n),
	};
}

/* --------------------------------------------------------------- the row they stand at */

static void build_row(struct restoring *r)
{
	Meta__Row row = META__ROW__INIT;
	Meta__Command command = META__COMMAND__INIT, *commands[1] = { &command };
	Meta__Noop noop = META__NOOP__INIT;
	command.kind_case = META__COMMAND__KIND_NOOP;
	command.noop = &noop;
	row.n_commands = 1;
	row.commands = commands;
	row.now_ms = r->cluster->clock_ms > r->newest_ms ? r->cluster->clock_ms : r->newest_ms;
	size_t n = meta__row__get_packed_size(&row);
	uint8_t *bytes = must_calloc(1, n + 1);
	meta__row__pack(&row, bytes);
	r->out->row = (struct sql_row){ .idx = r->last_idx + ROWS_APART, .payload = slice_of(bytes, n) };
	r->out->row.chain = state_chain_next(r->cluster->chain, r->out->row.payload);
	r->cluster->chain = r->out->row.chain;
	r->cluster->clock_ms = row.now_ms;
}

/* ------------------------------------------------------------ nodes and sessions */

static void build_session(struct restoring *r, const struct r_session *s, uint64_t newest)
{
	Meta__SessionEntity e = META__SESSION_ENTITY__INIT;
	char key[64];
	if (s->known != NULL && s->known->state == META__SESSION_ENTITY__STATE__RECOVERED && s->session != newest) {
		e = *s->known;
	} else {
		e.node = s->node;
		e.session = s->session;
		e.state = s->session == newest ? META__SESSION_ENTITY__STATE__ACTIVE : META__SESSION_ENTITY__STATE__ENDED;
		e.recoverer = s->session == newest ? 0 : s->node;
		e.watermark = s->watermark;
	}
	snprintf(key, sizeof(key), "session/%" PRIu32 "/%016" PRIx64, s->node, s->session);
	emit(r, key, &e.base);
}

static void build_node(struct restoring *r, uint32_t node, uint64_t newest)
{
	static uint8_t zero[16];
	Meta__NodeEntity e = META__NODE_ENTITY__INIT;
	char key[64];
	e.node = node;
	e.slots = 1;
	e.boot_id = e.instance = (ProtobufCBinaryData){ .len = 16, .data = zero };
	for (size_t i = 0; i < r->n_nodes; i++)
		if (r->node[i]->node == node)
			e = *r->node[i];
	if (e.session != newest) {
		e.session = newest;
		e.boot_id = (ProtobufCBinaryData){ .len = 16, .data = zero };
		e.last_proposal = 0;
		e.last_result.len = 0;
	}
	snprintf(key, sizeof(key), "node/%" PRIu32, node);
	emit(r, key, &e.base);
}

/* Sessions stand in order of node. */
static void build_sessions(struct restoring *r)
{
	for (size_t first = 0, end; first < r->n_sessions; first = end) {
		uint32_t node = r->session[first].node;
		for (end = first; end < r->n_sessions && r->session[end].node == node; end++)
			;
		uint64_t newest = r->session[end - 1].session;
		build_node(r, node, newest);
		for (size_t i = first; i < end; i++) {
			const struct r_session *s = &r->session[i];
			size_t n = 0;
			build_session(r, s, newest);
			for (size_t k = 0; k < s->n_wal; k++)
				n += s->wal[k].live && s->wal[k].n_frames > 0;
			if (n > 0 || s->known == NULL)
				restore_say(r, "node %" PRIu32 " session %" PRIu64 "%s: packed up to WAL object %" PRIu64
					    ", %zu to be read", node, s->session, s->known == NULL ? " (after the export)" : "",
					    s->watermark, n);
		}
	}
}

/* ------------------------------------------------------------------------- objects */

static void build_object(struct restoring *r, struct r_object *o)
{
	Meta__ObjectEntity e = META__OBJECT_ENTITY__INIT;
	struct object_message m;
	char key[DATA_KEY_MAX + 8];
	if (!o->known)
		o->row.run = r->cluster->next_run++;
	object_message_fill(&m, &o->row);
	e.row = &m.m;
	e.marked = !o->live;
	e.marked_ms = o->marked ? o->row.marked_ms : o->live ? 0 : r->cluster->clock_ms;
	snprintf(key, sizeof(key), "object/%" PRIu32 "/%016" PRIx64 "/%016" PRIx64, o->id.node, o->id.session, o->id.number);
	emit(r, key, &e.base);
}

static void build_objects(struct restoring *r)
{
	size_t n_live = 0, n_new = 0, n_gone = 0;
	for (size_t i = 0; i < r->n_objects; i++) {
		struct r_object *o = &r->object[i];
		n_live += o->live;
		n_new += o->live && !o->known;
		build_object(r, o);
	}
	const struct catalogue *c = state_catalogue(r->state);
	for (const struct object_row *x = catalogue_next(c, NULL); x != NULL; x = catalogue_next(c, &x->id)) {
		bool found = false;
		for (size_t i = 0; i < r->n_objects && !found; i++)
			found = object_id_is_equal(r->object[i].id, x->id);
		n_gone += !found && !x->marked;
	}
	restore_say(r, "data objects: %zu in use, %zu of them written after the export; %zu that the export had in use are gone "
		    "(merged or emptied after it); %zu are not needed and will be deleted", n_live, n_new, n_gone,
		    r->n_objects - n_live);
}

/* -------------------------------------------------------------------------- topics */

void restore_emit_topic(struct restoring *r, const Meta__TopicEntity *t)
{
	char key[64];
	int n = snprintf(key, sizeof(key), "topic/");
	for (size_t i = 0; i < t->topic_id.len && i < 16; i++)
		n += snprintf(key + n, sizeof(key) - (size_t)n, "%02x", t->topic_id.data[i]);
	emit(r, key, &t->base);
}

static void topic_say(struct restoring *r, const struct r_topic *t)
{
	const Meta__TopicEntity *e = t->e;
	if (t->is_new && !t->is_made_up)
		restore_say(r, "%s was made after the export%s: %zu partition%s, settings as of its last records%s", e->name,
			    e->source.len > 0 ? ", as a fork" : "", e->n_partitions, e->n_partitions == 1 ? "" : "s",
			    e->soft_deleted ? "; deleted since, but for its forks" : "");
	else if (t->is_changed)
		restore_say(r, "%s was changed after the export: %zu partition%s, settings as of its last records", e->name,
			    e->n_partitions, e->n_partitions == 1 ? "" : "s");
}

static void build_topic(struct restoring *r, const struct r_topic *t)
{
	for (size_t p = 0; p < t->e->n_partitions; p++) {
		const struct r_log *log = restore_log(r, t->e->partitions[p]->log_id);
		t->e->partitions[p]->start = log->start;
		t->e->partitions[p]->epoch = log->epoch;
	}
	restore_emit_topic(r, t->e);
}

/* What recovery would not take is left out, and with it what was forked from it. */
static void contradictions_drop(struct restoring *r)
{
	for (size_t i = 0; i < r->n_topics; i++) {
		struct r_topic *t = &r->topic[i];
		for (size_t p = 0; !t->gone && p < t->e->n_partitions; p++)
			t->gone = restore_log(r, t->e->partitions[p]->log_id)->contradicts;
	}
	restore_gone_spread(r);
}

/* A topic of one partition. Its id follows from cluster and log, so that two restores agree. */
struct made_topic {
	Meta__TopicEntity e;
	Meta__PartitionEntity partition, *partitions[1];
	uint8_t id[16];
	char name[64];
};

static void topic_make_up(const struct restoring *r, struct made_topic *t, uint64_t log_id, uint32_t owner, int64_t created_ms)
{
	const struct slice uuid = slice_of(state_cluster_uuid(r->state), 16);
	meta__topic_entity__init(&t->e);
	meta__partition_entity__init(&t->partition);
	put_be64(t->id, state_chain_next(log_id, uuid));
	put_be64(t->id + 8, state_chain_next(~log_id, uuid));
	snprintf(t->name, sizeof(t->name), RESTORE_PREFIX "%016" PRIx64, log_id);
	t->e.topic_id = (ProtobufCBinaryData){ .len = 16, .data = t->id };
	t->e.name = t->name;
	t->e.content_type = (char *)"application/octet-stream";
	t->e.settings_version = 1;
	t->e.created_ms = created_ms;
	t->e.n_partitions = 1;
	t->e.partitions = t->partitions;
	t->partitions[0] = &t->partition;
	t->partition.log_id = log_id;
	t->partition.owner = owner;
}

/* A log whose first frame is not at 0 is a fork's: it has a source that shows nothing. */
static void nameless_fork(struct restoring *r, const struct r_log *log, struct made_topic *t)
{
	struct made_topic source;
	topic_make_up(r, &source, r->cluster->next_log_id++, log->owner, log->first_ms);
	source.e.soft_deleted = true;
	source.partition.start = log->start;
	restore_emit_topic(r, &source.e);
	t->e.source = (ProtobufCBinaryData){ .len = 16, .data = must_memdup(source.id, 16) };
	t->partition.parent_log = source.partition.log_id;
	t->partition.parent_end = t->partition.fork_offset = log->start;
}

/* A log whose topic came after the export, without a card: its records are there, its name is lost. */
static void build_nameless(struct restoring *r, const struct r_log *log)
{
	struct made_topic t;
	char alias[64];
	topic_make_up(r, &t, log->id, log->owner, log->first_ms);
	snprintf(alias, sizeof(alias), "restored.log-%016" PRIx64, log->id);
	t.e.kafka_topic = alias;
	t.partition.epoch = log->epoch;
	t.partition.start = log->start;
	if (!log->has_entry && log->start > 0)
		nameless_fork(r, log, &t);
	restore_emit_topic(r, &t.e);
	free(t.e.source.data);
	restore_say(r, "%s: offsets %" PRIu64 " to %" PRIu64 " of a topic made after the export, by a release that did not store "
		    "with records whose they are; nobody knows its name, settings and which partition it was", t.name, log->start,
		    log->end);
}

static void build_topics(struct restoring *r)
{
	size_t n_said = 0;
	contradictions_drop(r);
	for (size_t i = 0; i < r->n_topics; i++) {
		struct r_topic *t = &r->topic[i];
		if (t->gone)
			continue;
		build_topic(r, t);
		if ((t->is_new || t->is_changed) && ++n_said <= SHOWN_MAX)
			topic_say(r, t);
	}
	if (n_said > SHOWN_MAX)
		restore_say(r, "and %zu more that were made or changed after the export", n_said - SHOWN_MAX);
	for (size_t i = 0; i < r->n_logs; i++) {
		const struct r_log *log = &r->log[i];
		if (log->topic == NULL && !log->dead && !log->contradicts && log->end > log->start)
			build_nameless(r, log);
		if (log->id >= r->cluster->next_log_id)
			r->cluster->next_log_id = log->id + 1;
	}
}

/* --------------------------------------------------------------------------- all */

void restore_emit_cluster(struct restoring *r)
{
	emit(r, "cluster", &r->cluster->base);
}

/* Small values are the export's. */
static void build_kv(struct restoring *r)
{
	for (size_t i = 0; i < r->n_kv; i++) {
		char key[sizeof("kv/") + KV_KEY_MAX];
		snprintf(key, sizeof(key), "kv/%s", r->kv[i]->key);
		emit(r, key, &r->kv[i]->base);
	}
}

static void build_cluster(struct restoring *r)
{
	uint64_t seen = (uint64_t)(r->producer_id_max + 1);
	if (r->cluster->next_producer_id < seen)
		r->cluster->next_producer_id = seen;
	r->cluster->next_producer_id += PRODUCER_IDS_SKIPPED;
	r->cluster->kv_version += VERSIONS_SKIPPED;
	restore_emit_cluster(r);
}

bool restore_build(struct restoring *r)
{
	build_row(r);
	build_sessions(r);
	build_objects(r);
	build_topics(r);
	build_kv(r);
	build_cluster(r);
	if (r->n_foreign > 0)
		restore_say(r, "%zu objects have names that no release gives; `pico fsck` names them", r->n_foreign);
	restore_say(r, "not known: topics deleted after the export are back, as far as their records are there; topics made after it "
		    "without a record are not; settings, trims and closes after it that no record followed are lost");
	struct state *s = state_new();
	int err = state_load(s, r->out->row.idx, r->out->entity, r->out->n_entities);
	state_free(s);
	return err == 0 || restore_fail(r, "what was found does not fit together; nothing was written. Please report this, with "
				       "the names of the objects in the store");
}
