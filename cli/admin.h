/* SPDX-License-Identifier: Apache-2.0
 *
 * The subcommands of `pico admin`; argv[0] is the subcommand's name.
 */
#ifndef CLI_ADMIN_H
#define CLI_ADMIN_H

#include "cli/cli.h"

int admin_backup(struct cli *cli, int argc, char **argv);
int admin_export(struct cli *cli, int argc, char **argv);
int admin_logs(struct cli *cli, int argc, char **argv);
int admin_objects(struct cli *cli, int argc, char **argv);
int admin_restore(struct cli *cli, int argc, char **argv);

#endif
