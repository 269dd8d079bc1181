/* SPDX-License-Identifier: Apache-2.0
 *
 * References: ranges of segments that a peer may read until it releases them. A reference is an id that was given to
 * this peer; the pins behind it are dropped exactly once - at its release, or with the peer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "storaged/peer_graves.h"
#include "storaged/peer_impl.h"

void pieces_drop(struct piece *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pin_drop(pieces[i].pin);
	free(pieces);
}

/* Says Segment once a peer. The descriptor is a copy: the segment may be gone before it is sent. */
static void announce(struct peer *peer, const struct segment *s)
{
	struct peer_segment *known;
	HASH_FIND(hh, peer->segments, &s->id, sizeof(s->id), known);
	if (known != NULL)
		return;
	int fd = fcntl(s->mem.fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0) {
		peer_doom(peer, "no descriptor left for a segment");
		return;
	}
	if (peer->out.n_fds == IPC_OUT_FDS_MAX)
		peer_sock_flush(peer);
	if (ipc_out_fd(&peer->out, fd) < 0) {
		close(fd);
		peer_doom(peer, "does not take its segments");
		return;
	}
	Ipc__Segment m = IPC__SEGMENT__INIT;
	m.id = s->id;
	m.size = s->mem.size;
	peer_write(peer, IPC_SEGMENT, &m.base);
	known = must_calloc(1, sizeof(*known));
	known->id = s->id;
	HASH_ADD(hh, peer->segments, id, sizeof(known->id), known);
}

int peer_ref_give(struct peer *peer, struct piece *pieces, size_t n, uint64_t *ret_id)
{
	if (HASH_COUNT(peer->refs) >= PEER_REFS_MAX) {
		pieces_drop(pieces, n);
		return -ENOBUFS;
	}
	struct peer_ref *ref = must_calloc(1, sizeof(*ref));
	ref->id = ++peer->peers->next_ref;
	ref->given_ms = env_now_ms(peer->peers->env);
	ref->pieces = pieces;
	ref->n_pieces = n;
	HASH_ADD(hh, peer->refs, id, sizeof(ref->id), ref);
	for (size_t i = 0; i < n; i++)
		announce(peer, pieces[i].segment);
	peers_tick_within(peer->peers, PEER_REF_MS);
	*ret_id = ref->id;
	return 0;
}

static void ref_free(struct peer *peer, struct peer_ref *ref)
{
	HASH_DEL(peer->refs, ref);
	pieces_drop(ref->pieces, ref->n_pieces);
	free(ref);
}

int peer_ref_release(struct peer *peer, uint64_t id)
{
	struct peer_ref *ref;
	HASH_FIND(hh, peer->refs, &id, sizeof(id), ref);
	if (ref == NULL)
		return -ENOENT;
	ref_free(peer, ref);
	return 0;
}

int peer_on_release(struct peer *peer, struct ipc_frame *f)
{
	Ipc__Release *m = (Ipc__Release *)ipc_frame_decode_within(f, PEER_REFS_MAX * 16, NULL);
	if (m == NULL)
		return -EBADMSG;
	for (size_t i = 0; i < m->n_refs && !peer->doomed; i++)
		if (peer_ref_release(peer, m->refs[i]) < 0)
			peer_doom(peer, "released a reference that it does not hold");
	protobuf_c_message_free_unpacked(&m->base, NULL);
	return 0;
}

/* The process may live on and look at what it was given, and nobody will tell when it is dead. */
static void ref_abandon(struct peer *peer, struct peer_ref *ref)
{
	for (size_t i = 0; i < ref->n_pieces; i++)
		ref->pieces[i].pin->abandoned = true;
	ref_free(peer, ref);
}

void peer_refs_release_all(struct peer *peer)
{
	struct peer_ref *ref, *next_ref;
	peer_bury(peer);
	HASH_ITER(hh, peer->refs, ref, next_ref)
		ref_abandon(peer, ref);
	struct peer_segment *s, *next;
	HASH_ITER(hh, peer->segments, s, next) {
		HASH_DEL(peer->segments, s);
		free(s);
	}
}

static bool ref_is_in(const struct peer_ref *ref, uint32_t segment)
{
	for (size_t i = 0; i < ref->n_pieces; i++)
		if (ref->pieces[i].segment->id == segment)
			return true;
	return false;
}

void peer_reclaim(struct peer *peer, uint32_t segment)
{
	uint64_t now = env_now_ms(peer->peers->env);
	bool held = false;
	struct peer_ref *ref, *next;
	HASH_ITER(hh, peer->refs, ref, next) {
		if (ref->reclaimed_ms != 0 || !ref_is_in(ref, segment))
			continue;
		ref->reclaimed_ms = now;
		held = true;
	}
	if (!held)
		return;
	Ipc__Reclaim m = IPC__RECLAIM__INIT;
	m.segment = segment;
	peer_write(peer, IPC_RECLAIM, &m.base);
	peers_tick_within(peer->peers, PEER_REF_MS);
}

void peer_segment_gone(struct peer *peer, uint32_t segment)
{
	struct peer_segment *s;
	HASH_FIND(hh, peer->segments, &segment, sizeof(segment), s);
	if (s == NULL)
		return;
	HASH_DEL(peer->segments, s);
	free(s);
	Ipc__SegmentGone m = IPC__SEGMENT_GONE__INIT;
	m.id = segment;
	peer_write(peer, IPC_SEGMENT_GONE, &m.base);
}

/* Asks for every segment of a reference that is held too long. */
static void reclaim_old(struct peer *peer, uint64_t now_ms)
{
	struct peer_ref *ref, *next;
	HASH_ITER(hh, peer->refs, ref, next) {
		if (ref->given_ms + PEER_REF_MS > now_ms)
			return; /* and so are all that follow */
		for (size_t i = 0; i < ref->n_pieces && ref->reclaimed_ms == 0; i++)
			peer_reclaim(peer, ref->pieces[i].segment->id);
	}
}

bool peer_refs_tick(struct peer *peer, uint64_t now_ms)
{
	if (peer->doomed)
		return false;
	reclaim_old(peer, now_ms);
	struct peer_ref *ref, *next;
	HASH_ITER(hh, peer->refs, ref, next) {
		if (ref->reclaimed_ms == 0 || ref->reclaimed_ms + PEER_RECLAIM_MS > now_ms)
			continue;
		peer_sock_kill(peer);
		peer_doom(peer, "holds a reference that was reclaimed 5 s ago");
		return false;
	}
	return peer->refs != NULL;
}
