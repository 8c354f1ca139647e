/* SPDX-License-Identifier: Apache-2.0 */
/* mlp.c - fully connected layers with an activation between them. */
#include "model/layer_list.h"

struct mlp_options {
	struct tw_f64s hidden;
	uint32_t activation;
	float dropout;
	bool shortcut;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct mlp_options, hidden, TW_F64S, "[512, 512]", NULL, 1, 1e6,
		  "sizes of the hidden layers; [] is a linear model"),
	TW_OPTION_CHOICE(struct mlp_options, activation, "activation", "relu",
			 tw_layer_list_activations, "activation after each hidden layer"),
	TW_OPTION(struct mlp_options, dropout, TW_F32, "0", NULL, 0, 0.99,
		  "dropout rate of the hidden layers", .example = "0.2"),
	TW_OPTION(struct mlp_options, shortcut, TW_BOOL, "false", NULL, 0, 0,
		  "add the outputs of a linear model: what is straight need not go through the "
		  "hidden layers"),
	TW_OPTION_END
};

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct mlp_options *o = options;
	struct tw_layer_list s = { .keep = keep }, body = { .keep = keep }, line = { .keep = keep };
	struct tw_layer_list *const to = o->shortcut ? &body : &s;
	enum tw_status status = tw_layer_list_widths("hidden", &o->hidden, why);

	if (status != TW_OK)
		return status;
	for (size_t k = 0; k < o->hidden.count; k++) {
		tw_layer_list_layer(to, "linear %.0f", o->hidden.at[k]);
		tw_layer_list_layer(to, "%s", tw_layer_list_activations[o->activation]);
		tw_layer_list_dropout(to, o->dropout);
	}
	tw_layer_list_layer(to, "linear %u", tw_layer_list_outputs(site));
	if (o->shortcut) {
		tw_layer_list_layer(&line, "linear %u", tw_layer_list_outputs(site));
		tw_layer_list_residual(&s, &body, &line);
	}
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_mlp = {
	.name = "mlp",
	.help = "fully connected: 784-512-512-10 on MNIST has 669,706 parameters",
	.options = rows,
	.options_bytes = sizeof(struct mlp_options),
	.layers = layers,
};
