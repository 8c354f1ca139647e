/* SPDX-License-Identifier: Apache-2.0 */
/* lstm_classifier.c - the recurrent network for whole series: lstm layers, the last position or the
 * mean of all, and an output for each class or value. */
#include "model/layer_list.h"

struct lstm_options {
	uint32_t layers, width;
	float dropout;
	bool both;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct lstm_options, layers, TW_U32, "1", "layers", 1, 100,
		  "number of lstm layers", .example = "2"),
	TW_OPTION(struct lstm_options, width, TW_U32, "64", "features", 1, 16384,
		  "features of each position, from each direction"),
	TW_OPTION(struct lstm_options, both, TW_BOOL, "false", NULL, 0, 0,
		  "layers in both directions, and the mean of all positions instead of the last"),
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

	if (!site->series)
		return tw_fail(why, TW_BAD_INPUT,
			       "lstm-classifier reads series, and the data has none; give a CSV "
			       "file, with "
			       "data.group and data.time");
	tw_layer_list_layer(&s, "series %u", site->series);
	for (uint32_t k = 0; k < o->layers; k++) {
		tw_layer_list_layer(&s, "lstm %u%s", o->width, o->both ? " both" : "");
		tw_layer_list_dropout(&s, o->dropout);
	}
	tw_layer_list_layer(&s, "summary %s", o->both ? "mean" : "last");
	tw_layer_list_layer(&s, "linear %u", tw_layer_list_outputs(site));
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_lstm_classifier = {
	.name = "lstm-classifier",
	.help = "a recurrent network for series of unequal lengths; the default has 18 thousand "
		"parameters",
	.options = rows,
	.options_bytes = sizeof(struct lstm_options),
	.layers = layers,
	.takes_series = true,
};
