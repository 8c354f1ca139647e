/* SPDX-License-Identifier: Apache-2.0 */
/* lenet.c - two convolutions of 5x5 with pooling and one hidden layer, as in Caffe's LeNet. */
#include "model/layer_list.h"

struct lenet_options {
	uint32_t activation, pool;
};

static const struct tw_option rows[] = {
	TW_OPTION_CHOICE(struct lenet_options, activation, "activation", "relu",
			 tw_layer_list_activations, "activation after each hidden layer"),
	TW_OPTION_CHOICE(struct lenet_options, pool, "pool", "max", tw_layer_list_pools,
			 "how 2x2 values become one: the largest, or their average"),
	TW_OPTION_END
};

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct lenet_options *o = options;
	const char *activation = tw_layer_list_activations[o->activation];
	struct tw_layer_list s = { .keep = keep };
	/* 16 -> 12 -> 6 -> 2 -> 1 */
	enum tw_status status = tw_layer_list_wants_image("lenet", &site->in, 16, why);

	if (status != TW_OK)
		return status;
	for (uint32_t filters = 20; filters <= 50; filters += 30) {
		tw_layer_list_layer(&s, "conv %u 5x5", filters);
		tw_layer_list_layer(&s, "%s", activation);
		tw_layer_list_layer(&s, "%s 2", tw_layer_list_pool(o->pool));
	}
	tw_layer_list_layer(&s, "linear 500");
	tw_layer_list_layer(&s, "%s", activation);
	tw_layer_list_layer(&s, "linear %u", tw_layer_list_outputs(site));
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_lenet = {
	.name = "lenet",
	.help = "20 and 50 filters of 5x5, 500 hidden: 431,080 parameters on MNIST",
	.options = rows,
	.options_bytes = sizeof(struct lenet_options),
	.layers = layers,
};
