/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.c - Slurm's lists of hosts, strictly read. */
#include "cli/hostlist.h"

#include "base/printable.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BRACKETS_MOST 8
#define DIGITS_MOST   18 /* such a number always fits in 64 bits */

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

/* One host or family of hosts of a list: text with brackets in it. */
struct family {
	const char *text, *end;
	size_t brackets;
	uint64_t hosts; /* the product of what its brackets have */
	size_t longest; /* bytes of the longest name */
};

struct reader {
	const char *what, *list, *at;
	struct tw_error *why;
};

struct range {
	uint64_t first, last;
	int digits; /* of the first: shorter numbers get zeros in front */
};

static enum tw_status wrong(const struct reader *r, const char *problem)
{
	const struct tw_printable list = tw_show(r->list);

	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s is \"%s\": %s at character %zu; accepted are lists of hosts such as "
		       "node[01-03,07],gpu5 with at most %" PRIu64 " hosts",
		       r->what, list.text, problem, (size_t)(r->at - r->list) + 1,
		       TW_HOSTLIST_MOST);
}

static bool number(const char **at, uint64_t *out, int *digits)
{
	*out = 0;
	for (*digits = 0; digit(**at) && *digits < DIGITS_MOST; (*digits)++, (*at)++)
		*out = *out * 10 + (uint64_t)(**at - '0');
	return *digits > 0 && !digit(**at);
}

/* "7" or "01-03"; leaves *at behind it.  The words of what is wrong, or NULL. */
static const char *range(const char **at, struct range *out)
{
	int digits;

	if (!number(at, &out->first, &out->digits))
		return "a number of 1 to 18 digits is missing";
	out->last = out->first;
	if (**at == '-') {
		++*at;
		if (!number(at, &out->last, &digits))
			return "a number of 1 to 18 digits is missing";
	}
	return out->last < out->first ? "a range of descending numbers ends" : NULL;
}

static size_t digits_of(const struct range *r)
{
	char text[24];

	return (size_t)snprintf(text, sizeof text, "%0*" PRIu64, r->digits, r->last);
}

/* Behind a '[': its ranges, up to behind the ']'. */
static enum tw_status bracket(struct reader *r, struct family *f)
{
	uint64_t values = 0;
	size_t longest = 0;

	if (f->brackets == BRACKETS_MOST)
		return wrong(r, "there are more than 8 brackets in one name");
	for (;; r->at++) {
		struct range x;
		const char *problem = range(&r->at, &x);

		if (problem)
			return wrong(r, problem);
		if (x.last - x.first >= TW_HOSTLIST_MOST - values)
			return wrong(r, "there are too many hosts");
		values += x.last - x.first + 1;
		longest = digits_of(&x) > longest ? digits_of(&x) : longest;
		if (*r->at != ',')
			break;
	}
	if (*r->at != ']')
		return wrong(r, "a , or ] is missing");
	r->at++;
	f->brackets++;
	f->hosts *= values; /* both at most TW_HOSTLIST_MOST: no overflow */
	f->longest += longest;
	return f->hosts > TW_HOSTLIST_MOST ? wrong(r, "there are too many hosts") : TW_OK;
}

static bool name_letter(char c)
{
	return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
	       c == '_' || c == '.';
}

/* The next family, up to behind its comma. */
static enum tw_status next_family(struct reader *r, struct family *f)
{
	enum tw_status st = TW_OK;

	*f = (struct family){ .text = r->at, .hosts = 1 };
	while (*r->at && *r->at != ',' && st == TW_OK) {
		if (*r->at == '[') {
			r->at++;
			st = bracket(r, f);
		} else if (name_letter(*r->at)) {
			r->at++;
			f->longest++;
		} else {
			return wrong(r, "there is no letter of a name");
		}
		if (st == TW_OK && f->longest >= TW_HOSTLIST_TEXT)
			return wrong(r, "there is a name of more than 255 letters");
	}
	if (st != TW_OK)
		return st;
	f->end = r->at;
	if (f->end == f->text)
		return wrong(r, "a name is missing");
	if (*r->at == ',' && !*++r->at)
		return wrong(r, "a name is missing");
	return TW_OK;
}

/* The first host of a family: of every bracket the first number. */
static void write_first(const struct family *f, char out[TW_HOSTLIST_TEXT])
{
	size_t n = 0;

	for (const char *p = f->text; p < f->end;) {
		struct range x = { 0 };

		if (*p != '[') {
			out[n++] = *p++;
			continue;
		}
		p++;
		range(&p, &x); /* was read before: it is right */
		n += (size_t)snprintf(out + n, TW_HOSTLIST_TEXT - n, "%0*" PRIu64, x.digits,
				      x.first);
		p = strchr(p, ']') + 1;
	}
	out[n] = 0;
}

enum tw_status tw_hostlist_first(const char *what, const char *list, char out[TW_HOSTLIST_TEXT],
				 struct tw_error *why)
{
	struct reader r = { .what = what, .list = list, .at = list, .why = why };
	uint64_t count = 0;

	do { /* the whole list is read: its end must be right, too */
		struct family f;
		const enum tw_status st = next_family(&r, &f);

		if (st != TW_OK)
			return st;
		if (f.hosts > TW_HOSTLIST_MOST - count)
			return wrong(&r, "there are too many hosts");
		if (count == 0)
			write_first(&f, out);
		count += f.hosts;
	} while (*r.at);
	return TW_OK;
}
