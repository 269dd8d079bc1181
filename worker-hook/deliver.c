/* SPDX-License-Identifier: Apache-2.0
 *
 * curl says which sockets it waits for and until when; the loop tells it what happened.
 */
#include "worker-hook/deliver.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/hook_url.h"
#include "common/must.h"

#define CONNECT_TIMEOUT_MS 10000l

struct deliver {
	CURLM *multi;
	uv_loop_t *loop;
	uv_timer_t timer;
	bool loopback;
	unsigned n;
};

struct delivery {
	struct deliver *deliver;
	CURL *easy;
	struct curl_slist *headers;
	struct buf body, answer;
	deliver_fn *on_done;
	void *arg;
};

/* A socket of curl's on the loop; freed when its handle is closed. */
struct watched {
	struct deliver *deliver;
	uv_poll_t poll;
	curl_socket_t fd;
};

/* ------------------------------------------------------------------ answers */

static void finish(struct delivery *x, CURLcode result)
{
	long status = 0;
	if (result == CURLE_OK)
		curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_multi_remove_handle(x->deliver->multi, x->easy);
	x->deliver->n--;
	x->on_done(x->arg, (int)status, buf_slice(&x->answer));
	curl_easy_cleanup(x->easy);
	curl_slist_free_all(x->headers);
	buf_done(&x->body);
	buf_done(&x->answer);
	free(x);
}

static void take_finished(struct deliver *d)
{
	CURLMsg *m;
	int left;
	while ((m = curl_multi_info_read(d->multi, &left)) != NULL) {
		struct delivery *x;
		CURLcode result = m->data.result;
		if (m->msg != CURLMSG_DONE)
			continue;
		must(curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x) == CURLE_OK);
		finish(x, result);
	}
}

/* ------------------------------------------------------------------ the loop */

static void on_timer(uv_timer_t *t)
{
	struct deliver *d = t->data;
	int running;
	curl_multi_socket_action(d->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	take_finished(d);
}

static int set_timer(CURLM *multi, long ms, void *arg)
{
	struct deliver *d = arg;
	if (ms < 0)
		uv_timer_stop(&d->timer);
	else
		uv_timer_start(&d->timer, on_timer, (uint64_t)ms, 0);
	return 0;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct watched *w = poll->data;
	struct deliver *d = w->deliver;
	int running, what = status < 0 ? CURL_CSELECT_ERR : 0;
	if (events & UV_READABLE)
		what |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		what |= CURL_CSELECT_OUT;
	curl_multi_socket_action(d->multi, w->fd, what, &running);
	take_finished(d);
}

static void on_unwatched(uv_handle_t *h)
{
	free(h->data);
}

static int watch(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct deliver *d = arg;
	struct watched *w = socket_arg;
	if (what == CURL_POLL_REMOVE) {
		if (w != NULL)
			uv_close((uv_handle_t *)&w->poll, on_unwatched);
		curl_multi_assign(d->multi, fd, NULL);
		return 0;
	}
	if (w == NULL) {
		w = must_calloc(1, sizeof(*w));
		*w = (struct watched){ .deliver = d, .fd = fd };
		if (uv_poll_init_socket(d->loop, &w->poll, fd) < 0) {
			free(w);
			return -1;
		}
		w->poll.data = w;
		curl_multi_assign(d->multi, fd, w);
	}
	uv_poll_start(&w->poll, (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0), on_ready);
	return 0;
}

/* ------------------------------------------------------------------ one delivery */

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	const struct deliver *d = arg;
	if (purpose != CURLSOCKTYPE_IPCXN || !hook_address_is_allowed(&a->addr, d->loopback))
		return CURL_SOCKET_BAD;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static size_t take_answer(char *p, size_t size, size_t n, void *arg)
{
	struct delivery *x = arg;
	buf_put(&x->answer, p, size * n);
	return x->answer.failed ? 0 : size * n;
}

static void set_options(struct delivery *x, const char *url)
{
	CURL *e = x->easy;
	curl_easy_setopt(e, CURLOPT_PRIVATE, x);
	curl_easy_setopt(e, CURLOPT_URL, url);
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(e, CURLOPT_PROXY, "");
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0l);
	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)DELIVER_TIMEOUT_MS);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(e, CURLOPT_HTTPHEADER, x->headers);
	curl_easy_setopt(e, CURLOPT_POST, 1l);
	curl_easy_setopt(e, CURLOPT_POSTFIELDS, (char *)buf_head(&x->body));
	curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE, (long)buf_len(&x->body));
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, x->deliver);
}

void deliver_post(struct deliver *d, const char *url, const char *signature, struct slice body, deliver_fn *on_done, void *arg)
{
	struct delivery *x = must_calloc(1, sizeof(*x));
	char line[512];
	*x = (struct delivery){ .deliver = d, .easy = curl_easy_init(), .on_done = on_done, .arg = arg };
	must(x->easy != NULL && deliver_has_room(d));
	buf_init(&x->body, body.n);
	buf_init(&x->answer, DELIVER_ANSWER_MAX);
	buf_put_slice(&x->body, body);
	snprintf(line, sizeof(line), "Webhook-Signature: %s", signature);
	x->headers = curl_slist_append(NULL, "Content-Type: application/json");
	x->headers = curl_slist_append(x->headers, line);
	set_options(x, url);
	d->n++;
	must(curl_multi_add_handle(d->multi, x->easy) == CURLM_OK);
}

bool deliver_has_room(const struct deliver *d)
{
	return d->n < DELIVER_MAX;
}

struct deliver *deliver_new(uv_loop_t *loop, bool loopback)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return NULL;
	struct deliver *d = must_calloc(1, sizeof(*d));
	*d = (struct deliver){ .multi = curl_multi_init(), .loop = loop, .loopback = loopback };
	if (d->multi == NULL) {
		free(d);
		return NULL;
	}
	must(uv_timer_init(loop, &d->timer) == 0);
	d->timer.data = d;
	curl_multi_setopt(d->multi, CURLMOPT_SOCKETFUNCTION, watch);
	curl_multi_setopt(d->multi, CURLMOPT_SOCKETDATA, d);
	curl_multi_setopt(d->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(d->multi, CURLMOPT_TIMERDATA, d);
	return d;
}
