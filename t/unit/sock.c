/* SPDX-License-Identifier: Apache-2.0
 *
 * A sock over a socket pair: what is wanted is told and nothing else, ends and hang-ups, the end behind the last byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/must.h"
#include "t/lib/sock_world.h"

/* One sock and its peer's end. */
struct pair {
	struct told told;
	int peer;
};

static int setup(void **state)
{
	sock_world_open();
	return 0;
}

static int teardown(void **state)
{
	sock_world_close();
	return 0;
}

static void pair_open(struct pair *p)
{
	int fd[2];
	*p = (struct pair){ .peer = -1 };
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
	p->peer = fd[1];
	struct sock_config config = { .env = env, .events = &told_events, .arg = &p->told };
	assert_int_equal(sock_open(&config, fd[0], &p->told.sock), 0);
}

static void pair_close(struct pair *p)
{
	sock_close(p->told.sock);
	close(p->peer);
}

static void say(const struct pair *p, const char *text)
{
	must(send(p->peer, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* ------------------------------------------------------------------ */

static void what_cannot_be_watched_is_closed(void **state)
{
	struct sock_config config = { .env = env, .events = &told_events };
	struct sock *sock = NULL;
	int fd = memfd_create("no socket", MFD_CLOEXEC);
	assert_true(sock_open(&config, fd, &sock) < 0);
	assert_null(sock);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
}

static void only_what_is_wanted_is_told(void **state)
{
	struct pair p;
	char got[16];
	pair_open(&p);
	assert_true(sock_is_readable(p.told.sock)); /* a client speaks first, usually */
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), -EAGAIN);
	assert_false(sock_is_readable(p.told.sock));
	sock_want(p.told.sock, false, false);
	say(&p, "hello");
	run_quiet();
	assert_int_equal(p.told.n_ready, 0);
	sock_want(p.told.sock, true, false);
	run_until(&p.told.n_ready, 1);
	assert_true(sock_is_readable(p.told.sock));
	assert_int_equal(sock_recv(p.told.sock, got, 4), 4);
	assert_true(sock_is_readable(p.told.sock)); /* all the room was used */
	assert_int_equal(sock_recv(p.told.sock, got + 4, sizeof(got) - 4), 1);
	assert_memory_equal(got, "hello", 5);
	assert_false(sock_is_readable(p.told.sock));
	sock_expect(p.told.sock);
	assert_true(sock_is_readable(p.told.sock));
	assert_int_equal(p.told.n_over, 0);
	pair_close(&p);
}

static void an_end_is_zero_and_a_reset_an_error(void **state)
{
	struct pair p;
	char got[16];
	pair_open(&p);
	say(&p, "last");
	shutdown(p.peer, SHUT_WR);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 4);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 0);
	sock_want(p.told.sock, true, false); /* there is nothing more to wait for */
	run_quiet();
	assert_int_equal(p.told.n_ready, 0);
	struct iovec iov = { got, 4 };
	assert_int_equal(sock_send(p.told.sock, &iov, 1), 4); /* it still listens */
	close(p.peer); /* with input unread */
	assert_int_equal(sock_send(p.told.sock, &iov, 1), -EPIPE);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), -ECONNRESET);
	p.peer = -1;
	pair_close(&p);
}

static size_t fill(struct pair *p)
{
	static const uint8_t bytes[65536];
	struct iovec iov[2] = { { (void *)(uintptr_t)bytes, 1000 }, { (void *)(uintptr_t)bytes, sizeof(bytes) } };
	ssize_t n;
	size_t sum = 0;
	while ((n = sock_send(p->told.sock, iov, 2)) > 0)
		sum += (size_t)n;
	assert_int_equal(n, -EAGAIN);
	return sum;
}

static void drain(const struct pair *p, size_t n)
{
	static uint8_t bytes[65536];
	while (n > 0) {
		ssize_t got = recv(p->peer, bytes, n < sizeof(bytes) ? n : sizeof(bytes), 0);
		must(got > 0);
		n -= (size_t)got;
	}
}

static void room_is_told_when_it_is_wanted(void **state)
{
	struct pair p;
	pair_open(&p);
	size_t n = fill(&p);
	assert_true(n > 1000);
	sock_want(p.told.sock, true, true);
	run_quiet();
	assert_int_equal(p.told.n_ready, 0);
	sock_want(p.told.sock, true, false);
	drain(&p, n);
	run_quiet();
	assert_int_equal(p.told.n_ready, 0);
	sock_want(p.told.sock, true, true);
	run_until(&p.told.n_ready, 1);
	pair_close(&p);
}

static void a_hang_up_is_seen_unread_and_once(void **state)
{
	struct pair p;
	char got[16];
	pair_open(&p);
	sock_want(p.told.sock, false, false);
	say(&p, "bye");
	shutdown(p.peer, SHUT_WR);
	run_until(&p.told.n_ready, 1);
	assert_true(sock_is_hung_up(p.told.sock));
	sock_want(p.told.sock, false, false);
	run_quiet();
	assert_int_equal(p.told.n_ready, 1);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 3);
	assert_int_equal(p.told.n_over, 0);
	pair_close(&p);
}

static void a_finished_one_drops_input_until_its_peer_ends(void **state)
{
	struct pair p;
	char got[16];
	pair_open(&p);
	struct iovec iov = { "answer", 6 };
	assert_int_equal(sock_send(p.told.sock, &iov, 1), 6);
	assert_true(sock_finish(p.told.sock, false));
	sock_want(p.told.sock, true, true); /* changes nothing */
	assert_int_equal(recv(p.peer, got, sizeof(got), 0), 6);
	assert_int_equal(recv(p.peer, got, sizeof(got), 0), 0);
	say(&p, "and another request");
	run_quiet();
	assert_int_equal(p.told.n_ready, 0);
	assert_int_equal(p.told.n_over, 0);
	assert_false(sock_is_readable(p.told.sock));
	close(p.peer);
	run_until(&p.told.n_over, 1);
	assert_int_equal(p.told.n_ready, 0);
	p.peer = -1;
	pair_close(&p);
}

static void a_finished_one_waits_for_a_bound_time(void **state)
{
	struct pair shortened, patient;
	pair_open(&patient);
	pair_open(&shortened);
	uint64_t began = env_now_ms(env);
	assert_true(sock_finish(patient.told.sock, false));
	assert_true(sock_finish(shortened.told.sock, false));
	assert_true(sock_finish(shortened.told.sock, true));
	assert_true(sock_finish(shortened.told.sock, false)); /* not longer again */
	run_until(&shortened.told.n_over, 1);
	assert_int_equal(patient.told.n_over, 0);
	assert_true(env_now_ms(env) - began >= 250);
	run_until(&patient.told.n_over, 1);
	assert_true(env_now_ms(env) - began >= 1900);
	pair_close(&patient);
	pair_close(&shortened);
}

static void nobody_is_waited_for_who_has_ended(void **state)
{
	struct pair p;
	char got[16];
	pair_open(&p);
	shutdown(p.peer, SHUT_WR);
	assert_int_equal(sock_recv(p.told.sock, got, sizeof(got)), 0);
	assert_false(sock_finish(p.told.sock, false));
	pair_close(&p);
}

static void a_callback_may_close_it(void **state)
{
	struct pair p;
	char got[16];
	pair_open(&p);
	p.told.close_when_ready = true;
	say(&p, "x");
	sock_want(p.told.sock, true, true);
	run_until(&p.told.n_ready, 1);
	run_quiet();
	assert_int_equal(p.told.n_ready, 1);
	assert_true(recv(p.peer, got, sizeof(got), 0) <= 0);
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_be_watched_is_closed),
		cmocka_unit_test(only_what_is_wanted_is_told),
		cmocka_unit_test(an_end_is_zero_and_a_reset_an_error),
		cmocka_unit_test(room_is_told_when_it_is_wanted),
		cmocka_unit_test(a_hang_up_is_seen_unread_and_once),
		cmocka_unit_test(a_finished_one_drops_input_until_its_peer_ends),
		cmocka_unit_test(a_finished_one_waits_for_a_bound_time),
		cmocka_unit_test(nobody_is_waited_for_who_has_ended),
		cmocka_unit_test(a_callback_may_close_it),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
