/* SPDX-License-Identifier: Apache-2.0
 *
 * The client's socket on libuv.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/topics_impl.h"

struct topics_edge {
	uv_poll_t poll;
	struct topics *topics;              /* NULL when closed */
	int sock;
	int watching;
};

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_event(uv_poll_t *h, int status, int events)
{
	struct topics_edge *edge = h->data;
	struct topics *t = edge->topics;
	if (t == NULL)
		return;
	int r = status < 0 ? status : -EAGAIN;
	if (events & UV_READABLE)
		r = ipc_recv(edge->sock, &t->reader);
	if (r > 0)
		topics_conn_input(t);
	else if (r != -EAGAIN)
		t->lost = true;
	topics_wants_turn(t);
}

int topics_edge_open(struct topics *t)
{
	int sock;
	int r = ipc_connect(t->config.socket_path, &sock);
	if (r < 0)
		return r;
	struct topics_edge *edge = must_calloc(1, sizeof(*edge));
	r = uv_poll_init(env_uv_loop(t->env), &edge->poll, sock);
	if (r < 0) {
		free(edge);
		close(sock);
		return r;
	}
	edge->poll.data = edge;
	edge->topics = t;
	edge->sock = sock;
	t->edge = edge;
	return 0;
}

void topics_edge_close(struct topics *t)
{
	struct topics_edge *edge = t->edge;
	if (edge == NULL)
		return;
	uv_close((uv_handle_t *)&edge->poll, on_closed);
	close(edge->sock);
	edge->topics = NULL;
	t->edge = NULL;
}

int topics_edge_send(struct topics *t)
{
	return ipc_send(t->edge->sock, &t->out);
}

void topics_edge_watch(struct topics *t)
{
	int events = UV_READABLE | (buf_len(&t->out.buf) > 0 ? UV_WRITABLE : 0);
	if (events == t->edge->watching)
		return;
	t->edge->watching = events;
	must(uv_poll_start(&t->edge->poll, events, on_event) == 0);
}
