/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin listener's routes. No answer allows a foreign origin.
 */
#include "worker-http/admin.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/json_scan.h"
#include "common/must.h"
#include "worker-http/server.h"

#define READY_TIMEOUT_MS 1000   /* storaged answers within this or is not ready */

static bool stop_ready;

void admin_stop_ready(void)
{
	stop_ready = true;
}

static bool is_stopping(const struct request *r)
{
	const struct process_table *t = r->server->child->processes;
	return stop_ready || r->server->draining ||
		(t != NULL && __atomic_load_n(&t->stopping, __ATOMIC_ACQUIRE) != 0);
}

/* ------------------------------------------------------------------ GET /health */

/* A process that starts and dies over and over; NULL when there is none. */
static const struct process_entry *in_crash_loop(const struct process_table *t)
{
	for (size_t i = 0; t != NULL && i < METRICS_SLOTS; i++)
		if (__atomic_load_n(&t->slot[i].state, __ATOMIC_ACQUIRE) == PROCESS_BACKING_OFF)
			return &t->slot[i];
	return NULL;
}

static void get_health(struct request *r)
{
	const struct process_entry *p = in_crash_loop(r->server->child->processes);
	answer_field(r, "Content-Type", "text/plain; charset=utf-8");
	if (p != NULL)
		buf_printf(&r->answer.body, "%s dies again and again\n", process_role_name(p->kind));
	else
		buf_put_str(&r->answer.body, "ok\n");
	answer_send(r, p != NULL ? 503 : 200);
}

/* ------------------------------------------------------------------ GET /ready */

static void answer_ready(struct request *r, const Ipc__NodeStatusAnswer *a, const char *reason)
{
	static const Ipc__NodeStatusAnswer nothing = IPC__NODE_STATUS_ANSWER__INIT;
	struct buf *out = &r->answer.body;
	bool stopping = is_stopping(r);
	bool answered = a != NULL;
	if (!answered)
		a = &nothing;
	else
		reason = a->reason;
	if (stopping)
		reason = "stopping";
	bool ready = answered && a->ready && a->serving && !stopping;
	buf_printf(out, "{\"ready\":%s,\"serving\":%s,\"registered\":%s,\"appliedIndex\":%" PRIu64 ",\"nodeId\":%u,"
		   "\"reason\":", ready ? "true" : "false", a->serving && !stopping ? "true" : "false",
		   a->registered ? "true" : "false", a->applied_index,
		   answered ? a->node_id : (unsigned)r->server->conf->node_id);
	if (!ready && reason[0] == '\0')
		reason = "starting";
	json_put_string(out, utf8_is_valid(slice_str(reason)) ? slice_str(reason) : slice_str("not ready"));
	buf_put_str(out, "}\n");
	answer_field(r, "Content-Type", "application/json");
	answer_send(r, ready ? 200 : 503);
}

static void on_status(void *arg, const struct pico_error *error, const ProtobufCMessage *m,
		      struct topics_pieces *pieces)
{
	struct request *r = arg;
	r->call = NULL;
	if (error->kind == PICO_OK)
		answer_ready(r, (const Ipc__NodeStatusAnswer *)m, "");
	else
		answer_ready(r, NULL, "storaged does not answer");
}

static void get_ready(struct request *r)
{
	Ipc__NodeStatusRequest m = IPC__NODE_STATUS_REQUEST__INIT;
	m.deadline_ms = env_now_ms(r->server->env) + READY_TIMEOUT_MS;
	request_call(r, IPC_NODE_STATUS, &m.base, slice_of(NULL, 0), m.deadline_ms, on_status);
}

/* ------------------------------------------------------------------ the others */

static void get_metrics(struct request *r)
{
	admin_print_metrics(r->server, &r->answer.body);
	answer_field(r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
	answer_send(r, 200);
}

static void get_processes(struct request *r)
{
	admin_print_processes(r->server, &r->answer.body);
	answer_field(r, "Content-Type", "application/json");
	answer_send(r, 200);
}

/* A path that ends in '/' is a prefix: a name follows. */
static const struct {
	const char *path;
	void (*get)(struct request *r);         /* GET and HEAD; NULL: not known, as the others */
	void (*post)(struct request *r);
	void (*patch)(struct request *r);
} paths[] = {
	{ "/health", get_health, NULL, NULL },
	{ "/ready", get_ready, NULL, NULL },
	{ "/metrics", get_metrics, NULL, NULL },
	{ "/admin/processes", get_processes, NULL, NULL },
	{ "/admin/objects", admin_get_objects, NULL, NULL },
	{ "/admin/logs", admin_get_logs, NULL, NULL },
	{ "/admin/export", NULL, admin_post_export, NULL },
	{ "/admin/topics", admin_get_topics, NULL, NULL },
	{ ADMIN_STREAMS, admin_get_stream, NULL, NULL },
	{ ADMIN_CONFIGS, admin_get_configs, NULL, admin_patch_configs },
	{ "/admin/groups", admin_get_groups, NULL, NULL },
	{ ADMIN_GROUPS, admin_get_group, NULL, NULL },
};

static void refuse_method(struct request *r, size_t i)
{
	char allow[64];
	snprintf(allow, sizeof(allow), "%s%s%sOPTIONS", paths[i].get != NULL ? "GET, HEAD, " : "",
		 paths[i].post != NULL ? "POST, " : "", paths[i].patch != NULL ? "PATCH, " : "");
	answer_field(r, "Allow", allow);
	if (slice_is(r->method, "OPTIONS"))
		answer_send_empty(r, 204);
	else
		answer_error(r, 405, "method_not_allowed", "Allow names the methods that are known here", NULL);
}

static void handle_path(struct request *r, size_t i)
{
	if (paths[i].get != NULL && (slice_is(r->method, "GET") || r->is_head))
		paths[i].get(r);
	else if (paths[i].post != NULL && slice_is(r->method, "POST"))
		paths[i].post(r);
	else if (paths[i].patch != NULL && slice_is(r->method, "PATCH"))
		paths[i].patch(r);
	else
		refuse_method(r, i);
}

static bool is_path(struct slice path, const char *of)
{
	size_t n = strlen(of);
	return path.n >= n && memcmp(path.p, of, n) == 0 && (path.n == n || of[n - 1] == '/');
}

static void handle(struct request *r)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (is_path(r->path, paths[i].path)) {
			handle_path(r, i);
			return;
		}
	}
	answer_error(r, 404, "not_found", "no such path on the admin listener", NULL);
}

void admin_route(struct request *r)
{
	static const struct route route = { NULL, handle };
	r->route = &route;
	r->must_wait = true;
}
