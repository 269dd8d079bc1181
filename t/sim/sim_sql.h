/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated database under the command log. struct sim_db is what is committed and shared between
 * processes; a struct sql_log is one process's connection. A statement is atomic at the moment of its effect, which
 * may come after an UNKNOWN answer, also after its sender's death.
 */
#ifndef T_SIM_SIM_SQL_H
#define T_SIM_SIM_SQL_H

#include "storaged/meta/sql_log.h"
#include "t/sim/sim.h"

struct sim_entity {
	uint8_t *key, *payload;
	size_t key_len, payload_len;
	uint64_t idx;
};

struct sim_db {
	struct sim *sim;
	struct sql_row *rows;           /* in order of idx; payloads owned */
	size_t n_rows, rows_room;
	struct sim_entity *entities;    /* unordered */
	size_t n_entities, entities_room;
	uint64_t snapshot_idx;
	bool away;                      /* a period of refusal */
};

void sim_db_init(struct sim_db *db, struct sim *s);
void sim_db_done(struct sim_db *db);
/* What a restore made, into an empty one. */
void sim_db_fill(struct sim_db *db, const struct sql_row *row, const struct sql_entity *entities, size_t n);
/* For who writes rows and is no process here. NULL: the database is empty, or away. */
const struct sql_row *sim_db_last(const struct sim_db *db);
void sim_db_push(struct sim_db *db, const struct sql_row *row);
/* What `from` holds now, into an empty one. */
void sim_db_copy(struct sim_db *to, const struct sim_db *from);
void sim_db_away(struct sim_db *db, bool away);

/* Freed with its free op. */
struct sql_log *sim_sql_new(struct sim_db *db, struct sim_proc *p);

#endif
