/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to the node with libcurl, one connection kept for all of a command. Redirects to the owner of a log are
 * followed with the same method; appends are never sent twice by themselves.
 */
#include <curl/curl.h>
#include <ctype.h>
#include <stdio.h>

#include "cli/cli.h"
#include "common/json_scan.h"
#include "common/must.h"

#define BODY_MAX (64u << 20)

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct cli_response *r = arg;
	buf_put(&r->body, p, size * n);
	return r->body.failed ? 0 : size * n;
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct cli_response *r = arg;
	size_t len = size * n;
	const char *colon = memchr(p, ':', len);
	if (len >= 5 && memcmp(p, "HTTP/", 5) == 0)
		r->n_headers = 0;       /* of a redirect or a 100 before */
	if (colon == NULL || r->n_headers == CLI_HEADERS_MAX)
		return len;
	const char *value = colon + 1, *end = p + len;
	while (value < end && *value == ' ')
		value++;
	while (end > value && (end[-1] == '\r' || end[-1] == '\n'))
		end--;
	snprintf(r->header[r->n_headers].name, sizeof(r->header[0].name), "%.*s", (int)(colon - p), p);
	snprintf(r->header[r->n_headers].value, sizeof(r->header[0].value), "%.*s", (int)(end - value), value);
	for (char *c = r->header[r->n_headers].name; *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	r->n_headers++;
	return len;
}

static void set_request(CURL *curl, const char *method, struct slice body)
{
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(curl, CURLOPT_NOBODY, strcmp(method, "HEAD") == 0 ? 1L : 0L);
	if (strcmp(method, "POST") == 0 || body.p != NULL) {
		curl_easy_setopt(curl, CURLOPT_POST, 1L);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.p != NULL ? (const char *)body.p : "");
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
	} else if (strcmp(method, "HEAD") != 0) {
		curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
	}
}

static struct curl_slist *header_list(const char *const *headers)
{
	/* No default type for a POST, and no waiting for 100-continue. */
	struct curl_slist *list = curl_slist_append(NULL, "Expect:");
	bool has_type = false;
	for (; headers != NULL && *headers != NULL; headers++) {
		has_type |= strncmp(*headers, "Content-Type:", 13) == 0;
		list = curl_slist_append(list, *headers);
	}
	return has_type ? list : curl_slist_append(list, "Content-Type:");
}

void cli_request(struct cli *cli, const char *method, const char *path_and_query, const char *const *headers,
		 struct slice body, long timeout_ms, struct cli_response *ret)
{
	char why[CURL_ERROR_SIZE] = "";
	*ret = (struct cli_response){ 0 };
	buf_init(&ret->body, BODY_MAX);
	if (cli->curl == NULL)
		cli->curl = curl_easy_init();
	CURL *curl = cli->curl;
	must(curl != NULL);
	curl_easy_reset(curl);
	struct buf url;
	buf_init(&url, 8192);
	size_t n = strlen(cli->endpoint);
	buf_printf(&url, "%.*s%s%c", (int)(n > 0 && cli->endpoint[n - 1] == '/' ? n - 1 : n), cli->endpoint,
		   path_and_query, '\0');
	struct curl_slist *list = header_list(headers);
	set_request(curl, method, body);
	curl_easy_setopt(curl, CURLOPT_URL, url.failed ? "" : (char *)buf_head(&url));
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, ret);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms != 0 ? timeout_ms : 65000L);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	CURLcode rc = curl_easy_perform(curl);
	if (rc == CURLE_OK) {
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &ret->status);
	} else {
		buf_reset(&ret->body, 0);
		buf_put_str(&ret->body, why[0] != '\0' ? why : curl_easy_strerror(rc));
	}
	curl_slist_free_all(list);
	buf_done(&url);
}

void cli_response_done(struct cli_response *r)
{
	buf_done(&r->body);
}

const char *cli_header(const struct cli_response *r, const char *lower_case_name)
{
	for (size_t i = 0; i < r->n_headers; i++)
		if (strcmp(r->header[i].name, lower_case_name) == 0)
			return r->header[i].value;
	return NULL;
}

bool cli_header_is_true(const struct cli_response *r, const char *lower_case_name)
{
	const char *v = cli_header(r, lower_case_name);
	return v != NULL && strcmp(v, "true") == 0;
}

/* The "message" (else "error") of an error body, decoded into out. */
static void error_words(const struct cli_response *r, struct buf *out)
{
	struct json_scan j;
	enum json_token t;
	json_scan_init(&j, buf_slice(&r->body));
	if (json_next(&j) != JSON_OBJECT)
		return;
	while ((t = json_next(&j)) == JSON_KEY) {
		bool message = json_string_is(j.span, "message");
		if (!message && !json_string_is(j.span, "error")) {
			json_skip(&j);
		} else if (json_skip(&j) == JSON_STRING) {
			buf_consume(out, buf_len(out));
			json_string(j.span, out);
			if (message)
				return;
		}
	}
}

int cli_response_fail(const struct cli *cli, const struct cli_response *r, const char *stream)
{
	if (r->status == 0 && strncmp(cli->endpoint, "https:", 6) == 0)
		return cli_fail(CLI_FAILED, "%s: %.*s; a node does not speak TLS yet: give http://", cli->endpoint,
				(int)buf_len(&r->body), (char *)buf_head(&r->body));
	if (r->status == 0)
		return cli_fail(CLI_FAILED, "%s: %.*s; is a node running there?", cli->endpoint, (int)buf_len(&r->body),
				(char *)buf_head(&r->body));
	if (r->status == 404 && strcmp(stream, "/") == 0)
		return cli_fail(CLI_FAILED, "%s: no list of streams there; is it the admin listener?", cli->endpoint);
	if (r->status == 404)
		return cli_fail(CLI_NOT_FOUND, "%s: no such stream", stream);
	struct buf words;
	buf_init(&words, BODY_MAX);
	error_words(r, &words);
	int code = cli_fail(CLI_FAILED, "%s: %ld: %.*s", stream, r->status, (int)buf_len(&words), (char *)buf_head(&words));
	buf_done(&words);
	return code;
}

void cli_http_done(struct cli *cli)
{
	if (cli->curl != NULL)
		curl_easy_cleanup(cli->curl);
	cli->curl = NULL;
}
