/* SPDX-License-Identifier: Apache-2.0
 *
 * Accepting: limits in all and for one address, the pause when descriptors run out, balance among the processes of a
 * kind, socket options, the end. accept4() and uv_timer_start() stand here in front of the real ones, so that clients
 * come from anywhere and pauses are counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/acceptor.h"

#define CONNS_MAX 64
#define SOON_MS 5000

static uv_loop_t loop;
static struct acceptor acceptor;
static struct child child;
static struct process_table table;
static struct metrics_page other;       /* of the other process of the kind */

static struct {
	int fd[CONNS_MAX];
	uint8_t address[CONNS_MAX][16];
	unsigned n, refused;
	unsigned pauses;                /* n_pauses when the last one came */
} got;
static int client[CONNS_MAX];
static unsigned n_clients;
static uv_timer_t watchdog;

/* ------------------------------------------------------------------ where clients come from */

static struct sockaddr_storage pretended;       /* AF_UNSPEC: as they are */
static int accept_errno;                        /* 0: it works */
static unsigned n_accepts;

int accept4(int fd, struct sockaddr *address, socklen_t *n, int flags);
int accept4(int fd, struct sockaddr *address, socklen_t *n, int flags)
{
	n_accepts++;
	if (accept_errno != 0) {
		errno = accept_errno;
		return -1;
	}
	int r = (int)syscall(SYS_accept4, fd, address, n, flags);
	if (r >= 0 && pretended.ss_family != AF_UNSPEC)
		memcpy(address, &pretended, sizeof(pretended));
	return r;
}

static unsigned n_pauses;
static uint64_t pause_ms;               /* of the last one */

int uv_timer_start(uv_timer_t *t, uv_timer_cb cb, uint64_t ms, uint64_t repeat)
{
	int (*real)(uv_timer_t *, uv_timer_cb, uint64_t, uint64_t);
	*(void **)&real = dlsym(RTLD_NEXT, "uv_timer_start");
	if (t == &acceptor.pause) {
		n_pauses++;
		pause_ms = ms;
	}
	return real(t, cb, ms, repeat);
}

static void come_from(const char *text)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&pretended;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&pretended;
	memset(&pretended, 0, sizeof(pretended));
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		v4->sin_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		v6->sin6_family = AF_INET6;
}

/* ------------------------------------------------------------------ the world */

static void on_conn(void *arg, int fd, const uint8_t address[16], const struct child_listener *from)
{
	assert_ptr_equal(arg, &got);
	assert_ptr_equal(from, &child.listener[0]);
	assert_in_range(got.n, 0, CONNS_MAX - 1);
	assert_int_not_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	got.fd[got.n] = fd;
	got.pauses = n_pauses;
	memcpy(got.address[got.n++], address, 16);
}

static void on_refused(void *arg, int fd, const struct child_listener *from)
{
	got.refused++;
	close(fd);
}

static int listen_on(int family)
{
	struct sockaddr_storage a = { .ss_family = (sa_family_t)family }; /* any port; an abstract name */
	if (family == AF_INET)
		((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(sa_family_t);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
	assert_int_equal(listen(fd, 1024), 0);
	return fd;
}

static void on_watchdog(uv_timer_t *t)
{
	fail_msg("not within %d ms", SOON_MS);
}

static void world_open(int family)
{
	memset(&got, 0, sizeof(got));
	memset(&table, 0, sizeof(table));
	memset(&pretended, 0, sizeof(pretended));
	memset(&other, 0, sizeof(other));
	n_clients = n_accepts = 0;
	child.kind = PROCESS_WORKER_KAFKA;
	child.n_listeners = 1;
	child.listener[0] = (struct child_listener){ .fd = listen_on(family), .address = "here" };
	child.processes = &table;
	child.pages[3] = metrics;
	child.pages[5] = &other;
	table.slot[3] = table.slot[5] = (struct process_entry){ PROCESS_WORKER_KAFKA, 1, 0, 0, PROCESS_READY, 0 };
	assert_int_equal(uv_loop_init(&loop), 0);
	uv_timer_init(&loop, &watchdog);
	uv_timer_start(&watchdog, on_watchdog, SOON_MS, 0);
	metric_set(METRIC_KAFKA_CONNECTIONS, 77); /* of a process that died in this slot */
	metric_set(METRIC_KAFKA_ACCEPTED, 0);
	metric_set(METRIC_KAFKA_REFUSED, 0);
	acceptor_open(&acceptor, &(struct acceptor_config){
		&loop, &child, METRIC_KAFKA_CONNECTIONS, METRIC_KAFKA_ACCEPTED, METRIC_KAFKA_REFUSED, on_conn, on_refused, &got,
	});
	assert_int_equal(metrics->value[METRIC_KAFKA_CONNECTIONS], 0);
}

/* The connection that came last ends. */
static void gone(void)
{
	assert_in_range(got.n, 1, CONNS_MAX);
	close(got.fd[--got.n]);
	acceptor_gone(&acceptor, got.address[got.n]);
}

static void world_close(void)
{
	while (got.n > 0)
		gone();
	assert_null(acceptor.addresses);
	acceptor_close(&acceptor);
	uv_close((uv_handle_t *)&watchdog, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	for (unsigned i = 0; i < n_clients; i++)
		close(client[i]);
	close(child.listener[0].fd);
	conf_done(&child.conf);
	conf_init(&child.conf);
}

static void clients(unsigned n)
{
	struct sockaddr_storage a = { 0 };
	socklen_t size = sizeof(a);
	assert_int_equal(getsockname(child.listener[0].fd, (struct sockaddr *)&a, &size), 0);
	for (unsigned i = 0; i < n; i++) {
		client[n_clients] = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(client[n_clients++], (struct sockaddr *)&a, size), 0);
	}
}

/* n more connect and are looked at; `taken` of them become connections, the others are refused. */
static void expect(unsigned n, unsigned taken)
{
	unsigned before = got.n, refused = got.refused;
	clients(n);
	while (got.n - before + got.refused - refused < n)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(got.n - before, taken);
	assert_int_equal(got.refused - refused, n - taken);
}

/* ------------------------------------------------------------------ limits */

static void test_limit_of_all(void **state)
{
	child.conf.max_connections = 3;
	world_open(AF_INET);
	assert_int_equal(acceptor.max_conns, 3);
	assert_int_equal(acceptor.max_conns_per_address, 2);
	expect(5, 3);
	assert_int_equal(metrics->value[METRIC_KAFKA_CONNECTIONS], 3);
	assert_int_equal(metrics->value[METRIC_KAFKA_ACCEPTED], 3);
	assert_int_equal(metrics->value[METRIC_KAFKA_REFUSED], 2);
	gone();
	gone();
	assert_int_equal(metrics->value[METRIC_KAFKA_CONNECTIONS], 1);
	expect(3, 2);
	world_close();
	assert_int_equal(metrics->value[METRIC_KAFKA_CONNECTIONS], 0);
}

static void test_limit_of_address(void **state)
{
	child.conf.max_connections_per_ip = 2;
	world_open(AF_INET);
	table.slot[5].pid = 0; /* no balance here */
	come_from("192.0.2.1");
	expect(3, 2);
	come_from("::ffff:192.0.2.1"); /* the same over a v6 listener */
	expect(1, 0);
	come_from("192.0.2.2");
	expect(3, 2);
	come_from("2001:db8::1");
	expect(3, 2);
	gone(); /* one of those */
	expect(2, 1);
	static const char *const uncounted[] = { "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1" };
	for (unsigned i = 0; i < sizeof(uncounted) / sizeof(uncounted[0]); i++) {
		come_from(uncounted[i]);
		expect(4, 4);
	}
	world_close();
}

/* ------------------------------------------------------------------ descriptors */

static unsigned lines_of(int fd)
{
	char text[8192];
	ssize_t n = pread(fd, text, sizeof(text), 0);
	unsigned lines = 0;
	for (ssize_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	return lines;
}

static void test_out_of_descriptors(void **state)
{
	world_open(AF_INET);
	expect(2, 2);
	FILE *log = tmpfile();
	int standard_error = dup(STDERR_FILENO);
	dup2(fileno(log), STDERR_FILENO);
	accept_errno = EMFILE;
	n_accepts = 0;
	uint64_t began = uv_now(&loop);
	clients(3);
	while (n_accepts < 4)
		uv_run(&loop, UV_RUN_ONCE);
	uint64_t took = uv_now(&loop) - began;
	accept_errno = 0;
	expect(0, 0);
	while (got.n < 5)
		uv_run(&loop, UV_RUN_ONCE);
	dup2(standard_error, STDERR_FILENO);
	close(standard_error);
	assert_in_range(took, 295, SOON_MS); /* three pauses */
	assert_int_equal(lines_of(fileno(log)), 1);
	fclose(log);
	world_close();
}

/* ------------------------------------------------------------------ balance */

/* Whether the next client is taken when it is seen. If not, it is a millisecond later: the others may hang. */
static bool is_taken_at_once(void)
{
	unsigned before = got.n, pauses = n_pauses;
	clients(1);
	while (got.n == before)
		uv_run(&loop, UV_RUN_ONCE);
	if (got.pauses == pauses)
		return true;
	assert_int_equal(got.pauses, pauses + 1);
	assert_int_equal(pause_ms, 1);
	return false;
}

static void test_balance(void **state)
{
	world_open(AF_INET);
	expect(16, 16); /* the mean is 8 then */
	assert_false(is_taken_at_once());
	assert_false(is_taken_at_once());
	assert_int_equal(got.n, 18);
	other.value[METRIC_KAFKA_CONNECTIONS] = 4; /* mean 11, 7 above */
	assert_true(is_taken_at_once());
	assert_true(is_taken_at_once());
	assert_false(is_taken_at_once()); /* 20 against 4 */
	other.value[METRIC_KAFKA_CONNECTIONS] = 1000;
	assert_true(is_taken_at_once());
	other.value[METRIC_KAFKA_CONNECTIONS] = 0;
	gone(); /* 21 against 0 */
	assert_false(is_taken_at_once());
	world_close();
}

/* Who is not there, is no sibling or does not take connections yet says nothing about how many are too many. */
static void test_balance_of_whom(void **state)
{
	world_open(AF_INET);
	expect(16, 16);
	table.slot[5].state = PROCESS_STARTING;
	assert_true(is_taken_at_once());
	table.slot[5].state = PROCESS_DRAINING;
	assert_true(is_taken_at_once());
	table.slot[5].state = PROCESS_READY;
	table.slot[5].kind = PROCESS_WORKER_HTTP;
	assert_true(is_taken_at_once());
	table.slot[5].kind = PROCESS_WORKER_KAFKA;
	table.slot[5].pid = 0;
	assert_true(is_taken_at_once());
	table.slot[3].state = PROCESS_STARTING; /* the supervisor has not heard of us yet */
	assert_true(is_taken_at_once());
	table.slot[5].pid = 1;
	assert_false(is_taken_at_once());
	world_close();
}

/* ------------------------------------------------------------------ options, end */

static int option(int level, int name)
{
	int value = -1;
	socklen_t n = sizeof(value);
	assert_int_equal(getsockopt(got.fd[0], level, name, &value, &n), 0);
	return value;
}

static void test_options(void **state)
{
	world_open(AF_INET);
	expect(1, 1);
	assert_int_equal(option(IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option(SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(option(IPPROTO_TCP, TCP_KEEPIDLE), 30);
	assert_int_equal(option(IPPROTO_TCP, TCP_KEEPINTVL), 5);
	assert_int_equal(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 60000);
	world_close();
	child.conf.stall_timeout_ms = 10; /* never 0: that would be the kernel's own, hours */
	world_open(AF_INET);
	expect(1, 1);
	assert_int_equal(option(IPPROTO_TCP, TCP_KEEPIDLE), 1);
	assert_int_equal(option(IPPROTO_TCP, TCP_KEEPINTVL), 1);
	world_close();
}

static void test_unix(void **state)
{
	child.conf.max_connections_per_ip = 1;
	world_open(AF_UNIX);
	expect(3, 3); /* not counted */
	world_close();
}

static void on_empty(void *arg)
{
	(*(unsigned *)arg)++;
}

static void test_end(void **state)
{
	unsigned n = 0;
	world_open(AF_INET);
	expect(2, 2);
	acceptor_stop(&acceptor);
	clients(1);
	assert_int_equal(uv_run(&loop, UV_RUN_NOWAIT), 1); /* the watchdog alone */
	assert_int_equal(got.n, 2);
	acceptor_when_empty(&acceptor, on_empty, &n);
	gone();
	assert_int_equal(n, 0);
	gone();
	assert_int_equal(n, 1);
	acceptor_when_empty(&acceptor, on_empty, &n);
	assert_int_equal(n, 2);
	world_close();
	/* A stop during a pause is not undone by its end. */
	world_open(AF_INET);
	expect(16, 16);
	clients(1);
	for (unsigned pauses = n_pauses; n_pauses == pauses; )
		uv_run(&loop, UV_RUN_NOWAIT);
	unsigned taken = got.n;
	acceptor_stop(&acceptor);
	for (uint64_t began = uv_now(&loop); uv_now(&loop) - began < 20; uv_update_time(&loop))
		uv_run(&loop, UV_RUN_NOWAIT);
	assert_int_equal(got.n, taken);
	assert_false(uv_is_active((uv_handle_t *)&acceptor.listener[0].poll)); /* it would spin */
	world_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit_of_all), cmocka_unit_test(test_limit_of_address),
		cmocka_unit_test(test_out_of_descriptors), cmocka_unit_test(test_balance),
		cmocka_unit_test(test_balance_of_whom), cmocka_unit_test(test_options), cmocka_unit_test(test_unix),
		cmocka_unit_test(test_end),
	};
	conf_init(&child.conf);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
