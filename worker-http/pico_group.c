/* SPDX-License-Identifier: Apache-2.0
 *
 * From a path below /_groups to its handler; JSON bodies; from the coordinator's errors to the wire.
 *
 *   /_groups                          GET     all groups
 *   /_groups/G                        GET     its state and members
 *   /_groups/G/members                POST    join
 *   /_groups/G/members/M              GET     sync        DELETE  leave
 *   /_groups/G/members/M/heartbeat    POST
 *   /_groups/G/offsets                GET     fetch       PUT     commit
 *
 * G and M are percent-decoded, for a group's id may hold any byte.
 */
#include "worker-http/pico_group.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "worker-http/cors.h"
#include "worker-http/pico.h"

#define ID_MAX 512                      /* bytes of any id; the coordinator has bounds of its own */
#define SESSION_DEFAULT_MS 30000
#define SEGMENTS_MAX 4

/* ------------------------------------------------------------------ routes */

struct shape {
	const char *segment[SEGMENTS_MAX + 1];  /* below /_groups; "" is an id */
	const char *methods;
	struct route route[2];
};

static const struct shape shapes[] = {
	{ { NULL }, "GET, HEAD, OPTIONS", { { "GET", group_list } } },
	{ { "", NULL }, "GET, HEAD, OPTIONS", { { "GET", group_describe } } },
	{ { "", "members", NULL }, "POST, OPTIONS", { { "POST", group_join } } },
	{ { "", "members", "", NULL }, "GET, DELETE, HEAD, OPTIONS", { { "GET", group_sync }, { "DELETE", group_leave } } },
	{ { "", "members", "", "heartbeat", NULL }, "POST, OPTIONS", { { "POST", group_heartbeat } } },
	{ { "", "offsets", NULL }, "GET, PUT, HEAD, OPTIONS", { { "GET", group_fetch }, { "PUT", group_commit } } },
};

/* The path's segments behind /_groups; too many: SEGMENTS_MAX + 1. */
static size_t split(struct slice path, struct slice segment[SEGMENTS_MAX])
{
	const size_t top = sizeof("/_groups") - 1;
	size_t n = 0;
	must(path.n >= top);
	for (struct slice rest = slice_of(path.p + top, path.n - top); rest.n > 0; n++) {
		const uint8_t *slash = rest.n > 1 ? memchr(rest.p + 1, '/', rest.n - 1) : NULL;
		size_t used = slash != NULL ? (size_t)(slash - rest.p) : rest.n;
		if (n == SEGMENTS_MAX)
			return SEGMENTS_MAX + 1;
		segment[n] = slice_of(rest.p + 1, used - 1);
		rest = slice_of(rest.p + used, rest.n - used);
	}
	return n;
}

static bool has_shape(const struct shape *s, const struct slice segment[SEGMENTS_MAX], size_t n)
{
	size_t i = 0;
	for (; i < n && s->segment[i] != NULL; i++)
		if (s->segment[i][0] != '\0' && !slice_is(segment[i], s->segment[i]))
			return false;
	return i == n && s->segment[i] == NULL;
}

static void group_free(void *state)
{
	struct group_request *g = state;
	group_forget_untold(g);
	if (g->own_free != NULL)
		g->own_free(g->own);
	buf_done(&g->group);
	buf_done(&g->member);
	buf_done(&g->instance);
	buf_done(&g->client);
	buf_done(&g->names);
	buf_done(&g->members);
	free(g);
}

static struct group_request *group_new(struct request *r)
{
	struct group_request *g = must_calloc(1, sizeof(*g));
	g->request = r;
	g->generation = -1;
	buf_init(&g->group, ID_MAX);
	buf_init(&g->member, ID_MAX);
	buf_init(&g->instance, ID_MAX);
	buf_init(&g->client, ID_MAX);
	buf_init(&g->names, SIZE_MAX / 4);
	buf_init(&g->members, SIZE_MAX / 4);
	r->state = g;
	r->state_free = group_free;
	return g;
}

static const struct route *route_of(const struct request *r, const struct shape *s)
{
	for (size_t i = 0; i < 2 && s->route[i].method != NULL; i++)
		if (slice_is(r->method, s->route[i].method) || (r->is_head && strcmp(s->route[i].method, "GET") == 0))
			return &s->route[i];
	return NULL;
}

static void run(struct request *r, const struct shape *s, const struct slice *segment, size_t n)
{
	const struct route *route = route_of(r, s);
	struct cors allowed = pico_cors;
	allowed.methods = s->methods;
	if (slice_is(r->method, "OPTIONS")) {
		cors_preflight(r, &allowed);
		return;
	}
	if (route == NULL) {
		pico_refuse_method(r, s->methods);
		return;
	}
	struct group_request *g = group_new(r);
	if (n > 0)
		percent_decode(segment[0], false, &g->group);
	if (n > 2)
		percent_decode(segment[2], false, &g->member);
	if (g->group.failed || g->member.failed)
		answer_bad_request(r, "an id of a group or a member is at most %d bytes", ID_MAX);
	else if (!answer_encoded(r))
		route->handle(r);
}

void pico_group(struct request *r)
{
	struct slice segment[SEGMENTS_MAX];
	size_t n = split(r->path, segment);
	for (size_t i = 0; n <= SEGMENTS_MAX && i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (has_shape(&shapes[i], segment, n)) {
			run(r, &shapes[i], segment, n);
			return;
		}
	answer_error(r, 404, "not_found", "below /_groups are GROUP, GROUP/members, GROUP/members/MEMBER, "
		     "GROUP/members/MEMBER/heartbeat and GROUP/offsets", NULL);
}

/* ------------------------------------------------------------------ bodies */

enum json_kind { TEXT, NUMBER, NAMES, OBJECT };

static const struct {
	const char *name;
	enum group_field bit;
	enum json_kind kind;
	size_t offset;                  /* in struct group_request: buf, int32_t or slice */
} fields[] = {
	{ "memberId", GROUP_MEMBER_ID, TEXT, offsetof(struct group_request, member) },
	{ "instanceId", GROUP_INSTANCE_ID, TEXT, offsetof(struct group_request, instance) },
	{ "clientId", GROUP_CLIENT_ID, TEXT, offsetof(struct group_request, client) },
	{ "generation", GROUP_GENERATION, NUMBER, offsetof(struct group_request, generation) },
	{ "sessionTimeoutMs", GROUP_SESSION, NUMBER, offsetof(struct group_request, session_ms) },
	{ "rebalanceTimeoutMs", GROUP_REBALANCE, NUMBER, offsetof(struct group_request, rebalance_ms) },
	{ "subscription", GROUP_SUBSCRIPTION, NAMES, offsetof(struct group_request, subscription) },
	{ "offsets", GROUP_OFFSETS, OBJECT, offsetof(struct group_request, offsets) },
};

#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

/* NULL, or what the value has to be. */
static const char *take_value(void *to, enum json_kind kind, enum json_token token, struct slice span)
{
	uint64_t n;
	switch (kind) {
	case TEXT:
		buf_reset(to, ID_MAX);
		if (token == JSON_STRING && json_string(span, to) == 0)
			return NULL;
		return "a string of at most 512 bytes";
	case NUMBER:
		if (token != JSON_NUMBER || json_u64(span, &n) < 0 || n > INT32_MAX)
			return "a whole number from 0 to 2147483647";
		*(int32_t *)to = (int32_t)n;
		return NULL;
	case NAMES:
		*(struct slice *)to = span;
		return token == JSON_ARRAY ? NULL : "an array of names of streams";
	case OBJECT:
		*(struct slice *)to = span;
		return token == JSON_OBJECT ? NULL : "an object";
	}
	return "something else";
}

/* False when refused (answered). */
static bool take_field(struct request *r, unsigned allowed, struct slice key, struct json_scan *value)
{
	struct group_request *g = r->state;
	size_t i = 0;
	while (i < N_FIELDS && ((fields[i].bit & allowed) == 0 || !json_string_is(key, fields[i].name)))
		i++;
	if (i == N_FIELDS) {
		answer_bad_request(r, "the body has a member %.*s that means nothing here", (int)(key.n < 64 ? key.n : 64),
				   (const char *)key.p);
		return false;
	}
	enum json_token token = json_skip(value);
	if (token == JSON_NULL)
		return true;
	const char *fault = take_value((char *)g + fields[i].offset, fields[i].kind, token, value->span);
	if (fault != NULL)
		answer_bad_request(r, "%s must be %s", fields[i].name, fault);
	g->given |= fields[i].bit;
	return fault == NULL;
}

static bool has_needed(struct request *r, unsigned needed)
{
	const struct group_request *g = r->state;
	for (size_t i = 0; i < N_FIELDS; i++)
		if ((fields[i].bit & needed & ~g->given) != 0) {
			answer_bad_request(r, "the body needs a member %s", fields[i].name);
			return false;
		}
	return true;
}

bool group_take_body(struct request *r, unsigned allowed, unsigned needed)
{
	struct group_request *g = r->state;
	struct slice body = buf_slice(&r->body);
	struct json_scan j;
	g->session_ms = SESSION_DEFAULT_MS;
	json_scan_init(&j, body);
	if (!json_is_valid(body) || json_next(&j) != JSON_OBJECT) {
		answer_bad_request(r, "the body must be a JSON object");
		return false;
	}
	while (json_next(&j) == JSON_KEY)
		if (!take_field(r, allowed, j.span, &j))
			return false;
	return has_needed(r, needed);
}

bool group_take_query(struct request *r, bool generation)
{
	struct group_request *g = r->state;
	struct buf value;
	uint64_t n = 0;
	buf_init(&value, PICO_PARAM_MAX);
	if (query_find(r->query, "instanceId", &g->instance) && buf_len(&g->instance) > 0)
		g->given |= GROUP_INSTANCE_ID;
	bool good = !generation || (query_find(r->query, "generation", &value) && strict_u64(buf_slice(&value), &n) && n <= INT32_MAX);
	buf_done(&value);
	if (generation)
		g->generation = (int32_t)n;
	if (!good)
		answer_bad_request(r, "generation must be the number that the join gave");
	else if (g->instance.failed)
		answer_bad_request(r, "an id is at most %d bytes", ID_MAX);
	return good && !g->instance.failed;
}

/* ------------------------------------------------------------------ errors */

static const struct {
	Ipc__GroupError error;
	int status;
	const char *word, *message;
} wire[] = {
	{ IPC__GROUP_ERROR__LOADING, 503, "coordinator_unavailable", "the group is being read from the store; try again" },
	{ IPC__GROUP_ERROR__MEMBER_ID_REQUIRED, 400, "bad_request", "a member names its id" },
	{ IPC__GROUP_ERROR__UNKNOWN_MEMBER, 404, "unknown_member", "no such member of the group; join (again)" },
	{ IPC__GROUP_ERROR__ILLEGAL_GENERATION, 409, "illegal_generation", "the group is at another generation; join again" },
	{ IPC__GROUP_ERROR__REBALANCE_IN_PROGRESS, 409, "rebalance_in_progress", "the group changes its members; join again" },
	{ IPC__GROUP_ERROR__INCONSISTENT_PROTOCOL, 409, "inconsistent_protocol", "the members of this group speak another protocol" },
	{ IPC__GROUP_ERROR__INVALID_SESSION_TIMEOUT, 400, "bad_request",
	  "sessionTimeoutMs is not between --group-min-session-timeout-ms and --group-max-session-timeout-ms" },
	{ IPC__GROUP_ERROR__FENCED_INSTANCE, 403, "fenced", "another member has that instanceId" },
	{ IPC__GROUP_ERROR__GROUP_FULL, 429, "capacity_exceeded", "groups, members or their memory are at their bound" },
	{ IPC__GROUP_ERROR__INVALID_GROUP_ID, 400, "bad_request", "a group's id is 1 to 249 bytes" },
	{ IPC__GROUP_ERROR__GROUP_NOT_FOUND, 404, "not_found", "no such group" },
	{ IPC__GROUP_ERROR__GROUP_NOT_EMPTY, 409, "conflict", "the group has members" },
	{ IPC__GROUP_ERROR__GROUP_SUBSCRIBED, 409, "conflict", "members of the group read that stream" },
	{ IPC__GROUP_ERROR__METADATA_TOO_LARGE, 400, "bad_request", "metadata is larger than is kept" },
	{ IPC__GROUP_ERROR__UNKNOWN_TOPIC, 404, "not_found", "no such stream or partition" },
	{ IPC__GROUP_ERROR__INVALID_REQUEST, 400, "bad_request", "the coordinator refuses the request" },
};

static void answer_failed_call(struct request *r, const struct pico_error *e)
{
	switch (e->kind) {
	case PICO_UNAVAILABLE:
	case PICO_CANCELLED:
	case PICO_NOT_OWNER:
	case PICO_STALE_TOPIC:
		answer_error(r, 503, "coordinator_unavailable", e->message[0] != '\0' ? e->message : "not available now; try again", NULL);
		break;
	default:
		pico_answer_error(r, e);
	}
}

bool group_is_good(struct request *r, const struct pico_error *e, Ipc__GroupError of_answer)
{
	r->call = NULL;
	r->on_drain = NULL;
	if (e->kind != PICO_OK) {
		answer_failed_call(r, e);
		return false;
	}
	if (of_answer == IPC__GROUP_ERROR__NONE)
		return true;
	for (size_t i = 0; i < sizeof(wire) / sizeof(wire[0]); i++)
		if (wire[i].error == of_answer) {
			answer_error(r, wire[i].status, wire[i].word, wire[i].message, NULL);
			return false;
		}
	answer_error(r, 500, "internal", "internal error", NULL);
	return false;
}

/* ------------------------------------------------------------------ bytes */

ProtobufCBinaryData group_bytes(struct slice s)
{
	return (ProtobufCBinaryData){ .len = s.n, .data = (uint8_t *)(uintptr_t)s.p };
}

struct slice group_slice(ProtobufCBinaryData b)
{
	return slice_of(b.data != NULL ? b.data : (const uint8_t *)"", b.len);
}

void group_put_array(struct buf *out, ProtobufCBinaryData json)
{
	struct slice s = group_slice(json);
	if (s.n > 0 && s.p[0] == '[' && json_is_valid(s))
		buf_put_slice(out, s);
	else
		buf_put_str(out, "[]");
}
