/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "t/lib/sock_world.h"

#include "common/must.h"

uv_loop_t loop;
struct env *env;
static uv_timer_t tick;

static void on_ready(void *arg)
{
	struct told *t = arg;
	t->n_ready++;
	if (t->close_when_ready) {
		sock_close(t->sock);
		t->sock = NULL;
	}
}

static void on_over(void *arg)
{
	((struct told *)arg)->n_over++;
}

const struct sock_events told_events = { on_ready, on_over };

static void on_tick(uv_timer_t *t)
{
}

void sock_world_open(void)
{
	must(uv_loop_init(&loop) == 0 && env_uv_new(&loop, &env) == 0);
	must(uv_timer_init(&loop, &tick) == 0 && uv_timer_start(&tick, on_tick, 1, 1) == 0);
}

void sock_world_close(void)
{
	uv_close((uv_handle_t *)&tick, NULL);
	env_uv_free(env);
	uv_run(&loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&loop) == 0);
}

void run_once(void)
{
	uv_run(&loop, UV_RUN_ONCE);
}

void run_until(const unsigned *count, unsigned n)
{
	uint64_t end = env_now_ms(env) + SOON_MS;
	while (*count < n && env_now_ms(env) < end)
		run_once();
	assert_true(*count >= n);
}

void run_quiet(void)
{
	uint64_t end = env_now_ms(env) + QUIET_MS;
	while (env_now_ms(env) < end)
		run_once();
}
