/* SPDX-License-Identifier: Apache-2.0
 *
 * struct env on libuv. Timers stand in a binary heap over one uv_timer; deferred tasks run after the
 * turn's callbacks, one round a turn, so they never keep the loop from its sockets; posted tasks come
 * through one uv_async, many posts to a wake-up.
 *
 * Invariant: whatever is queued here is embedded in its owner; this file allocates for jobs only, and segments.
 */
#include "common/env_uv.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/metrics.h"
#include "common/must.h"

#define ENV_UV_MAGIC 0x76755f766e65ull
#define LATE_NS 5000000u
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23          /* Linux 5.14; C libraries learn of it later */
#endif

struct task_list {
	struct env_task *head, **tail;
};

struct env_uv {
	struct env env;                 /* first: the table's pointer is ours */
	uint64_t magic;
	uv_loop_t *loop;
	unsigned n_open_handles;
	bool closing;
	uint64_t turn_began_ns;         /* CPU time of this thread */

	uv_timer_t timer;
	struct env_timer **heap;        /* by (at_ms, order) */
	uint32_t n_heap, heap_capacity;
	uint64_t next_order;

	uv_prepare_t prepare;           /* before polling */
	uv_check_t check;               /* after polling */
	uv_idle_t idle;                 /* on while tasks wait: polling does not block */
	struct task_list deferred;

	uv_async_t async;
	pthread_mutex_t lock;           /* of posted */
	struct task_list posted;

	struct env_segment reserve;     /* made ahead; fd -1: none */
	size_t last_size;               /* of the last segment that was asked for */
	bool making;                    /* a reserve, on another thread */
};

static struct env_uv *env_uv_of(struct env *e)
{
	struct env_uv *u = (struct env_uv *)e;
	must(u->magic == ENV_UV_MAGIC);
	return u;
}

/* Task lists */

static void list_init(struct task_list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

static void list_put(struct task_list *l, struct env_task *t)
{
	must(t->run != NULL);
	t->queued = true;
	t->next = NULL;
	*l->tail = t;
	l->tail = &t->next;
}

static struct task_list list_take_all(struct task_list *l)
{
	struct task_list all = *l;
	if (all.head == NULL)
		all.tail = &all.head;
	list_init(l);
	return all;
}

/* Time */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	must(clock_gettime(clock, &ts) == 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t env_uv_now_ns(struct env *e)
{
	return clock_ns(CLOCK_BOOTTIME);
}

static uint64_t env_uv_now_ms(struct env *e)
{
	return clock_ns(CLOCK_BOOTTIME) / 1000000u;
}

static int64_t env_uv_wall_ms(struct env *e)
{
	struct timespec ts;
	must(clock_gettime(CLOCK_REALTIME, &ts) == 0);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void env_uv_random(struct env *e, void *p, size_t n)
{
	uint8_t *to = p;
	while (n > 0) {
		ssize_t got = getrandom(to, n, 0);
		must(got > 0 || errno == EINTR);
		if (got > 0) {
			to += got;
			n -= (size_t)got;
		}
	}
}

/* Timers */

static bool timer_is_before(const struct env_timer *a, const struct env_timer *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->order < b->order;
}

static void heap_place(struct env_uv *u, uint32_t i, struct env_timer *t)
{
	u->heap[i] = t;
	t->heap_index = i;
}

static void heap_up(struct env_uv *u, uint32_t i)
{
	struct env_timer *t = u->heap[i];
	while (i > 0 && timer_is_before(t, u->heap[(i - 1) / 2])) {
		heap_place(u, i, u->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_place(u, i, t);
}

static void heap_down(struct env_uv *u, uint32_t i)
{
	struct env_timer *t = u->heap[i];
	for (uint32_t child; (child = 2 * i + 1) < u->n_heap; i = child) {
		if (child + 1 < u->n_heap && timer_is_before(u->heap[child + 1], u->heap[child]))
			child++;
		if (!timer_is_before(u->heap[child], t))
			break;
		heap_place(u, i, u->heap[child]);
	}
	heap_place(u, i, t);
}

static void heap_remove(struct env_uv *u, struct env_timer *t)
{
	uint32_t i = t->heap_index;
	must(i < u->n_heap && u->heap[i] == t);
	struct env_timer *last = u->heap[--u->n_heap];
	if (last != t) {
		heap_place(u, i, last);
		heap_up(u, i);
		heap_down(u, last->heap_index);
	}
	t->at_ms = 0;
}

static void on_uv_timer(uv_timer_t *handle);

/* libuv's timers go by CLOCK_MONOTONIC, which stops in suspend: never sleep longer than a second for a far one. */
static void timer_arm(struct env_uv *u)
{
	if (u->n_heap == 0) {
		uv_timer_stop(&u->timer);
		return;
	}
	uint64_t now = env_uv_now_ms(&u->env), at = u->heap[0]->at_ms;
	uint64_t delay = at > now ? at - now : 0;
	uv_update_time(u->loop);
	uv_timer_start(&u->timer, on_uv_timer, delay < 1000 ? delay : 1000, 0);
}

static void on_uv_timer(uv_timer_t *handle)
{
	struct env_uv *u = handle->data;
	uint64_t now = env_uv_now_ms(&u->env), before = u->next_order;
	/* A timer that is started in here, even for now, has its turn after the sockets. */
	while (u->n_heap > 0 && u->heap[0]->at_ms <= now && u->heap[0]->order < before) {
		struct env_timer *t = u->heap[0];
		heap_remove(u, t);
		t->on_fire(t->arg);
	}
	if (!u->closing)
		timer_arm(u);
}

static void env_uv_timer_stop(struct env *e, struct env_timer *t)
{
	struct env_uv *u = env_uv_of(e);
	if (t->at_ms == 0)
		return;
	bool first = t->heap_index == 0;
	heap_remove(u, t);
	if (first && u->n_heap == 0)
		uv_timer_stop(&u->timer);
}

static void env_uv_timer_start(struct env *e, struct env_timer *t, uint64_t at_ms)
{
	struct env_uv *u = env_uv_of(e);
	must(t->on_fire != NULL);
	must(!u->closing);
	if (t->at_ms != 0)
		heap_remove(u, t);
	if (u->n_heap == u->heap_capacity) {
		u->heap_capacity = u->heap_capacity > 0 ? 2 * u->heap_capacity : 64;
		u->heap = must_realloc(u->heap, u->heap_capacity * sizeof(u->heap[0]));
	}
	t->at_ms = at_ms > 0 ? at_ms : 1;
	t->order = u->next_order++;
	u->heap[u->n_heap] = t;
	t->heap_index = u->n_heap++;
	heap_up(u, t->heap_index);
	if (t->heap_index == 0)
		timer_arm(u);
}

/* Deferred tasks */

static void on_idle(uv_idle_t *handle)
{
}

/* One round: what a task defers waits for the next one, after the sockets had theirs. */
static void defer_run(struct env_uv *u)
{
	struct task_list round = list_take_all(&u->deferred);
	while (round.head != NULL) {
		struct env_task *t = round.head;
		round.head = t->next;
		t->queued = false;
		t->run(t->arg);
	}
	if (u->deferred.head == NULL && !u->closing)
		uv_idle_stop(&u->idle);
}

/* The thread's own CPU time: a machine that stood still is nobody's fault. A turn stands for its callbacks. */
static void turn_end(struct env_uv *u)
{
	uint64_t now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (u->turn_began_ns > 0 && now - u->turn_began_ns > LATE_NS)
		metric_add(METRIC_LOOP_LATE, 1);
	u->turn_began_ns = now;
}

static void on_prepare(uv_prepare_t *handle)
{
	defer_run(handle->data);
	turn_end(handle->data);
}

static void on_check(uv_check_t *handle)
{
	defer_run(handle->data);
}

static void env_uv_defer(struct env *e, struct env_task *t)
{
	struct env_uv *u = env_uv_of(e);
	if (t->queued)
		return;
	list_put(&u->deferred, t);
	uv_idle_start(&u->idle, on_idle);
}

/* Posted tasks: the lock also guards their `queued`. */

static void on_async(uv_async_t *handle)
{
	struct env_uv *u = handle->data;
	pthread_mutex_lock(&u->lock);
	struct task_list round = list_take_all(&u->posted);
	pthread_mutex_unlock(&u->lock);
	while (round.head != NULL) {
		struct env_task *t = round.head;
		pthread_mutex_lock(&u->lock);
		round.head = t->next;
		t->queued = false;
		pthread_mutex_unlock(&u->lock);
		t->run(t->arg);
	}
}

static void env_uv_post(struct env *e, struct env_task *t)
{
	struct env_uv *u = env_uv_of(e);
	pthread_mutex_lock(&u->lock);
	bool wake = u->posted.head == NULL;
	if (!t->queued)
		list_put(&u->posted, t);
	pthread_mutex_unlock(&u->lock);
	if (wake)
		uv_async_send(&u->async);
}

/* Jobs */

struct job_work {
	uv_work_t work;                 /* its data is the env_job */
};

static void on_job_work(uv_work_t *work)
{
	struct env_job *j = work->data;
	j->work(j->arg);
}

static void on_job_done(uv_work_t *work, int status)
{
	struct env_job *j = work->data;
	j->impl = NULL;
	free(work);
	j->done(j->arg);
}

static void env_uv_job(struct env *e, struct env_job *j)
{
	struct env_uv *u = env_uv_of(e);
	must(j->impl == NULL);
	uv_work_t *work = must_calloc(1, sizeof(*work));
	work->data = j;
	j->impl = work;
	must(uv_queue_work(u->loop, work, on_job_work, on_job_done) == 0);
}

/* Segments */

static int segment_map(struct env_segment *s, enum env_segment_kind kind)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	if (kind == ENV_SEGMENT_SHARED_READ)
		seals |= F_SEAL_FUTURE_WRITE;
	if (ftruncate(s->fd, (off_t)s->size) != 0)
		return -errno;
	void *base = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	s->base = base;
	/* After the mapping: FUTURE_WRITE leaves the one that is there writable. */
	return fcntl(s->fd, F_ADD_SEALS, seals) == 0 ? 0 : -errno;
}

static void segment_unmake(struct env_segment *s)
{
	if (s->base != NULL)
		munmap(s->base, s->size);
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct env_segment){ .fd = -1 };
}

static void env_uv_segment_free(struct env *e, struct env_segment *s)
{
	segment_unmake(s);
}

static int segment_make(enum env_segment_kind kind, size_t size, struct env_segment *ret)
{
	struct env_segment s = { .size = size };
	s.fd = memfd_create(kind == ENV_SEGMENT_INBOX ? "pico-inbox" : "pico-segment",
			    MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (s.fd < 0)
		return -errno;
	int r = segment_map(&s, kind);
	if (r < 0)
		segment_unmake(&s);
	else
		*ret = s;
	return r;
}

/* Who asks twice for the same size will ask again. Most of what fresh memory costs is its first touch, page by page, so
 * the next one is made and touched on another thread while the last one is filled. */
struct reserve_work {
	uv_work_t work;
	struct env_uv *u;
	struct env_segment s;
};

static void on_reserve_work(uv_work_t *work)
{
	struct reserve_work *w = work->data;
	if (segment_make(ENV_SEGMENT_SHARED_READ, w->s.size, &w->s) < 0)
		w->s.fd = -1;
	else if (madvise(w->s.base, w->s.size, MADV_POPULATE_WRITE) != 0)
		memset(w->s.base, 0, w->s.size); /* a kernel before 5.14 */
}

static void env_uv_release(struct env_uv *u);

static void on_reserve_done(uv_work_t *work, int status)
{
	struct reserve_work *w = work->data;
	struct env_uv *u = w->u;
	segment_unmake(&u->reserve);
	u->reserve = w->s;
	u->making = false;
	free(w);
	env_uv_release(u);
}

static void reserve_make(struct env_uv *u, size_t size)
{
	struct reserve_work *w = must_calloc(1, sizeof(*w));
	w->work.data = w;
	w->u = u;
	w->s = (struct env_segment){ .size = size, .fd = -1 };
	u->making = true;
	u->n_open_handles++;
	must(uv_queue_work(u->loop, &w->work, on_reserve_work, on_reserve_done) == 0);
}

static int env_uv_segment_new(struct env *e, enum env_segment_kind kind, size_t size, struct env_segment *ret)
{
	struct env_uv *u = env_uv_of(e);
	must(size > 0);
	if (kind != ENV_SEGMENT_SHARED_READ)
		return segment_make(kind, size, ret);
	int r = 0;
	if (u->reserve.fd >= 0 && u->reserve.size == size) {
		*ret = u->reserve;
		u->reserve = (struct env_segment){ .fd = -1 };
	} else {
		r = segment_make(kind, size, ret);
	}
	if (r == 0 && u->last_size == size && !u->making && !u->closing)
		reserve_make(u, size);
	u->last_size = size;
	return r;
}

static void env_uv_die(struct env *e, const char *why)
{
	dprintf(STDERR_FILENO, "%s, exiting\n", why);
	_exit(1);
}

static const struct env_ops env_uv_ops = {
	.now_ms = env_uv_now_ms,
	.now_ns = env_uv_now_ns,
	.wall_ms = env_uv_wall_ms,
	.random = env_uv_random,
	.timer_start = env_uv_timer_start,
	.timer_stop = env_uv_timer_stop,
	.defer = env_uv_defer,
	.post = env_uv_post,
	.job = env_uv_job,
	.segment_new = env_uv_segment_new,
	.segment_free = env_uv_segment_free,
	.die = env_uv_die,
};

/* Life */

static void handle_opened(struct env_uv *u, void *handle)
{
	((uv_handle_t *)handle)->data = u;
	u->n_open_handles++;
}

int env_uv_new(uv_loop_t *loop, struct env **ret_env)
{
	struct env_uv *u = must_calloc(1, sizeof(*u));
	*u = (struct env_uv){ .env.ops = &env_uv_ops, .magic = ENV_UV_MAGIC, .loop = loop, .reserve.fd = -1 };
	list_init(&u->deferred);
	list_init(&u->posted);
	must(pthread_mutex_init(&u->lock, NULL) == 0);
	/* The only one that takes a descriptor, so the only one that can fail. */
	int r = uv_async_init(loop, &u->async, on_async);
	if (r < 0) {
		pthread_mutex_destroy(&u->lock);
		free(u);
		return r;
	}
	must(uv_timer_init(loop, &u->timer) == 0);
	must(uv_prepare_init(loop, &u->prepare) == 0);
	must(uv_check_init(loop, &u->check) == 0);
	must(uv_idle_init(loop, &u->idle) == 0);
	handle_opened(u, &u->async);
	handle_opened(u, &u->timer);
	handle_opened(u, &u->prepare);
	handle_opened(u, &u->check);
	handle_opened(u, &u->idle);
	must(uv_prepare_start(&u->prepare, on_prepare) == 0);
	must(uv_check_start(&u->check, on_check) == 0);
	*ret_env = &u->env;
	return 0;
}

/* One handle or job less that needs it. */
static void env_uv_release(struct env_uv *u)
{
	if (--u->n_open_handles > 0)
		return;
	segment_unmake(&u->reserve);
	pthread_mutex_destroy(&u->lock);
	free(u->heap);
	u->magic = 0;
	free(u);
}

static void on_handle_closed(uv_handle_t *handle)
{
	env_uv_release(handle->data);
}

void env_uv_free(struct env *env)
{
	if (env == NULL)
		return;
	struct env_uv *u = env_uv_of(env);
	must(!u->closing);
	u->closing = true;
	uv_close((uv_handle_t *)&u->timer, on_handle_closed);
	uv_close((uv_handle_t *)&u->prepare, on_handle_closed);
	uv_close((uv_handle_t *)&u->check, on_handle_closed);
	uv_close((uv_handle_t *)&u->idle, on_handle_closed);
	uv_close((uv_handle_t *)&u->async, on_handle_closed);
}

uv_loop_t *env_uv_loop(struct env *env)
{
	return env_uv_of(env)->loop;
}
