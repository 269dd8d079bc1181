/* SPDX-License-Identifier: Apache-2.0 */
#include "t/lib/scripted_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/crc32c.h"
#include "common/must.h"
#include "common/record_batch.h"

/* ------------------------------------------------------------------ the node */

void node_init(struct node *n, struct env *env)
{
	*n = (struct node){ .env = env, .wal_session = 1, .wal_seq = 1 };
	n->segment.id = 7;
	must(env->ops->segment_new(env, ENV_SEGMENT_SHARED_READ, 1 << 20, &n->segment.mem) == 0);
}

static void forget_seen(struct node *n)
{
	for (size_t i = 0; i < n->n_seen; i++)
		free(n->seen[i].payload);
	free(n->seen);
	n->seen = NULL;
	n->n_seen = n->seen_capacity = 0;
}

void node_forget(struct node *n)
{
	must(node_parked(n) == 0);
	forget_seen(n);
}

void node_done(struct node *n)
{
	forget_seen(n);
	n->env->ops->segment_free(n->env, &n->segment.mem);
}

void node_wal_position(const struct node *n, uint64_t *ret_session, uint64_t *ret_seq)
{
	*ret_session = n->wal_session;
	*ret_seq = n->wal_seq;
}

static const Ipc__TopicRef *topic_of(const struct call *c)
{
	switch (c->row->type) {
	case IPC_GET: return ((const Ipc__GetRequest *)c->request)->topic;
	case IPC_DELETE: return ((const Ipc__DeleteRequest *)c->request)->topic;
	case IPC_CLOSE: return ((const Ipc__CloseRequest *)c->request)->topic;
	case IPC_APPEND: {
		const Ipc__LogRef *l = ((const Ipc__AppendRequest *)c->request)->log;
		return l != NULL ? l->topic : NULL;
	}
	default: return NULL;
	}
}

static void give_pieces(struct node *n, struct call *c)
{
	c->n_pieces = n->n_pieces;
	c->pieces = n->n_pieces > 0 ? must_calloc(n->n_pieces, sizeof(struct piece)) : NULL;
	for (size_t i = 0; i < n->n_pieces; i++) {
		c->pieces[i] = (struct piece){ .segment = &n->segment, .pin = &n->pin,
					       .offset = n->piece_offset[i], .length = n->piece_length[i] };
		pin_take(&n->pin);
	}
}

static void answer_read(struct node *n, struct call *c)
{
	Ipc__ReadAnswer a = IPC__READ_ANSWER__INIT;
	give_pieces(n, c);
	a.confirm = n->next_offset;
	c->on_answer(c, NULL, &a.base);
}

static void answer_fetch(struct node *n, struct call *c)
{
	Ipc__FetchAnswer a = IPC__FETCH_ANSWER__INIT;
	Ipc__FetchAnswer__Part part = IPC__FETCH_ANSWER__PART__INIT, *list = &part;
	give_pieces(n, c);
	part.n_pieces = (uint32_t)n->n_pieces;
	a.n_part = 1;
	a.part = &list;
	c->on_answer(c, NULL, &a.base);
}

static void answer_append(struct node *n, struct call *c)
{
	Ipc__AppendAnswer a = IPC__APPEND_ANSWER__INIT;
	a.base_offset = n->next_offset++;
	a.next_offset = n->next_offset;
	c->on_answer(c, NULL, &a.base);
}

static void answer_resume(struct node *n, struct call *c)
{
	const Ipc__Resume *r = (const Ipc__Resume *)c->request;
	Ipc__ResumeAnswer__Found found[64], *list[64];
	Ipc__AppendAnswer append[64];
	must(r->n_sent <= 64);
	for (size_t i = 0; i < r->n_sent; i++) {
		uint64_t base = 0;
		n->resumed[n->n_resumed++] = *r->sent[i];
		ipc__resume_answer__found__init(&found[i]);
		ipc__append_answer__init(&append[i]);
		found[i].request_id = r->sent[i]->request_id;
		found[i].state = (Ipc__ResumeAnswer__State)n->on_resume(n, r->sent[i], &base);
		append[i].base_offset = base;
		found[i].append = found[i].state == IPC__RESUME_ANSWER__STATE__STORED ? &append[i] : NULL;
		list[i] = &found[i];
	}
	Ipc__ResumeAnswer a = IPC__RESUME_ANSWER__INIT;
	a.n_found = r->n_sent;
	a.found = list;
	c->on_answer(c, NULL, &a.base);
}

static void answer_get(struct call *c)
{
	const Ipc__TopicRef *ref = topic_of(c);
	Ipc__Topic topic = IPC__TOPIC__INIT;
	Ipc__GetAnswer a = IPC__GET_ANSWER__INIT;
	topic.name = ref != NULL ? ref->name : topic.name;
	a.topic = &topic;
	c->on_answer(c, NULL, &a.base);
}

static void answer_any(struct call *c)
{
	static const uint8_t empty[1];
	ProtobufCMessage *m = protobuf_c_message_unpack(c->row->answer, NULL, 0, empty);
	must(m != NULL);
	if (c->row->type == IPC_WAIT)
		((Ipc__WaitAnswer *)m)->ready = true;
	c->on_answer(c, NULL, m);
	protobuf_c_message_free_unpacked(m, NULL);
}

static void answer(struct node *n, struct call *c)
{
	switch (c->row->type) {
	case IPC_READ: answer_read(n, c); break;
	case IPC_FETCH: answer_fetch(n, c); break;
	case IPC_APPEND: answer_append(n, c); break;
	case IPC_RESUME: answer_resume(n, c); break;
	case IPC_GET: answer_get(c); break;
	default: answer_any(c); break;
	}
}

static void park(struct node *n, struct seen *s, struct call *c)
{
	s->call = c;
	c->handler = (void *)(uintptr_t)(s - n->seen + 1);
}

void node_call(struct node *n, struct call *c)
{
	if (n->n_seen == n->seen_capacity) {
		n->seen_capacity = n->seen_capacity > 0 ? 2 * n->seen_capacity : 64;
		n->seen = must_realloc(n->seen, n->seen_capacity * sizeof(n->seen[0]));
	}
	struct seen *s = &n->seen[n->n_seen++];
	*s = (struct seen){ .type = c->row->type, .request_id = c->request_id };
	const Ipc__TopicRef *ref = topic_of(c);
	snprintf(s->name, sizeof(s->name), "%s", ref != NULL ? ref->name : "");
	s->payload_n = c->payload.n;
	s->payload = must_memdup(c->payload.p, c->payload.n);
	if (n->check_copies && crc32c(s->payload, s->payload_n) != crc32c(s->payload, s->payload_n))
		n->n_unstable++;
	if (n->hold[c->row->type] && (n->hold_instance == 0 || n->hold_instance == c->worker_instance))
		park(n, s, c);
	else
		answer(n, c);
}

void node_cancel(struct node *n, struct call *c)
{
	if (c->handler == NULL)
		return;
	struct seen *s = &n->seen[(uintptr_t)c->handler - 1];
	must(s->call == c);
	s->cancelled = true;
	if (s->type == IPC_WAIT || s->type == IPC_READ)
		node_answer_error(s, PICO_CANCELLED);
}

void node_peer_gone(struct node *n, uint64_t peer)
{
	must(peer != 0);
}

void node_answer(struct node *n, struct seen *s)
{
	struct call *c = s->call;
	must(c != NULL);
	s->call = NULL;
	answer(n, c);
}

void node_answer_all(struct node *n)
{
	for (size_t i = 0; i < n->n_seen; i++)
		if (n->seen[i].call != NULL)
			node_answer(n, &n->seen[i]);
}

void node_answer_error(struct seen *s, enum pico_error_kind kind)
{
	struct call *c = s->call;
	struct pico_error e;
	pico_error_set(&e, kind, "scripted");
	s->call = NULL;
	c->on_answer(c, &e, NULL);
}

size_t node_count(const struct node *n, enum ipc_type type)
{
	size_t k = 0;
	for (size_t i = 0; i < n->n_seen; i++)
		k += n->seen[i].type == type;
	return k;
}

struct seen *node_seen(struct node *n, enum ipc_type type, size_t index)
{
	for (size_t i = 0; i < n->n_seen; i++)
		if (n->seen[i].type == type && index-- == 0)
			return &n->seen[i];
	return NULL;
}

size_t node_parked(const struct node *n)
{
	size_t k = 0;
	for (size_t i = 0; i < n->n_seen; i++)
		k += n->seen[i].call != NULL;
	return k;
}

/* ----------------------------------------------------------------- the place */

static void on_dropped(void *arg, pid_t pid, bool killed, const char *why)
{
	struct place *p = arg;
	if (p->n_dropped == 16)
		return;
	p->killed[p->n_dropped] = killed;
	snprintf(p->dropped[p->n_dropped++], sizeof(p->dropped[0]), "%s", why);
}

void place_open(struct place *p)
{
	memset(p, 0, sizeof(*p));
	must(uv_loop_init(&p->loop) == 0);
	must(env_uv_new(&p->loop, &p->env) == 0);
	snprintf(p->dir, sizeof(p->dir), "/tmp/pico-ipc-XXXXXX");
	must(mkdtemp(p->dir) != NULL);
	snprintf(p->path, sizeof(p->path), "%s/s", p->dir);
	memset(p->key, 42, sizeof(p->key));
	p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path, sizeof(a.sun_path), "%s", p->path);
	must(bind(p->listener, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(p->listener, 64) == 0);
	node_init(&p->node, p->env);
}

void place_close(struct place *p)
{
	place_down(p);
	node_done(&p->node);
	close(p->listener);
	unlink(p->path);
	rmdir(p->dir);
	place_run_ms(p, 1);
	env_uv_free(p->env);
	while (uv_run(&p->loop, UV_RUN_NOWAIT) != 0)
		;
	must(uv_loop_close(&p->loop) == 0);
}

void place_up(struct place *p, uint64_t boot_id)
{
	struct peers_config c = { .uid = getuid(), .boot_id = boot_id, .max_message_size = 1 << 20 };
	struct peers_events e = { .on_dropped = on_dropped };
	memcpy(c.key, p->key, sizeof(c.key));
	peers_new(p->env, &p->node, &c, &e, p, &p->peers);
	must(peers_listen(p->peers, p->listener) == 0);
}

void place_down(struct place *p)
{
	peers_free(p->peers);
	p->peers = NULL;
	forget_seen(&p->node);
}

struct guard {
	uv_timer_t timer;
	bool over;
};

static void on_guard(uv_timer_t *t)
{
	((struct guard *)t->data)->over = true;
}

static void on_guard_closed(uv_handle_t *h)
{
	free(h->data);
}

bool place_run(struct place *p, bool (*done)(void *arg), void *arg, unsigned ms)
{
	struct guard *g = must_calloc(1, sizeof(*g));
	uv_timer_init(&p->loop, &g->timer);
	g->timer.data = g;
	uv_timer_start(&g->timer, on_guard, ms, 1); /* again and again: one that fires in front of a poll does not end it */
	bool ok;
	while (!(ok = done != NULL && done(arg)) && !g->over)
		uv_run(&p->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&g->timer, on_guard_closed);
	return ok;
}

void place_run_ms(struct place *p, unsigned ms)
{
	place_run(p, NULL, NULL, ms);
}

void place_client_config(struct place *p, uint32_t role, uint64_t instance, struct topics_config *ret_config)
{
	*ret_config = (struct topics_config){ .socket_path = p->path, .role = role, .instance = instance };
	ipc_proof(p->key, role, instance, ret_config->proof);
}

void node_put_batches(struct node *n, size_t ret_size[3])
{
	struct buf b;
	buf_init(&b, 1 << 16);
	for (int i = 0; i < 3; i++) {
		struct record_batch_writer wr;
		char text[32];
		snprintf(text, sizeof(text), "value %d", i);
		record_batch_begin(&wr, &b);
		record_batch_add(&wr, slice_of(NULL, 0), slice_str(text), NULL, 0);
		ret_size[i] = record_batch_end(&wr);
	}
	size_t cut = ret_size[0] + 5;
	memcpy(n->segment.mem.base + 1000, buf_head(&b), cut);
	memcpy(n->segment.mem.base + 50000, buf_head(&b) + cut, buf_len(&b) - cut);
	n->n_pieces = 2;
	n->piece_offset[0] = 1000;
	n->piece_length[0] = (uint32_t)cut;
	n->piece_offset[1] = 50000;
	n->piece_length[1] = (uint32_t)(buf_len(&b) - cut);
	buf_done(&b);
}
