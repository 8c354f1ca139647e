/* SPDX-License-Identifier: Apache-2.0 */
/* test_descent.c - optimisers as iterators (strategy/descent.h): a plain interpreter carries out
 * their commands on arrays of doubles.  Directions are compared with a textbook two-loop recursion,
 * iterates on quadratics with linear conjugate gradients, and accepted steps with the Wolfe
 * conditions. */
#include "strategy/descent.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST    64  /* dimensions */
#define VECTORS 220 /* five, and two of each pair of the longest history */
#define LISTED  1200

/* --- functions ------------------------------------------------------------------------------ */

typedef double (*function)(const double *x, size_t n, double *g);

static double rosenbrock(const double *x, size_t n, double *g)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		g[i] = 0;
	for (size_t i = 0; i + 1 < n; i++) {
		const double r = x[i + 1] - x[i] * x[i], s = 1 - x[i];

		sum += 100 * r * r + s * s;
		g[i] += -400 * x[i] * r - 2 * s;
		g[i + 1] += 200 * r;
	}
	return sum;
}

/* Curvatures from 1 to 100, minimum at (1, 1/2, 1/3, ...). */
static double curvature_of(size_t i, size_t n)
{
	return pow(100, (double)i / (double)(n - 1));
}

static double bowl(const double *x, size_t n, double *g)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		const double d = x[i] - 1 / (double)(i + 1);

		sum += curvature_of(i, n) * d * d / 2;
		g[i] = curvature_of(i, n) * d;
	}
	return sum;
}

/* Not defined beyond 1: a step that is too long finds nothing there. */
static double barrier(const double *x, size_t n, double *g)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += -log(1 - x[i]) - 30 * x[i];
		g[i] = 1 / (1 - x[i]) - 30;
	}
	return sum;
}

/* --- the interpreter ------------------------------------------------------------------------ */

struct machine {
	function f;
	size_t n;
	double vector[VECTORS][MOST];
	double gradient[MOST], loss; /* of the last evaluation */
	uint64_t evaluations;
	double result[LISTED];
	struct tw_command list[LISTED];
	struct tw_descent state;
	uint64_t own[40000];
	struct tw_descent_options how;
	struct tw_descender d;
};

static void carry_out(struct machine *m, const struct tw_commands *l)
{
	uint32_t results = 0;

	for (uint32_t k = 0; k < l->count; k++) {
		const struct tw_command *c = &l->at[k];
		double *to = m->vector[c->to], sum = 0;
		const double *a = m->vector[c->a], *b = m->vector[c->b];

		for (size_t i = 0; i < m->n; i++) {
			if (c->kind == TW_COMMAND_COPY)
				to[i] = a[i];
			else if (c->kind == TW_COMMAND_FILL)
				to[i] = c->x;
			else if (c->kind == TW_COMMAND_SCALE)
				to[i] *= c->x;
			else if (c->kind == TW_COMMAND_AXPY)
				to[i] += c->x * a[i];
			else if (c->kind == TW_COMMAND_MULTIPLY)
				to[i] = a[i] * b[i];
			else if (c->kind == TW_COMMAND_DOT)
				sum += a[i] * b[i];
			else if (c->kind == TW_COMMAND_GATHER)
				to[i] = m->gradient[i];
		}
		if (c->kind == TW_COMMAND_GATHER)
			sum = m->loss;
		if (c->kind == TW_COMMAND_GATHER || c->kind == TW_COMMAND_DOT)
			m->result[results++] = sum;
		if (c->kind == TW_COMMAND_EVALUATE) {
			m->loss = m->f(m->vector[TW_VECTOR_POINT], m->n, m->gradient);
			m->evaluations++;
		}
	}
}

static struct machine *machine_new(function f, size_t n, const struct tw_optimiser *method,
				   const void *options)
{
	struct machine *m = calloc(1, sizeof *m);

	assert_non_null(m);
	m->f = f;
	m->n = n;
	m->how = (struct tw_descent_options){
		.gradient = 1e-8, .evaluations = 20000, .sufficient = 1e-3, .trials = 40
	};
	m->d = (struct tw_descender){ method, options, &m->how, &m->state, m->own };
	assert_true(tw_optimiser_bytes(method, options) <= sizeof m->own);
	assert_true(tw_descent_vectors(method, options) <= VECTORS);
	assert_true(tw_descent_commands(method, options) <= LISTED);
	tw_descent_begin(&m->state);
	for (size_t i = 0; i < n; i++)
		m->vector[TW_VECTOR_POINT][i] = f == rosenbrock ? (i % 2 ? 1 : -1.2) : 0;
	return m;
}

/* Until the next point is accepted, or it is over. */
static enum tw_descent_turn go(struct machine *m)
{
	for (;;) {
		struct tw_commands l = { m->list, 0, LISTED };
		const enum tw_descent_turn turn = tw_descent_next(&m->d, m->result, &l);

		if (turn != TW_DESCENT_COMMANDS)
			return turn;
		assert_true(l.count <= tw_descent_commands(m->d.method, m->d.options));
		carry_out(m, &l);
	}
}

static void run(struct machine *m)
{
	while (go(m) == TW_DESCENT_ACCEPTED)
		;
}

/* Options of a method: its defaults, or a history. */
static const void *options_of(const struct tw_optimiser *o, const char *history)
{
	static _Alignas(16) char room[64];
	const struct tw_option *row = o->options ? tw_option_find(o->options, "history") : NULL;

	memset(room, 0, sizeof room);
	assert_true(o->options_bytes <= sizeof room);
	if (o->options)
		assert_int_equal(tw_option_defaults(o->options, room, NULL, NULL), TW_OK);
	if (row && history)
		assert_int_equal(tw_option_set(row, room, history, NULL, NULL), TW_OK);
	return room;
}

static double dot(const double *a, const double *b, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

/* --- every method of the table -------------------------------------------------------------- */

static void all_methods_find_minima(void **state)
{
	(void)state;
	for (size_t k = 0; tw_optimiser_all[k]; k++) {
		const struct tw_optimiser *o = tw_optimiser_all[k];
		struct machine *m = machine_new(bowl, 30, o, options_of(o, NULL));

		run(m);
		if (m->state.why != TW_DESCENT_GRADIENT && m->state.why != TW_DESCENT_PRECISION)
			fail_msg("%s ends on a quadratic: %s", o->name,
				 tw_descent_why_text(m->state.why));
		for (size_t i = 0; i < m->n; i++)
			assert_true(fabs(m->vector[0][i] - 1 / (double)(i + 1)) < 1e-6);
		assert_int_equal(m->state.evaluations, m->evaluations);
		free(m);
	}
}

/* Accepted steps satisfy both conditions, and the loss never grows. */
static void accepted_steps_are_wolfe_steps(void **state)
{
	(void)state;
	for (size_t k = 0; tw_optimiser_all[k]; k++) {
		const struct tw_optimiser *o = tw_optimiser_all[k];
		struct machine *m = machine_new(rosenbrock, 10, o, options_of(o, NULL));
		double before = INFINITY;
		unsigned steps = 0;

		m->how.gradient = 1e-3;
		m->how.iterations = 300;
		while (go(m) == TW_DESCENT_ACCEPTED) {
			const struct tw_descent *s = &m->state;

			assert_true(s->loss <= before);
			if (s->iterations && !s->settles) {
				const struct tw_moved *v = &s->moved;

				assert_true(s->loss <=
					    s->before +
						    m->how.sufficient * v->step * v->slope_before +
						    1e-12);
				assert_true(fabs(v->slope) <= -o->curvature * v->slope_before);
				steps++;
			}
			before = s->loss;
		}
		assert_true(steps > 10);
		free(m);
	}
}

/* Values that are not numbers make steps shorter; the run goes on. */
static void steps_beyond_the_domain_are_shortened(void **state)
{
	(void)state;
	for (size_t k = 0; tw_optimiser_all[k]; k++) {
		const struct tw_optimiser *o = tw_optimiser_all[k];
		struct machine *m = machine_new(barrier, 5, o, options_of(o, NULL));

		run(m);
		for (size_t i = 0; i < m->n; i++)
			assert_true(fabs(m->vector[0][i] - (1 - 1.0 / 30)) < 1e-6);
		free(m);
	}
}

/* What is saved at an accepted point is all that is needed to go on. */
static void a_saved_state_goes_on_alike(void **state)
{
	(void)state;
	for (size_t k = 0; tw_optimiser_all[k]; k++) {
		const struct tw_optimiser *o = tw_optimiser_all[k];
		struct machine *m = machine_new(rosenbrock, 8, o, options_of(o, NULL));
		struct machine *other = malloc(sizeof *other);

		assert_non_null(other);
		m->how.iterations = 40;
		for (int i = 0; i < 9; i++)
			assert_int_equal(go(m), TW_DESCENT_ACCEPTED);
		*other = *m; /* vectors, and plain numbers */
		other->d.how = &other->how;
		other->d.state = &other->state;
		other->d.own = other->own;
		memset(other->result, 0xA5, sizeof other->result);
		memset(other->list, 0xA5, sizeof other->list);
		run(m);
		run(other);
		assert_memory_equal(m->vector[0], other->vector[0], m->n * sizeof(double));
		free(other);
		free(m);
	}
}

static void limits_hold(void **state)
{
	const struct tw_optimiser *o = tw_optimiser_all[0];
	struct machine *m = machine_new(rosenbrock, 10, o, options_of(o, NULL));

	(void)state;
	m->how.iterations = 3;
	run(m);
	assert_int_equal(m->state.why, TW_DESCENT_ITERATIONS);
	assert_int_equal(m->state.iterations, 3);
	free(m);
	m = machine_new(rosenbrock, 10, o, options_of(o, NULL));
	m->how.evaluations = 7;
	run(m);
	assert_int_equal(m->state.why, TW_DESCENT_EVALUATIONS);
	assert_true(m->evaluations >= 7 && m->evaluations < 7 + m->how.trials);
	free(m);
	m = machine_new(rosenbrock, 10, o, options_of(o, NULL));
	m->how.decrease = 0.5;
	run(m);
	assert_int_equal(m->state.why, TW_DESCENT_DECREASE);
	free(m);
}

/* With l2 the minimum of a quadratic moves to a t / (a + l2). */
static void l2_moves_the_minimum(void **state)
{
	(void)state;
	for (size_t k = 0; tw_optimiser_all[k]; k++) {
		const struct tw_optimiser *o = tw_optimiser_all[k];
		struct machine *m = machine_new(bowl, 12, o, options_of(o, NULL));

		m->how.l2 = 3;
		run(m);
		for (size_t i = 0; i < m->n; i++) {
			const double a = curvature_of(i, m->n), t = 1 / (double)(i + 1);

			assert_true(fabs(m->vector[0][i] - a * t / (a + 3)) < 1e-6);
		}
		free(m);
	}
}

/* --- a method that heads uphill ------------------------------------------------------------- */

static unsigned forgotten, directed;

static size_t no_bytes(const void *options)
{
	(void)options;
	return 0;
}
static uint32_t none(const void *options)
{
	(void)options;
	return 0;
}
static uint32_t few(const void *options)
{
	(void)options;
	return 4;
}
static void forget_it(const void *options, void *own)
{
	(void)options, (void)own;
	forgotten++;
}
/* Every second direction is the gradient itself. */
static struct tw_heading uphill(const void *options, void *own, const struct tw_moved *m,
				const double *result, struct tw_commands *out)
{
	const double sign = directed++ % 2 ? 1 : -1;

	(void)options, (void)own, (void)result;
	tw_command_copy(out, TW_VECTOR_DIRECTION, TW_VECTOR_GRADIENT);
	tw_command_scale(out, TW_VECTOR_DIRECTION, sign);
	return (struct tw_heading){ sign * m->square, 0 };
}

static void a_bad_direction_is_a_restart(void **state)
{
	static const struct tw_optimiser bad = { .name = "uphill",
						 .curvature = 0.9,
						 .state_bytes = no_bytes,
						 .vectors = none,
						 .commands = few,
						 .forget = forget_it,
						 .direct = uphill };
	struct machine *m = machine_new(bowl, 6, &bad, NULL);

	(void)state;
	forgotten = directed = 0;
	m->how.iterations = 4;
	run(m);
	assert_int_equal(m->state.iterations, 4);
	assert_true(forgotten >= 2);
	assert_int_equal(m->state.restarts, forgotten);
	free(m);
}

/* --- the two-loop recursion ----------------------------------------------------------------- */

#define HISTORY 64

/* Textbook, on vectors: pairs of accepted points and their gradients. */
struct textbook {
	double s[HISTORY][MOST], y[HISTORY][MOST];
	size_t pairs, n;
};

static void two_loops(const struct textbook *t, size_t history, const double *g, double *d)
{
	const size_t first = t->pairs > history ? t->pairs - history : 0;
	double alpha[HISTORY];

	memcpy(d, g, t->n * sizeof *d);
	for (size_t k = t->pairs; k-- > first;) {
		alpha[k] = dot(t->s[k], d, t->n) / dot(t->s[k], t->y[k], t->n);
		for (size_t i = 0; i < t->n; i++)
			d[i] -= alpha[k] * t->y[k][i];
	}
	if (t->pairs) {
		const double *s = t->s[t->pairs - 1], *y = t->y[t->pairs - 1];
		const double scale = dot(s, y, t->n) / dot(y, y, t->n);

		for (size_t i = 0; i < t->n; i++)
			d[i] *= scale;
	}
	for (size_t k = first; k < t->pairs; k++) {
		const double beta = dot(t->y[k], d, t->n) / dot(t->s[k], t->y[k], t->n);

		for (size_t i = 0; i < t->n; i++)
			d[i] += (alpha[k] - beta) * t->s[k][i];
	}
	for (size_t i = 0; i < t->n; i++)
		d[i] = -d[i];
}

static void directions_are_those_of_the_two_loops(void **state)
{
	static const struct {
		const char *text;
		size_t history;
	} histories[] = { { "1", 1 }, { "3", 3 }, { "10", 10 } };
	const struct tw_optimiser *o = tw_optimiser_find("lbfgs");
	struct textbook *t = calloc(1, sizeof *t);

	(void)state;
	assert_non_null(t);
	for (size_t h = 0; h < 3; h++) {
		struct machine *m =
			machine_new(rosenbrock, 10, o, options_of(o, histories[h].text));
		double x[MOST], g[MOST], d[MOST];

		memset(t, 0, sizeof *t);
		t->n = m->n;
		assert_int_equal(go(m), TW_DESCENT_ACCEPTED);
		for (int step = 0; step < 40; step++) {
			double far = 0, long_ = 0;

			memcpy(x, m->vector[TW_VECTOR_POINT], sizeof x);
			memcpy(g, m->vector[TW_VECTOR_GRADIENT], sizeof g);
			two_loops(t, histories[h].history, g, d);
			assert_int_equal(go(m), TW_DESCENT_ACCEPTED);
			assert_int_equal(m->state.restarts, 0);
			for (size_t i = 0; i < m->n; i++) {
				const double e = m->vector[TW_VECTOR_DIRECTION][i] - d[i];

				far += e * e;
				long_ += d[i] * d[i];
				t->s[t->pairs][i] = m->vector[TW_VECTOR_POINT][i] - x[i];
				t->y[t->pairs][i] = m->vector[TW_VECTOR_GRADIENT][i] - g[i];
			}
			t->pairs++;
			if (sqrt(far / long_) > 1e-7)
				fail_msg("history %s, step %d: the direction is %g off",
					 histories[h].text, step, sqrt(far / long_));
		}
		free(m);
	}
	free(t);
}

/* --- conjugate gradients -------------------------------------------------------------------- */

/* On a quadratic with an exact line search the iterates are those of linear conjugate gradients,
 * whatever the history; after n steps they are at the minimum. */
static void on_quadratics_all_histories_are_conjugate_gradients(void **state)
{
	static const char *const histories[] = { "1", "2", "3", "7", "20" };
	const struct tw_optimiser *o = tw_optimiser_find("lbfgs");
	enum { N = 8 };

	(void)state;
	for (size_t h = 0; h < sizeof histories / sizeof histories[0]; h++) {
		struct machine *m = machine_new(bowl, N, o, options_of(o, histories[h]));
		double x[N] = { 0 }, r[N], p[N], g[N];

		m->how.curvature = 1e-12;
		m->how.trials = 60;
		m->how.gradient = 0;
		assert_int_equal(go(m), TW_DESCENT_ACCEPTED);
		bowl(x, N, g);
		for (size_t i = 0; i < N; i++)
			p[i] = r[i] = -g[i];
		for (int step = 0; step < N; step++) {
			double rr = dot(r, r, N), pap = 0, alpha, beta;

			for (size_t i = 0; i < N; i++)
				pap += p[i] * curvature_of(i, N) * p[i];
			alpha = rr / pap;
			for (size_t i = 0; i < N; i++) {
				x[i] += alpha * p[i];
				r[i] -= alpha * curvature_of(i, N) * p[i];
			}
			beta = dot(r, r, N) / rr;
			for (size_t i = 0; i < N; i++)
				p[i] = r[i] + beta * p[i];
			assert_int_equal(go(m), TW_DESCENT_ACCEPTED);
			for (size_t i = 0; i < N; i++)
				if (!(fabs(m->vector[0][i] - x[i]) < 1e-6))
					fail_msg("history %s, step %d: %g instead of %g",
						 histories[h], step + 1, m->vector[0][i], x[i]);
		}
		assert_true(m->state.loss < 1e-12);
		free(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_methods_find_minima),
		cmocka_unit_test(accepted_steps_are_wolfe_steps),
		cmocka_unit_test(steps_beyond_the_domain_are_shortened),
		cmocka_unit_test(a_saved_state_goes_on_alike),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(l2_moves_the_minimum),
		cmocka_unit_test(a_bad_direction_is_a_restart),
		cmocka_unit_test(directions_are_those_of_the_two_loops),
		cmocka_unit_test(on_quadratics_all_histories_are_conjugate_gradients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
