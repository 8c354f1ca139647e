/* SPDX-License-Identifier: Apache-2.0 */
/* option.c - reads, prints and describes the value of one row.
 *
 * Text is read strictly: all of it must be used, numbers must be finite decimal ones, and
 * whatever has a dimension carries its unit.  The sentence of a refusal is always what
 * tw_option_accepts says, so help and refusals cannot disagree. */
#include "base/option.h"
#include "base/arena.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Smallest first; the first is the unit of the stored value. */
struct unit {
	const char *name;
	uint64_t worth;
};

static const struct unit times[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "min", UINT64_C(60000000000) },
	{ "h", UINT64_C(3600000000000) },
	{ NULL },
};
static const struct unit sizes[] = {
	{ "B", 1 },         { "kB", 1000 },       { "KiB", 1 << 10 }, { "MB", 1000000 },
	{ "MiB", 1 << 20 }, { "GB", 1000000000 }, { "GiB", 1 << 30 }, { NULL },
};
static const struct unit speeds[] = {
	{ "bit/s", 1 },           { "kbit/s", 1000 }, { "Mbit/s", 1000000 },
	{ "Gbit/s", 1000000000 }, { NULL },
};
static const struct unit epochs[] = {
	{ "epochs", 1 },
	{ "epoch", 1 },
	{ NULL },
};

/* Of a measure; NULL: the type is none. */
static const struct unit *units_of(enum tw_option_type type);

/* Length of the decimal number that `text` begins with, 0 if none: what strtod takes, without
 * hexadecimal, "inf", "nan" and leading blanks.  *whole: digits only. */
static size_t number_length(const char *text, bool *whole)
{
	const char *p = text;
	size_t digits = 0;

	*whole = true;
	if (*p == '+' || *p == '-') {
		*whole = false;
		p++;
	}
	for (; isdigit((unsigned char)*p); p++)
		digits++;
	if (*p == '.') {
		*whole = false;
		for (p++; isdigit((unsigned char)*p); p++)
			digits++;
	}
	if (!digits)
		return 0;
	if (*p == 'e' || *p == 'E') {
		const char *q = p + 1;

		if (*q == '+' || *q == '-')
			q++;
		if (isdigit((unsigned char)*q)) {
			*whole = false;
			while (isdigit((unsigned char)*q))
				q++;
			p = q;
		}
	}
	return (size_t)(p - text);
}

/* A non-zero number that is read as zero was too small to be kept. */
static bool vanished(const char *text, size_t n, bool zero)
{
	if (!zero)
		return false;
	for (size_t i = 0; i < n && text[i] != 'e' && text[i] != 'E'; i++)
		if (text[i] >= '1' && text[i] <= '9')
			return true;
	return false;
}

static bool read_number(const char *text, size_t n, double *out)
{
	bool whole;

	if (n == 0 || number_length(text, &whole) != n)
		return false;
	*out = strtod(text, NULL);
	return isfinite(*out) && !vanished(text, n, *out == 0);
}

static bool read_whole(const char *text, size_t n, uint64_t *out)
{
	bool whole;
	uint64_t v = 0;

	if (n == 0 || number_length(text, &whole) != n || !whole)
		return false;
	for (size_t i = 0; i < n; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v))
			return false;
	*out = v;
	return true;
}

static bool any_range(const struct tw_option *row)
{
	return row->min == 0 && row->max == 0;
}

static bool within(const struct tw_option *row, double v)
{
	return any_range(row) || (v >= row->min && v <= row->max);
}

static const struct unit *find_unit(const struct tw_option *row, const char *name)
{
	for (const struct unit *u = units_of(row->type); u->name; u++)
		if (strcmp(u->name, name) == 0)
			return u;
	return NULL;
}

/* "<number>[ ]<unit>" in the first unit: exactly in *whole where digits allow, nearest in *real. */
static bool read_measure(const struct tw_option *row, const char *text, uint64_t *whole,
			 double *real)
{
	bool digits;
	const size_t n = number_length(text, &digits);
	const struct unit *u;
	const char *p = text + n;
	long double v;
	uint64_t count;

	if (n == 0)
		return false;
	while (*p == ' ')
		p++;
	u = find_unit(row, p);
	if (!u)
		return false;
	v = strtold(text, NULL);
	if (!isfinite((double)v) || vanished(text, n, v == 0) || (v < 0 && row->min >= 0))
		return false;
	*real = (double)(strtod(text, NULL) * (double)u->worth);
	if (!isfinite(*real) || vanished(text, n, *real == 0))
		return false;
	if (row->type != TW_TIME && row->type != TW_SIZE)
		return true;
	if (digits)
		return read_whole(text, n, &count) &&
		       !__builtin_mul_overflow(count, u->worth, whole);
	v = roundl(v * (long double)u->worth);
	if (v < 0 || v >= 18446744073709551616.0L || vanished(text, n, v == 0))
		return false;
	*whole = (uint64_t)v;
	return true;
}

static bool set_bool(const struct tw_option *row, void *at, const char *text)
{
	const bool yes = strcmp(text, "true") == 0;

	if (!yes && strcmp(text, "false") != 0)
		return false;
	*(bool *)at = yes;
	return true;
}

static bool set_whole(const struct tw_option *row, void *at, const char *text)
{
	uint64_t v;

	if (!read_whole(text, strlen(text), &v) || !within(row, (double)v))
		return false;
	if (row->type == TW_U64) {
		*(uint64_t *)at = v;
		return true;
	}
	if (v > UINT32_MAX)
		return false;
	*(uint32_t *)at = (uint32_t)v;
	return true;
}

static bool set_real(const struct tw_option *row, void *at, const char *text)
{
	const size_t n = strlen(text);
	double v;
	float f;

	/* a float's range is judged before rounding: 0.1 is within a maximum of 0.1 */
	if (!read_number(text, n, &v) || !within(row, v))
		return false;
	if (row->type == TW_F64) {
		*(double *)at = v;
		return true;
	}
	f = strtof(text, NULL);
	if (!isfinite(f) || vanished(text, n, f == 0))
		return false;
	*(float *)at = f;
	return true;
}

static bool set_measure(const struct tw_option *row, void *at, const char *text)
{
	uint64_t whole = 0;
	double real;

	if (!read_measure(row, text, &whole, &real))
		return false;
	switch (row->type) {
	case TW_TIME:
		if (whole > INT64_MAX || !within(row, (double)whole))
			return false;
		*(int64_t *)at = (int64_t)whole;
		return true;
	case TW_SIZE:
		if (!within(row, (double)whole))
			return false;
		*(uint64_t *)at = whole;
		return true;
	default:
		if (!within(row, real))
			return false;
		*(double *)at = real;
		return true;
	}
}

static bool set_choice(const struct tw_option *row, void *at, const char *text)
{
	for (uint32_t k = 0; row->choices[k]; k++)
		if (strcmp(row->choices[k], text) == 0) {
			*(uint32_t *)at = k;
			return true;
		}
	return false;
}

/* The next number of a list, ended by a comma (stepped over) or by `end`. */
static bool next_of_list(const char **at, const char *end, double *out)
{
	const char *p = *at;
	bool whole;
	size_t n;

	while (p < end && *p == ' ')
		p++;
	n = number_length(p, &whole);
	if (p + n > end || !read_number(p, n, out))
		return false;
	p += n;
	while (p < end && *p == ' ')
		p++;
	if (p < end) {
		if (*p != ',' || p + 1 == end)
			return false;
		p++;
	}
	*at = p;
	return true;
}

/* TW_BAD_INPUT here only says no; the caller words it. */
static enum tw_status set_list(const struct tw_option *row, struct tw_f64s *at, const char *text,
			       struct tw_arena *keep)
{
	const char *end = text + strlen(text), *p;
	size_t count = 0, k = 0;
	double *v;

	while (end > text && end[-1] == ' ')
		end--;
	while (*text == ' ')
		text++;
	if (*text == '[') {
		if (end - text < 2 || end[-1] != ']')
			return TW_BAD_INPUT;
		text++;
		end--;
		while (*text == ' ')
			text++;
		if (text >= end) {
			*at = (struct tw_f64s){ NULL, 0 };
			return TW_OK;
		}
	}
	for (p = text; p < end; p++)
		count += *p == ',';
	if (text >= end)
		return TW_BAD_INPUT;
	v = tw_arena_get(keep, (count + 1) * sizeof *v);
	if (!v)
		return TW_NO_MEMORY;
	for (p = text; p < end; k++)
		if (!next_of_list(&p, end, &v[k]) || !within(row, v[k]))
			return TW_BAD_INPUT;
	*at = (struct tw_f64s){ v, k };
	return TW_OK;
}

/* "5x3", or "5" for both. */
static bool set_extent(const struct tw_option *row, void *at, const char *text)
{
	const char *x = strchr(text, 'x');
	const size_t n = x ? (size_t)(x - text) : strlen(text);
	uint64_t h = 0, w = 0;

	if (!read_whole(text, n, &h) || (x && !read_whole(x + 1, strlen(x + 1), &w)))
		return false;
	w = x ? w : h;
	if (h > UINT32_MAX || w > UINT32_MAX || !within(row, (double)h) || !within(row, (double)w))
		return false;
	*(struct tw_extent *)at = (struct tw_extent){ (uint32_t)h, (uint32_t)w };
	return true;
}

static enum tw_status set_text(const char **at, const char *text, struct tw_arena *keep)
{
	const char *kept = tw_arena_text(keep, text);

	if (!kept)
		return TW_NO_MEMORY;
	*at = kept;
	return TW_OK;
}

/* A type of values. */
static const struct kind {
	const char *accepts; /* a format, for the range; of a measure, what it is */
	bool (*set)(const struct tw_option *row, void *at, const char *text); /* NULL: see set */
	const struct unit *units;                                             /* of a measure ... */
	const char *usual;                                                    /* ... an example */
	double top; /* its largest value; 0: that of a double */
} kinds[] = {
	[TW_BOOL] = { "true or false", set_bool },
	[TW_U32] = { "a whole number%s", set_whole },
	[TW_U64] = { "a whole number%s", set_whole, .top = (double)UINT64_MAX },
	[TW_F32] = { "a number%s", set_real, .top = (double)3.40282347e38f },
	[TW_F64] = { "a number%s", set_real },
	[TW_TIME] = { "a time", set_measure, times, "100us", (double)INT64_MAX },
	[TW_SIZE] = { "a size", set_measure, sizes, "64MiB", (double)UINT64_MAX },
	[TW_BITS] = { "a bandwidth", set_measure, speeds, "10Gbit/s" },
	[TW_EPOCHS] = { "a number of epochs", set_measure, epochs, "0.2 epochs" },
	[TW_CHOICE] = { NULL, set_choice },
	[TW_TEXT] = { "text" },
	[TW_WORDS] = { "a word, or a list of words" },
	[TW_F64S] = { "a list of numbers%s such as %s" },
	[TW_EXTENT] = { "height and width%s, such as 5x5, or one number for both", set_extent },
};

static const struct unit *units_of(enum tw_option_type type)
{
	return kinds[type].units;
}

static enum tw_status set(const struct tw_option *row, void *at, const char *text,
			  struct tw_arena *keep)
{
	if (row->type == TW_F64S)
		return set_list(row, at, text, keep);
	if (!kinds[row->type].set)
		return set_text(at, text, keep);
	return kinds[row->type].set(row, at, text) ? TW_OK : TW_BAD_INPUT;
}

enum tw_status tw_option_set(const struct tw_option *row, void *base, const char *text,
			     struct tw_arena *keep, struct tw_error *why)
{
	const enum tw_status st = set(row, (char *)base + row->offset, text, keep);
	char accepts[400];
	const char *near;

	if (st == TW_OK)
		return TW_OK;
	if (st == TW_NO_MEMORY)
		return tw_fail(why, st, "%s: no memory for its value", row->name);
	tw_option_accepts(row, accepts, sizeof accepts);
	near = row->type == TW_CHOICE ? tw_nearest(text, row->choices) : NULL;
	return tw_fail(why, st, "%s: needs %s, not '%.60s%s'%s%s%s", row->name, accepts, text,
		       strlen(text) > 60 ? "..." : "", near ? "; did you mean '" : "",
		       near ? near : "", near ? "'?" : "");
}

/* A row without default is left as it is: whoever reads the job says that it is missing. */
enum tw_status tw_option_defaults(const struct tw_option *rows, void *base, struct tw_arena *keep,
				  struct tw_error *why)
{
	for (const struct tw_option *row = rows; row->name; row++) {
		if (!row->standard)
			continue;
		const enum tw_status st = tw_option_set(row, base, row->standard, keep, why);

		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

const struct tw_option *tw_option_find(const struct tw_option *rows, const char *name)
{
	for (const struct tw_option *row = rows; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

/* The fewest digits that are read back to the same bits. */
static void print_real(double v, char *out, size_t room)
{
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(out, room, "%.*g", digits, v);
		if (strtod(out, NULL) == v)
			return;
	}
}

static void print_float(float v, char *out, size_t room)
{
	for (int digits = 6; digits <= 9; digits++) {
		snprintf(out, room, "%.*g", digits, (double)v);
		if (strtof(out, NULL) == v)
			return;
	}
}

/* In the largest unit that divides it. */
static void print_whole_measure(const struct unit *units, uint64_t v, char *out, size_t room)
{
	const struct unit *best = units;

	for (const struct unit *u = units; v && u->name; u++)
		if (v % u->worth == 0)
			best = u;
	if (!v && units == times)
		best = units + 3; /* 0s, as people write it */
	snprintf(out, room, "%" PRIu64 "%s", v / best->worth, best->name);
}

/* In the largest unit in which six digits say it exactly, else in full in the first. */
static void print_speed(double v, char *out, size_t room)
{
	const struct unit *best = NULL;
	char digits[40];

	for (const struct unit *u = speeds; u->name; u++) {
		snprintf(digits, sizeof digits, "%.6g", v / (double)u->worth);
		if (v >= (double)u->worth && strtod(digits, NULL) * (double)u->worth == v)
			best = u;
	}
	if (best)
		snprintf(digits, sizeof digits, "%.6g", v / (double)best->worth);
	else
		print_real(v, digits, sizeof digits);
	snprintf(out, room, "%s%s", digits, best ? best->name : speeds->name);
}

/* `whole` or `real`, as the type has it. */
static void print_measure(enum tw_option_type type, uint64_t whole, double real, char *out,
			  size_t room)
{
	char digits[40];

	if (type == TW_BITS) {
		print_speed(real, out, room);
	} else if (type == TW_EPOCHS) {
		print_real(real, digits, sizeof digits);
		snprintf(out, room, "%s epochs", digits);
	} else {
		print_whole_measure(units_of(type), whole, out, room);
	}
}

static void print_list(const struct tw_f64s *v, char *out, size_t room)
{
	size_t at = 0;
	char digits[40];

	if (room)
		out[0] = '\0';
	for (size_t k = 0; k < v->count && at < room; k++) {
		print_real(v->at[k], digits, sizeof digits);
		at += (size_t)snprintf(out + at, room - at, "%s%s", k ? ", " : "[", digits);
	}
	if (at < room)
		snprintf(out + at, room - at, "%s", v->count ? "]" : "[]");
}

void tw_option_text(const struct tw_option *row, const void *base, char *out, size_t room)
{
	const void *at = (const char *)base + row->offset;

	switch (row->type) {
	case TW_BOOL:
		snprintf(out, room, "%s", *(const bool *)at ? "true" : "false");
		break;
	case TW_U32:
		snprintf(out, room, "%" PRIu32, *(const uint32_t *)at);
		break;
	case TW_U64:
		snprintf(out, room, "%" PRIu64, *(const uint64_t *)at);
		break;
	case TW_F32:
		print_float(*(const float *)at, out, room);
		break;
	case TW_F64:
		print_real(*(const double *)at, out, room);
		break;
	case TW_TIME:
	case TW_SIZE:
		print_measure(row->type, *(const uint64_t *)at, 0, out, room);
		break;
	case TW_BITS:
	case TW_EPOCHS:
		print_measure(row->type, 0, *(const double *)at, out, room);
		break;
	case TW_CHOICE:
		snprintf(out, room, "%s", row->choices[*(const uint32_t *)at]);
		break;
	case TW_TEXT:
	case TW_WORDS:
		snprintf(out, room, "%s", *(const char *const *)at ? *(const char *const *)at : "");
		break;
	case TW_F64S:
		print_list(at, out, room);
		break;
	case TW_EXTENT:
		snprintf(out, room, "%" PRIu32 "x%" PRIu32, ((const struct tw_extent *)at)->h,
			 ((const struct tw_extent *)at)->w);
		break;
	}
}

/* One end of the range in the row's own unit. */
static void print_bound(const struct tw_option *row, double v, char *out, size_t room)
{
	if (units_of(row->type))
		print_measure(row->type, (uint64_t)v, v, out, room);
	else if (v == floor(v) && fabs(v) < 1e15)
		snprintf(out, room, "%.0f", v);
	else
		print_real(v, out, room);
}

/* A range up to the largest value of the type has only a lower end worth telling. */
static void print_range(const struct tw_option *row, char *out, size_t room)
{
	const double most = kinds[row->type].top, top = most > 0 ? most : DBL_MAX;
	char low[64], high[64];

	snprintf(out, room, "%s", "");
	if (any_range(row))
		return;
	if (row->min > -top)
		print_bound(row, row->min, low, sizeof low);
	if (row->max < top)
		print_bound(row, row->max, high, sizeof high);
	if (row->min > -top && row->max < top)
		snprintf(out, room, " from %s to %s", low, high);
	else if (row->min > -top)
		snprintf(out, room, " of at least %s", low);
	else if (row->max < top)
		snprintf(out, room, " of at most %s", high);
}

/* The default makes the best example, unless it is zero or a `usual` one must do. */
static const char *example_of(const struct tw_option *row, const char *usual)
{
	uint64_t whole = 0;
	double real;

	if (row->standard && read_measure(row, row->standard, &whole, &real) && real > 0)
		return row->standard;
	if (read_measure(row, usual, &whole, &real) && within(row, real))
		return usual;
	return NULL;
}

static void accepts_measure(const struct tw_option *row, const char *range, char *out, size_t room)
{
	const char *example = example_of(row, kinds[row->type].usual);
	char bound[64];

	if (!example) {
		print_bound(row, row->min > 0 ? row->min : row->max, bound, sizeof bound);
		example = bound;
	}
	snprintf(out, room, "%s%s with a unit, such as %s", kinds[row->type].accepts, range,
		 example);
}

static void accepts_choice(const struct tw_option *row, char *out, size_t room)
{
	int at = snprintf(out, room, "one of");

	for (size_t k = 0; row->choices[k] && at >= 0 && (size_t)at < room; k++)
		at += snprintf(out + at, room - (size_t)at, "%s %s", k ? "," : "", row->choices[k]);
}

void tw_option_accepts(const struct tw_option *row, char *out, size_t room)
{
	char range[160];

	print_range(row, range, sizeof range);
	if (row->type == TW_U32 && !*range)
		snprintf(range, sizeof range, " from 0 to 4294967295");
	if (units_of(row->type))
		accepts_measure(row, range, out, room);
	else if (row->type == TW_CHOICE)
		accepts_choice(row, out, room);
	else
		snprintf(out, room, kinds[row->type].accepts, range,
			 row->min < 1 ? "[0.1, 1]" : "[2, 1]");
}

#define NAME_MOST 64

/* Insertions, deletions, changes and swaps of neighbours; letters regardless of case. */
static size_t distance(const char *a, size_t m, const char *b, size_t n)
{
	size_t row[3][NAME_MOST + 1];
	size_t *before = row[0], *last = row[1], *now = row[2];

	for (size_t j = 0; j <= n; j++)
		last[j] = j;
	for (size_t i = 1; i <= m; i++) {
		size_t *spare = before;

		now[0] = i;
		for (size_t j = 1; j <= n; j++) {
			const int x = tolower((unsigned char)a[i - 1]);
			const int y = tolower((unsigned char)b[j - 1]);
			size_t best = last[j - 1] + (x != y);

			if (last[j] + 1 < best)
				best = last[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
			    y == tolower((unsigned char)a[i - 2]) && before[j - 2] + 1 < best)
				best = before[j - 2] + 1;
			now[j] = best;
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[n];
}

const char *tw_nearest(const char *wrong, const char *const *names)
{
	const size_t m = strlen(wrong);
	const char *best = NULL;
	size_t least = (m + 1) / 3 + 1;

	if (m > NAME_MOST)
		return NULL;
	for (; *names; names++) {
		const size_t n = strlen(*names);
		size_t d;

		if (n > NAME_MOST || n == 0)
			continue;
		d = distance(wrong, m, *names, n);
		if (d < least) {
			least = d;
			best = *names;
		}
	}
	return best;
}

static bool is_silent(const char *standard)
{
	return !standard || !*standard || strcmp(standard, "none") == 0;
}

void tw_option_example(const struct tw_option *row, char *out, size_t room)
{
	const char *text = row->example ? row->example : row->standard;

	if (!row->example && row->type == TW_BOOL)
		text = strcmp(row->standard, "true") == 0 ? "false" : "true";
	else if (!row->example && row->type == TW_CHOICE)
		text = row->choices[row->choices[1] && strcmp(row->choices[0], row->standard) == 0];
	else if (!row->example && row->type == TW_TEXT && is_silent(row->standard))
		text = row->help && strstr(row->help, "file") ? "FILE" : "NAME";
	snprintf(out, room, "%s", text ? text : "VALUE");
}
