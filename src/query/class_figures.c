/* SPDX-License-Identifier: Apache-2.0 */
/* class_figures.c - figures of predicted classes: what is counted, and what is ranked. */
#include "query/quality.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* --- counts --- */

/* Of one class. */
struct tally {
	uint64_t rows, predicted, both;
};

static void count(const struct tw_class_answers *a, struct tally *of)
{
	for (uint64_t i = 0; i < a->rows; i++) {
		of[a->truth[i]].rows++;
		if (a->predicted[i] == TW_NO_CLASS)
			continue;
		of[a->predicted[i]].predicted++;
		of[a->truth[i]].both += a->predicted[i] == a->truth[i];
	}
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0.0;
}

static json_t *class_rows(const struct tw_class_answers *a, const struct tally *of)
{
	json_t *list = json_array();
	char number[TW_NAME_NUMBER];

	for (uint32_t k = 0; k < a->classes; k++)
		json_array_append_new(
			list,
			json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "name",
				  tw_name_answer(a->names, k, number), "rows",
				  (json_int_t)of[k].rows, "predicted", (json_int_t)of[k].predicted,
				  "precision", ratio(of[k].both, of[k].predicted), "recall",
				  ratio(of[k].both, of[k].rows), "f1",
				  ratio(2 * of[k].both, of[k].rows + of[k].predicted)));
	return list;
}

/* The mean recall of the classes that occur. */
static double balanced_accuracy(const struct tw_class_answers *a, const struct tally *of)
{
	double sum = 0;
	uint32_t occur = 0;

	for (uint32_t k = 0; k < a->classes; k++)
		if (of[k].rows) {
			sum += ratio(of[k].both, of[k].rows);
			occur++;
		}
	return sum / occur;
}

/* --- which class is taken for which --- */

struct cell {
	uint32_t truth, predicted;
	uint64_t rows;
};

static int by_cell(const void *one, const void *other)
{
	const struct cell *a = one, *b = other;

	if (a->truth != b->truth)
		return a->truth < b->truth ? -1 : 1;
	return (a->predicted > b->predicted) - (a->predicted < b->predicted);
}

static int by_rows(const void *one, const void *other)
{
	const struct cell *a = one, *b = other;

	if (a->rows != b->rows)
		return a->rows > b->rows ? -1 : 1;
	return by_cell(one, other);
}

/* The cells of the confusion matrix that are not 0; returns how many. */
static size_t cells_of(const struct tw_class_answers *a, struct cell *cell)
{
	size_t rows = 0, cells = 0;

	for (uint64_t i = 0; i < a->rows; i++)
		if (a->predicted[i] != TW_NO_CLASS)
			cell[rows++] = (struct cell){ a->truth[i], a->predicted[i], 1 };
	qsort(cell, rows, sizeof *cell, by_cell);
	for (size_t i = 0; i < rows; i++)
		if (cells && by_cell(&cell[cells - 1], &cell[i]) == 0)
			cell[cells - 1].rows++;
		else
			cell[cells++] = cell[i];
	return cells;
}

static json_t *confusion(const struct tw_class_answers *a, const struct cell *cell, size_t cells)
{
	json_t *matrix = a->classes > TW_CONFUSION_MOST ? json_null() : json_array();
	size_t at = 0;

	for (uint32_t t = 0; json_is_array(matrix) && t < a->classes; t++) {
		json_t *row = json_array();

		for (uint32_t p = 0; p < a->classes; p++) {
			const struct cell here = { t, p, 0 };
			const bool some = at < cells && by_cell(&cell[at], &here) == 0;

			json_array_append_new(row,
					      json_integer(some ? (json_int_t)cell[at++].rows : 0));
		}
		json_array_append_new(matrix, row);
	}
	return matrix;
}

static json_t *mistakes(const struct tw_class_answers *a, struct cell *cell, size_t cells)
{
	json_t *list = json_array();
	char one[TW_NAME_NUMBER], other[TW_NAME_NUMBER];

	qsort(cell, cells, sizeof *cell, by_rows);
	for (size_t k = 0; k < cells && json_array_size(list) < TW_MISTAKES_MOST; k++)
		if (cell[k].truth != cell[k].predicted)
			json_array_append_new(
				list,
				json_pack("{s:s, s:s, s:I}", "truth",
					  tw_name_answer(a->names, cell[k].truth, one), "predicted",
					  tw_name_answer(a->names, cell[k].predicted, other),
					  "rows", (json_int_t)cell[k].rows));
	return list;
}

/* --- ranks --- */

struct ranked {
	float p;
	bool is;
};

static int by_p(const void *one, const void *other)
{
	const float a = ((const struct ranked *)one)->p, b = ((const struct ranked *)other)->p;

	return (a > b) - (a < b);
}

/* The share of pairs (a row of class k, another row) in which the former has the larger p; a tie is
 * half a pair.  NAN if there is no pair. */
static double auc(const struct tw_class_answers *a, uint32_t k, struct ranked *row)
{
	uint64_t of = 0, others = 0, twice = 0;

	for (uint64_t i = 0; i < a->rows; i++)
		row[i] = (struct ranked){ a->p[i * a->classes + k], a->truth[i] == k };
	qsort(row, a->rows, sizeof *row, by_p);
	for (uint64_t i = 0, end; i < a->rows; i = end) {
		uint64_t yes = 0;

		for (end = i; end < a->rows && row[end].p == row[i].p; end++)
			yes += row[end].is;
		twice += yes * (2 * others + (end - i - yes));
		others += end - i - yes;
		of += yes;
	}
	return of && others ? (double)twice / (2.0 * (double)of * (double)others) : NAN;
}

/* Two classes: of the second; more: the mean over the classes that occur, each against the rest. */
static double mean_auc(const struct tw_class_answers *a, struct ranked *row)
{
	double sum = 0;
	uint32_t occur = 0;

	if (a->classes == 2)
		return auc(a, 1, row);
	for (uint32_t k = 0; k < a->classes; k++) {
		const double one = auc(a, k, row);

		if (isfinite(one)) {
			sum += one;
			occur++;
		}
	}
	return occur ? sum / occur : NAN;
}

/* --- what a reader should know --- */

static void say_majority(const struct tw_class_answers *a, const struct tally *of, json_t *notes)
{
	uint32_t most = 0, said = 0, occur = 0;
	uint64_t right = 0;
	char one[TW_NAME_NUMBER];

	for (uint32_t k = 0; k < a->classes; k++) {
		most = of[k].rows > of[most].rows ? k : most;
		said = of[k].predicted > of[said].predicted ? k : said;
		occur += of[k].rows > 0;
		right += of[k].both;
	}
	if (occur < 2) {
		json_array_append_new(
			notes, json_sprintf("all rows are of class '%s': nothing is known about "
					    "telling it from others",
					    tw_name_answer(a->names, most, one)));
		return;
	}
	if (of[said].predicted == a->rows)
		json_array_append_new(
			notes, json_sprintf("only one class is predicted: every row gets '%s', and "
					    "%" PRIu64 " of %" PRIu64 " rows are of other classes",
					    tw_name_answer(a->names, said, one),
					    a->rows - of[said].rows, a->rows));
	if (right <= of[most].rows)
		json_array_append_new(
			notes,
			json_sprintf("the accuracy, %.4g, is not above the share of the largest "
				     "class: always answering '%s' is right in %.4g of the rows",
				     ratio(right, a->rows), tw_name_answer(a->names, most, one),
				     ratio(of[most].rows, a->rows)));
}

static void say_rest(const struct tw_class_answers *a, const struct tally *of, json_t *notes)
{
	uint32_t first = UINT32_MAX, absent = 0;
	char one[TW_NAME_NUMBER];

	for (uint32_t k = 0; k < a->classes; k++)
		if (!of[k].rows) {
			first = absent++ ? first : k;
		}
	if (absent && absent + 1 < a->classes)
		json_array_append_new(
			notes,
			json_sprintf("%u of %u classes do not occur in these rows (such as '%s'): "
				     "balanced accuracy and ROC AUC leave them out",
				     absent, a->classes, tw_name_answer(a->names, first, one)));
	if (a->silent)
		json_array_append_new(
			notes,
			json_sprintf("%" PRIu64 " rows have outputs that are not numbers: they "
				     "count as wrong, and log loss and ROC AUC do not exist",
				     a->silent));
	else if (!a->p)
		json_array_append_new(notes, json_sprintf("ROC AUC is left out: it would need the "
							  "probabilities of %" PRIu64
							  " rows of %u classes",
							  a->rows, a->classes));
}

enum tw_status tw_class_figures(const struct tw_class_answers *a, json_t *o, json_t *notes)
{
	struct tally *of = calloc(a->classes, sizeof *of);
	struct cell *cell = malloc((a->rows + 1) * sizeof *cell);
	struct ranked *row = malloc((a->rows + 1) * sizeof *row);
	const bool ranks = a->p && !a->silent;

	if (of && cell && row) {
		count(a, of);
		const size_t cells = cells_of(a, cell);

		json_object_set_new(o, "balanced_accuracy",
				    tw_json_number(balanced_accuracy(a, of)));
		json_object_set_new(o, "log_loss",
				    tw_json_number(a->probability && !a->silent
							   ? a->log_loss / (double)a->rows
							   : (double)NAN));
		json_object_set_new(o, "roc_auc",
				    tw_json_number(ranks ? mean_auc(a, row) : (double)NAN));
		json_object_set_new(
			o, "roc_auc_is",
			a->classes == 2 ? json_sprintf("of class '%s'",
						       a->names->answer ? a->names->answer[1] : "1")
					: json_string("mean over the classes, each against the "
						      "rest"));
		json_object_set_new(o, "classes", class_rows(a, of));
		json_object_set_new(o, "confusion", confusion(a, cell, cells));
		json_object_set_new(o, "mistakes", mistakes(a, cell, cells));
		say_majority(a, of, notes);
		say_rest(a, of, notes);
	}
	const bool whole = of && cell && row;

	free(of);
	free(cell);
	free(row);
	return whole ? TW_OK : TW_NO_MEMORY;
}
