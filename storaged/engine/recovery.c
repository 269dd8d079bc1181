/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a recovery: every session's cut (recovery_cut.c), then where logs end by their data objects (scan.c),
 * then the frames of the WAL on top (recovery_read.c).
 */
#include "storaged/engine/recovery.h"

#include <stdio.h>
#include <stdlib.h>

#include "storaged/engine/scan.h"

void recovery_key(const struct recovery *r, size_t at, uint64_t seq, char ret_key[WAL_KEY_MAX])
{
	wal_key(ret_key, r->engine->config.node, r->ended[at].session, seq);
}

void recovery_fatal(struct recovery *r, size_t at, uint64_t seq, const char *text)
{
	char key[WAL_KEY_MAX], whole[400];
	recovery_key(r, at, seq, key);
	snprintf(whole, sizeof(whole), "WAL object %s in %s: %s", key, r->engine->store->url, text);
	engine_fatal(r->engine, 1, whole);
}

void recovery_set_fault(struct recovery *r, struct obj_result result)
{
	snprintf(r->fault, sizeof(r->fault), "%s: %s", result.what != NULL ? result.what : r->engine->store->url,
		 strerror(-result.err));
}

static void on_scanned(struct engine *e)
{
	recovery_read(e->recovery);
}

void recovery_scan(struct recovery *r)
{
	r->engine->scan = scan_start(r->engine, on_scanned);
}

struct recovery *recovery_start(struct engine *e, struct engine_session *ended, size_t n_ended,
				void (*on_read)(struct engine *e))
{
	struct recovery *r = must_calloc(1, sizeof(*r));
	r->engine = e;
	r->ended = ended;
	r->n_ended = n_ended;
	r->on_read = on_read;
	r->began_ms = env_now_ms(e->env);
	r->sizes = must_calloc(n_ended + 1, sizeof(*r->sizes));
	r->n_sizes = must_calloc(n_ended + 1, sizeof(*r->n_sizes));
	if (n_ended > 0)
		recovery_cut(r);
	else
		recovery_scan(r);
	return r;
}

void recovery_free(struct recovery *r)
{
	if (r == NULL)
		return;
	recovery_cut_free(r);
	recovery_read_free(r);
	for (size_t i = 0; i < r->n_ended; i++)
		free(r->sizes[i]);
	free(r->sizes);
	free(r->n_sizes);
	free(r);
}

const struct engine_recovery_stats *recovery_stats(const struct recovery *r)
{
	return &r->stats;
}

const char *recovery_fault(const struct recovery *r)
{
	return r->fault[0] != '\0' ? r->fault : NULL;
}
