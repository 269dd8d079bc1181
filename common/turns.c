/* SPDX-License-Identifier: Apache-2.0
 *
 * Two lists and a task. While somebody waits for a share it is spent, so nobody passes: a client that brings one batch at
 * a time is not kept back for long by one that brings thousands, and does not keep it back for ever either.
 */
#include "common/turns.h"

#include "common/must.h"

#define MANY_SHARES 4                   /* spent at once: a pause follows */
#define BYTES_A_MS (512u << 10)         /* what is decoded in a millisecond, more or less */

static void list_put(struct turn_list *list, struct turn *turn)
{
	must(turn->list == NULL);
	turn->list = list;
	turn->next = NULL;
	turn->prev = list->last;
	*list->last = turn;
	list->last = &turn->next;
}

static void list_drop(struct turn *turn)
{
	if (turn->list == NULL)
		return;
	*turn->prev = turn->next;
	if (turn->next != NULL)
		turn->next->prev = turn->prev;
	else
		turn->list->last = turn->prev;
	turn->list = NULL;
}

static struct turn *list_take(struct turn_list *list)
{
	struct turn *turn = list->first;
	if (turn != NULL)
		list_drop(turn);
	return turn;
}

static void turns_go_on(struct turns *t)
{
	if (t->running || t->timer.at_ms != 0)
		return;
	if (t->spent >= MANY_SHARES * TURNS_SHARE)
		env_timer_start(t->env, &t->timer, env_now_ms(t->env) + t->spent / BYTES_A_MS);
	else
		env_defer(t->env, &t->task);
}

/* One that has to wait again stands behind the others. */
static void on_turn(void *arg)
{
	struct turns *t = arg;
	struct turn *turn;
	if (t->timer.at_ms != 0) /* a pause began since */
		return;
	t->spent = 0;
	t->running = true;
	while (t->spent < TURNS_SHARE && (turn = list_take(&t->ready)) != NULL)
		turn->run(turn->arg);
	t->running = false;
	if (t->spent >= TURNS_SHARE)
		turns_go_on(t);
	must(t->ready.first == NULL || t->spent >= TURNS_SHARE);
}

void turns_init(struct turns *t, struct env *env, unsigned open_most)
{
	*t = (struct turns){ .env = env, .open_max = 1, .open_most = open_most };
	t->ready.last = &t->ready.first;
	t->closed.last = &t->closed.first;
	t->task = (struct env_task){ .run = on_turn, .arg = t };
	t->timer = (struct env_timer){ .on_fire = on_turn, .arg = t };
}

void turns_done(struct turns *t)
{
	must(t->ready.first == NULL && t->closed.first == NULL && t->n_open == 0);
	env_timer_stop(t->env, &t->timer);
}

void turns_spend(struct turns *t, size_t bytes)
{
	t->spent += bytes;
	if (t->spent >= TURNS_SHARE)
		turns_go_on(t);
}

bool turns_is_busy(const struct turns *t)
{
	return t->spent >= TURNS_SHARE || t->ready.first != NULL || t->closed.first != NULL;
}

bool turns_wait(struct turns *t, struct turn *turn)
{
	if (t->spent < TURNS_SHARE)
		return false;
	list_put(&t->ready, turn);
	return true;
}

bool turns_begin(struct turns *t, struct turn *turn)
{
	must(!turn->open);
	if (turns_wait(t, turn))
		return true;
	if (t->n_open >= t->open_max) {
		list_put(&t->closed, turn);
		return true;
	}
	turn->open = true;
	t->n_open++;
	return false;
}

/* As many of those who wait go on as may begin now; each asks again. */
static void wake_closed(struct turns *t)
{
	struct turn *turn;
	for (unsigned n = t->n_open; n < t->open_max && (turn = list_take(&t->closed)) != NULL; n++) {
		list_put(&t->ready, turn);
		turns_go_on(t);
	}
}

void turns_end(struct turns *t, struct turn *turn, size_t bytes)
{
	must(turn->open && t->n_open > 0);
	turn->open = false;
	t->n_open--;
	t->open_max = bytes > TURNS_SHARE ? 1 : t->open_max < t->open_most / 2 ? t->open_max * 2 : t->open_most;
	turns_spend(t, bytes);
	wake_closed(t);
}

void turns_forget(struct turns *t, struct turn *turn)
{
	list_drop(turn);
	if (!turn->open)
		return;
	turn->open = false;
	t->n_open--;
	wake_closed(t);
}
