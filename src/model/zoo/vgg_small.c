/* SPDX-License-Identifier: Apache-2.0 */
/* vgg_small.c - pairs of 3x3 convolutions between poolings, and one hidden layer. */
#include "model/layer_list.h"

struct vgg_options {
	uint32_t width, hidden, activation, pool;
	bool batchnorm;
	float dropout;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct vgg_options, width, TW_U32, "32", "filters", 1, 4096,
		  "filters of the first two convolutions; the other two have twice as many"),
	TW_OPTION(struct vgg_options, hidden, TW_U32, "256", "values", 1, 1e6,
		  "size of the hidden layer"),
	TW_OPTION_CHOICE(struct vgg_options, activation, "activation", "relu",
			 tw_layer_list_activations, "activation after each hidden layer"),
	TW_OPTION_CHOICE(struct vgg_options, pool, "pool", "max", tw_layer_list_pools,
			 "how 2x2 values become one: the largest, or their average"),
	TW_OPTION(struct vgg_options, batchnorm, TW_BOOL, "false", NULL, 0, 0,
		  "add batch normalisation after each convolution, which then has no bias"),
	TW_OPTION(struct vgg_options, dropout, TW_F32, "0", NULL, 0, 0.99,
		  "dropout rate of the hidden layer", .example = "0.2"),
	TW_OPTION_END
};

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct vgg_options *o = options;
	const char *activation = tw_layer_list_activations[o->activation];
	struct tw_layer_list s = { .keep = keep };
	enum tw_status status = tw_layer_list_wants_image("vgg-small", &site->in, 4, why);

	if (status != TW_OK)
		return status;
	for (uint32_t k = 0; k < 4; k++) {
		tw_layer_list_layer(&s, "conv %u 3x3 pad 1%s", o->width << (k / 2),
				    o->batchnorm ? " bias false" : "");
		if (o->batchnorm)
			tw_layer_list_layer(&s, "batchnorm");
		tw_layer_list_layer(&s, "%s", activation);
		if (k % 2)
			tw_layer_list_layer(&s, "%s 2", tw_layer_list_pool(o->pool));
	}
	tw_layer_list_layer(&s, "linear %u", o->hidden);
	tw_layer_list_layer(&s, "%s", activation);
	tw_layer_list_dropout(&s, o->dropout);
	tw_layer_list_layer(&s, "linear %u", tw_layer_list_outputs(site));
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_vgg_small = {
	.name = "vgg-small",
	.help = "3x3 convolutions 32-32-pool-64-64-pool, 256 hidden: 870,634 parameters on MNIST",
	.options = rows,
	.options_bytes = sizeof(struct vgg_options),
	.layers = layers,
};
