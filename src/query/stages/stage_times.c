/* SPDX-License-Identifier: Apache-2.0 */
/* stage_times.c - passes of stages, run and timed. */
#include "query/stages/stage_times.h"

#include "base/median.h"
#include "base/machine/clock.h"

#include <stdlib.h>

#define SECONDS_MOST 2.0 /* of measuring, once there are enough runs */

/* What passes of all stages need; each stage has what crosses its first cut. */
struct bed {
	const struct tw_stage *stage;
	uint32_t stages;
	const struct tw_engine *e;
	float *vector, *change;
	float **x, **dx;
	void **stash, *scratch;
	double *time; /* [run][stage][direction] */
	struct tw_inputs in;
	struct tw_piece piece;
};

static void *aligned(size_t bytes)
{
	const size_t whole = (bytes + TW_ALIGN) / TW_ALIGN * TW_ALIGN;

	return aligned_alloc(TW_ALIGN, whole);
}

static bool make_room(struct bed *b)
{
	const size_t n = b->e->trainable + b->e->buffers;
	size_t scratch = 1;
	bool good;

	b->vector = aligned(n * sizeof(float));
	b->change = aligned(n * sizeof(float));
	b->x = calloc(b->stages + 1, sizeof *b->x);
	b->dx = calloc(b->stages + 1, sizeof *b->dx);
	b->stash = calloc(b->stages, sizeof *b->stash);
	good = b->vector && b->change && b->x && b->dx && b->stash;
	for (uint32_t k = 0; good && k < b->stages; k++) {
		const struct tw_stage *t = &b->stage[k];

		b->x[k + 1] = aligned(t->sends * sizeof(float));
		b->dx[k] = aligned(t->returns * sizeof(float));
		b->stash[k] = t->stash ? aligned(t->stash) : NULL;
		good = b->x[k + 1] && b->dx[k] && (b->stash[k] || !t->stash);
		scratch = t->scratch > scratch ? t->scratch : scratch;
	}
	b->scratch = good ? aligned(scratch) : NULL;
	return b->scratch;
}

static void release(struct bed *b)
{
	for (uint32_t k = 0; k < b->stages; k++) {
		if (b->x)
			free(b->x[k + 1]);
		if (b->dx)
			free(b->dx[k]);
		if (b->stash)
			free(b->stash[k]);
	}
	free(b->vector);
	free(b->change);
	free(b->x);
	free(b->dx);
	free(b->stash);
	free(b->scratch);
	free(b->time);
}

static enum tw_status pass(struct bed *b, uint32_t k, enum tw_pass_kind kind, double *seconds)
{
	const struct tw_stage *t = &b->stage[k];
	const bool last = k + 1 == b->stages, back = kind == TW_PASS_BACKWARD;
	const struct tw_pass p = { .kind = kind,
				   .first = t->first,
				   .last = t->last,
				   .x = k ? b->x[k] : NULL,
				   .dy = back && !last ? b->dx[k + 1] : NULL,
				   .stash = b->stash[k],
				   .y = !back && !last ? b->x[k + 1] : NULL,
				   .dx = back && k ? b->dx[k] : NULL };
	const int64_t from = tw_clock();
	struct tw_score score;
	const enum tw_status st = tw_engine_run(b->e, b->scratch, &b->in, &p, b->change, &score);

	*seconds = tw_clock_seconds(from);
	return st;
}

/* Forward through all stages, then backward. */
static enum tw_status round_trip(struct bed *b, double *time)
{
	const uint32_t stages = b->stages;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; st == TW_OK && k < stages; k++)
		st = pass(b, k, TW_PASS_FORWARD, &time[2 * k]);
	for (uint32_t k = stages; st == TW_OK && k-- > 0;)
		st = pass(b, k, TW_PASS_BACKWARD, &time[2 * k + 1]);
	return st;
}

static double median(const double *time, unsigned runs, size_t each, size_t at, double *room)
{
	for (unsigned k = 0; k < runs; k++)
		room[k] = time[k * each + at];
	return tw_median(room, runs);
}

static enum tw_status measure(struct bed *b, unsigned least, struct tw_pipe_times *out)
{
	const size_t each = 2 * (size_t)b->stages, most = 100 + least;
	enum tw_status st = b->e->class->init(b->e, 0, b->e->trainable + b->e->buffers, b->vector);
	unsigned runs = 0;

	b->time = malloc((most + 1) * each * sizeof *b->time + most * sizeof *b->time);
	if (!b->time)
		return TW_NO_MEMORY;
	if (st == TW_OK) /* the first one is slow: programs are made, memory is touched */
		st = round_trip(b, b->time);
	for (const int64_t began = tw_clock(); st == TW_OK && runs < most; runs++) {
		if (runs >= least && tw_clock_seconds(began) > SECONDS_MOST)
			break;
		st = round_trip(b, b->time + runs * each);
	}
	for (size_t k = 0; st == TW_OK && 2 * k < each; k++) {
		double *room = b->time + (most + 1) * each;

		out[k] = (struct tw_pipe_times){ .forward_link = 0 };
		out[k].deed[TW_FORWARD] = median(b->time, runs, each, 2 * k, room);
		out[k].deed[TW_BACKWARD] = median(b->time, runs, each, 2 * k + 1, room);
	}
	return st;
}

enum tw_status tw_pass_times(const struct tw_stage *stage, uint32_t stages,
			     const struct tw_engine *e, uint32_t batch, unsigned least,
			     struct tw_pipe_times *out, struct tw_error *why)
{
	struct bed b = { .stage = stage, .stages = stages, .e = e };
	enum tw_status st = make_room(&b) ? TW_OK : TW_NO_MEMORY;

	b.piece = (struct tw_piece){ b.vector, 0, e->trainable + e->buffers };
	b.in = (struct tw_inputs){ .count = batch < e->samples ? batch : (uint32_t)e->samples,
				   .piece = &b.piece,
				   .pieces = 1 };
	if (st == TW_OK)
		st = measure(&b, least, out);
	release(&b);
	return st == TW_OK ? TW_OK
			   : tw_fail(why, st, "the stages of the job could not be measured: %s",
				     tw_status_name(st));
}

enum tw_status tw_stage_times(const struct tw_plan *plan, const struct tw_engine *e, uint32_t batch,
			      unsigned least, struct tw_pipe_times *out, struct tw_error *why)
{
	return tw_pass_times(plan->staging.stage, plan->staging.stages, e, batch, least, out, why);
}
