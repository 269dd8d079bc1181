/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared pages: the process table and the metrics of every slot. Made once, they outlive the processes.
 */
#ifndef SUPERVISOR_PAGES_H
#define SUPERVISOR_PAGES_H

#include "common/child.h"

struct pages {
	struct process_table *table;                    /* mapped; the supervisor alone can write */
	int table_fd;                                   /* read-only, for the workers */
	struct metrics_page *metrics[METRICS_SLOTS];    /* mapped, to set gauges back */
	int metrics_fd[METRICS_SLOTS];                  /* for its child */
	int metrics_read_fd[METRICS_SLOTS];             /* read-only, for the workers */
};

/* 0 or negative errno; pages_close() in both cases. */
int pages_open(struct pages *p);
void pages_close(struct pages *p);
/* Sends the pages of a child of that kind through a socket, whose other end becomes its CHILD_PAGES_FD. */
int pages_send(const struct pages *p, enum process_kind kind, unsigned slot, int socket);

#endif
