/* SPDX-License-Identifier: Apache-2.0
 *
 * The Kafka codec on a pipe, for tests that compare it with others. Lines on standard input:
 *
 *   list                      one line a message: Name low high; ends with "."
 *   decode NAME VERSION HEX   decodes and encodes again: "HEX text", or "refused"
 *   fill NAME VERSION SEED    a random message of letters and numbers: "HEX text"
 *
 * HEX is "-" for no bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/kmsg_gen.h"
#include "common/must.h"
#include "t/lib/kmsg_fill.h"

#define LINE_MAX_HERE (1u << 20)

static struct region region;
static struct buf bytes, text;

static const struct kmsg_desc *find(const char *name)
{
	for (const struct kmsg_desc *const *d = kmsg_gen_all; *d != NULL; d++)
		if (strcmp((*d)->name, name) == 0)
			return *d;
	return NULL;
}

static void list(void)
{
	for (const struct kmsg_desc *const *d = kmsg_gen_all; *d != NULL; d++)
		printf("%s %d %d\n", (*d)->name, (*d)->low, (*d)->high);
	printf(".\n");
}

static struct slice from_hex(const char *hex)
{
	size_t n = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
	uint8_t *p = region_alloc(&region, n);
	must(p != NULL);
	for (size_t i = 0; i < n; i++) {
		unsigned byte = 0;
		must(sscanf(hex + 2 * i, "%2x", &byte) == 1);
		p[i] = (uint8_t)byte;
	}
	return slice_of(p, n);
}

static void answer(struct kmsg_form form, const void *value)
{
	must(kmsg_encode(form, value, &bytes, NULL) == 0);
	kmsg_print(form, value, &text);
	must(!text.failed);
	for (size_t i = 0; i < buf_len(&bytes); i++)
		printf("%02x", buf_head(&bytes)[i]);
	printf("%s %.*s\n", buf_len(&bytes) == 0 ? "-" : "", (int)buf_len(&text), (const char *)buf_head(&text));
}

static void run(char *line)
{
	char *save = NULL;
	const char *what = strtok_r(line, " \n", &save), *name = strtok_r(NULL, " \n", &save);
	const char *version = strtok_r(NULL, " \n", &save), *rest = strtok_r(NULL, " \n", &save);
	if (what != NULL && strcmp(what, "list") == 0) {
		list();
		return;
	}
	must(what != NULL && name != NULL && version != NULL && rest != NULL);
	struct kmsg_form form = { .desc = find(name), .version = (int16_t)atoi(version) };
	must(form.desc != NULL && kmsg_knows(form.desc, form.version));
	if (strcmp(what, "decode") == 0) {
		void *value = kmsg_new(&region, form.desc->of, 1);
		if (kmsg_decode(form, from_hex(rest), &region, value) == 0)
			answer(form, value);
		else
			printf("refused\n");
		return;
	}
	struct kmsg_fill fill = { .region = &region, .state = strtoull(rest, NULL, 10), .version = form.version,
				  .items_max = 3, .is_text = true };
	answer(form, kmsg_fill(&fill, form.desc->of));
}

int main(void)
{
	static char line[LINE_MAX_HERE];
	region_init(&region, 16u << 20);
	buf_init(&bytes, LINE_MAX_HERE);
	buf_init(&text, LINE_MAX_HERE);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		run(line);
		fflush(stdout);
		region_reset(&region);
		buf_reset(&bytes, SIZE_MAX);
		buf_reset(&text, SIZE_MAX);
	}
	region_done(&region);
	buf_done(&bytes);
	buf_done(&text);
	return 0;
}
