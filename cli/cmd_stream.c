/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands about a stream as a whole: create, head, close, trim, delete, and the list of all.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "common/json_scan.h"

struct stream_request {
	const char *method, *stream, *partition;        /* partition NULL: none is named */
	const char *header[2];                          /* NULL at the end */
};

/* One request about one stream that is there. The caller ends with cli_response_done(). CLI_OK or told. */
static int stream_request(struct cli *cli, const struct stream_request *q, struct cli_response *r)
{
	char *path, *query = NULL;
	uint64_t number;
	*r = (struct cli_response){ 0 };
	int code = q->partition != NULL ? cli_number("--partition", q->partition, &number) : CLI_OK;
	if (code == CLI_OK)
		code = cli_stream_path(cli, q->stream, &path);
	if (code != CLI_OK)
		return code;
	if (q->partition != NULL && asprintf(&query, "%s?partition=%" PRIu64, path, number) < 0)
		abort();
	cli_request(cli, q->method, query != NULL ? query : path, q->header, slice_of(NULL, 0), 0, r);
	free(path);
	free(query);
	return CLI_OK;
}

static bool is_2xx(const struct cli_response *r)
{
	return r->status >= 200 && r->status < 300;
}

/* The path of a stream to be made. A name that other commands take for the Kafka name of a stream elsewhere is refused: what is
 * appended to it next would not go where it was created. */
static int create_path(struct cli *cli, const char *stream, char **ret_path)
{
	char *known;
	int code = cli_new_stream_path(stream, ret_path);
	if (code != CLI_OK || stream[0] == '/')
		return code;
	code = cli_stream_path(cli, stream, &known);
	if (code == CLI_OK) {
		if (strcmp(known, *ret_path) != 0)
			code = cli_fail(CLI_FAILED, "%s is the Kafka name of %s; for a stream of its own write %s", stream, known,
					*ret_path);
		free(known);
	}
	if (code != CLI_OK)
		free(*ret_path);
	return code;
}

static void create_tell(const struct cli_response *r)
{
	fprintf(stderr, "created=%s\n", r->status == 201 ? "true" : "false");
	if (r->status == 201 && cli_header(r, "pico-kafka-topic") == NULL)
		fprintf(stderr, "Kafka clients do not see it: its name there is another stream's, or none that Kafka allows\n");
}

/* What create says in headers of its own: each an option with a value. */
enum { SET_TYPE, SET_PARTITIONS, SET_TTL, SET_EXPIRES, SET_RETENTION_MS, SET_RETENTION_BYTES, N_SET };

static const struct {
	const char *option, *header;
	bool is_number;
} settings[N_SET] = {
	[SET_TYPE] = { "--content-type", "Content-Type", false },
	[SET_PARTITIONS] = { "--partitions", "Pico-Partitions", true },
	[SET_TTL] = { "--ttl", "Pico-TTL", true },
	[SET_EXPIRES] = { "--expires-at", "Pico-Expires-At", false },
	[SET_RETENTION_MS] = { "--retention-ms", "Pico-Retention-Ms", true },
	[SET_RETENTION_BYTES] = { "--retention-bytes", "Pico-Retention-Bytes", true },
};

struct set_headers {
	char text[N_SET][600];
	const char *header[N_SET + 1];
};

/* CLI_OK, or told. */
static int set_headers(const char *const value[N_SET], struct set_headers *ret)
{
	size_t n = 0;
	uint64_t number;
	for (size_t i = 0; i < N_SET; i++) {
		if (value[i] == NULL)
			continue;
		bool keeps_all = (i == SET_RETENTION_MS || i == SET_RETENTION_BYTES) && strcmp(value[i], "-1") == 0;
		if (settings[i].is_number && !keeps_all && cli_number(settings[i].option, value[i], &number) != CLI_OK)
			return CLI_USAGE;
		if (snprintf(ret->text[n], sizeof(ret->text[n]), "%s: %s", settings[i].header, value[i]) >= (int)sizeof(ret->text[n]))
			return cli_fail(CLI_USAGE, "%s is too long", settings[i].option);
		ret->header[n] = ret->text[n];
		n++;
	}
	ret->header[n] = NULL;
	return CLI_OK;
}

int cmd_create(struct cli *cli, int argc, char **argv)
{
	const char *stream, *value[N_SET] = { [SET_TYPE] = "application/octet-stream" };
	struct cli_option options[N_SET + 1] = { 0 };
	struct set_headers headers;
	struct cli_response r;
	char *path;
	for (size_t i = 0; i < N_SET; i++)
		options[i] = (struct cli_option){ settings[i].option, &value[i], NULL };
	int code = cli_parse(argc, argv, options, &stream);
	if (code == CLI_OK)
		code = set_headers(value, &headers);
	if (code == CLI_OK)
		code = create_path(cli, stream, &path);
	if (code != CLI_OK)
		return code;
	cli_request(cli, "PUT", path, headers.header, slice_of(NULL, 0), 0, &r);
	free(path);
	if (!is_2xx(&r))
		code = cli_response_fail(cli, &r, stream);
	else
		create_tell(&r);
	cli_response_done(&r);
	return code;
}

static const char *or_dash(const char *s)
{
	return s != NULL ? s : "-";
}

/* Those that are set, and the end of the line. */
static void print_settings(const struct cli_response *r)
{
	static const char *const shown[][2] = {
		{ "pico-partitions", "partitions" }, { "pico-ttl", "ttl" }, { "pico-expires-at", "expires_at" },
		{ "pico-retention-ms", "retention_ms" }, { "pico-retention-bytes", "retention_bytes" },
	};
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (cli_header(r, shown[i][0]) != NULL)
			printf(" %s=%s", shown[i][1], cli_header(r, shown[i][0]));
	putchar('\n');
}

int cmd_head(struct cli *cli, int argc, char **argv)
{
	const char *stream;
	struct cli_response r;
	int code = cli_parse(argc, argv, (const struct cli_option[]){ { 0 } }, &stream);
	if (code != 0)
		return code;
	code = stream_request(cli, &(struct stream_request){ .method = "HEAD", .stream = stream }, &r);
	if (code == 0 && !is_2xx(&r)) {
		code = cli_response_fail(cli, &r, stream);
	} else if (code == 0) {
		printf("start=%s next=%s closed=%s type=%s", or_dash(cli_header(&r, "pico-start-seq")),
		       or_dash(cli_header(&r, "pico-next-seq")), cli_header_is_true(&r, "pico-closed") ? "true" : "false",
		       or_dash(cli_header(&r, "content-type")));
		print_settings(&r);
	}
	cli_response_done(&r);
	return code;
}

int cmd_close(struct cli *cli, int argc, char **argv)
{
	const char *stream;
	int code = cli_parse(argc, argv, (const struct cli_option[]){ { 0 } }, &stream);
	if (code != 0)
		return code;
	struct cli_response r;
	code = stream_request(cli, &(struct stream_request){ "POST", stream, NULL, { "Pico-Closed: true", NULL } }, &r);
	if (code == 0 && !is_2xx(&r))
		code = cli_response_fail(cli, &r, stream);
	else if (code == 0)
		fprintf(stderr, "closed next=%s\n", or_dash(cli_header(&r, "pico-next-seq")));
	cli_response_done(&r);
	return code;
}

int cmd_delete(struct cli *cli, int argc, char **argv)
{
	const char *stream;
	int code = cli_parse(argc, argv, (const struct cli_option[]){ { 0 } }, &stream);
	if (code != 0)
		return code;
	struct cli_response r;
	code = stream_request(cli, &(struct stream_request){ .method = "DELETE", .stream = stream }, &r);
	if (code == 0 && !is_2xx(&r) && r.status != 404)
		code = cli_response_fail(cli, &r, stream);
	else if (code == 0)
		fprintf(stderr, "deleted=%s\n", r.status == 404 ? "false" : "true");
	cli_response_done(&r);
	return code;
}

int cmd_trim(struct cli *cli, int argc, char **argv)
{
	const char *stream, *seq = NULL, *partition = NULL;
	const struct cli_option options[] = { { "--seq", &seq, NULL }, { "--partition", &partition, NULL }, { 0 } };
	char header[64];
	struct cli_response r;
	uint64_t number;
	int code = cli_parse(argc, argv, options, &stream);
	if (code == 0 && seq == NULL) {
		cli_fail(CLI_USAGE, "which records? --seq is the first one to be kept");
		code = cli_usage(argv[0]);
	}
	if (code == 0)
		code = cli_number("--seq", seq, &number);
	if (code != 0)
		return code;
	snprintf(header, sizeof(header), "Pico-Trim-Seq: %" PRIu64, number);
	code = stream_request(cli, &(struct stream_request){ "POST", stream, partition, { header, NULL } }, &r);
	if (code == 0 && !is_2xx(&r))
		code = cli_response_fail(cli, &r, stream);
	else if (code == 0)
		fprintf(stderr, "trimmed start=%s\n", or_dash(cli_header(&r, "pico-start-seq")));
	cli_response_done(&r);
	return code;
}

/* ------------------------------------------------------------------------- ls */

struct listed {
	struct buf name;                /* of the last one printed: where the next page begins */
	uint64_t n, limit;
	bool has_more;
	bool json;
};

/* One stream's object: the name decoded, numbers and flags as they stand. */
static void ls_print_stream(struct slice object, struct listed *l)
{
	static const char *const shown[][2] = {
		{ "start_seq", "start" }, { "next_seq", "next" }, { "partitions", "partitions" }, { "closed", "closed" },
		{ "ttl", "ttl" }, { "expires_at", "expires_at" },
	};
	struct json_scan j;
	struct buf rest;
	buf_init(&rest, 1u << 20);
	json_scan_init(&j, object);
	json_next(&j);
	while (json_next(&j) == JSON_KEY) {
		struct slice key = j.span;
		json_skip(&j);
		if (json_string_is(key, "name")) {
			buf_consume(&l->name, buf_len(&l->name));
			json_string(j.span, &l->name);
		}
		for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
			if (json_string_is(key, shown[i][0]) && j.span.p[0] != '[')
				buf_printf(&rest, " %s=%.*s", shown[i][1], (int)j.span.n, (const char *)j.span.p);
	}
	if (l->json)
		printf("%.*s\n", (int)object.n, (const char *)object.p);
	else
		printf("%.*s%.*s\n", (int)buf_len(&l->name), (char *)buf_head(&l->name), (int)buf_len(&rest),
		       (char *)buf_head(&rest));
	buf_done(&rest);
}

static void ls_print_streams(struct json_scan *j, struct listed *l)
{
	if (json_next(j) != JSON_ARRAY)
		return;
	for (; json_skip(j) == JSON_OBJECT; l->n++)
		ls_print_stream(j->span, l);
}

static void ls_page(struct slice body, struct listed *l)
{
	struct json_scan j;
	json_scan_init(&j, body);
	l->has_more = false;
	if (json_next(&j) != JSON_OBJECT)
		return;
	while (json_next(&j) == JSON_KEY) {
		if (json_string_is(j.span, "streams"))
			ls_print_streams(&j, l);
		else if (json_string_is(j.span, "has_more"))
			l->has_more = json_skip(&j) == JSON_TRUE;
		else
			json_skip(&j);
	}
}

static void put_percent(struct buf *out, struct slice s)
{
	for (size_t i = 0; i < s.n; i++) {
		uint8_t c = s.p[i];
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     c == '-' || c == '.' || c == '_' || c == '~' || c == '/';
		buf_printf(out, plain ? "%c" : "%%%02X", c);
	}
}

static int ls_pages(struct cli *cli, const char *prefix, struct listed *l)
{
	int code = 0;
	do {
		struct buf query;
		struct cli_response r;
		buf_init(&query, 8192);
		buf_put_str(&query, "/?prefix=");
		put_percent(&query, slice_str(prefix));
		buf_put_str(&query, "&start_after=");
		put_percent(&query, buf_slice(&l->name));
		buf_printf(&query, "&limit=%u%c", l->limit - l->n < 1000 ? (unsigned)(l->limit - l->n) : 1000, '\0');
		cli_request(cli, "GET", (char *)buf_head(&query), NULL, slice_of(NULL, 0), 0, &r);
		if (r.status == 200)
			ls_page(buf_slice(&r.body), l);
		else
			code = cli_response_fail(cli, &r, prefix);
		buf_done(&query);
		cli_response_done(&r);
	} while (code == 0 && l->has_more && l->n < l->limit);
	return code;
}

int cmd_ls(struct cli *cli, int argc, char **argv)
{
	const char *prefix = "/", *limit = "0";
	const struct cli_option options[] = { { "--prefix", &prefix, NULL }, { "--limit", &limit, NULL }, { 0 } };
	struct listed l = { .json = cli->json };
	int code = cli_parse(argc, argv, options, NULL);
	if (code == 0)
		code = cli_number("--limit", limit, &l.limit);
	if (code != 0)
		return code;
	if (l.limit == 0)
		l.limit = UINT64_MAX;
	char *path;
	if (asprintf(&path, "%s%s", prefix[0] == '/' ? "" : "/", prefix) < 0)
		abort();
	buf_init(&l.name, 4096);
	code = ls_pages(cli, path, &l);
	free(path);
	if (code == 0 && l.has_more)
		fprintf(stderr, "there are more; use --limit or --prefix\n");
	buf_done(&l.name);
	return code;
}
