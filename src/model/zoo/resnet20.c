/* SPDX-License-Identifier: Apache-2.0 */
/* resnet20.c - He et al. (2016) as they ran it on CIFAR: three stages of residual pairs of 3x3
 * convolutions.  Where a stage halves the image, a 1x1 convolution goes around the first pair. */
#include "model/layer_list.h"

struct resnet_options {
	uint32_t width, blocks, activation, pool;
};

static const char *const activations[] = { "relu", "tanh", NULL };
enum { AVERAGE, MAX };
static const char *const pools[] = { [AVERAGE] = "average", [MAX] = "max", NULL };

static const struct tw_option rows[] = {
	TW_OPTION(struct resnet_options, width, TW_U32, "16", "filters", 1, 4096,
		  "filters of the first stage; the next have twice and four times as many"),
	TW_OPTION(struct resnet_options, blocks, TW_U32, "3", "blocks", 1, 40,
		  "residual blocks in each stage; 3 make 20 layers, 9 make 56"),
	TW_OPTION_CHOICE(struct resnet_options, activation, "activation", "relu", activations,
			 "activation after each normalisation"),
	TW_OPTION_CHOICE(struct resnet_options, pool, "pool", "average", pools,
			 "how each filter's last image becomes one value"),
	TW_OPTION_END
};

static void convolve(struct tw_layer_list *s, uint32_t filters, uint32_t stride)
{
	if (stride > 1)
		tw_layer_list_layer(s, "conv %u 3x3 pad 1 stride %u bias false", filters, stride);
	else
		tw_layer_list_layer(s, "conv %u 3x3 pad 1 bias false", filters);
	tw_layer_list_layer(s, "batchnorm");
}

static void block(struct tw_layer_list *s, uint32_t filters, uint32_t stride,
		  const char *activation)
{
	struct tw_layer_list body = { .keep = s->keep }, shortcut = { .keep = s->keep };

	convolve(&body, filters, stride);
	tw_layer_list_layer(&body, "%s", activation);
	convolve(&body, filters, 1);
	if (stride > 1) {
		tw_layer_list_layer(&shortcut, "conv %u 1x1 stride %u bias false", filters, stride);
		tw_layer_list_layer(&shortcut, "batchnorm");
	}
	tw_layer_list_residual(s, &body, stride > 1 ? &shortcut : NULL);
	tw_layer_list_layer(s, "%s", activation);
}

/* What two strides of 2 leave of a side. */
static uint32_t quarter(uint32_t side)
{
	return ((side + 1) / 2 + 1) / 2;
}

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct resnet_options *o = options;
	const char *activation = activations[o->activation];
	struct tw_layer_list s = { .keep = keep };
	const enum tw_status status = tw_layer_list_wants_image("resnet20", &site->in, 8, why);

	if (status != TW_OK)
		return status;
	convolve(&s, o->width, 1);
	tw_layer_list_layer(&s, "%s", activation);
	for (uint32_t stage = 0; stage < 3; stage++)
		for (uint32_t k = 0; k < o->blocks; k++)
			block(&s, o->width << stage, stage && !k ? 2 : 1, activation);
	if (o->pool == MAX)
		tw_layer_list_layer(&s, "maxpool %ux%u", quarter(site->in.d[1]),
				    quarter(site->in.d[2]));
	else
		tw_layer_list_layer(&s, "globalpool");
	tw_layer_list_layer(&s, "linear %u", tw_layer_list_outputs(site));
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_resnet20 = {
	.name = "resnet20",
	.help = "residual network of CIFAR: 272,474 parameters for 3x32x32 and 10 classes",
	.options = rows,
	.options_bytes = sizeof(struct resnet_options),
	.layers = layers,
};
