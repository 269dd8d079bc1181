/* SPDX-License-Identifier: Apache-2.0
 *
 * Signature Version 4: a hash of the request as both sides write it down, signed with a key that four HMACs
 * make of the secret, the day, the region and the service.
 *
 * Invariant: what is signed is what is sent; the caller puts the same strings on the wire.
 */
#include "storaged/objstore/s3_sign.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <time.h>

#include "common/must.h"

#define SECRET_MAX 200
#define CANONICAL_MAX (64u << 10)

static void to_hex(const uint8_t hash[32], char hex[S3_HASH_HEX])
{
	for (int i = 0; i < 32; i++)
		snprintf(hex + 2 * i, 3, "%02x", hash[i]);
}

void s3_hash_hex(const struct iovec *iov, int n_iov, char hex[S3_HASH_HEX])
{
	uint8_t hash[32];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	must(ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
	for (int i = 0; i < n_iov; i++)
		must(iov[i].iov_len == 0 || EVP_DigestUpdate(ctx, iov[i].iov_base, iov[i].iov_len) == 1);
	must(EVP_DigestFinal_ex(ctx, hash, NULL) == 1);
	EVP_MD_CTX_free(ctx);
	to_hex(hash, hex);
}

static void hmac(const void *key, size_t n_key, const char *text, size_t n, uint8_t hash[32])
{
	unsigned n_hash = 32;
	must(HMAC(EVP_sha256(), key, (int)n_key, (const uint8_t *)text, n, hash, &n_hash) != NULL && n_hash == 32);
}

void s3_time_text(int64_t wall_ms, char text[S3_TIME])
{
	time_t t = (time_t)(wall_ms / 1000);
	struct tm tm;
	must(gmtime_r(&t, &tm) != NULL && strftime(text, S3_TIME, "%Y%m%dT%H%M%SZ", &tm) == S3_TIME - 1);
}

void s3_encode(struct buf *out, const char *text, bool keep_slash)
{
	for (const char *p = text; *p != 0; p++) {
		uint8_t c = (uint8_t)*p;
		bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
			     c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
		if (plain)
			buf_put_u8(out, c);
		else
			buf_printf(out, "%%%02X", c);
	}
}

static void key_make(struct s3_signer *s, const char *secret, const char *date)
{
	char first[4 + SECRET_MAX + 1];
	uint8_t a[32], b[32];
	int n = snprintf(first, sizeof(first), "AWS4%s", secret);
	hmac(first, (size_t)n, date, 8, a);
	hmac(a, 32, s->region, strlen(s->region), b);
	hmac(b, 32, s->service, strlen(s->service), a);
	hmac(a, 32, "aws4_request", 12, s->key);
	memcpy(s->date, date, 8);
	strcpy(s->secret, secret);
	explicit_bzero(first, sizeof(first));
}

static void put_names(struct buf *out, const struct s3_to_sign *r)
{
	for (size_t i = 0; i < r->n_headers; i++)
		buf_printf(out, "%s%s", i > 0 ? ";" : "", r->headers[i].name);
}

static void put_canonical(struct buf *out, const struct s3_to_sign *r)
{
	buf_printf(out, "%s\n%s\n%s\n", r->method, r->path, r->query);
	for (size_t i = 0; i < r->n_headers; i++) {
		must(i == 0 || strcmp(r->headers[i - 1].name, r->headers[i].name) < 0);
		buf_printf(out, "%s:%s\n", r->headers[i].name, r->headers[i].value);
	}
	buf_put_str(out, "\n");
	put_names(out, r);
	buf_printf(out, "\n%s", r->payload_hash);
}

int s3_sign(struct s3_signer *s, const char *access_key, const char *secret, const struct s3_to_sign *r,
	    struct buf *out)
{
	char hash[S3_HASH_HEX], scope[200];
	uint8_t signature[32];
	struct buf text;
	must(strlen(r->time) == S3_TIME - 1);
	if (strlen(secret) > SECRET_MAX)
		return -EINVAL;
	if (strncmp(s->date, r->time, 8) != 0 || strcmp(s->secret, secret) != 0)
		key_make(s, secret, r->time);
	buf_init(&text, CANONICAL_MAX);
	put_canonical(&text, r);
	struct iovec iov = { buf_head(&text), buf_len(&text) };
	s3_hash_hex(&iov, 1, hash);
	snprintf(scope, sizeof(scope), "%.8s/%s/%s/aws4_request", r->time, s->region, s->service);
	bool failed = text.failed;
	buf_reset(&text, CANONICAL_MAX);
	buf_printf(&text, "AWS4-HMAC-SHA256\n%s\n%s\n%s", r->time, scope, hash);
	failed |= text.failed;
	hmac(s->key, 32, (const char *)buf_head(&text), buf_len(&text), signature);
	buf_done(&text);
	to_hex(signature, hash);
	buf_printf(out, "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=", access_key, scope);
	put_names(out, r);
	buf_printf(out, ",Signature=%s", hash);
	return failed ? -ENOBUFS : 0;
}
