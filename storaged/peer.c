/* SPDX-License-Identifier: Apache-2.0
 *
 * Connected workers: phase, handler table, turns. Handlers only queue and mark; sending and closing happen in the
 * peer's turn at the end of the loop turn, so that no handler pulls the peer away from under its caller and many
 * answers leave in one send.
 */
#include "storaged/peer.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "common/metrics.h"
#include "storaged/peer_graves.h"
#include "storaged/peer_impl.h"

static uint64_t hash_seed;

/* Of 4 or 8 bytes; seeded, so that nobody can choose collisions. */
uint32_t peer_hash(const void *key, size_t n)
{
	uint64_t x = 0;
	must(n <= sizeof(x));
	memcpy(&x, key, n);
	x = (x ^ hash_seed) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 32)) * (hash_seed | 1);
	return (uint32_t)(x >> 32);
}

/* -------------------------------------------------------------------- hello */

static const char *hello_fault(const struct peers *p, const Ipc__Hello *m)
{
	uint8_t proof[32];
	ipc_proof(p->config.key, m->role, m->instance, proof);
	if (m->proof.len != sizeof(proof) || CRYPTO_memcmp(m->proof.data, proof, sizeof(proof)) != 0)
		return "the proof in Hello is wrong";
	if (m->version_min > IPC_VERSION || m->version_max < IPC_VERSION)
		return "no IPC version in common";
	if ((m->role < IPC_ROLE_HTTP || m->role > IPC_ROLE_HOOK) && m->role != IPC_ROLE_TEST)
		return "unknown role in Hello";
	return NULL;
}

static const char *hello_answer(struct peer *peer, uint64_t request_id)
{
	struct peers *p = peer->peers;
	if (p->env->ops->segment_new(p->env, ENV_SEGMENT_INBOX, IPC_INBOX_SIZE + IPC_NOTICE_SIZE, &peer->inbox) < 0) {
		peer->inbox = (struct env_segment){ .fd = -1 };
		return "no memory for an inbox";
	}
	int fd = dup(peer->inbox.fd);
	if (fd < 0 || ipc_out_fd(&peer->out, fd) < 0)
		return "no descriptor for an inbox";
	node_wal_position(p->node, &peer->wal_session, &peer->wal_seq);
	Ipc__HelloAnswer a = IPC__HELLO_ANSWER__INIT;
	a.version = IPC_VERSION;
	a.boot_id = p->config.boot_id;
	a.inbox_size = IPC_INBOX_SIZE;
	a.credit = IPC_CREDIT;
	a.wal_session = peer->wal_session;
	a.wal_seq = peer->wal_seq;
	a.max_message_size = p->config.max_message_size;
	return ipc_write(&peer->out.buf, IPC_HELLO, IPC_FLAG_ANSWER, request_id, &a.base, slice_of(NULL, 0)) < 0
		? "no memory for an answer" : NULL;
}

static int on_hello(struct peer *peer, struct ipc_frame *f)
{
	Ipc__Hello *m = (Ipc__Hello *)ipc_frame_decode(f);
	if (m == NULL)
		return -EBADMSG;
	const char *fault = hello_fault(peer->peers, m);
	peer->role = m->role;
	peer->instance = m->instance;
	protobuf_c_message_free_unpacked(&m->base, NULL);
	if (fault == NULL)
		fault = hello_answer(peer, f->request_id);
	if (fault != NULL)
		peer_doom(peer, fault);
	peer->reader.phase = IPC_PHASE_READY;
	peer_wants_turn(peer);
	return 0;
}

/* ------------------------------------------------------------------- frames */

/* What a worker may send that is no call; ipc_read() has checked that it may, now. -EBADMSG: it does not decode. */
static int (*const handlers[])(struct peer *, struct ipc_frame *) = {
	[IPC_HELLO] = on_hello,
	[IPC_RELEASE] = peer_on_release,
	[IPC_CANCEL] = peer_on_cancel,
};

static int frame_take(struct peer *peer, struct ipc_frame *f)
{
	bool is_notice = f->row->type < sizeof(handlers) / sizeof(handlers[0]) && handlers[f->row->type] != NULL;
	if (is_notice)
		return handlers[f->row->type](peer, f);
	return f->row->answer != NULL ? peer_on_call(peer, f) : -EBADMSG;
}

bool peer_is_full(const struct peer *peer)
{
	return buf_len(&peer->out.buf) > PEER_OUT_SOFT || peer->out.n_fds > IPC_OUT_FDS_MAX / 4;
}

void peer_input(struct peer *peer)
{
	while (!peer->doomed && !peer_is_full(peer)) {
		struct ipc_frame f;
		int r = ipc_read(&peer->reader, &f);
		if (r == 0)
			return;
		if (r < 0) {
			peer_doom(peer, peer->reader.error);
			return;
		}
		if (frame_take(peer, &f) < 0)
			peer_doom(peer, "message does not decode");
	}
}

void peer_write(struct peer *peer, enum ipc_type type, const ProtobufCMessage *m)
{
	if (peer->doomed)
		return;
	if (ipc_write(&peer->out.buf, type, 0, 0, m, slice_of(NULL, 0)) < 0)
		peer_doom(peer, "does not read what it is told");
	peer_wants_turn(peer);
}

void peer_tell_wal_position(struct peer *peer)
{
	struct peers *p = peer->peers;
	uint64_t session = 0, seq = 0;
	if (peer->doomed || peer->reader.phase != IPC_PHASE_READY)
		return;
	node_wal_position(p->node, &session, &seq);
	if (peer->wal_session == session && peer->wal_seq == seq)
		return;
	peer->wal_session = session;
	peer->wal_seq = seq;
	Ipc__WalPosition m = IPC__WAL_POSITION__INIT;
	m.session = session;
	m.seq = seq;
	peer_write(peer, IPC_WAL_POSITION, &m.base);
}

/* --------------------------------------------------------------------- turns */

static void count_peers(struct peers *p, int n)
{
	p->n_peers += (size_t)n;
	metric_set(METRIC_IPC_PEERS, p->n_peers);
}

static void peer_close(struct peer *peer)
{
	struct peers *p = peer->peers;
	if (peer->doom != NULL)
		metric_add(METRIC_IPC_DROPPED, 1);
	if (peer->doom != NULL && p->events.on_dropped != NULL)
		p->events.on_dropped(p->arg, peer->pid, peer->killed, peer->doom);
	peer_refs_release_all(peer);
	peer_cancel_all(peer);
	node_peer_gone(p->node, peer->number);
	peer_sock_close(peer);
	peer->closed = true;
	count_peers(p, -1);
	peer_free_if_unused(peer);
}

static void on_turn(void *arg)
{
	struct peer *peer = arg;
	must(peer->magic == PEER_MAGIC);
	peer->turn_queued = false;
	if (peer->peers == NULL) { /* peers_free() came first */
		free(peer);
		return;
	}
	if (peer->closed) {
		peer_free_if_unused(peer);
		return;
	}
	if (!peer->doomed) {
		bool was_full = peer_is_full(peer);
		peer_sock_flush(peer);
		if (was_full && !peer_is_full(peer))
			peer_input(peer);
		peer_sock_watch(peer);
	}
	if (peer->doomed)
		peer_close(peer);
}

void peer_wants_turn(struct peer *peer)
{
	if (peer->turn_queued || peer->closed)
		return;
	peer->turn_queued = true;
	env_defer(peer->peers->env, &peer->turn);
}

void peer_doom(struct peer *peer, const char *why)
{
	if (peer->doomed)
		return;
	peer->doomed = true;
	peer->doom = why;
	peer_wants_turn(peer);
}

/* ---------------------------------------------------------------------- life */

struct peer *peer_new(struct peers *p, int sock)
{
	struct peer *peer = must_calloc(1, sizeof(*peer));
	peer->magic = PEER_MAGIC;
	peer->peers = p;
	peer->number = ++p->last_number;
	peer->sock = sock;
	peer->pidfd = -1;
	peer->inbox.fd = -1;
	peer->turn = (struct env_task){ .run = on_turn, .arg = peer };
	ipc_reader_init(&peer->reader, IPC_FROM_WORKER);
	ipc_out_init(&peer->out, PEER_OUT_MAX);
	DL_APPEND(p->all, peer);
	count_peers(p, 1);
	return peer;
}

static void peer_free(struct peer *peer)
{
	must(peer->closed && peer->n_calls == 0 && peer->refs == NULL);
	DL_DELETE(peer->peers->all, peer);
	if (peer->inbox.base != NULL)
		peer->peers->env->ops->segment_free(peer->peers->env, &peer->inbox);
	inbox_done(&peer->ranges);
	ipc_reader_done(&peer->reader);
	ipc_out_done(&peer->out);
	if (peer->turn_queued) {
		peer->peers = NULL;
		return;
	}
	peer->magic = 0;
	free(peer);
}

void peer_free_if_unused(struct peer *peer)
{
	if (peer->closed && peer->n_calls == 0 && !peer->turn_queued)
		peer_free(peer);
}

/* ----------------------------------------------------------------------- all */

static void on_tick(void *arg)
{
	struct peers *p = arg;
	uint64_t now = env_now_ms(p->env);
	bool held = false;
	peers_accept_again(p);
	struct peer *peer, *next;
	DL_FOREACH_SAFE(p->all, peer, next) {
		peer_tell_wal_position(peer);
		held = peer_refs_tick(peer, now) || held;
	}
	if (held)
		peers_tick_within(p, PEER_REF_MS / 4);
}

void peers_tick_within(struct peers *p, uint64_t ms)
{
	uint64_t at = env_now_ms(p->env) + ms;
	if (p->tick.at_ms == 0 || p->tick.at_ms > at)
		env_timer_start(p->env, &p->tick, at);
}

void peers_new(struct env *env, struct node *node, const struct peers_config *config,
	       const struct peers_events *events, void *arg, struct peers **ret_peers)
{
	struct peers *p = must_calloc(1, sizeof(*p));
	must(config->boot_id != 0);
	if (hash_seed == 0)
		env_random(env, &hash_seed, sizeof(hash_seed));
	p->env = env;
	p->node = node;
	p->config = *config;
	p->events = *events;
	p->arg = arg;
	p->tick = (struct env_timer){ .on_fire = on_tick, .arg = p };
	*ret_peers = p;
}

void peers_flush(struct peers *p)
{
	struct peer *peer;
	DL_FOREACH(p->all, peer)
		if (!peer->closed && !peer->doomed)
			peer_sock_flush(peer);
}

void peers_free(struct peers *p)
{
	if (p == NULL)
		return;
	peers_unlisten(p);
	env_timer_stop(p->env, &p->tick);
	peers_flush(p);
	peer_graves_free(p);
	struct peer *peer, *next;
	DL_FOREACH_SAFE(p->all, peer, next) {
		peer_forget_all(peer);
		peer_refs_release_all(peer);
		peer_graves_free(p);
		if (!peer->closed)
			peer_sock_close(peer);
		peer->closed = true;
		peer_free(peer);
	}
	free(p);
}

int peers_add(struct peers *p, int sock)
{
	struct peer *peer = peer_new(p, sock);
	int r = p->n_peers > PEERS_MAX ? -EMFILE : peer_sock_open(peer);
	if (r == 0)
		return 0;
	peer_sock_close(peer);
	peer->closed = true;
	count_peers(p, -1);
	peer_free(peer);
	return r;
}

void peers_serve(struct peers *p)
{
	p->serving = true;
	struct peer *peer, *next;
	DL_FOREACH_SAFE(p->all, peer, next)
		peer_serve(peer);
}

void peers_on_reclaim(struct peers *p, struct segment *segment)
{
	struct peer *peer;
	DL_FOREACH(p->all, peer)
		peer_reclaim(peer, segment->id);
}

void peers_on_segment_gone(struct peers *p, struct segment *segment)
{
	struct peer *peer;
	DL_FOREACH(p->all, peer)
		peer_segment_gone(peer, segment->id);
}

void peers_on_cut(struct peers *p)
{
	struct peer *peer;
	DL_FOREACH(p->all, peer)
		if (peer->inbox.base != NULL)
			__atomic_fetch_add((uint64_t *)(peer->inbox.base + IPC_INBOX_SIZE), 1, __ATOMIC_RELEASE);
}

void peers_on_wal_position(struct peers *p, uint64_t session, uint64_t seq)
{
	peers_tick_within(p, PEER_WAL_POSITION_MS);
}

struct peers_count peers_count(const struct peers *p)
{
	struct peers_count c = { .peers = p->n_peers };
	struct peer *peer;
	DL_FOREACH(p->all, peer) {
		c.calls += peer->n_calls;
		c.refs += HASH_COUNT(peer->refs);
	}
	return c;
}
