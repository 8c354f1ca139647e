/* SPDX-License-Identifier: Apache-2.0 */
/* figure.h - what is counted is a row of a table, as an option is (option.h).
 *
 * From a row come: how two counts add up, the field of a result, its line in the reference, the
 * line on the page of metrics, and the field of the page of health.  A row names one field of a
 * plain struct, so that counting stays an increment.  A table ends with a name of NULL. */
#ifndef TW_BASE_FIGURE_H
#define TW_BASE_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tw_figure_type {
	TW_COUNT,     /* uint64_t */
	TW_COUNT32,   /* uint32_t */
	TW_NANOS,     /* int64_t nanoseconds, shown in seconds */
	TW_REAL,      /* double */
	TW_GROUP,     /* none: figures whose paths begin with this one's may follow */
	TW_SOMETIMES, /* none: a field that only some results have */
};

struct tw_outcome; /* what figures are of: node/figures.h */

struct tw_figure {
	const char *name;
	const char *result;  /* its path in a result, "codec.up.raw"; NULL: it is not there */
	const char *help;    /* of the field of a result, or of the metric */
	const char *metric;  /* on the page of metrics; NULL: it is not there */
	const char *trouble; /* its word in a summary, where it is not 0; NULL: it is not there */
	const char *health;  /* its field on the page of health; NULL: it is not there */
	size_t offset;
	enum tw_figure_type type;
	uint32_t bins; /* so many values, one after the other: a histogram; 0: one value */
	bool derived;  /* it has no field, and is only shown */
	bool most;     /* of several, the largest counts; else their sum */
	size_t known;  /* it has a value while the bool there is true, or else no line and null on
			  these pages; 0: always */
	/* In a result: */
	size_t over; /* it is divided by the TW_COUNT there; 0: by nothing */
	bool zero;   /* ... and is 0 if that is; else null */
	bool each;   /* it is of one shard: divided by their number */
	bool root;   /* it is the square root */
	double (*of)(const struct tw_outcome *o); /* it is this, and not the field */
	/* It, or the group that it heads, is null unless this is true; NULL: it is there. */
	bool (*when)(const struct tw_outcome *o);
};

/* Add up the figures whose fields are among these bytes of the struct; `to` and `a` are those
 * bytes. */
void tw_figures_add(const struct tw_figure *rows, size_t from, size_t bytes, void *to,
		    const void *a);
/* Does the metric only grow? */
static inline bool tw_figure_is_counter(const struct tw_figure *f)
{
	return f->type < TW_REAL && !f->most;
}
/* Has it a value, on pages? */
static inline bool tw_figure_is_known(const struct tw_figure *f, const void *base)
{
	return !f->known || *((const bool *)base + f->known);
}
/* The number in the field, without its sign. */
uint64_t tw_figure_count(const struct tw_figure *f, const void *base);
/* The same, times in seconds. */
double tw_figure_real(const struct tw_figure *f, const void *base);

#endif
