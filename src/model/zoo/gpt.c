/* SPDX-License-Identifier: Apache-2.0 */
/* gpt.c - a decoder of tokens as GPT-2 has it: blocks of causal attention and of two linear layers,
 * each normalised before and added to what it got.  Embedding and output are tied if asked for. */
#include "model/layer_list.h"

struct gpt_options {
	uint32_t layers, heads, width;
	float dropout;
	bool tied;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct gpt_options, layers, TW_U32, "4", "blocks", 1, 80,
		  "blocks of attention and two linear layers"),
	TW_OPTION(struct gpt_options, heads, TW_U32, "4", NULL, 1, 4096,
		  "heads of each attention; they divide the width"),
	TW_OPTION(struct gpt_options, width, TW_U32, "128", "features", 1, 16384,
		  "features of each position"),
	TW_OPTION(struct gpt_options, dropout, TW_F32, "0", NULL, 0, 0.99,
		  "dropout rate of the embeddings and of what each half of a block adds",
		  .example = "0.1"),
	TW_OPTION(struct gpt_options, tied, TW_BOOL, "false", NULL, 0, 0,
		  "the output's weight is the embedding, so both are one tensor"),
	TW_OPTION_END,
};

static enum tw_status check(const struct gpt_options *o, const struct tw_model_site *site,
			    struct tw_error *why)
{
	if (!site->tokens)
		return tw_fail(why, TW_BAD_INPUT,
			       "gpt predicts the next token at each position, and the data has no "
			       "tokens; as data.source use text or tokens");
	if (o->width % o->heads)
		return tw_fail(why, TW_BAD_INPUT,
			       "heads: %u do not divide the width %u; use, for example, width: %u",
			       o->heads, o->width, (o->width / o->heads + 1) * o->heads);
	return TW_OK;
}

static void attention(const struct gpt_options *o, struct tw_layer_list *s)
{
	tw_layer_list_layer(s, "layernorm");
	tw_layer_list_layer(s, "linear %u", 3 * o->width);
	tw_layer_list_layer(s, "attention %u causal", o->heads);
	tw_layer_list_layer(s, "linear %u", o->width);
	tw_layer_list_dropout(s, o->dropout);
}

static void two_layers(const struct gpt_options *o, struct tw_layer_list *s)
{
	tw_layer_list_layer(s, "layernorm");
	tw_layer_list_layer(s, "linear %u", 4 * o->width);
	tw_layer_list_layer(s, "gelu");
	tw_layer_list_layer(s, "linear %u", o->width);
	tw_layer_list_dropout(s, o->dropout);
}

static enum tw_status layers(const void *options, const struct tw_model_site *site,
			     struct tw_arena *keep, struct tw_layer **out, size_t *count,
			     struct tw_error *why)
{
	const struct gpt_options *o = options;
	struct tw_layer_list s = { .keep = keep };
	enum tw_status status = check(o, site, why);

	if (status != TW_OK)
		return status;
	tw_layer_list_layer(&s, "embedding %u %u", tw_layer_list_outputs(site), o->width);
	tw_layer_list_layer(&s, "positions");
	tw_layer_list_dropout(&s, o->dropout);
	for (uint32_t k = 0; k < o->layers; k++) {
		struct tw_layer_list first = { .keep = keep }, second = { .keep = keep };

		attention(o, &first);
		tw_layer_list_residual(&s, &first, NULL);
		two_layers(o, &second);
		tw_layer_list_residual(&s, &second, NULL);
	}
	tw_layer_list_layer(&s, "layernorm");
	tw_layer_list_layer(&s, "linear %u%s", tw_layer_list_outputs(site),
			    o->tied ? " bias false tied true" : "");
	return tw_layer_list_done(&s, out, count, why);
}

const struct tw_zoo tw_zoo_gpt = {
	.name = "gpt",
	.help = "a transformer that predicts the next token; the default has 0.9 million "
		"parameters",
	.options = rows,
	.options_bytes = sizeof(struct gpt_options),
	.layers = layers,
	.takes_tokens = true,
};
