/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico fsck`: what is wrong in a node's stores, one line or JSON object a finding.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/offline.h"
#include "common/json_scan.h"
#include "storaged/offline/fsck.h"

static const char *const severity_name[] = { "note", "warning", "error" };

struct progress {
	struct timespec began, shown;
	bool any;
};

static double seconds(const struct timespec *a, const struct timespec *b)
{
	return (double)(b->tv_sec - a->tv_sec) + (double)(b->tv_nsec - a->tv_nsec) / 1e9;
}

/* One line on a terminal, some times a second. */
static void on_progress(void *arg, uint64_t done, uint64_t all)
{
	struct progress *p = arg;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (p->any && seconds(&p->shown, &now) < 0.3)
		return;
	double passed = seconds(&p->began, &now), rate = passed > 0 ? (double)done / passed : 0;
	double left = rate > 0 && all > done ? (double)(all - done) / rate : 0;
	fprintf(stderr, "\r%.1f of %.1f MiB, %.1f MiB/s, %.0f s left   ", (double)done / 1048576, (double)all / 1048576,
		rate / 1048576, left);
	p->shown = now;
	p->any = true;
}

static void print_json(const struct fsck *f)
{
	struct buf out;
	buf_init(&out, (size_t)1 << 30);
	buf_put_str(&out, "{\"source\":");
	json_put_string(&out, slice_str(f->source));
	buf_printf(&out, ",\"data_objects\":%zu,\"wal_objects\":%zu,\"exports\":%zu,\"bytes\":%llu,\"errors\":%zu,\"warnings\":%zu,"
		   "\"notes\":%zu,\"findings\":[", f->n_data, f->n_wal, f->n_exports, (unsigned long long)f->bytes,
		   f->n_severity[FSCK_ERROR], f->n_severity[FSCK_WARNING], f->n_severity[FSCK_NOTE]);
	for (size_t i = 0; i < f->n_findings; i++) {
		const struct fsck_finding *x = &f->finding[i];
		buf_printf(&out, "%s{\"severity\":\"%s\",\"kind\":\"%s\",\"key\":", i > 0 ? "," : "", severity_name[x->severity],
			   x->kind);
		json_put_string(&out, slice_str(x->key));
		buf_put_str(&out, ",\"text\":");
		json_put_string(&out, slice_str(x->text));
		buf_put_str(&out, "}");
	}
	buf_put_str(&out, "]}");
	printf("%.*s\n", (int)buf_len(&out), (const char *)buf_head(&out));
	buf_done(&out);
}

static void print_text(const struct fsck *f)
{
	for (size_t i = 0; i < f->n_findings; i++) {
		const struct fsck_finding *x = &f->finding[i];
		printf("%s %s %s%s%s\n", severity_name[x->severity], x->kind, x->key, x->key[0] != '\0' ? ": " : "", x->text);
	}
	printf("%zu errors, %zu warnings, %zu notes; %zu data objects, %zu WAL objects, %zu exports, %.1f MiB against the %s\n",
	       f->n_severity[FSCK_ERROR], f->n_severity[FSCK_WARNING], f->n_severity[FSCK_NOTE], f->n_data, f->n_wal, f->n_exports,
	       (double)f->bytes / 1048576, f->source);
}

static int check(const struct cli *cli, struct offline *o)
{
	struct progress progress = { .any = false };
	struct fsck_options options = { .data = o->data, .wal = o->wal, .database = o->database };
	struct fsck f;
	clock_gettime(CLOCK_MONOTONIC, &progress.began);
	if (isatty(STDERR_FILENO)) {
		options.on_progress = on_progress;
		options.arg = &progress;
	}
	int rc = fsck(&options, &f);
	if (progress.any)
		fputs("\r                                                            \r", stderr);
	if (rc == 0 && cli->json)
		print_json(&f);
	else if (rc == 0)
		print_text(&f);
	int code = rc != 0 ? cli_fail(CLI_FAILED, "%s", f.fault) : f.n_severity[FSCK_ERROR] > 0 ? CLI_FOUND : CLI_OK;
	fsck_done(&f);
	return code;
}

int cmd_fsck(struct cli *cli, int argc, char **argv)
{
	struct offline o;
	int code = offline_open(&o, argc, argv);
	if (code == CLI_OK)
		code = check(cli, &o);
	offline_close(&o);
	return code;
}
