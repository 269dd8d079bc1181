/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens to and from their text, and the hash that is kept of one.
 */
#include "worker-http/token.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "common/base64.h"
#include "common/must.h"

#define HASH_PREFIX "picomq-access-token"

bool token_id_is_legal(struct slice id)
{
	for (size_t i = 0; i < id.n; i++)
		if (id.p[i] <= ' ' || id.p[i] >= 0x7f)
			return false;
	return id.n >= 1 && id.n <= TOKEN_ID_MAX;
}

static int decode_parts(struct slice id, struct slice secret, struct token *ret)
{
	struct buf out;
	buf_init(&out, TOKEN_WIRE_MAX);
	int err = base64url_decode(id, &out);
	size_t n = buf_len(&out);
	if (err == 0)
		err = base64url_decode(secret, &out);
	if (err == 0 && (!token_id_is_legal(slice_of(buf_head(&out), n)) || buf_len(&out) != n + TOKEN_SECRET))
		err = -EBADMSG;
	if (err == 0) {
		*ret = (struct token){ 0 };
		memcpy(ret->id, buf_head(&out), n);
		memcpy(ret->secret, buf_head(&out) + n, TOKEN_SECRET);
	}
	OPENSSL_cleanse(buf_head(&out), buf_len(&out));
	buf_done(&out);
	return err;
}

int token_parse(struct slice wire, struct token *ret)
{
	const uint8_t *dot = wire.n > TOKEN_WIRE_MAX || wire.n == 0 ? NULL : memchr(wire.p, '.', wire.n);
	if (dot == NULL)
		return -EBADMSG;
	size_t n = (size_t)(dot - wire.p);
	return decode_parts(slice_of(wire.p, n), slice_of(dot + 1, wire.n - n - 1), ret);
}

int token_parse_field(struct slice field, struct token *ret)
{
	static const char scheme[] = "Bearer ";
	size_t n = sizeof(scheme) - 1;
	if (field.n <= n || strncasecmp((const char *)field.p, scheme, n) != 0)
		return -EBADMSG;
	while (n < field.n && field.p[n] == ' ')
		n++;
	return token_parse(slice_of(field.p + n, field.n - n), ret);
}

void token_print(const struct token *t, struct buf *out)
{
	base64url_put(out, slice_str(t->id));
	buf_put_u8(out, '.');
	base64url_put(out, slice_of(t->secret, TOKEN_SECRET));
}

void token_hash(const uint8_t secret[TOKEN_SECRET], uint8_t ret_hash[TOKEN_HASH])
{
	uint8_t all[sizeof(HASH_PREFIX) - 1 + TOKEN_SECRET];
	memcpy(all, HASH_PREFIX, sizeof(HASH_PREFIX) - 1);
	memcpy(all + sizeof(HASH_PREFIX) - 1, secret, TOKEN_SECRET);
	must(EVP_Digest(all, sizeof(all), ret_hash, NULL, EVP_sha256(), NULL) == 1);
	OPENSSL_cleanse(all, sizeof(all));
}

bool token_hash_equal(const uint8_t a[TOKEN_HASH], const uint8_t b[TOKEN_HASH])
{
	return CRYPTO_memcmp(a, b, TOKEN_HASH) == 0;
}
