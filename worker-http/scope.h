/* SPDX-License-Identifier: Apache-2.0
 *
 * What a token allows. One function decides, scope_allows(): what a scope does not name is denied. A scope is JSON:
 *
 *   { "streams": [{"exact": "/a"}, {"prefix": "/b/"}], "tokens": [{"prefix": ""}],
 *     "groups": {"stream": {"read": true, "write": true}, "tokens": {...}, "admin": {...}}, "ops": ["read", "append"],
 *     "audiences": ["pico", "durable_streams", "admin"], "autoPrefixStreams": false, "expiresAtMs": null }
 *
 * A group is the operations of its kind, those that later releases add as well; so `ops` never cover a group. Unknown keys
 * and words are refused. A scope without audience, or without operation, allows nothing and is refused, too.
 */
#ifndef WORKER_HTTP_SCOPE_H
#define WORKER_HTTP_SCOPE_H

#include "common/buf.h"
#include "common/slice.h"

#define SCOPE_JSON_MAX 65536            /* bytes */
#define SCOPE_MATCHERS_MAX 1000         /* of streams, and of tokens */

enum scope_op {
	SCOPE_READ, SCOPE_HEAD, SCOPE_LIST,                                     /* group stream, read */
	SCOPE_CREATE, SCOPE_APPEND, SCOPE_TRIM, SCOPE_CLOSE, SCOPE_DELETE,      /* group stream, write */
	SCOPE_LIST_TOKENS,                                                      /* group tokens, read */
	SCOPE_ISSUE_TOKEN, SCOPE_REVOKE_TOKEN,                                  /* group tokens, write */
	SCOPE_CLUSTER_READ, SCOPE_NODE_READ, SCOPE_STREAM_INSPECT,              /* group admin, read */
	SCOPE_TRANSFER_STREAM, SCOPE_UPDATE_NODE_SLOTS,                         /* group admin, write */
	SCOPE_OPS
};
enum scope_audience { SCOPE_PICO, SCOPE_DURABLE_STREAMS, SCOPE_ADMIN, SCOPE_AUDIENCES };
enum scope_group {
	SCOPE_STREAM_READS, SCOPE_STREAM_WRITES, SCOPE_TOKEN_READS, SCOPE_TOKEN_WRITES, SCOPE_ADMIN_READS, SCOPE_ADMIN_WRITES,
	SCOPE_GROUPS
};

struct scope_matcher {
	struct slice text;              /* of scope->text */
	bool prefix;                    /* else exact */
};
struct scope_matchers {
	struct scope_matcher *item;     /* owned */
	size_t n;
};

struct scope {
	struct scope_matchers streams, tokens;
	uint32_t ops;                   /* a bit each enum scope_op; those of groups not among them */
	uint8_t groups, audiences;      /* likewise */
	bool auto_prefix;               /* names of streams are relative to the one prefix in `streams` */
	bool expires;
	int64_t expires_at_ms;          /* Unix epoch */
	struct buf text;                /* owned: decoded strings */
};

/* The word in JSON. */
const char *scope_op_word(enum scope_op op);

/* 0; -EBADMSG with what is wrong in fault, and nothing to free. */
int scope_parse(struct slice json, struct scope *ret, char *fault, size_t fault_size);
void scope_done(struct scope *s);

/*
 * Whether a token of that scope may do `op` to `resource` over a listener of that audience now. The resource is a path of a
 * stream (LIST: the prefix that is listed, all of which must be allowed), the id of a token, or p == NULL where an operation
 * has none.
 */
bool scope_allows(const struct scope *s, enum scope_audience audience, enum scope_op op, struct slice resource, int64_t now_ms);
bool scope_is_over(const struct scope *s, int64_t now_ms);

/* Whether child allows nothing that parent does not; else what it would, in fault. */
bool scope_covers(const struct scope *parent, const struct scope *child, char *fault, size_t fault_size);

#endif
