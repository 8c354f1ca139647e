/* SPDX-License-Identifier: Apache-2.0 */
/* test_options.c - the rows of all variants: they parse, and no two meanings share a name. */
#include "strategy/tools.h"
#include "strategy/codec.h"
#include "strategy/gate.h"
#include "strategy/rule.h"
#include "strategy/staleness.h"

#include <stdio.h>
#include <string.h>

/* What all four kinds of table begin with. */
struct variant {
	const char *kind, *name, *help;
	const struct tw_option *options;
	size_t options_bytes;
};

#define TAKE(kind_of)                                                                              \
	for (size_t k = 0; tw_##kind_of##_all[k]; k++)                                             \
		out[count++] = (struct variant)                                                    \
		{                                                                                  \
#kind_of, tw_##kind_of##_all[k]->name, tw_##kind_of##_all                  \
						     [k]->help, tw_##kind_of##_all                 \
						      [k]->options,                                \
						       tw_##kind_of##_all[k]->options_bytes        \
		}

static size_t variants(struct variant *out)
{
	size_t count = 0;

	TAKE(gate);
	TAKE(staleness);
	TAKE(rule);
	TAKE(codec);
	return count;
}

static bool in(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(*list, name))
			return true;
	return false;
}

static const struct tw_option *first(const struct variant *v)
{
	static const struct tw_option none[] = { TW_OPTION_END };

	return v->options ? v->options : none;
}

static void defaults_parse_and_read_back(void **state)
{
	struct variant v[200];
	const size_t count = variants(v);

	(void)state;
	for (size_t k = 0; k < count; k++) {
		/* a byte behind the struct must survive */
		uint8_t *mine = options_given(v[k].options, v[k].options_bytes + 1, NULL);
		void *again = options_given(v[k].options, v[k].options_bytes + 1, NULL);

		CHECK(mine[v[k].options_bytes] == 0);
		CHECK((v[k].options != NULL) == (v[k].options_bytes != 0));
		for (const struct tw_option *row = first(&v[k]); row->name; row++) {
			char text[200], text2[200];
			struct tw_error why = { TW_OK };

			CHECK(row->standard && row->help && *row->help);
			CHECK(row->offset < v[k].options_bytes);
			tw_option_text(row, mine, text, sizeof text);
			CHECK(tw_option_set(row, again, text, NULL, &why) == TW_OK);
			tw_option_text(row, again, text2, sizeof text2);
			assert_string_equal(text, text2);
			CHECK(tw_option_find(v[k].options, row->name) == row);
		}
	}
}

static void refuses(const struct variant *v, const struct tw_option *row, const char *text)
{
	void *base = options_given(v->options, v->options_bytes, NULL);
	struct tw_error why = { TW_OK };

	if (tw_option_set(row, base, text, NULL, &why) == TW_OK)
		fail_msg("%s %s takes %s: '%s'", v->kind, v->name, row->name, text);
	CHECK(strstr(why.text, row->name));
}

static void what_makes_no_sense_is_refused(void **state)
{
	struct variant v[200];
	const size_t count = variants(v);
	const char *const never[] = { "", "x", "nan", "inf", "1 2", NULL };

	(void)state;
	for (size_t k = 0; k < count; k++)
		for (const struct tw_option *row = first(&v[k]); row->name; row++) {
			char text[64];

			for (size_t n = 0; never[n] && row->type != TW_TEXT; n++)
				refuses(&v[k], row, never[n]);
			if (row->min == 0.0 && row->max == 0.0)
				continue;
			snprintf(text, sizeof text, "%.17g", row->min - 1.0);
			refuses(&v[k], row, text);
			snprintf(text, sizeof text, "%.17g", row->max + 1.0);
			refuses(&v[k], row, text);
		}
}

/* Every row but the one that the alias stands for is as it was. */
static void others_stay(const struct variant *v, const struct tw_option *alias, const void *before,
			const void *after)
{
	for (const struct tw_option *row = first(v); row->name; row++) {
		char was[200], is[200];

		tw_option_text(row, before, was, sizeof was);
		tw_option_text(row, after, is, sizeof is);
		if (strcmp(row->name, alias->stands_for))
			assert_string_equal(was, is);
	}
}

/* Converts to a value that its row takes, or says why not; true: it converted. */
static bool converts(const struct variant *v, const struct tw_option *alias, const char *text,
		     uint32_t workers)
{
	const struct tw_option *of = tw_option_find(v->options, alias->stands_for);
	void *before = options_given(v->options, v->options_bytes, alias->name, text, NULL);
	void *after = options_given(v->options, v->options_bytes, alias->name, text, NULL);
	struct tw_error why = { TW_OK };
	const enum tw_status st = alias->convert(after, workers, &why);
	char value[200];

	if (st != TW_OK) {
		CHECK(st == TW_BAD_INPUT && *why.text);
		CHECK(strncmp(why.text, alias->name, strlen(alias->name)) ||
		      !strchr(why.text, ':'));
		return false;
	}
	tw_option_text(of, after, value, sizeof value);
	if (tw_option_set(of, after, value, NULL, &why) != TW_OK)
		fail_msg("%s %s: %s: %s with %u workers: %s", v->kind, v->name, alias->name, text,
			 workers, why.text);
	others_stay(v, alias, before, after);
	return true;
}

static void aliases_stand_for_a_row_beside_them(void **state)
{
	static const char *const texts[] = { "1", "2", "3", "0.5", "5", "64", NULL };
	struct variant v[200];
	const size_t count = variants(v);
	size_t aliases = 0;

	(void)state;
	for (size_t k = 0; k < count; k++)
		for (const struct tw_option *row = first(&v[k]); row->name; row++) {
			const struct tw_option *of;
			size_t good = 0;

			CHECK(!row->stands_for == !row->convert);
			if (!row->stands_for)
				continue;
			of = tw_option_find(v[k].options, row->stands_for);
			CHECK(of && of != row && !of->stands_for && of->offset != row->offset);
			for (size_t t = 0; texts[t]; t++) {
				void *room = options_given(v[k].options, v[k].options_bytes, NULL);

				if (tw_option_set(row, room, texts[t], NULL, NULL) != TW_OK)
					continue;
				for (uint32_t workers = 1; workers <= 64; workers++)
					good += converts(&v[k], row, texts[t], workers);
			}
			CHECK(good > 0);
			aliases++;
		}
	CHECK(aliases > 0);
}

static void names_do_not_collide(void **state)
{
	static const char *const strategy[] = { "name",     "gate",  "staleness", "send",
						"push",     "fetch", "merge",     "codec",
						"topology", "local", "skip",      NULL };
	static const char *const update[] = { "rule",     "rate",   "decay", "clip",
					      "schedule", "warmup", NULL };
	struct variant v[200];
	const size_t count = variants(v);

	(void)state;
	for (size_t k = 0; k < count; k++)
		for (const struct tw_option *row = first(&v[k]); row->name; row++) {
			const bool rule = !strcmp(v[k].kind, "rule");

			CHECK(!in(row->name, rule ? update : strategy));
			if (strcmp(v[k].kind, "gate"))
				continue;
			for (size_t j = 0; j < count; j++)
				if (!strcmp(v[j].kind, "staleness") && v[j].options)
					CHECK(!tw_option_find(v[j].options, row->name));
		}
}

static void every_variant_is_found_by_its_name(void **state)
{
	struct variant v[200];
	const size_t count = variants(v);

	(void)state;
	CHECK(count >= 6 + 6 + 9 + 3);
	for (size_t k = 0; k < count; k++) {
		CHECK(v[k].name && *v[k].name && v[k].help && *v[k].help);
		for (size_t j = 0; j < k; j++)
			CHECK(strcmp(v[j].kind, v[k].kind) || strcmp(v[j].name, v[k].name));
	}
	for (size_t k = 0; tw_gate_all[k]; k++)
		CHECK(tw_gate_find(tw_gate_all[k]->name) == tw_gate_all[k]);
	for (size_t k = 0; tw_staleness_all[k]; k++)
		CHECK(tw_staleness_find(tw_staleness_all[k]->name) == tw_staleness_all[k]);
	for (size_t k = 0; tw_rule_all[k]; k++)
		CHECK(tw_rule_find(tw_rule_all[k]->name) == tw_rule_all[k]);
	for (size_t k = 0; tw_codec_all[k]; k++)
		CHECK(tw_codec_find(tw_codec_all[k]->name) == tw_codec_all[k]);
	CHECK(!tw_gate_find("sgd") && !tw_staleness_find("") && !tw_rule_find("Adam"));
	CHECK(!tw_codec_find("fp32 "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_parse_and_read_back),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(aliases_stand_for_a_row_beside_them),
		cmocka_unit_test(names_do_not_collide),
		cmocka_unit_test(every_variant_is_found_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
