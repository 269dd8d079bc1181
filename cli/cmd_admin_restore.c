/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico admin restore-metadata`: a database for a node that lost its own, from what stands in the object store.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/admin.h"
#include "cli/offline.h"
#include "common/json_scan.h"
#include "storaged/offline/restore.h"

#define EXPORT_MAX ((size_t)4 << 30)

/* A backup: the file, or `metadata` in the directory. */
static int read_backup(const char *path, struct slice *ret)
{
	char inside[4200];
	struct stat st;
	snprintf(inside, sizeof(inside), "%s/metadata", path);
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		path = inside;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || (size_t)st.st_size > EXPORT_MAX) {
		int err = fd < 0 ? errno : EFBIG;
		if (fd >= 0)
			close(fd);
		return cli_fail(CLI_FAILED, "--from %s: %s", path, strerror(err));
	}
	size_t n = (size_t)st.st_size, at = 0;
	uint8_t *bytes = malloc(n + 1);
	while (bytes != NULL && at < n) {
		ssize_t got = read(fd, bytes + at, n - at);
		if (got <= 0)
			break;
		at += (size_t)got;
	}
	close(fd);
	*ret = slice_of(bytes, at);
	return bytes != NULL && at == n ? CLI_OK : cli_fail(CLI_FAILED, "--from %s: cannot be read", path);
}

static void print_report(const struct cli *cli, const struct offline *o, struct restored *r)
{
	struct slice text = buf_slice(&r->report);
	struct buf out;
	if (!cli->json) {
		printf("%.*srow %llu of a new command log, written to %s\n", (int)text.n, (const char *)text.p,
		       (unsigned long long)r->row.idx, o->database);
		return;
	}
	buf_init(&out, 2 * text.n + 65536);
	buf_printf(&out, "{\"idx\":%llu,\"database\":", (unsigned long long)r->row.idx);
	json_put_string(&out, slice_str(o->database));
	buf_put_str(&out, ",\"report\":[");
	for (size_t at = 0, n; at < text.n; at += n + 1) {
		const uint8_t *end = memchr(text.p + at, '\n', text.n - at);
		n = (end == NULL ? text.n : (size_t)(end - text.p)) - at;
		buf_put_str(&out, at > 0 ? "," : "");
		json_put_string(&out, slice_of(text.p + at, n));
	}
	buf_put_str(&out, "]}");
	printf("%.*s\n", (int)buf_len(&out), (const char *)buf_head(&out));
	buf_done(&out);
}

static int restore_all(const struct cli *cli, struct offline *o, struct slice export)
{
	struct restored r;
	int rc = restore(o->data, o->wal, export, &r);
	if (rc == 0)
		rc = restored_write(&r, o->database);
	if (rc == 0)
		print_report(cli, o, &r);
	else
		cli_fail(CLI_FAILED, "%s", r.fault);
	restored_done(&r);
	return rc == 0 ? CLI_OK : CLI_FAILED;
}

int admin_restore(struct cli *cli, int argc, char **argv)
{
	const char *from = NULL;
	struct slice export = { 0 };
	struct offline o;
	int code = offline_take("--from", &argc, argv, &from);
	if (code != CLI_OK)
		return code;
	code = offline_open(&o, argc, argv);
	if (code == CLI_OK)
		code = offline_lock(&o);
	if (code == CLI_OK && from != NULL)
		code = read_backup(from, &export);
	if (code == CLI_OK)
		code = restore_all(cli, &o, export);
	free((void *)export.p);
	offline_close(&o);
	return code;
}
