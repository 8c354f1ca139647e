/* SPDX-License-Identifier: Apache-2.0 */
/* test_option.c - rows of every type: what is read, what is refused and in which words. */
#include "base/option.h"
#include "base/arena.h"
#include "base/rng.h"
#include "base/refusing.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct sample {
	bool eager;
	uint32_t collect;
	uint64_t steps;
	float rate;
	double share;
	int64_t latency, pause;
	uint64_t chunk;
	double bandwidth, warm;
	uint32_t gate;
	const char *note;
	struct tw_f64s curvature;
	uint32_t any;
	double lowest;
	float tenth;
	struct tw_extent size;
};

static const char *const gates[] = { "bsp", "backup", "softsync", "ssp", "async", NULL };

static const struct tw_option rows[] = {
	TW_OPTION(struct sample, eager, TW_BOOL, "false", NULL, 0, 0, "be eager"),
	TW_OPTION(struct sample, collect, TW_U32, "4", "contributions", 1, 65536, "collect"),
	TW_OPTION(struct sample, steps, TW_U64, NULL, "steps", 0, 0, "must be given"),
	TW_OPTION(struct sample, rate, TW_F32, "0.1", NULL, 0, 0, "rate"),
	TW_OPTION(struct sample, share, TW_F64, "0.5", NULL, 0, 1, "share"),
	TW_OPTION(struct sample, latency, TW_TIME, "0s", NULL, 0, 0, "latency"),
	TW_OPTION(struct sample, pause, TW_TIME, "5s", NULL, 1e6, 3.6e12, "pause"),
	TW_OPTION(struct sample, chunk, TW_SIZE, "256KiB", NULL, 1, 1e12, "chunk"),
	TW_OPTION(struct sample, bandwidth, TW_BITS, "10Gbit/s", NULL, 1, INFINITY, "bandwidth"),
	TW_OPTION(struct sample, warm, TW_EPOCHS, "0.2 epochs", NULL, 0, 0, "warm"),
	TW_OPTION_CHOICE(struct sample, gate, "gate", "async", gates, "gate"),
	TW_OPTION(struct sample, note, TW_TEXT, "", NULL, 0, 0, "note"),
	TW_OPTION(struct sample, curvature, TW_F64S, "[0.1, 1]", NULL, 0, 100, "curvature"),
	TW_OPTION(struct sample, any, TW_U32, "0", NULL, 0, 0, "any"),
	TW_OPTION(struct sample, lowest, TW_F64, "0", NULL, -INFINITY, 3, "lowest"),
	TW_OPTION(struct sample, tenth, TW_F32, "0.1", NULL, 0, 0.1, "tenth"),
	TW_OPTION(struct sample, size, TW_EXTENT, "2", NULL, 1, 100, "size"),
	TW_OPTION_END,
};

static struct tw_arena keep;

static const struct tw_option *row(const char *name)
{
	const struct tw_option *r = tw_option_find(rows, name);

	assert_non_null(r);
	return r;
}

static struct sample read_as(const char *name, const char *text)
{
	struct sample s = { 0 };
	struct tw_error why = { 0 };

	if (tw_option_set(row(name), &s, text, &keep, &why) != TW_OK)
		fail_msg("'%s' refused: %s", text, why.text);
	assert_int_equal(why.status, TW_OK);
	return s;
}

static void refused(const char *name, const char *text, const char *sentence)
{
	struct sample s, before;
	struct tw_error why = { 0 };

	memset(&s, 0x5a, sizeof s);
	before = s;
	if (tw_option_set(row(name), &s, text, &keep, &why) != TW_BAD_INPUT)
		fail_msg("%s took '%s'", name, text);
	assert_int_equal(why.status, TW_BAD_INPUT);
	assert_memory_equal(&s, &before, sizeof s);
	if (sentence)
		assert_string_equal(why.text, sentence);
	else if (!strstr(why.text, ": needs "))
		fail_msg("no reason in '%s'", why.text);
}

static void good_texts_are_read(void **state)
{
	assert_true(read_as("eager", "true").eager);
	assert_false(read_as("eager", "false").eager);
	assert_int_equal(read_as("collect", "1").collect, 1);
	assert_int_equal(read_as("collect", "65536").collect, 65536);
	assert_int_equal(read_as("any", "4294967295").any, UINT32_MAX);
	assert_true(read_as("steps", "18446744073709551615").steps == UINT64_MAX);
	assert_true(read_as("rate", "1e-3").rate == 1e-3f);
	assert_true(read_as("rate", "-.5").rate == -0.5f);
	assert_true(read_as("rate", "2.").rate == 2.0f);
	assert_true(read_as("share", "1").share == 1);
	assert_true(read_as("lowest", "-1e300").lowest == -1e300);
	assert_true(read_as("tenth", "0.1").tenth == 0.1f);
	assert_int_equal(read_as("gate", "ssp").gate, 3);
	assert_string_equal(read_as("note", "two words").note, "two words");
	assert_string_equal(read_as("note", "").note, "");
}

static void units_are_read(void **state)
{
	assert_int_equal(read_as("latency", "100us").latency, 100000);
	assert_int_equal(read_as("latency", "7ns").latency, 7);
	assert_int_equal(read_as("latency", "0s").latency, 0);
	assert_int_equal(read_as("latency", "0.1s").latency, 100000000);
	assert_int_equal(read_as("latency", "1.5 ms").latency, 1500000);
	assert_int_equal(read_as("latency", "2e3us").latency, 2000000);
	assert_int_equal(read_as("latency", "2min").latency, INT64_C(120000000000));
	assert_int_equal(read_as("latency", "1h").latency, INT64_C(3600000000000));
	assert_true(read_as("latency", "9223372036854775807ns").latency == INT64_MAX);
	assert_int_equal(read_as("chunk", "1B").chunk, 1);
	assert_int_equal(read_as("chunk", "4kB").chunk, 4000);
	assert_int_equal(read_as("chunk", "4KiB").chunk, 4096);
	assert_int_equal(read_as("chunk", "1.5MiB").chunk, 1572864);
	assert_int_equal(read_as("chunk", "2MB").chunk, 2000000);
	assert_int_equal(read_as("chunk", "3GB").chunk, UINT64_C(3000000000));
	assert_int_equal(read_as("chunk", "3 GiB").chunk, UINT64_C(3) << 30);
	assert_true(read_as("bandwidth", "10Gbit/s").bandwidth == 1e10);
	assert_true(read_as("bandwidth", "2.5Mbit/s").bandwidth == 2.5e6);
	assert_true(read_as("bandwidth", "56kbit/s").bandwidth == 56e3);
	assert_true(read_as("bandwidth", "1bit/s").bandwidth == 1);
	assert_true(read_as("warm", "0.2 epochs").warm == 0.2);
	assert_true(read_as("warm", "1 epoch").warm == 1);
}

static void check_list(const char *text, const double *want, size_t count)
{
	const struct tw_f64s v = read_as("curvature", text).curvature;

	assert_int_equal(v.count, count);
	for (size_t k = 0; k < count; k++)
		assert_true(v.at[k] == want[k]);
}

static void lists_are_read(void **state)
{
	static const double two[] = { 0.1, 1 }, one[] = { 0.5 }, three[] = { 1, 2e1, 0 };

	check_list("[0.1, 1]", two, 2);
	check_list("0.1, 1", two, 2);
	check_list("0.1,1", two, 2);
	check_list(" [ 0.1 , 1 ] ", two, 2);
	check_list("0.5", one, 1);
	check_list("[0.5]", one, 1);
	check_list("[1,2e1,0]", three, 3);
	check_list("[]", NULL, 0);
}

static void wrong_texts_are_refused(void **state)
{
	static const char *const whole[] = {
		"",      "x",   "-1",   "+1", "1.0",   "1e3",        " 1",
		"1 ",    "1x",  "0x10", "0",  "65537", "4294967297", "99999999999999999999",
		"1_000", "one", "1,2"
	};
	static const char *const real[] = { "",      "x",  "nan", "inf",   "-inf",   "infinity",
					    "0x1p3", "1e", "1e+", "1.5.2", "--1",    " 1",
					    "1 ",    "1f", ".",   "1e999", "1e-999", "1,5",
					    "1s",    "-",  "+" };
	static const char *const list[] = {
		"",      "[",     "]",     "[0.1", "0.1]",    "[0.1,]", "[,1]", "1,,2",  "1 2",
		"[1;2]", "[[1]]", "[nan]", "101",  "[1, -1]", "[1, x]", "1,",   "[1] 2", "[1e999]"
	};

	for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
		refused("collect", whole[k], NULL);
	for (size_t k = 0; k < sizeof real / sizeof *real; k++) {
		refused("rate", real[k], NULL);
		refused("share", real[k], NULL);
	}
	for (size_t k = 0; k < sizeof list / sizeof *list; k++)
		refused("curvature", list[k], NULL);
	refused("any", "4294967296", NULL);
	refused("steps", "18446744073709551616", NULL);
	refused("rate", "1e39", NULL);  /* finite, but not as a float */
	refused("rate", "1e-60", NULL); /* would silently become 0 */
	refused("share", "1.0000001", NULL);
	refused("share", "-0.1", NULL);
	refused("lowest", "3.5", NULL);
	refused("tenth", "0.10000001", NULL);
	refused("eager", "yes", NULL);
	refused("eager", "True", NULL);
	refused("eager", "", NULL);
	refused("gate", "ASYNC", NULL);
	refused("gate", "", NULL);
}

static void wrong_units_are_refused(void **state)
{
	static const char *const times[] = { "",       "100",    "0",       "s",
					     "100 ",   "100u",   "100 us ", "-1s",
					     "1sec",   "1m",     "1S",      "1s 2s",
					     "infs",   "nans",   "0x1s",    "1e99s",
					     "0.1ns",  "1e-30s", "1MiB",    "9223372036854775808ns",
					     "100us2", " 1s" };
	static const char *const sizes[] = { "",        "100",     "0",
					     "KB",      "1K",      "1kb",
					     "1 Ki B",  "-1B",     "0.2B",
					     "1GBs",    "0B",      "2e12B",
					     "1Gbit/s", "1e40GiB", "18446744073709551615GiB" };
	static const char *const speeds[] = { "",         "100",        "0",     "1Gbit",
					      "1GB/s",    "-1bit/s",    "1Gb/s", "0bit/s",
					      "infbit/s", "1e308Gbit/s" };
	static const char *const spans[] = { "",          "1",         "0",  "epochs",
					     "-1 epochs", "1 epochss", "1e", "1s" };

	for (size_t k = 0; k < sizeof times / sizeof *times; k++)
		refused("latency", times[k], NULL);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		refused("chunk", sizes[k], NULL);
	for (size_t k = 0; k < sizeof speeds / sizeof *speeds; k++)
		refused("bandwidth", speeds[k], NULL);
	for (size_t k = 0; k < sizeof spans / sizeof *spans; k++)
		refused("warm", spans[k], NULL);
	refused("pause", "999us", NULL);
	refused("pause", "2h", NULL);
}

static void refusals_say_what_would_do(void **state)
{
	refused("collect", "x", "collect: needs a whole number from 1 to 65536, not 'x'");
	refused("any", "x", "any: needs a whole number from 0 to 4294967295, not 'x'");
	refused("steps", "-3", "steps: needs a whole number, not '-3'");
	refused("share", "2", "share: needs a number from 0 to 1, not '2'");
	refused("lowest", "4", "lowest: needs a number of at most 3, not '4'");
	refused("latency", "100", "latency: needs a time with a unit, such as 100us, not '100'");
	refused("pause", "5",
		"pause: needs a time from 1ms to 1h with a unit, such as 5s, not '5'");
	refused("chunk", "64",
		"chunk: needs a size from 1B to 1000GB with a unit, such as 256KiB, not '64'");
	refused("bandwidth", "5",
		"bandwidth: needs a bandwidth of at least 1bit/s with a unit, such as 10Gbit/s, "
		"not '5'");
	refused("warm", "0.2",
		"warm: needs a number of epochs with a unit, such as 0.2 epochs, not '0.2'");
	refused("eager", "1", "eager: needs true or false, not '1'");
	refused("gate", "asinc",
		"gate: needs one of bsp, backup, softsync, ssp, async, not 'asinc'; did you mean "
		"'async'?");
	refused("gate", "zzzzzz",
		"gate: needs one of bsp, backup, softsync, ssp, async, not 'zzzzzz'");
	refused("size", "5x",
		"size: needs height and width from 1 to 100, such as 5x5, or one number for both, "
		"not '5x'");
	refused("size", "x5", NULL);
	refused("size", "0x5", NULL);
	refused("size", "5x101", NULL);
	refused("size", "5x5x5", NULL);
	refused("size", "4294967297", NULL);
	refused("curvature", "x",
		"curvature: needs a list of numbers from 0 to 100 such as [0.1, 1], not 'x'");
	refused("collect", "012345678901234567890123456789012345678901234567890123456789and more",
		"collect: needs a whole number from 1 to 65536, not "
		"'012345678901234567890123456789012345678901234567890123456789...'");
}

static void the_first_cause_is_kept(void **state)
{
	struct sample s = { 0 };
	struct tw_error why = { 0 };

	tw_option_set(row("collect"), &s, "x", &keep, &why);
	tw_option_set(row("share"), &s, "y", &keep, &why);
	assert_non_null(strstr(why.text, "collect"));
	assert_int_equal(tw_option_set(row("share"), &s, "y", &keep, NULL), TW_BAD_INPUT);
}

static void defaults_are_written(void **state)
{
	struct sample s = { .steps = 42 };
	struct tw_error why = { 0 };

	assert_int_equal(tw_option_defaults(rows, &s, &keep, &why), TW_OK);
	assert_int_equal(s.collect, 4);
	assert_int_equal(s.steps, 42); /* no default: left alone */
	assert_true(s.rate == 0.1f);
	assert_int_equal(s.pause, INT64_C(5000000000));
	assert_int_equal(s.chunk, 262144);
	assert_int_equal(s.gate, 4);
	assert_string_equal(s.note, "");
	assert_int_equal(s.curvature.count, 2);
	assert_null(tw_option_find(rows, "nothing"));
	assert_null(tw_option_find(rows, ""));
}

static void text_is(const char *name, const char *text, const char *want)
{
	const struct sample s = read_as(name, text);
	char out[200];

	tw_option_text(row(name), &s, out, sizeof out);
	assert_string_equal(out, want);
}

static void values_print_as_people_write_them(void **state)
{
	text_is("eager", "true", "true");
	text_is("collect", "12", "12");
	text_is("rate", "0.1", "0.1");
	text_is("share", "0.1", "0.1");
	text_is("share", "0.3333333333333333", "0.3333333333333333");
	text_is("latency", "100000ns", "100us");
	text_is("latency", "90s", "90s");
	text_is("latency", "60s", "1min");
	text_is("latency", "0ns", "0s");
	text_is("chunk", "262144B", "256KiB");
	text_is("chunk", "1000000B", "1MB");
	text_is("chunk", "1000001B", "1000001B");
	text_is("bandwidth", "10000Mbit/s", "10Gbit/s");
	text_is("warm", "0.2 epochs", "0.2 epochs");
	text_is("gate", "ssp", "ssp");
	text_is("note", "a b", "a b");
	text_is("size", "5x3", "5x3");
	text_is("size", "7", "7x7");
	text_is("curvature", "0.1,1", "[0.1, 1]");
	text_is("curvature", "0.5", "[0.5]");
	text_is("curvature", "[]", "[]");
}

/* Print, read back, compare bits. */
static void comes_back(const char *name, const struct sample *s, size_t bytes)
{
	const struct tw_option *r = row(name);
	struct sample back = { 0 };
	struct tw_error why = { 0 };
	char out[200];

	tw_option_text(r, s, out, sizeof out);
	if (tw_option_set(r, &back, out, &keep, &why) != TW_OK)
		fail_msg("'%s' is not read back: %s", out, why.text);
	assert_memory_equal((const char *)&back + r->offset, (const char *)s + r->offset, bytes);
}

static void values_come_back_to_the_same_bits(void **state)
{
	const struct tw_rng r = tw_rng_make(11, TW_RNG_TEST);

	for (uint64_t k = 0; k < 20000; k++) {
		struct sample s = { 0 };
		const uint64_t bits = tw_rng_u64(&r, 0, k);
		const uint32_t half = (uint32_t)tw_rng_u64(&r, 1, k);
		const double scale = exp2(tw_rng_uniform(&r, 2, k) * 60);
		double list[3];

		memcpy(&s.lowest, &bits, sizeof bits);
		s.lowest = s.lowest > 3 ? -s.lowest : s.lowest;
		if (isfinite(s.lowest))
			comes_back("lowest", &s, sizeof s.lowest);
		memcpy(&s.rate, &half, sizeof half);
		if (isfinite(s.rate))
			comes_back("rate", &s, sizeof s.rate);
		s.steps = bits;
		comes_back("steps", &s, sizeof s.steps);
		s.any = half;
		comes_back("any", &s, sizeof s.any);
		s.latency = (int64_t)(bits >> (1 + k % 60));
		comes_back("latency", &s, sizeof s.latency);
		s.chunk = 1 + bits % 1000000000000;
		comes_back("chunk", &s, sizeof s.chunk);
		s.bandwidth = k % 2 ? scale : floor(scale);
		comes_back("bandwidth", &s, sizeof s.bandwidth);
		s.warm = tw_rng_uniform(&r, 3, k) * 100;
		comes_back("warm", &s, sizeof s.warm);
		for (uint64_t i = 0; i < 3; i++)
			list[i] = tw_rng_uniform(&r, 4 + i, k) * 100;
		s.curvature = (struct tw_f64s){ list, 3 };
		char out[200];
		tw_option_text(row("curvature"), &s, out, sizeof out);
		check_list(out, list, 3);
	}
	const double edges[] = {
		0.0, -0.0, -DBL_MAX, DBL_MIN, DBL_TRUE_MIN, -DBL_TRUE_MIN, 1.0 / 3
	};

	for (size_t k = 0; k < sizeof edges / sizeof *edges; k++) {
		const struct sample s = { .lowest = edges[k] };

		comes_back("lowest", &s, sizeof s.lowest);
	}
}

static void a_short_buffer_is_not_overrun(void **state)
{
	const struct sample s = read_as("curvature", "[0.25, 0.125, 7]");
	const struct sample t = read_as("bandwidth", "10Gbit/s");
	char out[12];

	for (size_t room = 1; room < 10; room++) {
		memset(out, '#', sizeof out);
		tw_option_text(row("curvature"), &s, out, room);
		assert_true(memchr(out, '\0', room) != NULL);
		assert_int_equal(out[room], '#');
		memset(out, '#', sizeof out);
		tw_option_text(row("bandwidth"), &t, out, room);
		tw_option_accepts(row("gate"), out, room);
		assert_true(memchr(out, '\0', room) != NULL);
		assert_int_equal(out[room], '#');
	}
}

static void memory_may_be_refused(void **state)
{
	static const char *const names[] = { "note", "curvature" };

	for (size_t k = 0; k < 2; k++) {
		struct refusing h = REFUSING(1);
		struct tw_arena a;
		struct sample s = { 0 };
		struct tw_error why = { 0 };

		tw_arena_init(&a, &h.heap);
		assert_int_equal(tw_option_set(row(names[k]), &s, "1", &a, &why), TW_NO_MEMORY);
		assert_int_equal(why.status, TW_NO_MEMORY);
		assert_null(s.note);
		assert_int_equal(s.curvature.count, 0);
		tw_arena_release(&a);
	}
}

static void near(const char *wrong, const char *want)
{
	static const char *const names[] = { "rate",      "workers", "staleness", "dc-asgd", "dana",
					     "dana-slim", "k",       "seed",      NULL };
	const char *got = tw_nearest(wrong, names);

	if (!want)
		assert_null(got);
	else if (!got)
		fail_msg("nothing near '%s'", wrong);
	else
		assert_string_equal(got, want);
}

static void the_nearest_name_is_found(void **state)
{
	near("rate", "rate");
	near("rat", "rate");
	near("raet", "rate");
	near("Rate", "rate");
	near("worker", "workers");
	near("wokrers", "workers");
	near("stalenes", "staleness");
	near("staelness", "staleness");
	near("dc_asgd", "dc-asgd");
	near("dana-slm", "dana-slim");
	near("sede", "seed");
	near("x", NULL);
	near("", NULL);
	near("bandwidth", NULL);
	near("learning_rate", NULL);
	near("a-word-that-is-longer-than-any-name-that-could-be-meant-by-anybody-at-all", NULL);
}

static int open_arena(void **state)
{
	tw_arena_init(&keep, &tw_heap_system);
	return 0;
}

static int close_arena(void **state)
{
	tw_arena_release(&keep);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_texts_are_read),
		cmocka_unit_test(units_are_read),
		cmocka_unit_test(lists_are_read),
		cmocka_unit_test(wrong_texts_are_refused),
		cmocka_unit_test(wrong_units_are_refused),
		cmocka_unit_test(refusals_say_what_would_do),
		cmocka_unit_test(the_first_cause_is_kept),
		cmocka_unit_test(defaults_are_written),
		cmocka_unit_test(values_print_as_people_write_them),
		cmocka_unit_test(values_come_back_to_the_same_bits),
		cmocka_unit_test(a_short_buffer_is_not_overrun),
		cmocka_unit_test(memory_may_be_refused),
		cmocka_unit_test(the_nearest_name_is_found),
	};

	return cmocka_run_group_tests(tests, open_arena, close_arena);
}
