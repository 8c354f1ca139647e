/* SPDX-License-Identifier: Apache-2.0 */
/* autoencoder.c - fully connected layers down to a code and back up to the input. */
#include "model/layer_list.h"

struct autoencoder_options {
	struct tw_f64s hidden;
	uint32_t activation;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct autoencoder_options, hidden, TW_F64S, "[512, 64]", NULL, 1, 1e6,
		  "sizes of the encoder's layers, the last of which is the code; the decoder "
		  "mirrors them"),
	TW_OPTION_CHOICE(struct autoencoder_options, activation, "activation", "relu",
			 tw_layer_list_activations, "activation after each hidden layer"),
	TW_OPTION_END
};

static enum tw_status check(const struct autoencoder_options *o, const struct tw_model_site *site,
			    struct tw_error *why)
{
	const size_t size = tw_shape_size(&site->in);

	if (o->hidden.count == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "hidden: an autoencoder needs at least one size, such as [512, 64]");
	if (site->classes || site->targets != size)
		return tw_fail(why, TW_BAD_INPUT,
			       "an autoencoder predicts its input of %zu values, but the data asks "
			       "it to predict %u %s",
			       size, site->classes ? site->classes : site->targets,
			       site->classes ? "classes" : "target values");
	return tw_layer_list_widths("hidden", &o->hidden, why);
}

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct autoencoder_options *o = options;
	struct tw_layer_list s = { .keep = keep };
	const enum tw_status status = check(o, site, why);
	const size_t n = o->hidden.count;

	if (status != TW_OK)
		return status;
	for (size_t k = 0; k < 2 * n - 1; k++) {
		tw_layer_list_layer(&s, "linear %.0f", o->hidden.at[k < n ? k : 2 * n - 2 - k]);
		tw_layer_list_layer(&s, "%s", tw_layer_list_activations[o->activation]);
	}
	tw_layer_list_layer(&s, "linear %u", site->targets);
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_autoencoder = {
	.name = "autoencoder",
	.help = "fully connected, predicts its own input through a narrow code; use loss "
		"mean-squared, or binary-cross-entropy for inputs from 0 to 1",
	.options = rows,
	.options_bytes = sizeof(struct autoencoder_options),
	.layers = layers,
	.predicts_input = true,
};
