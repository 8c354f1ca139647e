/* SPDX-License-Identifier: Apache-2.0 */
/* lbfgs.c - limited-memory BFGS (Liu and Nocedal 1989): the direction is -H g, where H follows from
 * the last `history` pairs s = change of the point and y = change of the gradient.
 *
 * The two-loop recursion runs on coefficients instead of vectors (Chen, Wang and Zhou 2014): the
 * direction is a sum of all s, all y and g, and the products that the recursion asks for follow
 * from the products of these vectors.  So an iteration takes two lists of commands, however long
 * the history is.  The recursion asks for s_i . y_j and y_i . y_j where pair j is not older than
 * pair i, and for the products of g; after a step only those of the newest y and of g are new.  The
 * former are the change of the products of g, unless the gradient is of another batch by then.
 *
 * Pairs lie in places 0..history-1, which are used in turn; s of place i is vector OWN + i, y is
 * vector OWN + history + i. */
#include "strategy/optimiser.h"

#include <float.h>

struct options {
	uint32_t history;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, history, TW_U32, "10", "pairs", 1, 100,
		  "number of steps whose change of point and gradient is remembered"),
	TW_OPTION_END,
};

/* Products of vectors, by place; the tables follow the struct. */
struct state {
	uint32_t pairs, next;    /* pairs that are known; the place of the next one */
	uint32_t fresh, renewed; /* the newest pair has just been kept, and its products are not
				    known; the gradient is of another batch than the pair */
};

#define HEAD sizeof(struct state)

struct tables {
	double *sy, *yy;     /* [i * history + j]: s_i . y_j, y_i . y_j */
	double *gs, *gy;     /* g . s_i, g . y_i: of this g, until then of the one before */
	double *alpha;       /* scratch of `direct`: one for each pair ... */
	double *of_s, *of_y; /* ... and the coefficients of the direction */
};

static struct tables tables_of(const struct options *o, void *state)
{
	double *at = (double *)((char *)state + HEAD);
	const size_t m = o->history, square = m * m;
	double *rest = at + 2 * square;

	return (struct tables){ at,           at + square,  rest,        rest + m,
				rest + 2 * m, rest + 3 * m, rest + 4 * m };
}

static size_t state_bytes(const void *options)
{
	const size_t m = ((const struct options *)options)->history;

	return HEAD + (2 * m * m + 5 * m) * sizeof(double);
}

static uint32_t vectors(const void *options)
{
	return 2 * ((const struct options *)options)->history;
}

static uint32_t commands(const void *options)
{
	return 4 * ((const struct options *)options)->history + 8;
}

static uint32_t s_of(uint32_t place)
{
	return TW_VECTOR_OWN + place;
}

static uint32_t y_of(const struct options *o, uint32_t place)
{
	return TW_VECTOR_OWN + o->history + place;
}

/* The place of pair k, the oldest first. */
static uint32_t place(const struct options *o, const struct state *s, uint32_t k)
{
	return (s->next + o->history - s->pairs + k) % o->history;
}

static void forget(const void *options, void *state)
{
	struct state *s = state;

	(void)options;
	s->pairs = s->next = s->fresh = 0;
}

/* A pair whose curvature is not positive would make H useless: it is left out. */
static void keep(const void *options, void *state, const struct tw_moved *m,
		 struct tw_commands *out)
{
	const struct options *o = options;
	struct state *s = state;
	const double product = m->step * (m->slope - m->slope_before);

	s->fresh = product > DBL_EPSILON * -m->slope_before * m->step;
	s->renewed = m->renews;
	if (!s->fresh)
		return;
	tw_command_copy(out, s_of(s->next), TW_VECTOR_POINT);
	tw_command_axpy(out, s_of(s->next), -1, TW_VECTOR_BASE);
	tw_command_copy(out, y_of(o, s->next), TW_VECTOR_GRADIENT);
	tw_command_axpy(out, y_of(o, s->next), -1, TW_VECTOR_BEFORE);
	s->next = (s->next + 1) % o->history;
	s->pairs += s->pairs < o->history;
}

/* Are products of pair k with the newest y to be asked for? */
static bool asks(const struct state *s, uint32_t k)
{
	return s->fresh && (s->renewed || k + 1 == s->pairs);
}

static void look(const void *options, const void *state, struct tw_commands *out)
{
	const struct options *o = options;
	const struct state *s = state;

	for (uint32_t k = 0; k < s->pairs; k++) {
		const uint32_t i = place(o, s, k), n = place(o, s, s->pairs - 1);

		tw_command_dot(out, TW_VECTOR_GRADIENT, s_of(i));
		tw_command_dot(out, TW_VECTOR_GRADIENT, y_of(o, i));
		if (!asks(s, k))
			continue;
		tw_command_dot(out, s_of(i), y_of(o, n));
		tw_command_dot(out, y_of(o, i), y_of(o, n));
	}
}

/* What `look` asked for, in the same order. */
static void learn(const struct options *o, struct state *s, const struct tables *t,
		  const double *result)
{
	const uint32_t m = o->history, n = s->pairs ? place(o, s, s->pairs - 1) : 0;

	for (uint32_t k = 0; k < s->pairs; k++) {
		const uint32_t i = place(o, s, k);
		const double gs = *result++, gy = *result++;

		if (asks(s, k)) {
			t->sy[i * m + n] = *result++;
			t->yy[i * m + n] = t->yy[n * m + i] = *result++;
		} else if (s->fresh) { /* y is the change of g */
			t->sy[i * m + n] = gs - t->gs[i];
			t->yy[i * m + n] = t->yy[n * m + i] = gy - t->gy[i];
		}
		t->gs[i] = gs;
		t->gy[i] = gy;
	}
	s->fresh = 0;
}

/* s of pair k times what the coefficients stand for, in the first loop: g and newer y. */
static double times_s(const struct options *o, const struct state *s, const struct tables *t,
		      uint32_t k)
{
	const uint32_t i = place(o, s, k);
	double sum = t->gs[i];

	for (uint32_t l = k + 1; l < s->pairs; l++) {
		const uint32_t j = place(o, s, l);

		sum += t->of_y[j] * t->sy[i * o->history + j];
	}
	return sum;
}

/* y of pair k times the same, in the second loop: g, all y and older s. */
static double times_y(const struct options *o, const struct state *s, const struct tables *t,
		      uint32_t k, double of_g)
{
	const uint32_t i = place(o, s, k);
	double sum = of_g * t->gy[i];

	for (uint32_t l = 0; l < s->pairs; l++) {
		const uint32_t j = place(o, s, l);

		sum += t->of_y[j] * t->yy[i * o->history + j];
		if (l < k)
			sum += t->of_s[j] * t->sy[j * o->history + i];
	}
	return sum;
}

/* The two-loop recursion; returns the coefficient of g. */
static double recursion(const struct options *o, const struct state *s, const struct tables *t)
{
	const uint32_t m = o->history, newest = place(o, s, s->pairs - 1);
	const double scale = t->sy[newest * m + newest] / t->yy[newest * m + newest];
	const double of_g = scale;

	for (uint32_t k = 0; k < m; k++)
		t->of_s[k] = t->of_y[k] = 0;
	for (uint32_t k = s->pairs; k-- > 0;) {
		const uint32_t i = place(o, s, k);

		t->alpha[i] = times_s(o, s, t, k) / t->sy[i * m + i];
		t->of_y[i] -= t->alpha[i];
	}
	for (uint32_t k = 0; k < s->pairs; k++)
		t->of_y[place(o, s, k)] *= scale;
	for (uint32_t k = 0; k < s->pairs; k++) {
		const uint32_t i = place(o, s, k);
		const double beta = times_y(o, s, t, k, of_g) / t->sy[i * m + i];

		t->of_s[i] += t->alpha[i] - beta;
	}
	return of_g;
}

static struct tw_heading direct(const void *options, void *state, const struct tw_moved *m,
				const double *result, struct tw_commands *out)
{
	const struct options *o = options;
	struct state *s = state;
	const struct tables t = tables_of(o, state);
	double of_g, slope;

	learn(o, s, &t, result);
	tw_command_copy(out, TW_VECTOR_DIRECTION, TW_VECTOR_GRADIENT);
	if (!s->pairs) {
		tw_command_scale(out, TW_VECTOR_DIRECTION, -1);
		return (struct tw_heading){ -m->square, 0 };
	}
	of_g = recursion(o, s, &t);
	slope = -of_g * m->square;
	tw_command_scale(out, TW_VECTOR_DIRECTION, -of_g);
	for (uint32_t k = 0; k < s->pairs; k++) {
		const uint32_t i = place(o, s, k);

		tw_command_axpy(out, TW_VECTOR_DIRECTION, -t.of_s[i], s_of(i));
		tw_command_axpy(out, TW_VECTOR_DIRECTION, -t.of_y[i], y_of(o, i));
		slope -= t.of_s[i] * t.gs[i] + t.of_y[i] * t.gy[i];
	}
	return (struct tw_heading){ slope, 1 };
}

const struct tw_optimiser tw_optimiser_lbfgs = {
	.name = "lbfgs",
	.help = "limited-memory BFGS: curvature from the last steps (Sandblaster's method)",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.curvature = 0.9,
	.state_bytes = state_bytes,
	.vectors = vectors,
	.commands = commands,
	.forget = forget,
	.keep = keep,
	.look = look,
	.direct = direct,
};
