/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's state: what it opened at the start, its children, and where it stands in its life. One
 * thread, one poll loop (main.c); every function below runs there.
 */
#ifndef SUPERVISOR_SUPERVISOR_H
#define SUPERVISOR_SUPERVISOR_H

#include <sys/types.h>

#include "common/child.h"
#include "supervisor/certificates.h"
#include "supervisor/home.h"
#include "supervisor/listeners.h"
#include "supervisor/pages.h"
#include "supervisor/restart.h"

#define STOP_BOUND_MS 1000      /* a stop takes the drain pause and this */
#define STOP_WORKERS_MS 700     /* of it, for the workers */
#define STOP_SLACK_MS 100       /* a child is told less, so that it can end by itself before it is killed */

#define START_SLACK_MS 1500     /* storaged gives up first and knows why */

enum phase {
	PHASE_STARTING,         /* not every child has been ready once */
	PHASE_SERVING,
	PHASE_PAUSE,            /* readiness is off, everything still serves */
	PHASE_WORKERS,          /* workers finish what is in flight */
	PHASE_STORAGED,         /* storaged flushes */
	PHASE_OVER,
};

struct process {
	enum process_kind kind;
	unsigned index;                 /* which of its kind */
	pid_t pid;                      /* 0: none runs */
	int control;                    /* -1: none runs, or it hung up */
	bool ready, fatal;
	int fatal_code;
	uint64_t start_at_ms;           /* when none runs: not before */
	struct restart restart;
};

struct supervisor {
	int argc;
	char **argv;                    /* for a reload; secrets in it are overwritten */
	struct conf conf;
	struct conf_origins origins;
	struct home home;
	struct listeners listeners;
	struct pages pages;
	int program_fd[PROCESS_KINDS];  /* -1: not needed */
	uint8_t ipc_key[32];
	int tls_fd;                     /* of certificates_open(); -1: nothing listens with TLS */
	struct process process[METRICS_SLOTS];  /* the index is the slot */
	unsigned n_processes;
	int signal_fd;
	enum phase phase;
	uint64_t deadline_ms;           /* of the phase; 0: none */
	uint64_t stop_ms;               /* when the drain pause was over */
	bool told_looping;              /* the service manager knows that a child dies again and again */
	int exit_code;
};

uint64_t now_ms(void);                                          /* CLOCK_BOOTTIME */

/* options.c: 0, or -1 when this run is over with s->exit_code (--help, a fault, ...). */
int options_load(struct supervisor *s);
void options_warn(const struct supervisor *s);

/* programs.c: 0 or the exit code after one line. */
int programs_open(struct supervisor *s);
void programs_close(struct supervisor *s);

/* spawn.c: starts the program of process[slot]. 0 or negative errno. */
int spawn(struct supervisor *s, unsigned slot);
/* Whether that process serves this listener. */
bool spawn_inherits(const struct process *p, const struct child_listener *l);

/* process.c */
void processes_init(struct supervisor *s);              /* one slot each; none runs */
void processes_start_due(struct supervisor *s, uint64_t now);
const struct process *processes_looping(const struct supervisor *s);    /* one that waits for its next start, or NULL */
const char *process_label(const struct process *p);     /* "worker-http 3"; valid until the next call */
uint64_t processes_next_start(const struct supervisor *s);      /* UINT64_MAX: nothing waits */
void process_on_control(struct supervisor *s, unsigned slot);   /* its control socket is readable */
void processes_reap(struct supervisor *s);
bool processes_all_ready(const struct supervisor *s);
bool process_is_worker(const struct process *p);
unsigned processes_running(const struct supervisor *s, bool workers);
void processes_send(struct supervisor *s, bool workers, enum control_type type, uint64_t a);
void processes_send_certificates(const struct supervisor *s);   /* to those who have a TLS listener */
void processes_kill(struct supervisor *s, bool workers);
void processes_show(struct supervisor *s);              /* writes the table page */

/* life.c: what happens when a deadline passes, a child is ready or gone, or a stop is asked for. */
void life_begin(struct supervisor *s);
void life_step(struct supervisor *s, uint64_t now);
void life_stop(struct supervisor *s, int exit_code);

/* reload.c: SIGHUP. */
void reload(struct supervisor *s);

/* signals.c: 0 or the exit code after one line. */
int signals_open(struct supervisor *s);
void signals_take(struct supervisor *s);
void signals_restore(void);                             /* in a child, before exec */

#endif
