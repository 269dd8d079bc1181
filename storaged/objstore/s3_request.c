/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests written down and signed: host, all x-amz-* headers and those that the caller gave are signed. Over TLS
 * the payload is not hashed but has a CRC; over plain http it is hashed, and the hash is signed.
 */
#include "storaged/objstore/s3_request.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base64.h"
#include "common/crc32c.h"
#include "common/must.h"

#define TEXT_MAX (16u << 10)

/* What is asked */

void s3_request_init(struct s3_request *r, const char *method, const char *prefix, const char *key)
{
	*r = (struct s3_request){ .method = method };
	if (key != NULL && asprintf(&r->key, "%s%s", prefix, key) < 0)
		abort();
}

void s3_request_done(struct s3_request *r)
{
	for (unsigned i = 0; i < r->n_query; i++)
		free(r->query[i].value);
	for (unsigned i = 0; i < r->n_headers; i++)
		free(r->header[i].value);
	free(r->key);
	free(r->iov);
	if (r->text.max > 0)
		buf_done(&r->text);
}

void s3_request_query(struct s3_request *r, const char *name, const char *value)
{
	must(r->n_query < S3_QUERY_MAX);
	must(r->n_query == 0 || strcmp(r->query[r->n_query - 1].name, name) < 0);
	r->query[r->n_query++] = (struct s3_query){ name, must_strdup(value) };
}

void s3_request_header(struct s3_request *r, const char *name, const char *fmt, ...)
{
	char *value;
	va_list ap;
	must(r->n_headers < S3_HEADERS_MAX);
	va_start(ap, fmt);
	must(vasprintf(&value, fmt, ap) >= 0);
	va_end(ap);
	r->header[r->n_headers++] = (struct s3_query){ name, value };
}

void s3_request_body(struct s3_request *r, const struct iovec *iov, int n_iov)
{
	r->has_body = true;
	r->iov = must_memdup(iov, (size_t)n_iov * sizeof(*iov));
	r->n_iov = n_iov;
	for (int i = 0; i < n_iov; i++)
		r->body_len += iov[i].iov_len;
}

void s3_request_text(struct s3_request *r, struct buf text)
{
	must(!text.failed);
	r->text = text;
	s3_request_body(r, &(struct iovec){ buf_head(&r->text), buf_len(&r->text) }, 1);
}

/* How it is written */

struct writer {
	const struct s3_request *request;
	const struct s3_config *config;
	struct s3_header header[S3_HEADERS_MAX + 8];
	size_t n_headers;
	struct buf path, query, authorization;
	char time[S3_TIME], hash[S3_HASH_HEX], crc[9], md5[25];
};

static void header_add(struct writer *w, const char *name, const char *value)
{
	must(w->n_headers < sizeof(w->header) / sizeof(w->header[0]));
	size_t i = w->n_headers++;
	for (; i > 0 && strcmp(w->header[i - 1].name, name) > 0; i--)
		w->header[i] = w->header[i - 1];
	w->header[i] = (struct s3_header){ name, value };
}

static void base64_text(const uint8_t *p, size_t n, char *to, size_t size)
{
	struct buf b;
	buf_init(&b, size);
	base64_put(&b, slice_of(p, n));
	must(!b.failed && buf_len(&b) < size);
	memcpy(to, buf_head(&b), buf_len(&b));
	to[buf_len(&b)] = 0;
	buf_done(&b);
}

void s3_request_crc(const struct s3_request *r, char text[9])
{
	uint32_t crc = crc32c(NULL, 0);
	for (int i = 0; i < r->n_iov; i++)
		crc = crc32c_extend(crc, r->iov[i].iov_base, r->iov[i].iov_len);
	uint8_t bytes[4] = { (uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8), (uint8_t)crc };
	base64_text(bytes, 4, text, 9);
}

/* Some stores know no newer checksum of a list of deletes. */
static void md5_text(const struct s3_request *r, char text[25])
{
	uint8_t hash[16];
	must(r->n_iov == 1 && EVP_Digest(r->iov[0].iov_base, r->iov[0].iov_len, hash, NULL, EVP_md5(), NULL) == 1);
	base64_text(hash, 16, text, 25);
}

static void write_headers(struct writer *w, const struct s3_keys *keys)
{
	const struct s3_request *r = w->request;
	header_add(w, "host", w->config->host);
	header_add(w, "x-amz-date", w->time);
	header_add(w, "x-amz-content-sha256", w->hash);
	if (keys->token[0] != 0)
		header_add(w, "x-amz-security-token", keys->token);
	for (unsigned i = 0; i < r->n_headers; i++)
		header_add(w, r->header[i].name, r->header[i].value);
	if (r->checksum) {
		s3_request_crc(r, w->crc);
		header_add(w, "x-amz-checksum-crc32c", w->crc);
	}
	if (r->md5) {
		md5_text(r, w->md5);
		header_add(w, "content-md5", w->md5);
	}
}

static void write_place(struct writer *w)
{
	const struct s3_request *r = w->request;
	buf_put_str(&w->path, w->config->root);
	buf_put_str(&w->path, "/");
	if (r->key != NULL)
		s3_encode(&w->path, r->key, true);
	for (unsigned i = 0; i < r->n_query; i++) {
		buf_printf(&w->query, "%s%s=", i > 0 ? "&" : "", r->query[i].name);
		s3_encode(&w->query, r->query[i].value, false);
	}
	buf_put_u8(&w->path, 0);
	buf_put_u8(&w->query, 0);
}

static void put_line(struct s3_written *ret, const char *name, const char *value)
{
	char *line;
	must(asprintf(&line, "%s: %s", name, value) >= 0);
	struct curl_slist *list = curl_slist_append(ret->headers, line);
	must(list != NULL);
	ret->headers = list;
	explicit_bzero(line, strlen(line));
	free(line);
}

static void write_out(struct writer *w, struct s3_written *ret)
{
	const char *path = (const char *)buf_head(&w->path), *query = (const char *)buf_head(&w->query);
	*ret = (struct s3_written){ 0 };
	must(asprintf(&ret->url, "%s%s%s%s", w->config->base, path, query[0] != 0 ? "?" : "", query) >= 0);
	for (size_t i = 0; i < w->n_headers; i++)
		put_line(ret, w->header[i].name, w->header[i].value);
	put_line(ret, "authorization", (const char *)buf_head(&w->authorization));
	/* What curl would add. */
	static const char *const none[] = { "Expect:", "Content-Type:", "Accept:" };
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct curl_slist *list = curl_slist_append(ret->headers, none[i]);
		must(list != NULL);
		ret->headers = list;
	}
}

int s3_request_write(const struct s3_request *r, const struct s3_config *c, struct s3_signer *signer,
		     const struct s3_keys *keys, int64_t wall_ms, struct s3_written *ret)
{
	struct writer w = { .request = r, .config = c };
	buf_init(&w.path, TEXT_MAX);
	buf_init(&w.query, TEXT_MAX);
	buf_init(&w.authorization, TEXT_MAX);
	s3_time_text(wall_ms, w.time);
	if (c->tls)
		strcpy(w.hash, S3_UNSIGNED_PAYLOAD);
	else
		s3_hash_hex(r->iov, r->n_iov, w.hash);
	write_headers(&w, keys);
	write_place(&w);
	int rc = w.path.failed || w.query.failed ? -ENOBUFS : 0;
	struct s3_to_sign s = {
		.method = r->method, .headers = w.header, .n_headers = w.n_headers,
		.payload_hash = w.hash, .time = w.time,
		.path = (const char *)buf_head(&w.path), .query = (const char *)buf_head(&w.query),
	};
	if (rc == 0)
		rc = s3_sign(signer, keys->access_key, keys->secret, &s, &w.authorization);
	buf_put_u8(&w.authorization, 0);
	if (rc == 0 && w.authorization.failed)
		rc = -ENOBUFS;
	if (rc == 0)
		write_out(&w, ret);
	buf_done(&w.path);
	buf_done(&w.query);
	buf_done(&w.authorization);
	return rc;
}

void s3_written_done(struct s3_written *w)
{
	free(w->url);
	curl_slist_free_all(w->headers);
	*w = (struct s3_written){ 0 };
}
