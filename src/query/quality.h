/* SPDX-License-Identifier: Apache-2.0 */
/* quality.h - how good predictions are: figures of classes and of values, and the worst rows.
 *
 * All figures are of the predictions as tw_trained_read makes them, which is what `predict` and
 * `eval --predictions` write. */
#ifndef TW_QUERY_QUALITY_H
#define TW_QUERY_QUALITY_H

#include "query/trained_model.h"

#define TW_NO_CLASS UINT32_MAX /* predicted for a row with an output that is not a number */

/* Rows with their true and predicted classes. */
struct tw_class_answers {
	uint32_t classes;
	uint64_t rows;
	const struct tw_names *names;
	const uint32_t *truth, *predicted;
	const float *p;   /* rows * classes, a number for each class; NULL: too many to keep */
	bool probability; /* ... which is its probability */
	double log_loss;  /* summed over rows; nothing where probability is false */
	uint64_t silent;  /* rows with TW_NO_CLASS */
};
/* Add to `o`: balanced_accuracy, log_loss, roc_auc, roc_auc_is, classes [{name, rows, predicted,
 * precision, recall, f1}], confusion (rows: true classes; null above TW_CONFUSION_MOST classes),
 * mistakes [{truth, predicted, rows}], the most frequent first; and to `notes` what a reader should
 * know.  A figure that does not exist for these rows is null; precision, recall and F1 are then 0,
 * as in scikit-learn. */
enum tw_status tw_class_figures(const struct tw_class_answers *a, json_t *o, json_t *notes);
#define TW_CONFUSION_MOST 100u
#define TW_MISTAKES_MOST  20u

struct tw_value_answers {
	uint32_t targets;
	uint64_t rows;
	const struct tw_names *names;
	const float *truth, *predicted; /* rows * targets */
};
/* Add to `o`: mae, rmse, r2, each the mean over targets, and targets [{name, mae, rmse, r2}].  R^2
 * of one row does not exist; where all true values are the same it is 1 if the predictions are,
 * too, else 0. */
enum tw_status tw_value_figures(const struct tw_value_answers *a, json_t *o, json_t *notes);

struct tw_quality_facts {
	const struct tw_trained *trained; /* predicts classes or values */
	const struct tw_samples *set;     /* all rows have an answer */
	const struct tw_rows *extra;      /* whose columns are shown with the worst rows; NULL */
	uint32_t worst;                   /* rows to list */
};
struct tw_quality;
/* What the facts point to must outlive it. */
enum tw_status tw_quality_open(const struct tw_quality_facts *facts, struct tw_quality **out,
			       struct tw_error *why);
/* Rows from..from+count, whose outputs these are. */
void tw_quality_add(struct tw_quality *q, uint64_t from, uint32_t count, const float *output);
/* Add the figures to `o`, `notes` [sentence], and with facts->worst also `worst` [{row, truth,
 * predicted, probability or error, and the columns that the network does not know}]. */
enum tw_status tw_quality_report(const struct tw_quality *q, json_t *o, struct tw_error *why);
void tw_quality_free(struct tw_quality *q); /* NULL is allowed */

#endif
