/* SPDX-License-Identifier: Apache-2.0 */
/* model_card.h - the model card: what a user of trained parameters needs besides them.
 *
 * What a sample looks like, how it was normalised, what columns and classes are called, the network
 * itself, how its outputs are to be read, and which data it was trained on.  Every checkpoint has
 * it in its manifest ("card"), every exported file as JSON text in its metadata ("thalweg.card");
 * docs/NETWORKS.md has its fields.  A card that was read is hostile: lengths, names, shapes and
 * layers are checked, and the network must fit the tensors that it comes with. */
#ifndef TW_CHECKPOINT_MODEL_CARD_H
#define TW_CHECKPOINT_MODEL_CARD_H

#include "spec/job.h"

#include <jansson.h>

#define TW_CARD_FORMAT       2              /* with the columns of a table */
#define TW_CARD_FORMAT_PLAIN 1              /* without */
#define TW_CARD_METADATA     "thalweg.card" /* its name in a file's metadata */
#define TW_CARD_TEXT         4000u          /* longest text of a layer */

enum tw_card_task {
	TW_CARD_CLASSES,  /* one class of several */
	TW_CARD_VALUES,   /* numbers */
	TW_CARD_INPUT,    /* its own input, as the network sees it */
	TW_CARD_TOKENS,   /* at each position of a sequence the next token */
	TW_CARD_MADE_UP,  /* no network: a model that makes its samples up */
	TW_CARD_EXTERNAL, /* no network that we know: the engine was a program's own */
};

/* How outputs become what people want. */
enum tw_card_reading { TW_READ_VALUES, TW_READ_SOFTMAX, TW_READ_SIGMOID };

struct tw_card {
	struct tw_arena keep; /* the card itself and everything that it points to */
	enum tw_card_task task;
	const char *program; /* "thalweg 0.9.0" */
	/* A data set without samples: shape, kind, classes, targets, names, the columns of a table;
	 * scale and shift are there after tw_card_expand. */
	struct tw_data data;
	/* `columns` runs of `run` features each: scale and shift of a run's features. */
	const char *normalise; /* "standard": for people */
	size_t columns, run;
	float *scale, *shift;
	bool standalone; /* the network's first layer normalises: see export --standalone */
	struct tw_layer *layer;
	size_t layers;
	const char *loss; /* as the text of a layer */
	uint32_t batch;   /* rows that are computed at once, so that the same bits come out */
	/* Where it comes from. */
	const char *source, *fingerprint, *split;
	double test, validation; /* shares held out */
	bool drawn; /* the test set was drawn from the samples by `split`, and has no own file */
	uint64_t trained, tests, validations; /* samples */
};

/* The card of a job and its open engine, after tw_job_finish_plan. */
enum tw_status tw_card_make(const struct tw_job *job, const struct tw_engine *engine,
			    struct tw_card **out, struct tw_error *why);
/* As JSON; NULL without memory. */
json_t *tw_card_json(const struct tw_card *c);
/* And back: TW_BAD_BYTES with what is wrong, such as "its card: input.shape has 5 numbers". */
enum tw_status tw_card_read(struct tw_heap *heap, const json_t *card, struct tw_card **out,
			    struct tw_error *why);
/* The card in a safetensors file's metadata (JSON text, may be NULL).  TW_ABSENT without a
 * sentence: there is none. */
enum tw_status tw_card_of_metadata(struct tw_heap *heap, const char *metadata, struct tw_card **out,
				   struct tw_error *why);
void tw_card_free(struct tw_card *c); /* NULL is allowed */

/* Is there a network to compute with?  The sentence says what there is instead. */
enum tw_status tw_card_computes(const struct tw_card *c, const char *path, struct tw_error *why);
/* Give the card's data its scale and shift, one per feature. */
enum tw_status tw_card_expand(struct tw_card *c, struct tw_error *why);
/* The network, for tw_graph_free.  TW_BAD_BYTES: its layers make none. */
enum tw_status tw_card_graph(const struct tw_card *c, struct tw_heap *heap, struct tw_graph **out,
			     struct tw_error *why);
/* The same network with the normalisation as its first layer: `affine`, whose tensors 0.weight and
 * 0.bias are in *scale and *shift (the card's memory), *n numbers each; the layers behind it are
 * numbered from 1.  The card then says that nothing is left to normalise. */
enum tw_status tw_card_stand_alone(struct tw_card *c, const float **scale, const float **shift,
				   size_t *n, struct tw_error *why);
enum tw_card_reading tw_card_reading(const struct tw_graph *g);
extern const char *const tw_card_readings[]; /* "values", "softmax", "sigmoid" */
extern const char *const tw_card_tasks[];    /* by enum tw_card_task; NULL at the end */

#endif
