/* SPDX-License-Identifier: Apache-2.0 */
/* score.h - a vector of parameters scored on all samples that an engine evaluates. */
#ifndef TW_ENGINE_SCORE_H
#define TW_ENGINE_SCORE_H

#include "actor/engine.h"

/* Scores all of the engine's test samples with `vector` (trainable elements, then buffers), in the
 * portions of a run, so that the sums are those of a run with one worker.  `scratch` has
 * engine->scratch_bytes.  What the engine says is handed on. */
enum tw_status tw_score_all(const struct tw_engine *e, const float *vector, void *scratch,
			    struct tw_score *sum);

#endif
