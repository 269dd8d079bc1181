/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects that are dead for the most part and kept by what little lives in them are rewritten to that. They are weighed one
 * after the other, slowly, by their index pages, and only while something dies on this node; one that stays more than half
 * dead for ten minutes is given to the merger.
 *
 * An object of runs is rewritten at once then when three quarters are dead; else, and one of a single log always, only
 * when nothing more died in it meanwhile: what retention eats up anyway is not worth a copy.
 */
#ifndef STORAGED_ENGINE_REWRITE_H
#define STORAGED_ENGINE_REWRITE_H

#include "storaged/engine/engine_impl.h"

struct rewriter *rewriter_new(struct engine *e);
/* The store is freed already, or has nothing of it outstanding. */
void rewriter_free(struct rewriter *r);
/* When serving begins, and whenever something may have died. Cheap. */
void rewriter_consider(struct rewriter *r);

#endif
