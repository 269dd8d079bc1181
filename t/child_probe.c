/* SPDX-License-Identifier: Apache-2.0
 *
 * A child for the supervisor's own tests: starts as storaged or worker-http do, writes what it found to
 * DATA/found-NAME, appends what it is told to DATA/order, and does what DATA/do-NAME says:
 *
 *   fatal N    CONTROL_FATAL with that code        exit N   ends before it is ready
 *   silent     never becomes ready                 once     after that file was read, it is removed
 *   stay       does not end when it is told to     nonsense sends 5 bytes on the control socket
 *
 * Every connection to a listener gets one line, "NAME PID", and for the admin worker the process table.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/child.h"
#include "common/ipc.h"
#include "common/log.h"

static struct child child;
static char orders[256];
static const char *name;

static FILE *open_in_data(const char *file, const char *suffix, const char *mode)
{
	char path[4400];
	snprintf(path, sizeof(path), "%s/%s%s", child.conf.data_dir, file, suffix);
	return fopen(path, mode);
}

static void read_orders(void)
{
	char path[4400];
	FILE *f = open_in_data("do-", name, "r");
	if (f == NULL)
		return;
	size_t n = fread(orders, 1, sizeof(orders) - 1, f);
	orders[n] = '\0';
	fclose(f);
	snprintf(path, sizeof(path), "%s/do-%s", child.conf.data_dir, name);
	if (strstr(orders, "once") != NULL)
		unlink(path);
}

static long order_number(const char *word)
{
	const char *p = strstr(orders, word);
	return p == NULL ? -1 : strtol(p + strlen(word), NULL, 10);
}

static void print_descriptors(FILE *f)
{
	char path[64], target[256];
	for (int fd = 0; fd < 200; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(path, target, sizeof(target) - 1);
		if (n > 0 && fd != fileno(f))
			fprintf(f, "fd %d %.*s cloexec=%d\n", fd, (int)n, target, fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
}

static void print_found(void)
{
	uint8_t zero[32] = { 0 };
	int signal = 0;
	FILE *f = open_in_data("found-", name, "w");
	if (f == NULL)
		child_fatal(1, "cannot write what was found");
	prctl(PR_GET_PDEATHSIG, &signal);
	fprintf(f, "pid %d\nkind %u\ninstance %d\nproof %d\nkey %d\npdeathsig %d\ndumpable %d\n", (int)getpid(), child.kind,
		child.instance != 0, memcmp(child.proof, zero, 32) != 0, memcmp(child.ipc_key, zero, 32) != 0, signal,
		prctl(PR_GET_DUMPABLE));
	fprintf(f, "password %s\nsocket %s\nhttp_address %s\npages %d\ntable %d\nnode_id %d\n", child.conf.meta_password,
		child.socket_path, child.http_address, child.pages[METRICS_SLOTS - 1] != NULL, child.processes != NULL,
		(int)child.conf.node_id);
	for (unsigned i = 0; i < child.n_listeners; i++)
		fprintf(f, "listener %d %s %s %d\n", child.listener[i].fd, child.listener[i].protocol,
			child.listener[i].address, child.listener[i].beyond_loopback);
	for (char **e = environ; *e != NULL; e++)
		fprintf(f, "env %s\n", *e);
	print_descriptors(f);
	fclose(f);
}

static void tell(const char *what)
{
	FILE *f = open_in_data("order", "", "a");
	if (f == NULL)
		return;
	fprintf(f, "%s %s\n", name, what);
	fclose(f);
}

static void print_table(int fd)
{
	const struct process_table *t = child.processes;
	dprintf(fd, "stopping %d\n", (int)t->stopping);
	for (unsigned i = 0; i < METRICS_SLOTS; i++) {
		const struct process_entry *e = &t->slot[i];
		if (e->started_ms != 0)
			dprintf(fd, "slot %u kind=%u index=%u pid=%d state=%u restarts=%d appends=%d waiters=%d\n", i, e->kind,
				e->index, e->pid, e->state, (int)e->restarts, (int)child.pages[i]->value[METRIC_APPENDS],
				(int)child.pages[i]->value[METRIC_WAITERS]);
	}
}

static void serve(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0)
		return;
	metric_add(METRIC_APPENDS, 1);
	metric_add(METRIC_WAITERS, 1);
	dprintf(fd, "%s %d\n", name, (int)getpid());
	if (child.processes != NULL)
		print_table(fd);
	close(fd);
}

static void on_control(void)
{
	struct control_msg msg;
	enum log_level level;
	int err = control_recv(CHILD_CONTROL_FD, &msg);
	if (err == -EPIPE)
		_exit(1);
	if (err < 0)
		return;
	if (msg.type == CONTROL_STOP_READY)
		tell("readiness off");
	if (msg.type == CONTROL_LOG_LEVEL && log_level_parse("debug", &level) == 0)
		tell(msg.a == (uint64_t)level ? "log level debug" : "log level other");
	if (msg.type != CONTROL_DRAIN)
		return;
	tell("drain");
	if (strstr(orders, "stay") != NULL)
		return;
	control_send(CHILD_CONTROL_FD, &(struct control_msg){ .type = CONTROL_DONE });
	exit(0);
}

static void obey_at_start(void)
{
	if (order_number("fatal ") > 0)
		child_fatal((int)order_number("fatal "), "told to be fatal");
	if (order_number("exit ") >= 0)
		exit((int)order_number("exit "));
	if (strstr(orders, "nonsense") != NULL && write(CHILD_CONTROL_FD, "hello", 5) != 5)
		exit(9);
	if (strstr(orders, "silent") == NULL && strstr(orders, "nonsense") == NULL)
		control_send(CHILD_CONTROL_FD, &(struct control_msg){ .type = CONTROL_READY });
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *program = slash != NULL ? slash + 1 : argv[0];
	child_start(&child, strcmp(program, "storaged") == 0 ? PROCESS_STORAGED : PROCESS_WORKER_HTTP, argc, argv);
	name = child.kind == PROCESS_WORKER_ADMIN ? "admin" : program;
	read_orders();
	print_found();
	obey_at_start();
	for (;;) {
		struct pollfd fds[1 + CHILD_LISTENERS_MAX] = { { .fd = CHILD_CONTROL_FD, .events = POLLIN } };
		for (unsigned i = 0; i < child.n_listeners; i++)
			fds[1 + i] = (struct pollfd){ .fd = child.listener[i].fd, .events = POLLIN };
		poll(fds, 1 + child.n_listeners, -1);
		for (unsigned i = 0; i < child.n_listeners; i++) {
			if (fds[1 + i].revents != 0)
				serve(child.listener[i].fd);
		}
		if (fds[0].revents != 0)
			on_control();
	}
}
