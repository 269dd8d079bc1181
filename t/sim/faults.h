/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of faults: a row each, counted where it happens.
 */
#ifndef T_SIM_FAULTS_H
#define T_SIM_FAULTS_H

/* Everything that is injected, with the words a campaign prints. */
#define SIM_FAULTS(X)                                                                    \
	X(PUT_ERROR, "put: error before effect")                                         \
	X(PUT_THROTTLED, "put: 503 before effect")                                       \
	X(PUT_LOST, "put: unknown, no effect")                                           \
	X(PUT_ANSWER_LOST, "put: effect, answer lost")                                   \
	X(PUT_LATE, "put: unknown, effect later")                                        \
	X(PUT_HANG, "put: answered after up to a minute")                                \
	X(PUT_AFTER_DEATH, "put: effect after the sender died")                          \
	X(PUT_DIES_WITH, "put: lost with its sender")                                    \
	X(PUT_TAKEN, "put: key taken (412)")                                             \
	X(PUT_REORDERED, "put: answered before an older one")                            \
	X(GET_ERROR, "get: error")                                                       \
	X(GET_TRUNCATED, "get: truncated body")                                          \
	X(GET_CORRUPT, "get: corrupted body")                                            \
	X(STORE_BURST, "store: period of 503")                                           \
	X(STORE_FULL, "store: period of ENOSPC")                                         \
	X(STORE_EIO, "store: period of EIO")                                             \
	X(STORE_AWAY, "store: period of time-outs")                                      \
	X(STORE_SLOW, "store: slow period")                                              \
	X(ROT_FLIPPED, "object: damaged for a while")                                    \
	X(ROT_CUT_OFF, "object: cut off for a while")                                    \
	X(ROT_GONE, "object: missing for a while")                                       \
	X(ROT_FORGED, "object: WAL with frames that contradict each other")              \
	X(OTHER_EPOCH, "object: WAL with a frame of another epoch")                      \
	X(SQL_REFUSED, "sql: refused")                                                   \
	X(SQL_HANG, "sql: hang")                                                         \
	X(SQL_LOST, "sql: unknown, no effect")                                           \
	X(SQL_ANSWER_LOST, "sql: commit, answer lost")                                   \
	X(SQL_LATE, "sql: unknown, commit later")                                        \
	X(SQL_TAKEN, "sql: row taken")                                                   \
	X(SQL_SNAPSHOT, "sql: snapshot written")                                         \
	X(SQL_SNAPSHOT_READ, "sql: snapshot read back")                                  \
	X(SQL_AWAY, "sql: period of refusal")                                            \
	X(FOREIGN_ROW, "metadata: row of another node")                                  \
	X(KILL, "process: killed")                                                       \
	X(KILL_AT_IO, "process: killed at an I/O step")                                  \
	X(PAUSE, "process: paused")                                                      \
	X(ZOMBIE, "process: thawed beside its successor")                                \
	X(SLEEP, "process: thawed after hours")                                          \
	X(ALIEN, "store: objects of somebody else")                                      \
	X(CLOCK_STEP, "clock: stepped")                                                  \
	X(STOP, "process: stopped in order")                                             \
	X(CANCEL, "call: cancelled by its worker")                                       \
	X(LEFT, "process: left by itself (fenced, superseded)")                           \
	X(PACKED, "engine: WAL packed")                                                   \
	X(MERGED, "engine: runs merged")                                                  \
	X(MERGE_GIVEN_UP, "engine: merge given up")                                      \
	X(GC_REMOVED, "engine: dead object removed")                                     \
	X(GC_DELETED, "engine: marked object deleted")                                   \
	X(EXPIRED, "engine: topic ended by its TTL")                                    \
	X(RETENTION, "engine: log cut for its age")                                     \
	X(REWRITTEN, "engine: object rewritten to what lives")                          \
	X(ORPHAN, "engine: orphan deleted")                                              \
	X(LOADED, "engine: log loaded from its entries")                                 \
	X(DROPPED, "engine: loaded log dropped")                                         \
	X(TRIMMED, "client: trim acknowledged")                                          \
	X(DATABASE_LOST, "database: lost, and built again from the bucket")                         \
	X(DATABASE_OLD, "database: an older copy in its place, refused")                \
	X(FORKED, "client: fork acknowledged")

enum sim_fault {
#define X(name, text) SIM_##name,
	SIM_FAULTS(X)
#undef X
	SIM_FAULT_N
};
extern const char *const sim_fault_text[SIM_FAULT_N];

#endif
