/* SPDX-License-Identifier: Apache-2.0
 *
 * What wakes subscribers: goes round all subscriptions, again and again, and looks for streams with something that was
 * not worked on. One struct hook a process.
 */
#ifndef WORKER_HOOK_HOOK_H
#define WORKER_HOOK_HOOK_H

#include "common/worker.h"

void hook_start(struct worker *w);
/* No call and no round begins any more. */
void hook_stop(void);

#endif
