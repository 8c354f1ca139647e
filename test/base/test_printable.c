/* SPDX-License-Identifier: Apache-2.0 */
/* test_printable.c - text from outside: what a terminal obeys does not come through. */
#include "base/machine/log.h"
#include "base/printable.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const struct {
	const char *from, *to;
} rows[] = {
	{ "plain text, 100 %", "plain text, 100 %" },
	{ "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x98\x80",
	  "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x98\x80" },
	{ "a\x1b[31mb", "a?[31mb" }, /* C0 */
	{ "a\tb\nc\rd", "a b c d" }, /* white space */
	{ "a\x7f", "a?" },           /* DEL */
	{ "a\x9b"
	  "31m",
	  "a?31m" }, /* C1 as a byte */
	{ "a\xc2\x9b"
	  "31m",
	  "a?31m" },                                  /* C1 as UTF-8 */
	{ "\xc2\x80\xc2\x9f\xc2\xa0", "??\xc2\xa0" }, /* its ends, and the one behind */
	{ "a\xe2\x80\xae"
	  "b",
	  "a?b" },                                                      /* override: U+202E */
	{ "\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xad", "????" }, /* U+2028 to U+202D */
	{ "\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", "??\xe2\x81\xaa" },   /* U+2066, 2069, 206A */
	{ "\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c", "???" },                  /* marks of direction */
	{ "\xff\xfe", "??" },                                           /* no UTF-8 at all */
	{ "a\xc3", "a?" },                                              /* cut off */
	{ "\xe2\x82", "??" },
	{ "\xc0\x9b", "??" }, /* longer than needed */
	{ "\xe0\x80\x9b", "???" },
	{ "\xed\xa0\x80", "???" },      /* half a pair */
	{ "\xf4\x90\x80\x80", "????" }, /* beyond the last */
	{ "", "" },
};

static void each_row(void **state)
{
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		char text[100];

		snprintf(text, sizeof text, "%s", rows[k].from);
		assert_int_equal(tw_is_printable(text), strcmp(rows[k].from, rows[k].to) == 0);
		tw_printable(text);
		assert_string_equal(text, rows[k].to);
		if (!strchr(rows[k].from, '\t'))
			assert_string_equal(tw_show(rows[k].from).text, rows[k].to);
		assert_true(tw_is_printable(text));
	}
}

/* Two of any bytes: what comes out is printable, and stays as it is. */
static void all_pairs_of_bytes(void **state)
{
	for (unsigned a = 1; a < 256; a++)
		for (unsigned b = 1; b < 256; b++) {
			char text[] = { (char)a, (char)b, 'x', 0 }, again[4];

			tw_printable(text);
			assert_true(tw_is_printable(text));
			for (const char *s = text; *s; s++)
				assert_false((unsigned char)*s < 0x20 || *s == 0x7f);
			memcpy(again, text, sizeof again);
			tw_printable(again);
			assert_string_equal(again, text);
		}
}

static void long_text_ends_in_dots(void **state)
{
	char out[12];

	assert_string_equal(tw_show_in("0123456789a", 11, out, sizeof out), "0123456789a");
	assert_string_equal(tw_show_in("0123456789ab", 12, out, sizeof out), "01234567...");
	/* no half of a character stays */
	assert_string_equal(tw_show_in("0123456\xc3\xbc\xc3\xbc\xc3\xbc", 13, out, sizeof out),
			    "0123456...");
	assert_string_equal(tw_show_in("abcdef", 3, out, sizeof out), "abc");
	assert_string_equal(tw_show_in("abcdef", 6, out, 4), "...");
	assert_string_equal(tw_show("a\tb\n").text, "a?b?"); /* a quoted value shows it */
}

static char heard[2000];

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	snprintf(heard, sizeof heard, "%s", line);
}

static void sentences_and_lines_are_printable(void **state)
{
	const struct tw_log log = { hear, NULL, TW_INFO };
	struct tw_error why = { 0 };
	char big[3000];

	tw_fail(&why, TW_IO, "%s: no", "evil\x1b]0;me\x07\xc2\x9b");
	assert_string_equal(why.text, "evil?]0;me??: no");
	tw_log_line(&log, TW_INFO, "me", "%s", "x\x1b[2J\ny\x7f");
	assert_string_equal(heard, "x?[2J y?");
	/* one that is cut off in the middle of a character */
	memset(big, 'x', sizeof big);
	for (size_t k = 0; k + 1 < sizeof big; k += 2)
		memcpy(big + k, "\xc3\xbc", 2);
	big[sizeof big - 1] = 0;
	tw_log_line(&log, TW_INFO, "me", "%s", big);
	assert_true(tw_is_printable(heard));
	tw_log_line(&log, TW_INFO, "me", "x%s", big);
	assert_true(tw_is_printable(heard));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row),
		cmocka_unit_test(all_pairs_of_bytes),
		cmocka_unit_test(long_text_ends_in_dots),
		cmocka_unit_test(sentences_and_lines_are_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
