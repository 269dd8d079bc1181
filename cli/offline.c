/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "cli/offline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

static void remove_arguments(int *argc, char **argv, int at, int n)
{
	for (int i = at; i + n < *argc; i++)
		argv[i] = argv[i + n];
	*argc -= n;
}

int offline_take(const char *name, int *argc, char **argv, const char **ret_value)
{
	size_t n = strlen(name);
	for (int i = 1; i < *argc; i++) {
		if (strncmp(argv[i], name, n) != 0 || (argv[i][n] != '\0' && argv[i][n] != '='))
			continue;
		bool apart = argv[i][n] == '\0';
		if (apart && i + 1 == *argc)
			return cli_fail(CLI_USAGE, "%s needs a value", name);
		*ret_value = apart ? argv[i + 1] : argv[i] + n + 1;
		remove_arguments(argc, argv, i, apart ? 2 : 1);
		i--;
	}
	return CLI_OK;
}

int offline_take_argument(int *argc, char **argv, const char **ret_value)
{
	if (*argc < 2 || argv[1][0] == '-')
		return CLI_USAGE;
	*ret_value = argv[1];
	remove_arguments(argc, argv, 1, 1);
	return CLI_OK;
}

static int conf_take(struct offline *o, int argc, char **argv)
{
	struct conf_origins origins;
	struct buf faults;
	buf_init(&faults, 65536);
	int n = conf_load(&o->conf, &origins, argc, argv, environ, &faults);
	if (n > 0)      /* the last fault's newline is not ours to print twice */
		cli_fail(CLI_USAGE, "%.*s", (int)buf_len(&faults) - 1, (const char *)buf_head(&faults));
	buf_done(&faults);
	return n > 0 ? CLI_USAGE : CLI_OK;
}

static int database_find(struct offline *o)
{
	const char *url = o->conf.meta_url;
	if (strncmp(url, "sqlite:", 7) != 0 || strcmp(url, "sqlite::memory:") == 0)
		return cli_fail(CLI_USAGE, "--meta-url %s: give sqlite:PATH", url);
	o->database = url + 7;
	if (strncmp(o->database, "//", 2) == 0)
		o->database += 2;
	return CLI_OK;
}

static int shelves_open(struct offline *o)
{
	char fault[1024];
	const char *data = strchr(o->conf.storage, '@'), *wal = strchr(o->conf.wal, '@');
	if (shelf_open(o->conf.storage, &o->data, fault, sizeof(fault)) != 0)
		return cli_fail(CLI_FAILED, "--storage: %s", fault);
	/* The same place under another bucket id. */
	if (o->conf.wal[0] == '\0' || strcmp(data != NULL ? data : o->conf.storage, wal != NULL ? wal : o->conf.wal) == 0)
		return CLI_OK;
	if (shelf_open(o->conf.wal, &o->wal, fault, sizeof(fault)) != 0)
		return cli_fail(CLI_FAILED, "--wal: %s", fault);
	return CLI_OK;
}

int offline_open(struct offline *o, int argc, char **argv)
{
	*o = (struct offline){ .lock_fd = -1 };
	conf_init(&o->conf);
	int code = conf_take(o, argc, argv);
	if (code == CLI_OK)
		code = database_find(o);
	if (code == CLI_OK)
		code = shelves_open(o);
	return code;
}

int offline_lock(struct offline *o)
{
	char path[4200];
	snprintf(path, sizeof(path), "%s/lock", o->conf.data_dir);
	o->lock_fd = open(path, O_RDWR | O_CLOEXEC);
	if (o->lock_fd < 0)
		return errno == ENOENT ? CLI_OK : cli_fail(CLI_FAILED, "%s: %s", path, strerror(errno));
	if (flock(o->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return cli_fail(CLI_FAILED, "a node runs on %s: stop it first", o->conf.data_dir);
	return CLI_OK;
}

void offline_close(struct offline *o)
{
	shelf_free(o->data);
	shelf_free(o->wal);
	if (o->lock_fd >= 0)
		close(o->lock_fd);
	conf_done(&o->conf);
}
