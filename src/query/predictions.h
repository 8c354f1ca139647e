/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.h - the predictions of a network for rows, as a table: CSV, JSON lines, or a NumPy
 * array.
 *
 * One line per row, in order: its number from 1, the columns of the input that the network does not
 * know, and then either the class, the truth where the input has it, the class's probability and
 * that of every class, or the value of each target and the truth. */
#ifndef TW_QUERY_PREDICTIONS_H
#define TW_QUERY_PREDICTIONS_H

#include "query/trained_model.h"

enum tw_predictions_format { TW_PREDICTIONS_CSV, TW_PREDICTIONS_JSONL, TW_PREDICTIONS_NPY };
extern const char *const tw_predictions_formats[]; /* "csv", "jsonl", "npy"; NULL at the end */

struct tw_predictions_request {
	const char *flag; /* for sentences: "--to" */
	const char *to;   /* a file; NULL: `out` */
	FILE *out;
	const char *format;       /* one of the formats; "": by the file's name, else CSV */
	bool any;                 /* a file of any other name is CSV */
	bool force;               /* may overwrite */
	bool raw;                 /* the network's outputs as they are */
	const struct tw_log *log; /* a warning when rows have outputs that are no numbers; NULL */
};

/* What is to be written, by a network, of rows. */
struct tw_predictions_facts {
	const struct tw_trained *trained;
	const struct tw_samples *set;
	const uint8_t *known;        /* which rows have an answer; NULL: all or none */
	bool answers;                /* some have */
	const struct tw_rows *extra; /* where columns come from that are handed on; NULL: none */
};

struct tw_predictions;
/* May it be written there?  Looked at before anything is computed. */
enum tw_status tw_predictions_check(const struct tw_predictions_request *r, struct tw_error *why);
/* Begin; what the request and the facts point to must outlive it. */
enum tw_status tw_predictions_open(const struct tw_predictions_request *r,
				   const struct tw_predictions_facts *facts,
				   struct tw_predictions **out, struct tw_error *why);
/* Write rows from..from+count, whose outputs these are.  No class is named for a row with an output
 * that is not a number: the cells of the class and its probability are empty. */
void tw_predictions_add(struct tw_predictions *p, uint64_t from, uint32_t count,
			const float *output);
/* Give the file its name, or with `whole` false forget it.  A closed pipe is TW_IO with errno
 * EPIPE and no sentence. */
enum tw_status tw_predictions_close(struct tw_predictions *p, bool whole, struct tw_error *why);

#endif
