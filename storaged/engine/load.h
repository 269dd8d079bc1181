/* SPDX-License-Identifier: Apache-2.0
 *
 * At the start: what the packed records left of every log. Reads the state entries of all objects of this node, folds
 * those of each log and loads them, before the WAL is read back on top.
 */
#ifndef STORAGED_ENGINE_LOAD_H
#define STORAGED_ENGINE_LOAD_H

#include "storaged/engine/engine_impl.h"

struct load;

/* on_loaded once, never from inside; damage goes to engine_fatal(). */
struct load *load_start(struct engine *e, void (*on_loaded)(struct engine *e));
void load_free(struct load *l);
/* NULL, or what keeps the store from answering. */
const char *load_fault(const struct load *l);

#endif
