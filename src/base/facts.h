/* SPDX-License-Identifier: Apache-2.0 */
/* facts.h - what is true of a job, by name, and what is refused when some of it is true.
 *
 * Facts are added where what they tell of is known.  A refusal only names them: its table stands
 * beside the feature that it belongs to, in whatever folder that is.
 *
 *  (1) whoever asks for a fact names one of the set. */
#ifndef TW_BASE_FACTS_H
#define TW_BASE_FACTS_H

#include "base/arena.h"

#include <stdbool.h>

struct tw_fact {
	const char *name;
	bool is;
};

/* Any number of facts; without any it is { .keep = ... }. */
struct tw_facts {
	struct tw_arena *keep; /* where they are */
	const struct tw_fact *at;
	size_t count;
};

/* Add a copy of these rows; false without memory. */
bool tw_facts_add(struct tw_facts *f, const struct tw_fact *rows, size_t count);
#define TW_FACTS_ADD(f, rows) tw_facts_add(f, rows, sizeof(rows) / sizeof((rows)[0]))

/* Is all of it true?  `when` is names of facts, with a blank between two; what has a '!' before its
 * name must be false. */
bool tw_facts_are(const struct tw_facts *f, const char *when);

/* One row of a table; the first that holds is said. */
struct tw_refusal_row {
	const char *when;     /* as above; NULL: the end of the table */
	const char *field;    /* is blamed; with a '.' at its end: those below it, but for `name` */
	const char *because;  /* where only this field was given, its place is named; may be NULL */
	const char *sentence; /* why, and what would work; with marks (spec/help/suggest.h) */
};

#endif
