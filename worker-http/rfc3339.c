/* SPDX-License-Identifier: Apache-2.0
 *
 * Days are counted by the Gregorian calendar in years that begin in March, so that the leap day is a year's last.
 */
#include "worker-http/rfc3339.h"

#include <stdio.h>

#include "common/must.h"

#define DAY_MS 86400000ll

static int64_t days_of(int64_t year, unsigned month, unsigned day)
{
	year -= month <= 2;
	int64_t era = (year >= 0 ? year : year - 399) / 400;
	int64_t of_era = year - era * 400;
	unsigned of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static unsigned days_in(int64_t year, unsigned month)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	return month == 2 && leap ? 29 : days[month - 1];
}

/* Takes n digits off the begin. */
static bool take_digits(struct slice *s, unsigned n, unsigned *ret)
{
	*ret = 0;
	if (s->n < n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (s->p[i] < '0' || s->p[i] > '9')
			return false;
		*ret = *ret * 10 + (s->p[i] - '0');
	}
	*s = slice_of(s->p + n, s->n - n);
	return true;
}

static bool take_byte(struct slice *s, uint8_t c)
{
	if (s->n == 0 || (s->p[0] != c && (c < 'A' || c > 'Z' || s->p[0] != (c | 0x20))))
		return false;
	*s = slice_of(s->p + 1, s->n - 1);
	return true;
}

static bool take_fraction(struct slice *s, unsigned *ret_ms)
{
	unsigned digit, n = 0, ms = 0;
	*ret_ms = 0;
	if (!take_byte(s, '.'))
		return true;
	for (; take_digits(s, 1, &digit); n++)
		if (n < 3)
			ms = ms * 10 + digit;
	for (unsigned i = n; i < 3; i++)
		ms *= 10;
	*ret_ms = ms;
	return n > 0;
}

static bool take_zone(struct slice *s, int *ret_minutes)
{
	unsigned hours, minutes;
	*ret_minutes = 0;
	if (take_byte(s, 'Z'))
		return true;
	bool minus = take_byte(s, '-');
	if ((!minus && !take_byte(s, '+')) || !take_digits(s, 2, &hours) || !take_byte(s, ':') ||
	    !take_digits(s, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_minutes = (int)(hours * 60 + minutes) * (minus ? -1 : 1);
	return true;
}

bool rfc3339_parse(struct slice s, int64_t *ret_ms)
{
	unsigned year, month, day, hour, minute, second, ms;
	int zone;
	if (!take_digits(&s, 4, &year) || !take_byte(&s, '-') || !take_digits(&s, 2, &month) || !take_byte(&s, '-') ||
	    !take_digits(&s, 2, &day) || !take_byte(&s, 'T') || !take_digits(&s, 2, &hour) || !take_byte(&s, ':') ||
	    !take_digits(&s, 2, &minute) || !take_byte(&s, ':') || !take_digits(&s, 2, &second) ||
	    !take_fraction(&s, &ms) || !take_zone(&s, &zone) || s.n != 0)
		return false;
	if (month < 1 || month > 12 || day < 1 || day > days_in(year, month) || hour > 23 || minute > 59 || second > 60)
		return false;
	int64_t minutes = (int64_t)hour * 60 + minute - zone;
	*ret_ms = days_of(year, month, day) * DAY_MS + minutes * 60000 + (int64_t)second * 1000 + ms;
	return true;
}

void rfc3339_print(int64_t ms, char ret_text[static RFC3339_TEXT])
{
	int64_t days = ms / DAY_MS, rest = ms % DAY_MS;
	unsigned year = 1970, month = 1;
	must(ms >= 0);
	while (year < 9999 && days_of(year + 1, 1, 1) <= days)
		year++;
	while (month < 12 && days_of(year, month + 1, 1) <= days)
		month++;
	unsigned day = (unsigned)(days - days_of(year, month, 1)) % 100 + 1;
	unsigned seconds = (unsigned)(rest / 1000), fraction = (unsigned)(rest % 1000);
	int n = snprintf(ret_text, RFC3339_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u", year, month, day, seconds / 3600,
			 seconds / 60 % 60, seconds % 60);
	snprintf(ret_text + n, RFC3339_TEXT - (size_t)n, fraction == 0 ? "Z" : ".%03uZ", fraction);
}
