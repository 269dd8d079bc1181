/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin listener: health, readiness, metrics, processes; storage; topics, their configs, consumer groups.
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

/* admin_topics.c: GET /admin/topics and /admin/streams/NAME. */
#define ADMIN_STREAMS "/admin/streams/"
void admin_get_topics(struct request *r);
void admin_get_stream(struct request *r);

/* admin_configs.c: GET and PATCH /admin/configs/NAME. */
#define ADMIN_CONFIGS "/admin/configs/"
void admin_get_configs(struct request *r);
void admin_patch_configs(struct request *r);

/* admin_groups.c: GET /admin/groups and /admin/groups/GROUP. */
#define ADMIN_GROUPS "/admin/groups/"
void admin_get_groups(struct request *r);
void admin_get_group(struct request *r);

/* admin_query.c. What returns false, or NULL, has answered. */
/* 200 with what is in answer.body, as JSON. */
void admin_answer(struct request *r);
/* A parameter that is a number; 0 where it is absent. */
bool admin_number(struct request *r, const char *key, uint64_t *ret_value);
/* One that is text, owned; empty where it is absent. */
bool admin_text(struct request *r, const char *key, char **ret_text);
/* The path behind prefix, which it has, percent-decoded; owned, not empty. */
char *admin_rest(struct request *r, const char *prefix);
/* JSON strings: bytes as hexadecimal digits; text, where what is not UTF-8 is shown as U+FFFD. */
void admin_put_hex(struct buf *out, const uint8_t *p, size_t n);
void admin_put_text(struct buf *out, struct slice s);

#endif
