/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico admin backup`: a copy of the metadata to keep elsewhere (doc/backup.md).
 */
#include <stdio.h>

#include "cli/admin.h"
#include "cli/offline.h"
#include "storaged/offline/backup.h"

static int back_up(const struct cli *cli, struct offline *o, const char *directory)
{
	struct backup b;
	if (backup(o->data, o->database, directory, &b) != 0)
		return cli_fail(CLI_FAILED, "%s", b.fault);
	if (cli->json)
		printf("{\"idx\":%llu,\"bytes\":%llu,\"topics\":%zu,\"objects\":%zu}\n", (unsigned long long)b.idx,
		       (unsigned long long)b.bytes, b.n_topics, b.n_objects);
	else
		printf("%s/" BACKUP_FILE ": row %llu, %zu topics, %zu data objects, %llu bytes. It goes with the storage %s\n", directory,
		       (unsigned long long)b.idx, b.n_topics, b.n_objects, (unsigned long long)b.bytes, o->data->url);
	return CLI_OK;
}

int admin_backup(struct cli *cli, int argc, char **argv)
{
	const char *directory = NULL;
	struct offline o;
	if (offline_take_argument(&argc, argv, &directory) != CLI_OK) {
		cli_fail(CLI_USAGE, "to which directory?");
		return cli_usage("admin");
	}
	int code = offline_open(&o, argc, argv);
	if (code == CLI_OK)
		code = back_up(cli, &o, directory);
	offline_close(&o);
	return code;
}
