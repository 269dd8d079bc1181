/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a cluster as its database has it now, read beside a running node: snapshot and rows in one transaction.
 */
#ifndef STORAGED_OFFLINE_DB_READ_H
#define STORAGED_OFFLINE_DB_READ_H

#include "storaged/meta/state.h"

/* 0 and a state to free; -ENOENT: no such file, or nothing in it; else a negative errno. In all but the first case fault
 * has words. A log that does not continue is -EBADMSG. */
int db_read(const char *path, struct state **ret_state, char *fault, size_t fault_size);

#endif
