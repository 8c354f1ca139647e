/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.h - sentences that suggest variants without knowing their names.
 *
 * A mark in brackets stands for the variants that have what it says: "use rule: [plain rule]"
 * becomes "use rule: sgd".  Several are listed, "async or ssp", in the order of their names; "a"
 * or "an" before what it says takes the first alone: "codec: {up: [an exact codec]}". */
#ifndef TW_SPEC_SUGGEST_H
#define TW_SPEC_SUGGEST_H

#include "spec/job.h"

/* The sentence with its marks filled in; "[gate]" is the job's own gate.  A mark that is not known
 * is a bug (HOLDS).  Returns out. */
const char *tw_suggest(const struct tw_job *job, const char *sentence, char *out, size_t room);

#endif
