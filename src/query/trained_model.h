/* SPDX-License-Identifier: Apache-2.0 */
/* trained_model.h - a trained network, ready to compute: parameters, card and graph together. */
#ifndef TW_QUERY_TRAINED_MODEL_H
#define TW_QUERY_TRAINED_MODEL_H

#include "base/digest.h"
#include "data/format/rows.h"
#include "engine/forward.h"
#include "checkpoint/model_card.h"
#include "query/query.h"

struct tw_trained {
	struct tw_snapshot *snapshot;
	struct tw_job *job;       /* --job, opened; NULL: none was given */
	struct tw_engine *engine; /* of that job: its data and its network; NULL: none */
	struct tw_card *card;     /* its data has scale and shift */
	bool made;                /* the card is not the parameters' own: the job made it */
	struct tw_graph *graph;
	float *vector;   /* all parameters; NULL: they are too many, and read stage by stage */
	uint64_t memory; /* bytes of parameters that may be in memory at once */
	enum tw_card_reading reading;
	uint32_t outputs;
};

/* Open what `path` names.  `job` NULL: the parameters must have a card, or be a checkpoint whose
 * job and data make one.  Else the job's network must fit, and its data makes the card where the
 * parameters have none. */
enum tw_status tw_trained_open(const char *path, const char *job,
			       const struct tw_query_words *words, const struct tw_log *log,
			       struct tw_trained *out, struct tw_error *why);
/* The same of a snapshot and a job (NULL: none) that are open; both are taken, and closed where
 * this fails.  `words` are for the job of a checkpoint that has no card. */
enum tw_status tw_trained_take(struct tw_snapshot *s, struct tw_job *job, const char *path,
			       const struct tw_query_words *words, const struct tw_log *log,
			       struct tw_trained *out, struct tw_error *why);
void tw_trained_close(struct tw_trained *t);

/* Rows of a file for this network; t->card's names say which column is which.  Warnings go to
 * the log.  rows->data has the card's scale and shift afterwards. */
enum tw_status tw_trained_rows(const struct tw_trained *t, const struct tw_rows_request *request,
			       const struct tw_log *log, struct tw_rows *out, struct tw_error *why);
/* Numbers of one row as people read them: a probability for each class, or values. */
uint32_t tw_trained_values(const struct tw_trained *t);
/* Make these of the network's outputs `y`. */
void tw_trained_read(const struct tw_trained *t, const float *y, float *out);
/* The class of the largest output; one output alone is a logit of class 1. */
uint32_t tw_trained_class(const struct tw_trained *t, const float *y);
/* Is one of the outputs not a number?  Then the row has no class. */
bool tw_trained_silent(const struct tw_trained *t, const float *y);
/* Digests of trainable parameters and of buffers. */
enum tw_status tw_trained_digests(const struct tw_trained *t, char trained[TW_DIGEST_TEXT],
				  char buffers[TW_DIGEST_TEXT], struct tw_error *why);
/* Computes rows of such a data set. */
enum tw_status tw_trained_forward(const struct tw_trained *t, const struct tw_data *data,
				  struct tw_forward **out, struct tw_error *why);

#endif
