/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico admin`: one row a subcommand.
 */
#include <stdio.h>

#include "cli/admin.h"

static const struct {
	const char *name;
	int (*run)(struct cli *cli, int argc, char **argv);
} subcommands[] = {
	{ "topics", admin_topics },
	{ "configs", admin_configs },
	{ "groups", admin_groups },
	{ "objects", admin_objects },
	{ "logs", admin_logs },
	{ "export", admin_export },
	{ "backup", admin_backup },
	{ "restore-metadata", admin_restore },
};

int cmd_admin(struct cli *cli, int argc, char **argv)
{
	if (argc < 2) {
		cli_fail(CLI_USAGE, "which subcommand?");
		return cli_usage("admin");
	}
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].run(cli, argc - 1, argv + 1);
	cli_fail(CLI_USAGE, "pico admin has no %s", argv[1]);
	return cli_usage("admin");
}
