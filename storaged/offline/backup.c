/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "storaged/offline/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/crc32c.h"
#include "common/must.h"
#include "storaged/meta/export_format.h"
#include "storaged/meta/snapshot.h"
#include "storaged/offline/db_read.h"

#define STEP 1024

static int fail(struct backup *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct backup *b, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(b->fault, sizeof(b->fault), fmt, args);
	va_end(args);
	return -1;
}

/* --------------------------------------------------------------------- bytes */

struct writing {
	struct buf bytes;
	uint64_t n;
};

static void on_entity(void *arg, const struct sql_entity *e)
{
	struct writing *w = arg;
	uint8_t *p = e->payload.p == NULL ? NULL : buf_reserve(&w->bytes, export_entity_size(e));
	if (p == NULL)
		return;
	export_entity_encode(p, e);
	buf_commit(&w->bytes, export_entity_size(e));
	w->n++;
}

static void encode(struct state *s, struct writing *w)
{
	uint8_t *p = buf_reserve(&w->bytes, EXPORT_HEADER);
	must(p != NULL);
	buf_commit(&w->bytes, EXPORT_HEADER);
	state_snapshot_begin(s, 0, on_entity, w);
	while (state_snapshot_step(s, STEP))
		;
	state_snapshot_end(s);
	struct slice all = buf_slice(&w->bytes);
	struct export_header h = { .idx = state_idx(s), .n_entities = w->n, .body_len = all.n - EXPORT_HEADER };
	memcpy(h.uuid, state_cluster_uuid(s), 16);
	h.body_crc = crc32c(all.p + EXPORT_HEADER, all.n - EXPORT_HEADER);
	export_header_encode(buf_head(&w->bytes), &h);
}

/* ---------------------------------------------------------------------- file */

static int write_all(int fd, struct slice s)
{
	while (s.n > 0) {
		ssize_t n = write(fd, s.p, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		s = slice_of(s.p + n, s.n - (size_t)n);
	}
	return fsync(fd) == 0 ? 0 : -errno;
}

/* Under its name when it is whole; the one before stays until then. */
static int file_write(const char *directory, struct slice bytes)
{
	if (mkdir(directory, 0700) != 0 && errno != EEXIST)
		return -errno;
	int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	int fd = openat(dir, BACKUP_FILE ".tmp", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int err = fd < 0 ? -errno : write_all(fd, bytes);
	if (fd >= 0)
		close(fd);
	if (err == 0 && renameat(dir, BACKUP_FILE ".tmp", dir, BACKUP_FILE) != 0)
		err = -errno;
	if (err == 0 && fsync(dir) != 0)
		err = -errno;
	close(dir);
	return err;
}

/* ----------------------------------------------------------------------- all */

static int check_cluster(struct shelf *data, const struct state *s, struct backup *b)
{
	struct slice bytes;
	if (shelf_get(data, "cluster", 0, 0, &bytes) != 0)
		return fail(b, "%s", data->fault);
	Meta__ClusterObject *o = meta__cluster_object__unpack(NULL, bytes.n, bytes.p);
	free((void *)bytes.p);
	bool same = o != NULL && o->uuid.len == 16 && memcmp(o->uuid.data, state_cluster_uuid(s), 16) == 0;
	if (o != NULL)
		meta__cluster_object__free_unpacked(o, NULL);
	return same ? 0 : fail(b, "the database is of another cluster than %s: a backup of it would be of no use", data->url);
}

int backup(struct shelf *data, const char *database, const char *directory, struct backup *ret)
{
	struct state *s = NULL;
	struct writing w = { .n = 0 };
	*ret = (struct backup){ .idx = 0 };
	if (db_read(database, &s, ret->fault, sizeof(ret->fault)) != 0)
		return -1;
	buf_init(&w.bytes, SIZE_MAX / 4);
	int rc = check_cluster(data, s, ret);
	if (rc == 0) {
		encode(s, &w);
		int err = w.bytes.failed ? -ENOMEM : file_write(directory, buf_slice(&w.bytes));
		if (err != 0)
			rc = fail(ret, "%s: %s", directory, strerror(-err));
	}
	ret->idx = state_idx(s);
	ret->bytes = buf_len(&w.bytes);
	ret->n_topics = state_n_topics(s);
	ret->n_objects = catalogue_count(state_catalogue(s));
	buf_done(&w.bytes);
	state_free(s);
	return rc;
}
