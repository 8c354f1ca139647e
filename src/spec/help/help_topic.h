/* SPDX-License-Identifier: Apache-2.0 */
/* help_topic.h - help on one word of a job file: a field, a section, a preset, a variant, a layer.
 * */
#ifndef TW_SPEC_HELP_TOPIC_H
#define TW_SPEC_HELP_TOPIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Print everything that `word` names: "update.rate", "rate", "update", "dana", "csv", "relu",
 * "cross-entropy"; another program's name ("lr") is answered with ours.  Returns how many things
 * that were; 0: none, and nothing is printed. */
size_t tw_job_topic(FILE *out, const char *word);
/* Something that other programs have and this one has not ("lstm", "onnx", "gpu"): the sentence
 * "... not supported; instead ..." into out.  False: nothing is known of the word. */
bool tw_job_topic_absent(const char *word, char *out, size_t room);
/* Is there a section of that name, which may be a verb, too? */
bool tw_job_is_section(const char *word);
/* Word number k of all that tw_job_topic knows without looking at synonyms, for suggestions; NULL
 * after the last.  The text lives until the next call. */
const char *tw_job_topic_at(size_t k);

#endif
