/* SPDX-License-Identifier: Apache-2.0
 *
 * What a create and a fork share: checks of settings and first records, the proposal, and the way from there to the
 * answer. handle_create.c.
 */
#ifndef STORAGED_CREATE_H
#define STORAGED_CREATE_H

#include "storaged/op.h"

/* False: refused, *ret_error says why. */
bool create_check(const struct op *op, const Ipc__CreateRequest *r, struct pico_error *ret_error);
/* A private copy of the call's payload, checked, as first records: a worker could change what we checked. */
bool create_take_initial(struct op *op, const struct call *c, struct pico_error *ret_error);
/* Proposes; fork is NULL or what is forked. The op is answered when it is applied, or behind its first records. False:
 * nothing was done and nothing is answered yet. */
bool create_propose(struct op *op, const Ipc__CreateRequest *r, Meta__Fork *fork, struct pico_error *ret_error);
/* Answers that nothing was done; frees the op. */
void create_refuse(struct op *op, const struct pico_error *error);

#endif
