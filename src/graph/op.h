/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - what one kind of layer is: its options, its shapes, its kernels, its slow truth.
 *
 * One file per family in op/; a file defines `const struct tw_op_family tw_op_family_<file>`, a
 * list of ops that share code.  Losses are ops, too, one file each in loss/ (loss.h).  An op never
 * allocates, logs or reads a clock: it says what memory it needs and the program gives it.  A
 * prepared kernel never changes, so any thread may run it.
 *
 * Everything the contract suite (test/graph) needs is in the table, so an op is tested the moment
 * it exists: its samples are run forward in every layout against `reference`, and backward against
 * finite differences of `reference`. */
#ifndef TW_GRAPH_OP_H
#define TW_GRAPH_OP_H

#include "base/piece.h"
#include "base/status.h"
#include "base/variant.h"
#include "graph/onednn.h"
#include "graph/shape.h"

#include <stdio.h>
#include <string.h>

#define TW_OP_INS        2
#define TW_OP_PARAMETERS 8
#define TW_TORCH_ROOM    200

/* One tensor that an op keeps in the parameter vector, in PyTorch's shape and order. */
struct tw_op_parameter {
	const char *name;         /* "weight", "bias", "running_mean" */
	uint32_t rank, d[5];      /* conv weight: out, in / groups, height, width */
	uint32_t fan_in, fan_out; /* 0: not drawn, filled with `fill` */
	float fill;
	float deviation; /* above 0: gauss with this one, whatever the job's initialisation is */
	bool buffer;     /* a statistic, not trained: see engine.h */
	bool tied;       /* not of its own: the table that reads the numbers of the data */
};

/* What follows from options and the shapes of the inputs. */
struct tw_op_form {
	struct tw_shape out;
	struct tw_op_parameter parameter[TW_OP_PARAMETERS];
	uint32_t parameters;
	double flops; /* forward, per sample: 2 for each multiply-add of a product, 1 for others */
	double products; /* of these, those of matrix products: 2 m n k */
};

/* Where and how an op will run: fixed when a program is made. */
struct tw_op_site {
	const void *options;
	uint32_t batch, ins;
	struct tw_shape in[TW_OP_INS], out;
	enum tw_layout in_layout[TW_OP_INS], out_layout; /* as `layout` chose them */
	bool train;            /* batch statistics, dropout, and backward will follow */
	bool wants[TW_OP_INS]; /* the gradient of input k is needed */
	bool relu;             /* forward also applies ReLU to the output (TW_OP_TAKES_RELU); the
				  backward pass of that ReLU is not the op's business */
	bool relu_in;          /* in[0] has yet to go through ReLU, and the gradient of in[0] is the
				  one before it (TW_OP_TAKES_RELU_IN) */
	bool frozen;           /* its trainable parameters never change: `change` of them is NULL,
				  and no work is done for it */
	uint32_t layer;        /* number of the node: what chance is drawn for */
	uint64_t seed;
};

/* Memory besides inputs and outputs, in bytes. */
struct tw_op_memory {
	size_t saved;    /* written by forward, read by backward of the same step */
	size_t forward;  /* scratch of forward */
	size_t backward; /* scratch of backward */
};

/* Where the next piece of an op's scratch may begin. */
static inline size_t tw_op_aligned(size_t bytes)
{
	return (bytes + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;
}

/* A batch's facts that are not values of a layer. */
struct tw_op_batch {
	uint64_t position;     /* global position of sample 0 */
	const uint32_t *label; /* losses read these: whichever the data has, else NULL; one for each
				  position of each sample */
	const float *target;   /* count * size of the prediction */
	/* What the gradient of a loss is multiplied with, by sample and by output; NULL: 1.  The
	 * loss itself is not. */
	const float *weight, *share;
	double *loss;    /* losses write: sum over the samples, added up in sample order */
	double *correct; /* how many were right, where a sample is right in so far as its positions
			    are; -1 where the task has no such thing */
};

/* One run.  Gradients are written, never added to: the program adds.  `out` may be in[0] for ops
 * with TW_OP_IN_PLACE, in_gradient[0] may be out_gradient with TW_OP_BACK_IN_PLACE; otherwise
 * nothing overlaps.  in_gradient[k] is NULL where !site->wants[k].  A frozen op that has buffers is
 * run backward for these even where nobody needs a gradient of it: out_gradient is NULL then. */
struct tw_op_run {
	const float *in[TW_OP_INS];
	float *out;
	const float *out_gradient;
	float *in_gradient[TW_OP_INS];
	const float *parameter[TW_OP_PARAMETERS]; /* NULL: see tw_op_values */
	const struct tw_piece *piece;          /* of the whole vector; NULL where not needed ... */
	size_t pieces, from[TW_OP_PARAMETERS]; /* ... in which parameter k begins here */
	float *change[TW_OP_PARAMETERS];       /* gradient of the batch's mean loss, NULL where
					    site->frozen; for buffers: how much they change */
	bool adds; /* change[0] has the gradient of a tied layer behind this one: add to it.  Only
		      ops that read numbers are asked to */
	void *saved, *scratch;
	struct tw_hand *hand;
	const struct tw_op_batch *batch;
};

/* Values from..from+n of parameter k: where they lie, or copied to `room`.  Only ops with
 * TW_OP_TAKES_PIECES have to ask: their parameter 0 is NULL where it does not lie in one piece. */
static inline const float *tw_op_values(const struct tw_op_run *run, uint32_t k, size_t from,
					size_t n, float *room)
{
	return run->parameter[k]
		       ? run->parameter[k] + from
		       : tw_pieces_at(run->piece, run->pieces, run->from[k] + from, n, room);
}

/* The same, always copied. */
static inline void tw_op_copy(const struct tw_op_run *run, uint32_t k, size_t from, size_t n,
			      float *to)
{
	const float *at = tw_op_values(run, k, from, n, to);

	if (at != to)
		memcpy(to, at, n * sizeof *to);
}

enum tw_op_trait {
	TW_OP_READS_IN = 1,        /* backward reads in[] */
	TW_OP_READS_OUT = 2,       /* backward reads out */
	TW_OP_IN_PLACE = 4,        /* forward may write over in[0] */
	TW_OP_BACK_IN_PLACE = 8,   /* backward may write in_gradient[0] over out_gradient */
	TW_OP_FOLLOWS_LAYOUT = 16, /* runs in whatever layout in[0] has; out has the same.  Without
				      this and without `layout`: PLAIN in, PLAIN out */
	TW_OP_TAKES_RELU = 32,     /* see site->relu */
	TW_OP_IS_RELU = 64,        /* max(x, 0): may be taken by the op before or behind it */
	TW_OP_LOSS = 128,          /* the end: in[0] is the prediction, out is nothing; backward has
				      no out_gradient: that of the mean over the samples is 1 */
	TW_OP_PASSES = 256, /* out and in[0] are the same bytes in the same order, forward and
				      backward (flatten of PLAIN, dropout when not training): the
				      program makes them one buffer and runs nothing */
	TW_OP_ADDS = 512,   /* out = in[0] + in[1]: the gradient of both is out_gradient; the
				      program hands the buffer on and never calls backward */
	TW_OP_DRAWS = 1024, /* chance: differs by position (dropout) */
	TW_OP_RANDOM_BATCH = 2048, /* a sample's output depends on the rest of the batch */
	/* Makes probabilities of in[0], of all outputs together or of each alone.  A loss does so
	 * inside: its predictions have yet to become probabilities. */
	TW_OP_SOFTMAX = 4096,
	TW_OP_SIGMOID = 8192,
	TW_OP_WANTS_FEATURES = 16384,  /* takes no rank 3: images are flattened before it */
	TW_OP_FLATTENS = 32768,        /* all values of in[0] as features, and nothing else */
	TW_OP_TAKES_RELU_IN = 65536,   /* see site->relu_in */
	TW_OP_TAKES_PIECES = 131072,   /* reads parameter 0 by tw_op_values, so nobody gathers it */
	TW_OP_RESCALES = 262144,       /* see graph/rescale.h */
	TW_OP_BY_POSITION = 524288,    /* takes rank 2, too; all others take 1 and 3 alone */
	TW_OP_READS_NUMBERS = 1048576, /* in[0] are whole numbers of the data, below the first size
					  of parameter 0: it must be the input, and has no gradient.
					  `forward` says TW_BAD_INPUT to anything else */
	/* Where samples have lengths, in[1] is the input of the network, of which the first value
	 * of each sample is its length (tw_op_length), and site->ins is 2; else it is 1.  Positions
	 * behind the length are padding: nothing before them depends on what they are. */
	TW_OP_TAKES_LENGTHS = 2097152,
	TW_OP_GIVES_LENGTHS = 4194304, /* samples have lengths behind it; it must be the first */
};

/* What the contract suite tries: the layer's text without its name, and the inputs' shape. */
struct tw_op_sample {
	const char *text;
	struct tw_shape in; /* of every input; rank 0 ends the list */
	uint32_t batch;     /* 0: tried with 1, 2 and 5 */
	bool lengths;       /* of samples: see TW_OP_TAKES_LENGTHS */
};

struct tw_op {
	TW_VARIANT;                   /* name: in a layer's text; traits: of enum tw_op_trait */
	const char *const *elsewhere; /* what other programs call it, where that is too far from
					 `name` to be found by its letters; NULL at the end;
					 NULL: nothing */
	uint32_t ins;                 /* 1 or 2; see also TW_OP_TAKES_LENGTHS */
	uint32_t positional; /* number of leading rows that may be given without their names */
	size_t kernel_bytes;
	const struct tw_op_sample *samples;

	/* Fill *form, or say in *why what does not fit (shapes and numbers, not the layer's name:
	 * the caller puts it in front). */
	enum tw_status (*form)(const void *options, const struct tw_shape *in,
			       struct tw_op_form *form, struct tw_error *why);
	/* Choose in_layout and out_layout; in_layout[0] comes in as what the producer has.  NULL:
	 * see FOLLOWS_LAYOUT. */
	void (*layout)(struct tw_op_site *site);
	/* Make the kernel (kernel_bytes of zeros) and say what memory it needs.  Primitives go into
	 * the kit, which owns them.  NULL: nothing to prepare. */
	enum tw_status (*prepare)(const struct tw_op_site *site, struct tw_onednn *kit,
				  void *kernel, struct tw_op_memory *need);
	enum tw_status (*forward)(const struct tw_op_site *site, const void *kernel,
				  const struct tw_op_run *run);
	enum tw_status (*backward)(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run);
	/* The truth by plain loops in double, PLAIN layout.  For losses out[0] is the mean loss.
	 * site->train decides as for forward; label, target and position come from `batch`.
	 * Running statistics are parameters like others here and are not changed. */
	void (*reference)(const struct tw_op_site *site, const struct tw_op_batch *batch,
			  const double *const *in, const double *const *parameter, double *out);
	/* The same layer in PyTorch, whose module has the same tensors: "nn.Conv2d(1, 20, (5, 5))"
	 * for an input of this shape.  NULL: none is known. */
	void (*torch)(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM]);
	/* The same layer as C for one sample, PLAIN, not training: statements that write y[] from
	 * x[] (of two inputs also z[]) and its parameters p0[], p1[], ...  There are constants N
	 * and M, the values of input and output, and the input's C, H, W (1 where its rank is 1;
	 * of rank 2 C positions of H features) and the output's MC, MH, MW.  NULL: none is known,
	 * or the op passes its input on. */
	void (*c)(const struct tw_op_site *site, FILE *out);
	const char *torch_class;  /* source of the class that it uses, where PyTorch has none */
	const char *torch_tied;   /* ... instead of it where parameter 0 is tied */
	const char *torch_padded; /* ... instead of it where samples have lengths */
};

/* Lines of the batch: samples, or their positions. */
static inline uint32_t tw_op_lines(const struct tw_op_site *site)
{
	return site->batch * tw_shape_positions(&site->in[0]);
}

/* How many positions sample b has; `lengths` is in[1].  Only the op that reads the data refuses
 * wrong ones: nobody else writes behind the positions for them. */
static inline size_t tw_op_length(const struct tw_op_site *site, const float *lengths, size_t b)
{
	const uint32_t all = tw_shape_positions(&site->in[0]);
	const float n = site->ins > 1 ? lengths[b * tw_shape_size(&site->in[1])] : 0;

	return n >= 1 && n < (float)all ? (size_t)n : all;
}

/* The same for `reference`. */
static inline size_t tw_op_refer_length(const struct tw_op_site *site, const double *lengths,
					size_t b)
{
	const size_t all = tw_shape_positions(&site->in[0]);

	return site->ins > 1 ? (size_t)lengths[b * tw_shape_size(&site->in[1])] : all;
}

#define TW_OP_C_EACH "\tfor (int i = 0; i < N; i++)\n\t\ty[i] = "

struct tw_op_family {
	const struct tw_op *const *op; /* NULL at the end */
};
extern const struct tw_op_family *const tw_op_family_all[]; /* made from op/; NULL at the end */

/* Op number k of all there are, losses (graph/loss.h) last; NULL after the last. */
const struct tw_op *tw_op_at(size_t k);
const struct tw_op *tw_op_find(const char *name);
/* The first op that has this trait; HOLDS that there is one. */
const struct tw_op *tw_op_with(enum tw_op_trait trait);
/* Its constants and statements; the op has `c`.  site: options, in and out. */
void tw_op_c_write(const struct tw_op *op, const struct tw_op_site *site, FILE *out);
/* Read "20 5x5 pad 2 stride 2" (what stands behind the layer's name) into the op's options:
 * positional rows first, then `name value` pairs in any order; a name may be given once.
 * `options` has options_bytes.  *why is a sentence without place. */
enum tw_status tw_op_parse(const struct tw_op *op, const char *text, void *options,
			   struct tw_arena *keep, struct tw_error *why);

#endif
