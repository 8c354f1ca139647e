/* SPDX-License-Identifier: Apache-2.0 */
/* test_projection.c - projections onto a box and a ball: closed forms, and what defines a nearest
 * point. */
#include "strategy/tools.h"
#include "strategy/projection.h"

#include <math.h>
#include <string.h>

#define N 1000

/* A number from -1 to 1 that looks drawn. */
static float number(uint32_t k)
{
	k = (k + 1) * 2654435761u;
	k ^= k >> 15;
	return (float)((double)(k % 20001) / 10000.0 - 1.0);
}

static double norm_of(const float *w, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)w[i] * (double)w[i];
	return sqrt(sum);
}

static void a_box_cuts_each_number(void **state)
{
	static const float in[] = { -2.0f, -0.5f, -0.25f, 0.0f, 0.7f, 0.75f, 9.0f, INFINITY };
	static const float out[] = { -0.25f, -0.25f, -0.25f, 0.0f, 0.7f, 0.75f, 0.75f, 0.75f };
	const struct tw_projection p = { .low = -0.25f, .high = 0.75f };
	float w[9];

	(void)state;
	CHECK(tw_projection_is_box(&p) && !tw_projection_is_ball(&p));
	memcpy(w, in, sizeof in);
	w[8] = NAN;
	tw_project(&p, w, 9);
	CHECK(memcmp(w, out, sizeof out) == 0);
	CHECK(isnan(w[8]));
}

static void a_ball_shortens_and_does_not_turn(void **state)
{
	const struct tw_projection p = { .ball = 2.5 };
	float w[2] = { 3.0f, 4.0f }, inside[2] = { 1.5f, 2.0f };
	float many[N], before[N];

	(void)state;
	CHECK(!tw_projection_is_box(&p) && tw_projection_is_ball(&p));
	tw_project(&p, w, 2); /* 5 becomes 2.5 */
	CHECK(w[0] == 1.5f && w[1] == 2.0f);
	tw_project(&p, inside, 2); /* on the border: it stays */
	CHECK(inside[0] == 1.5f && inside[1] == 2.0f);
	for (size_t n = 1; n <= N; n = n * 3 + 1) {
		for (uint32_t i = 0; i < n; i++)
			before[i] = many[i] = 10 * number(i);
		tw_project(&p, many, n);

		const double was = norm_of(before, n), is = norm_of(many, n);

		CHECK(is <= 2.5 * (1 + 1e-6));
		NEAR(is, fmin(was, 2.5), 2.5e-6);
		for (uint32_t i = 0; i < n; i++)
			NEAR(many[i], before[i] * is / was, 1e-5);
	}
	w[0] = INFINITY, w[1] = 1.0f;
	tw_project(&p, w, 2); /* no point of the ball is nearest to it */
	CHECK(isinf(w[0]) && w[1] == 1.0f);
}

/* What makes P(x) the nearest point of a convex set K: (x - P(x)) (y - P(x)) <= 0 for all y in K.
 */
static void nothing_in_the_set_is_nearer(void **state)
{
	static const struct tw_projection sets[] = { { .low = -0.3f, .high = 0.1f },
						     { .ball = 1 } };

	(void)state;
	for (uint32_t k = 0; k < 400; k++) {
		const struct tw_projection *p = &sets[k % 2];
		float x[5], at[5], y[5];
		double product = 0;

		for (uint32_t i = 0; i < 5; i++) {
			at[i] = x[i] = 2 * number(10 * k + i);
			y[i] = number(10 * k + i + 5);
		}
		tw_project(p, at, 5);
		tw_project(p, y, 5); /* a point of the set */
		for (size_t i = 0; i < 5; i++)
			product += ((double)x[i] - at[i]) * ((double)y[i] - at[i]);
		CHECK(product <= 1e-6);
	}
}

static void none_changes_nothing(void **state)
{
	const struct tw_projection p = { 0 };
	float w[3] = { 1e30f, -1e30f, NAN };

	(void)state;
	CHECK(!tw_projection_is_box(&p) && !tw_projection_is_ball(&p));
	tw_project(&p, w, 3);
	CHECK(w[0] == 1e30f && w[1] == -1e30f && isnan(w[2]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_box_cuts_each_number),
		cmocka_unit_test(a_ball_shortens_and_does_not_turn),
		cmocka_unit_test(nothing_in_the_set_is_nearer),
		cmocka_unit_test(none_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
