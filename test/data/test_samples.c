/* SPDX-License-Identifier: Apache-2.0 */
/* test_samples.c - it makes no difference where samples lie: in memory, with a supply that lends
 * them, or with one that makes them. */
#include "data/kit.h"
#include "data/chosen.h"
#include "data/data_memory.h"
#include "data/split.h"

#include <stdlib.h>
#include <string.h>

/* A supply before a set that is in memory; position `from` is its first sample. */
struct window {
	struct tw_supply supply; /* must stay first */
	const struct tw_data *d;
	const struct tw_samples *of;
	uint64_t from, asked, hinted;
	bool closed;
};

static enum tw_status lend(struct tw_supply *s, const uint64_t *position, uint32_t n, void *room,
			   struct tw_sample *out, struct tw_error *why)
{
	struct window *w = (struct window *)s;

	for (uint32_t k = 0; k < n; k++) {
		const uint64_t at = position[k] - w->from;
		const size_t width = tw_samples_width(w->d), each = tw_samples_answer(w->d);

		if (position[k] < w->from || at >= w->of->count)
			return tw_fail(why, TW_ABSENT, "not here");
		assert_int_equal(tw_samples_fill(w->d, w->of, &at, 1, NULL, &out[k], why), TW_OK);
		w->asked++;
		if (s->lends)
			continue;
		assert_non_null(room);
		memcpy(room, out[k].value, width);
		out[k].value = room;
		room = (uint8_t *)room + width;
		memcpy(room, out[k].target ? (const void *)out[k].target : out[k].label, each);
		out[k].target = out[k].target ? room : NULL;
		out[k].label = out[k].label ? room : NULL;
		room = (uint8_t *)room + each;
	}
	return TW_OK;
}

static void hint(struct tw_supply *s, const uint64_t *position, uint32_t n)
{
	((struct window *)s)->hinted += n;
}

static void shut(struct tw_supply *s)
{
	((struct window *)s)->closed = true;
}

static struct window window_of(const struct tw_data *d, bool lends)
{
	return (struct window){
		.supply = { .lends = lends, .fill = lend, .soon = hint, .close = shut },
		.d = d,
		.of = &d->train,
	};
}

static const struct sample {
	const char *source;
	const char *sets[6];
} samples[] = {
	{ "digits", { "count=40", "tests=10" } },
	{ "idx", { "images=images", "labels=labels", "test=0.25" } },
	{ "csv", { "file=train.csv", "test_file=test.csv" } },
	{ "csv", { "file=plain.csv", "task=values", "label=2", "header=no", "test=0.4" } },
	{ "npy", { "x=x.npy", "y=y.npy" } },
	{ "text", { "file=text.txt", "length=5" } },
};
#define SAMPLES (sizeof samples / sizeof samples[0])

static void batches_are_the_same(void **state)
{
	for (size_t k = 0; k < SAMPLES; k++) {
		struct tw_data *d = kit_must_open(samples[k].source, samples[k].sets);
		struct window w = window_of(d, true);
		const struct tw_samples lent = { .count = d->train.count, .supply = &w.supply };
		const struct tw_data_options moved = { .shift = d->rank == 3, .noise = 0.5 };
		const uint32_t n = d->train.count < 37 ? (uint32_t)d->train.count : 37;
		const size_t values = n * (d->features + d->targets + 1);
		float *x = calloc(values, 4), *y = calloc(values, 4);
		uint32_t a[37 * 5] = { 0 }, b[37 * 5] = { 0 };
		uint64_t index[37];

		for (uint32_t i = 0; i < n; i++)
			index[i] = (i * 7 + 3) % d->train.count;
		for (int m = 0; m < 2; m++) {
			const struct tw_batch from = { &d->train, index, n, 5 };
			const struct tw_batch to = { &lent, index, n, 5 };
			const struct tw_data_options *how = m ? &moved : NULL;

			assert_int_equal(tw_data_fill(d, &from, how, 3, x, a, x + n * d->features),
					 TW_OK);
			assert_int_equal(tw_data_fill(d, &to, how, 3, y, b, y + n * d->features),
					 TW_OK);
			assert_memory_equal(x, y, values * sizeof *x);
			assert_memory_equal(a, b, sizeof a);
			memset(b, 0, sizeof b);
			assert_int_equal(tw_data_answers(d, &to, b, y + n * d->features), TW_OK);
			assert_memory_equal(a, b, sizeof a);
		}
		assert_int_equal(w.asked, 4 * n);
		free(x);
		free(y);
		tw_data_close(d);
	}
}

/* Statistics, scales, weights and fingerprint of a set that is made sample by sample. */
static void what_is_known_is_the_same(void **state)
{
	for (size_t k = 0; k < SAMPLES; k++)
		for (int lends = 0; lends < 2; lends++)
			for (int how = TW_NORMALISE_UNIT; how <= TW_NORMALISE_STANDARD; how++) {
				struct tw_data *d =
					kit_must_open(samples[k].source, samples[k].sets);
				struct window w = window_of(d, lends);
				struct tw_data again = *d;
				const size_t bytes = d->features * sizeof(float);
				const size_t own = d->memories;
				struct tw_sha found;
				struct tw_error why = { 0 };

				again.train = (struct tw_samples){ .count = d->train.count,
								   .supply = &w.supply };
				assert_int_equal(tw_fingerprint(&again, &found), TW_OK);
				assert_true(tw_sha_same(&found, &d->fingerprint));
				assert_true(w.hinted >= d->train.count);
				assert_int_equal(tw_normalise(&again, (enum tw_normalise)how, &why),
						 TW_OK);
				assert_int_equal(tw_normalise(d, (enum tw_normalise)how, &why),
						 TW_OK);
				assert_memory_equal(again.scale, d->scale, bytes);
				assert_memory_equal(again.shift, d->shift, bytes);
				assert_int_equal(tw_data_weigh(&again, TW_CLASSES_AUTO, NULL, &why),
						 TW_OK);
				assert_int_equal(tw_data_weigh(d, TW_CLASSES_AUTO, NULL, &why),
						 TW_OK);
				assert_true(!again.weight == !d->weight);
				if (d->weight)
					assert_memory_equal(again.weight, d->weight,
							    d->train.count * sizeof(float));
				assert_int_equal(tw_data_scale_targets(&again, &why), TW_OK);
				if (d->targets)
					assert_memory_equal(again.target_scale, d->target_scale,
							    2 * d->targets * sizeof(float));
				for (size_t m = own; m < again.memories; m++)
					again.heap->put(again.heap, again.memory[m]);
				tw_data_close(d);
			}
}

/* Held in memory, a supply that makes samples is what it made; a lender stays as it is. */
static void samples_are_held(void **state)
{
	struct tw_data *d = kit_must_open("idx", samples[1].sets);
	struct window makes = window_of(d, false), lends = window_of(d, true);
	struct tw_samples s = { .count = d->train.count, .supply = &makes.supply };
	struct tw_samples lent = { .count = d->train.count, .supply = &lends.supply };
	struct tw_error why = { 0 };

	assert_false(tw_samples_lend(&s));
	assert_int_equal(tw_hold(d, &s, &why), TW_OK);
	assert_true(tw_samples_lend(&s) && !s.supply);
	assert_memory_equal(s.value, d->train.value, s.count * d->features);
	assert_memory_equal(s.label, d->train.label, s.count * sizeof *s.label);
	assert_int_equal(tw_hold(d, &lent, &why), TW_OK);
	assert_true(!lent.value && lends.asked == 0);
	tw_data_close(d);
}

/* By the rule in split.c, worked out here. */
static void a_supply_is_split_by_positions(void **state)
{
	struct tw_data *all = kit_must_open("digits", SETS("count=40", "tests=10"));
	struct tw_data *d = kit_must_open(
		"digits", SETS("count=40", "tests=10", "validation=0.25", "samples=20"));
	const struct tw_rng rng = tw_rng_make(1, TW_RNG_SPLIT);
	uint64_t train = 0, checks = 0;

	assert_int_equal(d->train.count, 20);
	assert_int_equal(d->validation.count, 10);
	assert_int_equal(d->test.count, 10);
	for (uint64_t i = 0; i < 40; i++) {
		const uint64_t place = tw_rng_permute(&rng, 0, 40, i);
		const struct tw_samples *s = place < 10 ? &d->validation : &d->train;
		const uint64_t k = place < 10 ? checks++ : place < 30 ? train++ : UINT64_MAX;

		if (k == UINT64_MAX)
			continue;
		assert_int_equal(s->label[k], all->train.label[i]);
		assert_memory_equal((const uint8_t *)s->value + k * 784,
				    (const uint8_t *)all->train.value + i * 784, 784);
	}
	assert_true(train == 20 && checks == 10);
	tw_data_close(d);
	tw_data_close(all);
}

/* What has not arrived, or was let go, is absent; the rest is as it came. */
static void a_stream_has_a_window(void **state)
{
	struct tw_data *d = kit_must_open("digits", SETS("count=40", "tests=10"));
	struct window w = window_of(d, true);
	const struct tw_samples endless = { .count = TW_ENDLESS, .supply = &w.supply };
	uint64_t index[3] = { 1000, 1039, 1017 };
	const struct tw_batch b = { &endless, index, 3, 1000 };
	float x[3 * 784];
	uint32_t label[3];

	w.from = 1000;
	assert_int_equal(tw_data_fill(d, &b, NULL, 0, x, label, NULL), TW_OK);
	assert_int_equal(label[1], d->train.label[39]);
	index[2] = 1040;
	assert_int_equal(tw_data_fill(d, &b, NULL, 0, x, label, NULL), TW_ABSENT);
	assert_int_equal(tw_data_answers(d, &b, label, NULL), TW_ABSENT);
	index[2] = 999;
	assert_int_equal(tw_data_fill(d, &b, NULL, 0, x, label, NULL), TW_ABSENT);
	tw_data_close(d);
}

static enum tw_status count_to_five(void *arg, uint64_t i, const struct tw_sample *s,
				    struct tw_error *why)
{
	uint64_t *seen = arg;

	assert_non_null(s->value);
	assert_int_equal(i, 30 + *seen);
	return ++*seen == 5 ? tw_fail(why, TW_BAD_INPUT, "enough") : TW_OK;
}

static void walks_begin_and_end_where_they_should(void **state)
{
	struct tw_data *d = kit_must_open("digits", SETS("count=40", "tests=10"));
	struct window w = window_of(d, false);
	const struct tw_samples s = { .count = 40, .supply = &w.supply };
	struct tw_error why = { 0 };
	uint64_t seen = 0;

	assert_int_equal(tw_samples_walk(d, &s, 30, UINT64_MAX, count_to_five, &seen, &why),
			 TW_BAD_INPUT);
	assert_string_equal(why.text, "enough");
	seen = 0;
	assert_int_equal(tw_samples_walk(d, &s, 30, 3, count_to_five, &seen, &why), TW_OK);
	assert_int_equal(seen, 3);
	assert_int_equal(tw_samples_walk(d, &s, 40, 9, count_to_five, &seen, &why), TW_OK);
	assert_int_equal(tw_samples_walk(d, &s, UINT64_MAX, 9, count_to_five, &seen, &why), TW_OK);
	assert_int_equal(seen, 3);
	tw_data_close(d);
}

static void supplies_are_closed(void **state)
{
	struct tw_data *d = kit_must_open("digits", SETS("count=40", "tests=10"));
	struct window w = window_of(d, true);

	tw_data_keep_supply(d, &w.supply);
	tw_data_close(d);
	assert_true(w.closed);
}

static int setup(void **state)
{
	if (scratch_make(state))
		return -1;
	kit_put_idx_set();
	kit_put_csv_set();
	kit_put_npy_set();
	kit_put_text_set();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_are_the_same),
		cmocka_unit_test(what_is_known_is_the_same),
		cmocka_unit_test(samples_are_held),
		cmocka_unit_test(a_supply_is_split_by_positions),
		cmocka_unit_test(a_stream_has_a_window),
		cmocka_unit_test(walks_begin_and_end_where_they_should),
		cmocka_unit_test(supplies_are_closed),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
