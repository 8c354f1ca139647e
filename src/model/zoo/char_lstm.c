/* SPDX-License-Identifier: Apache-2.0 */
/* char_lstm.c - the recurrent network for characters: an embedding, lstm layers, and an output for
 * each token at each position. */
#include "model/layer_list.h"

struct lstm_options {
	uint32_t layers, width;
	float dropout;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct lstm_options, layers, TW_U32, "1", "layers", 1, 100,
		  "number of lstm layers", .example = "2"),
	TW_OPTION(struct lstm_options, width, TW_U32, "128", "features", 1, 16384,
		  "features of each position, in the embedding and in each layer"),
	TW_OPTION(struct lstm_options, dropout, TW_F32, "0", NULL, 0, 0.99,
		  "dropout rate behind each layer", .example = "0.2"),
	TW_OPTION_END,
};

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct lstm_options *o = options;
	struct tw_layer_list s = { .keep = keep };

	if (!site->tokens)
		return tw_fail(why, TW_BAD_INPUT,
			       "char-lstm predicts the next token at each position, and the data "
			       "has no tokens; as data.source use text or tokens");
	tw_layer_list_layer(&s, "embedding %u %u", tw_layer_list_outputs(site), o->width);
	for (uint32_t k = 0; k < o->layers; k++) {
		tw_layer_list_layer(&s, "lstm %u", o->width);
		tw_layer_list_dropout(&s, o->dropout);
	}
	tw_layer_list_layer(&s, "linear %u", tw_layer_list_outputs(site));
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_char_lstm = {
	.name = "char-lstm",
	.help = "a recurrent network that predicts the next token; the default has 0.2 million "
		"parameters",
	.options = rows,
	.options_bytes = sizeof(struct lstm_options),
	.layers = layers,
	.takes_tokens = true,
};
