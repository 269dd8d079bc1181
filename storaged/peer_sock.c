/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets of peers on libuv: accept, read, send, kill. Reading stops while a peer does not take what it is owed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "storaged/peer_impl.h"

#define ACCEPTS_A_TURN 16
#define ACCEPT_PAUSE_MS 100

static void on_closed(uv_handle_t *h)
{
	free(h);
}

static void on_event(uv_poll_t *h, int status, int events)
{
	struct peer *peer = h->data;
	must(peer->magic == PEER_MAGIC);
	if (peer->doomed)
		return;
	if (status < 0) {
		peer_doom(peer, NULL);
	} else if ((events & UV_READABLE) && !peer_is_full(peer)) {
		int r = ipc_recv(peer->sock, &peer->reader);
		if (r == -ENOBUFS)
			peer_doom(peer, "no memory for its requests");
		else if (r <= 0 && r != -EAGAIN)
			peer_doom(peer, NULL);
		else
			peer_input(peer);
	}
	peer_wants_turn(peer);
}

void peer_sock_watch(struct peer *peer)
{
	int events = peer_is_full(peer) ? 0 : UV_READABLE;
	if (buf_len(&peer->out.buf) > 0)
		events |= UV_WRITABLE;
	if (peer->doomed || peer->poll == NULL || events == peer->watching)
		return;
	peer->watching = events;
	must(uv_poll_start(peer->poll, events, on_event) == 0);
}

void peer_sock_flush(struct peer *peer)
{
	int r = ipc_send(peer->sock, &peer->out);
	if (r < 0 && r != -EAGAIN)
		peer_doom(peer, NULL);
}

static int check_credentials(struct peer *peer)
{
	struct ucred c;
	socklen_t n = sizeof(c);
	if (getsockopt(peer->sock, SOL_SOCKET, SO_PEERCRED, &c, &n) < 0)
		return -errno;
	if (c.uid != peer->peers->config.uid)
		return -EPERM;
	peer->pid = c.pid;
	if (c.pid > 0 && c.pid != getpid())
		peer->pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	return 0;
}

int peer_sock_open(struct peer *peer)
{
	int r = check_credentials(peer);
	if (r < 0)
		return r;
	peer->poll = must_calloc(1, sizeof(*peer->poll));
	r = uv_poll_init(env_uv_loop(peer->peers->env), peer->poll, peer->sock);
	if (r < 0) {
		free(peer->poll);
		peer->poll = NULL;
		return r;
	}
	peer->poll->data = peer;
	peer_sock_watch(peer);
	return 0;
}

void peer_sock_close(struct peer *peer)
{
	if (peer->poll != NULL)
		uv_close((uv_handle_t *)peer->poll, on_closed);
	peer->poll = NULL;
	if (peer->pidfd >= 0)
		close(peer->pidfd);
	peer->pidfd = -1;
	close(peer->sock);
	peer->sock = -1;
}

/* Through a descriptor of the process, so that a number used again is not hit. */
void peer_sock_kill(struct peer *peer)
{
	if (peer->pidfd < 0)
		return;
	peer->killed = syscall(SYS_pidfd_send_signal, peer->pidfd, SIGKILL, NULL, 0) == 0;
}

static void on_connection(uv_poll_t *h, int status, int events)
{
	struct peers *p = h->data;
	int listener = -1;
	if (status < 0 || uv_fileno((uv_handle_t *)h, &listener) < 0)
		return;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int sock = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (sock < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
			p->accept_paused = true;
			uv_poll_stop(h);
			peers_tick_within(p, ACCEPT_PAUSE_MS);
		}
		if (sock < 0)
			return;
		peers_add(p, sock);
	}
}

void peers_accept_again(struct peers *p)
{
	if (!p->accept_paused)
		return;
	p->accept_paused = false;
	must(uv_poll_start(p->listener, UV_READABLE, on_connection) == 0);
}

int peers_listen(struct peers *p, int listener)
{
	must(p->listener == NULL);
	uv_poll_t *h = must_calloc(1, sizeof(*h));
	int r = uv_poll_init(env_uv_loop(p->env), h, listener);
	if (r < 0) {
		free(h);
		return r;
	}
	h->data = p;
	p->listener = h;
	return uv_poll_start(h, UV_READABLE, on_connection);
}

void peers_unlisten(struct peers *p)
{
	if (p->listener != NULL)
		uv_close((uv_handle_t *)p->listener, on_closed);
	p->listener = NULL;
}
