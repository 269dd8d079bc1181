/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico serve` becomes the supervisor: the same process, found beside this program in a built tree, else where it was
 * installed.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"

int cmd_serve(struct cli *cli, int argc, char **argv)
{
	char self[PATH_MAX], beside[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return cli_fail(CLI_FAILED, "cannot read /proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(beside, sizeof(beside), "%s/supervisor/supervisor", self);
	execv(beside, argv);
	if (errno != ENOENT && errno != ENOTDIR)
		return cli_fail(CLI_FAILED, "cannot run %s: %s", beside, strerror(errno));
	execv(PKGLIBEXECDIR "/supervisor", argv);
	return cli_fail(CLI_FAILED, "cannot run " PKGLIBEXECDIR "/supervisor: %s", strerror(errno));
}
