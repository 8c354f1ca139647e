/* SPDX-License-Identifier: Apache-2.0 */
/* token_figures.h - how well the next tokens of a text are predicted, whatever the loss was. */
#ifndef TW_QUERY_TOKEN_FIGURES_H
#define TW_QUERY_TOKEN_FIGURES_H

#include "data/data.h"

#include <jansson.h>

struct tw_token_figures {
	double nats; /* sum over all tokens of minus the logarithm of the right one's probability */
	uint64_t tokens;
};

/* Samples from..from+count of the set, whose outputs are y: a logit for each class at each
 * position. */
void tw_token_figures_add(struct tw_token_figures *f, const struct tw_data *d,
			  const struct tw_samples *set, uint64_t from, uint32_t count,
			  const float *y);
/* Add tokens, nats (the mean), bits_per_byte of bytes or else bits_per_token, and perplexity. */
void tw_token_figures_report(const struct tw_token_figures *f, const struct tw_data *d, json_t *o);

#endif
