/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiters of a log. One is registered in the same step that looked at confirm, and woken in the step that
 * moves it, so no wake-up is lost.
 */
#include "storaged/engine/engine_impl.h"

#include "common/metrics.h"
#include "storaged/planted.h"

static void wait_link(struct engine_wait **list, struct engine_wait *w)
{
	w->next_in_list = *list;
	w->prev_in_list = list;
	if (*list != NULL)
		(*list)->prev_in_list = &w->next_in_list;
	*list = w;
}

static void wait_unlink(struct engine_wait *w)
{
	*w->prev_in_list = w->next_in_list;
	if (w->next_in_list != NULL)
		w->next_in_list->prev_in_list = w->prev_in_list;
	w->next_in_list = NULL;
	w->prev_in_list = NULL;
}

static bool wait_is_ready(const struct engine_wait *w)
{
	return w->log->gone || (w->log->closed && !w->closed_too) || log_confirm(w->log) > w->from;
}

bool engine_wait(struct engine *e, struct engine_wait *w)
{
	struct log *log = w->log;
	if (wait_is_ready(w))
		return true;
	bool late = planted(PLANTED_LOST_WAKEUP) && log_next(log) > log_confirm(log);
	struct log_open *o = log_table_open(&e->logs, log);
	wait_link(late ? &o->late_waits : &o->waits, w);
	log_touch(o);
	metric_add(METRIC_WAITERS, 1);
	return false;
}

void engine_wait_stop(struct engine_wait *w)
{
	if (w->prev_in_list == NULL)
		return;
	wait_unlink(w);
	metric_add(METRIC_WAITERS, -1);
	log_release(w->log);
}

/* Moves a list to another head. */
static void waits_move(struct engine_wait **from, struct engine_wait **to)
{
	*to = *from;
	*from = NULL;
	if (*to != NULL)
		(*to)->prev_in_list = to;
}

/* A callback may park new waits or stop others: those still to be looked at stand in a list of their own. The caller has
 * a ref. */
void wait_wake(struct log *log)
{
	struct engine_wait *todo = NULL;
	struct log_open *o = log->open;
	waits_move(&o->waits, &todo);
	while (todo != NULL) {
		struct engine_wait *w = todo;
		wait_unlink(w);
		if (!wait_is_ready(w)) {
			wait_link(&o->waits, w);
			continue;
		}
		metric_add(METRIC_WAITERS, -1);
		w->on_ready(w, log->gone);
	}
	while (o->late_waits != NULL) {
		struct engine_wait *w = o->late_waits;
		wait_unlink(w);
		wait_link(&o->waits, w);
	}
}

void wait_end(struct log *log)
{
	must(log->gone);
	wait_wake(log);
	wait_wake(log); /* late ones */
}
