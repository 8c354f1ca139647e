/* SPDX-License-Identifier: Apache-2.0 */
/* test_rule.c - every rule of the table keeps rule.h's word. */
#include "strategy/tools.h"
#include "strategy/rule.h"
#include "vec/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N       1003
#define WORKERS 3
#define STEPS   12

/* Everything a rule may write; compared as bytes. */
struct state {
	float w[N], array[TW_RULE_ARRAYS][N], mine[WORKERS][N], direction[N], view[N];
};

struct how {
	size_t tile;
	bool in_place, quiet; /* quiet: nobody asks for the direction */
};

static float rate_of(int step)
{
	return 0.1f / (float)(1 + step / 4);
}

/* One update of elements [from, from + n). */
static void update(const struct tw_rule *rule, const void *o, struct state *s, float *out,
		   const float *g, int step, size_t from, size_t n, bool quiet)
{
	struct tw_apply a = { .w = s->w + from,
			      .out = out + from,
			      .g = g + from,
			      .direction = quiet ? NULL : s->direction + from,
			      .n = n,
			      .rate = rate_of(step),
			      .before = step < WORKERS ? 0.0f : rate_of(step - WORKERS),
			      .decay = rule->traits & TW_RULE_OWN_DECAY ? 0.01f : 0.0f,
			      .count = (uint64_t)step + 1 };

	for (uint32_t k = 0; k < rule->arrays; k++)
		a.array[k] = s->array[k] + from;
	if (rule->traits & TW_RULE_PER_WORKER)
		a.mine = s->mine[step % WORKERS] + from;
	rule->apply(o, &a);
}

/* What worker 0 sees. */
static void show(const struct tw_rule *rule, const void *o, struct state *s, float rate,
		 size_t from, size_t n)
{
	struct tw_apply a = { .w = s->w + from, .n = n, .rate = rate, .before = NAN, .decay = NAN };

	if (rule->traits & TW_RULE_VIEW_MINE)
		a.mine = s->mine[0] + from;
	if (rule->traits & TW_RULE_PREDICTS) {
		a.horizon = 3;
		a.count = 10;
	}
	for (uint32_t k = 0; k < rule->arrays; k++)
		a.array[k] = s->array[k] + from;
	rule->view(o, &a, s->view + from);
}

static void run(const struct tw_rule *rule, const void *o, struct state *s, struct how how)
{
	static float g[N], next[N];

	memset(s, 0, sizeof *s);
	gauss(s->w, N, 1000, 1.0f);
	for (int step = 0; step < STEPS; step++) {
		float *out = how.in_place ? s->w : next;

		gauss(g, N, (uint64_t)step, step == 5 ? 0.0f : 1.0f);
		for (size_t at = 0; at < N; at += how.tile)
			update(rule, o, s, out, g, step, at, N - at < how.tile ? N - at : how.tile,
			       how.quiet);
		if (!how.in_place)
			memcpy(s->w, next, sizeof next);
	}
	if (rule->view)
		for (size_t at = 0; at < N; at += how.tile)
			show(rule, o, s, 0.05f, at, N - at < how.tile ? N - at : how.tile);
	if (how.quiet)
		memset(s->direction, 0, sizeof s->direction);
}

static struct state whole, other;

static void every_rule_has_what_its_traits_need(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const struct tw_rule *r = tw_rule_all[k];

		CHECK(r->apply && r->arrays <= TW_RULE_ARRAYS);
		CHECK(!(r->traits & TW_RULE_OWN_VIEW) == !r->view);
		CHECK(!r->view == !r->kept && (r->view || !r->shows));
		CHECK(!(r->traits & TW_RULE_VIEW_MINE) ||
		      (r->view && (r->traits & TW_RULE_PER_WORKER)));
		CHECK(!r->prepare == !r->kept_sent);
		CHECK(!(r->traits & TW_RULE_PER_WORKER) == !r->leave);
		CHECK(!r->prepare == !r->farewell);
		for (uint32_t i = 0; i < r->arrays; i++) {
			CHECK(r->array_names[i] && *r->array_names[i]);
			for (uint32_t j = 0; j < i; j++)
				CHECK(strcmp(r->array_names[i], r->array_names[j]));
		}
	}
}

static void every_rule_says_its_usual_rates(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const struct tw_usual_rate *r = &tw_rule_all[k]->rate;

		if (!(0 < r->low && r->low <= r->standard && r->standard <= r->high &&
		      r->high <= 1))
			fail_msg("%s: %g in %g to %g", tw_rule_all[k]->name, r->standard, r->low,
				 r->high);
	}
}

static void tiles_of_any_size_give_the_same_bits(void **state)
{
	const size_t tiles[] = { 1, 2, 7, 16, 33, 64, 500, 1000 };

	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const void *o = OPTIONS(tw_rule_all[k], NULL);

		run(tw_rule_all[k], o, &whole, (struct how){ .tile = N });
		CHECK(all_finite((float *)&whole, sizeof whole / sizeof(float)));
		for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
			run(tw_rule_all[k], o, &other, (struct how){ .tile = tiles[t] });
			CHECK(!memcmp(&whole, &other, sizeof whole));
		}
	}
}

static void in_place_gives_the_same_bits(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const void *o = OPTIONS(tw_rule_all[k], NULL);

		run(tw_rule_all[k], o, &whole, (struct how){ .tile = N });
		run(tw_rule_all[k], o, &other, (struct how){ .tile = N, .in_place = true });
		CHECK(!memcmp(&whole, &other, sizeof whole));
		run(tw_rule_all[k], o, &other, (struct how){ .tile = 50, .in_place = true });
		CHECK(!memcmp(&whole, &other, sizeof whole));
	}
}

static void asking_for_the_direction_changes_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const void *o = OPTIONS(tw_rule_all[k], NULL);

		run(tw_rule_all[k], o, &whole, (struct how){ .tile = N });
		memset(whole.direction, 0, sizeof whole.direction);
		run(tw_rule_all[k], o, &other, (struct how){ .tile = N, .quiet = true });
		CHECK(!memcmp(&whole, &other, sizeof whole));
	}
}

static void every_isa_gives_the_same_bits(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const void *o = OPTIONS(tw_rule_all[k], NULL);

		run(tw_rule_all[k], o, &whole, (struct how){ .tile = N });
		for (int isa = -1; isa_next(&isa);) {
			run(tw_rule_all[k], o, &other, (struct how){ .tile = N });
			CHECK(!memcmp(&whole, &other, sizeof whole));
		}
	}
}

/* out = w - rate direction: the direction is what the header says (decay apart, rounding apart). */
static void the_direction_times_the_rate_is_the_step(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		static float g[N], out[N];
		const struct tw_rule *r = tw_rule_all[k];
		const void *o = OPTIONS(r, NULL);

		if (r->traits & TW_RULE_OUTSIDE)
			continue; /* it is given no gradient */
		run(r, o, &whole, (struct how){ .tile = N });
		gauss(g, N, 44, 1.0f);
		update(r, o, &whole, out, g, STEPS, 0, N, false);
		for (size_t i = 0; i < N; i++) {
			const double rate = rate_of(STEPS), w = whole.w[i];
			const double from =
				r->traits & TW_RULE_OWN_DECAY ? w * (1 - rate * 0.01f) : w;

			NEAR(out[i], from - rate * whole.direction[i], 1e-6);
		}
	}
}

/* `view` is given nothing but w, arrays, rate and n (see show), and changes nothing. */
static void views_only_look(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const struct tw_rule *r = tw_rule_all[k];

		if (!r->view)
			continue;
		run(r, OPTIONS(r, NULL), &whole, (struct how){ .tile = N });
		other = whole;
		show(r, OPTIONS(r, NULL), &whole, 0.05f, 0, N);
		CHECK(!memcmp(&whole, &other, sizeof whole));
		CHECK(!same_bits(whole.view, whole.w, N));
		/* with fresh arrays there is nothing to look ahead to */
		memset(whole.array, 0, sizeof whole.array);
		memset(whole.mine, 0, sizeof whole.mine);
		show(r, OPTIONS(r, NULL), &whole, 0.05f, 0, N);
		CHECK(same_bits(whole.view, whole.w, N));
	}
}

/* From zero arrays and momentum-free options a zero gradient moves nothing. */
static void a_zero_gradient_at_the_start_moves_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		static const float g[N];
		static float out[N];
		const struct tw_rule *r = tw_rule_all[k];

		if (r->traits & TW_RULE_OUTSIDE)
			continue;
		memset(&whole, 0, sizeof whole);
		gauss(whole.w, N, 3, 1.0f);
		struct tw_apply a = { .w = whole.w,
				      .out = out,
				      .g = g,
				      .n = N,
				      .rate = 0.1f,
				      .count = 1,
				      .mine = whole.mine[0] };

		for (uint32_t i = 0; i < r->arrays; i++)
			a.array[i] = whole.array[i];
		r->apply(OPTIONS(r, NULL), &a);
		CHECK(same_bits(out, whole.w, N));
		CHECK(all_finite((float *)whole.array, TW_RULE_ARRAYS * N));
	}
}

static void finite_gradients_keep_everything_finite(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		static float g[N];
		const struct tw_rule *r = tw_rule_all[k];
		const void *o = OPTIONS(r, NULL);

		memset(&whole, 0, sizeof whole);
		gauss(whole.w, N, 4, 1.0f);
		for (int step = 0; step < 60; step++) {
			edges(g, N, (uint64_t)step, 1e30f);
			update(r, o, &whole, whole.w, g, step, 0, N, false);
			CHECK(all_finite((float *)&whole, sizeof whole / sizeof(float)));
		}
	}
}

/* The steps taken from gradients a x + b y are a times those from x plus b times those from y. */
static void linear_rules_are_linear_and_others_are_not(void **state)
{
	static float x[N], y[N], z[N], moved[3][N];

	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const struct tw_rule *r = tw_rule_all[k];
		const void *o = OPTIONS(r, NULL);
		double worst = 0.0;

		if (r->traits & TW_RULE_OUTSIDE)
			continue;
		for (int which = 0; which < 3; which++) {
			memset(&whole, 0, sizeof whole);
			for (int step = 0; step < STEPS; step++) {
				gauss(x, N, (uint64_t)step, 1.0f);
				gauss(y, N, (uint64_t)step + 500, 1.0f);
				for (size_t i = 0; i < N; i++)
					z[i] = 2.0f * x[i] - 0.5f * y[i];
				update(r, o, &whole, whole.w,
				       which == 0   ? x
				       : which == 1 ? y
						    : z,
				       step, 0, N, true);
			}
			memcpy(moved[which], whole.w, sizeof whole.w);
		}
		for (size_t i = 0; i < N; i++)
			worst = fmax(worst,
				     fabs(2.0 * moved[0][i] - 0.5 * moved[1][i] - moved[2][i]));
		if (r->traits & TW_RULE_LINEAR)
			CHECK(worst < 1e-5);
		else
			CHECK(worst > 1e-2);
	}
}

/* Gradients 64 times as large: a rule that normalises takes the same steps, others do not. */
static void only_normalising_rules_forget_the_scale(void **state)
{
	static float g[N], moved[2][N];

	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const struct tw_rule *r = tw_rule_all[k];
		double worst = 0.0;

		for (int large = 0; large < 2; large++) {
			memset(&whole, 0, sizeof whole);
			for (int step = 0; step < STEPS; step++) {
				gauss(g, N, (uint64_t)step, 1.0f);
				for (size_t i = 0; i < N; i++)
					g[i] *= large ? 64.0f : 1.0f;
				update(r, OPTIONS(r, NULL), &whole, whole.w, g, step, 0, N, true);
			}
			memcpy(moved[large], whole.w, sizeof whole.w);
		}
		for (size_t i = 0; i < N; i++)
			worst = fmax(worst, fabs((double)moved[0][i] - moved[1][i]));
		CHECK(r->traits & TW_RULE_NORMALISES ? worst < 1e-3 : worst > 1.0);
	}
}

/* Any rates, one after the other, of finite gradients: as after a wrong rate on the wire. */
static void rates_of_any_size_keep_everything_finite(void **state)
{
	static const float rates[] = { 0.1f, 1e-45f, 0.1f, 0.0f, 1e-30f, 1e6f, 1e-38f, 1.0f, 0.0f };

	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		static float g[N], v[N], u[N];
		const struct tw_rule *r = tw_rule_all[k];
		float before = 0.0f;

		memset(&whole, 0, sizeof whole);
		memset(v, 0, sizeof v);
		gauss(whole.w, N, 4, 1.0f);
		for (size_t step = 0; step < 3 * sizeof rates / sizeof *rates; step++) {
			const float rate = rates[step % (sizeof rates / sizeof *rates)];
			struct tw_apply a = { .w = whole.w,
					      .out = whole.w,
					      .g = g,
					      .n = N,
					      .rate = rate,
					      .before = before,
					      .count = step + 1,
					      .mine = whole.mine[0] };
			const struct tw_prepare half = {
				.v = v, .g = g, .u = u, .n = N, .rate = rate, .before = before
			};

			gauss(g, N, step, 1.0f);
			for (uint32_t i = 0; i < r->arrays; i++)
				a.array[i] = whole.array[i];
			r->apply(OPTIONS(r, NULL), &a);
			if (r->prepare)
				r->prepare(OPTIONS(r, NULL), &half);
			before = rate;
			CHECK(all_finite((float *)&whole, sizeof whole / sizeof(float)));
			CHECK(all_finite(v, N) && all_finite(u, N));
		}
	}
}

/* A shard does a plain rule's work in its place: so it must be that, to the bit, keep nothing and
 * show what it keeps. */
static void plain_is_plain(void **state)
{
	static float w[N], g[N], out[N], want[N];
	size_t plain = 0;

	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const struct tw_rule *r = tw_rule_all[k];
		const struct tw_apply a = {
			.w = w, .out = out, .g = g, .n = N, .rate = 0.3f, .count = 1
		};

		if (!(r->traits & TW_RULE_PLAIN))
			continue;
		plain++;
		CHECK(r->traits == (TW_RULE_PLAIN | TW_RULE_LINEAR) && r->arrays == 0);
		gauss(w, N, 1, 1.0f);
		gauss(g, N, 2, 1.0f);
		r->apply(OPTIONS(r, NULL), &a);
		tw_vec_sgd(want, w, g, 0.3f, N, false);
		CHECK(memcmp(out, want, sizeof out) == 0);
	}
	CHECK(plain >= 1);
}

/* When all have left, nothing of them is in what workers see. */
static void who_leaves_leaves_no_ghost(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		const struct tw_rule *r = tw_rule_all[k];

		if (!r->leave)
			continue;
		run(r, OPTIONS(r, NULL), &whole, (struct how){ .tile = N });
		for (int worker = 0; worker < WORKERS; worker++) {
			for (size_t at = 0; at < N; at += 100) { /* in tiles, too */
				float *array[TW_RULE_ARRAYS];

				for (uint32_t i = 0; i < TW_RULE_ARRAYS; i++)
					array[i] = whole.array[i] + at;
				r->leave(OPTIONS(r, NULL), array, whole.mine[worker] + at,
					 N - at < 100 ? N - at : 100);
			}
		}
		for (size_t i = 0; i < WORKERS * N; i++)
			CHECK((&whole.mine[0][0])[i] == 0.0f);
		if (r->view) {
			show(r, OPTIONS(r, NULL), &whole, 0.05f, 0, N);
			for (size_t i = 0; i < N; i++)
				NEAR(whole.view[i], whole.w[i], 1e-7);
		}
	}
}

static void adamw_alone_uses_the_decay(void **state)
{
	(void)state;
	for (size_t k = 0; tw_rule_all[k]; k++) {
		static const float g[N];
		static float out[N];
		const struct tw_rule *r = tw_rule_all[k];

		if (r->traits & TW_RULE_OUTSIDE)
			continue;
		memset(&whole, 0, sizeof whole);
		gauss(whole.w, N, 3, 1.0f);
		update(r, OPTIONS(r, NULL), &whole, out, g, 0, 0, N, true);
		if (r->traits & TW_RULE_OWN_DECAY)
			for (size_t i = 0; i < N; i++)
				NEAR(out[i], whole.w[i] * (1.0 - 0.1 * 0.01), 1e-7);
		else
			CHECK(same_bits(out, whole.w, N));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_rule_has_what_its_traits_need),
		cmocka_unit_test(every_rule_says_its_usual_rates),
		cmocka_unit_test(tiles_of_any_size_give_the_same_bits),
		cmocka_unit_test(in_place_gives_the_same_bits),
		cmocka_unit_test(asking_for_the_direction_changes_nothing),
		cmocka_unit_test(every_isa_gives_the_same_bits),
		cmocka_unit_test(the_direction_times_the_rate_is_the_step),
		cmocka_unit_test(views_only_look),
		cmocka_unit_test(a_zero_gradient_at_the_start_moves_nothing),
		cmocka_unit_test(finite_gradients_keep_everything_finite),
		cmocka_unit_test(linear_rules_are_linear_and_others_are_not),
		cmocka_unit_test(only_normalising_rules_forget_the_scale),
		cmocka_unit_test(rates_of_any_size_keep_everything_finite),
		cmocka_unit_test(plain_is_plain),
		cmocka_unit_test(who_leaves_leaves_no_ghost),
		cmocka_unit_test(adamw_alone_uses_the_decay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
