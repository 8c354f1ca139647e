/* SPDX-License-Identifier: Apache-2.0 */
/* hint.h - answers to what people type first: a field as a flag or by another program's name in the
 * environment, a file of data in place of a job. */
#ifndef TW_SPEC_HINT_H
#define TW_SPEC_HINT_H

#include <stdbool.h>
#include <stddef.h>

/* What a file is that is no job, by the end of its name. */
struct tw_other_file {
	const char *suffix; /* ".parquet", small letters */
	/* The sentence after the file's name; what is quoted (`...`) are fields of a job, or a
	 * command, and the program takes it. */
	const char *says;
};
extern const struct tw_other_file tw_other_files[]; /* suffix NULL at the end */

/* A user wrote `--word value` where there is no such flag.  If a field is meant, say how it is
 * given: "the learning rate is --set update.rate=0.1"; if something else is, say that: "GPUs are
 * not supported; instead ...".  `value` may be NULL; an example stands for it where the field does
 * not take it.  False: nothing is known of the word. */
bool tw_hint_setting(const char *word, const char *value, char *out, size_t room);
/* The same for a variable THALWEG_<name>: "the learning rate is THALWEG_UPDATE_RATE". */
bool tw_hint_variable(const char *name, char *out, size_t room);
/* Is the file one of data, or of another kind that is no job, by its name?  Then a sentence that
 * says how a job names it. */
bool tw_hint_file(const char *path, char *out, size_t room);
/* "update.rate" as a variable without its prefix: UPDATE_RATE. */
void tw_hint_capitals(const char *path, char *out, size_t room);

#endif
