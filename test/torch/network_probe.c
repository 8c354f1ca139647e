/* SPDX-License-Identifier: Apache-2.0 */
/* network_probe.c - computes on a job's network what it is asked for, for networks.py.
 *
 *	network_probe JOB
 *
 * A request is a line on stdin, and "done" on stdout is its answer; files are safetensors, the
 * network's tensors by their names:
 *
 *	weights OUT                        the first values
 *	gradient FROM COUNT WEIGHTS OUT    one step's gradient on the batch from position FROM
 *	evaluate FROM COUNT WEIGHTS OUT    what is predicted for these samples of the test set
 *
 * Beside gradients there are in OUT x (what the network saw), label or target, loss (the mean) and
 * correct, and after evaluate prediction.  Anything wrong is a sentence on stderr and exit code 2.
 */
#include "engine/network.h"
#include "engine/order.h"
#include "spec/job.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/weights.h"
#include "model/safetensors.h"
#include "run/open_engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTRA 6 /* tensors that are no parameters */

static struct tw_heap *const heap = &tw_heap_system;

struct probe {
	struct tw_job *job;
	struct tw_engine *engine;
	const struct tw_graph *graph;
	const struct tw_data *data;
	void *scratch;
	float *vector; /* gradient, or first values */
	/* what is written */
	struct tw_safe_tensor *tensor;
	size_t tensors;
};

/* One batch, as the network sees it. */
struct seen {
	uint64_t *index;
	float *x, *target, *prediction;
	uint32_t *label;
	double loss, correct;
};

__attribute__((noreturn)) static void stop(const char *why)
{
	fprintf(stderr, "network_probe: %s\n", why);
	exit(2);
}

static void must(enum tw_status st, const struct tw_error *why)
{
	if (st != TW_OK)
		stop(why && why->text[0] ? why->text : tw_status_name(st));
}

static void *room(size_t bytes)
{
	void *memory = tw_heap_zeros(heap, bytes + 1);

	if (!memory)
		stop("no memory");
	return memory;
}

/* --- what is written -------------------------------------------------------------------------- */

static void add(struct probe *p, const char *name, enum tw_safe_type type, const void *data,
		uint32_t rank, const uint32_t *d)
{
	struct tw_safe_tensor *t = &p->tensor[p->tensors++];

	*t = (struct tw_safe_tensor){ .name = name, .type = type, .rank = rank, .count = 1 };
	for (uint32_t k = 0; k < rank; k++) {
		t->d[k] = d[k];
		t->count *= d[k];
	}
	t->data = data;
	t->bytes = t->count * (type == TW_SAFE_F64 ? 8 : 4);
}

/* Values that the network predicts for one sample: what its loss sees. */
static size_t outputs_of(const struct probe *p)
{
	const struct tw_graph *g = p->graph;

	return tw_shape_size(&g->node[g->node[g->nodes - 1].in[0]].shape);
}

/* Doubles go first, so that they stand where doubles may. */
static void add_seen(struct probe *p, const struct seen *s, uint32_t count)
{
	const struct tw_data *d = p->data;
	const uint32_t x[] = { count, d->shape[0], d->shape[1], d->shape[2] };
	const uint32_t label[] = { count, (uint32_t)tw_data_labels(d) };
	const uint32_t target[] = { count, d->targets };
	const struct tw_shape *y = &p->graph->node[p->graph->node[p->graph->nodes - 1].in[0]].shape;
	const uint32_t outputs[] = { count, y->d[0], y->d[1] };

	add(p, "loss", TW_SAFE_F64, &s->loss, 0, NULL);
	add(p, "correct", TW_SAFE_F64, &s->correct, 0, NULL);
	add(p, "x", TW_SAFE_F32, s->x, d->rank + 1, x);
	if (d->classes)
		add(p, "label", TW_SAFE_I32, s->label, d->tokens ? 2 : 1, label);
	else
		add(p, "target", TW_SAFE_F32, s->target, 2, target);
	if (s->prediction)
		add(p, "prediction", TW_SAFE_F32, s->prediction, y->rank + 1, outputs);
}

static void add_vector(struct probe *p)
{
	for (uint32_t k = 0; k < p->graph->tensors; k++) {
		const struct tw_graph_tensor *t = &p->graph->tensor[k];

		add(p, t->name, TW_SAFE_F32, p->vector + t->from, t->form.rank, t->form.d);
	}
}

static void write_out(struct probe *p, const char *path)
{
	struct tw_block *block = NULL;
	FILE *f = fopen(path, "wb");

	must(tw_safe_write(heap, p->tensor, p->tensors, NULL, &block), NULL);
	if (!f || fwrite(block->data, 1, block->bytes, f) != block->bytes || fclose(f) != 0)
		stop("cannot write");
	tw_block_drop(block);
	p->tensors = 0;
}

/* --- requests --------------------------------------------------------------------------------- */

/* The samples once more: the engine keeps to itself what it filled in. */
static void fill(const struct probe *p, const struct tw_inputs *in, bool training, struct seen *s)
{
	const uint64_t samples = p->engine->samples, seed = p->job->train.seed;
	const struct tw_order order = tw_order_make(seed, samples);
	const struct tw_data *d = p->data;
	const struct tw_data_options *o = &p->job->data.set;
	const struct tw_batch batch = {
		.set = training ? &d->train : &d->test,
		.index = s->index,
		.count = in->count,
		.position = in->from,
	};

	if (!training && in->from + in->count > d->test.count)
		stop("there are not so many test samples");
	for (uint32_t k = 0; k < in->count; k++)
		s->index[k] = training ? tw_order_sample(&order, in->from + k) : in->from + k;
	tw_data_fill(d, &batch, training ? o : NULL, seed, s->x, s->label, s->target);
}

static void compute(struct probe *p, bool training, struct tw_inputs *in, const char *weights,
		    const char *out)
{
	const size_t all = p->engine->trainable + p->engine->buffers;
	struct tw_piece piece = { .n = all };
	struct tw_error why = { 0 };
	struct tw_score score;
	float *vector = NULL;
	struct seen s = {
		.index = room(in->count * sizeof *s.index),
		.x = room(in->count * p->data->features * sizeof(float)),
		.target = room((size_t)in->count * p->data->targets * sizeof(float)),
		.label = room(in->count * tw_data_labels(p->data) * sizeof *s.label),
		.prediction = training ? NULL : room(in->count * outputs_of(p) * sizeof(float)),
	};

	must(tw_weights_read(&(struct tw_weights_request){ .path = weights, .graph = p->graph },
			     heap, &vector, &why),
	     &why);
	piece.at = vector;
	in->piece = &piece;
	in->pieces = 1;
	if (training)
		must(p->engine->class->gradient(p->engine, p->scratch, in, p->vector, &score),
		     NULL);
	else
		must(tw_network_score(p->engine, p->scratch, &p->data->test, in, s.prediction,
				      &score),
		     NULL);
	fill(p, in, training, &s);
	s.loss = score.loss / (double)score.samples;
	s.correct = score.correct;
	add_seen(p, &s, in->count);
	if (training)
		add_vector(p);
	write_out(p, out);
	void *const done[] = { s.index, s.x, s.target, s.label, s.prediction, vector };

	for (size_t k = 0; k < sizeof done / sizeof *done; k++)
		heap->put(heap, done[k]);
}

static void answer(struct probe *p, const char *line)
{
	char what[16], weights[2048], out[2048];
	struct tw_inputs in = { 0 };

	if (sscanf(line, "weights %2047s", out) == 1) {
		must(p->engine->class->init(p->engine, 0, p->engine->trainable + p->engine->buffers,
					    p->vector),
		     NULL);
		add_vector(p);
		write_out(p, out);
	} else if (sscanf(line, "%15s %" SCNu64 " %" SCNu32 " %2047s %2047s", what, &in.from,
			  &in.count, weights, out) == 5 &&
		   (strcmp(what, "gradient") == 0 || strcmp(what, "evaluate") == 0)) {
		compute(p, what[0] == 'g', &in, weights, out);
	} else {
		stop("a request is weights, gradient or evaluate with all that belongs to it");
	}
	puts("done");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct probe p = { 0 };
	struct tw_error why = { 0 };
	char line[8192];

	if (argc != 2)
		stop("usage: network_probe JOB");
	must(tw_job_read(argv[1], NULL, 0, NULL, TW_WORLD_THREADS, &p.job, &why), &why);
	must(tw_job_open_engine(p.job, heap, &p.engine, &why), &why);
	p.graph = tw_network_graph(p.engine);
	p.data = tw_network_data(p.engine);
	if (!p.graph)
		stop("the job has no network");
	p.scratch = room(p.engine->scratch_bytes);
	p.vector = room((p.engine->trainable + p.engine->buffers) * sizeof(float));
	p.tensor = room((p.graph->tensors + EXTRA) * sizeof *p.tensor);
	while (fgets(line, sizeof line, stdin))
		answer(&p, line);
	heap->put(heap, p.tensor);
	heap->put(heap, p.vector);
	heap->put(heap, p.scratch);
	p.engine->class->close(p.engine);
	tw_job_free(p.job);
	return 0;
}
