/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - separated text taken apart, one field at a time. */
#include "data/format/csv.h"

#include "base/printable.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tw_csv_init(struct tw_csv *c, const char *name, char separator, char *text, size_t bytes)
{
	*c = (struct tw_csv){
		.name = name,
		.next = text,
		.end = text + bytes,
		.separator = separator,
		.after = 1,
	};
	/* the mark that some editors put before UTF-8 */
	if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		c->next += 3;
}

bool tw_csv_done(const struct tw_csv *c)
{
	if (c->inside)
		return false;
	for (const char *p = c->next; p < c->end; p++)
		if (*p != '\n' && *p != '\r')
			return false;
	return true;
}

const char *tw_field_show(const struct tw_csv_field *f, char out[TW_FIELD_SHOWN])
{
	return tw_show_in(f->at, f->bytes, out, TW_FIELD_SHOWN);
}

static enum tw_status wrong(const struct tw_csv *c, const char *what, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT, "%s:%" PRIu64 ": column %u: %s", c->name, c->line,
		       c->column, what);
}

/* Behind a field: a separator, the row's end (LF, CRLF or CR) or the file's. */
static bool leave(struct tw_csv *c, char *p, struct tw_csv_field *out)
{
	if (p < c->end && *p == c->separator) {
		c->next = p + 1;
		c->inside = true;
		return true;
	}
	if (p < c->end && *p == '\r')
		p += p + 1 < c->end && p[1] == '\n' ? 2 : 1;
	else if (p < c->end && *p == '\n')
		p++;
	else if (p < c->end)
		return false;
	c->next = p;
	c->inside = false;
	c->after++;
	out->last = true;
	return true;
}

/* After the opening quote.  Two quotes are one. */
static enum tw_status quoted(struct tw_csv *c, struct tw_csv_field *out, struct tw_error *why)
{
	char *p = c->next + 1, *to = p;

	out->at = p;
	for (;; p++) {
		if (p == c->end)
			return wrong(c, "its quotes are opened but never closed", why);
		if (*p == '"') {
			if (p + 1 == c->end || p[1] != '"')
				break;
			p++;
		} else if (*p == '\n') {
			c->after++;
		}
		if (!c->looks)
			*to = *p;
		to++;
	}
	if (c->looks)
		to = p;
	out->bytes = (size_t)(to - out->at);
	if (!leave(c, p + 1, out))
		return wrong(c, "there is text after its closing quote", why);
	return TW_OK;
}

enum tw_status tw_csv_field(struct tw_csv *c, struct tw_csv_field *out, struct tw_error *why)
{
	char *p = c->next;

	c->column = c->inside ? c->column + 1 : 1;
	c->line = c->after;
	*out = (struct tw_csv_field){ .at = p };
	if (p < c->end && *p == '"')
		return quoted(c, out, why);
	while (p < c->end && *p != c->separator && *p != '\n' && *p != '\r') {
		if (*p == '"')
			return wrong(c,
				     "there is a quote inside a field that does not begin with "
				     "one",
				     why);
		p++;
	}
	out->bytes = (size_t)(p - c->next);
	leave(c, p, out);
	return TW_OK;
}

static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
			       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
			       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

/* m * 10^e: by exact powers of ten, so that each step errs by half a place of a double. */
static double scaled(uint64_t m, int e)
{
	double v = (double)m;

	if (m == 0)
		return 0;
	for (; e > 22 && v < 1e60; e -= 22)
		v *= 1e22;
	for (; e < -22 && v > 1e-80; e += 22)
		v /= 1e22;
	if (e > 22)
		return HUGE_VAL;
	if (e < -22)
		return 0;
	return e < 0 ? v / tens[-e] : v * tens[e];
}

bool tw_csv_number(struct tw_csv *c, struct tw_csv_field *out, float *number)
{
	const char *const end = c->end, *p = c->next, *digits;
	const bool minus = p < end && *p == '-';
	ptrdiff_t seen, fraction = 0;
	uint64_t m = 0;
	double v;

	p += minus || (p < end && *p == '+');
	digits = p;
	for (; p < end && (unsigned char)(*p - '0') <= 9; p++)
		m = m * 10 + (unsigned char)(*p - '0');
	seen = p - digits;
	if (p < end && *p == '.') {
		digits = ++p;
		for (; p < end && (unsigned char)(*p - '0') <= 9; p++)
			m = m * 10 + (unsigned char)(*p - '0');
		fraction = p - digits;
		seen += fraction;
	}
	if (seen < 1 || seen > 18 || (p < end && *p != c->separator && *p != '\n' && *p != '\r'))
		return false;
	v = fraction ? (double)m / tens[fraction] : (double)m;
	*number = (float)(minus ? -v : v);
	c->column = c->inside ? c->column + 1 : 1;
	c->line = c->after;
	*out = (struct tw_csv_field){ .at = c->next, .bytes = (size_t)(p - c->next) };
	return leave(c, (char *)p, out);
}

/* An exponent behind e; *p moves behind it. */
static bool exponent(const char **p, const char *end, int *e)
{
	const char *q = *p + 1;
	bool minus = false;
	int v = 0;

	if (q < end && (*q == '-' || *q == '+'))
		minus = *q++ == '-';
	if (q == end || (unsigned char)(*q - '0') > 9)
		return false;
	for (; q < end && (unsigned char)(*q - '0') <= 9; q++)
		if (v < 100000)
			v = v * 10 + (*q - '0');
	*e += minus ? -v : v;
	*p = q;
	return true;
}

/* Digits with perhaps a point in them: up to 18 significant ones are kept. */
static bool mantissa(const char **p, const char *end, uint64_t *m, int *e)
{
	const char *q = *p;
	int kept = 0, seen = 0;
	int64_t shift = 0;
	bool point = false;

	for (; q < end; q++) {
		const unsigned digit = (unsigned char)(*q - '0');

		if (*q == '.' && !point) {
			point = true;
			continue;
		}
		if (digit > 9)
			break;
		seen = 1;
		if (kept < 18) {
			*m = *m * 10 + digit;
			kept += *m != 0;
			shift -= point;
		} else {
			shift += !point;
		}
	}
	*p = q;
	*e = (int)(shift > 100000 ? 100000 : shift < -100000 ? -100000 : shift);
	return seen;
}

static void trim(const char **p, const char **end)
{
	while (*p < *end && (**p == ' ' || **p == '\t'))
		(*p)++;
	while (*p < *end && ((*end)[-1] == ' ' || (*end)[-1] == '\t'))
		(*end)--;
}

bool tw_field_number(const struct tw_csv_field *f, float *out)
{
	const char *p = f->at, *end = p + f->bytes;
	bool minus = false;
	uint64_t m = 0;
	int e = 0;
	double v;

	trim(&p, &end);
	if (p < end && (*p == '-' || *p == '+'))
		minus = *p++ == '-';
	if (!mantissa(&p, end, &m, &e))
		return false;
	if (p < end && (*p == 'e' || *p == 'E') && !exponent(&p, end, &e))
		return false;
	if (p != end)
		return false;
	v = scaled(m, e);
	if (!(v <= 3.4028235677973362e38))
		return false;
	*out = (float)(minus ? -v : v);
	return true;
}

bool tw_field_whole(const struct tw_csv_field *f, int64_t *out)
{
	const char *p = f->at, *end = p + f->bytes;
	bool minus = false;
	int64_t v = 0;

	trim(&p, &end);
	if (p < end && (*p == '-' || *p == '+'))
		minus = *p++ == '-';
	if (p == end || end - p > 18)
		return false;
	for (; p < end; p++) {
		if ((unsigned char)(*p - '0') > 9)
			return false;
		v = v * 10 + (*p - '0');
	}
	*out = minus ? -v : v;
	return true;
}
