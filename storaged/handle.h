/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers of storaged, one a row of ipc_msg.def (those of many partitions stand in parts.h), and what some of
 * them share. Each answers its call once, now or later.
 */
#ifndef STORAGED_HANDLE_H
#define STORAGED_HANDLE_H

#include "storaged/op.h"

/* handle_topic.c */
void handle_get(struct node *n, struct call *c);
void handle_delete(struct node *n, struct call *c);
/* What the role admin is shown besides of a message with all of a topic's partitions. */
void topic_message_add_bytes(const struct node *n, const struct state_topic *t, struct topic_message *m);
/* handle_names.c */
void handle_list(struct node *n, struct call *c);
void handle_list_kafka(struct node *n, struct call *c);
void handle_get_many(struct node *n, struct call *c);
/* handle_create.c */
void handle_create(struct node *n, struct call *c);
void handle_create_many(struct node *n, struct call *c);
/* handle_fork.c */
void handle_fork(struct node *n, struct call *c);
/* handle_settings.c */
void handle_update(struct node *n, struct call *c);
void handle_grow(struct node *n, struct call *c);
/* handle_close.c */
void handle_close(struct node *n, struct call *c);
/* handle_append.c, handle_read.c */
void handle_append(struct node *n, struct call *c);
void handle_read(struct node *n, struct call *c);
void handle_wait(struct node *n, struct call *c);
void handle_offsets(struct node *n, struct call *c);
/* handle_trim.c */
void handle_trim(struct node *n, struct call *c);
/* handle_kv.c */
void handle_kv_get(struct node *n, struct call *c);
void handle_kv_put(struct node *n, struct call *c);
void handle_kv_delete(struct node *n, struct call *c);
void handle_kv_list(struct node *n, struct call *c);
void handle_kv_watch(struct node *n, struct call *c);
/* A key was put or deleted: those who wait for it are answered. */
void kv_changed(struct node *n, const char *key);
/* handle_node.c */
void handle_node_status(struct node *n, struct call *c);
void handle_nodes(struct node *n, struct call *c);
void handle_resume(struct node *n, struct call *c);
/* handle_admin.c */
void handle_objects(struct node *n, struct call *c);
void handle_logs(struct node *n, struct call *c);
void handle_export(struct node *n, struct call *c);

/* Configs as a request has them, checked against topic_config.def; what names a schema is taken out: it is a setting of
 * its own. Strings are the request's. */
struct config_taken {
	Meta__Config *config;           /* owned, as is pointer */
	Meta__Config **pointer;
	size_t n;
	char *schema;                   /* NULL: not named */
	bool has_validate, validate;
};
/* False: refused, and *ret_error names the config; there is nothing to free then. */
bool config_take(Ipc__ConfigEntry *const *entry, size_t n, struct config_taken *ret, struct pico_error *ret_error);
void config_taken_done(struct config_taken *t);

#endif
