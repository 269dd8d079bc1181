/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico admin objects`, `logs` and `export`: what the node's admin listener says. Lists are fetched page by page and printed
 * as a table, or with --json one object a line.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/admin.h"
#include "common/json_scan.h"

#define ADMIN_DEFAULT "http://127.0.0.1:9090"
#define COLUMNS_MAX 12
#define PAGE 1000u

struct column {
	const char *field;              /* of the JSON */
	int width;                      /* negative: to the left */
};

/* A list that the admin listener gives. */
struct listing {
	const char *path, *array;       /* where; the array's field */
	const char *cursor;             /* the field that start_after takes */
	struct column column[COLUMNS_MAX];
};

static const struct listing objects = {
	"/admin/objects", "objects", "key",
	{ { "key", -60 }, { "level", 5 }, { "run", 6 }, { "origin", 6 }, { "firstLog", 8 }, { "lastLog", 8 }, { "bytes", 11 },
	  { "oldestMs", 13 }, { "newestMs", 13 }, { "removedMs", 13 } },
};
static const struct listing logs = {
	"/admin/logs", "logs", "logId",
	{ { "logId", 8 }, { "topic", -40 }, { "partition", 9 }, { "owner", 5 }, { "epoch", 5 }, { "start", 10 },
	  { "confirm", 10 }, { "next", 10 }, { "closed", 6 } },
};

struct printing {
	const struct listing *list;
	bool json, has_more, headed;
	uint64_t n;
	struct buf after;               /* the last one's cursor */
};

static void print_head(struct printing *p)
{
	for (const struct column *c = p->list->column; !p->json && c->field != NULL; c++)
		printf("%s%*s", c == p->list->column ? "" : " ", c->width, c->field);
	if (!p->json)
		putchar('\n');
	p->headed = true;
}

/* The value of a field as text, without quotes; "-" where it is absent. */
static void find(struct slice object, const char *field, struct buf *out)
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
		else if (wanted)
			buf_put_slice(out, j.span);
	}
	if (buf_len(out) == 0)
		buf_put_str(out, "-");
}

static void print_one(struct printing *p, struct slice object)
{
	struct buf value;
	buf_init(&value, 65536);
	for (const struct column *c = p->list->column; !p->json && c->field != NULL; c++) {
		find(object, c->field, &value);
		buf_put_u8(&value, '\0');
		printf("%s%*s", c == p->list->column ? "" : " ", c->width, (const char *)buf_head(&value));
	}
	if (p->json)
		printf("%.*s", (int)object.n, (const char *)object.p);
	putchar('\n');
	find(object, p->list->cursor, &p->after);
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

static int fail(const struct cli *cli, const struct cli_response *r)
{
	struct buf text;
	buf_init(&text, 65536);
	if (r->status == 0)
		buf_printf(&text, "%.*s; is a node running there? (--admin)", (int)buf_len(&r->body), (const char *)buf_head(&r->body));
	else
		find(buf_slice(&r->body), "message", &text);
	int code = cli_fail(CLI_FAILED, "%s: %.*s", cli->endpoint, (int)buf_len(&text), (const char *)buf_head(&text));
	buf_done(&text);
	return code;
}

/* --admin instead of the stream listener. */
static int take_options(struct cli *cli, int argc, char **argv, uint64_t *ret_limit, const char **ret_after)
{
	const char *admin = getenv("PICO_ADMIN_ENDPOINT"), *limit = "0";
	const struct cli_option list[] = {
		{ "--admin", &admin, NULL }, { "--limit", &limit, NULL }, { "--start-after", ret_after, NULL }, { 0 }
	};
	const struct cli_option alone[] = { list[0], { 0 } };
	static char command[] = "admin";
	argv[0] = command;      /* whose usage is told */
	int code = cli_parse(argc, argv, ret_limit != NULL ? list : alone, NULL);
	if (code == 0 && ret_limit != NULL)
		code = cli_number("--limit", limit, ret_limit);
	cli->endpoint = admin != NULL && admin[0] != '\0' ? admin : ADMIN_DEFAULT;
	return code;
}

static int print_list(struct cli *cli, const struct listing *list, int argc, char **argv)
{
	struct printing p = { .list = list, .json = cli->json };
	uint64_t limit = 0;
	const char *after = "";
	int code = take_options(cli, argc, argv, &limit, &after);
	buf_init(&p.after, 65536);
	buf_put_str(&p.after, after);
	for (bool first = true; code == CLI_OK && (first || p.has_more) && (limit == 0 || p.n < limit); first = false) {
		char path[1024];
		struct cli_response r;
		uint64_t page = limit != 0 && limit - p.n < PAGE ? limit - p.n : PAGE;
		snprintf(path, sizeof(path), "%s?limit=%llu&start_after=%.*s", list->path, (unsigned long long)page,
			 (int)buf_len(&p.after), (const char *)buf_head(&p.after));
		cli_request(cli, "GET", path, NULL, slice_of(NULL, 0), 0, &r);
		if (r.status == 200 && !p.headed)
			print_head(&p);
		if (r.status == 200)
			print_page(&p, buf_slice(&r.body));
		else
			code = fail(cli, &r);
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
	return print_list(cli, &objects, argc, argv);
}

int admin_logs(struct cli *cli, int argc, char **argv)
{
	return print_list(cli, &logs, argc, argv);
}

int admin_export(struct cli *cli, int argc, char **argv)
{
	struct cli_response r;
	struct buf key;
	int code = take_options(cli, argc, argv, NULL, NULL);
	if (code != CLI_OK)
		return code;
	cli_request(cli, "POST", "/admin/export", NULL, slice_of("", 0), 310000, &r);
	buf_init(&key, 4096);
	if (r.status != 200) {
		code = fail(cli, &r);
	} else if (cli->json) {
		printf("%.*s", (int)buf_len(&r.body), (const char *)buf_head(&r.body));
	} else {
		find(buf_slice(&r.body), "key", &key);
		printf("%.*s\n", (int)buf_len(&key), (const char *)buf_head(&key));
	}
	buf_done(&key);
	cli_response_done(&r);
	return code;
}
