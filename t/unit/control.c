/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages over a real socketpair: borders, foreign bytes, a full queue, the other end gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/control.h"

static void test_messages(void **state)
{
	int fd[2];
	struct control_msg in;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	assert_int_equal(control_recv(fd[1], &in), -EAGAIN);
	assert_int_equal(control_send(fd[0], &(struct control_msg){ .type = CONTROL_READY, .kind = PROCESS_STORAGED,
								     .a = 7 }), 0);
	assert_int_equal(control_send(fd[0], &(struct control_msg){ .type = CONTROL_DRAIN, .c = UINT64_MAX }), 0);
	assert_int_equal(control_recv(fd[1], &in), 0);
	assert_int_equal(in.type, CONTROL_READY);
	assert_int_equal(in.kind, PROCESS_STORAGED);
	assert_int_equal(in.a, 7);
	assert_int_equal(control_recv(fd[1], &in), 0);
	assert_int_equal(in.type, CONTROL_DRAIN);
	assert_true(in.c == UINT64_MAX);
	close(fd[0]);
	assert_int_equal(control_recv(fd[1], &in), -EPIPE);
	assert_int_equal(control_send(fd[1], &in), -EPIPE);
	close(fd[1]);
}

static void test_foreign_bytes(void **state)
{
	int fd[2];
	char junk[33] = { 0 };
	struct control_msg in = { .a = 5 };
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	for (size_t n = 1; n <= sizeof(junk); n += 31) {
		assert_int_equal(send(fd[0], junk, n, 0), n);
		assert_int_equal(control_recv(fd[1], &in), -EPROTO);
	}
	assert_int_equal(in.a, 5);
	close(fd[0]);
	close(fd[1]);
}

static void test_full_queue(void **state)
{
	int fd[2], err = 0;
	unsigned n = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	for (; n < 1000000 && err == 0; n++)
		err = control_send(fd[0], &(struct control_msg){ .type = CONTROL_PROGRESS });
	assert_int_equal(err, -EAGAIN);
	close(fd[0]);
	close(fd[1]);
}

static void test_names(void **state)
{
	assert_string_equal(process_kind_name(PROCESS_STORAGED), "storaged");
	assert_string_equal(process_kind_name(PROCESS_WORKER_HTTP), "worker-http");
	assert_string_equal(process_kind_name(PROCESS_WORKER_ADMIN), "worker-http");
	assert_string_equal(process_role_name(PROCESS_WORKER_ADMIN), "admin");
	assert_string_equal(process_role_name(PROCESS_WORKER_HTTP), "worker-http");
	assert_string_equal(process_kind_name((enum process_kind)99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages), cmocka_unit_test(test_foreign_bytes),
		cmocka_unit_test(test_full_queue), cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
