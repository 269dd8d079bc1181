/* SPDX-License-Identifier: Apache-2.0
 *
 * A list and a task. Nobody passes those who wait: a client that brings one batch at a time is not kept back by one
 * that brings thousands, and does not keep it back for ever either.
 */
#include "worker-kafka/turns.h"

#include "common/must.h"

#define MANY_SHARES 4                   /* spent at once: a pause follows */
#define NS_A_MS 1000000u

static struct turn *turns_take(struct turns *t)
{
	struct turn *turn = t->first;
	if (turn != NULL)
		turns_forget(t, turn);
	return turn;
}

static void turns_go_on(struct turns *t, uint64_t began_ns)
{
	uint64_t took_ms = (env_now_ns(t->env) - began_ns) / NS_A_MS;
	if (t->spent >= MANY_SHARES * TURNS_SHARE && took_ms > 0)
		env_timer_start(t->env, &t->timer, env_now_ms(t->env) + took_ms);
	else
		env_defer(t->env, &t->task);
}

/* One that has to wait again stands behind the others. */
static void on_turn(void *arg)
{
	struct turns *t = arg;
	struct turn *turn;
	uint64_t began_ns = env_now_ns(t->env);
	t->spent = 0;
	t->running = true;
	while (t->spent < TURNS_SHARE && (turn = turns_take(t)) != NULL)
		turn->run(turn->arg);
	t->running = false;
	if (t->first != NULL || t->spent >= TURNS_SHARE)
		turns_go_on(t, began_ns);
}

void turns_init(struct turns *t, struct env *env)
{
	*t = (struct turns){ .env = env, .last = &t->first, .task = { .run = on_turn, .arg = t } };
	t->timer = (struct env_timer){ .on_fire = on_turn, .arg = t };
}

void turns_done(struct turns *t)
{
	must(t->first == NULL);
	env_timer_stop(t->env, &t->timer);
}

void turns_spend(struct turns *t, size_t bytes)
{
	t->spent += bytes;
	if (t->spent >= TURNS_SHARE && !t->running && t->timer.at_ms == 0)
		env_defer(t->env, &t->task);
}

bool turns_wait(struct turns *t, struct turn *turn)
{
	must(turn->prev == NULL);
	if (t->spent < TURNS_SHARE && (t->running || t->first == NULL))
		return false;
	turn->next = NULL;
	turn->prev = t->last;
	*t->last = turn;
	t->last = &turn->next;
	return true;
}

void turns_forget(struct turns *t, struct turn *turn)
{
	if (turn->prev == NULL)
		return;
	*turn->prev = turn->next;
	if (turn->next != NULL)
		turn->next->prev = turn->prev;
	else
		t->last = turn->prev;
	turn->prev = NULL;
}
