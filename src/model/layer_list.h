/* SPDX-License-Identifier: Apache-2.0 */
/* layer_list.h - what networks of the zoo write their layers on. */
#ifndef TW_MODEL_LAYER_LIST_H
#define TW_MODEL_LAYER_LIST_H

#include "base/arena.h"
#include "model/model.h"

/* Layers one after the other, in an arena.  The first failure is kept and everything after it does
 * nothing, so that a network is written without looking after every line. */
struct tw_layer_list {
	struct tw_arena *keep;
	struct tw_layer *layer;
	size_t layers, room;
	bool failed;
};

/* "conv %u 3x3 pad 1" */
void tw_layer_list_layer(struct tw_layer_list *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Both are given up to it; `shortcut` may be NULL. */
void tw_layer_list_residual(struct tw_layer_list *s, const struct tw_layer_list *body,
			    const struct tw_layer_list *shortcut);
/* dropout, unless the rate is 0 */
void tw_layer_list_dropout(struct tw_layer_list *s, float rate);
/* Hand over the layers: TW_OK or TW_NO_MEMORY. */
enum tw_status tw_layer_list_done(const struct tw_layer_list *s, struct tw_layer **out,
				  size_t *count, struct tw_error *why);

/* Activations that a network of the zoo offers by name, NULL at the end. */
extern const char *const tw_layer_list_activations[];
/* TW_CHOICE of the pooling layers: "max", "average"; and what the layer is called. */
extern const char *const tw_layer_list_pools[];
const char *tw_layer_list_pool(uint32_t choice);

/* How many values the last layer must give: classes, 1 for two classes under
 * binary-cross-entropy, or targets. */
uint32_t tw_layer_list_outputs(const struct tw_model_site *site);
/* Each of the list must be a whole number from 1; the sentence names the row and the number. */
enum tw_status tw_layer_list_widths(const char *row, const struct tw_f64s *list,
				    struct tw_error *why);
/* The input must be channels of at least side x side. */
enum tw_status tw_layer_list_wants_image(const char *who, const struct tw_shape *in, uint32_t side,
					 struct tw_error *why);

#endif
