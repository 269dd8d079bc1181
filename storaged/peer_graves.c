/* SPDX-License-Identifier: Apache-2.0
 *
 * References of workers that are no longer connected. A process that was dropped may live on and send what it was shown:
 * its pins stay until it is known to be dead, by a descriptor of the process. One that lives for PEER_RECLAIM_MS more is
 * killed, as one is that does not give back what was reclaimed. Without such a descriptor the memory is never written
 * again.
 */
#include "storaged/peer_graves.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utlist.h>

#include "common/env_uv.h"
#include "common/metrics.h"
#include "storaged/peer_impl.h"

struct grave {
	struct peers *peers;
	struct grave *prev, *next;
	struct peer_ref *refs;          /* hash; owned */
	int pidfd;
	pid_t pid;
	uv_poll_t *poll;                /* readable when the process is dead */
	struct env_timer timer;
};

static void on_closed(uv_handle_t *h)
{
	free(h);
}

static void grave_free(struct grave *g)
{
	struct peer_ref *ref, *next;
	HASH_ITER(hh, g->refs, ref, next) {
		HASH_DEL(g->refs, ref);
		pieces_drop(ref->pieces, ref->n_pieces);
		free(ref);
	}
	DL_DELETE(g->peers->graves, g);
	env_timer_stop(g->peers->env, &g->timer);
	uv_close((uv_handle_t *)g->poll, on_closed);
	close(g->pidfd);
	free(g);
}

static void on_dead(uv_poll_t *h, int status, int events)
{
	grave_free(h->data);
}

static void on_lives_on(void *arg)
{
	struct grave *g = arg;
	struct peers *p = g->peers;
	bool killed = syscall(SYS_pidfd_send_signal, g->pidfd, SIGKILL, NULL, 0) == 0;
	if (killed && p->events.on_dropped != NULL)
		p->events.on_dropped(p->arg, g->pid, true, "lives on with references of a connection that ended 5 s ago");
}

bool peer_bury(struct peer *peer)
{
	struct peers *p = peer->peers;
	if (peer->refs == NULL || peer->pidfd < 0)
		return false;
	uv_poll_t *poll = must_calloc(1, sizeof(*poll));
	if (uv_poll_init(env_uv_loop(p->env), poll, peer->pidfd) < 0) {
		free(poll);
		return false;
	}
	struct grave *g = must_calloc(1, sizeof(*g));
	*g = (struct grave){ .peers = p, .refs = peer->refs, .pidfd = peer->pidfd, .pid = peer->pid, .poll = poll };
	g->timer = (struct env_timer){ .on_fire = on_lives_on, .arg = g };
	peer->refs = NULL;
	peer->pidfd = -1;
	poll->data = g;
	DL_APPEND(p->graves, g);
	must(uv_poll_start(poll, UV_READABLE, on_dead) == 0);
	env_timer_start(p->env, &g->timer, env_now_ms(p->env) + PEER_RECLAIM_MS);
	return true;
}

void peer_graves_free(struct peers *p)
{
	while (p->graves != NULL)
		grave_free(p->graves);
}
