/* SPDX-License-Identifier: Apache-2.0
 *
 * The children: which there are, what each said, and when one that ended starts again.
 */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/must.h"

uint64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void add(struct supervisor *s, enum process_kind kind, unsigned index)
{
	must(s->n_processes < METRICS_SLOTS);
	s->process[s->n_processes++] = (struct process){ .kind = kind, .index = index, .control = -1 };
}

static void add_workers(struct supervisor *s, enum process_kind kind, uint64_t n)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (n == 0)
		n = cores < 1 ? 1 : cores > 32 ? 32 : (uint64_t)cores;
	for (unsigned i = 0; i < n && s->n_processes < METRICS_SLOTS; i++)
		add(s, kind, i);
}

void processes_init(struct supervisor *s)
{
	add(s, PROCESS_STORAGED, 0);
	if (!s->conf.no_admin)
		add(s, PROCESS_WORKER_ADMIN, 0);
	add_workers(s, PROCESS_WORKER_HTTP, s->conf.http_workers);
	if (!s->conf.no_ds || strcmp(s->conf.protocol, "ds") == 0)
		add(s, PROCESS_WORKER_HOOK, 0);
	if (!s->conf.no_kafka)
		add_workers(s, PROCESS_WORKER_KAFKA, s->conf.kafka_workers);
}

bool process_is_worker(const struct process *p)
{
	return p->kind != PROCESS_STORAGED;
}

/* "worker-http 3", "worker-http role=admin": for the log. */
const char *process_label(const struct process *p)
{
	static char text[64];
	if (p->kind == PROCESS_WORKER_ADMIN)
		snprintf(text, sizeof(text), "%s role=admin", process_kind_name(p->kind));
	else if (p->kind == PROCESS_STORAGED)
		snprintf(text, sizeof(text), "%s", process_kind_name(p->kind));
	else
		snprintf(text, sizeof(text), "%s %u", process_kind_name(p->kind), p->index);
	return text;
}

static bool may_start(const struct supervisor *s)
{
	return s->phase == PHASE_STARTING || s->phase == PHASE_SERVING || s->phase == PHASE_PAUSE;
}

static void start(struct supervisor *s, unsigned slot, uint64_t now)
{
	struct process *p = &s->process[slot];
	p->ready = p->fatal = false;
	int err = spawn(s, slot);
	if (err < 0) {
		p->start_at_ms = restart_after_death(&p->restart, false, now);
		log_error("cannot start %s: %s; trying again in %d ms", process_label(p), strerror(-err),
			  (int)(p->start_at_ms - now));
		return;
	}
	s->pages.table->slot[slot].started_ms = now;
}

void processes_start_due(struct supervisor *s, uint64_t now)
{
	if (!may_start(s))
		return;
	for (unsigned i = 0; i < s->n_processes; i++) {
		if (s->process[i].pid == 0 && s->process[i].start_at_ms <= now)
			start(s, i, now);
	}
}

const struct process *processes_looping(const struct supervisor *s)
{
	for (unsigned i = 0; i < s->n_processes; i++) {
		if (s->process[i].pid == 0 && s->process[i].restart.delay_ms > 0)
			return &s->process[i];
	}
	return NULL;
}

uint64_t processes_next_start(const struct supervisor *s)
{
	uint64_t next = UINT64_MAX;
	for (unsigned i = 0; i < s->n_processes && may_start(s); i++) {
		if (s->process[i].pid == 0 && s->process[i].start_at_ms < next)
			next = s->process[i].start_at_ms;
	}
	return next;
}

static void on_message(struct supervisor *s, struct process *p, const struct control_msg *msg)
{
	switch (msg->type) {
	case CONTROL_READY:
		p->ready = true;
		break;
	case CONTROL_FATAL:
		p->fatal = true;
		p->fatal_code = msg->a >= 1 && msg->a <= 125 ? (int)msg->a : 1;
		break;
	case CONTROL_RELOAD:
		if (p->kind == PROCESS_WORKER_ADMIN)
			reload(s);
		break;
	default:        /* progress, done: the exit tells the same */
		break;
	}
}

/* A child that closed its end, or speaks nonsense, is of no use any more. */
void process_on_control(struct supervisor *s, unsigned slot)
{
	struct process *p = &s->process[slot];
	struct control_msg msg;
	int err;
	while ((err = control_recv(p->control, &msg)) == 0)
		on_message(s, p, &msg);
	if (err == -EAGAIN)
		return;
	close(p->control);
	p->control = -1;
	if (err != -EPIPE)
		log_error("%s sent nonsense on its control socket, killing it", process_label(p));
	if (p->pid != 0 && err != -EPIPE)
		kill(p->pid, SIGKILL);
}

static void describe_end(int status, char *ret_text, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(ret_text, size, "signal=%d", WTERMSIG(status));
	else
		snprintf(ret_text, size, "exit=%d", WEXITSTATUS(status));
}

/* What it had said before it ended is heard first. */
static void on_end(struct supervisor *s, unsigned slot, int status, uint64_t now)
{
	struct process *p = &s->process[slot];
	struct process_entry *entry = &s->pages.table->slot[slot];
	char how[32];
	if (p->control >= 0)
		process_on_control(s, slot);
	if (p->control >= 0)
		close(p->control);
	p->control = -1;
	pid_t pid = p->pid;
	p->pid = 0;
	metrics_reset_gauges(s->pages.metrics[slot]);
	if (p->fatal && (s->phase == PHASE_STARTING || p->fatal_code == CONTROL_EXIT_SHARED)) {
		life_stop(s, p->fatal_code);
		return;
	}
	if (!may_start(s))
		return;
	entry->restarts++;
	p->start_at_ms = restart_after_death(&p->restart, p->ready, now);
	p->ready = false;
	describe_end(status, how, sizeof(how));
	log_warn("%s ended, starting it again in %d ms pid=%d %s restarts=%d", process_label(p), (int)(p->start_at_ms - now),
		 (int)pid, how, (int)entry->restarts);
}

void processes_reap(struct supervisor *s)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < s->n_processes; i++) {
			if (s->process[i].pid == pid)
				on_end(s, i, status, now_ms());
		}
	}
}

bool processes_all_ready(const struct supervisor *s)
{
	for (unsigned i = 0; i < s->n_processes; i++) {
		if (!s->process[i].ready)
			return false;
	}
	return true;
}

unsigned processes_running(const struct supervisor *s, bool workers)
{
	unsigned n = 0;
	for (unsigned i = 0; i < s->n_processes; i++)
		n += s->process[i].pid != 0 && process_is_worker(&s->process[i]) == workers;
	return n;
}

void processes_send(struct supervisor *s, bool workers, enum control_type type, uint64_t a)
{
	for (unsigned i = 0; i < s->n_processes; i++) {
		const struct process *p = &s->process[i];
		struct control_msg msg = { .type = (uint16_t)type, .kind = (uint16_t)p->kind, .a = a };
		if (p->control >= 0 && process_is_worker(p) == workers)
			control_send(p->control, &msg); /* one that does not read is killed at the deadline */
	}
}

static bool speaks_tls(const struct supervisor *s, const struct process *p)
{
	for (unsigned i = 0; i < s->listeners.n; i++)
		if (s->listeners.item[i].tls && spawn_inherits(p, &s->listeners.item[i]))
			return true;
	return false;
}

void processes_send_certificates(const struct supervisor *s)
{
	for (unsigned i = 0; i < s->n_processes; i++) {
		const struct process *p = &s->process[i];
		if (p->control >= 0 && speaks_tls(s, p))
			control_send_fd(p->control, &(struct control_msg){ .type = CONTROL_TLS }, s->tls_fd);
	}
}

void processes_kill(struct supervisor *s, bool workers)
{
	for (unsigned i = 0; i < s->n_processes; i++) {
		const struct process *p = &s->process[i];
		if (p->pid == 0 || process_is_worker(p) != workers)
			continue;
		log_warn("%s did not end in time, killing it pid=%d", process_label(p), (int)p->pid);
		kill(p->pid, SIGKILL);
	}
}

static enum process_state state_of(const struct supervisor *s, const struct process *p)
{
	if (s->phase >= PHASE_WORKERS)
		return PROCESS_DRAINING;
	if (p->pid == 0)
		return PROCESS_BACKING_OFF;
	return p->ready ? PROCESS_READY : PROCESS_STARTING;
}

void processes_show(struct supervisor *s)
{
	for (unsigned i = 0; i < s->n_processes; i++) {
		const struct process *p = &s->process[i];
		struct process_entry *e = &s->pages.table->slot[i];
		e->kind = (uint32_t)p->kind;
		e->index = p->index;
		e->state = (uint32_t)state_of(s, p);
		__atomic_store_n(&e->pid, (int32_t)p->pid, __ATOMIC_RELEASE);
	}
}
