/* SPDX-License-Identifier: Apache-2.0 */
/* layer_text.h - "conv 20 5x5 pad 2 init xavier" as an op, its options and an initialisation. */
#ifndef TW_MODEL_LAYER_TEXT_H
#define TW_MODEL_LAYER_TEXT_H

#include "model/model.h"

#define TW_INIT_UNSAID UINT32_MAX

struct tw_layer_text {
	const struct tw_op *op;
	void *options;
	uint32_t init; /* enum tw_init, or TW_INIT_UNSAID */
};

enum tw_layer_kind { TW_LAYER_INSIDE, TW_LAYER_LOSS };

/* Read it.  Words are kept in `scratch`, texts among the options in `keep`.  An op of the other
 * kind is refused, telling where it belongs; an unknown one with what to use instead, or with the
 * nearest name.  *why is a sentence without place. */
enum tw_status tw_layer_text_read(const char *text, enum tw_layer_kind kind,
				  struct tw_arena *scratch, struct tw_arena *keep,
				  struct tw_layer_text *out, struct tw_error *why);
/* Our name for what another program calls a layer or a loss ("dense": "linear"); NULL: none. */
const char *tw_layer_elsewhere(const char *theirs);
/* Text for a sentence: short, on one line. */
const char *tw_layer_text_shown(const char *text, char out[80]);

#endif
