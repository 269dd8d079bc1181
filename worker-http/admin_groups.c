/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /admin/groups: pages of consumer groups in order of id. GET /admin/groups/GROUP: its state and members, and a page
 * of what it has committed with how far that is behind.
 *
 * An id is bytes; where JSON cannot say it, `group` shows something like it. `id`, in hexadecimal digits, is exact, and it is
 * what start_after takes; of an offset it is topic id and partition. Lag is what the group has not got yet of what is there:
 * from its offset, or the log's start behind that, to the high watermark; null where another node has the log.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/ipc.h"
#include "common/json_scan.h"
#include "common/must.h"
#include "common/wire.h"
#include "worker-http/admin.h"
#include "worker-http/pico.h"

#define GROUP_ID_MAX 249
#define OFFSETS_DEFAULT 1000
#define TOPIC_ID 16

static struct slice bytes_of(ProtobufCBinaryData b)
{
	return slice_of(b.data != NULL ? b.data : (const uint8_t *)"", b.len);
}

static void put_bytes(struct buf *out, const char *field, bool is_there, ProtobufCBinaryData b)
{
	buf_printf(out, ",\"%s\":", field);
	if (is_there)
		admin_put_text(out, bytes_of(b));
	else
		buf_put_str(out, "null");
}

/* Hexadecimal digits to bytes; false: they are none, or more than max. */
static bool from_hex(const char *text, size_t n, size_t max, uint8_t *ret, size_t *ret_n)
{
	if (n % 2 != 0 || n / 2 > max || strspn(text, "0123456789abcdef") < n)
		return false;
	for (*ret_n = 0; *ret_n < n / 2; ++*ret_n) {
		unsigned byte;
		if (sscanf(text + 2 * *ret_n, "%2x", &byte) != 1)
			return false;
		ret[*ret_n] = (uint8_t)byte;
	}
	return true;
}

/* ------------------------------------------------------------------ all of them */

static void print_group(struct buf *out, const Ipc__GroupListAnswer__Group *g)
{
	buf_put_str(out, "{\"group\":");
	admin_put_text(out, bytes_of(g->group));
	buf_put_str(out, ",\"id\":");
	admin_put_hex(out, g->group.data, g->group.len);
	buf_printf(out, ",\"state\":\"%s\"", ipc_group_state_name(g->state));
	put_bytes(out, "protocolType", g->protocol_type.len > 0, g->protocol_type);
	buf_put_u8(out, '}');
}

static void on_groups(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__GroupListAnswer *a = (const Ipc__GroupListAnswer *)m;
	struct buf *out = &r->answer.body;
	if (!pico_is_good(r, error))
		return;
	buf_put_str(out, "{\"groups\":[");
	for (size_t i = 0; i < a->n_group; i++) {
		buf_put_str(out, i > 0 ? "," : "");
		print_group(out, a->group[i]);
	}
	buf_printf(out, "],\"hasMore\":%s}\n", a->has_more ? "true" : "false");
	admin_answer(r);
}

void admin_get_groups(struct request *r)
{
	Ipc__GroupListRequest m = IPC__GROUP_LIST_REQUEST__INIT;
	uint8_t after[GROUP_ID_MAX];
	uint64_t limit;
	size_t n;
	char *hex;
	if (!admin_number(r, "limit", &limit) || !admin_text(r, "start_after", &hex))
		return;
	if (from_hex(hex, strlen(hex), sizeof(after), after, &n)) {
		m.after = (ProtobufCBinaryData){ .len = n, .data = after };
		m.limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
		m.deadline_ms = request_deadline(r);
		request_call(r, IPC_GROUP_LIST, &m.base, slice_of(NULL, 0), m.deadline_ms, on_groups);
	} else {
		answer_bad_request(r, "start_after is the id of a group, as the list shows it");
	}
	free(hex);
}

/* ------------------------------------------------------------------ one of them */

struct shown {
	ProtobufCBinaryData group;      /* owned */
	uint8_t after[TOPIC_ID];
	bool has_after;
	uint32_t after_partition, limit;
};

static void shown_free(void *state)
{
	struct shown *s = state;
	free(s->group.data);
	free(s);
}

/* What a member of type "consumer" was assigned (Kafka's consumer protocol): version, [topic, [partition]]. Null where it is
 * something else. */
static void print_assignment(struct buf *out, struct slice assignment)
{
	struct wire_reader w = wire_reader(assignment);
	size_t before = buf_len(out);
	wire_be16(&w);
	uint32_t n_topics = wire_be32(&w);
	buf_put_u8(out, '[');
	for (uint32_t i = 0; i < n_topics && !w.failed; i++) {
		struct slice topic = wire_take(&w, wire_be16(&w));
		uint32_t n = wire_be32(&w);
		buf_put_str(out, i > 0 ? ",{\"topic\":" : "{\"topic\":");
		admin_put_text(out, topic);
		buf_put_str(out, ",\"partitions\":[");
		for (uint32_t k = 0; k < n && !w.failed; k++)
			buf_printf(out, "%s%u", k > 0 ? "," : "", wire_be32(&w));
		buf_put_str(out, "]}");
	}
	buf_put_u8(out, ']');
	if (!w.failed)
		return;
	out->end = out->begin + before;
	buf_put_str(out, "null");
}

static void print_member(struct buf *out, const Ipc__GroupDescribeAnswer *a, const Ipc__GroupDescribeAnswer__Member *m)
{
	bool is_consumer = slice_is(bytes_of(a->protocol_type), "consumer") && m->assignment.len > 0;
	buf_put_str(out, "{\"memberId\":");
	admin_put_text(out, bytes_of(m->member_id));
	put_bytes(out, "instanceId", m->has_instance_id, m->instance_id);
	put_bytes(out, "clientId", true, m->client_id);
	put_bytes(out, "clientHost", true, m->client_host);
	buf_put_str(out, ",\"assignment\":");
	if (is_consumer)
		print_assignment(out, bytes_of(m->assignment));
	else
		buf_put_str(out, "null");
	buf_put_u8(out, '}');
}

static void print_head(struct buf *out, const struct shown *s, const Ipc__GroupDescribeAnswer *a)
{
	buf_put_str(out, "{\"group\":");
	admin_put_text(out, bytes_of(s->group));
	buf_put_str(out, ",\"id\":");
	admin_put_hex(out, s->group.data, s->group.len);
	buf_printf(out, ",\"state\":\"%s\"", ipc_group_state_name(a->state));
	put_bytes(out, "protocolType", a->protocol_type.len > 0, a->protocol_type);
	put_bytes(out, "protocol", a->protocol.len > 0, a->protocol);
	buf_put_str(out, ",\"members\":[");
	for (size_t i = 0; i < a->n_member; i++) {
		buf_put_str(out, i > 0 ? "," : "");
		print_member(out, a, a->member[i]);
	}
	buf_put_str(out, "],\"offsets\":[");
}

/* topic: whose path the parts' last one with a name has. */
static void print_offset(struct buf *out, const char *topic, const Ipc__GroupOffsetFetchAnswer__Part *p)
{
	uint64_t offset = (uint64_t)p->offset, from = offset > p->start ? offset : p->start;
	buf_put_str(out, "{\"topic\":");
	admin_put_text(out, slice_str(topic));
	buf_printf(out, ",\"partition\":%u,\"offset\":%" PRId64 ",\"leaderEpoch\":%d,\"metadata\":", p->partition, p->offset,
		   p->leader_epoch);
	admin_put_text(out, bytes_of(p->metadata));
	if (p->has_bounds)
		buf_printf(out, ",\"startOffset\":%" PRIu64 ",\"endOffset\":%" PRIu64 ",\"lag\":%" PRIu64, p->start, p->confirm,
			   from < p->confirm ? p->confirm - from : 0);
	else
		buf_put_str(out, ",\"startOffset\":null,\"endOffset\":null,\"lag\":null");
	buf_put_str(out, ",\"id\":\"");
	for (size_t i = 0; i < p->topic_id.len; i++)
		buf_printf(out, "%02x", p->topic_id.data[i]);
	buf_printf(out, ".%u\"}", p->partition);
}

/* False: answered. */
static bool group_is_good(struct request *r, Ipc__GroupError error)
{
	if (error == IPC__GROUP_ERROR__NONE)
		return true;
	if (error == IPC__GROUP_ERROR__LOADING)
		answer_error(r, 503, "unavailable", "the group is being read from the store; try again", NULL);
	else
		answer_error(r, 400, "bad_request", "a group's id is 1 to 249 bytes", NULL);
	return false;
}

static void on_offsets(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__GroupOffsetFetchAnswer *a = (const Ipc__GroupOffsetFetchAnswer *)m;
	struct buf *out = &r->answer.body;
	const char *topic = "";
	if (error->kind != PICO_OK || a->error != IPC__GROUP_ERROR__NONE)
		buf_reset(out, 0);      /* the head stands there */
	if (!pico_is_good(r, error) || !group_is_good(r, a->error))
		return;
	for (size_t i = 0; i < a->n_part; i++) {
		if (a->part[i]->name[0] != '\0')
			topic = a->part[i]->name;
		buf_put_str(out, i > 0 ? "," : "");
		print_offset(out, topic, a->part[i]);
	}
	buf_printf(out, "],\"hasMore\":%s}\n", a->has_more ? "true" : "false");
	admin_answer(r);
}

static void on_described(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	struct shown *s = r->state;
	const Ipc__GroupDescribeAnswer *a = (const Ipc__GroupDescribeAnswer *)m;
	Ipc__GroupOffsetFetchRequest q = IPC__GROUP_OFFSET_FETCH_REQUEST__INIT;
	if (!pico_is_good(r, error) || !group_is_good(r, a->error))
		return;
	if (a->state == IPC__GROUP_STATE__DEAD) {
		answer_error(r, 404, "not_found", "no such group", NULL);
		return;
	}
	print_head(&r->answer.body, s, a);
	q.group = s->group;
	q.all = q.details = true;
	q.limit = s->limit;
	if (s->has_after)
		q.after_topic_id = (ProtobufCBinaryData){ .len = TOPIC_ID, .data = s->after };
	q.after_partition = s->after_partition;
	q.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_OFFSET_FETCH, &q.base, slice_of(NULL, 0), q.deadline_ms, on_offsets);
}

/* "TOPIC-ID.PARTITION"; empty: from the first on. */
static bool take_after(struct shown *s, const char *text)
{
	const char *dot = strchr(text, '.');
	uint64_t partition = 0;
	size_t n = 0;
	bool good = text[0] == '\0' || (dot != NULL && from_hex(text, (size_t)(dot - text), TOPIC_ID, s->after, &n) && n == TOPIC_ID &&
					strict_u64(slice_str(dot + 1), &partition) && partition <= UINT32_MAX);
	s->has_after = good && text[0] != '\0';
	s->after_partition = (uint32_t)partition;
	return good;
}

static bool shown_take(struct request *r, struct shown *s)
{
	uint64_t limit;
	char *after;
	if (!admin_number(r, "limit", &limit) || !admin_text(r, "start_after", &after))
		return false;
	bool good = take_after(s, after);
	s->limit = limit == 0 ? OFFSETS_DEFAULT : limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
	free(after);
	if (!good)
		answer_bad_request(r, "start_after is the id of an offset, as the list shows it");
	return good;
}

void admin_get_group(struct request *r)
{
	Ipc__GroupDescribeRequest m = IPC__GROUP_DESCRIBE_REQUEST__INIT;
	char *name = admin_rest(r, ADMIN_GROUPS);
	if (name == NULL)
		return;
	struct shown *s = must_calloc(1, sizeof(*s));
	s->group = (ProtobufCBinaryData){ .len = strlen(name), .data = (uint8_t *)name };
	r->state = s;
	r->state_free = shown_free;
	if (!shown_take(r, s))
		return;
	m.group = s->group;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_GROUP_DESCRIBE, &m.base, slice_of(NULL, 0), m.deadline_ms, on_described);
}
