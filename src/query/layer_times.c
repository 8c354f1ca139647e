/* SPDX-License-Identifier: Apache-2.0 */
/* layer_times.c - a gradient with a clock between its steps, many times. */
#include "query/layer_times.h"

#include "base/median.h"
#include "engine/network.h"
#include "engine/stages.h"
#include "base/machine/clock.h"

#include <stdlib.h>

#define RUNS_LEAST   15u
#define RUNS_MOST    100u
#define SECONDS_MOST 2.0 /* of measuring, once there are enough runs */
#define STAGES_MOST  8u

struct trial {
	const struct tw_engine *e;
	float *vector, *gradient;
	void *scratch;
	struct tw_inputs in;
	struct tw_piece piece;
	uint32_t nodes;
	int64_t *spent; /* [run][node] */
	unsigned runs;
};

static enum tw_status measure(struct trial *t)
{
	const size_t n = t->e->trainable + t->e->buffers;
	enum tw_status st = t->e->class->init(t->e, 0, n, t->vector);
	struct tw_score score;

	if (st == TW_OK) /* the first one is slow: memory is touched */
		st = t->e->class->gradient(t->e, t->scratch, &t->in, t->gradient, &score);
	for (const int64_t began = tw_clock(); st == TW_OK && t->runs < RUNS_MOST; t->runs++) {
		if (t->runs >= RUNS_LEAST && tw_clock_seconds(began) > SECONDS_MOST)
			break;
		st = tw_network_profile(t->e, t->scratch, &t->in, t->gradient, &score, tw_clock,
					t->spent + (size_t)t->runs * t->nodes);
	}
	return st;
}

static void find_medians(const struct trial *t, double *seconds)
{
	double one[RUNS_MOST];

	for (uint32_t k = 0; k < t->nodes; k++) {
		for (unsigned r = 0; r < t->runs; r++)
			one[r] = (double)t->spent[(size_t)r * t->nodes + k] * 1e-9;
		seconds[k] = tw_median(one, t->runs);
	}
}

enum tw_status tw_layer_times(const struct tw_engine *e, uint32_t batch, double *seconds,
			      struct tw_error *why)
{
	const size_t n = e->trainable + e->buffers;
	struct trial t = { .e = e, .nodes = tw_network_graph(e)->nodes };
	enum tw_status st = TW_NO_MEMORY;

	t.vector = malloc(n * sizeof *t.vector);
	t.gradient = malloc(n * sizeof *t.gradient);
	t.scratch = malloc(e->scratch_bytes);
	t.spent = calloc((size_t)RUNS_MOST * t.nodes, sizeof *t.spent);
	t.piece = (struct tw_piece){ t.vector, 0, n };
	t.in = (struct tw_inputs){ .count = batch < e->samples ? batch : (uint32_t)e->samples,
				   .piece = &t.piece,
				   .pieces = 1 };
	if (t.vector && t.gradient && t.scratch && t.spent)
		st = measure(&t);
	if (st == TW_OK)
		find_medians(&t, seconds);
	free(t.vector);
	free(t.gradient);
	free(t.scratch);
	free(t.spent);
	return st == TW_OK ? TW_OK
			   : tw_fail(why, st, "a step of the job could not be measured: %s",
				     tw_status_name(st));
}

/* --- stages ----------------------------------------------------------------------------------- */

static void time_parts(const struct tw_engine *e, const double *seconds, double *compute)
{
	for (size_t k = 0; k + 1 < e->cuts; k++) {
		compute[k] = 0;
		for (uint32_t n = tw_network_cut_node(e, k) + 1; n <= tw_network_cut_node(e, k + 1);
		     n++)
			compute[k] += seconds[n];
	}
}

static json_t *stages_row(const struct tw_engine *e, const double *compute, uint32_t stages,
			  const uint32_t *cut)
{
	json_t *borders = json_array(), *times = json_array();
	double all = 0, most = 0;

	for (uint32_t s = 0; s < stages; s++) {
		const size_t to = s + 1 < stages ? cut[s] : e->cuts - 1;
		double sum = 0;

		for (size_t k = s ? cut[s - 1] : 0; k < to; k++)
			sum += compute[k];
		if (s + 1 < stages)
			json_array_append_new(borders, json_string(e->cut[cut[s]].after));
		json_array_append_new(times, json_real(sum));
		all += sum;
		most = sum > most ? sum : most;
	}
	return json_pack("{s:I, s:o, s:o, s:f}", "stages", (json_int_t)stages, "borders", borders,
			 "seconds", times, "faster", most > 0 ? all / most : 1.0);
}

enum tw_status tw_layer_stages(const struct tw_engine *e, const double *seconds, json_t **out,
			       struct tw_error *why)
{
	double *compute = malloc(2 * e->cuts * sizeof *compute);
	bool *counts = malloc(e->cuts * sizeof *counts);
	const struct tw_stage_costs costs = { compute, NULL, counts, e->cuts - 1 };
	enum tw_status st = compute && counts ? TW_OK : TW_NO_MEMORY;
	json_t *list = json_array();
	uint32_t cut[STAGES_MOST];

	if (st == TW_OK) {
		tw_stages_flops(e, compute, compute + e->cuts, counts);
		time_parts(e, seconds, compute);
	}
	for (uint32_t k = 2; st == TW_OK && k <= STAGES_MOST; k++) {
		st = tw_stages_balance(&tw_heap_system, &costs, k, cut);
		if (st == TW_OK)
			json_array_append_new(list, stages_row(e, compute, k, cut));
	}
	free(compute);
	free(counts);
	if (st == TW_NO_MEMORY) {
		json_decref(list);
		return tw_fail(why, st, "no memory for stages");
	}
	*out = list;
	return TW_OK;
}
