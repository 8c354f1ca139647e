/* SPDX-License-Identifier: Apache-2.0 */
/* small_plan.h - a plan made by hand for tests of single parts of src/node, and numbers drawn for
 * them. */
#ifndef TEST_NODE_SMALL_PLAN_H
#define TEST_NODE_SMALL_PLAN_H

#include "base/arena.h"
#include "node/plan.h"

struct small_plan {
	struct tw_plan plan;
	struct tw_arena arena; /* options */
	size_t border[2];
};

/* One shard of `trainable` parameters and `buffers` running statistics; variants have their default
 * options.  The plan points into *p. */
void small_plan_open(struct small_plan *p, size_t trainable, size_t buffers, const char *gate,
		     const char *staleness, const char *rule);
/* With this codec for contributions. */
void small_plan_codec(struct small_plan *p, const struct tw_codec *up);
void small_plan_close(struct small_plan *p);

/* The nth number below `most`; the same in every run. */
uint64_t drawn(uint64_t nth, uint64_t most);
/* n gaussian values, named by `what`. */
void draw_floats(float *out, size_t n, uint64_t what);

#endif
