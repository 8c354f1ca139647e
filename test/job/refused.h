/* SPDX-License-Identifier: Apache-2.0 */
/* refused.h - jobs that make no sense, and what is said of each. */
#ifndef TW_TEST_JOB_REFUSED_H
#define TW_TEST_JOB_REFUSED_H

#include "job/reading.h"

#define SIM     TW_WORLD_SIM
#define THREADS TW_WORLD_THREADS

/* Lines 1 and 2 are SMALL's, so what a case adds begins on line 3. */
struct refused {
	const char *text, *set, *env;
	enum tw_world_kind world;
	const char *says[4]; /* all must be in the sentence, the first at its beginning */
};

/* Each is refused with its sentence, or the test fails. */
void refused_all(const struct refused *cases, size_t count);

#endif
