/* SPDX-License-Identifier: Apache-2.0 */
/* descent.c - the iterator of all batch methods; the rules are in descent.h. */
#include "strategy/descent.h"

#include <math.h>

enum stage {
	STAGE_BEGIN,    /* nothing was evaluated yet */
	STAGE_INITIAL,  /* the initial point is being evaluated */
	STAGE_MEASURE,  /* ... its loss and gradient are asked for */
	STAGE_ACCEPTED, /* at a point that is kept */
	STAGE_LOOK,     /* the method has asked for products */
	STAGE_TRIAL,    /* a step is being evaluated */
	STAGE_JUDGE,    /* ... its loss, gradient and slope are asked for */
	STAGE_RENEW,    /* the point that was found is evaluated on the next batch */
	STAGE_MEASURE_AGAIN,
	STAGE_RESTORE, /* back to where the line search began */
	STAGE_OVER,
};

#define COMMON 12 /* commands beside the method's own, in one list */

void tw_descent_begin(struct tw_descent *d)
{
	*d = (struct tw_descent){ .stage = STAGE_BEGIN, .loss = NAN, .before = NAN, .norm = NAN };
}

uint32_t tw_descent_commands(const struct tw_optimiser *method, const void *options)
{
	return method->commands(options) + COMMON;
}

const char *tw_descent_why_text(uint32_t why)
{
	static const char *const text[TW_DESCENT_WHYS] = {
		[TW_DESCENT_RUNS] = "it was stopped",
		[TW_DESCENT_GRADIENT] = "the gradient is short enough",
		[TW_DESCENT_DECREASE] = "an iteration hardly lowered the loss",
		[TW_DESCENT_EVALUATIONS] = "the limit of evaluations is reached",
		[TW_DESCENT_ITERATIONS] = "the limit of iterations is reached",
		[TW_DESCENT_PRECISION] = "no step lowers the loss at this precision",
		[TW_DESCENT_NOT_FINITE] = "the loss of the initial point is not finite",
	};

	return text[why < TW_DESCENT_WHYS ? why : 0];
}

/* --- evaluating ----------------------------------------------------------------------------- */

static enum tw_descent_turn evaluate(struct tw_descent *s, struct tw_commands *out,
				     enum stage stage)
{
	tw_command_add(out, TW_COMMAND_EVALUATE, 0, 0, 0, (double)s->batch);
	s->evaluations++;
	s->stage = stage;
	return TW_DESCENT_COMMANDS;
}

/* Loss, |gradient|^2 and |point|^2, with the slope along the direction if there is one. */
static enum tw_descent_turn measure(const struct tw_descender *d, struct tw_commands *out,
				    enum stage stage)
{
	tw_command_add(out, TW_COMMAND_GATHER, TW_VECTOR_GRADIENT, 0, 0, 0);
	if (d->how->l2 > 0) {
		tw_command_axpy(out, TW_VECTOR_GRADIENT, d->how->l2, TW_VECTOR_POINT);
		tw_command_dot(out, TW_VECTOR_POINT, TW_VECTOR_POINT);
	}
	tw_command_dot(out, TW_VECTOR_GRADIENT, TW_VECTOR_GRADIENT);
	if (stage == STAGE_JUDGE)
		tw_command_dot(out, TW_VECTOR_GRADIENT, TW_VECTOR_DIRECTION);
	d->state->stage = stage;
	return TW_DESCENT_COMMANDS;
}

struct measured {
	double loss, square, slope;
};

/* The results of `measure`. */
static struct measured measured(const struct tw_descender *d, const double *result, bool slope)
{
	struct measured m = { .loss = *result++ };

	if (d->how->l2 > 0)
		m.loss += d->how->l2 / 2 * *result++;
	m.square = *result++;
	m.slope = slope ? *result : 0;
	return m;
}

/* --- the line search ------------------------------------------------------------------------ */

static enum tw_descent_turn try_step(struct tw_descent *s, struct tw_commands *out, double step)
{
	tw_command_copy(out, TW_VECTOR_POINT, TW_VECTOR_BASE);
	tw_command_axpy(out, TW_VECTOR_POINT, step, TW_VECTOR_DIRECTION);
	s->trials++;
	return evaluate(s, out, STAGE_TRIAL);
}

/* The direction is in the list: search along it. */
static enum tw_descent_turn search(const struct tw_descender *d, struct tw_heading h,
				   struct tw_commands *out)
{
	const struct tw_descent_options *how = d->how;
	struct tw_descent *s = d->state;
	const double first = h.step > 0 && isfinite(h.step) ? h.step : 1 / sqrt(s->moved.square);

	tw_search_begin(&s->search, s->loss, h.slope, first, how->sufficient,
			how->curvature > 0 ? how->curvature : d->method->curvature);
	s->slope = h.slope;
	s->trials = s->settles = 0;
	tw_command_copy(out, TW_VECTOR_BASE, TW_VECTOR_POINT);
	tw_command_copy(out, TW_VECTOR_BEFORE, TW_VECTOR_GRADIENT);
	return try_step(s, out, first);
}

static enum tw_descent_turn head_for(const struct tw_descender *d, const double *result,
				     struct tw_commands *out)
{
	struct tw_heading h = d->method->direct(d->options, d->own, &d->state->moved, result, out);

	if (!(h.slope < 0) || !isfinite(h.slope)) { /* (4) */
		d->state->restarts++;
		d->state->steepest = true;
		tw_optimiser_forget(d->method, d->options, d->own);
		out->count = 0;
		d->state->moved.step = 0;
		h = d->method->direct(d->options, d->own, &d->state->moved, NULL, out);
	}
	return search(d, h, out);
}

/* --- accepted ------------------------------------------------------------------------------- */

static bool gained_little(const struct tw_descender *d)
{
	const struct tw_descent *s = d->state;
	const double scale = fmax(1, fmax(fabs(s->before), fabs(s->loss)));

	return s->iterations && !d->how->fresh && s->before - s->loss <= d->how->decrease * scale;
}

static uint32_t reason_to_stop(const struct tw_descender *d)
{
	const struct tw_descent *s = d->state;
	const struct tw_descent_options *how = d->how;

	if (s->norm <= how->gradient)
		return TW_DESCENT_GRADIENT;
	if (gained_little(d))
		return TW_DESCENT_DECREASE;
	if (how->iterations && s->iterations >= how->iterations)
		return TW_DESCENT_ITERATIONS;
	if (how->evaluations && s->evaluations >= how->evaluations)
		return TW_DESCENT_EVALUATIONS;
	return TW_DESCENT_RUNS;
}

static enum tw_descent_turn over(struct tw_descent *s, uint32_t why)
{
	s->why = why;
	s->stage = STAGE_OVER;
	return TW_DESCENT_OVER;
}

static enum tw_descent_turn accepted(const struct tw_descender *d)
{
	d->state->stage = STAGE_ACCEPTED;
	return TW_DESCENT_ACCEPTED;
}

static enum tw_descent_turn go_on(const struct tw_descender *d, struct tw_commands *out)
{
	struct tw_descent *s = d->state;
	const uint32_t why = reason_to_stop(d);

	if (why != TW_DESCENT_RUNS)
		return over(s, why);
	s->steepest = s->iterations == 0;
	if (s->iterations && d->method->keep && !d->how->fresh)
		d->method->keep(d->options, d->own, &s->moved, out);
	if (d->method->look)
		d->method->look(d->options, d->own, out);
	if (!out->count)
		return head_for(d, NULL, out);
	s->stage = STAGE_LOOK;
	return TW_DESCENT_COMMANDS;
}

/* A step is taken. */
static enum tw_descent_turn moved(const struct tw_descender *d, const struct measured *m,
				  struct tw_commands *out)
{
	struct tw_descent *s = d->state;

	s->moved = (struct tw_moved){ .step = s->search.step,
				      .slope = m->slope,
				      .slope_before = s->slope,
				      .square = m->square,
				      .square_before = s->moved.square,
				      .renews = d->how->fresh };
	s->before = s->loss;
	s->loss = m->loss;
	s->norm = sqrt(m->square);
	s->iterations++;
	if (!d->how->fresh)
		return accepted(d);
	if (d->method->keep) /* both gradients are of the batch that is over */
		d->method->keep(d->options, d->own, &s->moved, out);
	s->batch++;
	return evaluate(s, out, STAGE_RENEW);
}

/* (4): back to the base of a search that found nothing. */
static enum tw_descent_turn give_up(struct tw_descent *s, struct tw_commands *out)
{
	tw_command_copy(out, TW_VECTOR_POINT, TW_VECTOR_BASE);
	tw_command_copy(out, TW_VECTOR_GRADIENT, TW_VECTOR_BEFORE);
	s->stage = STAGE_RESTORE;
	return TW_DESCENT_COMMANDS;
}

static enum tw_descent_turn restored(const struct tw_descender *d, struct tw_commands *out)
{
	struct tw_descent *s = d->state;

	if (s->steepest)
		return over(s, TW_DESCENT_PRECISION);
	s->restarts++;
	s->steepest = true;
	s->moved.step = 0;
	tw_optimiser_forget(d->method, d->options, d->own);
	return search(d, d->method->direct(d->options, d->own, &s->moved, NULL, out), out);
}

static enum tw_descent_turn judge(const struct tw_descender *d, const double *result,
				  struct tw_commands *out)
{
	struct tw_descent *s = d->state;
	const struct measured m = measured(d, result, true);
	enum tw_search_state found;

	if (s->settles)
		return moved(d, &m, out);
	found = tw_search_next(&s->search, m.loss, m.slope);
	if (found == TW_SEARCH_FOUND)
		return moved(d, &m, out);
	if (found == TW_SEARCH_GOES_ON && s->trials < d->how->trials)
		return try_step(s, out, s->search.step);
	if (!(s->search.best.step > 0 && s->search.best.value < s->loss))
		return give_up(s, out);
	s->settles = true; /* not all that was asked for, but better than before */
	s->search.step = s->search.best.step;
	return try_step(s, out, s->search.step);
}

static enum tw_descent_turn initial(const struct tw_descender *d, const double *result)
{
	struct tw_descent *s = d->state;
	const struct measured m = measured(d, result, false);

	s->loss = m.loss;
	s->norm = sqrt(m.square);
	s->moved = (struct tw_moved){ .square = m.square, .square_before = m.square };
	if (!isfinite(m.loss) || !isfinite(m.square))
		return over(s, TW_DESCENT_NOT_FINITE);
	return accepted(d);
}

/* The gradient on the next batch: the direction starts from this one. */
static enum tw_descent_turn renewed(const struct tw_descender *d, const double *result)
{
	struct tw_descent *s = d->state;
	const struct measured m = measured(d, result, false);

	s->loss = m.loss;
	s->norm = sqrt(m.square);
	s->moved.square = m.square;
	if (!isfinite(m.loss) || !isfinite(m.square))
		return over(s, TW_DESCENT_NOT_FINITE);
	return accepted(d);
}

enum tw_descent_turn tw_descent_next(const struct tw_descender *d, const double *result,
				     struct tw_commands *out)
{
	struct tw_descent *s = d->state;

	out->count = 0;
	switch (s->stage) {
	case STAGE_BEGIN:
		return evaluate(s, out, STAGE_INITIAL);
	case STAGE_INITIAL:
		return measure(d, out, STAGE_MEASURE);
	case STAGE_MEASURE:
		return initial(d, result);
	case STAGE_ACCEPTED:
		return go_on(d, out);
	case STAGE_LOOK:
		return head_for(d, result, out);
	case STAGE_TRIAL:
		return measure(d, out, STAGE_JUDGE);
	case STAGE_JUDGE:
		return judge(d, result, out);
	case STAGE_RENEW:
		return measure(d, out, STAGE_MEASURE_AGAIN);
	case STAGE_MEASURE_AGAIN:
		return renewed(d, result);
	case STAGE_RESTORE:
		return restored(d, out);
	default:
		return TW_DESCENT_OVER;
	}
}
