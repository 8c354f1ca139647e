/* SPDX-License-Identifier: Apache-2.0 */
/* oproom.h - an op prepared as a program would, run forward and backward between fence posts. */
#ifndef TEST_GRAPH_OPROOM_H
#define TEST_GRAPH_OPROOM_H

#include "graph/fence.h"
#include "graph/truth.h"

/* What is prepared. */
struct oproom {
	const struct truth *truth;
	struct tw_op_site site;
	struct tw_onednn *kit;
	void *kernel, *kernel_copy;
	struct tw_op_memory need;
};

/* How it is run. */
struct oproom_way {
	bool in_place, back_in_place;
	uint8_t garbage; /* what memory holds before */
	size_t shift;    /* bytes that parameters and their changes are off alignment */
	size_t cut;      /* parameter 0 lies in pieces of so many floats; 0: in one */
};

/* What one run gave, in PLAIN order; NULL where there is nothing. */
struct oproom_result {
	const char *wrong; /* NULL, or what the op did that it must not */
	float *out, *gradient[TRUTH_TENSORS];
	double loss, correct;
};

/* Layouts that the op runs in for this shape, each with in_layout and out_layout set in a copy of
 * the site; returns how many (at most 3). */
uint32_t oproom_layouts(const struct truth *t, struct tw_op_site *site);
/* Prepare for the site, whose layouts, relu and wants are as wanted. */
void oproom_make(struct oproom *room, const struct truth *t, const struct tw_op_site *site);
void oproom_free(struct oproom *room);
/* Safe from any thread; never fails the test by itself. */
struct oproom_result oproom_run(const struct oproom *room, const struct oproom_way *way);
void oproom_result_free(struct oproom_result *r);

/* These fail the test. */
void oproom_near_truth(const struct oproom *room, const struct oproom_result *r, const char *what);
void oproom_same_bits(const struct oproom *room, const struct oproom_result *a,
		      const struct oproom_result *b, const char *what);

#endif
