/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers of Durable Streams, one file a family, and what they share. doc/durable-streams.md says what is served.
 *
 * A stream is a topic of one partition. A POST of bytes is one record; of JSON, each message is one. An offset is the position of
 * a record, as 20 digits.
 */
#ifndef WORKER_HTTP_DS_H
#define WORKER_HTTP_DS_H

#include "worker-http/create_fields.h"
#include "worker-http/query.h"
#include "worker-http/request.h"

struct conf;

#define DS_PARAM_MAX 4096

/* The route function of Durable Streams listeners. */
void ds_route(struct request *r);

void ds_create(struct request *r);      /* PUT */
void ds_fork(struct request *r);        /* PUT with Stream-Forked-From */
void ds_append(struct request *r);      /* POST: append, close */
void ds_read(struct request *r);        /* GET */
void ds_head(struct request *r);        /* HEAD */
void ds_delete(struct request *r);      /* DELETE */

/* The one function from a Topics error to the wire. */
void ds_answer_error(struct request *r, const struct pico_error *e);
/* The same of a PUT. */
void ds_answer_put_error(struct request *r, const struct pico_error *e);
/* 201 or 200. */
void ds_answer_created(struct request *r, const Ipc__Topic *topic, bool created);
/* 409: no stream, because it has several partitions. */
void ds_answer_partitions(struct request *r);

extern const struct expiry_names ds_expiry_names;

/* Stream-Next-Offset. */
void ds_put_offset(struct request *r, uint64_t offset);
/* Content-Type, Stream-Next-Offset, TTL or expiry, Stream-Closed. */
void ds_put_topic(struct request *r, const Ipc__Topic *topic);
/* Scheme and host of the URLs that are handed out. */
void ds_put_base(const struct request *r, struct buf *out);
/* Location: an absolute URL, in the form that the client used. */
void ds_put_location(struct request *r);

/* 1 to 20 digits, `-1` or `now`. Beyond INT64_MAX it is INT64_MAX, which is beyond every end. */
bool ds_offset_parse(struct slice text, struct position *ret_position);
/* The topic that a path below or beside --ds-root means; part of it. */
struct slice ds_name_of(const struct conf *conf, struct slice path);

bool ds_is_json(struct slice content_type);
/*
 * The body as one batch: a record, or one a message when it is JSON; of no records it leaves out alone and counts 0. 0;
 * -EBADMSG with what is wrong in fault. out fails when it is at its bound.
 */
int ds_batch(struct slice body, bool json, struct buf *out, uint32_t *ret_count, char *fault, size_t fault_size);

#endif
