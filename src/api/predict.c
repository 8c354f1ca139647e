/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - a trained network that predicts rows in memory. */
#include "api/handle.h"

#include "base/isa.h"
#include "query/trained_model.h"

#include <stdlib.h>
#include <string.h>

struct thalweg_model {
	struct tw_trained trained;
	struct tw_data data; /* of floats, whatever the training had */
	struct tw_forward *forward;
	struct thalweg_model_facts facts;
	float *output;   /* of one block of rows */
	uint32_t *label; /* answers that nobody looks at */
	float *target;
	uint32_t block;
};

static void describe(struct thalweg_model *m)
{
	const struct tw_data *d = &m->trained.card->data;
	const bool own = m->trained.card->task == TW_CARD_INPUT;

	m->facts = (struct thalweg_model_facts){
		.inputs = d->features,
		.rank = d->rank,
		.outputs = tw_trained_values(&m->trained),
		.classes = m->trained.card->task == TW_CARD_CLASSES,
		.input_names = d->names.column,
		.output_names = own ? d->names.column : d->names.answer,
	};
	memcpy(m->facts.shape, d->shape, d->rank * sizeof d->shape[0]);
}

static enum tw_status make_room(struct thalweg_model *m, struct tw_error *why)
{
	const struct tw_trained *t = &m->trained;

	m->data = t->card->data;
	m->data.kind = TW_VALUE_F32;
	m->block = t->card->batch;
	m->output = malloc((size_t)m->block * t->outputs * sizeof *m->output);
	m->label = calloc(m->block, sizeof *m->label);
	m->target = calloc((size_t)m->block * (m->data.targets + 1), sizeof *m->target);
	if (!m->output || !m->label || !m->target)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a batch of %u", m->block);
	return tw_trained_forward(t, &m->data, &m->forward, why);
}

enum thalweg_status thalweg_model_open(const char *path, struct thalweg_model **out,
				       struct thalweg_error *why)
{
	const struct tw_query_words none = { .set = NULL };
	const struct tw_log silence = { .sink = NULL };
	struct tw_error said = { .status = TW_OK };
	struct thalweg_model *m;
	enum tw_status st;

	if (!path || !out)
		return tw_api_null(why, "thalweg_model_open", path ? "out" : "path");
	if (tw_isa_check(&said) != TW_OK)
		return tw_api_fail(why, &said);
	m = calloc(1, sizeof *m);
	st = m ? tw_trained_open(path, NULL, &none, &silence, &m->trained, &said)
	       : tw_fail(&said, TW_NO_MEMORY, "no memory for the model");
	if (st == TW_OK)
		st = make_room(m, &said);
	if (st != TW_OK) {
		thalweg_model_close(m);
		return tw_api_fail(why, &said);
	}
	describe(m);
	*out = m;
	return tw_api_done(why);
}

void thalweg_model_close(struct thalweg_model *m)
{
	if (!m)
		return;
	tw_forward_close(m->forward);
	tw_trained_close(&m->trained);
	free(m->output);
	free(m->label);
	free(m->target);
	free(m);
}

const struct thalweg_model_facts *thalweg_model_facts(const struct thalweg_model *m)
{
	return m ? &m->facts : NULL;
}

enum thalweg_status thalweg_predict(struct thalweg_model *m, const float *rows, size_t count,
				    float *out, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	enum tw_status st = TW_OK;

	if (!m || (count && (!rows || !out)))
		return tw_api_null(why, "thalweg_predict", !m ? "model" : !rows ? "rows" : "out");
	for (size_t from = 0; from < count && st == TW_OK; from += m->block) {
		const uint32_t n = count - from < m->block ? (uint32_t)(count - from) : m->block;
		const struct tw_samples set = {
			.count = n,
			.value = rows + from * m->facts.inputs,
			.label = m->label,
			.target = m->target,
		};

		st = tw_forward_run(m->forward, &set, 0, n, m->output, NULL);
		for (uint32_t k = 0; k < n && st == TW_OK; k++)
			tw_trained_read(&m->trained, m->output + (size_t)k * m->trained.outputs,
					out + (from + k) * m->facts.outputs);
	}
	if (st == TW_OK)
		return tw_api_done(why);
	tw_fail(&said, st, "the rows cannot be computed: %s", tw_status_name(st));
	return tw_api_fail(why, &said);
}
