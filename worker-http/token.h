/* SPDX-License-Identifier: Apache-2.0
 *
 * Bearer tokens (RFC 6750) as bytes: base64url(id) "." base64url(32 random bytes), both without padding (RFC 4648 section 5).
 * Who checks one knows the secret's hash alone. Not for what a token allows: scope.h.
 */
#ifndef WORKER_HTTP_TOKEN_H
#define WORKER_HTTP_TOKEN_H

#include "common/buf.h"
#include "common/slice.h"

#define TOKEN_ID_MAX 96                 /* bytes, printable ASCII */
#define TOKEN_SECRET 32
#define TOKEN_HASH 32
#define TOKEN_WIRE_MAX 172              /* characters of the longest */

struct token {
	char id[TOKEN_ID_MAX + 1];
	uint8_t secret[TOKEN_SECRET];
};

bool token_id_is_legal(struct slice id);
/* 0 or -EBADMSG. The caller wipes the secret. */
int token_parse(struct slice wire, struct token *ret);
/* The value of an Authorization field: "Bearer TOKEN", the scheme in any case. 0 or -EBADMSG. */
int token_parse_field(struct slice field, struct token *ret);
void token_print(const struct token *t, struct buf *out);

/* SHA-256("picomq-access-token" ++ secret). */
void token_hash(const uint8_t secret[TOKEN_SECRET], uint8_t ret_hash[TOKEN_HASH]);
/* In constant time. */
bool token_hash_equal(const uint8_t a[TOKEN_HASH], const uint8_t b[TOKEN_HASH]);

#endif
