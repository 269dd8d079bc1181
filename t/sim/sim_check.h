/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges a history. Numbers are those of the checks:
 *
 *   1 an offset is one value and a value one offset    5 the high watermark never runs backwards, and no
 *   2 completion order implies offset order              answer rests on what a crash takes back
 *   3 acked: present; refused: absent; unknown: once   6 a consumer never skips or steps back
 *     or absent; whole batches only                    7 (producer, epoch, seq) at most once, in order
 *   4 reads are the final log's bytes                  9 nothing acked after a close or a delete returned
 *                                                     10 no WAL object below a cut missing, none deleted
 *   11 no wake-up is lost: a wait is answered soon after what it waits for was acknowledged
 *   13 a log begins where a trim said, and never earlier again
   14 a fork shows what its source has below the point, whatever became of the source
   15 nothing is cut for its age before its time     16 no topic ends by its TTL before its time
   12 stamps never run backwards and are what the append was told; stream sequences advance
 */
#ifndef T_SIM_SIM_CHECK_H
#define T_SIM_SIM_CHECK_H

#include "t/sim/history.h"

struct sim_fault_found {
	int check;              /* 0: none */
	char text[300];
};

/* fork_check.c: check 14. */
bool fork_check(const struct history *h, struct sim_fault_found *ret_found);

/* The first fault found; true when there is none. */
bool sim_check(const struct history *h, struct sim_fault_found *ret_found);

/* sim_check_age.c: 15 and 16, for sim_check(). */
bool sim_check_ages(const struct history *h, struct sim_fault_found *ret_found);

#endif
