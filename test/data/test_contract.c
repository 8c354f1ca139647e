/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract.c - what every source owes: rows, sane sets, the same twice, and no leak when
 * memory is refused at any place. */
#include "data/kit.h"
#include "base/refusing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Samples with files that the suite makes; a source that needs none has its own in its table. */
static const struct sample {
	const char *source;
	const char *sets[8];
} samples[] = {
	{ "digits", { "count=40", "tests=10", "validation=0.25", "normalise=unit" } },
	{ "mnist", { "path=mnist" } },
	{ "mnist", { NULL } },
	{ "idx",
	  { "images=images", "labels=labels", "test_images=test-images.gz",
	    "test_labels=test-labels" } },
	{ "idx", { "images=images", "labels=labels", "test=0.25", "validation=0.1", "samples=3" } },
	{ "csv", { "file=train.csv", "test_file=test.csv" } },
	{ "csv", { "file=train.csv", "test_file=other.csv" } },
	{ "csv", { "file=plain.csv", "task=values", "label=2", "header=no", "test=0.4" } },
	{ "npy", { "x=x.npy", "y=y.npy" } },
	{ "npy", { "x=x.npy", "y=x.npy", "normalise=none" } },
	{ "images", { "path=pics" } },
	{ "images", { "path=pics", "test_path=pics", "size=7x5", "channels=1" } },
	{ "tar", { "file=pics.tar", "test=0.3" } },
	{ "tar", { "file=pics.tar", "test_file=pics.tar", "size=3", "classes=4" } },
	{ "json-lines", { "file=rows.jsonl", "label=c", "test=0.4" } },
	{ "text", { "file=text.txt", "length=5", "validation=0.1" } },
	{ "text", { "file=text.txt", "test_file=rest.txt", "length=7" } },
	{ "tokens", { "file=tokens.bin", "vocabulary=300", "length=4" } },
	{ "moby-dick", { "length=6", "test=0.2" } },
	{ "set-file", { "file=a.tws" } },
	{ "set-file", { "file=a.tws", "normalise=unit", "shift=2" } },
	{ "stream", { "file=numbers.csv", "first=3", "keep=16", "classes=3" } },
	{ "stream", { "file=numbers.jsonl", "first=2", "keep=16", "label=y" } },
	{ "tokens", { "file=wide.bin", "bits=32", "vocabulary=300", "length=4" } },
};
#define SAMPLES (sizeof samples / sizeof samples[0])

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 11 % 251);
}

static uint8_t label_at(size_t i)
{
	return (uint8_t)(i % 10);
}

static void put_mnist(void)
{
	static uint8_t bytes[20 * 784 + 16];
	const uint32_t size[] = { 20, 28, 28 };
	char path[600];

	snprintf(path, sizeof path, "%s/mnist", scratch());
	mkdir(path, 0700);
	put("mnist/train-images-idx3-ubyte", bytes, kit_idx(bytes, 8, 3, size, byte_at));
	put("mnist/train-labels.idx1-ubyte", bytes, kit_idx(bytes, 8, 1, size, label_at));
	kit_put_gzip("mnist/t10k-images.idx3-ubyte.gz", bytes, kit_idx(bytes, 8, 3, size, byte_at));
	kit_put_gzip("mnist/t10k-labels-idx1-ubyte.gz", bytes,
		     kit_idx(bytes, 8, 1, size, label_at));
}

/* The cache of these tests is their scratch folder. */
static void put_book(void)
{
	char path[600];

	snprintf(path, sizeof path, "%s/moby-dick", scratch());
	mkdir(path, 0700);
	put_text("moby-dick/data.txt", "Call me Ishmael. Some years ago, never mind how long");
}

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	kit_put_idx_set();
	kit_put_csv_set();
	kit_put_npy_set();
	kit_put_text_set();
	put_text("other.csv", "c,id,kind,a,b\n1,x,oak,2,3\n");
	put_text("rows.jsonl", "{\"a\": 1, \"c\": \"x\"}\n{\"a\": 2.5, \"w\": \"oak\", \"c\": "
			       "\"y\"}\n{\"c\": \"x\", \"w\": \"fir\"}\n{\"a\": 4, \"c\": "
			       "\"y\"}\n{\"a\": 5, \"c\": \"x\"}\n");
	put_text("numbers.csv", "1,2,0\n2,3,1\n4,1,2\n1,1,0\n");
	put_text("numbers.jsonl", "{\"x\": [1, 2], \"y\": 3}\n{\"x\": [2, 5], \"y\": 1}\n{\"x\": "
				  "[0, 1], \"y\": 2}\n");
	put_mnist();
	put_book();
	kit_put_pictures();
	kit_import("digits", SETS("count=40", "tests=10"), "a.tws");
	return 0;
}

/* Sample number i of all there are: those above, then those of the tables; false after the last. */
static bool sample_at(size_t i, const char **source, const char *const **sets)
{
	if (i < SAMPLES) {
		*source = samples[i].source;
		*sets = samples[i].sets;
		return true;
	}
	i -= SAMPLES;
	for (size_t k = 0; tw_source_all[k]; k++)
		if (tw_source_all[k]->sample && i-- == 0) {
			*source = tw_source_all[k]->name;
			*sets = tw_source_all[k]->sample;
			return true;
		}
	return false;
}

static void is_option(const struct tw_source *s, const char *name)
{
	const struct tw_option *row = name ? tw_option_find(s->options, name) : NULL;

	assert_true(!name || (row && row->type == TW_TEXT && !*row->standard));
}

static void rows_are_whole_and_have_names_of_their_own(void **state)
{
	static const char *const taken[] = { "source", "batch", "global_batch", "accumulate" };

	for (size_t k = 0; tw_source_all[k]; k++) {
		const struct tw_source *s = tw_source_all[k];

		assert_non_null(s->help);
		assert_non_null(s->open);
		assert_ptr_equal(tw_source_find(s->name), s);
		assert_true(!s->drawn || s->sample);
		assert_true(!s->answers_option || s->test_option);
		is_option(s, s->test_option);
		is_option(s, s->answers_option);
		for (const struct tw_option *row = s->options; row->name; row++) {
			assert_non_null(row->help);
			assert_null(tw_option_find(tw_data_common_rows, row->name));
			for (size_t t = 0; t < sizeof taken / sizeof taken[0]; t++)
				assert_string_not_equal(row->name, taken[t]);
		}
	}
	assert_null(tw_source_find("no such source"));
}

static void every_source_has_a_sample(void **state)
{
	for (size_t k = 0; tw_source_all[k]; k++) {
		const char *source, *const *sets;
		size_t i = 0;

		while (sample_at(i, &source, &sets) && strcmp(source, tw_source_all[k]->name))
			i++;
		if (!sample_at(i, &source, &sets))
			fail_msg("no sample for %s", tw_source_all[k]->name);
	}
}

static void check_set(const struct tw_data *d, const struct tw_samples *s)
{
	float x[784], target[8];
	uint32_t label[784];

	for (uint64_t i = 0; s->count != TW_ENDLESS && i < s->count; i++) {
		const struct tw_batch b = { .set = s, .index = &i, .count = 1 };

		tw_data_fill(d, &b, NULL, 0, x, label, target);
		for (size_t f = 0; f < d->features; f++)
			assert_true(isfinite(x[f]));
		for (size_t f = 0; d->classes && f < tw_data_labels(d); f++)
			assert_true(label[f] < d->classes);
	}
}

/* A list that is there has as many names as it should, all valid and all different. */
static void check_list(const char *const *name, size_t count)
{
	for (size_t k = 0; name && k < count; k++) {
		assert_non_null(name[k]);
		assert_true(tw_name_valid(name[k], strlen(name[k])));
		for (size_t j = 0; j < k; j++)
			assert_string_not_equal(name[j], name[k]);
	}
	assert_true(!name || !name[count]);
}

static void check_names(const struct tw_data *d)
{
	check_list(d->names.column, d->features);
	check_list(d->names.answer, d->classes ? d->classes : d->targets);
	assert_true(!d->names.column || d->rank == 1);
	assert_true(!d->names.label || tw_name_valid(d->names.label, strlen(d->names.label)));
	for (uint32_t k = 0; d->names.label && d->names.column && k < d->features; k++)
		assert_string_not_equal(d->names.label, d->names.column[k]);
	assert_true(!d->names.separator == !d->names.place);
	assert_true(d->names.place <= d->features + 1);
}

static void sets_are_what_they_say(void **state)
{
	const char *source, *const *sets;

	for (size_t i = 0; sample_at(i, &source, &sets); i++) {
		struct tw_data *d = kit_must_open(source, sets);
		struct tw_data *again = kit_must_open(source, sets);
		size_t features = 1;

		for (uint32_t k = 0; k < d->rank; k++)
			features *= d->shape[k];
		assert_true(d->rank == 1 || d->rank == 3);
		assert_int_equal(d->features, features);
		assert_true((d->classes > 0) != (d->targets > 0));
		assert_true(d->train.count > 0);
		assert_true(d->test.count > 0);
		check_names(d);
		check_set(d, tw_data_set(d, TW_SET_TRAIN));
		check_set(d, tw_data_set(d, TW_SET_TEST));
		check_set(d, tw_data_set(d, TW_SET_VALIDATION));
		assert_true(tw_sha_same(&d->fingerprint, &again->fingerprint));
		tw_data_close(d);
		tw_data_close(again);
	}
	tw_data_close(NULL);
}

static void every_allocation_may_fail(void **state)
{
	const char *source, *const *sets;

	for (size_t i = 0; sample_at(i, &source, &sets); i++)
		for (unsigned nth = 1;; nth++) {
			struct refusing r = REFUSING(nth);
			struct tw_error why = { 0 };
			struct tw_data *d = NULL;
			const enum tw_status st = kit_open(&r.heap, source, sets, &d, &why);

			if (r.calls < nth) {
				assert_int_equal(st, TW_OK);
				tw_data_close(d);
				assert_int_equal(r.live, 0);
				assert_true(nth > 2);
				break;
			}
			assert_int_equal(st, TW_NO_MEMORY);
			assert_int_equal(why.status, TW_NO_MEMORY);
			assert_true(why.text[0]);
			assert_null(d);
			assert_int_equal(r.live, 0);
		}
}

static void mnist_says_how_to_get_it(void **state)
{
	kit_refuses("mnist", SETS("path=nowhere"),
		    PARTS("path: ", "nowhere", "train-images-idx3-ubyte", "four IDX files"));
	kit_refuses("mnist", SETS("path=images"), PARTS("path: ", "folder"));
}

static void the_book_says_how_to_get_it(void **state)
{
	char path[600], away[600];

	snprintf(path, sizeof path, "%s/moby-dick/data.txt", scratch());
	snprintf(away, sizeof away, "%s/moby-dick/away.txt", scratch());
	assert_int_equal(rename(path, away), 0);
	kit_refuses("moby-dick", SETS("length=6"),
		    PARTS("moby-dick/data.txt", "thalweg data fetch moby-dick"));
	assert_int_equal(rename(away, path), 0);
	kit_refuses("moby-dick", SETS("length=600"), PARTS("length: ", "600 tokens"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_whole_and_have_names_of_their_own),
		cmocka_unit_test(every_source_has_a_sample),
		cmocka_unit_test(sets_are_what_they_say),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(mnist_says_how_to_get_it),
		cmocka_unit_test(the_book_says_how_to_get_it),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
