/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - a trained network that predicts rows in memory. */
#include "api/handle.h"

#include "base/machine/isa.h"
#include "query/trained_model.h"

#include <stdio.h>
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
	const char **column; /* names of facts.columns columns */
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

static enum tw_status describe_columns(struct thalweg_model *m, struct tw_error *why)
{
	const struct tw_columns *c = m->trained.card->data.columns;

	for (uint32_t k = 0; c && k < c->count; k++)
		m->facts.columns += tw_column_is_read(&c->column[k]);
	if (!m->facts.columns || !c->named)
		return TW_OK;
	m->column = calloc(m->facts.columns + 1, sizeof *m->column);
	if (!m->column)
		return tw_fail(why, TW_NO_MEMORY, "no memory for names of columns");
	for (uint32_t k = 0, n = 0; k < c->count; k++)
		if (tw_column_is_read(&c->column[k]))
			m->column[n++] = c->column[k].name;
	m->facts.column_names = m->column;
	return TW_OK;
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
	if (st == TW_OK && m->trained.card->data.tokens)
		st = tw_fail(&said, TW_BAD_INPUT,
			     "%.300s predicts the next token of a text, and takes no rows; use "
			     "thalweg generate",
			     path);
	if (st == TW_OK)
		st = make_room(m, &said);
	if (st == TW_OK) {
		describe(m);
		st = describe_columns(m, &said);
	}
	if (st != TW_OK) {
		thalweg_model_close(m);
		return tw_api_fail(why, &said);
	}
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
	free(m->column);
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

/* --- cells --- */

static void put_cell(const char *cell, FILE *f)
{
	fputc('"', f);
	for (; cell && *cell; cell++) {
		if (*cell == '"')
			fputc('"', f);
		fputc(*cell, f);
	}
	fputc('"', f);
}

static bool is_label(const struct tw_columns *c, uint32_t place)
{
	for (uint32_t k = 0; k < c->labels; k++)
		if (c->label[k] == place)
			return true;
	return false;
}

/* One row as CSV: all columns of the training file but the labels', and those that are not read,
 * which a card need not have, are empty.  Returns the cells that are left. */
static const char *const *put_row(const struct tw_columns *c, const char *const *cell, FILE *f)
{
	bool first = true;

	for (uint32_t place = 1, k = 0; place <= c->all; place++) {
		bool read;

		if (is_label(c, place))
			continue;
		while (k < c->count && c->column[k].place < place)
			k++;
		read = k < c->count && c->column[k].place == place &&
		       tw_column_is_read(&c->column[k]);
		if (!first)
			fputc(',', f);
		put_cell(read ? *cell++ : NULL, f);
		first = false;
	}
	fputc('\n', f);
	return cell;
}

static enum tw_status read_cells(const struct thalweg_model *m, const char *const *cells,
				 size_t count, struct tw_rows *out, struct tw_error *why)
{
	const struct tw_log silence = { .sink = NULL };
	struct tw_rows_request request = { .heap = &tw_heap_system, .file = "cells" };
	char *text = NULL;
	FILE *f = open_memstream(&text, &request.bytes);
	enum tw_status st = TW_OK;

	for (size_t k = 0; f && k < count; k++)
		cells = put_row(m->trained.card->data.columns, cells, f);
	if (!f || ferror(f) | fclose(f))
		st = tw_fail(why, TW_NO_MEMORY, "no memory for %zu rows of cells", count);
	request.text = text;
	if (st == TW_OK)
		st = tw_trained_rows(&m->trained, &request, &silence, out, why);
	free(text);
	return st;
}

enum thalweg_status thalweg_predict_cells(struct thalweg_model *m, const char *const *cells,
					  size_t count, float *out, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	struct tw_rows rows = { .data = NULL };
	enum thalweg_status st;

	if (!m || (count && (!cells || !out)))
		return tw_api_null(why, "thalweg_predict_cells",
				   !m       ? "model"
				   : !cells ? "cells"
					    : "out");
	if (!m->facts.columns) {
		tw_fail(&said, TW_BAD_INPUT,
			"thalweg_predict_cells: the model is not of a table; give its inputs as "
			"numbers to thalweg_predict");
		return tw_api_fail(why, &said);
	}
	if (count == 0)
		return tw_api_done(why);
	if (read_cells(m, cells, count, &rows, &said) != TW_OK)
		return tw_api_fail(why, &said);
	st = thalweg_predict(m, rows.data->test.value, count, out, why);
	tw_data_close(rows.data);
	return st;
}
