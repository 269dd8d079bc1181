/* SPDX-License-Identifier: Apache-2.0
 *
 * fork and exec of one child with the descriptors of common/child.h: each is first moved out of the way of
 * the fixed numbers, then put on its own. Everything else this process holds is close-on-exec.
 */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/ipc.h"
#include "common/log.h"
#include "common/must.h"

#define ABOVE_FIXED (CHILD_LISTENER_FD + CHILD_LISTENERS_MAX)
#define CONFIG_TEXT_MAX (1u << 19)
#define ENVIRONMENT_MAX 64

/* What one child gets; -1: not this one. */
struct outfit {
	int control[2], pages[2], config, secrets;
	int listener[CHILD_LISTENERS_MAX];
	unsigned n_listeners;
	bool tls;                       /* one of them */
};

/* Variables that a child may see: nothing of ours, nothing that could be a secret. */
static const char *const harmless[] = {
	"PATH=", "HOME=", "LANG=", "LC_", "TZ=", "TMPDIR=", "MALLOC_", "ASAN_", "UBSAN_", "LSAN_", "LLVM_PROFILE_FILE=",
	"GCOV_", "LD_LIBRARY_PATH=", "LD_PRELOAD=", "FAKETIME", "FIU_",
};

/* Storaged alone has credentials of stores; it takes them out of its environment. */
static bool is_for(enum process_kind kind, const char *variable)
{
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
		if (strncmp(variable, harmless[i], strlen(harmless[i])) == 0)
			return true;
	}
	if (strncmp(variable, "SSL_CERT_", 9) == 0)
		return kind == PROCESS_STORAGED || kind == PROCESS_WORKER_HOOK;
	return kind == PROCESS_STORAGED && strncmp(variable, "AWS_", 4) == 0;
}

/* Whose listeners it is. */
static bool serves(enum process_kind kind, const char *protocol)
{
	switch (kind) {
	case PROCESS_STORAGED: return strcmp(protocol, "ipc") == 0;
	case PROCESS_WORKER_HTTP: return strcmp(protocol, "pico") == 0 || strcmp(protocol, "ds") == 0;
	case PROCESS_WORKER_ADMIN: return strcmp(protocol, "admin") == 0;
	case PROCESS_WORKER_KAFKA: return strcmp(protocol, "kafka") == 0;
	case PROCESS_SUPERVISOR:
	case PROCESS_WORKER_HOOK:
	case PROCESS_KINDS: break;
	}
	return false;
}

static void write_hex(struct buf *out, const char *key, const uint8_t *p, size_t n)
{
	buf_printf(out, "%s = ", key);
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "%02x", p[i]);
	buf_put_str(out, "\n");
}

bool spawn_inherits(const struct process *p, const struct child_listener *l)
{
	return serves(p->kind, l->protocol);
}

static void write_listeners(const struct supervisor *s, const struct process *p, struct outfit *o, struct buf *out)
{
	for (unsigned i = 0; i < s->listeners.n; i++) {
		const struct child_listener *l = &s->listeners.item[i];
		if (!spawn_inherits(p, l))
			continue;
		buf_printf(out, "child.listener = %u %s %d %d %s\n", CHILD_LISTENER_FD + o->n_listeners, l->protocol,
			   l->beyond_loopback, l->tls, l->address);
		o->tls |= l->tls;
		o->listener[o->n_listeners++] = l->fd;
	}
}

static void write_config(const struct supervisor *s, const struct process *p, struct outfit *o, struct buf *out)
{
	uint64_t instance;
	uint8_t proof[32];
	must(getrandom(&instance, sizeof(instance), 0) == sizeof(instance));
	buf_printf(out, "child.kind = %u\nchild.instance = %016" PRIx64 "\n", (unsigned)p->kind, instance);
	if (process_is_worker(p)) {
		ipc_proof(s->ipc_key, ipc_role_of(p->kind), instance, proof);
		write_hex(out, "child.proof", proof, sizeof(proof));
	}
	conf_write_pair(out, "child.socket", s->listeners.socket_path);
	conf_write_pair(out, "child.http_address", s->listeners.http_address);
	conf_write_pair(out, "child.ds_address", s->listeners.ds_address);
	conf_write_pair(out, "child.kafka_address", s->listeners.kafka_address);
	conf_write_pair(out, "child.kafka_tls_address", s->listeners.kafka_tls_address);
	write_listeners(s, p, o, out);
	conf_write(&s->conf, out);
}

/* The configuration in a memfd that nobody can change any more. */
static int config_new(const struct buf *text)
{
	int fd = memfd_create("pico-config", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, buf_head(text), buf_len(text));
	if (n != (ssize_t)buf_len(text) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		int err = n < 0 || errno != 0 ? -errno : -ENOSPC;
		close(fd);
		return err;
	}
	return fd;
}

/* A pipe that holds the key and the password line; it fits, so the write does not block. */
static int secrets_new(const struct supervisor *s)
{
	int fd[2];
	size_t n = strlen(s->conf.meta_password);
	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	bool good = n <= 1000 && write(fd[1], s->ipc_key, 32) == 32 && write(fd[1], s->conf.meta_password, n) == (ssize_t)n &&
		    write(fd[1], "\n", 1) == 1;
	close(fd[1]);
	if (good)
		return fd[0];
	close(fd[0]);
	return -EIO;
}

static void outfit_close(struct outfit *o)
{
	int fds[] = { o->control[0], o->control[1], o->pages[0], o->pages[1], o->config, o->secrets };
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

static int outfit_open(struct supervisor *s, unsigned slot, struct outfit *o)
{
	struct process *p = &s->process[slot];
	struct buf text;
	*o = (struct outfit){ .control = { -1, -1 }, .pages = { -1, -1 }, .config = -1, .secrets = -1 };
	buf_init(&text, CONFIG_TEXT_MAX);
	write_config(s, p, o, &text);
	int err = text.failed ? -ENOBUFS : 0;
	if (err == 0 && (o->config = config_new(&text)) < 0)
		err = o->config;
	buf_done(&text);
	if (err == 0 && p->kind == PROCESS_STORAGED && (o->secrets = secrets_new(s)) < 0)
		err = o->secrets;
	if (err == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, o->control) < 0)
		err = -errno;
	if (err == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, o->pages) < 0)
		err = -errno;
	if (err == 0)
		err = pages_send(&s->pages, p->kind, slot, o->pages[0]);
	if (err == 0 && o->tls)
		err = control_send_fd(o->control[0], &(struct control_msg){ .type = CONTROL_TLS }, s->tls_fd);
	return err;
}

static int move_up(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, ABOVE_FIXED);
}

/* Puts the descriptors on their numbers; dup2 clears close-on-exec. */
static void place_descriptors(const struct outfit *o)
{
	int from[ABOVE_FIXED];
	for (int i = 0; i < ABOVE_FIXED; i++)
		from[i] = -1;
	from[CHILD_CONTROL_FD] = move_up(o->control[1]);
	from[CHILD_CONFIG_FD] = move_up(o->config);
	from[CHILD_SECRETS_FD] = move_up(o->secrets);
	from[CHILD_PAGES_FD] = move_up(o->pages[1]);
	for (unsigned i = 0; i < o->n_listeners; i++)
		from[CHILD_LISTENER_FD + i] = move_up(o->listener[i]);
	for (int i = CHILD_CONTROL_FD; i < ABOVE_FIXED; i++) {
		if (from[i] >= 0)
			dup2(from[i], i);
	}
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
}

static _Noreturn void become_child(int program, enum process_kind kind, const struct outfit *o, pid_t parent)
{
	static char role[] = "role=admin";
	char *argv[3] = { (char *)(uintptr_t)process_kind_name(kind), NULL, NULL };
	char *env[ENVIRONMENT_MAX + 1];
	size_t n = 0;
	if (kind == PROCESS_WORKER_ADMIN)
		argv[1] = role;
	for (char **e = environ; *e != NULL && n < ENVIRONMENT_MAX; e++) {
		if (is_for(kind, *e))
			env[n++] = *e;
	}
	env[n] = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	signals_restore();
	program = fcntl(program, F_DUPFD_CLOEXEC, 2 * ABOVE_FIXED);
	place_descriptors(o);
	syscall(SYS_execveat, program, "", argv, env, 0x1000 /* AT_EMPTY_PATH */);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

int spawn(struct supervisor *s, unsigned slot)
{
	struct process *p = &s->process[slot];
	struct outfit o;
	pid_t parent = getpid(), pid = -1;
	int err = outfit_open(s, slot, &o);
	if (err == 0) {
		pid = fork();
		err = pid < 0 ? -errno : 0;
	}
	if (pid == 0)
		become_child(s->program_fd[p->kind], p->kind, &o, parent);
	if (err == 0) {
		p->pid = pid;
		p->control = o.control[0];
		o.control[0] = -1;
	}
	outfit_close(&o);
	return err;
}
