/* SPDX-License-Identifier: Apache-2.0 */
/* test_outer.c - every outer rule of the table keeps outer.h's word. */
#include "strategy/tools.h"
#include "strategy/outer.h"

#include <math.h>
#include <string.h>

#define N       1003
#define WORKERS 3
#define STEPS   12

/* Everything an outer rule may write; compared as bytes. */
struct state {
	float w[N], array[TW_RULE_ARRAYS][N], view[N];
};

struct how {
	size_t tile;
	bool in_place, stream;
	float rate, decay; /* of the near half: nothing to an outer rule */
};

static struct tw_apply part_of(const struct tw_rule *rule, struct state *s, size_t from, size_t n)
{
	struct tw_apply a = { .w = s->w + from, .n = n };

	for (uint32_t k = 0; k < rule->arrays; k++)
		a.array[k] = s->array[k] + from;
	return a;
}

static void run(const struct tw_rule *rule, const void *o, struct state *s, struct how how)
{
	static float g[N], next[N];

	memset(s, 0, sizeof *s);
	gauss(s->w, N, 1000, 1.0f);
	for (int step = 0; step < STEPS; step++) {
		gauss(g, N, (uint64_t)step, step == 5 ? 0.0f : 1.0f);
		for (size_t at = 0; at < N; at += how.tile) {
			struct tw_apply a =
				part_of(rule, s, at, N - at < how.tile ? N - at : how.tile);

			a.g = g + at;
			a.out = how.in_place ? s->w + at : next + at;
			a.rate = how.rate;
			a.decay = how.decay;
			a.count = (uint64_t)step + 1;
			a.workers = WORKERS;
			a.stream = how.stream;
			rule->apply(o, &a);
		}
		if (!how.in_place)
			memcpy(s->w, next, sizeof next);
	}
	for (size_t at = 0; rule->view && at < N; at += how.tile) {
		const struct tw_apply a =
			part_of(rule, s, at, N - at < how.tile ? N - at : how.tile);

		rule->view(o, &a, s->view + at);
	}
}

static struct state whole, other;

static void every_outer_rule_has_what_its_traits_need(void **state)
{
	(void)state;
	CHECK(tw_outer_all[0] && tw_outer_all[1]);
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const struct tw_rule *r = tw_outer_all[k];

		CHECK(r->name && *r->name && r->help && *r->help);
		CHECK(tw_outer_find(r->name) == r);
		for (size_t j = 0; j < k; j++)
			CHECK(strcmp(r->name, tw_outer_all[j]->name));
		CHECK(r->apply && r->arrays <= TW_RULE_ARRAYS);
		CHECK(!(r->traits & TW_RULE_OWN_VIEW) == !r->view);
		CHECK(!r->view == !r->kept && (r->view || !r->shows));
		/* what has decayed at the worker must not do so again */
		CHECK(r->traits & TW_RULE_OWN_DECAY);
		/* a delta is not a gradient: nobody else does this rule's work, and there is no
		 * worker's half of it */
		CHECK(!(r->traits & (TW_RULE_PLAIN | TW_RULE_STAMPED | TW_RULE_NORMALISES)));
		CHECK(!(r->traits & (TW_RULE_PER_WORKER | TW_RULE_VIEW_MINE)));
		CHECK(!r->prepare && !r->farewell && !r->leave);
		for (uint32_t i = 0; i < r->arrays; i++) {
			CHECK(r->array_names[i] && *r->array_names[i]);
			for (uint32_t j = 0; j < i; j++)
				CHECK(strcmp(r->array_names[i], r->array_names[j]));
		}
	}
	CHECK(!tw_outer_find("none") && !tw_outer_find(""));
}

/* OPTIONS sets every row's default through its parser, and fails if one is out of range. */
static void defaults_are_valid_and_named_once(void **state)
{
	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const struct tw_option *rows = tw_outer_all[k]->options;

		CHECK(OPTIONS(tw_outer_all[k], NULL));
		for (size_t i = 0; rows && rows[i].name; i++) {
			CHECK(rows[i].help && *rows[i].help);
			CHECK(tw_option_find(rows, rows[i].name) == &rows[i]);
		}
	}
}

static void tiles_of_any_size_give_the_same_bits(void **state)
{
	const size_t tiles[] = { 1, 2, 7, 16, 33, 64, 500, 1000 };

	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const void *o = OPTIONS(tw_outer_all[k], NULL);

		run(tw_outer_all[k], o, &whole, (struct how){ .tile = N });
		CHECK(all_finite((float *)&whole, sizeof whole / sizeof(float)));
		for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
			run(tw_outer_all[k], o, &other, (struct how){ .tile = tiles[t] });
			CHECK(!memcmp(&whole, &other, sizeof whole));
		}
	}
}

/* Over w or not, past the caches or not, whatever the near half's rate and decay are. */
static void nothing_else_changes_a_bit(void **state)
{
	static const struct how ways[] = {
		{ .tile = N, .in_place = true }, { .tile = 50, .in_place = true },
		{ .tile = N, .stream = true },   { .tile = 64, .stream = true },
		{ .tile = N, .rate = 0.3f },     { .tile = N, .decay = 0.1f },
	};

	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const void *o = OPTIONS(tw_outer_all[k], NULL);

		run(tw_outer_all[k], o, &whole, (struct how){ .tile = N });
		for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
			run(tw_outer_all[k], o, &other, ways[i]);
			CHECK(!memcmp(&whole, &other, sizeof whole));
		}
		for (int isa = -1; isa_next(&isa);) {
			run(tw_outer_all[k], o, &other, (struct how){ .tile = N });
			CHECK(!memcmp(&whole, &other, sizeof whole));
		}
	}
}

static void no_delta_at_the_start_moves_nothing(void **state)
{
	static const float g[N];
	static float out[N];

	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const struct tw_rule *r = tw_outer_all[k];
		const void *o = OPTIONS(r, NULL);

		memset(&whole, 0, sizeof whole);
		gauss(whole.w, N, 3, 1.0f);
		for (uint64_t count = 1; count <= WORKERS; count++) {
			struct tw_apply a = part_of(r, &whole, 0, N);

			a.g = g;
			a.out = out;
			a.count = count;
			a.workers = WORKERS;
			a.decay = 0.1f;
			r->apply(o, &a);
			CHECK(same_bits(out, whole.w, N));
			for (uint32_t i = 0; i < r->arrays; i++)
				CHECK(same_bits(whole.array[i], g, N));
			if (r->view)
				r->view(o, &a, whole.view);
			CHECK(!r->view || same_bits(whole.view, whole.w, N));
		}
	}
}

/* A delta is base - local: whoever takes it goes towards the worker. */
static void every_rule_goes_where_the_workers_went(void **state)
{
	static float g[N], out[N];

	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const struct tw_rule *r = tw_outer_all[k];
		struct tw_apply a = part_of(r, &whole, 0, N);

		memset(&whole, 0, sizeof whole);
		gauss(g, N, 9, 1.0f);
		a.g = g;
		a.out = out;
		a.count = 1;
		a.workers = WORKERS;
		r->apply(OPTIONS(r, NULL), &a);
		for (size_t i = 0; i < N; i++)
			CHECK(g[i] > 0 ? out[i] < 0 : out[i] > 0);
	}
}

static void views_only_look(void **state)
{
	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const struct tw_rule *r = tw_outer_all[k];
		const void *o = OPTIONS(r, NULL);
		struct tw_apply a = part_of(r, &whole, 0, N);

		if (!r->view)
			continue;
		run(r, o, &whole, (struct how){ .tile = N });
		other = whole;
		a.rate = a.before = a.decay = NAN;
		r->view(o, &a, whole.view);
		CHECK(!memcmp(&whole, &other, sizeof whole));
		CHECK(!same_bits(whole.view, whole.w, N));
	}
}

static void finite_deltas_keep_everything_finite(void **state)
{
	static float g[N];

	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const struct tw_rule *r = tw_outer_all[k];

		memset(&whole, 0, sizeof whole);
		gauss(whole.w, N, 4, 1.0f);
		for (uint64_t step = 0; step < 60; step++) {
			struct tw_apply a = part_of(r, &whole, 0, N);

			edges(g, N, step, 1e30f);
			a.g = g;
			a.out = whole.w;
			a.count = step + 1;
			a.workers = WORKERS;
			r->apply(OPTIONS(r, NULL), &a);
			if (r->view)
				r->view(OPTIONS(r, NULL), &a, whole.view);
			CHECK(all_finite((float *)&whole, sizeof whole / sizeof(float)));
		}
	}
}

/* What comes of deltas 2 x - y / 2 is twice what comes of x less half of what comes of y. */
static void linear_rules_are_linear(void **state)
{
	static float x[N], y[N], z[N], moved[3][N];

	(void)state;
	for (size_t k = 0; tw_outer_all[k]; k++) {
		const struct tw_rule *r = tw_outer_all[k];

		if (!(r->traits & TW_RULE_LINEAR))
			continue;
		for (int which = 0; which < 3; which++) {
			memset(&whole, 0, sizeof whole);
			for (int step = 0; step < STEPS; step++) {
				struct tw_apply a = part_of(r, &whole, 0, N);

				gauss(x, N, (uint64_t)step, 1.0f);
				gauss(y, N, (uint64_t)step + 500, 1.0f);
				for (size_t i = 0; i < N; i++)
					z[i] = 2.0f * x[i] - 0.5f * y[i];
				a.g = which == 0 ? x : which == 1 ? y : z;
				a.out = whole.w;
				a.count = (uint64_t)step + 1;
				a.workers = WORKERS;
				r->apply(OPTIONS(r, NULL), &a);
			}
			memcpy(moved[which], whole.w, sizeof whole.w);
		}
		for (size_t i = 0; i < N; i++)
			NEAR(moved[2][i], 2.0 * moved[0][i] - 0.5 * moved[1][i], 1e-5);
	}
}

/* --- what is equal to what ---------------------------------------------------------------- */

/* N deltas of the same parameters, one after the other, against their mean in one step. */
static void delayed_momentum_is_nesterov_on_the_mean(void **state)
{
	static struct state one, each;
	static float g[8][N], mean[N];
	const struct tw_rule *nesterov = tw_outer_find("nesterov");
	const struct tw_rule *delayed = tw_outer_find("delayed-nesterov");
	const char *const numbers[][2] = { { "0.7", "0.9" }, { "1", "0" }, { "0.3", "0.5" } };

	(void)state;
	assert_non_null(nesterov);
	assert_non_null(delayed);
	for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
		for (uint32_t workers = 1; workers <= 8; workers++) {
			const void *on = OPTIONS(nesterov, "rate", numbers[k][0], "momentum",
						 numbers[k][1], NULL);
			const void *od = OPTIONS(delayed, "rate", numbers[k][0], "momentum",
						 numbers[k][1], NULL);

			memset(&one, 0, sizeof one);
			memset(&each, 0, sizeof each);
			gauss(one.w, N, 77, 1.0f);
			memcpy(each.w, one.w, sizeof one.w);
			for (uint64_t round = 0; round < 5; round++) {
				struct tw_apply a = part_of(nesterov, &one, 0, N);

				for (uint32_t j = 0; j < workers; j++)
					gauss(g[j], N, 100 * round + j, 0.1f);
				for (size_t i = 0; i < N; i++) {
					double sum = 0;

					for (uint32_t j = 0; j < workers; j++)
						sum += (double)g[j][i];
					mean[i] = (float)(sum / workers);
				}
				a.g = mean;
				a.out = one.w;
				a.count = round + 1;
				a.workers = workers;
				nesterov->apply(on, &a);
				for (uint32_t j = 0; j < workers; j++) {
					a = part_of(delayed, &each, 0, N);
					a.g = g[j];
					a.out = each.w;
					a.count = round * workers + j + 1;
					a.workers = workers;
					delayed->apply(od, &a);
				}
				for (size_t i = 0; i < N; i++) {
					NEAR(each.w[i], one.w[i], 1e-6);
					CHECK(each.array[1][i] == 0.0f); /* nothing is collected */
				}
			}
		}
}

/* A constant block update comes to rate / (1 - momentum) of itself per block. */
static void block_momentum_has_its_gain(void **state)
{
	static float g[N], before[N];
	const struct tw_rule *r = tw_outer_find("bmuf");
	const void *o;

	(void)state;
	assert_non_null(r);
	o = OPTIONS(r, "momentum", "0.75", "rate", "1", NULL);
	memset(&whole, 0, sizeof whole);
	gauss(g, N, 5, 1e-3f);
	for (uint64_t step = 0; step < 200; step++) {
		struct tw_apply a = part_of(r, &whole, 0, N);

		memcpy(before, whole.w, sizeof before);
		a.g = g;
		a.out = whole.w;
		a.count = step + 1;
		a.workers = 4;
		r->apply(o, &a);
	}
	for (size_t i = 0; i < N; i++) {
		NEAR(before[i] - whole.w[i], 4.0 * g[i], 1e-6);
		CHECK(fabs((double)whole.array[0][i] - 4.0 * g[i]) <= 1e-6 * fabs(4.0 * g[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_outer_rule_has_what_its_traits_need),
		cmocka_unit_test(defaults_are_valid_and_named_once),
		cmocka_unit_test(tiles_of_any_size_give_the_same_bits),
		cmocka_unit_test(nothing_else_changes_a_bit),
		cmocka_unit_test(no_delta_at_the_start_moves_nothing),
		cmocka_unit_test(every_rule_goes_where_the_workers_went),
		cmocka_unit_test(views_only_look),
		cmocka_unit_test(finite_deltas_keep_everything_finite),
		cmocka_unit_test(linear_rules_are_linear),
		cmocka_unit_test(delayed_momentum_is_nesterov_on_the_mean),
		cmocka_unit_test(block_momentum_has_its_gain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
