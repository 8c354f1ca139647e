/* SPDX-License-Identifier: Apache-2.0 */
/* other_layers.h - layers that other programs have and this one has not; what to use instead. */
#ifndef TW_MODEL_OTHER_LAYERS_H
#define TW_MODEL_OTHER_LAYERS_H

struct tw_other_layer {
	const char *theirs;  /* small letters and digits: "conv1d" */
	const char *instead; /* "use `gelu`": what is quoted is a layer that can be written so */
};
extern const struct tw_other_layer tw_other_layers[]; /* theirs NULL at the end */

/* The row of a layer that a user called `word`, in any spelling ("Conv1d", "leaky_re_lu"); NULL:
 * none. */
const struct tw_other_layer *tw_other_layer_find(const char *word);

#endif
