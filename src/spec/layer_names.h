/* SPDX-License-Identifier: Apache-2.0 */
/* layer_names.h - layers of a network as people name them in a job. */
#ifndef TW_SPEC_LAYER_NAMES_H
#define TW_SPEC_LAYER_NAMES_H

#include "spec/job.h"

struct tw_graph;

/* The nodes that have trainable parameters and are named in `list`, a word or a list of words as
 * TW_WORDS has them.  A word is the name that `thalweg inspect` shows (and everything inside it: 4
 * is also 4.body.0), or a range of such numbers: 0-7.  `node` has an entry for each node, which
 * becomes true.  TW_BAD_INPUT, at the field `path`: a word names none; the nearest is said. */
enum tw_status tw_job_match_layers(const struct tw_job *job, const struct tw_graph *g,
				   const char *path, const char *list, bool *node,
				   struct tw_error *why);
/* The factors of update.layers as runs of the vector, in the job's memory; NULL: none. */
enum tw_status tw_job_layer_rates(struct tw_job *job, const struct tw_graph *g,
				  const struct tw_rate_run **out, struct tw_error *why);
/* Freeze what model.freeze names. */
enum tw_status tw_job_freeze(const struct tw_job *job, struct tw_graph *g, struct tw_error *why);

#endif
