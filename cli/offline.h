/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands share that look at a node's storage themselves: the options of `pico serve` that say where it is, its
 * stores opened to read, its data directory locked against a start.
 */
#ifndef CLI_OFFLINE_H
#define CLI_OFFLINE_H

#include "cli/cli.h"
#include "common/conf.h"
#include "storaged/offline/shelf.h"

struct offline {
	struct conf conf;
	struct shelf *data, *wal;       /* wal: NULL when it is the same place */
	const char *database;           /* path; points into conf */
	int lock_fd;                    /* -1: not locked */
};

/* Takes --NAME VALUE or --NAME=VALUE out of argv. CLI_OK; CLI_USAGE, told, without a value. */
int offline_take(const char *name, int *argc, char **argv, const char **ret_value);
/* The same of an argument that is no option: CLI_USAGE when there is none. */
int offline_take_argument(int *argc, char **argv, const char **ret_value);

/* Options, variables and --config as `pico serve` takes them; then the stores. CLI_OK, or told. */
int offline_open(struct offline *o, int argc, char **argv);
/* Nothing runs on the data directory, and nothing can be started on it until offline_close(). CLI_OK, or told. */
int offline_lock(struct offline *o);
void offline_close(struct offline *o);

#endif
