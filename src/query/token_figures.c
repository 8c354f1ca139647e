/* SPDX-License-Identifier: Apache-2.0 */
/* token_figures.c - how well the next tokens of a text are predicted, in doubles and by plain
 * loops. */
#include "query/token_figures.h"

#include "base/json.h"

#include <math.h>

static double nats_of(const float *z, uint32_t classes, uint32_t label)
{
	double most = (double)z[0], sum = 0;

	for (uint32_t k = 1; k < classes; k++)
		most = (double)z[k] > most ? (double)z[k] : most;
	for (uint32_t k = 0; k < classes; k++)
		sum += exp((double)z[k] - most);
	return log(sum) + most - (double)z[label];
}

void tw_token_figures_add(struct tw_token_figures *f, const struct tw_data *d,
			  const struct tw_samples *set, uint64_t from, uint32_t count,
			  const float *y)
{
	const uint64_t n = count * d->features;
	const uint32_t *label = set->label + from * d->features;

	for (uint64_t i = 0; i < n; i++)
		f->nats += nats_of(y + i * d->classes, d->classes, label[i]);
	f->tokens += n;
}

void tw_token_figures_report(const struct tw_token_figures *f, const struct tw_data *d, json_t *o)
{
	const double nats = f->nats / (double)f->tokens;

	tw_json_set(o, "tokens", tw_json_count(f->tokens));
	tw_json_set(o, "nats", tw_json_number(nats));
	tw_json_set(o, d->kind == TW_VALUE_U8 ? "bits_per_byte" : "bits_per_token",
		    tw_json_number(nats / log(2)));
	tw_json_set(o, "perplexity", tw_json_number(exp(nats)));
}
