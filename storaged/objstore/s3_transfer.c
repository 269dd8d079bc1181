/* SPDX-License-Identifier: Apache-2.0
 *
 * One exchange on libcurl. No proxy, no redirect, no netrc, no cookie: where a request goes is what the URL says.
 *
 * Invariant: curl never sends a body twice by itself (there is no way back in it), so a PUT that was sent once is
 * answered once or not at all.
 */
#include "storaged/objstore/s3_transfer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "common/must.h"

#define ERROR_MAX (64u << 10)
#define CONNECT_MS 5000L
#define IDLE_CONNECTION_S 15L
#define NS_PER_MS 1000000u

uint64_t s3_clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct s3_transfer *s3_transfer_new(void)
{
	struct s3_transfer *t = must_calloc(1, sizeof(*t));
	t->easy = curl_easy_init();
	must(t->easy != NULL);
	return t;
}

void s3_transfer_free(struct s3_transfer *t)
{
	curl_easy_cleanup(t->easy);
	s3_written_done(&t->written);
	free(t);
}

/* Callbacks */

static size_t on_read(char *to, size_t size, size_t n, void *arg)
{
	struct s3_transfer *t = arg;
	const struct s3_request *r = t->exchange->request;
	size_t room = size * n, done = 0;
	while (done < room && t->iov_at < r->n_iov) {
		const struct iovec *iov = &r->iov[t->iov_at];
		size_t part = iov->iov_len - t->iov_skip < room - done ? iov->iov_len - t->iov_skip : room - done;
		if (part > 0)
			memcpy(to + done, (const uint8_t *)iov->iov_base + t->iov_skip, part);
		done += part;
		t->iov_skip += part;
		if (t->iov_skip == iov->iov_len) {
			t->iov_at++;
			t->iov_skip = 0;
		}
	}
	t->progress_ns = s3_clock_ns();
	return done;
}

/* There is no way back in a body. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
	return CURL_SEEKFUNC_FAIL;
}

static size_t on_write(char *data, size_t size, size_t n, void *arg)
{
	struct s3_transfer *t = arg;
	struct buf *body = &t->exchange->body;
	curl_off_t whole = -1;
	n *= size;
	t->progress_ns = s3_clock_ns();
	if (body->max == 0) {
		long status = 0;
		curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &whole);
		buf_init(body, status < 300 && t->answer_max > ERROR_MAX ? t->answer_max : ERROR_MAX);
		/* All of it at once; one that lies about its length is bounded by what comes. */
		if (whole > 0 && (uint64_t)whole <= body->max)
			(void)buf_reserve(body, (size_t)whole);
	}
	buf_put(body, data, n);
	t->too_long = body->failed;
	return body->failed ? 0 : n;
}

static bool header_is(const char *line, size_t n, const char *name, char *value, size_t size)
{
	size_t n_name = strlen(name);
	if (n <= n_name || strncasecmp(line, name, n_name) != 0 || line[n_name] != ':')
		return false;
	const char *p = line + n_name + 1, *end = line + n;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	while (end > p && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
		end--;
	if ((size_t)(end - p) >= size)
		return false;
	memcpy(value, p, (size_t)(end - p));
	value[end - p] = 0;
	return true;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
	struct s3_transfer *t = arg;
	struct s3_exchange *x = t->exchange;
	unsigned long long begin, end, whole;
	char value[128];
	n *= size;
	t->progress_ns = s3_clock_ns();
	if (!atomic_load(&x->has_begun_answer)) {
		x->first_byte_ns = t->progress_ns - t->began_ns + 1;
		atomic_store(&x->has_begun_answer, true);
	}
	if (header_is(line, n, "etag", value, sizeof(value)))
		snprintf(x->etag, sizeof(x->etag), "%s", value);
	else if (header_is(line, n, "date", value, sizeof(value)))
		x->server_ms = (int64_t)curl_getdate(value, NULL) * 1000;
	else if (header_is(line, n, "content-range", value, sizeof(value)) &&
		 sscanf(value, "bytes %llu-%llu/%llu", &begin, &end, &whole) == 3) {
		x->range_begin = begin;
		x->object_size = whole;
	}
	return n;
}

/* Begin */

static void set_place(CURL *easy, const struct s3_config *c)
{
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, c->tls ? "https" : "http");
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "picomq");
	if (c->ca_file[0] != 0)
		curl_easy_setopt(easy, CURLOPT_CAINFO, c->ca_file);
}

static void set_limits(CURL *easy, const struct s3_config *c)
{
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, c->timeout_ms < CONNECT_MS ? (long)c->timeout_ms : CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, IDLE_CONNECTION_S);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L << 10);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 128L << 10);
}

static void set_request(struct s3_transfer *t, const struct s3_request *r)
{
	CURL *easy = t->easy;
	if (r->has_body) {
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_len);
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(easy, CURLOPT_READDATA, t);
		curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
	}
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
	curl_easy_setopt(easy, CURLOPT_URL, t->written.url);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t->written.headers);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
}

int s3_transfer_begin(struct s3_transfer *t, struct s3_exchange *x, const struct s3_config *c,
		      struct s3_signer *signer, struct s3_credentials *credentials)
{
	struct s3_keys keys;
	uint64_t now = s3_clock_ns();
	t->exchange = x;
	x->transfer = t;
	t->error[0] = 0;
	t->iov_at = 0;
	t->iov_skip = 0;
	t->too_long = false;
	t->answer_max = x->request->answer_max;
	t->began_ns = t->progress_ns = now;
	s3_credentials_get(credentials, now / NS_PER_MS, &keys);
	int r = s3_request_write(x->request, c, signer, &keys, x->wall_ms, &t->written);
	explicit_bzero(&keys, sizeof(keys));
	if (r < 0)
		return r;
	curl_easy_reset(t->easy);
	set_place(t->easy, c);
	set_limits(t->easy, c);
	set_request(t, x->request);
	return 0;
}

/* End */

static int errno_of(CURLcode result)
{
	switch (result) {
	case CURLE_OPERATION_TIMEDOUT: return -ETIMEDOUT;
	case CURLE_COULDNT_RESOLVE_HOST: return -EHOSTUNREACH;
	case CURLE_COULDNT_CONNECT: return -ECONNREFUSED;
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
	case CURLE_SEND_FAIL_REWIND: return -ECONNRESET;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE: return -EPROTO;
	default: return -EIO;
	}
}

static void transfer_idle(struct s3_transfer *t)
{
	s3_written_done(&t->written);
	t->exchange->transfer = NULL;
	t->exchange = NULL;
}

static void note_sent(struct s3_transfer *t)
{
	long n = 0;
	t->exchange->sent = curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &n) != CURLE_OK || n > 0;
}

void s3_transfer_give_up(struct s3_transfer *t, int err, const char *why)
{
	struct s3_exchange *x = t->exchange;
	note_sent(t);
	x->status = 0;
	x->err = err;
	snprintf(x->why, sizeof(x->why), "%s", why);
	transfer_idle(t);
}

void s3_transfer_end(struct s3_transfer *t, CURLcode result)
{
	struct s3_exchange *x = t->exchange;
	long status = 0;
	if (result != CURLE_OK) {
		if (t->too_long)
			s3_transfer_give_up(t, -EMSGSIZE, "the answer is longer than what was asked for");
		else
			s3_transfer_give_up(t, errno_of(result), t->error[0] != 0 ? t->error : curl_easy_strerror(result));
		return;
	}
	note_sent(t);
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	x->status = (int)status;
	if (status >= 300 || x->request->answer_is_xml)
		x->document_err = s3_document_parse(buf_slice(&x->body), &x->document);
	if (status != 206)
		x->object_size = buf_len(&x->body);
	transfer_idle(t);
}
