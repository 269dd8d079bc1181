/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: form of a line in text and JSON, levels, one event a line whatever it holds, counting of repeats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/log.h"

static uint64_t clock_ms;
static uint64_t test_clock(void)
{
	return clock_ms;
}

static int stderr_saved = -1, capture_fd = -1;
static char captured[65536];

static void capture(void)
{
	stderr_saved = dup(STDERR_FILENO);
	capture_fd = memfd_create("log", 0);
	assert_true(stderr_saved >= 0 && capture_fd >= 0);
	dup2(capture_fd, STDERR_FILENO);
}

static const char *release(void)
{
	dup2(stderr_saved, STDERR_FILENO);
	close(stderr_saved);
	ssize_t n = pread(capture_fd, captured, sizeof(captured) - 1, 0);
	close(capture_fd);
	assert_true(n >= 0);
	captured[n] = '\0';
	return captured;
}

static unsigned n_lines(const char *s)
{
	unsigned n = 0;
	for (; *s != '\0'; s++)
		n += *s == '\n';
	return n;
}

static void assert_matches(const char *s, const char *pattern)
{
	regex_t re;
	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	int err = regexec(&re, s, 0, NULL, 0);
	regfree(&re);
	if (err != 0)
		fail_msg("'%s' does not match %s", s, pattern);
}

static void test_text(void **state)
{
	log_open("storaged", LOG_INFO, false);
	capture();
	log_info("serving topics=%d path=%s", 3, "a\nb\x01\xff\xc3\xa4");
	log_debug("not shown");
	log_set_level(LOG_DEBUG);
	log_debug("shown");
	const char *s = release();
	assert_matches(s, "^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z info storaged "
			  "serving topics=3 path=a\\\\x0ab\\\\x01\\\\xff\xc3\xa4\n");
	assert_int_equal(n_lines(s), 2);
	assert_non_null(strstr(s, " debug storaged shown\n"));
}

static void test_json(void **state)
{
	log_open("admin", LOG_INFO, true);
	capture();
	log_warn("say \"%s\" and \\ go on err=%s text=\"two words\"", "hi\t", "EIO");
	log_error("no tail, a=b is inside");
	const char *s = release();
	assert_matches(s, "^\\{\"time\":\"2[^\"]*Z\",\"level\":\"warn\",\"program\":\"admin\",\"text\":"
			  "\"say \\\\\"hi\\\\u0009\\\\\" and \\\\\\\\ go on\",\"err\":\"EIO\",\"text\":\"two words\"\\}\n");
	assert_non_null(strstr(s, "\"text\":\"no tail, a=b is inside\"}\n"));
	assert_int_equal(n_lines(s), 2);
}

static void test_long_line_is_cut(void **state)
{
	static char text[20000];
	memset(text, 'x', sizeof(text) - 1);
	log_open("t", LOG_INFO, false);
	capture();
	log_info("%s", text);
	const char *s = release();
	assert_int_equal(n_lines(s), 1);
	assert_true(strlen(s) > 2000 && strlen(s) < 2200);
}

static void test_repeats(void **state)
{
	log_open("t", LOG_INFO, false);
	capture();
	for (int i = 0; i < 417; i++)
		log_info("peer dropped id=%d", i);
	log_info("another line");
	assert_int_equal(n_lines(release()), 6);
	assert_non_null(strstr(captured, "peer dropped id=4\n"));
	assert_null(strstr(captured, "id=5"));

	clock_ms += 9999;
	capture();
	log_warn("a third line");
	assert_int_equal(n_lines(release()), 1);

	clock_ms += 1;
	capture();
	log_warn("a fourth line");
	const char *s = release();
	assert_non_null(strstr(s, "and 412 more like this in 10 s: peer dropped id=416\n"));
	assert_int_equal(n_lines(s), 2);
}

static void test_tick(void **state)
{
	log_open("t", LOG_INFO, false);
	capture();
	for (int i = 0; i < 7; i++)
		log_info("tick %d", i);
	clock_ms += 9999;
	log_tick();
	assert_int_equal(n_lines(release()), 5);
	clock_ms += 1;
	capture();
	log_tick();
	log_tick();
	const char *s = release();
	assert_non_null(strstr(s, "and 2 more like this in 10 s: tick 6\n"));
	assert_int_equal(n_lines(s), 1);
}

static void test_flush(void **state)
{
	log_open("t", LOG_INFO, false);
	capture();
	for (int i = 0; i < 8; i++)
		log_info("again %d", i);
	log_flush();
	log_flush();
	const char *s = release();
	assert_int_equal(n_lines(s), 6);
	assert_non_null(strstr(s, "and 3 more like this in 10 s: again 7\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text), cmocka_unit_test(test_json), cmocka_unit_test(test_long_line_is_cut),
		cmocka_unit_test(test_repeats), cmocka_unit_test(test_tick), cmocka_unit_test(test_flush),
	};
	log_set_clock(test_clock);
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
