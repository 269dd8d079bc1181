/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at everything in the stores of a node and holds it against the catalogue and the sessions that its metadata
 * has: every checksum, everything that must be there, everything that nobody knows. It changes nothing. Beside a
 * running node what it finds is looked at again at the end, for the node goes on.
 */
#ifndef STORAGED_OFFLINE_FSCK_H
#define STORAGED_OFFLINE_FSCK_H

#include "storaged/offline/shelf.h"

/* ERROR: something is lost or damaged, or will be refused at a start. WARNING: it may be. NOTE: nobody needs it, or it is
 * being worked on. */
enum fsck_severity { FSCK_NOTE, FSCK_WARNING, FSCK_ERROR };

struct fsck_finding {
	enum fsck_severity severity;
	const char *kind;               /* one word, for programs */
	char *key;                      /* owned; "" when it is about no object */
	char *text;                     /* owned: what is wrong, what it means */
	bool again;                     /* private: look at it again at the end */
};

struct fsck {
	struct fsck_finding *finding;   /* owned, in order of key */
	size_t n_findings;
	size_t n_severity[3];
	size_t n_data, n_wal, n_exports;        /* objects looked at */
	uint64_t bytes;
	char source[1200];              /* where catalogue and sessions are from */
	char fault[1200];               /* why it could not be done */
};

struct state;

struct fsck_options {
	struct shelf *data, *wal;       /* wal: NULL when it is the same */
	const char *database;           /* path of the SQLite file; where there is none, the newest export is taken */
	const struct state *state;      /* not NULL: what is held against the stores, and no database is read */
	void (*on_progress)(void *arg, uint64_t done, uint64_t all);    /* bytes; NULL: nobody wants to know */
	void *arg;
};

/* 0, or -1 when it could not be done; then fault says why. Follow with fsck_done(). */
int fsck(const struct fsck_options *o, struct fsck *ret);
void fsck_done(struct fsck *f);

#endif
