/* SPDX-License-Identifier: Apache-2.0
 *
 * At the start: where every log of this node ends by what is packed, from the state entries of all data objects; before
 * the WAL is read back on top.
 */
#ifndef STORAGED_ENGINE_SCAN_H
#define STORAGED_ENGINE_SCAN_H

#include "storaged/engine/engine_impl.h"

struct scan;

/* on_scanned once, never from inside; damage goes to engine_fatal(). */
struct scan *scan_start(struct engine *e, void (*on_scanned)(struct engine *e));
void scan_free(struct scan *s);
/* NULL, or what keeps the store from answering. */
const char *scan_fault(const struct scan *s);

#endif
