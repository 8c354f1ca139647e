/* SPDX-License-Identifier: Apache-2.0 */
/* c_text.h - a trained network as C source that needs only the C library. */
#ifndef TW_MODEL_C_TEXT_H
#define TW_MODEL_C_TEXT_H

#include "graph/graph.h"

/* Write the parameters and `static void network(const float *in, float *out, float *room)`, which
 * computes one sample with room for MODEL_ROOM floats.  `vector` has all elements, trainable and
 * buffers.  TW_BAD_INPUT with a sentence: a layer has no C source, or a parameter is not a number.
 */
enum tw_status tw_c_text(const struct tw_graph *g, const float *vector, FILE *out,
			 struct tw_error *why);
/* A list of floats, 8 in a line; exactly these numbers come back. */
void tw_c_floats(const char *name, const float *v, size_t n, FILE *out);

#endif
