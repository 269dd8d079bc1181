/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzz target as a test for every compiler: runs it on each file of its committed corpus, and on what
 * is left of small files when they are cut at each length. The program is t/80-fuzz-replay-NAME; with
 * arguments it runs those files instead, which is how a finding is looked at. Inputs stand in memory of
 * exactly their size, so that a sanitizer sees a read past the end.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t/fuzz/fuzz.h"

#define INPUT_MAX (1u << 20)
#define CUT_MAX 1024        /* longer inputs are not cut */

static void run_one(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size > 0 ? size : 1);
	if (copy == NULL)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

/* Runs one file; false when it cannot be read. */
static bool run_file(const char *path, bool cut)
{
	static uint8_t data[INPUT_MAX];
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return false;
	size_t size = fread(data, 1, sizeof(data), f);
	fclose(f);
	printf("# %s\n", path);
	fflush(stdout); /* the last line before a crash names its input */
	run_one(data, size);
	for (size_t n = 0; cut && size <= CUT_MAX && n < size; n++)
		run_one(data, n);
	return true;
}

/* How many files of the directory were run, or -1. */
static int run_directory(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int n = 0;
	if (dir == NULL)
		return -1;
	while (n >= 0 && (entry = readdir(dir)) != NULL) {
		char file[4352];
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		n = run_file(file, true) ? n + 1 : -1;
	}
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	char corpus[4096];
	const char *src = getenv("PICO_SRC");
	bool good = true;
	for (int i = 1; i < argc; i++)
		good = run_file(argv[i], false) && good;
	if (argc > 1)
		return good ? EXIT_SUCCESS : EXIT_FAILURE;
	snprintf(corpus, sizeof(corpus), "%s/t/fuzz/corpus/%s", src != NULL ? src : ".", FUZZ_NAME);
	int n = run_directory(corpus);
	printf("%s 1 - %s replays %d inputs\n1..1\n", n > 0 ? "ok" : "not ok", FUZZ_NAME, n);
	return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
