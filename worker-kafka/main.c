/* SPDX-License-Identifier: Apache-2.0
 *
 * worker-kafka: Kafka clients on one side, storaged on the other.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/log.h"
#include "common/must.h"
#include "worker-kafka/server.h"

struct worker {
	struct child child;
	uv_loop_t loop;
	struct env *env;
	struct topics *topics;
	struct server server;
	uv_poll_t control;
	uv_timer_t drain_timer, log_timer;
};

#define LOG_TICK_MS 10000

static void say(uint16_t type)
{
	struct control_msg msg = { .magic = CONTROL_MAGIC, .type = type };
	control_send(CHILD_CONTROL_FD, &msg);
}

/* ------------------------------------------------------------------ end */

static void on_drained(void *arg)
{
	struct worker *w = arg;
	uv_stop(&w->loop);
}

static void on_drain_over(uv_timer_t *t)
{
	struct worker *w = t->data;
	log_warn("drain time is over, closing connections=%u", w->server.acceptor.n_conns);
	uv_stop(&w->loop);
}

static void drain(struct worker *w, uint64_t ms)
{
	if (w->server.draining)
		return;
	uv_timer_start(&w->drain_timer, on_drain_over, ms, 0);
	server_drain(&w->server, on_drained, w);
}

/* ------------------------------------------------------------------ control */

static void take_control(struct worker *w, const struct control_msg *msg)
{
	switch (msg->type) {
	case CONTROL_DRAIN:
		drain(w, msg->a);
		break;
	case CONTROL_LOG_LEVEL:
		if (msg->a <= LOG_DEBUG)
			log_set_level((enum log_level)msg->a);
		break;
	}
}

static void on_control(uv_poll_t *poll, int status, int events)
{
	struct worker *w = poll->data;
	struct control_msg msg;
	int r;
	while ((r = control_recv(CHILD_CONTROL_FD, &msg)) == 0)
		take_control(w, &msg);
	if (r == -EPIPE) /* the supervisor is gone: so is everything */
		_exit(0);
}

/* ------------------------------------------------------------------ start */

static void on_room(void *arg)
{
	server_room(arg);
}

static void start_topics(struct worker *w)
{
	struct topics_config config = {
		.socket_path = w->child.socket_path,
		.role = IPC_ROLE_KAFKA,
		.instance = w->child.instance,
	};
	memcpy(config.proof, w->child.proof, sizeof(config.proof));
	int r = env_uv_new(&w->loop, &w->env);
	if (r == 0)
		r = topics_new(w->env, &config, &w->topics);
	if (r < 0)
		child_fatal(1, "cannot start: %s", strerror(-r));
}

static void start_listeners(struct worker *w)
{
	server_init(&w->server, &w->loop, w->env, w->topics, &w->child.conf, w->child.kafka_address);
	topics_on_room(w->topics, on_room, &w->server);
	for (unsigned i = 0; i < w->child.n_listeners; i++) {
		const struct child_listener *l = &w->child.listener[i];
		int r = server_listen(&w->server, l->fd);
		if (r < 0)
			child_fatal(1, "cannot serve %s: %s", l->address, strerror(-r));
	}
}

static void on_log_tick(uv_timer_t *t)
{
	log_tick();
}

static void start_control(struct worker *w)
{
	must(uv_poll_init(&w->loop, &w->control, CHILD_CONTROL_FD) == 0);
	w->control.data = w;
	must(uv_poll_start(&w->control, UV_READABLE, on_control) == 0);
	must(uv_timer_init(&w->loop, &w->drain_timer) == 0);
	w->drain_timer.data = w;
	must(uv_timer_init(&w->loop, &w->log_timer) == 0);
	must(uv_timer_start(&w->log_timer, on_log_tick, LOG_TICK_MS, LOG_TICK_MS) == 0);
}

int main(int argc, char **argv)
{
	static struct worker w;
	child_start(&w.child, PROCESS_WORKER_KAFKA, argc, argv);
	must(uv_loop_init(&w.loop) == 0);
	start_topics(&w);
	start_listeners(&w);
	start_control(&w);
	log_debug("serving max-connections=%u", w.server.acceptor.max_conns);
	say(CONTROL_READY);
	uv_run(&w.loop, UV_RUN_DEFAULT);
	say(CONTROL_DONE);
	log_flush();
	return 0;
}
