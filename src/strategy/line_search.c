/* SPDX-License-Identifier: Apache-2.0 */
/* line_search.c - Moré and Thuente's search, "Line search algorithms with guaranteed sufficient
 * decrease", ACM TOMS 20 (1994).
 *
 * The interval [best, other] shrinks around a minimiser of the auxiliary function
 *
 *	psi(a) = f(a) - f(0) - sufficient f'(0) a
 *
 * until a step of sufficient decrease with a positive slope has been seen; then around one of f
 * itself.  `trial` chooses the next step by the four cases of section 4 of the paper. */
#include "strategy/line_search.h"

#include <math.h>

#define SHORTEST 0.66  /* the interval must shrink by this factor in two steps, or it is halved */
#define SHORTER  1e-10 /* ... and is not made shorter than this, relative to its longer end */
#define LONGEST  1e20

void tw_search_begin(struct tw_search *s, double value, double slope, double step,
		     double sufficient, double curvature)
{
	*s = (struct tw_search){ .sufficient = sufficient,
				 .curvature = curvature,
				 .step = step,
				 .value = value,
				 .slope = slope,
				 .best = { 0, value, slope },
				 .other = { 0, value, slope },
				 .low = 0,
				 .high = 5 * step,
				 .width = LONGEST,
				 .width_before = 2 * LONGEST,
				 .top = LONGEST };
}

/* The minimiser of the cubic through two ends and their slopes, as a share of the way from a to b;
 * `guard`: the cubic may have none, then the square root is that of 0. */
static double cubic(const struct tw_search_end *a, const struct tw_search_end *b, bool guard)
{
	const double theta = 3 * (a->value - b->value) / (b->step - a->step) + a->slope + b->slope;
	const double scale = fmax(fabs(theta), fmax(fabs(a->slope), fabs(b->slope)));
	const double square =
		(theta / scale) * (theta / scale) - (a->slope / scale) * (b->slope / scale);
	double gamma = scale * sqrt(guard ? fmax(0, square) : square);

	if (b->step < a->step)
		gamma = -gamma;
	return ((gamma - a->slope) + theta) / (((gamma - a->slope) + gamma) + b->slope);
}

/* The minimiser of the parabola through two ends and the slope at a. */
static double parabola(const struct tw_search_end *a, const struct tw_search_end *b)
{
	return a->slope / ((a->value - b->value) / (b->step - a->step) + a->slope) / 2 *
		       (b->step - a->step) +
	       a->step;
}

/* Where the line through the two slopes is 0. */
static double secant(const struct tw_search_end *a, const struct tw_search_end *b)
{
	return b->step + b->slope / (b->slope - a->slope) * (a->step - b->step);
}

/* Section 4 of the paper: the next step from the ends of the interval and from what was found at
 * `at`; the interval is made shorter. */
static double trial(struct tw_search *s, struct tw_search_end *best, struct tw_search_end *other,
		    const struct tw_search_end *at)
{
	const bool turned = at->slope * (best->slope / fabs(best->slope)) < 0;
	double c, q, next;

	if (at->value > best->value) { /* a higher value: the minimiser is in between */
		c = best->step + cubic(best, at, false) * (at->step - best->step);
		q = parabola(best, at);
		next = fabs(c - best->step) < fabs(q - best->step) ? c : c + (q - c) / 2;
		s->bracketed = true;
	} else if (turned) { /* lower, and slopes of both signs: also in between */
		c = at->step + cubic(at, best, false) * (best->step - at->step);
		q = secant(best, at);
		next = fabs(c - at->step) > fabs(q - at->step) ? c : q;
		s->bracketed = true;
	} else if (fabs(at->slope) < fabs(best->slope)) { /* lower, and flatter */
		const double r = cubic(at, best, true);

		c = r < 0 && isfinite(r)    ? at->step + r * (best->step - at->step)
		    : at->step > best->step ? s->high
					    : s->low;
		q = secant(best, at);
		if (s->bracketed) {
			const double most = at->step + SHORTEST * (other->step - at->step);

			next = fabs(c - at->step) < fabs(q - at->step) ? c : q;
			next = at->step > best->step ? fmin(most, next) : fmax(most, next);
		} else {
			next = fabs(c - at->step) > fabs(q - at->step) ? c : q;
			next = fmax(s->low, fmin(s->high, next));
		}
	} else if (s->bracketed) { /* lower, and not flatter: a minimiser is on the far side */
		next = at->step + cubic(at, other, false) * (other->step - at->step);
	} else {
		next = at->step > best->step ? s->high : s->low;
	}
	if (at->value > best->value) {
		*other = *at;
	} else {
		if (turned)
			*other = *best;
		*best = *at;
	}
	return next;
}

/* The same for psi instead of f. */
static double trial_of_psi(struct tw_search *s, const struct tw_search_end *at)
{
	const double tilt = s->sufficient * s->slope;
	struct tw_search_end ends[3] = { s->best, s->other, *at };
	double next;

	for (int k = 0; k < 3; k++) {
		ends[k].value -= ends[k].step * tilt;
		ends[k].slope -= tilt;
	}
	next = trial(s, &ends[0], &ends[1], &ends[2]);
	for (int k = 0; k < 2; k++) {
		ends[k].value += ends[k].step * tilt;
		ends[k].slope += tilt;
	}
	s->best = ends[0];
	s->other = ends[1];
	return next;
}

/* The step was so long that nothing could be computed there: no step is that long again. */
static enum tw_search_state shorten(struct tw_search *s)
{
	s->top = s->step;
	s->step = s->best.step + (s->step - s->best.step) / 4;
	s->high = fmin(s->high, s->top);
	return s->step > s->best.step && s->step < s->top ? TW_SEARCH_GOES_ON : TW_SEARCH_STUCK;
}

static bool is_short(const struct tw_search *s)
{
	return s->bracketed && s->high - s->low <= SHORTER * s->high;
}

enum tw_search_state tw_search_next(struct tw_search *s, double value, double slope)
{
	const struct tw_search_end at = { s->step, value, slope };
	const double enough = s->value + s->step * s->sufficient * s->slope;
	double next;

	if (!isfinite(value) || !isfinite(slope))
		return shorten(s);
	if (value <= enough && fabs(slope) <= s->curvature * -s->slope)
		return TW_SEARCH_FOUND;
	if (!s->second && value <= enough && slope >= 0)
		s->second = true;
	if ((s->bracketed && (s->step <= s->low || s->step >= s->high)) || is_short(s))
		return TW_SEARCH_STUCK;
	if (!s->second && value <= s->best.value && value > enough)
		next = trial_of_psi(s, &at);
	else
		next = trial(s, &s->best, &s->other, &at);
	if (s->bracketed) {
		const double width = fabs(s->other.step - s->best.step);

		if (width >= SHORTEST * s->width_before)
			next = s->best.step + (s->other.step - s->best.step) / 2;
		s->width_before = s->width;
		s->width = width;
		s->low = fmin(s->best.step, s->other.step);
		s->high = fmax(s->best.step, s->other.step);
	} else {
		s->low = next + 1.1 * (next - s->best.step);
		s->high = next + 4 * (next - s->best.step);
	}
	s->step = fmax(0, fmin(next, s->top));
	if ((s->bracketed && (s->step <= s->low || s->step >= s->high)) || is_short(s))
		s->step = s->best.step;
	return s->step > 0 ? TW_SEARCH_GOES_ON : TW_SEARCH_STUCK;
}
