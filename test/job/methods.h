/* SPDX-License-Identifier: Apache-2.0 */
/* methods.h - every method with its formula, and the circumstances it is tried in. */
#ifndef TW_TEST_JOB_METHODS_H
#define TW_TEST_JOB_METHODS_H

#include "job/serial.h"

/* A method: fields of a job, and what they should mean. */
struct method {
	const char *name, *strategy, *update, *other;
	uint32_t least; /* workers it needs */
	struct formula f;
};

extern const struct method methods[];
extern const size_t method_count;

#define LAWS  6
#define LINKS 3

/* Run it so and replay it; fails the test if a bit differs. */
void method_try(const struct method *m, uint32_t workers, uint32_t shards, uint64_t seed,
		size_t law, size_t link, struct seen *seen);
/* Did its runs meet what the method is about?  Fails the test if not. */
void method_met(const struct method *m, const struct seen *seen);

#endif
