/* SPDX-License-Identifier: Apache-2.0 */
/* strom_dnn.c - an acoustic model of the size that Strom (2015) trained: 14.6 million parameters.
 *
 * The sizes are ours, chosen to give his count: 360 inputs (9 frames of 40 filter-bank energies),
 * five sigmoid layers of 1536 and 3000 states are 14,608,824 parameters.  With other data only
 * the first and the last layer change: n inputs and m outputs make
 * (n + 1) 1536 + 4 * 1537 * 1536 + 1537 m. */
#include "model/layer_list.h"

struct strom_options {
	uint32_t layers, width, activation;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct strom_options, layers, TW_U32, "5", "layers", 1, 100,
		  "number of hidden layers"),
	TW_OPTION(struct strom_options, width, TW_U32, "1536", "values", 1, 1e6,
		  "size of each hidden layer"),
	TW_OPTION_CHOICE(struct strom_options, activation, "activation", "sigmoid",
			 tw_layer_list_activations, "activation after each hidden layer"),
	TW_OPTION_END
};

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct strom_options *o = options;
	struct tw_layer_list s = { .keep = keep };

	for (uint32_t k = 0; k < o->layers; k++) {
		tw_layer_list_layer(&s, "linear %u", o->width);
		tw_layer_list_layer(&s, "%s", tw_layer_list_activations[o->activation]);
	}
	tw_layer_list_layer(&s, "linear %u", tw_layer_list_outputs(site));
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_strom_dnn = {
	.name = "strom-dnn",
	.help = "five sigmoid layers of 1536: 14.6 million parameters for 360 inputs and 3000 "
		"classes (10.7 million for MNIST's 784 and 10), the size of Strom's (2015)",
	.options = rows,
	.options_bytes = sizeof(struct strom_options),
	.layers = layers,
};
