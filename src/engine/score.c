/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - a vector of parameters scored on all samples that an engine evaluates. */
#include "engine/score.h"

#define PORTIONS 16u /* those of a run (node/duty/eval/eval_scores.c), so that sums are the same */

enum tw_status tw_score_all(const struct tw_engine *e, const float *vector, void *scratch,
			    struct tw_score *sum)
{
	const struct tw_piece piece = { .at = vector, .n = e->trainable + e->buffers };
	const uint64_t n = e->tests, portions = n < PORTIONS ? n : PORTIONS;

	*sum = (struct tw_score){ 0 };
	for (uint64_t k = 0; k < portions; k++) {
		const uint64_t from = n * k / portions;
		const struct tw_inputs in = { .from = from,
					      .count = (uint32_t)(n * (k + 1) / portions - from),
					      .piece = &piece,
					      .pieces = 1 };
		struct tw_score one = { 0 };
		const enum tw_status st = e->class->evaluate(e, scratch, &in, &one);

		if (st != TW_OK)
			return st;
		sum->loss += one.loss;
		sum->correct = one.correct < 0 ? -1 : sum->correct + one.correct;
		sum->samples += one.samples;
	}
	return TW_OK;
}
