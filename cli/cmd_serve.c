/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico serve` becomes the supervisor: the same process. ps then shows "pico serve" and the options.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "common/program.h"

int cmd_serve(struct cli *cli, int argc, char **argv)
{
	static char name[] = "pico serve";
	char path[PATH_MAX];
	if (program_find("supervisor", path, sizeof(path)) < 0)
		return cli_fail(CLI_FAILED, "cannot find the program supervisor; this installation is not complete: %s", path);
	argv[0] = name;
	execv(path, argv);
	return cli_fail(CLI_FAILED, "cannot run %s: %s", path, strerror(errno));
}
