/* SPDX-License-Identifier: Apache-2.0 */
/* test_sparse_codecs.c - what is peculiar to each codec that compresses: its formula in a plain
 * loop, its sizes, its draws. */
#include "strategy/tools.h"
#include "strategy/codec.h"
#include "strategy/sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct tw_rng rng = { { 3, 4 } };

struct coder {
	const struct tw_codec *codec;
	void *options, *state;
	uint8_t *wire;
	size_t n, len;
	float *back;
};

static struct coder open_coder(const char *name, void *options, size_t n)
{
	const struct tw_codec *c = tw_codec_find(name);

	return (struct coder){ .codec = c,
			       .options = options,
			       .state = calloc(
				       1, (c->state_bytes ? c->state_bytes(options, n) : 0) + 1),
			       .wire = malloc(c->bound(options, n) + 1),
			       .n = n,
			       .back = malloc((n + 1) * sizeof(float)) };
}
#define OPEN(name, n, ...) open_coder(name, OPTIONS(tw_codec_find(name), __VA_ARGS__), n)

static void close_coder(struct coder *c)
{
	free(c->state);
	free(c->wire);
	free(c->back);
}

/* One encoding and back; returns how many values were sent, where the codec is sparse. */
static size_t through(struct coder *c, const float *x, uint64_t draw)
{
	const struct tw_encoding of = { .rng = &rng, .draw = draw };
	size_t sent = 0;

	c->len = c->codec->bound(c->options, c->n);
	CHECK(c->codec->encode(c->options, c->state, &of, x, c->n, c->wire, &c->len) == TW_OK);
	CHECK(tw_codec_decode(c->codec, c->options, c->wire, c->len, c->back, c->n) == TW_OK);
	if (c->codec->check)
		CHECK(c->codec->check(c->options, c->wire, c->len, c->n, &sent) == TW_OK);
	return sent;
}

/* --- threshold ---------------------------------------------------------------------------- */

/* Strom's rule, value by value; with integers and a power of two all sums are exact. */
static void threshold_is_stroms_rule(void **state)
{
	static const char *const codings[] = { "plain", "rice" };
	const size_t n = 300;
	float x[300], owed[300];

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct coder c = OPEN("threshold", n, "tau", "4", "coding", codings[k], NULL);
		double given[300] = { 0 }, sent[300] = { 0 };

		memset(owed, 0, sizeof owed);
		for (uint64_t step = 0; step < 60; step++) {
			for (size_t i = 0; i < n; i++) {
				/* dense at first, then few */
				const uint32_t most = step < 20 ? 15 : 3;

				x[i] = (float)pick(step * n + i, most) - (float)(most / 2);
				given[i] += x[i];
			}
			through(&c, x, step);
			for (size_t i = 0; i < n; i++) {
				const float sum = owed[i] + x[i];
				const float q = sum >= 4 ? 4.0f : sum <= -4 ? -4.0f : 0.0f;

				owed[i] = sum - q;
				sent[i] += q;
				CHECK(c.back[i] == q);
			}
			CHECK(same_bits(owed, c.state, n));
		}
		for (size_t i = 0; i < n; i++)
			CHECK(sent[i] + owed[i] == given[i]);
		close_coder(&c);
	}
}

/* It is not sgd with small steps: whatever the gradient, one tau. */
static void a_small_threshold_sends_signs(void **state)
{
	struct coder c = OPEN("threshold", 3, "tau", "1e-9", NULL);

	(void)state;
	CHECK(through(&c, (const float[]){ 7.0f, -0.5f, 0.0f }, 0) == 2);
	CHECK(c.back[0] == 1e-9f && c.back[1] == -1e-9f && c.back[2] == 0.0f);
	close_coder(&c);
}

static void residuals_stay_below_the_threshold(void **state)
{
	struct coder c = OPEN("threshold", 1000, "tau", "1", NULL);
	float x[1000];

	(void)state;
	for (uint64_t step = 0; step < 200; step++) {
		for (size_t i = 0; i < 1000; i++)
			x[i] = (float)pick(step * 1000 + i, 1999) / 1000.0f - 0.999f;
		through(&c, x, step);
		for (size_t i = 0; i < 1000; i++)
			CHECK(fabsf(((float *)c.state)[i]) < 1.0f);
	}
	close_coder(&c);
}

static void threshold_words_are_index_and_sign(void **state)
{
	float x[400] = { 2.0f };
	const uint8_t want[] = {
		0, 0, 0, 0x40, 3, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0x1E, 3, 0, 0
	};
	struct coder c = OPEN("threshold", 400, "tau", "2", NULL);

	(void)state;
	x[5] = -9.0f;
	x[399] = 2.5f;
	CHECK(through(&c, x, 0) == 3);
	CHECK(c.len == sizeof want && !memcmp(c.wire, want, sizeof want));
	close_coder(&c);
}

/* `count` of n values at random, at least 1 apart. */
static void few_values(float *x, size_t n, size_t count)
{
	memset(x, 0, n * sizeof *x);
	for (size_t j = 0; j < count; j++) {
		const size_t from = j * n / count, to = (j + 1) * n / count;

		x[from + tw_rng_u64(&rng, 1, j) % (to - from)] = j % 3 ? 1.0f : -1.0f;
	}
}

/* As above, but a value may be anywhere: gaps are those of chance. */
static size_t scattered(float *x, size_t n, size_t count)
{
	size_t set = 0;

	memset(x, 0, n * sizeof *x);
	for (size_t j = 0; set < count; j++) {
		float *const at = &x[tw_rng_u64(&rng, 2, j) % n];

		set += *at == 0.0f;
		*at = j % 3 ? 1.0f : -1.0f;
	}
	return set;
}

/* The sizes of Strom's paper, in 16 shards. */
static void fourteen_million_values_take_what_the_paper_says(void **state)
{
	static const struct {
		const char *coding;
		size_t count, most;
	} cases[] = { { "plain", 52500, 212000 },
		      { "plain", 1125, 4700 },
		      { "rice", 52500, 71000 } };
	const size_t n = 14600000, each = n / 16;
	float *x = malloc(n * sizeof *x);

	(void)state;
	for (int k = 0; k < 3; k++) {
		size_t bytes = 0, sent = 0;

		scattered(x, n, cases[k].count);
		for (size_t s = 0; s < 16; s++) {
			struct coder c = OPEN("threshold", each, "tau", "1", "coding",
					      cases[k].coding, NULL);

			sent += through(&c, x + s * each, 0);
			bytes += c.len;
			CHECK(same_bits(c.back, x + s * each, each));
			close_coder(&c);
		}
		CHECK(sent == cases[k].count && bytes <= cases[k].most);
	}
	free(x);
}

/* Whatever the density: never longer than a bit per value and one per value sent, nor than words,
 * and the values are those that were sent. */
static void the_shortest_form_is_sent(void **state)
{
	static const char *const codings[] = { "plain", "rice" };
	const size_t n = 10007;
	float *x = malloc(n * sizeof *x);

	(void)state;
	for (int k = 0; k < 2; k++)
		for (size_t count = 1; count <= n; count += 1 + count / 7) {
			struct coder c =
				OPEN("threshold", n, "tau", "1", "coding", codings[k], NULL);
			const size_t bitmap = 8 + (n + 7) / 8 + (count + 7) / 8;

			few_values(x, n, count);
			CHECK(through(&c, x, 0) == count);
			CHECK(same_bits(c.back, x, n));
			CHECK(c.len <= bitmap);
			CHECK(k == 1 || c.len <= 8 + 4 * count);
			CHECK(k == 0 || count < 20 || c.len <= 8 + 4 * count);
			close_coder(&c);
		}
	free(x);
}

/* A density that is asked for is reached, whatever the size of the gradients, and kept. */
static void a_density_is_held(void **state)
{
	const size_t n = 20000;
	float *x = malloc(n * sizeof *x);

	(void)state;
	for (float scale = 1e-5f; scale < 2.0f; scale *= 30.0f) {
		struct coder c = OPEN("threshold", n, "density", "0.01", NULL);
		size_t sent = 0;

		for (uint64_t step = 0; step < 500; step++) {
			gauss(x, n, step, scale);
			sent += step < 400 ? through(&c, x, step) * 0 : through(&c, x, step);
		}
		CHECK(sent > n / 2 && sent < 2 * n);
		close_coder(&c);
	}
	free(x);
}

/* --- topk, randomk ------------------------------------------------------------------------ */

static int further(const void *a, const void *b)
{
	const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

	return (x < y) - (x > y);
}

static void topk_sends_the_largest(void **state)
{
	float x[997], sorted[997];

	(void)state;
	for (uint64_t round = 0; round < 40; round++) {
		struct coder c = OPEN("topk", 997, "share", "0.05", NULL);
		size_t k = 0;

		if (round % 2)
			gauss(x, 997, round, 1.0f);
		else
			edges(x, 997, round, 1e38f);
		memcpy(sorted, x, sizeof x);
		qsort(sorted, 997, sizeof *sorted, further);
		k = through(&c, x, 0);
		CHECK(k == 50 || sorted[49] == 0.0f);
		for (size_t i = 0; i < 997; i++) {
			const float *owed = c.state;

			CHECK(c.back[i] == 0.0f || fabsf(x[i]) >= fabsf(sorted[49]));
			CHECK(c.back[i] == 0.0f ? owed[i] == x[i]
						: owed[i] == 0.0f && c.back[i] == x[i]);
			CHECK(c.back[i] != 0.0f || fabsf(x[i]) <= fabsf(sorted[49]));
		}
		close_coder(&c);
	}
}

/* Of equal values the first are sent. */
static void ties_go_by_index(void **state)
{
	struct coder c = OPEN("topk", 100, "share", "0.1", NULL);
	float x[100];

	(void)state;
	for (size_t i = 0; i < 100; i++)
		x[i] = i == 70 ? 3.0f : i % 2 ? -1.0f : 1.0f;
	CHECK(through(&c, x, 0) == 10);
	for (size_t i = 0; i < 100; i++)
		CHECK((c.back[i] != 0.0f) == (i < 9 || i == 70));
	close_coder(&c);
}

static void topk_of_all_is_exact(void **state)
{
	struct coder c = OPEN("topk", 333, "share", "1", NULL);
	float x[333];

	(void)state;
	for (uint64_t step = 0; step < 5; step++) {
		gauss(x, 333, step, 1.0f);
		through(&c, x, step);
		CHECK(same_bits(c.back, x, 333));
		CHECK(c.len <= 4 + 4 * 333);
	}
	close_coder(&c);
}

/* One value of each stretch, all of them in time, and about equally often. */
static void randomk_draws_from_every_stretch(void **state)
{
	struct coder c = OPEN("randomk", 1000, "share", "0.1", NULL);
	unsigned often[1000] = { 0 };
	float x[1000];

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		x[i] = 1.0f;
	for (uint64_t step = 0; step < 1000; step++) {
		CHECK(through(&c, x, step) == 100 && c.len == 8 + 4 * 100);
		for (size_t s = 0; s < 100; s++) {
			unsigned of_stretch = 0;

			for (size_t i = 10 * s; i < 10 * s + 10; i++) {
				of_stretch += c.back[i] != 0.0f;
				often[i] += c.back[i] != 0.0f;
			}
			CHECK(of_stretch == 1);
		}
	}
	for (size_t i = 0; i < 1000; i++)
		CHECK(often[i] > 60 && often[i] < 145);
	close_coder(&c);
}

/* --- int8, onebit ------------------------------------------------------------------------- */

/* The mean of many roundings is the value, and each is next to it. */
static void int8_has_no_bias(void **state)
{
	enum { N = 512, TIMES = 4000 };
	struct coder c = OPEN("int8", N, NULL);
	static double sum[N];
	float x[N];

	(void)state;
	gauss(x, N, 1, 1.0f);
	for (uint64_t draw = 0; draw < TIMES; draw++) {
		through(&c, x, draw);
		for (size_t i = 0; i < N; i++) {
			const float scale = tw_get_f32(c.wire + i / 256 * 260);

			CHECK(fabsf(c.back[i] - x[i]) < 1.0001f * scale);
			sum[i] += (double)((c.back[i] - x[i]) / scale);
		}
	}
	for (size_t i = 0; i < N; i++) /* at most half a step of deviation: five of them */
		CHECK(fabs(sum[i] / TIMES) < 5 * 0.5 / sqrt(TIMES));
	close_coder(&c);
}

/* Where all values of a tile are as large, a sign and the scale say everything. */
static void onebit_is_exact_for_equal_sizes(void **state)
{
	struct coder c = OPEN("onebit", 1000, "tile", "64", NULL);
	float x[1000];

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		x[i] = (i * 7 % 3 ? 1.0f : -1.0f) * (float)(1 + i / 64) * 0.25f;
	through(&c, x, 0);
	CHECK(same_bits(c.back, x, 1000));
	CHECK(c.len == 15 * (4 + 8) + 4 + 5);
	close_coder(&c);
}

/* Values of both signs, of other sizes and numbers; the last tile has none that are negative. */
static void skewed(float *x, size_t n, uint64_t step)
{
	gauss(x, n, step, 1.0f);
	for (size_t i = 0; i < n; i++)
		x[i] = i >= 960 ? fabsf(x[i]) : x[i] < 0.3f ? 0.01f * x[i] - 0.5f : x[i];
}

/* From the definitions, tile by tile: what each value travels as, what is owed afterwards. */
static void onebit_sends_means_of_tiles(void **state)
{
	enum { N = 1000, TILE = 64 };

	(void)state;
	for (int two = 0; two < 2; two++) {
		struct coder c =
			OPEN("onebit", N, "tile", "64", "means", two ? "two" : "one", NULL);
		const size_t head = two ? 8 : 4;
		const float *owed = c.state;
		float x[N], r[N];

		for (uint64_t step = 0; step < 40; step++) {
			skewed(x, N, step);
			for (size_t i = 0; i < N; i++)
				r[i] = owed[i] + x[i];
			through(&c, x, step);
			CHECK(c.len == 15 * (head + TILE / 8) + head + 5);
			for (size_t i = 0; i < N; i++) {
				const size_t from = i / TILE * TILE;
				const size_t to = from + TILE < N ? from + TILE : N;
				const uint8_t *at = c.wire + from / TILE * (head + TILE / 8);
				double sum = 0, count = 0, want;

				for (size_t k = from; k < to; k++)
					if (!two || (r[k] < 0) == (r[i] < 0)) {
						sum += fabs((double)r[k]);
						count++;
					}
				want = (r[i] < 0 ? -1 : 1) * sum / count;
				CHECK(fabs((double)c.back[i] - want) <= 1e-7 * fabs(want));
				CHECK(owed[i] == r[i] - c.back[i]);
				CHECK((at[head + (i - from) / 8] >> i % 8 & 1) == (r[i] < 0));
				CHECK(c.back[i] == (!two && r[i] < 0 ? -tw_get_f32(at)
						    : r[i] < 0       ? tw_get_f32(at + 4)
								     : tw_get_f32(at)));
			}
		}
		close_coder(&c);
	}
}

/* Two levels that each are the mean of what they stand for are as close as two levels can be. */
static void two_means_are_closer_than_one(void **state)
{
	enum { N = 1000 };
	struct coder one = OPEN("onebit", N, NULL), two = OPEN("onebit", N, "means", "two", NULL);
	double off[2] = { 0 };
	float x[N];

	(void)state;
	skewed(x, N, 3);
	through(&one, x, 0);
	through(&two, x, 0);
	for (size_t i = 0; i < N; i++) {
		off[0] += pow((double)x[i] - (double)one.back[i], 2);
		off[1] += pow((double)x[i] - (double)two.back[i], 2);
	}
	CHECK(off[1] < 0.9 * off[0]);
	close_coder(&one);
	close_coder(&two);
}

/* What no encoder writes: a negative mean of positive values, a positive one of negative values. */
static void means_have_their_sign(void **state)
{
	struct coder c = OPEN("onebit", 20, "means", "two", NULL);
	const float x[20] = { 1, -1, 2, -3 };
	static const float wrong[2][3] = { { -1e-20f, INFINITY, NAN }, { 1e-20f, -INFINITY, NAN } };

	(void)state;
	for (size_t at = 0; at < 2; at++)
		for (size_t k = 0; k < 3; k++) {
			through(&c, x, 0);
			tw_put_f32(c.wire + 4 * at, wrong[at][k]);
			CHECK(tw_codec_decode(c.codec, c.options, c.wire, c.len, c.back, 20) ==
			      TW_BAD_BYTES);
		}
	close_coder(&c);
}

/* --- dgc, sparseloco ---------------------------------------------------------------------- */

/* The formula in a plain loop: velocities, sums of them, and what is masked. */
static void dgc_sends_the_largest_velocities(void **state)
{
	enum { N = 200, K = 10 };
	struct coder c = OPEN("dgc", N, "share", "0.05", "momentum", "0.5", NULL);
	float u[N] = { 0 }, v[N] = { 0 }, x[N], sorted[N];

	(void)state;
	for (uint64_t step = 0; step < 50; step++) {
		gauss(x, N, step, 1.0f);
		for (size_t i = 0; i < N; i++) {
			u[i] = fmaf(0.5f, u[i], x[i]);
			v[i] += u[i];
		}
		memcpy(sorted, v, sizeof v);
		qsort(sorted, N, sizeof *sorted, further);
		CHECK(through(&c, x, step) == K);
		for (size_t i = 0; i < N; i++) {
			const bool sent = fabsf(v[i]) >= fabsf(sorted[K - 1]);

			CHECK(c.back[i] == (sent ? v[i] : 0.0f));
			if (sent)
				u[i] = v[i] = 0.0f;
		}
		CHECK(same_bits(v, c.state, N) && same_bits(u, (float *)c.state + N, N));
	}
	close_coder(&c);
}

/* 25 %, then by equal factors down to the share. */
static void the_warm_up_sends_more(void **state)
{
	enum { N = 10000 };
	static const struct {
		double at, share;
	} cases[] = {
		{ 0, 0.25 }, { 2, 0.025 }, { 3.999999, 0.0025 }, { 4, 0.0025 }, { 9, 0.0025 }
	};
	float *x = malloc(N * sizeof *x);

	(void)state;
	gauss(x, N, 1, 1.0f);
	for (size_t k = 0; k < 5; k++) {
		struct coder c = OPEN("dgc", N, "share", "0.0025", "warmup", "4 epochs", NULL);
		const struct tw_encoding of = { .rng = &rng, .progress = cases[k].at };
		size_t sent;

		c.len = c.codec->bound(c.options, N);
		CHECK(c.codec->encode(c.options, c.state, &of, x, N, c.wire, &c.len) == TW_OK);
		CHECK(c.codec->check(c.options, c.wire, c.len, N, &sent) == TW_OK);
		CHECK(fabs((double)sent - cases[k].share * N) <= 1.0);
		close_coder(&c);
	}
	free(x);
}

/* Of each chunk the largest, as one of four values; what is left fades. */
static void sparseloco_keeps_a_fading_rest(void **state)
{
	enum { N = 4096 + 1000, K = 64 };
	struct coder c = OPEN("sparseloco", N, "decay", "0.5", NULL);
	float *x = malloc(N * sizeof *x), *r = calloc(N, sizeof *r),
	      *sorted = malloc(N * sizeof *r);

	(void)state;
	for (uint64_t step = 0; step < 20; step++) {
		gauss(x, N, step, 1.0f);
		for (size_t i = 0; i < N; i++)
			r[i] = fmaf(0.5f, r[i], x[i]);
		CHECK(through(&c, x, step) == K + 16);
		CHECK(c.len == 8 + 112 + 8 + 28);
		for (size_t from = 0; from < N; from += 4096) {
			const size_t n = N - from < 4096 ? N - from : 4096, k = from ? 16 : K;
			double sent = 0, meant = 0;

			memcpy(sorted, r + from, n * sizeof *r);
			qsort(sorted, n, sizeof *sorted, further);
			for (size_t i = from; i < from + n; i++) {
				const bool is = c.back[i] != 0.0f;

				CHECK(is == (fabsf(r[i]) >= fabsf(sorted[k - 1])));
				CHECK(!is || signbit(c.back[i]) == signbit(r[i]));
				sent += fabs((double)c.back[i]);
				meant += is ? fabs((double)r[i]) : 0.0;
				r[i] -= c.back[i];
			}
			NEAR(sent, meant, 1e-6 * meant); /* both halves are means */
		}
		CHECK(same_bits(r, c.state, N));
	}
	close_coder(&c);
	free(x);
	free(r);
	free(sorted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threshold_is_stroms_rule),
		cmocka_unit_test(a_small_threshold_sends_signs),
		cmocka_unit_test(residuals_stay_below_the_threshold),
		cmocka_unit_test(threshold_words_are_index_and_sign),
		cmocka_unit_test(fourteen_million_values_take_what_the_paper_says),
		cmocka_unit_test(the_shortest_form_is_sent),
		cmocka_unit_test(a_density_is_held),
		cmocka_unit_test(topk_sends_the_largest),
		cmocka_unit_test(ties_go_by_index),
		cmocka_unit_test(topk_of_all_is_exact),
		cmocka_unit_test(randomk_draws_from_every_stretch),
		cmocka_unit_test(int8_has_no_bias),
		cmocka_unit_test(onebit_is_exact_for_equal_sizes),
		cmocka_unit_test(onebit_sends_means_of_tiles),
		cmocka_unit_test(two_means_are_closer_than_one),
		cmocka_unit_test(means_have_their_sign),
		cmocka_unit_test(dgc_sends_the_largest_velocities),
		cmocka_unit_test(the_warm_up_sends_more),
		cmocka_unit_test(sparseloco_keeps_a_fading_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
