/* SPDX-License-Identifier: Apache-2.0
 *
 * Bugs that can be switched on: the simulator is scored by how soon it finds each of them. Only in a
 * build with --enable-planted-bugs; elsewhere planted() is constant false and the code is gone.
 */
#ifndef STORAGED_PLANTED_H
#define STORAGED_PLANTED_H

#include <stdbool.h>

enum planted {
	PLANTED_NONE,
	PLANTED_ACK_BEFORE_STORE,       /* an append is answered when its object is submitted */
	PLANTED_IGNORE_SEAL,            /* a seal met by a put counts as success */
	PLANTED_UNKNOWN_AS_FAILURE,     /* an UNKNOWN outcome is believed to be NOT_APPLIED */
	PLANTED_UNKNOWN_AS_SUCCESS,     /* an UNKNOWN outcome is believed to be OK */
	PLANTED_PRODUCER_FORGOTTEN,     /* recovery drops producer state */
	PLANTED_LOST_WAKEUP,            /* a waiter is registered after confirm was looked at */
	PLANTED_ACK_OUT_OF_ORDER,       /* an object's appends are answered before older objects are stored */
	PLANTED_SEAL_DELETED,           /* the object at the cut is deleted after recovery */
	PLANTED_TTL_NOT_RENEWED,        /* a use moves no deadline */
	PLANTED_RETENTION_BY_WALL,      /* the clock on the wall, which steps, says what is old */
	PLANTED_SWEEP_BY_AGE,           /* the orphan sweep deletes what is not committed, whoever may commit it yet */
	PLANTED_NEWEST_BY_RUN,          /* a log's newest state entry is that of its youngest run, which a merge may have made */
	PLANTED_STATE_WITH_RECORDS,     /* a merge drops a log's state with its last record */
	PLANTED_COMMIT_UNCHECKED,       /* a commit is applied whoever made it and wherever the watermark stands */
	PLANTED_SNAPSHOT_WITHOUT_BASE,  /* a snapshot is written over one that another process wrote meanwhile */
	PLANTED_CUT_WITHOUT_SEALS,      /* a session ends at its first missing object; nothing keeps its process from going on */
	PLANTED_TRASH_BEFORE_COMMIT,    /* WAL objects are deleted when what was packed is stored, before it is committed */
	PLANTED_GC_WITHOUT_FORKS,       /* what a topic shows no more is dropped, whatever forks of it show */
	PLANTED_LOAD_FORGETS,           /* a log that is loaded again does not know its producers */
	PLANTED_ANY_EPOCH,              /* frames are taken whatever epoch of their log they are of */
	PLANTED_OLD_DATABASE,           /* a start on a database that the storage proves to be an older copy is not refused */
	PLANTED_LOAD_OVERTAKEN,         /* appends that waited for their log go on in any order */
};

#ifdef PICO_PLANTED_BUGS
extern int planted_bug;                 /* enum planted; one at a time */
#define planted(x) (planted_bug == (x))
#else
#define planted(x) false
#endif

#endif
