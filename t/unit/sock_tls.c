/* SPDX-License-Identifier: Apache-2.0
 *
 * A sock with TLS over a socket pair: the same contract as a plain one, whatever waits in between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/must.h"
#include "t/lib/sock_world.h"
#include "t/lib/tls_peer.h"

#define LONG_MS 3600000u
#define MUCH (1u << 20)

static struct identity ca, server;
static struct tls_context *context;

/* One sock, and its peer, which takes and gives only when the test says so. */
struct pair {
	struct told told;
	int fd;
	struct tls_client client;
	bool ended;                     /* the peer saw the end of the socket */
};

static int setup(void **state)
{
	sock_world_open();
	identity_make(&ca, "authority", NULL);
	identity_make(&server, "localhost", &ca);
	context = context_of(&server, NULL);
	return 0;
}

static int teardown(void **state)
{
	sock_world_close();
	tls_context_free(context);
	identity_free(&ca);
	identity_free(&server);
	return 0;
}

static void pair_open_for(struct pair *p, uint64_t handshake_ms)
{
	int fd[2];
	*p = (struct pair){ .fd = -1 };
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
	p->fd = fd[1];
	struct sock_config config = { .env = env, .events = &told_events, .arg = &p->told, .tls = context, .alpn = "h2,http/1.1",
				      .handshake_ms = handshake_ms };
	assert_int_equal(sock_open(&config, fd[0], &p->told.sock), 0);
	sock_want(p->told.sock, true, false);
	tls_client_open(&p->client, 0, NULL);
}

/* Moves what stands between the client and its descriptor. */
static void peer_gives(struct pair *p)
{
	char *bytes;
	long n = BIO_get_mem_data(p->client.out, &bytes);
	ssize_t sent = n > 0 ? send(p->fd, bytes, (size_t)n, MSG_NOSIGNAL) : 0;
	static char trash[65536];
	while (sent > 0)
		sent -= BIO_read(p->client.out, trash, sent < (ssize_t)sizeof(trash) ? (int)sent : (int)sizeof(trash));
}

static void peer_takes(struct pair *p)
{
	static uint8_t bytes[65536];
	ssize_t n = recv(p->fd, bytes, sizeof(bytes), 0);
	if (n > 0)
		must(BIO_write(p->client.in, bytes, (int)n) == n);
	p->ended |= n == 0 || (n < 0 && errno != EAGAIN);
}

static void shake(struct pair *p)
{
	uint64_t end = env_now_ms(env) + SOON_MS;
	while ((SSL_do_handshake(p->client.ssl) != 1 || p->told.n_ready == 0) && env_now_ms(env) < end) {
		peer_gives(p);
		run_once();
		peer_takes(p);
	}
	assert_int_equal(p->told.n_ready, 1);
}

static void pair_open(struct pair *p)
{
	pair_open_for(p, LONG_MS);
	shake(p);
}

static void pair_close(struct pair *p)
{
	sock_close(p->told.sock);
	close(p->fd);
	tls_client_close(&p->client);
}

static size_t peer_reads(struct pair *p, uint8_t *to, size_t n)
{
	size_t have = 0;
	uint64_t end = env_now_ms(env) + SOON_MS;
	while (have < n && env_now_ms(env) < end) {
		int got = SSL_read(p->client.ssl, to + have, (int)(n - have));
		if (got > 0) {
			have += (size_t)got;
			continue;
		}
		if (SSL_get_error(p->client.ssl, got) != SSL_ERROR_WANT_READ)
			break;
		run_once();
		peer_takes(p);
		if (p->ended && BIO_pending(p->client.in) == 0)
			break;
	}
	return have;
}

static uint8_t *much(void)
{
	uint8_t *p = must_calloc(1, MUCH);
	for (size_t i = 0; i < MUCH; i++)
		p[i] = (uint8_t)(i * 7 + i / 251);
	return p;
}

/* ------------------------------------------------------------------ */

static void bytes_both_ways(void **state)
{
	struct pair p;
	char got[16];
	pair_open(&p);
	SSL_write(p.client.ssl, "hello", 5);
	peer_gives(&p);
	run_until(&p.told.n_ready, 2);
	assert_true(sock_is_readable(p.told.sock));
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 5);
	assert_memory_equal(got, "hello", 5);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), -EAGAIN);
	assert_false(sock_is_readable(p.told.sock));
	struct iovec iov[] = { { "an", 2 }, { "", 0 }, { "swer", 4 } };
	assert_int_equal(sock_send(p.told.sock, iov, 3), 6);
	assert_int_equal(peer_reads(&p, (uint8_t *)got, 6), 6);
	assert_memory_equal(got, "answer", 6);
	assert_string_equal(sock_protocol(p.told.sock), "");
	assert_null(sock_why(p.told.sock));
	assert_int_equal(p.told.n_over, 0);
	pair_close(&p);
}

/* What the kernel has given already is told of like what it still has. */
static void input_inside_is_told(void **state)
{
	struct pair p;
	char got[4];
	pair_open(&p);
	SSL_write(p.client.ssl, "four", 4);
	SSL_write(p.client.ssl, "more", 4);
	peer_gives(&p);
	run_until(&p.told.n_ready, 2);
	assert_int_equal(sock_recv(p.told.sock, got, 2), 2);
	sock_want(p.told.sock, false, false);
	unsigned before = p.told.n_ready;
	run_quiet();
	assert_int_equal(p.told.n_ready, before);
	for (unsigned left = 3; left > 0; left--) {
		assert_true(sock_is_readable(p.told.sock));
		sock_want(p.told.sock, true, false);
		run_until(&p.told.n_ready, before + 1);
		before = p.told.n_ready;
		assert_int_equal(sock_recv(p.told.sock, got, 2), 2);
	}
	sock_want(p.told.sock, true, false);
	run_quiet();
	assert_int_equal(p.told.n_ready, before);
	pair_close(&p);
}

/* The peer takes a little at a time: the same bytes are offered until they are taken, from another place. */
static void a_slow_peer_gets_everything(void **state)
{
	struct pair p;
	uint8_t *bytes = much(), *got = must_calloc(1, MUCH);
	size_t sent = 0, have = 0;
	unsigned refused = 0;
	uint64_t end = env_now_ms(env) + SOON_MS;
	pair_open(&p);
	while (have < MUCH && env_now_ms(env) < end) {
		for (ssize_t n = 1; n > 0 && sent < MUCH; ) {
			uint8_t *copy = must_calloc(1, MUCH - sent);
			memcpy(copy, bytes + sent, MUCH - sent);
			size_t first = MUCH - sent < 100 ? MUCH - sent : 100;
			struct iovec iov[2] = { { copy, first }, { copy + first, MUCH - sent - first } };
			n = sock_send(p.told.sock, iov, 2);
			free(copy);
			assert_true(n > 0 || n == -EAGAIN);
			refused += n < 0;
			sent += n > 0 ? (size_t)n : 0;
		}
		sock_want(p.told.sock, false, sent < MUCH);
		run_once();
		peer_takes(&p);
		int n = SSL_read(p.client.ssl, got + have, MUCH);
		have += n > 0 ? (size_t)n : 0;
	}
	assert_true(refused > 3);
	assert_int_equal(have, MUCH);
	assert_memory_equal(got, bytes, MUCH);
	free(bytes);
	free(got);
	pair_close(&p);
}

static void much_input_in_one_call(void **state)
{
	struct pair p;
	uint8_t *bytes = much(), *got = must_calloc(1, MUCH);
	size_t have = 0, most = 0;
	pair_open(&p);
	assert_int_equal(SSL_write(p.client.ssl, bytes, MUCH), MUCH);
	uint64_t end = env_now_ms(env) + SOON_MS;
	while (have < MUCH && env_now_ms(env) < end) {
		peer_gives(&p);
		run_once();
		while (sock_is_readable(p.told.sock)) {
			ssize_t n = sock_recv(p.told.sock, got + have, MUCH - have);
			if (n <= 0)
				break;
			most = (size_t)n > most ? (size_t)n : most;
			have += (size_t)n;
		}
	}
	assert_int_equal(have, MUCH);
	assert_true(most > 2 * TLS_RECORD_MAX); /* not a call a record */
	assert_memory_equal(got, bytes, MUCH);
	free(bytes);
	free(got);
	pair_close(&p);
}

/* ------------------------------------------------------------------ ends */

static void the_peer_ends_with_a_word_or_without(void **state)
{
	for (int word = 0; word < 2; word++) {
		struct pair p;
		char got[16];
		pair_open(&p);
		SSL_write(p.client.ssl, "last", 4);
		if (word)
			SSL_shutdown(p.client.ssl);
		peer_gives(&p);
		shutdown(p.fd, SHUT_WR);
		run_until(&p.told.n_ready, 2);
		assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 4);
		unsigned before = p.told.n_ready;
		sock_want(p.told.sock, true, false);
		run_until(&p.told.n_ready, before + 1);
		assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 0);
		assert_false(sock_finish(p.told.sock, false));
		assert_null(sock_why(p.told.sock));
		pair_close(&p);
	}
}

static void a_finished_one_says_so(void **state)
{
	struct pair p;
	uint8_t got[16];
	pair_open(&p);
	struct iovec iov = { "answer", 6 };
	assert_int_equal(sock_send(p.told.sock, &iov, 1), 6);
	assert_true(sock_finish(p.told.sock, false));
	assert_int_equal(peer_reads(&p, got, sizeof(got)), 6);
	assert_int_equal(SSL_get_shutdown(p.client.ssl), SSL_RECEIVED_SHUTDOWN);
	peer_takes(&p);
	assert_true(p.ended);
	SSL_write(p.client.ssl, "another request", 15);
	peer_gives(&p);
	run_quiet();
	assert_int_equal(p.told.n_over, 0);
	close(p.fd);
	run_until(&p.told.n_over, 1);
	p.fd = -1;
	pair_close(&p);
}

static void a_slow_handshake_is_ended(void **state)
{
	struct pair p;
	pair_open_for(&p, 100);
	SSL_do_handshake(p.client.ssl);
	uint64_t began = env_now_ms(env), end = began + SOON_MS;
	while (p.told.n_over == 0 && env_now_ms(env) < end) { /* one byte a turn */
		char c;
		if (BIO_pending(p.client.out) > 50 && BIO_read(p.client.out, &c, 1) == 1)
			must(send(p.fd, &c, 1, MSG_NOSIGNAL) == 1);
		run_once();
	}
	assert_int_equal(p.told.n_over, 1);
	assert_int_equal(p.told.n_ready, 0);
	assert_true(env_now_ms(env) - began >= 90);
	assert_string_equal(sock_why(p.told.sock), "the handshake took too long");
	assert_false(sock_finish(p.told.sock, false));
	pair_close(&p);
}

static void what_is_no_tls_is_ended(void **state)
{
	struct pair p;
	char got[64];
	pair_open_for(&p, LONG_MS);
	must(send(p.fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
	run_quiet();
	assert_int_equal(p.told.n_ready, 0);
	assert_string_equal(sock_why(p.told.sock), "http request");
	assert_int_equal(recv(p.fd, got, sizeof(got), 0), 0);
	assert_int_equal(p.told.n_over, 0); /* it has time to see that */
	close(p.fd);
	run_until(&p.told.n_over, 1);
	p.fd = -1;
	pair_close(&p);
}

static void a_broken_record_ends_it(void **state)
{
	struct pair p;
	char got[64], record[256];
	pair_open(&p);
	SSL_write(p.client.ssl, "good", 4);
	peer_gives(&p);
	SSL_write(p.client.ssl, "bad", 3);
	int n = BIO_read(p.client.out, record, sizeof(record));
	record[n - 1] ^= 1;
	must(send(p.fd, record, (size_t)n, MSG_NOSIGNAL) == n);
	run_until(&p.told.n_ready, 2);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 4);
	sock_want(p.told.sock, true, false);
	run_until(&p.told.n_ready, 3);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), -EAGAIN);
	unsigned before = p.told.n_ready;
	struct iovec iov = { "x", 1 };
	assert_int_equal(sock_send(p.told.sock, &iov, 1), -EAGAIN);
	sock_want(p.told.sock, true, true);
	assert_string_equal(sock_why(p.told.sock), "decryption failed or bad record mac");
	shutdown(p.fd, SHUT_WR);
	run_until(&p.told.n_over, 1);
	assert_int_equal(p.told.n_ready, before);
	pair_close(&p);
}

static void a_peer_that_goes_in_the_handshake(void **state)
{
	struct pair p;
	pair_open_for(&p, LONG_MS);
	SSL_do_handshake(p.client.ssl);
	peer_gives(&p);
	run_quiet();
	close(p.fd);
	run_until(&p.told.n_over, 1);
	assert_null(sock_why(p.told.sock)); /* nothing to say in the log */
	p.fd = -1;
	pair_close(&p);
}

/* Each asks for an answer and none is taken: what is owed is bound. */
static void a_flood_of_key_updates(void **state)
{
	struct pair p;
	char got[16];
	size_t given = 0;
	pair_open(&p);
	sock_want(p.told.sock, true, false);
	for (int i = 0; i < 100000; i++) {
		must(SSL_key_update(p.client.ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
		SSL_do_handshake(p.client.ssl);
		size_t before = (size_t)BIO_pending(p.client.out);
		if (before < 4096)
			continue;
		peer_gives(&p);
		given += before - (size_t)BIO_pending(p.client.out);
		if (BIO_pending(p.client.out) > 65536)
			break; /* nobody takes it any more */
		run_once();
		assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), -EAGAIN);
	}
	assert_true(BIO_pending(p.client.out) > 65536);
	assert_true(given < 8 * MUCH);
	assert_int_equal(p.told.n_over, 0);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_both_ways),
		cmocka_unit_test(input_inside_is_told),
		cmocka_unit_test(a_slow_peer_gets_everything),
		cmocka_unit_test(much_input_in_one_call),
		cmocka_unit_test(the_peer_ends_with_a_word_or_without),
		cmocka_unit_test(a_finished_one_says_so),
		cmocka_unit_test(a_slow_handshake_is_ended),
		cmocka_unit_test(what_is_no_tls_is_ended),
		cmocka_unit_test(a_broken_record_ends_it),
		cmocka_unit_test(a_peer_that_goes_in_the_handshake),
		cmocka_unit_test(a_flood_of_key_updates),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
