/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of the node's admin listener, fetched page by page and printed as a table, or with --json one object a line; and
 * the subcommands that are nothing else: `pico admin objects`, `logs` and `export`.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/admin.h"
#include "common/json_scan.h"
#include "common/must.h"

#define ADMIN_DEFAULT "http://127.0.0.1:9090"
#define PAGE 1000u

static const struct admin_list objects = {
	.path = "/admin/objects", .array = "objects", .cursor = "key",
	.column = { { "key", -60 }, { "level", 5 }, { "run", 6 }, { "origin", 6 }, { "firstLog", 8 }, { "lastLog", 8 }, { "bytes", 11 },
	  { "oldestMs", 13 }, { "newestMs", 13 }, { "removedMs", 13 } },
};
static const struct admin_list logs = {
	.path = "/admin/logs", .array = "logs", .cursor = "logId",
	.column = { { "logId", 8 }, { "topic", -40 }, { "partition", 9 }, { "owner", 5 }, { "epoch", 5 }, { "start", 10 },
	  { "confirm", 10 }, { "next", 10 }, { "closed", 6 } },
};

struct printing {
	const struct admin_list *list;
	bool json, has_more, headed, quiet;
	uint64_t n;
	struct buf after;               /* the last one's cursor */
};

static void print_head(struct printing *p)
{
	for (const struct admin_column *c = p->list->column; !p->json && c->field != NULL; c++)
		printf("%s%*s", c == p->list->column ? "" : " ", c->width, c->field);
	if (!p->json)
		putchar('\n');
	p->headed = true;
}

void admin_field(struct slice object, const char *field, struct buf *out)
{
	struct json_scan j;
	buf_reset(out, 4096);
	json_scan_init(&j, object);
	json_next(&j);
	while (json_next(&j) == JSON_KEY) {
		bool wanted = json_string_is(j.span, field);
		enum json_token kind = json_skip(&j);
		if (wanted && kind == JSON_STRING)
			json_string(j.span, out);
		else if (wanted && kind != JSON_NULL)
			buf_put_slice(out, j.span);
	}
	if (buf_len(out) == 0)
		buf_put_str(out, "-");
}

static void print_one(struct printing *p, struct slice object)
{
	struct buf value;
	buf_init(&value, 65536);
	for (const struct admin_column *c = p->list->column; !p->json && c->field != NULL; c++) {
		admin_field(object, c->field, &value);
		buf_put_u8(&value, '\0');
		printf("%s%*s", c == p->list->column ? "" : " ", c->width, (const char *)buf_head(&value));
	}
	if (p->json && !p->quiet)
		printf("%.*s", (int)object.n, (const char *)object.p);
	if (!p->quiet)
		putchar('\n');
	if (p->list->cursor != NULL)
		admin_field(object, p->list->cursor, &p->after);
	buf_done(&value);
	p->n++;
}

static void print_page(struct printing *p, struct slice body)
{
	struct json_scan j;
	json_scan_init(&j, body);
	p->has_more = false;
	if (json_next(&j) != JSON_OBJECT)
		return;
	while (json_next(&j) == JSON_KEY) {
		if (json_string_is(j.span, p->list->array)) {
			json_next(&j);
			while (json_skip(&j) == JSON_OBJECT)
				print_one(p, j.span);
		} else if (json_string_is(j.span, "hasMore")) {
			p->has_more = json_skip(&j) == JSON_TRUE;
		} else {
			json_skip(&j);
		}
	}
}

void admin_print_table(const struct admin_list *list, struct slice body)
{
	struct printing p = { .list = list };
	buf_init(&p.after, 65536);
	print_head(&p);
	print_page(&p, body);
	buf_done(&p.after);
}

int admin_fail(const struct cli *cli, const struct cli_response *r)
{
	struct buf text;
	buf_init(&text, 65536);
	if (r->status == 0)
		buf_printf(&text, "%.*s; is a node running there? (--admin)", (int)buf_len(&r->body), (const char *)buf_head(&r->body));
	else
		admin_field(buf_slice(&r->body), "message", &text);
	int code = cli_fail(r->status == 404 ? CLI_NOT_FOUND : CLI_FAILED, "%s: %.*s", cli->endpoint, (int)buf_len(&text),
			    (const char *)buf_head(&text));
	buf_done(&text);
	return code;
}

int admin_take_options(struct cli *cli, int argc, char **argv, const struct cli_option *more)
{
	const char *admin = getenv("PICO_ADMIN_ENDPOINT");
	struct cli_option list[ADMIN_OPTIONS_MAX + 2] = { { "--admin", &admin, NULL } };
	static char command[] = "admin";
	argv[0] = command;      /* whose usage is told */
	for (size_t i = 0; more != NULL && more[i].name != NULL && i < ADMIN_OPTIONS_MAX; i++)
		list[i + 1] = more[i];
	int code = cli_parse(argc, argv, list, NULL);
	cli->endpoint = admin != NULL && admin[0] != '\0' ? admin : ADMIN_DEFAULT;
	return code;
}

void admin_path(struct buf *out, const char *prefix, const char *name)
{
	buf_put_str(out, prefix);
	for (const char *c = name; *c != '\0'; c++) {
		if (isalnum((unsigned char)*c) || strchr("/-._~", *c) != NULL)
			buf_put_u8(out, (uint8_t)*c);
		else
			buf_printf(out, "%%%02X", (unsigned char)*c);
	}
}

/* A path that names nothing is there on every admin listener. */
static int path_fail(const struct cli *cli, const struct cli_response *r, const char *path)
{
	bool names = strchr(path + strlen("/admin/"), '/') != NULL;
	if (r->status == 404 && !names)
		return cli_fail(CLI_FAILED, "%s: that is no admin listener (--admin)", cli->endpoint);
	return admin_fail(cli, r);
}

static void page_get(struct cli *cli, const struct printing *p, uint64_t n, struct cli_response *ret)
{
	struct buf path;
	struct slice after = buf_slice(&p->after);
	char *text = must_calloc(1, after.n + 1);
	if (after.n > 0)
		memcpy(text, after.p, after.n);
	buf_init(&path, 65536);
	buf_printf(&path, "%s?limit=%llu", p->list->path, (unsigned long long)n);
	admin_path(&path, "&start_after=", text);
	buf_put_u8(&path, '\0');
	cli_request(cli, "GET", path.failed ? "/" : (const char *)buf_head(&path), NULL, slice_of(NULL, 0), 0, ret);
	buf_done(&path);
	free(text);
}

static void print_answer(struct printing *p, struct slice body)
{
	bool whole = p->json && p->list->whole;
	if (!p->headed)
		print_head(p);
	if (whole)
		printf("%.*s", (int)body.n, (const char *)body.p);
	p->quiet = whole;
	print_page(p, body);
}

int admin_print_list(struct cli *cli, const struct admin_list *list, int argc, char **argv)
{
	struct printing p = { .list = list, .json = cli->json };
	uint64_t limit = 0;
	const char *after = "", *text = "0";
	const struct cli_option options[] = { { "--limit", &text, NULL }, { "--start-after", &after, NULL }, { 0 } };
	int code = admin_take_options(cli, argc, argv, options);
	if (code == CLI_OK)
		code = cli_number("--limit", text, &limit);
	buf_init(&p.after, 65536);
	buf_put_str(&p.after, after);
	for (bool first = true; code == CLI_OK && (first || p.has_more) && (limit == 0 || p.n < limit); first = false) {
		struct cli_response r;
		page_get(cli, &p, limit != 0 && limit - p.n < PAGE ? limit - p.n : PAGE, &r);
		if (r.status == 200)
			print_answer(&p, buf_slice(&r.body));
		else
			code = path_fail(cli, &r, list->path);
		cli_response_done(&r);
	}
	if (code == CLI_OK && p.has_more)
		fprintf(stderr, "there are more; the next page: --start-after %.*s\n", (int)buf_len(&p.after),
			(const char *)buf_head(&p.after));
	buf_done(&p.after);
	return code;
}

int admin_objects(struct cli *cli, int argc, char **argv)
{
	return admin_print_list(cli, &objects, argc, argv);
}

int admin_logs(struct cli *cli, int argc, char **argv)
{
	return admin_print_list(cli, &logs, argc, argv);
}

int admin_export(struct cli *cli, int argc, char **argv)
{
	struct cli_response r;
	struct buf key;
	int code = admin_take_options(cli, argc, argv, NULL);
	if (code != CLI_OK)
		return code;
	cli_request(cli, "POST", "/admin/export", NULL, slice_of("", 0), 310000, &r);
	buf_init(&key, 4096);
	if (r.status != 200) {
		code = path_fail(cli, &r, "/admin/export");
	} else if (cli->json) {
		printf("%.*s", (int)buf_len(&r.body), (const char *)buf_head(&r.body));
	} else {
		admin_field(buf_slice(&r.body), "key", &key);
		printf("%.*s\n", (int)buf_len(&key), (const char *)buf_head(&key));
	}
	buf_done(&key);
	cli_response_done(&r);
	return code;
}
