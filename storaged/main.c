/* SPDX-License-Identifier: Apache-2.0
 *
 * storaged: one a node. It owns logs, object storage and metadata, and serves the Topics calls to workers over
 * the Unix socket that the supervisor bound. This file only joins the parts: descriptors, loop, stores, node,
 * peers; what they do stands in theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/child.h"
#include "common/env_uv.h"
#include "common/log.h"
#include "common/must.h"
#include "storaged/node.h"
#include "storaged/peer.h"

#define TICK_MS 1000
#define SILENT_MS 3000          /* a start that takes longer says what it waits for */

struct storaged {
	struct child child;
	uv_loop_t loop;
	struct env *env;
	struct objstore *data, *wal;
	struct sql_log *sql;
	struct node *node;
	struct peers *peers;
	uv_poll_t control;
	uv_timer_t tick;
	uint64_t progress;
	uint64_t started_ms;
	bool serving;
	char fault[256];                /* last one logged */
};

/* ------------------------------------------------------------------ set-up */

static void read_instance(const struct conf *c, uint8_t instance[16])
{
	char path[4200], hex[33] = "";
	snprintf(path, sizeof(path), "%s/instance", c->data_dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, hex, 32) : -1;
	if (fd >= 0)
		close(fd);
	for (int i = 0; n == 32 && i < 16; i++) {
		unsigned v = 0;
		if (sscanf(hex + 2 * i, "%2x", &v) != 1)
			n = -1;
		instance[i] = (uint8_t)v;
	}
	if (n != 32)
		child_fatal(1, "--data-dir %s: the file `instance` does not hold 32 hex digits", c->data_dir);
}

static struct objstore *open_store(struct storaged *s, const char *option, const char *url, struct objstore_url *u,
				   const uint8_t put_id[16])
{
	char fault[512];
	struct objstore *store = NULL;
	if (objstore_url_parse(url, u, fault, sizeof(fault)) < 0)
		child_fatal(2, "--%s %s: %s", option, url, fault);
	if (objstore_open(s->env, u, put_id, &store, fault, sizeof(fault)) < 0)
		child_fatal(1, "--%s: %s", option, fault);
	return store;
}

static void warn_unfenced(const struct conf *c)
{
	if (!c->allow_unfenced_store)
		return;
	if (c->slots > 1)
		child_fatal(1, "--allow-unfenced-store goes with --slots 1 only: nodes could overwrite each other's records");
	log_warn("--allow-unfenced-store: a store that ignores If-None-Match is taken; a second process on it, or a copy of "
		 "this node, can overwrite acknowledged records");
}

static void open_stores(struct storaged *s, struct node_config *config)
{
	const struct conf *c = &s->child.conf;
	struct objstore_url data;
	warn_unfenced(c);
	s->data = open_store(s, "storage", c->storage, &data, config->meta.boot_id);
	if (c->wal[0] == '\0') {
		config->wal_url = data;
		s->wal = s->data;
		return;
	}
	s->wal = open_store(s, "wal", c->wal, &config->wal_url, config->meta.boot_id);
	if (objstore_url_same_place(&config->wal_url, &data)) {
		s->wal->ops->free(s->wal);
		s->wal = s->data;
	}
}

static void open_sql(struct storaged *s)
{
	char fault[512];
	int rc = sql_log_open(s->env, s->child.conf.meta_url, &s->sql, fault, sizeof(fault));
	if (rc < 0)
		child_fatal(rc == -EINVAL ? 2 : 1, "--meta-url: %s", fault);
}

/* -------------------------------------------------------------------- events */

static void leave(struct storaged *s)
{
	if (s->peers != NULL)
		peers_flush(s->peers);
	control_send(CHILD_CONTROL_FD, &(struct control_msg){ .type = CONTROL_DONE });
	log_flush();
	_exit(0);
}

static void on_serving(void *arg)
{
	struct storaged *s = arg;
	s->serving = true;
	malloc_trim(0); /* reading the metadata took several times what is left of it */
	peers_serve(s->peers);
	log_info("serving node=%u ms=%llu", (unsigned)s->child.conf.node_id,
		 (unsigned long long)(env_now_ms(s->env) - s->started_ms));
	control_send(CHILD_CONTROL_FD, &(struct control_msg){ .type = CONTROL_READY });
}

static void on_fatal(void *arg, int code, const char *text)
{
	child_fatal(code, "%s", text);
}

static void on_warning(void *arg, const char *text)
{
	log_warn("%s", text);
}

static void on_reclaim(void *arg, struct segment *segment)
{
	struct storaged *s = arg;
	if (s->peers != NULL)
		peers_on_reclaim(s->peers, segment);
}

static void on_segment_gone(void *arg, struct segment *segment)
{
	struct storaged *s = arg;
	if (s->peers != NULL)
		peers_on_segment_gone(s->peers, segment);
}

static void on_cut(void *arg)
{
	struct storaged *s = arg;
	if (s->peers != NULL)
		peers_on_cut(s->peers);
}

static void on_wal_position(void *arg, uint64_t session, uint64_t seq)
{
	struct storaged *s = arg;
	if (s->peers != NULL)
		peers_on_wal_position(s->peers, session, seq);
}

static void on_dropped(void *arg, pid_t pid, bool killed, const char *why)
{
	log_warn("worker broke the protocol, %s pid=%d why=\"%s\"", killed ? "killed" : "dropped", (int)pid, why);
}

static void on_stopped(void *arg)
{
	leave(arg);
}

static void on_control(uv_poll_t *handle, int status, int events)
{
	struct storaged *s = handle->data;
	struct control_msg m;
	int rc;
	while ((rc = control_recv(CHILD_CONTROL_FD, &m)) == 0) {
		if (m.type == CONTROL_DRAIN)
			node_stop(s->node, on_stopped, s);
		else if (m.type == CONTROL_LOG_LEVEL)
			log_set_level((enum log_level)m.a);
	}
	if (rc != -EAGAIN)
		_exit(1);       /* the supervisor is gone */
}

/* Once a second: says that the loop turns, logs a change of what is wrong, gives up a start that takes too long. */
static void on_tick(uv_timer_t *handle)
{
	struct storaged *s = handle->data;
	const char *reason;
	bool ready = node_is_ready(s->node, &reason);
	uint64_t waited = env_now_ms(s->env) - s->started_ms;
	log_tick();
	control_send(CHILD_CONTROL_FD, &(struct control_msg){ .type = CONTROL_PROGRESS, .a = ++s->progress });
	if (!s->serving && waited > s->child.conf.start_timeout_ms)
		child_fatal(75, "not serving after --start-timeout-ms %llu: %s",
			    (unsigned long long)s->child.conf.start_timeout_ms, reason);
	if ((!s->serving && waited < SILENT_MS) || strcmp(s->fault, reason) == 0)
		return;
	if (ready)
		log_info("all is well again");
	else
		log_warn("%s: %s", s->serving ? "not ready, trying again" : "not serving yet", reason);
	snprintf(s->fault, sizeof(s->fault), "%s", reason);
}

/* ---------------------------------------------------------------------- start */

/* One node has its clients at once; in a cluster many start together. */
static uint64_t initial_delay_ms(const struct conf *c)
{
	if (c->group_initial_rebalance_delay_ms >= 0)
		return (uint64_t)c->group_initial_rebalance_delay_ms;
	return strncmp(c->meta_url, "sqlite:", strlen("sqlite:")) == 0 ? 0 : 3000;
}

static void make_node(struct storaged *s)
{
	const struct conf *c = &s->child.conf;
	static char host[256];
	gethostname(host, sizeof(host) - 1);
	struct node_config config = {
		.meta = {
			.node = (uint32_t)c->node_id,
			.host = host,
			.cluster_id = c->cluster_id,
			.slots = (uint32_t)c->slots,
			.http_address = s->child.http_address,
			.kafka_address = s->child.kafka_address,
		},
		.wal_cache_size = c->wal_cache_size,
		.block_cache_size = c->block_cache_size,
		.index_cache_size = c->index_cache_size,
		.open_logs = c->open_logs,
		.wal_upload_threshold = c->wal_upload_threshold,
		.wal_upload_interval_ms = c->wal_upload_interval_ms,
		.gc_delay_ms = c->gc_delay_ms,
		.retention_ms = c->retention_ms,
		.retention_bytes = c->retention_bytes,
		.retention_interval_ms = c->retention_interval_ms,
		.max_message_size = (uint32_t)c->max_message_size,
		.max_partitions = (uint32_t)c->max_partitions,
		.max_logs = c->max_logs,
		.allow_unfenced_store = c->allow_unfenced_store,
		.groups = {
			.groups_max = c->max_groups,
			.members_max = c->max_group_members,
			.memory_max = c->group_memory_size,
			.min_session_ms = c->group_min_session_timeout_ms,
			.max_session_ms = c->group_max_session_timeout_ms,
			.initial_delay_ms = initial_delay_ms(c),
			.retention_ms = c->offsets_retention_ms,
		},
	};
	env_random(s->env, config.meta.boot_id, sizeof(config.meta.boot_id));
	read_instance(c, config.meta.instance);
	open_stores(s, &config);
	open_sql(s);
	static const struct node_events events = {
		.on_serving = on_serving,
		.on_fatal = on_fatal,
		.on_warning = on_warning,
		.on_reclaim = on_reclaim,
		.on_segment_gone = on_segment_gone,
		.on_cut = on_cut,
		.on_wal_position = on_wal_position,
	};
	int rc = node_new(s->env, s->data, s->wal, s->sql, &config, &events, s, &s->node);
	if (rc < 0)
		child_fatal(1, "cannot make the arena of --wal-cache-size and --block-cache-size: %s", strerror(-rc));
}

static void make_peers(struct storaged *s)
{
	static const struct peers_events events = { .on_dropped = on_dropped };
	struct peers_config config = { .uid = getuid(), .max_message_size = (uint32_t)s->child.conf.max_message_size };
	memcpy(config.key, s->child.ipc_key, sizeof(config.key));
	while (config.boot_id == 0)
		env_random(s->env, &config.boot_id, sizeof(config.boot_id));
	peers_new(s->env, s->node, &config, &events, s, &s->peers);
	for (unsigned i = 0; i < s->child.n_listeners; i++) {
		int rc = peers_listen(s->peers, s->child.listener[i].fd);
		if (rc < 0)
			child_fatal(1, "cannot listen on %s: %s", s->child.socket_path, strerror(-rc));
	}
}

static void watch(struct storaged *s)
{
	uv_poll_init(&s->loop, &s->control, CHILD_CONTROL_FD);
	s->control.data = s;
	uv_poll_start(&s->control, UV_READABLE, on_control);
	uv_timer_init(&s->loop, &s->tick);
	s->tick.data = s;
	uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
}

int main(int argc, char **argv)
{
	static struct storaged s;
	setenv("UV_THREADPOOL_SIZE", "16", 1);
	child_start(&s.child, PROCESS_STORAGED, argc, argv);
	must(uv_loop_init(&s.loop) == 0);
	if (env_uv_new(&s.loop, &s.env) < 0)
		child_fatal(1, "cannot set up the event loop: %s", strerror(errno));
	s.started_ms = env_now_ms(s.env);
	make_node(&s);
	make_peers(&s);
	watch(&s);
	node_start(s.node);
	uv_run(&s.loop, UV_RUN_DEFAULT);
	return 1;               /* the loop never ends by itself; leave() does */
}
