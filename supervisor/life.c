/* SPDX-License-Identifier: Apache-2.0
 *
 * The phases of the supervisor's life and what moves it from one to the next:
 *
 *   STARTING -> SERVING -> PAUSE -> WORKERS -> STORAGED -> OVER
 *       |__________________________^
 *
 * A stop is bounded: the pause, STOP_WORKERS_MS for the workers, STOP_BOUND_MS in all; then SIGKILL. What was
 * acknowledged is stored by then, so nothing is lost by it.
 */
#include "supervisor/supervisor.h"

#include <signal.h>
#include <stdio.h>

#include "common/log.h"
#include "supervisor/notify.h"

void life_begin(struct supervisor *s)
{
	s->phase = PHASE_STARTING;
	s->deadline_ms = now_ms() + s->conf.start_timeout_ms + START_SLACK_MS;
	notify("STATUS=starting");
}

static void announce(const struct supervisor *s)
{
	const char *first = "";
	for (unsigned i = 0; i < s->listeners.n; i++) {
		const struct child_listener *l = &s->listeners.item[i];
		if (strcmp(l->protocol, "ipc") == 0)
			continue;
		if (strcmp(l->protocol, "kafka") == 0)
			printf("kafka%s on %s\n", l->tls ? " tls" : "", l->address);
		else
			printf("%s on %s://%s\n", l->protocol, l->tls ? "https" : "http", l->address);
		if (first[0] == '\0')
			first = l->address;
	}
	printf("ready\n");
	fflush(stdout);
	notify("READY=1\nSTATUS=serving on %s", first);
}

/* A crash loop is red even when the worker that would say so is the one that loops. */
static void tell_status(struct supervisor *s)
{
	const struct process *p = processes_looping(s);
	if (p != NULL && !s->told_looping)
		notify("STATUS=%s dies again and again", process_label(p));
	else if (p == NULL && s->told_looping && processes_all_ready(s))
		notify("STATUS=serving");
	else
		return;
	s->told_looping = p != NULL;
}

static void to_serving(struct supervisor *s)
{
	s->phase = PHASE_SERVING;
	s->deadline_ms = 0;
	announce(s);
}

static void to_workers(struct supervisor *s, uint64_t now)
{
	s->phase = PHASE_WORKERS;
	s->stop_ms = now;
	s->deadline_ms = now + STOP_WORKERS_MS;
	listeners_close_tcp(&s->listeners);
	processes_send(s, true, CONTROL_DRAIN, STOP_WORKERS_MS - STOP_SLACK_MS);
}

static void to_storaged(struct supervisor *s, uint64_t now)
{
	uint64_t end = s->stop_ms + STOP_BOUND_MS;
	s->phase = PHASE_STORAGED;
	s->deadline_ms = end > now ? end : now;
	processes_send(s, false, CONTROL_DRAIN, s->deadline_ms - now > STOP_SLACK_MS ? s->deadline_ms - now - STOP_SLACK_MS : 0);
}

void life_stop(struct supervisor *s, int exit_code)
{
	if (s->phase >= PHASE_PAUSE)
		return;
	bool was_serving = s->phase == PHASE_SERVING;
	s->exit_code = exit_code;
	s->phase = PHASE_PAUSE;
	s->deadline_ms = now_ms() + (was_serving ? s->conf.shutdown_drain_ms : 0);
	__atomic_store_n(&s->pages.table->stopping, 1, __ATOMIC_RELEASE);
	processes_send(s, true, CONTROL_STOP_READY, 0);
	notify("STOPPING=1\nSTATUS=stopping");
}

static void on_start_timeout(struct supervisor *s)
{
	const char *who = "storaged";
	for (unsigned i = 0; i < s->n_processes; i++) {
		if (!s->process[i].ready) {
			who = process_kind_name(s->process[i].kind);
			break;
		}
	}
	log_error("--start-timeout-ms: %s is not ready after %d ms, leaving", who, (int)s->conf.start_timeout_ms);
	life_stop(s, 75);
}

/* Called after every event and at every deadline; goes as many steps as there are to go. */
void life_step(struct supervisor *s, uint64_t now)
{
	bool late = s->deadline_ms != 0 && now >= s->deadline_ms;
	if (s->phase == PHASE_STARTING && processes_all_ready(s))
		to_serving(s);
	else if (s->phase == PHASE_STARTING && late)
		on_start_timeout(s);
	if (s->phase == PHASE_SERVING)
		tell_status(s);
	late = s->deadline_ms != 0 && now >= s->deadline_ms;
	if (s->phase == PHASE_PAUSE && late) {
		to_workers(s, now);
		late = false;
	}
	if (s->phase == PHASE_WORKERS && late) {
		processes_kill(s, true);
		s->deadline_ms = 0;
		late = false;
	}
	if (s->phase == PHASE_WORKERS && processes_running(s, true) == 0)
		to_storaged(s, now);
	else if (s->phase == PHASE_STORAGED && late) {
		processes_kill(s, false);
		s->deadline_ms = 0;
	}
	if (s->phase == PHASE_STORAGED && processes_running(s, false) == 0)
		s->phase = PHASE_OVER;
}
