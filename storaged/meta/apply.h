/* SPDX-License-Identifier: Apache-2.0
 *
 * One function a command, for the table in apply.c, and what they share. Each looks first and changes then: what it refuses
 * changes nothing. `one` begins empty and gets the error, or what was done.
 */
#ifndef STORAGED_META_APPLY_H
#define STORAGED_META_APPLY_H

#include "storaged/meta/state_priv.h"

/* apply_topic.c */
void apply_create_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_close_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_delete_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* NULL when it is good. */
const char *apply_config_fault(Meta__Config *const *config, size_t n);
const char *apply_alias_fault(const char *alias);
/* The topic of that id; NULL and refused when there is none. */
struct state_topic *apply_named_topic(const struct state *s, const ProtobufCBinaryData *id, Meta__Result__One *one);
/* Owners of n new partitions: those given, else by placement, the first one's on `first` when that is not NULL. False:
 * no node takes any. */
bool apply_choose_owners(struct state *s, const uint32_t *given, struct state_node *first,
			 Meta__PartitionEntity *partition, size_t n);
/* apply_settings.c */
void apply_update_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_grow_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* apply_fork.c: NULL and refused when the fork cannot be. */
const struct state_topic *apply_fork_source(const struct state *s, const struct sql_row *row, const Meta__CreateTopic *c,
					    Meta__Result__One *one);
/* What a new topic has from its source; owners are chosen, all n partitions initialised. */
void apply_fork_fill(const struct state_topic *source, const Meta__CreateTopic *c, Meta__TopicEntity *e);
void apply_fork_compare(const struct state_topic *t, const Meta__CreateTopic *c, Meta__Result__One *one);
/* apply_objects.c */
void apply_commit_objects(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_objects_deleted(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* apply_trim.c */
void apply_trim_many(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_expire_topic(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_touch_expiry(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* apply_kv.c */
void apply_put_kv(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
void apply_delete_kv(struct state *s, const struct sql_row *row, const Meta__Command *c, Meta__Result__One *one);
/* apply.c */
/* What a check says, as an error; frees what it left in `one`. */
void apply_checked(Meta__Result__One *one, struct pico_error *ret_error);
void apply_refuse(Meta__Result__One *one, enum pico_error_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void apply_bytes(ProtobufCBinaryData *ret, const void *p, size_t n);

#endif
