/* SPDX-License-Identifier: Apache-2.0 */
/* synonyms.h - what other programs call things, and what they are called here. */
#ifndef TW_SPEC_SYNONYMS_H
#define TW_SPEC_SYNONYMS_H

#include <stddef.h>

struct tw_synonym {
	const char *theirs; /* small letters, _ between words: "learning_rate" */
	/* A field ("update.rate"), a field with a value ("loss: mean-squared"), a flag of the
	 * command line ("--run DIR"); NULL: there is no such thing here. */
	const char *ours;
	/* What it is, as the beginning of a sentence: "the learning rate".  Where ours is NULL: all
	 * of the sentence, "... not supported; instead ..."; what is quoted there (`...`) is a
	 * field, fields of a job or a command, and the program takes it.  Never NULL. */
	const char *note;
};
extern const struct tw_synonym tw_synonyms[]; /* theirs NULL at the end */

/* The synonym for a field that a user called `word`, in any spelling ("learningRate", "batch-
 * size"); NULL: none. */
const struct tw_synonym *tw_synonym_field(const char *word);
/* The synonym for a value of the field at `path`; NULL: none. */
const struct tw_synonym *tw_synonym_value(const char *path, const char *word);
/* The word as the table has words: small letters, with _ between them. */
void tw_synonym_plain(const char *word, char *out, size_t room);
/* "the learning rate is update.rate here" into out. */
const char *tw_synonym_say(const struct tw_synonym *s, char *out, size_t room);

#endif
