/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin listener: health, readiness, metrics, processes.
 */
#ifndef WORKER_HTTP_ADMIN_H
#define WORKER_HTTP_ADMIN_H

#include "worker-http/request.h"

/* The route function of admin listeners. */
void admin_route(struct request *r);
/* A stop has begun: /ready is 503 from now on. */
void admin_stop_ready(void);

/* GET /metrics and GET /admin/processes: what they print. */
void admin_print_metrics(const struct server *s, struct buf *out);
void admin_print_processes(const struct server *s, struct buf *out);

/* admin_storage.c: GET /admin/objects, GET /admin/logs, POST /admin/export. */
void admin_get_objects(struct request *r);
void admin_get_logs(struct request *r);
void admin_post_export(struct request *r);

#endif
