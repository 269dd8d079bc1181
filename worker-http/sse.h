/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events (the HTML standard, "event stream interpretation") as bytes. No request and no socket: what
 * is written into a buffer here is the same for every reader of the same records.
 *
 * Lines end with LF; no space follows "data:", but for text that begins with one: a reader drops the first. A CR, LF or CRLF
 * in text begins a further "data:" line, so nothing in a record can end an event.
 */
#ifndef WORKER_HTTP_SSE_H
#define WORKER_HTTP_SSE_H

#include "common/buf.h"

#define SSE_TYPE "text/event-stream"
#define SSE_KEEP_ALIVE_MS 15000         /* a comment line after so long without an event */
#define SSE_GROWTH 6                    /* a byte of text becomes at most so many */

/* The data of one event, written in any number of pieces. */
struct sse_data {
	bool base64;                    /* bytes; else text */
	bool after_cr;                  /* an LF that follows belongs to it */
	bool in_line;                   /* not at the begin of a line of data */
	uint8_t rest[3];                /* base64: bytes that are no group of three yet */
	unsigned n_rest;
};

/* "event: NAME" and the begin of its data. */
void sse_begin(struct sse_data *d, const char *name, bool base64, struct buf *out);
void sse_put(struct sse_data *d, struct slice piece, struct buf *out);
/* Ends data and event. id: of the event, NULL for none. */
void sse_end(struct sse_data *d, const char *id, struct buf *out);

/* A comment: bytes that mean nothing, so that nobody between takes the connection for dead. */
void sse_keep_alive(struct buf *out);

#endif
