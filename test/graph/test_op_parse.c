/* SPDX-License-Identifier: Apache-2.0 */
/* test_op_parse.c - what stands behind a layer's name: words in, options or one sentence out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/refusing.h"
#include "graph/op.h"

struct paint {
	uint32_t coats, width;
	float gloss;
	uint32_t colour;
	bool wet;
	const char *name;
};

static const char *const colours[] = { "red", "green", "blue", NULL };
static const struct tw_option rows[] = {
	TW_OPTION(struct paint, coats, TW_U32, NULL, NULL, 1, 9, "how often"),
	TW_OPTION(struct paint, width, TW_U32, "20", NULL, 1, 500, "of the brush"),
	TW_OPTION(struct paint, gloss, TW_F32, "0.5", NULL, 0, 1, "how it shines"),
	TW_OPTION_CHOICE(struct paint, colour, "colour", "green", colours, "which"),
	TW_OPTION(struct paint, wet, TW_BOOL, "false", NULL, 0, 0, "still"),
	TW_OPTION(struct paint, name, TW_TEXT, "", NULL, 0, 0, "on the tin"),
	TW_OPTION_END,
};
static const struct tw_op op = {
	.name = "paint",
	.options = rows,
	.positional = 2,
	.options_bytes = sizeof(struct paint),
};
static const struct tw_op bare = { .name = "bare" };

static enum tw_status parse(const char *text, struct paint *p, struct tw_error *why)
{
	static struct tw_arena keep;
	enum tw_status st;

	tw_arena_release(&keep);
	tw_arena_init(&keep, &tw_heap_system);
	memset(p, 0xa5, sizeof *p);
	*why = (struct tw_error){ 0 };
	st = tw_op_parse(&op, text, p, &keep, why);
	assert_int_equal(st, why->status);
	assert_true((st == TW_OK) == (why->text[0] == '\0'));
	return st;
}

static void good(const char *text, struct paint want)
{
	struct tw_error why;
	struct paint p;

	if (parse(text, &p, &why) != TW_OK)
		fail_msg("'%s' is refused: %s", text, why.text);
	assert_int_equal(p.coats, want.coats);
	assert_int_equal(p.width, want.width);
	assert_true(p.gloss == want.gloss);
	assert_int_equal(p.colour, want.colour);
	assert_int_equal(p.wet, want.wet);
	assert_string_equal(p.name, want.name ? want.name : "");
}

static void positions_and_names(void **state)
{
	const struct paint p = { .coats = 3, .width = 20, .gloss = 0.5f, .colour = 1 };
	struct paint q = p;

	good("3", p);
	good("coats 3", p);
	good("  3\t\n ", p);
	good("3 20", p);
	good("3 width 20", p);
	good("width 20 coats 3", p);
	good("gloss 0.5 coats 3", p);
	q.width = 7;
	good("3 7", q);
	good("3\t7", q);
	good("3 width 7", q);
	q = (struct paint){ 9, 500, 1, 2, true, "rose" };
	good("9 500 gloss 1 colour blue wet true name rose", q);
	good("9 500 name rose wet true colour blue gloss 1", q);
	good("name rose wet true colour blue gloss 1 coats 9 width 500", q);
}

/* Refused, with every one of the words (up to NULL) in one sentence. */
static void bad(const char *text, ...)
{
	struct tw_error why;
	struct paint p;
	const char *word;
	va_list words;

	if (parse(text, &p, &why) != TW_BAD_INPUT)
		fail_msg("'%s' is taken", text);
	assert_null(strchr(why.text, '\n'));
	va_start(words, text);
	while ((word = va_arg(words, const char *)))
		if (!strstr(why.text, word))
			fail_msg("'%s': \"%s\" does not mention %s", text, why.text, word);
	va_end(words);
}

static void wrong_words(void **state)
{
	char long_word[5000]; /* a word may be a list of many values */

	bad("", "coats", "must be given", "from 1 to 9", NULL);
	bad("width 20", "coats", "must be given", NULL);
	bad("3 coats 3", "coats", "twice", NULL);
	bad("3 width 5 width 5", "width", "twice", NULL);
	bad("3 20 width 20", "width", "twice", NULL);
	bad("3 20 7", "'7'", "gloss", NULL);
	bad("3 gloss 0.1 20", "'20'", NULL);
	bad("3 glos 0.1", "'glos'", NULL);
	bad("3 20 glos 0.1", "'glos'", "did you mean 'gloss'", NULL);
	bad("3 20 xyzzy 1", "'xyzzy'", "coats, width, gloss, colour, wet, name", NULL);
	bad("3 gloss", "gloss", "value", NULL);
	bad("3 width", "width", "value", NULL);
	bad("0", "coats", "from 1 to 9", "'0'", NULL);
	bad("10", "coats", "'10'", NULL);
	bad("-1", "coats", "'-1'", NULL);
	bad("3.5", "coats", "whole number", NULL);
	bad("three", "coats", "'three'", NULL);
	bad("3 gloss 1.01", "gloss", "from 0 to 1", NULL);
	bad("3 gloss nan", "gloss", "'nan'", NULL);
	bad("3 gloss inf", "gloss", NULL);
	bad("3 gloss 0.5x", "gloss", NULL);
	bad("3 colour bleu", "colour", "red, green, blue", "did you mean 'blue'", NULL);
	bad("3 wet yes", "wet", "true or false", NULL);
	bad("99999999999999999999", "coats", NULL);
	memset(long_word, 'x', sizeof long_word);
	long_word[sizeof long_word - 1] = '\0';
	bad(long_word, "too long", NULL);
}

static void an_op_without_options(void **state)
{
	struct tw_error why = { 0 };
	struct tw_arena keep;

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_op_parse(&bare, "", NULL, &keep, &why), TW_OK);
	assert_int_equal(tw_op_parse(&bare, "  ", NULL, &keep, &why), TW_OK);
	assert_int_equal(tw_op_parse(&bare, "5", NULL, &keep, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "'5'"));
	assert_int_equal(tw_op_parse(&bare, "5", NULL, &keep, NULL), TW_BAD_INPUT);
	tw_arena_release(&keep);
}

static void texts_are_kept(void **state)
{
	char text[] = "3 name rose";
	struct tw_error why = { 0 };
	struct tw_arena keep;
	struct paint p;

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_op_parse(&op, text, &p, &keep, &why), TW_OK);
	memset(text, 'z', sizeof text);
	assert_string_equal(p.name, "rose");
	tw_arena_release(&keep);
}

static void every_allocation_may_fail(void **state)
{
	for (unsigned nth = 1;; nth++) {
		struct refusing r = REFUSING(nth);
		struct tw_error why = { 0 };
		struct tw_arena keep;
		struct paint p;
		enum tw_status st;

		tw_arena_init(&keep, &r.heap);
		st = tw_op_parse(&op, "3 name rose", &p, &keep, &why);
		tw_arena_release(&keep);
		assert_int_equal(r.live, 0);
		if (r.calls < nth) {
			assert_int_equal(st, TW_OK);
			return;
		}
		assert_int_equal(st, TW_NO_MEMORY);
	}
}

/* Texts of the real ops in this room. */
static void taken(const char *name, const char *text, bool want)
{
	const struct tw_op *o = tw_op_find(name);
	struct tw_error why = { 0 };
	struct tw_arena keep;
	void *options;

	assert_non_null(o);
	options = calloc(1, o->options_bytes + 1);
	tw_arena_init(&keep, &tw_heap_system);
	if ((tw_op_parse(o, text, options, &keep, &why) == TW_OK) != want)
		fail_msg("%s %s: %s", name, text, want ? why.text : "is taken");
	tw_arena_release(&keep);
	free(options);
}

static void real_texts(void **state)
{
	taken("relu", "", true);
	taken("relu", "6", false);
	taken("leaky-relu", "", true);
	taken("leaky-relu", "0.1", true);
	taken("leaky-relu", "-0.1", false);
	taken("leaky-relu", "slope 0.3", true);
	taken("gelu", "approximate tanh", true);
	taken("gelu", "approximate erf", false);
	taken("dropout", "0.5", true);
	taken("dropout", "rate 0.5", true);
	taken("dropout", "1", false);
	taken("dropout", "-0.5", false);
	taken("dropout", "0.5 0.5", false);
	taken("scale", "0.5", true);
	taken("scale", "", false);
	taken("flatten", "2", false);
	taken("add", "1", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(positions_and_names),       cmocka_unit_test(wrong_words),
		cmocka_unit_test(an_op_without_options),     cmocka_unit_test(texts_are_kept),
		cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(real_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
