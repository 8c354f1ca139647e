/* SPDX-License-Identifier: Apache-2.0 */
/* test_text.c - texts and tokens: windows that lie one behind the other, labels one further on,
 * parts that lie together, and what is refused. */
#include "data/kit.h"
#include "data/split.h"

#include <stdlib.h>
#include <string.h>

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	kit_put_text_set();
	return 0;
}

/* Sample i of the set begins at byte `from` of the text. */
static void is_window(const struct tw_data *d, const struct tw_samples *s, uint64_t i, size_t from,
		      const uint8_t *text)
{
	const struct tw_batch b = { s, &i, 1, 0 };
	uint32_t label[16];
	float x[16];

	tw_data_fill(d, &b, NULL, 0, x, label, NULL);
	for (size_t k = 0; k < d->features; k++) {
		assert_true(x[k] == (float)text[from + k]);
		assert_int_equal(label[k], text[from + k + 1]);
	}
}

static void bytes_are_predicted_from_those_before(void **state)
{
	struct tw_data *d = kit_must_open(
		"text", SETS("file=text.txt", "length=5", "test=0.2", "validation=0.25"));
	size_t n;
	uint8_t *text = kit_get("text.txt", &n);

	assert_true(n == 101 && d->tokens && d->rank == 1 && d->features == 5);
	assert_true(d->kind == TW_VALUE_U8 && d->classes == 256 && d->targets == 0);
	/* 20 windows: the last four test, the four before them validate */
	assert_int_equal(d->train.count, 12);
	assert_int_equal(d->validation.count, 4);
	assert_int_equal(d->test.count, 4);
	for (uint64_t i = 0; i < 12; i++)
		is_window(d, &d->train, i, 5 * i, text);
	for (uint64_t i = 0; i < 4; i++) {
		is_window(d, &d->validation, i, 60 + 5 * i, text);
		is_window(d, &d->test, i, 80 + 5 * i, text);
	}
	for (size_t k = 0; k < 5; k++) /* nothing is normalised, though the default is */
		assert_true(d->scale[k] == 1 && d->shift[k] == 0);
	assert_int_equal(d->notes->count, 1);
	kit_says(d->notes->text[0], PARTS("the first 12 samples of 5 tokens train",
					  "the next 4 validate", "the last 4 test"));
	free(text);
	tw_data_close(d);
}

static void what_is_left_belongs_to_no_sample(void **state)
{
	static const struct {
		const char *length;
		uint64_t samples;
	} lengths[] = { { "length=1", 100 }, { "length=33", 3 }, { "length=34", 2 },
			{ "length=50", 2 },  { "length=51", 1 }, { "length=100", 1 } };

	for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
		struct tw_data *d =
			kit_must_open("text", SETS("file=text.txt", "test=0", lengths[k].length));

		assert_int_equal(d->train.count, lengths[k].samples);
		assert_int_equal(d->notes->count, 0); /* all of it trains */
		tw_data_close(d);
	}
}

static void a_test_file_is_a_set_of_its_own(void **state)
{
	struct tw_data *d = kit_must_open(
		"text", SETS("file=text.txt", "test_file=rest.txt", "length=10", "test=0.5"));
	size_t n;
	uint8_t *rest = kit_get("rest.txt", &n);

	assert_int_equal(d->train.count, 10);
	assert_int_equal(d->test.count, 3);
	is_window(d, &d->test, 2, 20, rest);
	assert_int_equal(d->notes->count, 0);
	free(rest);
	tw_data_close(d);
}

/* Validation is the last part of the text whose rest trains, whatever `split` is. */
static void beside_a_test_file_the_text_has_parts(void **state)
{
	static const char *const splits[] = { "split=1", "split=2" };
	size_t n;
	uint8_t *text = kit_get("text.txt", &n);

	for (size_t k = 0; k < 2; k++) {
		struct tw_data *d =
			kit_must_open("text", SETS("file=text.txt", "test_file=rest.txt",
						   "length=5", "validation=0.25", splits[k]));

		assert_int_equal(d->train.count, 15);
		assert_int_equal(d->validation.count, 5);
		assert_int_equal(d->test.count, 6);
		for (uint64_t i = 0; i < 15; i++)
			is_window(d, &d->train, i, 5 * i, text);
		for (uint64_t i = 0; i < 5; i++)
			is_window(d, &d->validation, i, 75 + 5 * i, text);
		assert_int_equal(d->notes->count, 1);
		kit_says(d->notes->text[0], PARTS("the first 15 samples of 5 tokens train, the "
						  "last 5 validate"));
		assert_null(strstr(d->notes->text[0], "test"));
		tw_data_close(d);
	}
	free(text);
	kit_refuses("text", SETS("file=text.txt", "test_file=rest.txt", "length=5", "samples=3"),
		    PARTS("samples: a text is trained on whole"));
}

static void wider_tokens_are_floats(void **state)
{
	static const char *const files[][2] = { { "file=tokens.bin", "bits=16" },
						{ "file=wide.bin", "bits=32" } };

	for (size_t f = 0; f < 2; f++) {
		struct tw_data *d =
			kit_must_open("tokens", SETS(files[f][0], files[f][1], "vocabulary=300",
						     "length=4", "test=0"));
		const float *v = d->train.value;

		assert_true(d->kind == TW_VALUE_F32 && d->classes == 300);
		assert_int_equal(d->train.count, 14);
		for (size_t k = 0; k < 14 * 4; k++) {
			assert_true(v[k] == (float)(k * 37 % 300));
			assert_int_equal(d->train.label[k], (k + 1) * 37 % 300);
		}
		tw_data_close(d);
	}
}

static void gzip_is_read(void **state)
{
	struct tw_data *d, *plain = kit_must_open("text", SETS("file=text.txt", "length=5"));
	size_t n;
	uint8_t *text = kit_get("text.txt", &n);

	kit_put_gzip("text.gz", text, n);
	d = kit_must_open("text", SETS("file=text.gz", "length=5"));
	assert_true(tw_sha_same(&d->fingerprint, &plain->fingerprint));
	free(text);
	tw_data_close(d);
	tw_data_close(plain);
}

/* The same values as rows of a table are another set. */
static void the_fingerprint_knows_tokens(void **state)
{
	struct tw_data *d = kit_must_open("text", SETS("file=text.txt", "length=1"));
	struct tw_sha as_rows;

	d->tokens = false;
	assert_int_equal(tw_fingerprint(d, &as_rows), TW_OK);
	assert_false(tw_sha_same(&as_rows, &d->fingerprint));
	tw_data_close(d);
}

static void wrong_files_are_refused(void **state)
{
	put("empty.txt", "", 0);
	put("one.txt", "a", 1);
	put("odd.bin", "abc", 3);
	put("few.bin", "a\0b\0c\0", 6);
	kit_refuses("text", SETS("file="), PARTS("file: must be given"));
	kit_refuses("text", SETS("file=none.txt"), PARTS("none.txt"));
	kit_refuses("text", SETS("file=empty.txt"), PARTS("empty.txt: is empty"));
	kit_refuses("text", SETS("file=one.txt", "length=1"), PARTS("one.txt: has 1 token;"));
	kit_refuses("text", SETS("file=text.txt", "test_file=empty.txt", "length=1"),
		    PARTS("empty.txt: is empty"));
	kit_refuses("text", SETS("file=text.txt", "length=101"),
		    PARTS("length: ", "need 102 tokens", "text.txt has 101", "smaller length"));
	kit_refuses("text", SETS("file=text.txt", "test_file=rest.txt", "length=31"),
		    PARTS("rest.txt has 31"));
	kit_refuses("text", SETS("file=text.txt", "length=100", "test=0.5"),
		    PARTS("hold out all of 1 samples"));
	kit_refuses("text", SETS("file=text.txt", "length=5", "samples=3"),
		    PARTS("samples: a text is trained on whole"));
	kit_refuses("text", SETS("file=text.txt", "length=5", "fold=1/2"),
		    PARTS("fold: ", "has no folds"));
	kit_refuses("text", SETS("file=text.txt", "length=5", "noise=0.1"), PARTS("noise: "));
	kit_refuses("text", SETS("file=text.txt", "length=5", "shift=1"), PARTS("shift: "));
	kit_refuses("text", SETS("file=text.txt", "length=5", "class_weights=balanced"),
		    PARTS("class_weights: "));
	kit_refuses("tokens", SETS("file=odd.bin", "vocabulary=9"),
		    PARTS("odd.bin: has 3 bytes", "tokens of 2 bytes each"));
	kit_refuses("tokens", SETS("file=few.bin", "vocabulary=99", "length=2"),
		    PARTS("few.bin: token 2 (from 0) is 99", "the last one is 98"));
	kit_refuses("tokens", SETS("file=tokens.bin", "bits=32", "vocabulary=300", "length=4"),
		    PARTS("token 0 (from 0) is 2424832", "bits if it is read wrongly"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_predicted_from_those_before),
		cmocka_unit_test(what_is_left_belongs_to_no_sample),
		cmocka_unit_test(a_test_file_is_a_set_of_its_own),
		cmocka_unit_test(beside_a_test_file_the_text_has_parts),
		cmocka_unit_test(wider_tokens_are_floats),
		cmocka_unit_test(gzip_is_read),
		cmocka_unit_test(the_fingerprint_knows_tokens),
		cmocka_unit_test(wrong_files_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
