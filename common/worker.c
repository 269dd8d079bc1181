/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor's word is the only thing that ends a worker: without a supervisor it leaves at once.
 */
#include "common/worker.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env_uv.h"
#include "common/log.h"
#include "common/must.h"

#define LOG_TICK_MS 10000

static void say(enum control_type type)
{
	control_send(CHILD_CONTROL_FD, &(struct control_msg){ .type = (uint16_t)type });
}

/* ------------------------------------------------------------------ end */

void worker_drained(void *worker)
{
	struct worker *w = worker;
	uv_stop(w->loop);
}

static void on_drain_over(uv_timer_t *t)
{
	struct worker *w = t->data;
	log_warn("drain time is over, closing connections=%u", w->acceptor.n_conns);
	uv_stop(w->loop);
}

static void drain(struct worker *w, uint64_t ms)
{
	if (w->draining)
		return;
	w->draining = true;
	uv_timer_start(&w->drain_timer, on_drain_over, ms, 0);
	w->events->on_drain(w->arg);
}

/* ------------------------------------------------------------------ certificates */

/* The supervisor tried them before it sent them. Takes the descriptor. */
static int use_certificates(struct worker *w, int fd)
{
	struct stat st;
	struct tls_pem pem;
	struct tls_context *new;
	struct tls_fault fault;
	int r = fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= 4 * (off_t)TLS_PEM_MAX ? 0 : -EBADMSG;
	void *text = r == 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	close(fd);
	if (text == MAP_FAILED)
		return -EBADMSG;
	r = tls_pem_read(slice_of(text, (size_t)st.st_size), &pem);
	if (r == 0)
		r = tls_context_new(&pem, &new, &fault);
	munmap(text, (size_t)st.st_size);
	if (r < 0)
		return r;
	tls_context_free(w->tls); /* connections that were begun with it keep it */
	w->tls = new;
	return 0;
}

/* ------------------------------------------------------------------ control */

static void take_certificates(struct worker *w, int fd)
{
	if (fd < 0 || use_certificates(w, fd) < 0)
		log_error("new certificates cannot be used, the old ones stay");
}

static void take_control(struct worker *w, const struct control_msg *msg)
{
	switch (msg->type) {
	case CONTROL_DRAIN:
		drain(w, msg->a);
		break;
	case CONTROL_STOP_READY:
		if (w->events->on_stop_ready != NULL)
			w->events->on_stop_ready(w->arg);
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
	int r, passed;
	while ((r = control_recv_fd(CHILD_CONTROL_FD, &msg, &passed)) == 0) {
		if (msg.type == CONTROL_TLS)
			take_certificates(w, passed);
		else if (passed >= 0)
			close(passed);
		take_control(w, &msg);
	}
	if (r == -EPIPE) /* the supervisor is gone: so is everything */
		_exit(0);
}

static void on_log_tick(uv_timer_t *t)
{
	log_tick();
}

/* ------------------------------------------------------------------ life */

void worker_init(struct worker *w, enum process_kind kind, int argc, char **argv)
{
	static uv_loop_t loop;
	memset(w, 0, sizeof(*w));
	child_start(&w->child, kind, argc, argv);
	struct topics_config config = {
		.socket_path = w->child.socket_path,
		.role = ipc_role_of(w->child.kind),
		.instance = w->child.instance,
	};
	memcpy(config.proof, w->child.proof, sizeof(config.proof));
	w->loop = &loop;
	int r = uv_loop_init(w->loop);
	if (r == 0)
		r = env_uv_new(w->loop, &w->env);
	if (r == 0)
		r = topics_new(w->env, &config, &w->topics);
	if (r == 0 && w->child.tls_fd >= 0)
		r = use_certificates(w, w->child.tls_fd);
	if (r < 0)
		child_fatal(1, "cannot start: %s", strerror(-r));
}

static void start_control(struct worker *w)
{
	must(uv_poll_init(w->loop, &w->control, CHILD_CONTROL_FD) == 0);
	w->control.data = w;
	must(uv_poll_start(&w->control, UV_READABLE, on_control) == 0);
	must(uv_timer_init(w->loop, &w->drain_timer) == 0);
	w->drain_timer.data = w;
	must(uv_timer_init(w->loop, &w->log_timer) == 0);
	must(uv_timer_start(&w->log_timer, on_log_tick, LOG_TICK_MS, LOG_TICK_MS) == 0);
}

void worker_run(struct worker *w, const struct worker_events *events, void *arg)
{
	w->events = events;
	w->arg = arg;
	topics_on_room(w->topics, events->on_room, arg);
	start_control(w);
	say(CONTROL_READY);
	uv_run(w->loop, UV_RUN_DEFAULT);
	say(CONTROL_DONE);
	log_flush();
}
