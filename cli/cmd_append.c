/* SPDX-License-Identifier: Apache-2.0
 *
 * `pico append`: each line of stdin is a record; up to --batch lines make one request, a binary batch, which is
 * stored as one unit:
 *
 *   version u8 = 1 | count u32 | count times: keyLen i32 (-1 none) key | headerCount u32 = 0 | bodyLen u32 body
 *
 * A request that fails ends the command: what was acknowledged before it has its line on stderr.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "common/wire.h"

#define BATCH_HEADER 5
#define REQUEST_MAX (100u << 20)
#define BATCH_MAX 100000

struct appending {
	struct cli *cli;
	const char *stream;
	char *path;                     /* with ?partition= */
	const char *key;
	struct buf body;
	uint32_t n;                     /* records in body */
};

static void put_u32(struct buf *body, uint32_t v)
{
	uint8_t bytes[4];
	put_be32(bytes, v);
	buf_put(body, bytes, sizeof(bytes));
}

static void append_record(struct appending *a, struct slice line)
{
	static const uint8_t header[BATCH_HEADER] = { 1 }; /* the count comes when it is known */
	if (a->n++ == 0)
		buf_put(&a->body, header, sizeof(header));
	put_u32(&a->body, a->key != NULL ? (uint32_t)strlen(a->key) : UINT32_MAX);
	if (a->key != NULL)
		buf_put_str(&a->body, a->key);
	put_u32(&a->body, 0);
	put_u32(&a->body, (uint32_t)line.n); /* a longer one makes the body fail */
	buf_put_slice(&a->body, line);
}

static int append_send(struct appending *a)
{
	static const char *const headers[] = { "Content-Type: application/vnd.picomq.batch", NULL };
	struct cli_response r;
	int code = CLI_OK;
	if (a->body.failed)
		return cli_fail(CLI_FAILED, "a request may have %u bytes; use a smaller --batch", REQUEST_MAX);
	put_be32(buf_head(&a->body) + 1, a->n);
	cli_request(a->cli, "POST", a->path, headers, buf_slice(&a->body), 0, &r);
	if (r.status == 200) {
		const char *start = cli_header(&r, "pico-start-seq"), *next = cli_header(&r, "pico-next-seq");
		const char *partition = cli_header(&r, "pico-partition");
		fprintf(stderr, "start=%s next=%s", start != NULL ? start : "-", next != NULL ? next : "-");
		fprintf(stderr, partition != NULL ? " partition=%s\n" : "\n", partition);
	} else {
		code = cli_response_fail(a->cli, &r, a->stream);
	}
	cli_response_done(&r);
	buf_reset(&a->body, 1u << 20);
	a->n = 0;
	return code;
}

static int append_lines(struct appending *a, uint64_t batch)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t len;
	int code = CLI_OK;
	while (code == CLI_OK && (len = getline(&line, &capacity, stdin)) >= 0) {
		if (len > 0 && line[len - 1] == '\n')
			len--;
		append_record(a, slice_of(line, (size_t)len));
		if (a->n == batch)
			code = append_send(a);
	}
	if (code == CLI_OK && ferror(stdin))
		code = cli_fail(CLI_FAILED, "cannot read stdin");
	if (code == CLI_OK && a->n > 0)
		code = append_send(a);
	free(line);
	return code;
}

int cmd_append(struct cli *cli, int argc, char **argv)
{
	const char *batch_text = "1", *partition = NULL, *type = NULL;
	uint64_t batch, number;
	struct appending a = { .cli = cli };
	const struct cli_option options[] = {
		{ "--batch", &batch_text, NULL }, { "--key", &a.key, NULL }, { "--partition", &partition, NULL },
		{ "--content-type", &type, NULL }, { 0 }
	};
	int code = cli_parse(argc, argv, options, &a.stream);
	if (code == 0)
		code = cli_number("--batch", batch_text, &batch);
	if (code == 0 && partition != NULL)
		code = cli_number("--partition", partition, &number);
	if (code != 0)
		return code;
	if (batch == 0 || batch > BATCH_MAX)
		return cli_fail(CLI_USAGE, "--batch is 1 to %d", BATCH_MAX);
	char *path;
	code = cli_stream_path(cli, a.stream, &path);
	if (code != CLI_OK)
		return code;
	if (asprintf(&a.path, partition != NULL ? "%s?partition=%s" : "%s", path, partition) < 0)
		abort();
	buf_init(&a.body, REQUEST_MAX);
	code = append_lines(&a, batch);
	buf_done(&a.body);
	free(a.path);
	free(path);
	return code;
}
