/* SPDX-License-Identifier: Apache-2.0
 *
 * The data directory and the runtime directory: made, checked and locked, so that one supervisor alone
 * runs on them.
 */
#ifndef SUPERVISOR_HOME_H
#define SUPERVISOR_HOME_H

#include <stdbool.h>

#include "common/conf.h"

#define HOME_FORMAT 1

struct home_dir {
	char *path;             /* owned */
	int fd;                 /* O_PATH's stronger brother: a readable directory */
	int lock_fd;            /* flock, close-on-exec: ends with this process */
	unsigned n_made;        /* directories made for it, itself included */
	bool lock_made;
};

struct home {
	struct home_dir data, runtime;  /* runtime.fd is data.fd when both are the same */
	bool format_made, instance_made, pid_made;
	bool stale;                     /* the last supervisor here did not stop on purpose */
};

/* 0 or the exit code, after one line in the log. Whatever was made is gone again then. */
int home_open(struct home *h, const struct conf *conf);
/* Writes the pid file; from now on the start counts. */
int home_write_pid(struct home *h);
/* Takes back what home_open() made, for a start that fails; all of it stays when a child has put something there. */
void home_undo(struct home *h);
/* Removes the pid file and lets go. */
void home_close(struct home *h);

#endif
