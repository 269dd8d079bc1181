/* SPDX-License-Identifier: Apache-2.0
 *
 * The real environment: order of timers and tasks, posts from other threads, jobs, and that a sealed
 * segment can be neither written nor resized by who gets its descriptor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/metrics.h"

static uv_loop_t loop;
static struct env *env;

static int setup(void **state)
{
	return uv_loop_init(&loop) == 0 && env_uv_new(&loop, &env) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

/* What ran, as letters. */
static char trace[256];
static size_t n_trace;

struct letter {
	struct env_timer timer;
	struct env_task task;
	char letter;
	unsigned again;         /* times to defer itself once more */
};

static void on_letter(void *arg)
{
	struct letter *l = arg;
	assert_true(n_trace < sizeof(trace) - 1);
	trace[n_trace++] = l->letter;
	trace[n_trace] = 0;
	if (l->again > 0) {
		l->again--;
		env_defer(env, &l->task);
	}
}

static struct letter letter_of(char c)
{
	return (struct letter){ .letter = c, .timer.on_fire = on_letter, .task.run = on_letter };
}

/* Runs the loop until something calls uv_stop(). */
static void on_end(void *arg)
{
	uv_stop(&loop);
}

static void run_until(uint64_t at_ms)
{
	struct env_timer end = { .on_fire = on_end };
	env_timer_start(env, &end, at_ms);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(end.at_ms, 0);
	assert_true(env_now_ms(env) >= at_ms);
}

static void test_timer_order(void **state)
{
	n_trace = 0;
	uint64_t now = env_now_ms(env);
	struct letter l[6];
	for (int i = 0; i < 6; i++) {
		l[i] = letter_of((char)('a' + i));
		l[i].timer.arg = &l[i];
	}
	env_timer_start(env, &l[0].timer, now + 15);
	env_timer_start(env, &l[1].timer, now + 5);
	env_timer_start(env, &l[2].timer, now + 10);
	env_timer_start(env, &l[3].timer, now + 10);    /* a tie: after c */
	env_timer_start(env, &l[4].timer, now + 1);
	env_timer_stop(env, &l[4].timer);
	env_timer_stop(env, &l[4].timer);
	env_timer_start(env, &l[5].timer, now + 1);
	env_timer_start(env, &l[5].timer, now + 20);    /* moved */
	run_until(now + 40);
	assert_string_equal(trace, "bcdaf");
}

static void test_timer_in_the_past(void **state)
{
	n_trace = 0;
	struct letter l = letter_of('p');
	l.timer.arg = &l;
	env_timer_start(env, &l.timer, 1);
	run_until(env_now_ms(env) + 2);
	assert_string_equal(trace, "p");
}

/* Against a plain array: start, move and stop at random; each fires not before its time and in order. */
struct random_timer {
	struct env_timer t;
	uint64_t wanted;
	bool fired;
};
static uint64_t last_fired;

static void on_random_timer(void *arg)
{
	struct random_timer *r = arg;
	assert_false(r->fired);
	r->fired = true;
	assert_true(env_now_ms(env) >= r->wanted);
	assert_true(r->wanted >= last_fired);
	last_fired = r->wanted;
}

static void test_timer_heap(void **state)
{
	enum { N = 500 };
	static struct random_timer r[N];
	memset(r, 0, sizeof(r));
	last_fired = 0;
	srandom(7);
	uint64_t now = env_now_ms(env) + 20;
	for (int step = 0; step < 5000; step++) {
		struct random_timer *one = &r[random() % N];
		one->t.on_fire = on_random_timer;
		one->t.arg = one;
		if (random() % 4 == 0) {
			env_timer_stop(env, &one->t);
			one->wanted = 0;
		} else {
			one->wanted = now + (uint64_t)(random() % 30);
			env_timer_start(env, &one->t, one->wanted);
		}
	}
	run_until(now + 40);
	for (int i = 0; i < N; i++) {
		assert_int_equal(r[i].fired, r[i].wanted != 0);
		assert_int_equal(r[i].t.at_ms, 0);
	}
}

static void test_defer_once(void **state)
{
	n_trace = 0;
	struct letter a = letter_of('a'), b = letter_of('b');
	a.task.arg = &a;
	b.task.arg = &b;
	b.again = 3;
	env_defer(env, &a.task);
	env_defer(env, &b.task);
	env_defer(env, &a.task);
	assert_int_equal(n_trace, 0);
	run_until(env_now_ms(env) + 5);
	assert_string_equal(trace, "abbbb");
}

/* A task that defers itself again and again leaves a socket its turn. */
static unsigned n_readable, n_trace_at_readable;

static void on_readable(uv_poll_t *poll, int status, int events)
{
	char byte;
	uv_os_fd_t fd;
	uv_fileno((uv_handle_t *)poll, &fd);
	assert_int_equal(read(fd, &byte, 1), 1);
	n_readable++;
	n_trace_at_readable = (unsigned)n_trace;
	uv_close((uv_handle_t *)poll, NULL);
}

static void test_socket_between_deferred(void **state)
{
	n_trace = 0;
	n_readable = 0;
	struct letter b = letter_of('b');
	b.task.arg = &b;
	b.again = 100;
	env_defer(env, &b.task);
	int fd[2];
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(write(fd[1], "x", 1), 1);
	uv_poll_t poll;
	uv_poll_init(&loop, &poll, fd[0]);
	uv_poll_start(&poll, UV_READABLE, on_readable);
	run_until(env_now_ms(env) + 20);
	assert_int_equal(n_readable, 1);
	assert_true(n_trace_at_readable < 10);
	assert_int_equal(n_trace, 101);
	close(fd[0]);
	close(fd[1]);
}

/* Posts from threads: each runs on the loop, once. */
enum { N_THREADS = 4, N_POSTS = 1000 };
static struct env_task posts[N_THREADS][N_POSTS];
static unsigned n_posts_run;
static pthread_t loop_thread;

static void on_post(void *arg)
{
	assert_true(pthread_equal(pthread_self(), loop_thread));
	if (++n_posts_run == N_THREADS * N_POSTS)
		uv_stop(&loop);
}

static void *poster(void *arg)
{
	struct env_task *mine = arg;
	for (int i = 0; i < N_POSTS; i++)
		env_post(env, &mine[i]);
	return NULL;
}

static void test_post(void **state)
{
	loop_thread = pthread_self();
	n_posts_run = 0;
	pthread_t thread[N_THREADS];
	for (int i = 0; i < N_THREADS; i++) {
		for (int k = 0; k < N_POSTS; k++)
			posts[i][k] = (struct env_task){ .run = on_post };
		assert_int_equal(pthread_create(&thread[i], NULL, poster, posts[i]), 0);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(n_posts_run, N_THREADS * N_POSTS);
}

static void on_add_work(void *arg)
{
	uint64_t *v = arg;
	assert_false(pthread_equal(pthread_self(), loop_thread));
	v[1] = v[0] * 2;
}

static void on_add_done(void *arg)
{
	assert_true(pthread_equal(pthread_self(), loop_thread));
	uv_stop(&loop);
}

static void test_job(void **state)
{
	loop_thread = pthread_self();
	uint64_t v[2] = { 21, 0 };
	struct env_job job = { .work = on_add_work, .done = on_add_done, .arg = v };
	env->ops->job(env, &job);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(v[1], 42);
	assert_null(job.impl);
}

static void test_segment_shared_read(void **state)
{
	struct env_segment s;
	assert_int_equal(env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, 65536, &s), 0);
	memset(s.base, 'x', s.size);    /* our own mapping stays writable */
	assert_int_equal(ftruncate(s.fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(s.fd, 131072), -1);
	assert_int_equal(errno, EPERM);
	assert_ptr_equal(mmap(NULL, s.size, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0), MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(pwrite(s.fd, "y", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(s.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	uint8_t *map = mmap(NULL, s.size, PROT_READ, MAP_SHARED, s.fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(mprotect(map, s.size, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(errno, EACCES);
	s.base[100] = 'z';
	assert_int_equal(map[100], 'z');
	munmap(map, s.size);
	env->ops->segment_free(env, &s);
	assert_int_equal(s.fd, -1);
}

static size_t n_resident(const struct env_segment *s)
{
	unsigned char page[256];
	size_t n = 0;
	assert_true(s->size / 4096 <= sizeof(page));
	assert_int_equal(mincore(s->base, s->size, page), 0);
	for (size_t i = 0; i < s->size / 4096; i++)
		n += page[i] & 1;
	return n;
}

/* After two of a size the next one is made ahead, its memory touched; of another size it is made when it is asked for. */
static void test_segment_ahead(void **state)
{
	struct env_segment s[4];
	assert_int_equal(env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, 1 << 20, &s[0]), 0);
	assert_int_equal(env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, 1 << 20, &s[1]), 0);
	while (loop.active_reqs.count > 0)      /* the work under way */
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(n_resident(&s[0]), 0);
	assert_int_equal(env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, 1 << 19, &s[2]), 0);
	assert_int_equal(n_resident(&s[2]), 0);
	assert_int_equal(env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, 1 << 20, &s[3]), 0);
	assert_int_equal(n_resident(&s[3]), 256);
	for (size_t i = 0; i < s[3].size; i++)
		assert_int_equal(s[3].base[i], 0);
	memset(s[3].base, 'x', s[3].size);
	assert_int_equal(pwrite(s[3].fd, "y", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	for (int i = 0; i < 4; i++)
		env->ops->segment_free(env, &s[i]);
	/* The environment goes while one is made, and with one that nobody took. */
	assert_int_equal(env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, 1 << 20, &s[0]), 0);
	env->ops->segment_free(env, &s[0]);
}

static void test_segment_inbox(void **state)
{
	struct env_segment s;
	assert_int_equal(env->ops->segment_new(env, ENV_SEGMENT_INBOX, 65536, &s), 0);
	assert_int_equal(ftruncate(s.fd, 4096), -1);
	assert_int_equal(ftruncate(s.fd, 131072), -1);
	assert_int_equal(fcntl(s.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
	uint8_t *map = mmap(NULL, s.size, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	map[7] = 'w';
	assert_int_equal(s.base[7], 'w');
	munmap(map, s.size);
	env->ops->segment_free(env, &s);
}

/* CPU time of the thread counts, a sleep does not. */
static void on_spin(void *arg)
{
	struct timespec ts;
	uint64_t until = 0, now;
	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
		now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
		until = until > 0 ? until : now + 8000000u;
	} while (now < until);
}

static void on_sleep(void *arg)
{
	usleep(8000);
}

static void test_lateness(void **state)
{
	struct env_task task = { .run = on_sleep };
	run_until(env_now_ms(env) + 1);
	uint64_t before = metrics->value[METRIC_LOOP_LATE];
	env_defer(env, &task);
	run_until(env_now_ms(env) + 12);
	assert_int_equal(metrics->value[METRIC_LOOP_LATE], before);
	task.run = on_spin;
	env_defer(env, &task);
	run_until(env_now_ms(env) + 12);
	assert_int_equal(metrics->value[METRIC_LOOP_LATE], before + 1);
}

static void test_random_and_clocks(void **state)
{
	uint8_t a[32] = { 0 }, b[32] = { 0 };
	env_random(env, a, sizeof(a));
	env_random(env, b, sizeof(b));
	assert_memory_not_equal(a, b, sizeof(a));
	uint64_t ms = env_now_ms(env), ns = env_now_ns(env);
	assert_true(ns / 1000000 - ms < 1000);
	assert_true(env_wall_ms(env) > 1577836800000);
}

static void test_die(void **state)
{
	int fd[2];
	assert_int_equal(pipe(fd), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(fd[1], STDERR_FILENO);
		env->ops->die(env, "fenced by another storaged");
		_exit(0);
	}
	close(fd[1]);
	char line[200];
	ssize_t n = read(fd[0], line, sizeof(line));
	assert_int_equal(n, strlen("fenced by another storaged, exiting\n"));
	assert_memory_equal(line, "fenced by another storaged, exiting\n", (size_t)n);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	close(fd[0]);
}

#define ENV_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENV_TEST(test_timer_order), ENV_TEST(test_timer_in_the_past), ENV_TEST(test_timer_heap),
		ENV_TEST(test_defer_once), ENV_TEST(test_socket_between_deferred), ENV_TEST(test_post),
		ENV_TEST(test_job), ENV_TEST(test_segment_shared_read), ENV_TEST(test_segment_ahead), ENV_TEST(test_segment_inbox),
		ENV_TEST(test_lateness), ENV_TEST(test_random_and_clocks), ENV_TEST(test_die),
	};
	return cmocka_run_group_tests_name("env_uv", tests, NULL, NULL);
}
