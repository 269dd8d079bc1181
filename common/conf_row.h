/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of conf.def as data, for the files of conf*.c alone.
 */
#ifndef COMMON_CONF_ROW_H
#define COMMON_CONF_ROW_H

#include "common/conf.h"

#define CONF_NAME_MAX 64

enum conf_type {
	CONF_TYPE_STRING, CONF_TYPE_LIST, CONF_TYPE_FLAG, CONF_TYPE_SWITCH,
	CONF_TYPE_U64, CONF_TYPE_SIZE, CONF_TYPE_MS, CONF_TYPE_I64,
};

struct conf_row {
	const char *name;               /* in file spelling */
	enum conf_type type;
	const char *def;
	int64_t min, max;               /* of numbers */
	bool later;                     /* no effect yet */
	size_t offset;                  /* of its value in struct conf */
	const char *help;
};
extern const struct conf_row conf_rows[CONF_N];

bool conf_name_is(const char *name, const char *spelled);       /* '-' in `spelled` matches '_' */
const struct conf_row *conf_find(const char *spelled);          /* NULL: unknown */
const char *conf_flag_name(const struct conf_row *row, char ret_name[static CONF_NAME_MAX]);
bool conf_is_secret(const struct conf_row *row);                /* all of its value */

int conf_set_row(struct conf *c, const struct conf_row *row, const char *value, bool first, struct buf *ret_fault);
/* The value as text and a 0 byte. */
void conf_print(const struct conf *c, const struct conf_row *row, struct buf *out);
/* The line for a name that is none: its new name, or the nearest one. */
void conf_unknown(const char *spelled, struct buf *out);

/* The option whose name is a few edits from that; NULL: none is. */
const struct conf_row *conf_nearest(const char *spelled);

#endif
