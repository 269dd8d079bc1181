/* SPDX-License-Identifier: Apache-2.0
 *
 * A built tree has a directory for each program (TOP/pico, TOP/storaged/storaged); an installed one has
 * PREFIX/bin/pico and PREFIX/libexec/picomq/storaged. All are tried relative to /proc/self/exe, so a tree can be moved.
 */
#include "common/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int try_path(const char *name, const char *dir, const char *below, char *ret_path, size_t size)
{
	struct stat st;
	int n = snprintf(ret_path, size, "%s/%s%s", dir, below, name);
	if (n < 0 || (size_t)n >= size)
		return -ENAMETOOLONG;
	if (stat(ret_path, &st) < 0 || !S_ISREG(st.st_mode) || access(ret_path, X_OK) < 0)
		return -ENOENT;
	return 0;
}

/* DIR/NAME/NAME or DIR/NAME. */
static int try_tree(const char *name, const char *dir, char *ret_path, size_t size)
{
	char below[64];
	snprintf(below, sizeof(below), "%s/", name);
	if (try_path(name, dir, below, ret_path, size) == 0)
		return 0;
	return try_path(name, dir, "", ret_path, size);
}

int program_find(const char *name, char *ret_path, size_t size)
{
	char here[PATH_MAX], below[80];
	const char *tests = getenv("PICO_LIBEXEC");
	if (tests != NULL && try_tree(name, tests, ret_path, size) == 0)
		return 0;
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
	if (n > 0) {
		here[n] = '\0';
		*strrchr(here, '/') = '\0';
		snprintf(below, sizeof(below), "%s/", name);
		if (try_path(name, here, below, ret_path, size) == 0)
			return 0;
		snprintf(below, sizeof(below), "../%s/", name);
		if (try_path(name, here, below, ret_path, size) == 0)
			return 0;
		if (try_path(name, here, "../libexec/picomq/", ret_path, size) == 0)
			return 0;
		const char *slash = strrchr(here, '/');
		if (slash != NULL && strcmp(slash, "/picomq") == 0 && try_path(name, here, "", ret_path, size) == 0)
			return 0;
	}
	return try_path(name, PKGLIBEXECDIR, "", ret_path, size);
}
