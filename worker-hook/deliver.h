/* SPDX-License-Identifier: Apache-2.0
 *
 * POSTs to subscribers, with libcurl on the loop. A URL was checked as text when it was stored; here the address is, after
 * every lookup, right before it is connected to. No redirect is followed, no proxy asked, at most DELIVER_ANSWER_MAX read.
 */
#ifndef WORKER_HOOK_DELIVER_H
#define WORKER_HOOK_DELIVER_H

#include <uv.h>

#include "common/buf.h"

#define DELIVER_MAX 64                  /* at once */
#define DELIVER_TIMEOUT_MS 30000
#define DELIVER_ANSWER_MAX 65536

struct deliver;
struct delivery;

/* status 0: there was no answer; body: what came, valid inside. */
typedef void deliver_fn(void *arg, int status, struct slice body);

/* loopback: addresses of this machine may be called. NULL when curl cannot begin. */
struct deliver *deliver_new(uv_loop_t *loop, bool loopback);
bool deliver_has_room(const struct deliver *d);
/* on_done runs once, from the loop. url, signature and body are copied. */
void deliver_post(struct deliver *d, const char *url, const char *signature, struct slice body, deliver_fn *on_done, void *arg);

#endif
