/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands of `pico admin`; argv[0] is the subcommand's name. And what those share that ask the admin listener.
 */
#ifndef CLI_ADMIN_H
#define CLI_ADMIN_H

#include "cli/cli.h"

int admin_backup(struct cli *cli, int argc, char **argv);
int admin_configs(struct cli *cli, int argc, char **argv);
int admin_export(struct cli *cli, int argc, char **argv);
int admin_groups(struct cli *cli, int argc, char **argv);
int admin_logs(struct cli *cli, int argc, char **argv);
int admin_objects(struct cli *cli, int argc, char **argv);
int admin_restore(struct cli *cli, int argc, char **argv);
int admin_topics(struct cli *cli, int argc, char **argv);

/* ---------------------------------------------------------------- cmd_admin_list.c */

#define ADMIN_COLUMNS_MAX 12
#define ADMIN_OPTIONS_MAX 4

struct admin_column {
	const char *field;              /* of the JSON */
	int width;                      /* negative: to the left */
};

/* A list that the admin listener gives. */
struct admin_list {
	const char *path, *array;       /* where; the array's field */
	const char *cursor;             /* the field of an item that start_after takes; NULL: it has no pages */
	struct admin_column column[ADMIN_COLUMNS_MAX];
	bool whole;                     /* --json prints each page as it came, not its items */
};

/* The table of the list in one answer. */
void admin_print_table(const struct admin_list *list, struct slice body);
/* All pages, or as many items as --limit says, from behind --start-after on. */
int admin_print_list(struct cli *cli, const struct admin_list *list, int argc, char **argv);
/* --admin and, if they are not NULL, up to ADMIN_OPTIONS_MAX more; the requests that follow go to the admin listener. */
int admin_take_options(struct cli *cli, int argc, char **argv, const struct cli_option *more);
/* Says why a request failed. */
int admin_fail(const struct cli *cli, const struct cli_response *r);
/* The value of an object's field as text, without quotes; "-" where it is absent, null or empty. */
void admin_field(struct slice object, const char *field, struct buf *out);
/* prefix as it stands, and the name percent-encoded behind it. */
void admin_path(struct buf *out, const char *prefix, const char *name);

#endif
