/* SPDX-License-Identifier: Apache-2.0 */
/* sample_line.h - one line of a stream as one sample: numbers with commas between them, or an
 * object of JSON.
 *
 * The first line shows how many values a sample has, and of JSON what they are called; a first line
 * of names is a header.  Every line is then read by itself: one that is broken says so, and changes
 * nothing for those behind it. */
#ifndef TW_DATA_FORMAT_SAMPLE_LINE_H
#define TW_DATA_FORMAT_SAMPLE_LINE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_line_wishes {
	const char *name;    /* of the stream, for sentences */
	const char *label;   /* "last", "first", a number from 1, or a name */
	const char *columns; /* JSON: "[a, b]"; "all": every field but the label */
	char separator;
	uint32_t classes; /* labels are whole numbers below this; 0: one value is predicted */
};

struct tw_line_format {
	struct tw_line_wishes wishes;
	bool json;
	bool header;       /* the first line is none of the samples */
	uint32_t columns;  /* CSV: of a line, with the label */
	uint32_t label;    /* CSV: its column, from 0 */
	const char **name; /* JSON: of fields that have values, in their order ... */
	uint32_t names;
	const char *answer; /* ... and of the label */
	uint32_t features;
};

/* From the first line.  `keep` has the names.  TW_BAD_INPUT: *why says what is wrong with it. */
enum tw_status tw_line_learn(const struct tw_line_wishes *wishes, char *line, size_t bytes,
			     struct tw_arena *keep, struct tw_line_format *out,
			     struct tw_error *why);
/* Line `number` (from 1; it changes) as value[features] and *label or *target.  TW_BAD_INPUT: it is
 * broken, and *why says how, with the name and the number. */
enum tw_status tw_line_read(const struct tw_line_format *f, uint64_t number, char *line,
			    size_t bytes, float *value, uint32_t *label, float *target,
			    struct tw_error *why);

#endif
