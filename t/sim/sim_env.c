/* SPDX-License-Identifier: Apache-2.0
 *
 * struct env of a simulated process: the world's clock with the process's own offset, timers, tasks and
 * jobs as events, segments from the heap with a guard behind them.
 *
 * CLOCK_BOOTTIME goes on while a process is paused: it sees a jump. The wall clock may step.
 */
#include <stdlib.h>
#include <string.h>

#include "common/must.h"
#include "t/sim/sim.h"

#define GUARD 64
#define GUARD_BYTE 0xa5

static struct sim_proc *proc_of(struct env *e)
{
	return (struct sim_proc *)e;
}

static uint64_t sim_now_ns(struct env *e)
{
	struct sim_proc *p = proc_of(e);
	return p->sim->now_ns + p->boot_offset_ns;
}

static uint64_t sim_now_ms(struct env *e)
{
	return sim_now_ns(e) / SIM_MS;
}

static int64_t sim_wall_ms(struct env *e)
{
	struct sim_proc *p = proc_of(e);
	return (int64_t)(p->sim->now_ns / SIM_MS) + p->wall_offset_ms;
}

static void sim_random(struct env *e, void *ret, size_t n)
{
	uint8_t *p = ret;
	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = sim_rand_next(&proc_of(e)->rand);
		memcpy(p + i, &v, n - i < 8 ? n - i : 8);
	}
}

/* The event of a started timer is kept in `order`. */
static struct sim_event *timer_event(const struct env_timer *t)
{
	return (struct sim_event *)(uintptr_t)t->order;
}

static void timer_fire(void *arg)
{
	struct env_timer *t = arg;
	t->at_ms = 0;
	t->order = 0;
	t->on_fire(t->arg);
}

static void sim_timer_stop(struct env *e, struct env_timer *t)
{
	if (t->order != 0 && proc_of(e)->state != SIM_DEAD)
		sim_cancel(proc_of(e)->sim, timer_event(t));
	t->at_ms = 0;
	t->order = 0;
}

static void sim_timer_start(struct env *e, struct env_timer *t, uint64_t at_ms)
{
	struct sim_proc *p = proc_of(e);
	sim_timer_stop(e, t);
	if (p->state == SIM_DEAD)
		return;
	must(t->on_fire != NULL);
	uint64_t now = sim_now_ns(e), at = at_ms > UINT64_MAX / SIM_MS ? UINT64_MAX : at_ms * SIM_MS;
	uint64_t late = sim_chance(p->sim, 20) ? sim_below(p->sim, 20 * SIM_MS) : 0;
	uint64_t delay = at > now ? at - now : 0;
	if (delay > 1000000 * SIM_S)
		delay = 1000000 * SIM_S;
	t->at_ms = at_ms > 0 ? at_ms : 1;
	t->order = (uintptr_t)sim_after(p->sim, delay + late, p, "timer", timer_fire, NULL, t);
}

static void sim_defer(struct env *e, struct env_task *t)
{
	struct sim_proc *p = proc_of(e);
	if (t->queued || p->state == SIM_DEAD)
		return;
	t->queued = true;
	t->next = NULL;
	*p->deferred_tail = t;
	p->deferred_tail = &t->next;
}

static void run_posted(void *arg)
{
	struct env_task *t = arg;
	t->queued = false;
	t->run(t->arg);
}

static void sim_post(struct env *e, struct env_task *t)
{
	struct sim_proc *p = proc_of(e);
	if (t->queued || p->state == SIM_DEAD)
		return;
	t->queued = true;
	sim_after(p->sim, sim_below(p->sim, SIM_MS), p, "post", run_posted, NULL, t);
}

static void job_done(void *arg)
{
	struct env_job *j = arg;
	j->done(j->arg);
}

struct running_job {
	struct sim_proc *proc;
	struct env_job *job;
};

static void job_work(void *arg)
{
	struct running_job *r = arg;
	r->job->work(r->job->arg);
	sim_after(r->proc->sim, sim_below(r->proc->sim, SIM_MS), r->proc, "job done", job_done, NULL, r->job);
	free(r);
}

static void sim_job(struct env *e, struct env_job *j)
{
	struct sim_proc *p = proc_of(e);
	if (p->state == SIM_DEAD)
		return;
	struct running_job *r = must_calloc(1, sizeof(*r));
	*r = (struct running_job){ .proc = p, .job = j };
	sim_after(p->sim, sim_below(p->sim, 5 * SIM_MS), p, "job", job_work, free, r);
}

static int sim_segment_new(struct env *e, enum env_segment_kind kind, size_t size, struct env_segment *ret)
{
	uint8_t *base = calloc(1, size + GUARD);
	if (base == NULL)
		return -12;
	memset(base + size, GUARD_BYTE, GUARD);
	*ret = (struct env_segment){ .base = base, .size = size, .fd = -1 };
	proc_of(e)->n_segments++;
	return 0;
}

static void sim_segment_free(struct env *e, struct env_segment *s)
{
	if (s->base == NULL)
		return;
	for (size_t i = 0; i < GUARD; i++)
		must(s->base[s->size + i] == GUARD_BYTE);
	must(proc_of(e)->n_segments > 0);
	proc_of(e)->n_segments--;
	free(s->base);
	*s = (struct env_segment){ .fd = -1 };
}

static void sim_die(struct env *e, const char *why)
{
	struct sim_proc *p = proc_of(e);
	if (p->state == SIM_DEAD)
		return;
	p->sim->faults[SIM_LEFT]++;
	sim_kill(p, why);
}

const struct env_ops sim_env_ops = {
	.now_ms = sim_now_ms,
	.now_ns = sim_now_ns,
	.wall_ms = sim_wall_ms,
	.random = sim_random,
	.timer_start = sim_timer_start,
	.timer_stop = sim_timer_stop,
	.defer = sim_defer,
	.post = sim_post,
	.job = sim_job,
	.segment_new = sim_segment_new,
	.segment_free = sim_segment_free,
	.die = sim_die,
};
