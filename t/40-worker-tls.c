/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-http behind a TLS listener, between a client that is in no hurry and a scripted storaged: what a drain means for a
 * connection whose handshake is not over, a refusal at the bound, new certificates under an open connection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>

#include "common/metrics.h"
#include "common/must.h"
#include "t/lib/http_world.h"
#include "t/lib/tls_peer.h"

static struct identity ca, server, other;
static struct tls_context *first, *second;

static int setup(void **state)
{
	identity_make(&ca, "authority", NULL);
	identity_make(&server, "localhost", &ca);
	identity_make(&other, "localhost", &ca);
	first = context_of(&server, NULL);
	second = context_of(&other, NULL);
	return 0;
}

static int teardown(void **state)
{
	tls_context_free(first);
	tls_context_free(second);
	identity_free(&ca);
	identity_free(&server);
	identity_free(&other);
	return 0;
}

static void open_world(void (*change)(struct conf *c))
{
	world_open(change);
	w.worker.tls = first;
	w.worker.child.listener[0].tls = true;
}

/* A client over TLS, which says what it has to say when the test lets it. */
struct secure {
	struct client tcp;
	struct tls_client tls;
	char text[4096];                /* what came, decrypted */
	size_t n;
};

static void secure_open(struct secure *s)
{
	memset(s, 0, sizeof(*s));
	client_open(&s->tcp, w.port);
	tls_client_open(&s->tls, 0, NULL);
}

static void secure_close(struct secure *s)
{
	client_close(&s->tcp);
	tls_client_close(&s->tls);
}

static void secure_step(struct secure *s)
{
	char *bytes;
	client_pull(&s->tcp);
	if (buf_len(&s->tcp.in) > 0)
		BIO_write(s->tls.in, buf_head(&s->tcp.in), (int)buf_len(&s->tcp.in));
	buf_consume(&s->tcp.in, buf_len(&s->tcp.in));
	ERR_clear_error();
	SSL_do_handshake(s->tls.ssl);
	int n = SSL_read(s->tls.ssl, s->text + s->n, (int)(sizeof(s->text) - 1 - s->n));
	s->n += n > 0 ? (size_t)n : 0;
	long out = BIO_get_mem_data(s->tls.out, &bytes);
	if (out > 0)
		client_send(&s->tcp, slice_of(bytes, (size_t)out));
	(void)BIO_reset(s->tls.out);
}

static bool is_shaken(void *arg)
{
	secure_step(arg);
	return SSL_is_init_finished(((struct secure *)arg)->tls.ssl);
}

static void shake(struct secure *s)
{
	assert_true(place_run(&w.place, is_shaken, s, SOON));
}

static void say(struct secure *s, const char *text)
{
	must(SSL_write(s->tls.ssl, text, (int)strlen(text)) == (int)strlen(text));
	secure_step(s);
}

static const char *wanted;

static bool has_text(void *arg)
{
	struct secure *s = arg;
	secure_step(s);
	return strstr(s->text, wanted) != NULL;
}

static void expect(struct secure *s, const char *text)
{
	wanted = text;
	assert_true(place_run(&w.place, has_text, s, SOON));
}

static bool has_ended(void *arg)
{
	struct secure *s = arg;
	secure_step(s);
	return s->tcp.ended;
}

static void expect_end(struct secure *s)
{
	assert_true(place_run(&w.place, has_ended, s, SOON));
	assert_int_equal(SSL_get_shutdown(s->tls.ssl), SSL_RECEIVED_SHUTDOWN); /* with a word, not cut */
}

#define OPTIONS "OPTIONS /x HTTP/1.1\r\nHost: x\r\n\r\n"

static void on_drained(void *arg)
{
	w.drained = true;
}

static bool is_drained(void *arg)
{
	return w.drained;
}

/* It was accepted, so it gets an answer, one. Who is idle between requests is ended with a word. */
static void a_drain_in_the_handshake(void **state)
{
	struct secure late, idle;
	open_world(NULL);
	secure_open(&idle);
	shake(&idle);
	say(&idle, OPTIONS);
	expect(&idle, "204");
	secure_open(&late);
	secure_step(&late); /* its first flight; the server's waits */
	place_run_ms(&w.place, 20);
	assert_int_equal(w.worker.acceptor.n_conns, 2);
	server_drain(&w.server, on_drained, NULL);
	expect_end(&idle);
	assert_false(late.tcp.ended);
	shake(&late);
	say(&late, OPTIONS);
	expect(&late, "Connection: close");
	expect_end(&late);
	assert_false(w.drained);
	secure_close(&idle);
	secure_close(&late);
	assert_true(place_run(&w.place, is_drained, NULL, SOON));
	world_close();
}

static void one_connection(struct conf *c)
{
	c->max_connections = 1;
}

/* No handshake is begun for it, and nothing in plain text is said. */
static void one_over_the_bound(void **state)
{
	struct secure a;
	struct client over;
	open_world(one_connection);
	secure_open(&a);
	shake(&a);
	client_open(&over, w.port);
	client_wait_end(&over);
	assert_int_equal(buf_len(&over.in), 0);
	say(&a, OPTIONS);
	expect(&a, "204");
	client_close(&over);
	secure_close(&a);
	world_close();
}

static bool shows(struct secure *s, const struct identity *id)
{
	X509 *x = SSL_get1_peer_certificate(s->tls.ssl);
	bool same = x != NULL && X509_cmp(x, id->x) == 0;
	X509_free(x);
	return same;
}

static void new_certificates(void **state)
{
	struct secure old, new;
	open_world(NULL);
	secure_open(&old);
	shake(&old);
	w.worker.tls = second;
	secure_open(&new);
	shake(&new);
	assert_true(shows(&old, &server) && shows(&new, &other));
	say(&old, OPTIONS);
	expect(&old, "204");
	say(&new, OPTIONS);
	expect(&new, "204");
	secure_close(&old);
	secure_close(&new);
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_drain_in_the_handshake),
		cmocka_unit_test(one_over_the_bound),
		cmocka_unit_test(new_certificates),
	};
	return cmocka_run_group_tests_name("worker-tls", tests, setup, teardown);
}
