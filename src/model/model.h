/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - a network from the text of its layers: what a job file's `model:` becomes. */
#ifndef TW_MODEL_MODEL_H
#define TW_MODEL_MODEL_H

#include "base/rng.h"
#include "base/variant.h"
#include "graph/graph.h"

#define TW_LAYERS_MAX   1000
#define TW_LAYERS_DEPTH 4 /* residuals inside each other */

/* One layer as the job gives it.  Either text ("conv 20 5x5 pad 2"), or a residual: `body` and
 * perhaps `shortcut`, added to what goes around them. */
struct tw_layer {
	const char *text;  /* NULL: a residual */
	const char *place; /* "job.yaml:7", for errors; "" none */
	struct tw_layer *body, *shortcut;
	size_t bodies, shortcuts;
};

/* How the initial weights of tensors with fans are drawn; biases are 0 unless `torch`. */
enum tw_init {
	TW_INIT_HE, /* gauss, variance 2 / fan_in */
	TW_INIT_HE_UNIFORM,
	TW_INIT_XAVIER, /* gauss, variance 2 / (fan_in + fan_out) */
	TW_INIT_XAVIER_UNIFORM,
	TW_INIT_LECUN,  /* gauss, variance 1 / fan_in */
	TW_INIT_TORCH,  /* uniform in +-1/sqrt(fan_in), biases too */
	TW_INIT_NORMAL, /* gauss, deviation 0.01 */
	TW_INIT_ZEROS,
};
extern const char *const tw_init_names[]; /* "he", "he-uniform", ...; NULL at the end */

/* What the network must fit: the data's sample and what is to be predicted. */
struct tw_model_site {
	struct tw_heap *heap;
	struct tw_shape in;
	uint32_t classes; /* labels below this; 0: targets */
	uint32_t targets; /* values per sample, where classes is 0 (an autoencoder: its inputs) */
	bool tokens;      /* each number of a sample has a label: the one after it */
	uint32_t series;  /* features of each position of a series; 0: samples are none */
	uint32_t init;    /* enum tw_init, for layers that do not say */
	const char *loss; /* layer text of the loss: "cross-entropy smoothing 0.1" */
	const char *loss_place; /* for errors */
};

/* Build the graph.  Errors: "place: layer 4 of 9, 'conv 50 5x5': why, with the shapes"; inside a
 * residual "layer 3.2" is the second of its body, "layer 3 shortcut 1" of its shortcut.  The loss's
 * needs (as many outputs as classes or targets) are checked too, naming the last layer.  Linear
 * after rank 3 flattens by itself; after rank 2 it is computed position by position. */
enum tw_status tw_model_build(const struct tw_model_site *site, const struct tw_layer *layer,
			      size_t layers, struct tw_graph **out, struct tw_error *why);
/* How people count the layer of a node or tensor prefix of such a graph: "4" is "5", "4.body.0" is
 * "5.1", "4.shortcut.0" is "5.shortcut.1".  False: it is no layer that somebody wrote. */
bool tw_model_number(const char *name, char *out, size_t room);

/* Initial weights of elements from..from+n of the vector.  Draws are keyed by (tensor, element), so
 * any process can make any range. */
void tw_model_init(const struct tw_graph *g, uint64_t seed, size_t from, size_t n, float *out);

/* Networks by name: zoo/<name>.c (`-` in the name is `_` in the symbol), each with option rows. */
struct tw_zoo {
	TW_VARIANT;
	/* Write the layers for this site (shape of the input, classes or targets); everything is
	 * made in `keep`. */
	enum tw_status (*layers)(const void *options, const struct tw_model_site *site,
				 struct tw_arena *keep, struct tw_layer **out, size_t *count,
				 struct tw_error *why);
	bool predicts_input; /* unless the job says otherwise: its loss is then one of values */
	bool takes_tokens;   /* it reads tokens and predicts the next ones; refuses all else */
	bool takes_series;   /* it reads series; refuses all else */
};
TW_REGISTRY(zoo, tw_zoo);

#endif
