/* SPDX-License-Identifier: Apache-2.0
 *
 * From method and path to handler. ROOT/NAME and /NAME are one topic, /NAME; the control plane below __ds comes before
 * every stream, in both forms.
 */
#include "worker-http/ds.h"

#include "common/topic_name.h"
#include "worker-http/cors.h"
#include "worker-http/server.h"
#include "worker-http/sub.h"

#define METHODS "GET, PUT, POST, DELETE, HEAD, OPTIONS"

static const struct cors cors = {
	.methods = METHODS,
	.request_headers = "Content-Type, Authorization, If-None-Match, Stream-TTL, Stream-Expires-At, Stream-Closed, Stream-Seq, "
		"Stream-Forked-From, Stream-Fork-Offset, Stream-Fork-Sub-Offset, Producer-Id, Producer-Epoch, Producer-Seq, "
		"X-Request-Id",
	.response_headers = "Stream-Next-Offset, Stream-Up-To-Date, Stream-Closed, Stream-Cursor, Stream-TTL, Stream-Expires-At, "
		"Stream-SSE-Data-Encoding, Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq, "
		"ETag, Location, Retry-After, X-Request-Id",
};

/* ------------------------------------------------------------------ names */

/* Is the path that, or below it? */
static bool is_below(struct slice path, const char *top, size_t n)
{
	return path.n >= n && memcmp(path.p, top, n) == 0 && (path.n == n || path.p[n] == '/');
}

struct slice ds_name_of(const struct conf *conf, struct slice path)
{
	size_t n = strlen(conf->ds_root);
	if (n == 0 || !is_below(path, conf->ds_root, n))
		return path;
	return path.n == n ? slice_str("/") : slice_of(path.p + n, path.n - n);
}

/* True when that was not a stream, or refused: it is answered. */
static bool refuse_path(struct request *r, bool writes)
{
	const char *fault = topic_path_fault(r->name);
	if (slice_is(r->name, "/"))
		answer_error(r, 404, "not_found", "name a stream in the path", NULL);
	else if (is_below(r->name, "/__ds", 5))
		sub_route(r);
	else if (fault != NULL)
		answer_bad_request(r, "%s", fault);
	else if (writes && topic_path_is_reserved(r->name))
		answer_error(r, 403, "permission_denied", "names of that kind are reserved", NULL);
	else
		return false;
	return true;
}

/* ------------------------------------------------------------------ routes */

static void route_put(struct request *r)
{
	if (!answer_encoded(r) && !refuse_path(r, true))
		ds_create(r);
}

static void route_post(struct request *r)
{
	if (!answer_encoded(r) && !refuse_path(r, true))
		ds_append(r);
}

static void route_get(struct request *r)
{
	if (!refuse_path(r, false))
		ds_read(r);
}

static void route_head(struct request *r)
{
	if (!refuse_path(r, false))
		ds_head(r);
}

static void route_delete(struct request *r)
{
	if (!refuse_path(r, true))
		ds_delete(r);
}

static void route_options(struct request *r)
{
	cors_preflight(r, &cors);
}

static void route_other(struct request *r)
{
	answer_field(r, "Allow", METHODS);
	answer_error(r, 405, "method_not_allowed", "the method is not known here", NULL);
}

static const struct route routes[] = {
	{ "GET", route_get }, { "POST", route_post }, { "PUT", route_put }, { "HEAD", route_head },
	{ "DELETE", route_delete }, { "OPTIONS", route_options }, { NULL, route_other },
};

void ds_route(struct request *r)
{
	const struct route *route = routes;
	while (route->method != NULL && !slice_is(r->method, route->method))
		route++;
	r->route = route;
	r->name = ds_name_of(r->server->conf, r->path);
	/* Appends may run side by side; one that closes keeps its place. */
	r->must_wait = route->handle != route_post || request_field(r, "stream-closed").n > 0;
	cors_fields(r, &cors);
}
