/* SPDX-License-Identifier: Apache-2.0
 *
 * A child's first steps. Everything here was written by the supervisor, so what is missing or malformed
 * means that somebody else started the program: one line and exit 1.
 *
 * The configuration memfd holds "child.*" pairs, then the pairs of conf_write():
 *
 *   child.kind = "2"            enum process_kind
 *   child.instance = "..."      hex
 *   child.proof = "..."         hex, of a worker
 *   child.socket = "..."        path of storaged's socket
 *   child.http_address = "..."
 *   child.ds_address = "..."
 *   child.kafka_address = "..."
 *   child.kafka_tls_address = "..."
 *   child.listener = "7 pico 0 0 127.0.0.1:4437"   descriptor, protocol, beyond loopback, TLS, address
 *
 * With a TLS listener the first message on the control socket is CONTROL_TLS; it is there before the child is.
 */
#include "common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log.h"
#include "common/must.h"

#define CONFIG_MAX (1u << 20)

_Noreturn void child_fatal(int code, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_error("%s", text);
	log_flush();
	control_send(CHILD_CONTROL_FD, &(struct control_msg){ .type = CONTROL_FATAL, .a = (uint64_t)code });
	exit(code);
}

static _Noreturn void not_started_right(const char *what)
{
	fprintf(stderr, "this program is started by `pico serve` and not by hand (%s)\n", what);
	exit(1);
}

static void check_control(void)
{
	int type = 0;
	socklen_t n = sizeof(type);
	if (getsockopt(CHILD_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET)
		not_started_right("descriptor 3 is no control socket");
}

static void parse_hex(const char *s, uint8_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned v;
		if (sscanf(s + 2 * i, "%2x", &v) != 1)
			not_started_right("a hex value is malformed");
		to[i] = (uint8_t)v;
	}
}

static void parse_listener(struct child *c, const char *s)
{
	must(c->n_listeners < CHILD_LISTENERS_MAX);
	struct child_listener *l = &c->listener[c->n_listeners++];
	int beyond = 0, tls = 0;
	if (sscanf(s, "%d %15s %d %d %63s", &l->fd, l->protocol, &beyond, &tls, l->address) != 5)
		not_started_right("a listener is malformed");
	l->beyond_loopback = beyond != 0;
	l->tls = tls != 0;
}

static void copy(char *to, size_t size, const char *s)
{
	size_t n = strlen(s);
	if (n >= size)
		not_started_right("a configuration value is too long");
	memcpy(to, s, n + 1);
}

static bool parse_child_pair(struct child *c, const struct conf_pair *pair)
{
	const char *v = pair->value;
	if (strncmp(pair->key, "child.", 6) != 0)
		return false;
	const char *key = pair->key + 6;
	if (strcmp(key, "kind") == 0)
		c->kind = (enum process_kind)atoi(v);
	else if (strcmp(key, "instance") == 0)
		c->instance = strtoull(v, NULL, 16);
	else if (strcmp(key, "proof") == 0)
		parse_hex(v, c->proof, sizeof(c->proof));
	else if (strcmp(key, "socket") == 0)
		copy(c->socket_path, sizeof(c->socket_path), v);
	else if (strcmp(key, "http_address") == 0)
		copy(c->http_address, sizeof(c->http_address), v);
	else if (strcmp(key, "ds_address") == 0)
		copy(c->ds_address, sizeof(c->ds_address), v);
	else if (strcmp(key, "kafka_address") == 0)
		copy(c->kafka_address, sizeof(c->kafka_address), v);
	else if (strcmp(key, "kafka_tls_address") == 0)
		copy(c->kafka_tls_address, sizeof(c->kafka_tls_address), v);
	else if (strcmp(key, "listener") == 0)
		parse_listener(c, v);
	else
		not_started_right("a configuration key is unknown");
	return true;
}

static void read_config(struct child *c)
{
	struct stat st;
	struct buf faults;
	struct conf_pair pair;
	int n;
	if (fstat(CHILD_CONFIG_FD, &st) < 0 || st.st_size <= 0 || st.st_size > CONFIG_MAX)
		not_started_right("descriptor 4 is no configuration");
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, CHILD_CONFIG_FD, 0);
	if (map == MAP_FAILED)
		not_started_right("descriptor 4 cannot be mapped");
	buf_init(&faults, 4096);
	struct slice text = slice_of(map, (size_t)st.st_size);
	while ((n = conf_next(&text, &pair)) != 0) {
		if (n < 0 || (!parse_child_pair(c, &pair) &&
			      conf_set(&c->conf, pair.key, pair.value, true, &faults) < 0))
			not_started_right("the configuration is malformed");
	}
	buf_done(&faults);
	munmap(map, (size_t)st.st_size);
	close(CHILD_CONFIG_FD);
}

/* The key, then a line with the password of the metadata URL, perhaps empty. */
static void read_secrets(struct child *c)
{
	uint8_t bytes[32 + 1024];
	size_t have = 0;
	ssize_t n;
	while (have < sizeof(bytes) && (n = read(CHILD_SECRETS_FD, bytes + have, sizeof(bytes) - have)) > 0)
		have += (size_t)n;
	close(CHILD_SECRETS_FD);
	if (have < 33 || bytes[have - 1] != '\n')
		not_started_right("descriptor 5 holds no key");
	memcpy(c->ipc_key, bytes, 32);
	free(c->conf.meta_password);
	bytes[have - 1] = '\0';
	c->conf.meta_password = must_strdup((const char *)bytes + 32);
	explicit_bzero(bytes, sizeof(bytes));
}

static void *map_page(int fd, size_t size, int protection)
{
	void *p = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		not_started_right("a page cannot be mapped");
	close(fd);
	return p;
}

/* One message: its own page; for a worker then the process table and the pages of all slots. */
static void read_pages(struct child *c)
{
	int fds[2 + METRICS_SLOTS];
	union {
		char bytes[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control;
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			      .msg_controllen = sizeof(control.bytes) };
	if (recvmsg(CHILD_PAGES_FD, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
		not_started_right("descriptor 6 holds no pages");
	close(CHILD_PAGES_FD);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg == NULL || cmsg->cmsg_type != SCM_RIGHTS)
		not_started_right("descriptor 6 holds no pages");
	size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	if (n != (c->kind == PROCESS_STORAGED ? 1 : 2 + METRICS_SLOTS))
		not_started_right("descriptor 6 holds other pages");
	memcpy(fds, CMSG_DATA(cmsg), n * sizeof(int));
	metrics_use(map_page(fds[0], sizeof(struct metrics_page), PROT_READ | PROT_WRITE));
	if (n > 1)
		c->processes = map_page(fds[1], sizeof(struct process_table), PROT_READ);
	for (size_t i = 2; i < n; i++)
		c->pages[i - 2] = map_page(fds[i], sizeof(struct metrics_page), PROT_READ);
}

static void read_tls(struct child *c)
{
	struct control_msg msg;
	bool wanted = false;
	for (unsigned i = 0; i < c->n_listeners; i++)
		wanted |= c->listener[i].tls;
	if (wanted && (control_recv_fd(CHILD_CONTROL_FD, &msg, &c->tls_fd) < 0 || msg.type != CONTROL_TLS || c->tls_fd < 0))
		not_started_right("descriptor 3 brings no certificate");
}

static void set_cloexec(const struct child *c)
{
	fcntl(CHILD_CONTROL_FD, F_SETFD, FD_CLOEXEC);
	for (unsigned i = 0; i < c->n_listeners; i++)
		fcntl(c->listener[i].fd, F_SETFD, FD_CLOEXEC);
}

/* The supervisor may have gone before this process asked to be told. */
static void leave_with_supervisor(void)
{
	struct control_msg msg;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (recv(CHILD_CONTROL_FD, &msg, sizeof(msg), MSG_PEEK | MSG_DONTWAIT) == 0)
		_exit(1);
}

/*
 * The memory of one request is that of the next: given back to the system, each of its pages would cost a fault again.
 * What is beyond these bounds still goes back.
 */
static void keep_memory(void)
{
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 4 << 20);
	mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
}

void child_start(struct child *c, enum process_kind kind, int argc, char **argv)
{
	enum log_level level = LOG_INFO;
	memset(c, 0, sizeof(*c));
	c->tls_fd = -1;
	keep_memory();
	conf_init(&c->conf);
	check_control();
	leave_with_supervisor();
	read_config(c);
	if (c->kind != kind && !(kind == PROCESS_WORKER_HTTP && c->kind == PROCESS_WORKER_ADMIN))
		not_started_right("the configuration is for another program");
	if (kind == PROCESS_STORAGED)
		read_secrets(c);
	read_pages(c);
	read_tls(c);
	set_cloexec(c);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, process_kind_name(kind));
#ifndef PICO_SANITIZE
	/* The leak checker reads its own process through ptrace. */
	prctl(PR_SET_DUMPABLE, 0);
#endif
	log_level_parse(c->conf.log_level, &level);
	log_open(process_role_name(c->kind), level, strcmp(c->conf.log_format, "json") == 0);
}
