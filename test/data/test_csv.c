/* SPDX-License-Identifier: Apache-2.0 */
/* test_csv.c - tables: what is read, how numbers are, and every way in which they can be wrong. */
#include "data/kit.h"
#include "data/format/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	kit_put_csv_set();
	return 0;
}

static void words_become_classes_in_sorted_order(void **state)
{
	struct tw_data *d = kit_must_open("csv", SETS("file=train.csv", "test_file=test.csv"));
	static const float values[] = { 1, 2.5f, -3, 4, 50, 6, 7, 8, 9, -1.25f, 0, 0.5f, 1, 1, 1 };
	static const uint32_t labels[] = { 2, 1, 2, 0, 1 };

	assert_int_equal(d->rank, 1);
	assert_int_equal(d->features, 3);
	assert_int_equal(d->classes, 3);
	assert_int_equal(d->train.count, 5);
	assert_memory_equal(d->train.value, values, sizeof values);
	assert_memory_equal(d->train.label, labels, sizeof labels);
	assert_int_equal(d->test.count, 2);
	assert_int_equal(d->test.label[0], 0);
	assert_int_equal(d->test.label[1], 2);
	tw_data_close(d);
}

static void whole_numbers_are_sorted_by_value(void **state)
{
	struct tw_data *d;
	static const uint32_t labels[] = { 2, 0, 1, 1, 2 };

	put_text("n.csv", "10,1\n-2,1\n9,1\n09,2\n10,3");
	d = kit_must_open("csv", SETS("file=n.csv", "label=1", "test=0"));
	assert_int_equal(d->classes, 3);
	assert_memory_equal(d->train.label, labels, sizeof labels);
	tw_data_close(d);
}

static void labels_are_found_by_name_number_and_place(void **state)
{
	struct tw_data *d;
	static const float target[] = { 2, 5 };

	put_text("v.csv", "\xef\xbb\xbf"
			  "x;\"the \"\"y\"\"\";z\n1;2;3\n4;5;6\n");
	d = kit_must_open("csv", SETS("file=v.csv", "separator=;", "task=values", "label=the \"y\"",
				      "test=0"));
	assert_int_equal(d->targets, 1);
	assert_int_equal(d->classes, 0);
	assert_memory_equal(d->train.target, target, sizeof target);
	assert_true(((const float *)d->train.value)[1] == 3);
	tw_data_close(d);
	d = kit_must_open("csv",
			  SETS("file=v.csv", "separator=;", "task=values", "label=2", "test=0"));
	assert_memory_equal(d->train.target, target, sizeof target);
	tw_data_close(d);
	put_text("t.csv", "1\t2\ta\n3\t4\tb");
	d = kit_must_open("csv", SETS("file=t.csv", "separator=tab", "test=0"));
	assert_int_equal(d->train.count, 2);
	tw_data_close(d);
	kit_refuses("csv", SETS("file=v.csv", "separator=;", "label=w"), PARTS("label: ", "'w'"));
	kit_refuses("csv", SETS("file=v.csv", "separator=;", "label=4"),
		    PARTS("column 4", "1 to 3"));
	kit_refuses("csv", SETS("file=v.csv", "separator=;", "label=0"),
		    PARTS("column 0", "1 to 3"));
	kit_refuses("csv", SETS("file=v.csv", "separator=;", "label=x", "header=no"),
		    PARTS("no header"));
	kit_refuses("csv", SETS("file=v.csv", "separator=;;"), PARTS("separator: "));
	kit_refuses("csv", SETS("file=v.csv", "separator=e"), PARTS("separator: "));
}

static void headers_are_guessed_with_care(void **state)
{
	struct tw_data *d;

	put_text("h.csv", "1,2,yes\n3,4,no\n");
	d = kit_must_open("csv", SETS("file=h.csv", "test=0"));
	assert_int_equal(d->train.count, 2);
	tw_data_close(d);
	put_text("h.csv", "1,2,yes\n3,4,no\n5,6,yes\n");
	d = kit_must_open("csv", SETS("file=h.csv", "test=0", "header=yes"));
	assert_int_equal(d->train.count, 2);
	tw_data_close(d);
	put_text("h.csv", "1,x,yes\n3,4,no\n");
	kit_refuses("csv", SETS("file=h.csv"), PARTS("h.csv:1: column 2", "'x'", "header"));
	/* values that cannot be taken are not names */
	put_text("h.csv", "nan,yes\n3,no\n4,yes\n");
	kit_refuses("csv", SETS("file=h.csv"), PARTS("h.csv:1: column 1", "'nan'", "header"));
	put_text("h.csv", "1e400,yes\n3,no\n4,yes\n");
	kit_refuses("csv", SETS("file=h.csv"), PARTS("h.csv:1: column 1", "'1e400'", "header"));
	put_text("h.csv", "1x1,yes\n3,no\n4,yes\n");
	d = kit_must_open("csv", SETS("file=h.csv", "test=0"));
	assert_int_equal(d->train.count, 2);
	tw_data_close(d);
}

static void same_names(const char *const *a, const char *const *b)
{
	for (size_t k = 0; b && b[k]; k++)
		assert_string_equal(a[k], b[k]);
	assert_true(!a == !b);
}

static void columns_and_classes_have_names(void **state)
{
	struct tw_data *d = kit_must_open("csv", SETS("file=train.csv", "test_file=test.csv"));

	same_names(d->names.column, PARTS("a", "b", "c"));
	same_names(d->names.answer, PARTS("ash", "elm", "oak"));
	assert_string_equal(d->names.label, "kind");
	assert_int_equal(d->names.separator, ',');
	assert_int_equal(d->names.place, 4);
	tw_data_close(d);
	/* the label in the middle; names with blanks and line ends; held out samples */
	put_text("n.csv", " w ;\"the\ny\";\"\xc3\xa4 \"\n1;2;3\n4;5;6\n7;8;9\n");
	d = kit_must_open("csv", SETS("file=n.csv", "separator=;", "task=values", "label=the y",
				      "test=0.5", "samples=1"));
	same_names(d->names.column, PARTS("w", "\xc3\xa4"));
	same_names(d->names.answer, PARTS("the y"));
	assert_string_equal(d->names.label, "the y");
	assert_int_equal(d->names.separator, ';');
	assert_int_equal(d->names.place, 2);
	tw_data_close(d);
	/* without a header only classes have names; numbers are called by their value */
	put_text("n.csv", "10,1\n-2,1\n 9,1\n09,2\n+10,3");
	d = kit_must_open("csv", SETS("file=n.csv", "label=1", "test=0"));
	assert_null(d->names.column);
	assert_null(d->names.label);
	same_names(d->names.answer, PARTS("-2", "9", "10"));
	tw_data_close(d);
}

static void bad_names_are_refused(void **state)
{
	char text[400] = "a,";

	put_text("n.csv", "a,b,a,y\n1,2,3,x\n1,2,3,z\n");
	kit_refuses("csv", SETS("file=n.csv"), PARTS("n.csv:1: columns 1 and 3", "'a'", "own"));
	put_text("n.csv", "a,\xff,y\n1,2,x\n1,2,z\n");
	kit_refuses("csv", SETS("file=n.csv"), PARTS("n.csv:1: column 2", "UTF-8"));
	put_text("n.csv", "a,\x1b[m,y\n1,2,x\n1,2,z\n");
	kit_refuses("csv", SETS("file=n.csv"), PARTS("n.csv:1: column 2", "control"));
	put_text("n.csv", "a,b,y\n1,2,x\n1,2,\xc2\x9b\n");
	kit_refuses("csv", SETS("file=n.csv"), PARTS("n.csv:3: column 3", "control"));
	memset(text + 2, 'n', 256);
	memcpy(text + 258, "\n1,2\n", 6);
	put_text("n.csv", text);
	kit_refuses("csv", SETS("file=n.csv", "task=values"), PARTS("n.csv:1: column 2", "255"));
	memmove(text + 257, text + 258, 6);
	put_text("n.csv", text);
	tw_data_close(kit_must_open("csv", SETS("file=n.csv", "task=values", "test=0")));
}

static void bad(const char *text, const char *const *parts)
{
	put_text("bad.csv", text);
	kit_refuses("csv", SETS("file=bad.csv"), parts);
}

static void bad_files_are_refused_with_their_place(void **state)
{
	bad("1,2,a\n1,2\n", PARTS("bad.csv:2:", "2 columns", "first row has 3"));
	bad("1,2,a\n1,2,b\n1,2,a,4\n", PARTS("bad.csv:3:", "more than 3 columns"));
	bad("1,2,a\n1,x,b\n", PARTS("bad.csv:2: column 2:", "'x'", "number"));
	bad("1,2,a\n1,2,\n", PARTS("bad.csv:2: column 3:", "empty"));
	bad("1,2,a\n1,inf,b\n", PARTS("bad.csv:2: column 2:", "'inf'"));
	bad("1,2,a\n1,1e39,b\n", PARTS("bad.csv:2: column 2:", "'1e39'"));
	bad("1,2,a\n1,0x10,b\n", PARTS("bad.csv:2: column 2:"));
	bad("1,2,a\n1,2 3,b\n", PARTS("bad.csv:2: column 2:"));
	bad("1,2,a\n\n1,2,b\n", PARTS("bad.csv:2:", "blank"));
	bad("1,2,a\n1,\"2,b\n", PARTS("bad.csv:2: column 2:", "never closed"));
	bad("1,2,a\n1,\"2\"3,b\n", PARTS("bad.csv:2: column 2:", "closing quote"));
	bad("1,2,a\n1,2\"2\",b\n", PARTS("bad.csv:2: column 2:", "quote"));
	bad("\"a\nb\",\"x\",\"c\"\n1,2\n", PARTS("bad.csv:3:", "2 columns"));
	bad("", PARTS("bad.csv: ", "empty"));
	bad("\n\n", PARTS("bad.csv: ", "empty"));
	bad("a,b\n", PARTS("bad.csv: ", "no rows"));
	bad("1\n2\n", PARTS("bad.csv:1:", "at least two"));
	bad("1,2,a\n1,2,a\n", PARTS("two classes"));
	kit_refuses("csv", SETS("file=none.csv"), PARTS("/none.csv: "));
	kit_refuses("csv", SETS("file=."), PARTS("a directory"));
	put_text("bad.csv", "a,b,c,kind\n1,2,3,fir\n");
	kit_refuses("csv", SETS("file=train.csv", "test_file=bad.csv"),
		    PARTS("bad.csv:2: column 4 (kind):", "'fir'", "training", "ash, elm, oak"));
	put_text("bad.csv", "a,b,kind\n1,2,oak\n");
	kit_refuses("csv", SETS("file=train.csv", "test_file=bad.csv"),
		    PARTS("bad.csv:1:", "3 columns", "lacks 'c' of the 3"));
	kit_refuses("csv", SETS("file=train.csv", "task=values"), PARTS("column 4", "'oak'"));
}

/* Every prefix of a file either opens or is refused with a sentence; nothing else. */
static void no_prefix_does_harm(void **state)
{
	size_t n;
	uint8_t *text = kit_get("train.csv", &n);

	for (size_t cut = 0; cut < n; cut++) {
		struct tw_error why = { 0 };
		struct tw_data *d = NULL;
		enum tw_status st;

		put("prefix.csv", text, cut);
		st = kit_open(NULL, "csv", SETS("file=prefix.csv"), &d, &why);
		assert_true(st == TW_OK || (st == TW_BAD_INPUT && why.text[0]));
		tw_data_close(d);
	}
	free(text);
}

/* Rows of nothing but ends of lines behind a wide first row must not cost rows times columns. */
static void room_is_bounded_by_the_file(void **state)
{
	const size_t n = 1 << 20;
	char *text = malloc(2 * n);

	for (size_t i = 0; i < n; i++)
		text[i] = i % 2 ? ',' : '1';
	memset(text + n - 1, '\n', n);
	text[2 * n - 1] = '1';
	put("wide.csv", text, 2 * n);
	kit_refuses("csv", SETS("file=wide.csv", "header=no"), PARTS("wide.csv:2:", "blank"));
	free(text);
}

static bool number(const char *text, float *out)
{
	const struct tw_csv_field f = { .at = text, .bytes = strlen(text) };

	return tw_field_number(&f, out);
}

/* Against the C library, over numbers of all lengths and sizes. */
static void numbers_are_the_nearest_floats(void **state)
{
	const struct tw_rng r = tw_rng_make(3, TW_RNG_TEST);
	unsigned off = 0;
	float v;

	for (uint64_t i = 0; i < 200000; i++) {
		const uint64_t draw = tw_rng_u64(&r, 0, i);
		const int digits = 1 + (int)(draw % 17), e = (int)(draw >> 8 & 127) - 64;
		const double m =
			((double)(draw >> 11) - 0x1p52) * 0x1p-50 * (i % 2 ? 1 : pow(10, e / 2));
		char text[64];
		float right;

		snprintf(text, sizeof text, i % 3 ? "%.*g" : "%.*e", digits, m);
		right = strtof(text, NULL);
		assert_true(number(text, &v));
		off += memcmp(&v, &right, 4) != 0;
		assert_true(v == right || v == nextafterf(right, v));
	}
	assert_int_equal(off, 0);
	assert_true(number(" -0012.50 ", &v) && v == -12.5f);
	assert_true(number("1e-400", &v) && v == 0);
	assert_true(number("100000000000000000000000000000000000000e-37", &v) && v == 10);
	assert_true(number("0.00000000000000000000000000000000000000000001e44", &v) && v == 1);
	assert_true(number("3.4028234663852886e38", &v) && v == 3.4028234663852886e38f);
	assert_true(number("0e99999999999999", &v) && v == 0);
	for (const char **p = (const char *[]){ "", ".", "-", "+-1", "1e", "1e+", "1.2.3", "e5",
						"1,5", "1e38e", "--1", "1e99999999999", NULL };
	     *p; p++)
		if (number(*p, &v))
			fail_msg("'%s' was taken for a number", *p);
}

/* In one look or in two, at every text that may be a number and at some that are none: the same
 * float, and the same field behind it. */
static void plain_numbers_are_read_in_one_look(void **state)
{
	static const char sign[] = "0123456789..-+ eE\";,\n\rx";
	const struct tw_rng r = tw_rng_make(5, TW_RNG_TEST);
	unsigned plain = 0, other = 0;

	for (uint64_t i = 0; i < 400000; i++) {
		const unsigned length = (unsigned)(tw_rng_u64(&r, i, 0) % 24);
		const unsigned kinds = i % 2 ? 12 : sizeof sign - 1;
		char text[32], again[32];
		struct tw_csv one, two;
		struct tw_csv_field f = { 0 }, g = { 0 };
		struct tw_error why = { 0 };
		float v = 0, w = 0;

		for (unsigned k = 0; k < length; k++)
			text[k] = sign[tw_rng_u64(&r, i, k + 1) % kinds];
		text[length] = 0;
		memcpy(again, text, sizeof again);
		tw_csv_init(&one, "a", ',', text, length);
		tw_csv_init(&two, "a", ',', again, length);
		if (!tw_csv_number(&one, &f, &v)) {
			assert_true(one.next == text && one.column == 0 && !one.inside);
			other++;
			continue;
		}
		plain++;
		assert_int_equal(tw_csv_field(&two, &g, &why), TW_OK);
		assert_true(tw_field_number(&g, &w));
		assert_memory_equal(&v, &w, sizeof v);
		assert_true(f.at - text == g.at - again && f.bytes == g.bytes && f.last == g.last);
		assert_true(one.next - text == two.next - again && one.inside == two.inside);
		assert_true(one.line == two.line && one.after == two.after &&
			    one.column == two.column);
	}
	assert_true(plain > 50000 && other > 50000);
}

static void gzip_and_many_rows(void **state)
{
	const size_t rows = 20000;
	char *text = malloc(rows * 40);
	size_t n = 0;
	struct tw_data *d;

	for (size_t i = 0; i < rows; i++)
		n += (size_t)sprintf(text + n, "%zu,%.10g,c%zu\n", i, (double)i / 8, i * 7 % 1000);
	kit_put_gzip("big.csv.gz", text, n);
	d = kit_must_open("csv", SETS("file=big.csv.gz", "test=0"));
	assert_int_equal(d->train.count, rows);
	assert_int_equal(d->classes, 1000);
	for (size_t i = 0; i < rows; i++)
		assert_true(((const float *)d->train.value)[2 * i + 1] == (float)i / 8);
	tw_data_close(d);
	free(text);
}

struct heard {
	uint64_t calls[2], done[2], total[2]; /* reading, parsing */
	bool wrong;
};

static void hear(void *arg, const char *file, const char *doing, uint64_t done, uint64_t total)
{
	struct heard *h = arg;
	const int k = strcmp(doing, "parsing") == 0;

	h->wrong = h->wrong || done <= h->done[k] || done > total || !strstr(file, "long.csv") ||
		   (!k && (strcmp(doing, "reading") != 0 || h->calls[1]));
	h->calls[k]++;
	h->done[k] = done;
	h->total[k] = total;
}

/* First how much was read, then how much was parsed, once in TW_HEARD_EVERY bytes; of a small file
 * nothing. */
static void reading_a_large_file_is_heard_of(void **state)
{
	const size_t rows = 500000;
	struct heard h = { .wrong = false };
	const struct tw_data_listener listener = { hear, &h };
	char *text = malloc(rows * 24);
	struct tw_data *d;
	size_t n = 0;

	for (size_t i = 0; i < rows; i++)
		n += (size_t)sprintf(text + n, "%08zu,%08zu,%zu\n", i, i * 7, i % 2);
	assert_true(n > 2 * TW_HEARD_EVERY && n < 3 * TW_HEARD_EVERY);
	put("long.csv", text, n);
	kit_listener = &listener;
	d = kit_must_open("csv", SETS("file=long.csv", "header=no"));
	assert_int_equal(d->train.count + d->test.count, rows);
	tw_data_close(d);
	assert_false(h.wrong);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(h.calls[k], 2);
		assert_int_equal(h.total[k], n);
	}
	/* gzipped, what is read are the bytes of the file */
	h = (struct heard){ .wrong = false };
	kit_put_gzip("long.csv.gz", text, n);
	tw_data_close(kit_must_open("csv", SETS("file=long.csv.gz", "header=no")));
	assert_false(h.wrong);
	assert_int_equal(h.calls[0], 0);
	assert_int_equal(h.calls[1], 2);
	h = (struct heard){ .wrong = false };
	put("long.csv", text, 1000 * 20);
	tw_data_close(kit_must_open("csv", SETS("file=long.csv", "header=no")));
	assert_int_equal(h.calls[0] + h.calls[1], 0);
	kit_listener = NULL;
	free(text);
}

static void too_many_classes_are_refused(void **state)
{
	char *text = malloc(70000 * 12);
	size_t n = 0;

	for (int i = 0; i < 70000; i++)
		n += (size_t)sprintf(text + n, "1,%d\n", i);
	put("many.csv", text, n);
	kit_refuses("csv", SETS("file=many.csv", "task=classes"),
		    PARTS("many.csv:65537: column 2:", "65536"));
	tw_data_close(kit_must_open("csv", SETS("file=many.csv", "task=values")));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_become_classes_in_sorted_order),
		cmocka_unit_test(whole_numbers_are_sorted_by_value),
		cmocka_unit_test(labels_are_found_by_name_number_and_place),
		cmocka_unit_test(headers_are_guessed_with_care),
		cmocka_unit_test(columns_and_classes_have_names),
		cmocka_unit_test(bad_names_are_refused),
		cmocka_unit_test(bad_files_are_refused_with_their_place),
		cmocka_unit_test(no_prefix_does_harm),
		cmocka_unit_test(room_is_bounded_by_the_file),
		cmocka_unit_test(numbers_are_the_nearest_floats),
		cmocka_unit_test(plain_numbers_are_read_in_one_look),
		cmocka_unit_test(gzip_and_many_rows),
		cmocka_unit_test(reading_a_large_file_is_heard_of),
		cmocka_unit_test(too_many_classes_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
