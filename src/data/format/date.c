/* SPDX-License-Identifier: Apache-2.0 */
/* date.c - dates in a table: ISO 8601, and what spreadsheets make of it. */
#include "data/format/date.h"

const char *const tw_date_parts[] = { "year", "month", "day", "weekday", "hour", NULL };

struct text {
	const char *at, *end;
};

/* A whole number of `least` to `most` digits. */
static bool digits(struct text *t, unsigned least, unsigned most, uint32_t *out)
{
	unsigned n = 0;
	uint32_t v = 0;

	for (; t->at < t->end && n < most && (unsigned char)(*t->at - '0') <= 9; t->at++, n++)
		v = v * 10 + (uint32_t)(*t->at - '0');
	*out = v;
	return n >= least;
}

static bool take(struct text *t, char c)
{
	if (t->at == t->end || *t->at != c)
		return false;
	t->at++;
	return true;
}

static uint32_t days_in(uint32_t year, uint32_t month)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

static bool exists(const struct tw_date *d)
{
	return d->year >= 1 && d->month >= 1 && d->month <= 12 && d->day >= 1 &&
	       d->day <= days_in(d->year, d->month);
}

/* Year, month and day in the order that their lengths and separators tell. */
static bool day_of(struct text *t, enum tw_date_order order, struct tw_date *out)
{
	const char *from = t->at;
	uint32_t first, second, last;
	char by;

	if (!digits(t, 1, 4, &first) || t->at == t->end)
		return false;
	by = *t->at;
	if ((by != '-' && by != '/' && by != '.') || (t->at - from != 4 && t->at - from > 2))
		return false;
	if (t->at - from == 4) {
		*out = (struct tw_date){ .year = first };
		t->at++;
		return digits(t, 1, 2, &out->month) && take(t, by) && digits(t, 1, 2, &out->day) &&
		       exists(out);
	}
	t->at++;
	if (!digits(t, 1, 2, &second) || !take(t, by) || !digits(t, 4, 4, &last))
		return false;
	*out = (struct tw_date){ .year = last, .month = second, .day = first };
	out->slashes = by != '.';
	if (out->slashes && order == TW_DATE_MONTH_FIRST) {
		out->month = first;
		out->day = second;
	}
	return exists(out);
}

/* Z, +02, +0200, +02:00 or nothing. */
static bool offset_of(struct text *t)
{
	uint32_t v;

	take(t, ' ');
	if (take(t, 'Z') || t->at == t->end)
		return true;
	if (!take(t, '+') && !take(t, '-'))
		return false;
	if (!digits(t, 2, 2, &v) || v > 23)
		return false;
	if (t->at == t->end)
		return true;
	take(t, ':');
	return digits(t, 2, 2, &v) && v < 60;
}

static bool time_of(struct text *t, struct tw_date *out)
{
	uint32_t hour, minute, second = 0;

	if (!digits(t, 1, 2, &hour) || !take(t, ':') || !digits(t, 2, 2, &minute))
		return false;
	if (take(t, ':') && !digits(t, 2, 2, &second))
		return false;
	if (take(t, '.'))
		while (t->at < t->end && (unsigned char)(*t->at - '0') <= 9)
			t->at++;
	if (hour > 23 || minute > 59 || second > 60)
		return false;
	out->has_time = true;
	out->hour = hour + minute / 60.0 + second / 3600.0;
	return offset_of(t);
}

bool tw_date_parse(const struct tw_csv_field *f, enum tw_date_order order, struct tw_date *out)
{
	struct text t = { f->at, f->at + f->bytes };

	while (t.at < t.end && *t.at == ' ')
		t.at++;
	while (t.at < t.end && t.end[-1] == ' ')
		t.end--;
	if (!day_of(&t, order, out))
		return false;
	if (t.at == t.end)
		return true;
	return (take(&t, 'T') || take(&t, ' ')) && time_of(&t, out) && t.at == t.end;
}

/* Days since 1970-01-01, in the calendar of today for all times. */
static int64_t days_since(const struct tw_date *d)
{
	const int64_t y = (int64_t)d->year - (d->month <= 2), era = y / 400, of_era = y % 400;
	const int64_t day = (153 * (int64_t)(d->month + (d->month > 2 ? -3u : 9u)) + 2) / 5 +
			    (int64_t)d->day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + day - 719468;
}

void tw_date_split(const struct tw_date *date, float out[TW_DATE_PARTS])
{
	out[0] = (float)date->year;
	out[1] = (float)date->month;
	out[2] = (float)date->day;
	out[3] = (float)((days_since(date) + 719468 + 2) % 7); /* 0000-03-01 was a Wednesday */
	out[4] = (float)date->hour;
}

double tw_date_hours(const struct tw_date *date)
{
	return (double)days_since(date) * 24 + date->hour;
}
