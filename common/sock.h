/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's socket as a connection sees it: bytes in, bytes out, word when either may go on. Below it stands a plain
 * socket or TLS; the connection cannot tell. What a protocol says is the connection's business, and so is every time-out
 * but those named here.
 *
 * The owner calls sock_recv() and sock_send() whenever it likes, says with sock_want() what it waits for, and hears
 * on_ready() for it. A callback may do anything, sock_close() included. One thread, the loop's.
 */
#ifndef COMMON_SOCK_H
#define COMMON_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct env;
struct sock;
struct tls_context;

struct sock_events {
	/* Bytes may be there, or room for some, or the peer is seen to have hung up. */
	void (*on_ready)(void *arg);
	/* Nothing can be said any more: it broke, or what sock_finish() waits for has come. The owner closes it. */
	void (*on_over)(void *arg);
};

struct sock_config {
	struct env *env;                        /* the real one; borrowed, as all of these */
	const struct sock_events *events;
	void *arg;
	struct tls_context *tls;                /* NULL: plain */
	const char *alpn;                       /* of TLS: see tls_new() */
	uint64_t handshake_ms;                  /* how long the beginning of TLS may take; then it is over */
};

/* Takes the descriptor, non-blocking, whatever comes of it. 0; or a negative errno when the loop cannot watch it: then
 * it is closed and there is no sock. */
int sock_open(const struct sock_config *config, int fd, struct sock **ret_sock);
/* Cuts it now, what was sent may still leave; no callback afterwards. Its memory goes in a later turn of the loop.
 * NULL is fine. */
void sock_close(struct sock *s);

/* Up to n bytes (n > 0). 0: the peer has ended, nothing follows. -EAGAIN: nothing now, or TLS broke, which on_over() tells
 * when the peer had time to hear why. Any other: it is broken. */
ssize_t sock_recv(struct sock *s, void *p, size_t n);
/* How many bytes of these the kernel took. -EAGAIN: none now; the next call begins with the same bytes, which may stand
 * elsewhere and have others behind them. Any other: it is broken. */
ssize_t sock_send(struct sock *s, const struct iovec *iov, size_t n);

/* What on_ready() is wanted for, until the next call. Wanting nothing, a first hang-up of the peer is still told. */
void sock_want(struct sock *s, bool read, bool write);
/* Whether sock_recv() is worth a call: bytes are known or likely to be there. */
bool sock_is_readable(const struct sock *s);
/* The next sock_recv() is worth a call whatever was seen. */
void sock_expect(struct sock *s);
/* Whether TLS is still being agreed on: the owner has heard nothing yet, and the peer can be told nothing. */
bool sock_is_opening(const struct sock *s);
/* Why TLS broke, in words for a log line; NULL: it did not. */
const char *sock_why(const struct sock *s);
/* The protocol that TLS agreed on, when the first bytes have come; "" when none, or plain. */
const char *sock_protocol(const struct sock *s);
/* The peer was seen to have hung up while nothing was wanted; what it sent before is still there. */
bool sock_is_hung_up(const struct sock *s);

/*
 * Behind the last byte that was sent. A socket that is closed with input unread is reset, and what is on its way to the
 * peer be lost: so input is read and dropped until the peer ends, for a bound time, shorter when `soon`; on_over() then.
 * False when the peer has ended already: there is nothing to wait for. Called again, it can only shorten the time. Only
 * sock_close() may follow otherwise.
 */
bool sock_finish(struct sock *s, bool soon);

#endif
