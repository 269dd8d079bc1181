/* SPDX-License-Identifier: Apache-2.0
 *
 * From method and path to handler, and what holds for every Pico request: CORS, Content-Encoding,
 * names, reserved names, and what later releases bring, which is refused by name and never ignored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "common/topic_name.h"
#include "worker-http/cors.h"
#include "worker-http/pico.h"
#include "worker-http/pico_group.h"
#include "worker-http/server.h"

#define RESPONSE_HEADERS \
	"Pico-Start-Seq, Pico-Next-Seq, Pico-Timestamp, Pico-Closed, Pico-Up-To-Date, Pico-Cursor, Pico-TTL, " \
	"Pico-Expires-At, Pico-Producer-Epoch, Pico-Producer-Seq, Pico-Expected-Seq, Pico-Received-Seq, " \
	"Pico-Partition, Pico-Partitions, Pico-Kafka-Topic, Pico-Retention-Ms, Pico-Retention-Bytes, ETag, Location, Retry-After, X-Request-Id"
#define REQUEST_HEADERS \
	"Content-Type, Authorization, If-None-Match, Last-Event-ID, Pico-TTL, Pico-Expires-At, Pico-Closed, " \
	"Pico-Match-Seq, Pico-Trim-Seq, Pico-Producer-Id, Pico-Producer-Epoch, Pico-Producer-Seq, Pico-Key, " \
	"Pico-Header, Pico-Partitions, Pico-Kafka-Topic, Pico-Retention-Ms, Pico-Retention-Bytes, X-Request-Id"
#define METHODS "GET, PUT, POST, DELETE, HEAD, OPTIONS"
#define SETTINGS_METHODS "GET, PATCH, HEAD, OPTIONS"

const struct cors pico_cors = { METHODS, REQUEST_HEADERS, RESPONSE_HEADERS };

/* ------------------------------------------------------------------ what every request may be refused for */

static bool is_later_field(struct slice name)
{
	static const char prefix[] = "pico-schema";
	const size_t n = sizeof(prefix) - 1;
	return name.n >= n && http1_is_word(slice_of(name.p, n), prefix);
}

/* True when a header of a later release was refused. */
static bool refuse_later(struct request *r)
{
	for (unsigned i = 0; i < r->n_fields; i++) {
		if (r->field[i].value.n == 0 || !is_later_field(r->field[i].name))
			continue;
		char name[64];
		snprintf(name, sizeof(name), "%.*s", (int)r->field[i].name.n, (const char *)r->field[i].name.p);
		answer_not_supported(r, name);
		return true;
	}
	return false;
}

/* Is the path that, or below it? */
static bool path_is_below(const struct request *r, const char *top)
{
	size_t n = strlen(top);
	return r->path.n >= n && memcmp(r->path.p, top, n) == 0 && (r->path.n == n || r->path.p[n] == '/');
}

void pico_refuse_method(struct request *r, const char *methods)
{
	answer_field(r, "Allow", methods);
	answer_error(r, 405, "method_not_allowed", "the method is not known here", NULL);
}

static bool is_settings(const struct request *r)
{
	return path_is_below(r, "/_streams");
}

/* True when it was refused. Settings of streams are no streams themselves. */
static bool refuse_path(struct request *r, bool writes)
{
	static const char later[] = "/_schemas";
	const char *fault = topic_path_fault(r->path);
	if (path_is_below(r, later)) {
		answer_not_supported(r, later);
		return true;
	}
	if (is_settings(r)) {
		pico_refuse_method(r, SETTINGS_METHODS);
		return true;
	}
	if (fault != NULL)
		answer_bad_request(r, "%s", fault);
	else if (writes && topic_path_is_reserved(r->path))
		answer_error(r, 403, "permission_denied", "names of that kind are reserved", NULL);
	else
		return false;
	return true;
}

/* ------------------------------------------------------------------ routes */

static void route_put(struct request *r)
{
	if (slice_is(r->path, "/"))
		answer_bad_request(r, "cannot create the root stream");
	else if (!answer_encoded(r) && !refuse_later(r) && !refuse_path(r, true))
		pico_create(r);
}

static void route_post(struct request *r)
{
	if (slice_is(r->path, "/"))
		answer_bad_request(r, "no stream in path");
	else if (answer_encoded(r) || refuse_later(r) || refuse_path(r, true))
		return;
	else if (request_field(r, "pico-trim-seq").n > 0)
		pico_trim(r);
	else
		pico_append(r);
}

static void route_get(struct request *r)
{
	if (slice_is(r->path, "/"))
		pico_list(r);
	else if (is_settings(r))
		pico_settings_get(r);
	else if (!refuse_path(r, false))
		pico_read(r);
}

static void route_head(struct request *r)
{
	if (slice_is(r->path, "/"))
		pico_list(r);
	else if (is_settings(r))
		pico_settings_get(r);
	else if (!refuse_path(r, false))
		pico_head(r);
}

static void route_delete(struct request *r)
{
	if (!refuse_path(r, true))
		pico_delete(r);
}

static void route_patch(struct request *r)
{
	if (!is_settings(r)) {
		if (slice_is(r->path, "/") || !refuse_path(r, false))
			pico_refuse_method(r, METHODS);
	} else if (!answer_encoded(r)) {
		pico_settings_patch(r);
	}
}

static void route_options(struct request *r)
{
	struct cors allowed = pico_cors;
	if (is_settings(r))
		allowed.methods = SETTINGS_METHODS;
	cors_preflight(r, &allowed);
}

static void route_other(struct request *r)
{
	if (slice_is(r->path, "/") || !refuse_path(r, false))
		pico_refuse_method(r, METHODS);
}

static const struct route routes[] = {
	{ "GET", route_get }, { "POST", route_post }, { "PUT", route_put }, { "HEAD", route_head },
	{ "DELETE", route_delete }, { "PATCH", route_patch }, { "OPTIONS", route_options }, { NULL, route_other },
};

static const struct route groups = { NULL, pico_group };

void pico_route(struct request *r)
{
	const struct route *route = path_is_below(r, "/_groups") ? &groups : routes;
	while (route->method != NULL && !slice_is(r->method, route->method))
		route++;
	r->route = route;
	r->name = r->path;
	/* A close without records and a trim are commands of their own and keep their place; appends may run side by side. */
	r->must_wait = route->handle != route_post || request_field(r, "pico-closed").n > 0 ||
		request_field(r, "pico-trim-seq").n > 0;
	cors_fields(r, &pico_cors);
}

/* ------------------------------------------------------------------ what handlers share */

bool pico_partition(struct request *r, bool *ret_given, uint32_t *ret_partition)
{
	struct buf value;
	uint64_t partition = 0;
	buf_init(&value, PICO_PARAM_MAX);
	*ret_given = query_find(r->query, "partition", &value) && buf_len(&value) > 0;
	bool good = !*ret_given || (strict_u64(buf_slice(&value), &partition) && partition <= UINT32_MAX);
	buf_done(&value);
	*ret_partition = (uint32_t)partition;
	if (!good)
		answer_bad_request(r, "partition must be a number from 0");
	return good;
}

bool pico_u64_field(struct request *r, const char *name, const char *lower, bool *ret_given, uint64_t *ret_value)
{
	struct slice value = request_field(r, lower);
	*ret_given = value.n > 0;
	if (value.n == 0 || strict_u64(value, ret_value))
		return true;
	answer_bad_request(r, "%s must be a number without sign or leading zeros", name);
	return false;
}
