/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - what a trained network says of rows, with or without answers. */
#include "query/query.h"

#include "query/predictions.h"

#include <inttypes.h>

static enum tw_status compute(const struct tw_trained *t, const struct tw_rows *rows,
			      struct tw_predictions *p, struct tw_error *why)
{
	struct tw_forward *f = NULL;
	enum tw_status st = tw_trained_forward(t, rows->data, &f, why);
	const uint32_t block = st == TW_OK ? tw_forward_block(f) : 1;
	float *y = malloc((size_t)block * t->outputs * sizeof *y);

	if (st == TW_OK && !y)
		st = tw_fail(why, TW_NO_MEMORY, "no memory for predictions");

	for (uint64_t from = 0; from < rows->count && st == TW_OK; from += block) {
		const uint64_t left = rows->count - from;
		const uint32_t n = left < block ? (uint32_t)left : block;

		st = tw_forward_run(f, &rows->data->test, from, n, y, NULL);
		if (st == TW_OK)
			tw_predictions_add(p, from, n, y);
		else
			tw_fail(why, st, "row %" PRIu64 " cannot be computed: %s", from + 1,
				tw_status_name(st));
	}
	tw_forward_close(f);
	free(y);
	return st;
}

static enum tw_status write_rows(const struct tw_predict_request *r, const struct tw_trained *t,
				 const struct tw_rows *rows, struct tw_error *why)
{
	const struct tw_predictions_request to = {
		.flag = "--to",
		.to = r->to,
		.out = r->out,
		.format = r->format,
		.force = r->force,
		.raw = r->raw,
		.log = r->log,
	};
	const struct tw_predictions_facts facts = {
		.trained = t,
		.set = &rows->data->test,
		.known = rows->known,
		.answers = rows->answers > 0,
		.extra = rows,
	};
	struct tw_predictions *p = NULL;
	enum tw_status st = tw_predictions_check(&to, why), closed;

	if (st == TW_OK)
		st = tw_predictions_open(&to, &facts, &p, why);
	if (st != TW_OK)
		return st;
	st = compute(t, rows, p, why);
	closed = tw_predictions_close(p, st == TW_OK, why);
	return st == TW_OK ? closed : st;
}

static enum tw_status check(const struct tw_predict_request *r, struct tw_error *why)
{
	const struct tw_predictions_request to = {
		.flag = "--to", .to = r->to, .format = r->format, .force = r->force
	};

	if (!r->data || !*r->data)
		return tw_fail(why, TW_BAD_INPUT,
			       "predict needs --data FILE: the rows to predict, as CSV, NPY, IDX "
			       "or an image; "
			       "- is standard input");
	return tw_predictions_check(&to, why);
}

enum tw_status tw_query_predict(const struct tw_predict_request *r, json_t **out,
				struct tw_error *why)
{
	const struct tw_rows_request from = {
		.heap = &tw_heap_system,
		.file = r->data,
		.answers = r->answers,
		.format = r->data_format,
		.separator = r->separator,
	};
	struct tw_trained t = { .snapshot = NULL };
	struct tw_rows rows = { .data = NULL };
	enum tw_status st = check(r, why);

	if (st == TW_OK)
		st = tw_trained_open(r->path, r->job, &r->words, r->log, &t, why);
	if (st == TW_OK)
		st = tw_trained_rows(&t, &from, r->log, &rows, why);
	if (st == TW_OK)
		st = write_rows(r, &t, &rows, why);
	if (st == TW_OK) {
		*out = json_pack("{s:s, s:s, s:s?, s:I, s:I, s:s}", "checkpoint", t.snapshot->path,
				 "data", r->data, "to", r->to, "rows", (json_int_t)rows.count,
				 "answers", (json_int_t)rows.answers, "task",
				 tw_card_tasks[t.card->task]);
		if (!*out)
			st = tw_fail(why, TW_NO_MEMORY, "no memory for the result");
	}
	tw_data_close(rows.data);
	tw_trained_close(&t);
	return st;
}
