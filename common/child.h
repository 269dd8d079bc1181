/* SPDX-License-Identifier: Apache-2.0
 *
 * What a child of the supervisor finds at its start: descriptors 3 control, 4 configuration (sealed
 * memfd), 5 secrets pipe (storaged only), 6 a socket preloaded with the pages (SCM_RIGHTS), 7.. the
 * listeners that the configuration names.
 */
#ifndef COMMON_CHILD_H
#define COMMON_CHILD_H

#include "common/conf.h"
#include "common/control.h"
#include "common/metrics.h"

#define CHILD_CONTROL_FD 3
#define CHILD_CONFIG_FD 4
#define CHILD_SECRETS_FD 5
#define CHILD_PAGES_FD 6
#define CHILD_LISTENER_FD 7
#define CHILD_LISTENERS_MAX 64

struct child_listener {
	int fd;
	char protocol[16];          /* pico, ds, kafka, admin, ipc */
	char address[64];           /* host:port really bound */
	bool beyond_loopback;
	bool tls;
};

/* The process table: one entry a slot, written by the supervisor alone. */
struct process_entry {
	uint32_t kind;              /* enum process_kind; pid 0: slot is free */
	int32_t pid;
	uint64_t started_ms;        /* CLOCK_BOOTTIME */
	uint64_t restarts;          /* of this slot's process since the supervisor started */
	uint32_t state;             /* enum process_state */
	uint32_t index;             /* which of its kind */
};
enum process_state { PROCESS_STARTING, PROCESS_READY, PROCESS_DRAINING, PROCESS_BACKING_OFF };
struct process_table {
	uint64_t magic;
	uint64_t stopping;          /* not 0 from the moment a stop begins */
	struct process_entry slot[METRICS_SLOTS];
};

struct child {
	enum process_kind kind;
	struct conf conf;
	uint64_t instance;              /* of this process, random */
	uint8_t proof[32];              /* workers: for Hello */
	char socket_path[4200];         /* of storaged */
	char http_address[256];         /* advertised, "" when none */
	char ds_address[256];           /* the same of Durable Streams */
	char kafka_address[300];        /* the same, host:port */
	char kafka_tls_address[300];    /* the same for clients that speak TLS */
	struct child_listener listener[CHILD_LISTENERS_MAX];
	unsigned n_listeners;
	uint8_t ipc_key[32];            /* storaged */
	int tls_fd;                     /* a worker with a TLS listener: as CONTROL_TLS brings it; else -1 */
	const struct process_table *processes;                      /* workers; NULL for storaged */
	const struct metrics_page *pages[METRICS_SLOTS];            /* workers: by slot */
};

/*
 * Reads all of the above, sets PR_SET_PDEATHSIG, PR_SET_DUMPABLE 0, SIGPIPE ignored, comm, the log,
 * metrics_use(). Prints one line and exits when it was not started by the supervisor.
 */
void child_start(struct child *c, enum process_kind kind, int argc, char **argv);

/* One line on stderr, CONTROL_FATAL, exit(code): a start that cannot succeed (operations: 1, 2, 3, 75). */
_Noreturn void child_fatal(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
