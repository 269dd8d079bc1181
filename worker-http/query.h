/* SPDX-License-Identifier: Apache-2.0
 *
 * The small grammars of the Pico protocol: strict numbers, query parameters, positions, lists of
 * entity tags, percent-encoding.
 */
#ifndef WORKER_HTTP_QUERY_H
#define WORKER_HTTP_QUERY_H

#include "common/buf.h"
#include "common/slice.h"

/* ASCII digits, no leading zero unless the value is exactly "0", fits u64. */
bool strict_u64(struct slice s, uint64_t *ret_value);

/*
 * The first `key` of a query string, percent-decoded ('+' is a space, a malformed escape stays as it
 * is, bytes that are not UTF-8 become U+FFFD). Keys are matched as they stand. False when absent;
 * else ret_value is reset and filled.
 */
bool query_find(struct slice query, const char *key, struct buf *ret_value);

/* The n-th, from 0. */
bool query_find_nth(struct slice query, const char *key, unsigned n, struct buf *ret_value);

/* How often it is there. */
unsigned query_count(struct slice query, const char *key);

/* Appends s percent-decoded; a malformed escape stays as it is. */
void percent_decode(struct slice s, bool plus_is_space, struct buf *out);

struct position {
	bool tail;                      /* `now` */
	int64_t from;                   /* negative: the current start */
};
/* `now` in any case, or a signed decimal that fits i64 (leading zeros are fine). */
bool position_parse(struct slice s, struct position *ret_position);

/* Does If-None-Match name this tag (quotes and all)? Lists, W/ and * are understood. */
bool etag_matches(struct slice if_none_match, struct slice etag);

#endif
