/* SPDX-License-Identifier: Apache-2.0 */
/* verb_hints.h - what people type where a verb belongs, and the command that they mean. */
#ifndef TW_CLI_VERB_HINTS_H
#define TW_CLI_VERB_HINTS_H

#include <stdbool.h>
#include <stddef.h>

struct tw_verb_hint {
	const char *theirs;
	const char *ours; /* the command after `thalweg`; its word in capitals stands for theirs */
	const char *note; /* the beginning of the sentence; NULL: none */
};
extern const struct tw_verb_hint tw_verb_hints[]; /* theirs NULL at the end */

/* `word` is no verb, and `next`, which may be NULL, follows it.  Writes what to type instead,
 * "use `thalweg train job.yaml`": for another program's verb, and for a file.  False: nothing is
 * known of the word. */
bool tw_verb_hint(const char *word, const char *next, char *out, size_t room);

#endif
