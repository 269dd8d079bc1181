/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated world with every injection off; the scene's test changes the weather itself.
 */
#include "t/regress/scene.h"

#include <stdlib.h>

#include "common/must.h"

void scene_begin(struct scene *s)
{
	*s = (struct scene){ 0 };
	sim_init(&s->sim, 1);
	sim_bucket_init(&s->bucket, &s->sim);
	sim_db_init(&s->db, &s->sim);
}

void scene_end(struct scene *s)
{
	sim_done(&s->sim);
	sim_bucket_done(&s->bucket);
	sim_db_done(&s->db);
}

void scene_run(struct scene *s, uint64_t ms)
{
	uint64_t end = s->sim.now_ns + ms * SIM_MS;
	while (s->sim.n_heap > 0 && s->sim.heap[0]->at_ns <= end)
		must(sim_turn(&s->sim));
	s->sim.now_ns = end;
}

static void on_serving(void *arg)
{
	struct scene *s = arg;
	s->serving = true;
}

static void on_fatal(void *arg, int code, const char *text)
{
	struct scene *s = arg;
	sim_kill(s->proc, "fatal");
}

static void on_dead(struct sim_proc *p, void *arg)
{
	struct scene *s = arg;
	node_free(s->node);
	s->node = NULL;
	s->serving = false;
	s->store->ops->free(s->store);
	s->sql->ops->free(s->sql);
}

static void start(void *arg)
{
	struct scene *s = arg;
	node_start(s->node);
}

void scene_start(struct scene *s)
{
	static const struct node_events events = { .on_serving = on_serving, .on_fatal = on_fatal };
	struct node_config c = {
		.meta = { .node = 1, .host = "host", .cluster_id = "cluster", .slots = 1, .http_address = "" },
		.wal_cache_size = 1 << 20, .segment_size = 64 << 10, .block_cache_size = 1 << 20,
		.max_message_size = 32 << 10, .max_partitions = 16, .max_logs = 100,
		.retention_ms = -1, .retention_bytes = -1,
	};
	must(s->node == NULL);
	s->proc = sim_proc_new(&s->sim, on_dead, s);
	s->store = sim_store_new(&s->bucket, s->proc);
	s->sql = sim_sql_new(&s->db, s->proc);
	env_random(&s->proc->env, c.meta.boot_id, sizeof(c.meta.boot_id));
	must(node_new(&s->proc->env, s->store, s->store, s->sql, &c, &events, s, &s->node) == 0);
	sim_in_turn(s->proc, "start", start, NULL, s);
	for (int i = 0; i < 60 && !s->serving; i++)
		scene_run(s, 1000);
	must(s->serving);
}

static void nothing(void *arg)
{
}

void scene_kill(struct scene *s)
{
	sim_kill(s->proc, "killed");
	sim_after(&s->sim, 0, NULL, "turn", nothing, NULL, NULL);
	scene_run(s, 1);
	must(s->node == NULL);
}

static void on_answer(struct call *c, const struct pico_error *error, ProtobufCMessage *answer)
{
	struct asked *a = c->owner;
	must(!a->done);
	a->done = true;
	for (size_t i = 0; i < c->n_pieces; i++)
		pin_drop(c->pieces[i].pin);
	free(c->pieces);
	if (error != NULL) {
		a->error = *error;
		return;
	}
	size_t n = protobuf_c_message_get_packed_size(answer);
	uint8_t *bytes = must_calloc(1, n);
	protobuf_c_message_pack(answer, bytes);
	a->answer = protobuf_c_message_unpack(answer->descriptor, NULL, n, bytes);
	free(bytes);
}

struct asking {
	struct scene *scene;
	struct asked *asked;
};

static void deliver(void *arg)
{
	struct asking *x = arg;
	node_call(x->scene->node, &x->asked->call);
	free(x);
}

void scene_ask(struct scene *s, struct asked *a, enum ipc_type type, ProtobufCMessage *request, struct slice payload,
	       uint64_t timeout_ms)
{
	*a = (struct asked){ .call = { .row = ipc_row(type), .request = request, .payload = payload,
				       .worker_instance = 9, .request_id = ++s->n_asked,
				       .deadline_ms = env_now_ms(&s->proc->env) + timeout_ms, .on_answer = on_answer,
				       .owner = a } };
	struct asking *x = must_calloc(1, sizeof(*x));
	*x = (struct asking){ .scene = s, .asked = a };
	sim_in_turn(s->proc, "call", deliver, free, x);
}

void scene_ask_and_wait(struct scene *s, struct asked *a, enum ipc_type type, ProtobufCMessage *request,
			struct slice payload)
{
	scene_ask(s, a, type, request, payload, 10000);
	for (int i = 0; i < 200 && !a->done; i++)
		scene_run(s, 100);
	must(a->done);
}

void asked_done(struct asked *a)
{
	if (a->answer != NULL)
		protobuf_c_message_free_unpacked(a->answer, NULL);
	a->answer = NULL;
}
