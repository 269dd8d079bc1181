/* SPDX-License-Identifier: Apache-2.0
 *
 * The Pico protocol's handlers, one file a family, and what they share.
 */
#ifndef WORKER_HTTP_PICO_H
#define WORKER_HTTP_PICO_H

#include "worker-http/create_fields.h"
#include "worker-http/query.h"
#include "worker-http/request.h"

struct cors;

/* A parameter or number is at most this long once decoded. */
#define PICO_PARAM_MAX 16384

/* The route function of Pico listeners. */
void pico_route(struct request *r);

void pico_refuse_method(struct request *r, const char *methods); /* 405 */
extern const struct cors pico_cors;

void pico_create(struct request *r);    /* PUT /name */
void pico_append(struct request *r);    /* POST /name: append, close */
void pico_trim(struct request *r);      /* POST /name with Pico-Trim-Seq */
void pico_read(struct request *r);      /* GET /name */
void pico_head(struct request *r);      /* HEAD /name */
void pico_delete(struct request *r);    /* DELETE /name */
void pico_list(struct request *r);      /* GET / */
void pico_settings_get(struct request *r);      /* GET /_streams/NAME */
void pico_settings_patch(struct request *r);    /* PATCH /_streams/NAME */

extern const struct expiry_names pico_expiry_names;

/* The one function from a Topics error to the wire. */
void pico_answer_error(struct request *r, const struct pico_error *e);
/* A call is over: was it good? False: answered. */
bool pico_is_good(struct request *r, const struct pico_error *e);
/* 404 without a body. */
void pico_not_found(struct request *r);

/* Looks the request's stream up. */
void pico_call_get(struct request *r, topics_cb *cb);

/* ?partition=i. False when it was malformed, which is answered then. */
bool pico_partition(struct request *r, bool *ret_given, uint32_t *ret_partition);
/* A strict u64 of a header; empty or absent leaves ret_given false. False when malformed (answered). */
bool pico_u64_field(struct request *r, const char *name, const char *lower, bool *ret_given, uint64_t *ret_value);

/*
 * JSON batch (application/vnd.picomq.batch+json) into one record batch. 0; -EBADMSG with what is wrong in fault;
 * -ENOBUFS when `out` is at its bound.
 */
int pico_json_batch(struct slice doc, struct buf *out, uint32_t *ret_count, char *fault, size_t fault_size);
/* The same for a binary batch (application/vnd.picomq.batch); of no records, it leaves out alone and counts 0. */
int pico_binary_batch(struct slice body, struct buf *out, uint32_t *ret_count, char *fault, size_t fault_size);

#endif
