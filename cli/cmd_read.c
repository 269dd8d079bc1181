/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico read` and `pico tail`: pages of JSON records, printed as "POS<tab>text" or, with --json, one object a line.
 * Of a stream with several partitions all are shown, as "PARTITION:POS<tab>text", unless one is named.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/cli.h"
#include "common/json_scan.h"

#define PARTITIONS_MAX 1024
#define PAGE_BYTES (1u << 20)
#define TEXT_MAX (64u << 20)

struct reading {
	struct cli *cli;
	const char *stream;
	char *path;
	uint32_t n_partitions;          /* shown */
	uint32_t first;                 /* the only one, or 0 */
	bool prefixed;                  /* print PARTITION: */
	bool named;                     /* ?partition= is sent */
	bool follow;
	struct {
		char pos[32];           /* where the next page begins */
		bool closed;
	} at[PARTITIONS_MAX];
};

/* The text of a string span, or <N bytes> for what is not UTF-8 text. */
static void print_body(struct slice span, bool base64)
{
	struct buf text, raw;
	buf_init(&text, TEXT_MAX);
	buf_init(&raw, TEXT_MAX);
	json_string(span, &text);
	if (base64 && base64_decode(buf_slice(&text), &raw) == 0)
		printf("<%zu bytes>", buf_len(&raw));
	else
		fwrite(buf_head(&text), 1, buf_len(&text), stdout);
	buf_done(&text);
	buf_done(&raw);
}

static void print_record(const struct reading *r, uint32_t partition, struct slice object)
{
	struct json_scan j;
	struct slice seq = slice_of("", 0), body = slice_of(NULL, 0);
	bool base64 = false;
	if (r->cli->json) {
		if (r->prefixed)
			printf("{\"partition\":%u,%.*s\n", partition, (int)object.n - 1, (const char *)object.p + 1);
		else
			printf("%.*s\n", (int)object.n, (const char *)object.p);
		return;
	}
	json_scan_init(&j, object);
	json_next(&j);
	while (json_next(&j) == JSON_KEY) {
		struct slice key = j.span;
		bool is_string = json_skip(&j) == JSON_STRING;
		if (json_string_is(key, "seq"))
			seq = j.span;
		base64 |= is_string && json_string_is(key, "body_b64");
		if (is_string && (json_string_is(key, "body") || json_string_is(key, "body_b64")))
			body = j.span;
	}
	if (r->prefixed)
		printf("%u:", partition);
	printf("%.*s\t", (int)seq.n, (const char *)seq.p);
	if (body.p != NULL)
		print_body(body, base64);
	putchar('\n');
}

static int print_page(const struct reading *r, uint32_t partition, const struct cli_response *response)
{
	struct json_scan j;
	json_scan_init(&j, buf_slice(&response->body));
	if (json_next(&j) != JSON_ARRAY)
		return cli_fail(CLI_FAILED, "%s: the answer is no JSON array", r->stream);
	while (json_skip(&j) == JSON_OBJECT)
		print_record(r, partition, j.span);
	return CLI_OK;
}

/* One page. ret_more: the end was not reached. */
static int read_page(struct reading *r, uint32_t i, bool wait, bool *ret_more)
{
	char *url;
	char named[32] = "";
	struct cli_response response;
	int code = CLI_OK;
	if (r->named)
		snprintf(named, sizeof(named), "&partition=%u", r->first + i);
	if (asprintf(&url, "%s?seq=%s&bytes=%u%s%s", r->path, r->at[i].pos, PAGE_BYTES, named,
		     wait ? "&live=long-poll" : "") < 0)
		abort();
	cli_request(r->cli, "GET", url, NULL, slice_of(NULL, 0), 0, &response);
	free(url);
	if (response.status == 200)
		code = print_page(r, r->first + i, &response);
	else if (response.status != 204)
		code = cli_response_fail(r->cli, &response, r->stream);
	const char *next = cli_header(&response, "pico-next-seq");
	if (code == CLI_OK && next != NULL)
		snprintf(r->at[i].pos, sizeof(r->at[i].pos), "%s", next);
	r->at[i].closed = cli_header_is_true(&response, "pico-closed");
	*ret_more = !cli_header_is_true(&response, "pico-up-to-date");
	cli_response_done(&response);
	return code;
}

static int read_to_end(struct reading *r, uint32_t i)
{
	bool more = true;
	int code = CLI_OK;
	while (code == CLI_OK && more)
		code = read_page(r, i, false, &more);
	fflush(stdout);
	return code;
}

/* One partition is a long poll; several are looked at in turn, five times a second. */
static int follow(struct reading *r)
{
	const struct timespec pause = { .tv_nsec = 200 * 1000 * 1000 };
	for (;;) {
		bool open = false, more;
		for (uint32_t i = 0; i < r->n_partitions; i++) {
			if (r->at[i].closed)
				continue;
			int code = r->n_partitions == 1 ? read_page(r, i, true, &more) : read_to_end(r, i);
			if (code != CLI_OK)
				return code;
			fflush(stdout);
			open |= !r->at[i].closed;
		}
		if (!open)
			return CLI_OK;
		if (r->n_partitions > 1)
			nanosleep(&pause, NULL);
	}
}

/* Finds out how many partitions there are, unless one was named. */
static int read_set_up(struct reading *r, const char *partition, const char *from)
{
	uint64_t number = 1;
	struct cli_response response;
	r->n_partitions = 1;
	r->named = partition != NULL;
	int code = CLI_OK;
	if (r->named) {
		code = cli_number("--partition", partition, &number);
		r->first = (uint32_t)number;
	} else {
		cli_request(r->cli, "HEAD", r->path, NULL, slice_of(NULL, 0), 0, &response);
		const char *n = cli_header(&response, "pico-partitions");
		if (response.status != 200)
			code = cli_response_fail(r->cli, &response, r->stream);
		else if (n != NULL)
			code = cli_number("Pico-Partitions", n, &number);
		cli_response_done(&response);
		r->n_partitions = number < PARTITIONS_MAX ? (uint32_t)number : PARTITIONS_MAX;
		r->prefixed = r->named = r->n_partitions > 1;
	}
	for (uint32_t i = 0; i < r->n_partitions; i++)
		snprintf(r->at[i].pos, sizeof(r->at[i].pos), "%s", from);
	return code;
}

static int read_all(struct cli *cli, const char *stream, const char *partition, const char *from, bool follow_on)
{
	struct reading *r = calloc(1, sizeof(*r));
	if (r == NULL)
		abort();
	r->cli = cli;
	r->stream = stream;
	int code = cli_stream_path(cli, stream, &r->path);
	if (code == CLI_OK)
		code = read_set_up(r, partition, from);
	for (uint32_t i = 0; code == CLI_OK && i < r->n_partitions; i++)
		code = read_to_end(r, i);
	if (code == CLI_OK && follow_on)
		code = follow(r);
	free(r->path);
	free(r);
	return code;
}

int cmd_read(struct cli *cli, int argc, char **argv)
{
	const char *stream, *from = "-1", *partition = NULL;
	const struct cli_option options[] = { { "--from", &from, NULL }, { "--partition", &partition, NULL }, { 0 } };
	int code = cli_parse(argc, argv, options, &stream);
	if (code == 0 && strcmp(from, "-1") != 0 && (from[0] == '\0' || strspn(from, "0123456789") != strlen(from)))
		code = cli_fail(CLI_USAGE, "--from takes a position, not \"%s\"", from);
	return code != 0 ? code : read_all(cli, stream, partition, from, false);
}

int cmd_tail(struct cli *cli, int argc, char **argv)
{
	const char *stream, *partition = NULL;
	bool follow_on = false;
	const struct cli_option options[] = {
		{ "-f", NULL, &follow_on }, { "--follow", NULL, &follow_on }, { "--partition", &partition, NULL }, { 0 }
	};
	int code = cli_parse(argc, argv, options, &stream);
	return code != 0 ? code : read_all(cli, stream, partition, "now", follow_on);
}
