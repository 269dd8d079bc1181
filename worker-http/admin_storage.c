/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /admin/objects and /admin/logs: pages of the catalogue and of the logs, as storaged gives them; POST /admin/export:
 * the metadata goes to the store now.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "common/json_scan.h"
#include "worker-http/admin.h"
#include "worker-http/pico.h"
#include "worker-http/server.h"

#define EXPORT_TIMEOUT_MS 300000        /* a large cluster's */

/* ---------------------------------------------------------------------- objects */

static void print_object(struct buf *out, const Ipc__ObjectsAnswer__Object *o)
{
	buf_printf(out, "{\"key\":\"%s\",\"origin\":%u,\"level\":%u,\"run\":%" PRIu64 ",\"firstLog\":%" PRIu64 ",\"lastLog\":%"
		   PRIu64 ",\"bytes\":%" PRIu64 ",\"oldestMs\":%" PRId64 ",\"newestMs\":%" PRId64, o->key, o->origin, o->level,
		   o->run, o->first_log, o->last_log, o->bytes, o->oldest_ms, o->newest_ms);
	if (o->level == 3)
		buf_printf(out, ",\"firstOffset\":%" PRIu64 ",\"endOffset\":%" PRIu64, o->first_offset, o->end_offset);
	if (o->marked)
		buf_printf(out, ",\"removedMs\":%" PRId64, o->marked_ms);
	buf_put_u8(out, '}');
}

static void on_objects(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__ObjectsAnswer *a = (const Ipc__ObjectsAnswer *)m;
	struct buf *out = &r->answer.body;
	if (!pico_is_good(r, error))
		return;
	buf_put_str(out, "{\"objects\":[");
	for (size_t i = 0; i < a->n_objects; i++) {
		if (i > 0)
			buf_put_u8(out, ',');
		print_object(out, a->objects[i]);
	}
	buf_printf(out, "],\"hasMore\":%s,\"objectCount\":%" PRIu64 ",\"liveBytes\":%" PRIu64 "}\n", a->has_more ? "true" : "false",
		   a->n_catalogued, a->bytes);
	admin_answer(r);
}

void admin_get_objects(struct request *r)
{
	Ipc__ObjectsRequest m = IPC__OBJECTS_REQUEST__INIT;
	char *after;
	uint64_t limit;
	if (!admin_number(r, "limit", &limit) || !admin_text(r, "start_after", &after))
		return;
	m.start_after = after;
	m.limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_OBJECTS, &m.base, slice_of(NULL, 0), m.deadline_ms, on_objects);
	free(after);
}

/* ------------------------------------------------------------------------- logs */

static void print_log(struct buf *out, const Ipc__LogsAnswer__Log *l)
{
	buf_printf(out, "{\"logId\":%" PRIu64 ",\"topic\":", l->log_id);
	json_put_string(out, slice_str(l->topic));
	buf_printf(out, ",\"partition\":%u,\"owner\":%u,\"epoch\":%u,\"start\":%" PRIu64, l->partition, l->owner, l->epoch, l->start);
	if (l->local)
		buf_printf(out, ",\"confirm\":%" PRIu64 ",\"next\":%" PRIu64, l->confirm, l->next);
	buf_printf(out, ",\"closed\":%s%s}", l->closed ? "true" : "false", l->soft_deleted ? ",\"softDeleted\":true" : "");
}

static void on_logs(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__LogsAnswer *a = (const Ipc__LogsAnswer *)m;
	struct buf *out = &r->answer.body;
	if (!pico_is_good(r, error))
		return;
	buf_put_str(out, "{\"logs\":[");
	for (size_t i = 0; i < a->n_logs; i++) {
		if (i > 0)
			buf_put_u8(out, ',');
		print_log(out, a->logs[i]);
	}
	buf_printf(out, "],\"hasMore\":%s}\n", a->has_more ? "true" : "false");
	admin_answer(r);
}

void admin_get_logs(struct request *r)
{
	Ipc__LogsRequest m = IPC__LOGS_REQUEST__INIT;
	uint64_t limit;
	if (!admin_number(r, "limit", &limit) || !admin_number(r, "start_after", &m.start_after))
		return;
	m.limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
	m.deadline_ms = request_deadline(r);
	request_call(r, IPC_LOGS, &m.base, slice_of(NULL, 0), m.deadline_ms, on_logs);
}

/* ----------------------------------------------------------------------- export */

static void on_export(void *arg, const struct pico_error *error, const ProtobufCMessage *m, struct topics_pieces *pieces)
{
	struct request *r = arg;
	const Ipc__ExportAnswer *a = (const Ipc__ExportAnswer *)m;
	if (!pico_is_good(r, error))
		return;
	buf_printf(&r->answer.body, "{\"key\":\"meta/%016" PRIx64 "\",\"idx\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n", a->idx, a->idx,
		   a->bytes);
	admin_answer(r);
}

void admin_post_export(struct request *r)
{
	Ipc__ExportRequest m = IPC__EXPORT_REQUEST__INIT;
	m.deadline_ms = env_now_ms(r->server->env) + EXPORT_TIMEOUT_MS;
	request_call(r, IPC_EXPORT, &m.base, slice_of(NULL, 0), m.deadline_ms, on_export);
}
