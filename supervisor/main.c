/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor, which `pico serve` becomes: binds every listener, starts storaged and the workers, starts
 * again what dies, stops them in order. It never reads a client's byte.
 */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "common/must.h"
#include "supervisor/notify.h"

#define LOG_TICK_MS 10000
#define KEPT_DESCRIPTORS 256    /* of a worker, not for connections */

/* What a careless parent left open is no child's business. */
static void close_inherited(void)
{
	syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
}

static void raise_limits(const struct supervisor *s)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	uint64_t cap = l.rlim_cur > KEPT_DESCRIPTORS ? l.rlim_cur - KEPT_DESCRIPTORS : 0;
	if (s->conf.max_connections != 0 && s->conf.max_connections < cap)
		cap = s->conf.max_connections;
	log_info("limits descriptors=%" PRIu64 " connections_a_worker=%" PRIu64, (uint64_t)l.rlim_cur, cap);
}

static int open_pages(struct supervisor *s)
{
	int err = pages_open(&s->pages);
	if (err == 0)
		return 0;
	log_error("cannot make the shared pages: %s%s", strerror(-err),
		  err == -EMFILE ? "; a node needs 200 descriptors, see ulimit -n and LimitNOFILE=" : "");
	return 1;
}

static int open_certificates(struct supervisor *s)
{
	char fault[CERTIFICATES_FAULT_MAX];
	s->tls_fd = -1;
	if (!certificates_wanted(&s->conf))
		return 0;
	s->tls_fd = certificates_open(&s->conf, fault);
	if (s->tls_fd >= 0)
		return 0;
	log_error("%s", fault);
	return 1;
}

/* Everything that can refuse the start, in the order in which it is cheap to take back. */
static int open_all(struct supervisor *s)
{
	processes_init(s);
	int code = open_certificates(s);
	if (code == 0)
		code = programs_open(s);
	if (code == 0)
		code = home_open(&s->home, &s->conf);
	if (code == 0)
		code = listeners_open(&s->listeners, &s->conf, &s->home);
	if (code == 0)
		code = open_pages(s);
	if (code == 0)
		code = signals_open(s);
	if (code == 0)
		code = home_write_pid(&s->home);
	if (code != 0) {
		listeners_close(&s->listeners, &s->home);
		home_undo(&s->home);
	}
	return code;
}

static int poll_timeout(const struct supervisor *s, uint64_t now)
{
	uint64_t next = now + LOG_TICK_MS, start = processes_next_start(s);
	if (s->deadline_ms != 0 && s->deadline_ms < next)
		next = s->deadline_ms;
	if (start < next)
		next = start;
	return next > now ? (int)(next - now) : 0;
}

/* One turn: wait, hear everybody, move on. */
static void turn(struct supervisor *s)
{
	struct pollfd fds[1 + METRICS_SLOTS] = { { .fd = s->signal_fd, .events = POLLIN } };
	for (unsigned i = 0; i < s->n_processes; i++)
		fds[1 + i] = (struct pollfd){ .fd = s->process[i].control, .events = POLLIN };
	int n = poll(fds, 1 + s->n_processes, poll_timeout(s, now_ms()));
	log_tick();
	for (unsigned i = 0; i < s->n_processes && n > 0; i++) {
		if (fds[1 + i].revents != 0 && s->process[i].control == fds[1 + i].fd)
			process_on_control(s, i);
	}
	if (n > 0 && fds[0].revents != 0)
		signals_take(s);
	life_step(s, now_ms());
	processes_start_due(s, now_ms());
	processes_show(s);
}

int main(int argc, char **argv)
{
	static struct supervisor s;
	s.argc = argc;
	s.argv = argv;
	close_inherited();
	notify_open();
	if (options_load(&s) < 0)
		return s.exit_code;
	must(getrandom(s.ipc_key, sizeof(s.ipc_key), 0) == sizeof(s.ipc_key));
	s.exit_code = open_all(&s);
	if (s.exit_code != 0)
		return s.exit_code;
	raise_limits(&s);
	options_warn(&s);
	life_begin(&s);
	for (processes_start_due(&s, now_ms()); s.phase != PHASE_OVER; )
		turn(&s);
	listeners_close(&s.listeners, &s.home);
	if (s.exit_code != 0)
		home_undo(&s.home);
	else
		home_close(&s.home);
	pages_close(&s.pages);
	programs_close(&s);
	conf_done(&s.conf);
	log_flush();
	return s.exit_code;
}
