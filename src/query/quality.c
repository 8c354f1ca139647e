/* SPDX-License-Identifier: Apache-2.0 */
/* quality.c - predictions collected row by row, and what is said of all of them. */
#include "query/quality.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RANKED_MOST ((uint64_t)1 << 26) /* probabilities that are kept, and sorted */

struct tw_quality {
	struct tw_quality_facts facts;
	bool classes;
	uint32_t values;     /* numbers of a row */
	float *kept;         /* of all rows; NULL: too many */
	float *row;          /* of one */
	uint32_t *predicted; /* classes */
	double *off;         /* how wrong a row is */
	double log_loss;
	uint64_t silent;
};

enum tw_status tw_quality_open(const struct tw_quality_facts *facts, struct tw_quality **out,
			       struct tw_error *why)
{
	struct tw_quality *q = calloc(1, sizeof *q);
	const uint64_t n = facts->set->count;

	if (!q)
		return tw_fail(why, TW_NO_MEMORY, "no memory for figures");
	q->facts = *facts;
	q->classes = facts->trained->card->task == TW_CARD_CLASSES;
	q->values = tw_trained_values(facts->trained);
	q->row = malloc(q->values * sizeof *q->row);
	q->off = malloc((n + 1) * sizeof *q->off);
	q->predicted = malloc((n + 1) * sizeof *q->predicted);
	if (!q->classes || n * q->values <= RANKED_MOST)
		q->kept = malloc((n * q->values + 1) * sizeof *q->kept);
	if (!q->row || !q->off || !q->predicted || (!q->classes && !q->kept)) {
		tw_quality_free(q);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the figures of %llu rows",
			       (unsigned long long)n);
	}
	*out = q;
	return TW_OK;
}

void tw_quality_free(struct tw_quality *q)
{
	if (!q)
		return;
	free(q->kept);
	free(q->row);
	free(q->predicted);
	free(q->off);
	free(q);
}

/* Of one row: the logarithm of what the true class's probability is below 1.  Probabilities are
 * kept off 0 and 1 by the last bit of a double, and add up to 1, as in scikit-learn. */
static double log_loss(const float *p, uint32_t n, uint32_t truth)
{
	const double least = 0x1p-52;
	double sum = 0, of = 0;

	for (uint32_t k = 0; k < n; k++) {
		const double v = fmin(fmax((double)p[k], least), 1 - least);

		sum += v;
		of = k == truth ? v : of;
	}
	return -log(of / sum);
}

static void add_class(struct tw_quality *q, uint64_t i, const float *y)
{
	const struct tw_trained *t = q->facts.trained;
	const uint32_t truth = q->facts.set->label[i];

	if (tw_trained_silent(t, y)) {
		q->silent++;
		q->predicted[i] = TW_NO_CLASS;
		q->off[i] = INFINITY;
		return;
	}
	q->predicted[i] = tw_trained_class(t, y);
	q->off[i] = t->reading == TW_READ_VALUES ? -(double)q->row[truth]
						 : log_loss(q->row, q->values, truth);
	q->log_loss += q->off[i];
}

/* How far off its values are; of several, in standard deviations of each. */
static double distance(const struct tw_quality *q, uint64_t i, const double *variance)
{
	double sum = 0;

	for (uint32_t k = 0; k < q->values; k++) {
		const double e = (double)q->kept[i * q->values + k] -
				 (double)q->facts.set->target[i * q->values + k];

		sum += q->values == 1 ? e * e : variance[k] > 0 ? e * e / variance[k] : 0;
	}
	sum = sqrt(sum / q->values);
	return isfinite(sum) ? sum : INFINITY;
}

void tw_quality_add(struct tw_quality *q, uint64_t from, uint32_t count, const float *output)
{
	for (uint64_t i = from; i < from + count; i++, output += q->facts.trained->outputs) {
		float *row = q->kept ? q->kept + i * q->values : q->row;

		tw_trained_read(q->facts.trained, output, row);
		if (q->classes) {
			memcpy(q->row, row, q->kept ? q->values * sizeof *row : 0);
			add_class(q, i, output);
		}
	}
}

/* --- the worst rows --- */

static enum tw_status find_distances(const struct tw_quality *q)
{
	const uint64_t n = q->facts.set->count;
	const float *truth = q->facts.set->target;
	double *variance = calloc(q->values, sizeof *variance);

	if (!variance)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < q->values; k++) {
		double mean = 0;

		for (uint64_t i = 0; i < n; i++)
			mean += (double)truth[i * q->values + k] / (double)n;
		for (uint64_t i = 0; i < n; i++)
			variance[k] += pow((double)truth[i * q->values + k] - mean, 2) / (double)n;
	}
	for (uint64_t i = 0; i < n; i++)
		q->off[i] = distance(q, i, variance);
	free(variance);
	return TW_OK;
}

struct ordered {
	double off;
	uint64_t row;
};

static int by_off(const void *one, const void *other)
{
	const struct ordered *a = one, *b = other;

	if (a->off != b->off)
		return a->off > b->off ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

static json_t *numbers(const float *v, uint32_t n)
{
	json_t *list = json_array();

	if (n == 1) {
		json_decref(list);
		return tw_json_number((double)v[0]);
	}
	for (uint32_t k = 0; k < n; k++)
		json_array_append_new(list, tw_json_number((double)v[k]));
	return list;
}

static json_t *bad_row(const struct tw_quality *q, uint64_t i)
{
	const struct tw_samples *set = q->facts.set;
	const struct tw_names *names = &q->facts.trained->card->data.names;
	const struct tw_rows *extra = q->facts.extra;
	json_t *o = json_pack("{s:I}", "row", (json_int_t)(i + 1)), *others;
	char name[TW_NAME_NUMBER];

	if (q->classes) {
		json_object_set_new(o, "truth",
				    json_string(tw_name_answer(names, set->label[i], name)));
		json_object_set_new(
			o, "predicted",
			q->predicted[i] == TW_NO_CLASS
				? json_null()
				: json_string(tw_name_answer(names, q->predicted[i], name)));
		json_object_set_new(o, "log_loss", tw_json_number(q->off[i]));
	} else {
		json_object_set_new(o, "truth", numbers(set->target + i * q->values, q->values));
		json_object_set_new(o, "predicted", numbers(q->kept + i * q->values, q->values));
		json_object_set_new(o, "error", tw_json_number(q->off[i]));
	}
	if (!extra || !extra->extras)
		return o;
	others = json_object();
	for (uint32_t k = 0; k < extra->extras; k++)
		json_object_set_new(others, extra->extra[k],
				    json_string(extra->cell[i * extra->extras + k]));
	json_object_set_new(o, "columns", others);
	return o;
}

static enum tw_status list_worst(const struct tw_quality *q, json_t *o)
{
	const uint64_t n = q->facts.set->count;
	struct ordered *order = malloc((n + 1) * sizeof *order);
	const enum tw_status st = !order ? TW_NO_MEMORY : q->classes ? TW_OK : find_distances(q);
	json_t *list = json_array();

	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		order[i] = (struct ordered){ q->off[i], i };
	if (st == TW_OK)
		qsort(order, n, sizeof *order, by_off);
	for (uint64_t k = 0; st == TW_OK && k < n && k < q->facts.worst; k++)
		json_array_append_new(list, bad_row(q, order[k].row));
	json_object_set_new(o, "worst", list);
	free(order);
	return st;
}

/* --- all of it --- */

enum tw_status tw_quality_report(const struct tw_quality *q, json_t *o, struct tw_error *why)
{
	const struct tw_samples *set = q->facts.set;
	const struct tw_trained *t = q->facts.trained;
	const struct tw_class_answers classes = {
		.classes = q->values,
		.rows = set->count,
		.names = &t->card->data.names,
		.truth = set->label,
		.predicted = q->predicted,
		.p = q->kept,
		.probability = t->reading != TW_READ_VALUES,
		.log_loss = q->log_loss,
		.silent = q->silent,
	};
	const struct tw_value_answers values = {
		.targets = q->values,
		.rows = set->count,
		.names = &t->card->data.names,
		.truth = set->target,
		.predicted = q->kept,
	};
	json_t *notes = json_array();
	enum tw_status st = q->classes ? tw_class_figures(&classes, o, notes)
				       : tw_value_figures(&values, o, notes);

	if (st == TW_OK && q->facts.worst)
		st = list_worst(q, o);
	json_object_set_new(o, "notes", notes);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "no memory for the figures");
}
