/* SPDX-License-Identifier: Apache-2.0 */
/* init_models.h - which of a source's models suits a table: each is trained and scored on folds. */
#ifndef TW_QUERY_INIT_MODELS_H
#define TW_QUERY_INIT_MODELS_H

#include "data/source.h"
#include "query/query.h"

#include <stdio.h>

#define TW_INIT_FOLDS 5

struct tw_init_trials {
	const char *name;                    /* of the job: where its relative paths begin */
	const struct tw_source_model *model; /* those to try; what NULL at the end */
	/* Write the job that trains model `m`, of which `rows` samples are trained on at least;
	 * with `fold` as its data.fold. */
	void (*put)(FILE *f, const void *arg, const struct tw_source_model *m, const char *fold,
		    long long rows);
	const void *arg;
	long long rows;    /* samples that are not in the test set */
	long long inputs;  /* values of a sample */
	tw_init_show show; /* may be NULL */
	void *show_arg;
};

/* Train each model on all folds but one of the rows that are not in the test set, score it on that
 * one, and choose: the first whose mean loss is the least but for noise, among those that diverge
 * on no fold.  The same rows and models give the same choice.  Tables that are too small, or so
 * large that this would take long, are not tried.  *chosen: one of t->model; NULL: none was tried,
 * or all diverge.  *out, the caller's: {models: [{what, loss, losses, chosen}], notes}; notes are
 * sentences. */
enum tw_status tw_init_choose(const struct tw_init_trials *t, const struct tw_source_model **chosen,
			      json_t **out, struct tw_error *why);

#endif
