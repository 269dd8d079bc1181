/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of TLS as a function of bytes: what came from the peer goes into one buffer, what is for it stands
 * in another, nothing here touches a socket. common/sock.c is what does.
 *
 * TLS 1.2 and 1.3, no renegotiation, no compression, no early data, no resumption: a ticket of one worker would be
 * strange to the next.
 */
#ifndef COMMON_TLS_H
#define COMMON_TLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/buf.h"

#define TLS_RECORD_MAX 16384u           /* bytes that one record holds */
#define TLS_PEM_MAX (1u << 20)          /* of one file */

/* ------------------------------------------------------------------ credentials */

/* Texts in PEM, borrowed. */
struct tls_pem {
	struct slice chain;             /* the certificate, then those between it and its root */
	struct slice key;               /* of it, without a passphrase */
	struct slice client_ca;         /* who may sign certificates of clients; none: no client has to have one */
};

/* The three as one text, and back: -EBADMSG when it is none. */
void tls_pem_write(const struct tls_pem *pem, struct buf *out);
int tls_pem_read(struct slice text, struct tls_pem *ret_pem);

/* What connections are made with. Each of them keeps it alive. */
struct tls_context;
enum tls_part { TLS_CHAIN, TLS_KEY, TLS_CLIENT_CA };
struct tls_fault {
	enum tls_part part;             /* which one is wrong */
	char text[200];                 /* how */
};
/* 0; or -EINVAL, and what is wrong. */
int tls_context_new(const struct tls_pem *pem, struct tls_context **ret_context, struct tls_fault *ret_fault);
void tls_context_free(struct tls_context *c);

/* ------------------------------------------------------------------ one connection */

struct tls;

/* alpn: protocols that may be agreed on, the best first, commas between them, borrowed; a client that names only others is
 * refused. NULL: none is agreed on. NULL when there is no memory. */
struct tls *tls_new(struct tls_context *c, const char *alpn);
void tls_free(struct tls *t);

/* What came from the peer: put behind what stands there, when that is empty. */
struct buf *tls_in(struct tls *t);
/* What is for the peer: consume what was sent. */
struct buf *tls_out(struct tls *t);

/* These take from tls_in() and put into tls_out(), which may hold something for the peer whatever they return. -EAGAIN:
 * more must come. -EPROTO: it is over, tls_why() says why. */
int tls_handshake(struct tls *t);                               /* 0: both sides are ready */
ssize_t tls_read(struct tls *t, void *p, size_t n);             /* bytes; 0: the peer has ended */
ssize_t tls_write(struct tls *t, const void *p, size_t n);      /* n, 1 to TLS_RECORD_MAX; -EPROTO */
void tls_end(struct tls *t);                                    /* nothing follows from here */

/* Whether tls_read() would give something, or might, or an error, without more from the peer. */
bool tls_has_input(const struct tls *t);
/* Words for a log line; NULL: nothing is wrong. */
const char *tls_why(const struct tls *t);
/* What was agreed on; "" when nothing was. */
const char *tls_protocol(const struct tls *t);

#endif
