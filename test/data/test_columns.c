/* SPDX-License-Identifier: Apache-2.0 */
/* test_columns.c - tables as people have them: what columns are found to be, the inputs that are
 * made of them, and that nothing but the training set decides about these. */
#include "data/kit.h"
#include "data/format/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 60

static const float *row_of(const struct tw_data *d, const struct tw_samples *s, uint64_t i)
{
	return (const float *)s->value + i * d->features;
}

static size_t input(const struct tw_data *d, const char *name)
{
	size_t k = 0;

	for (; k < d->features; k++)
		if (!strcmp(d->names.column[k], name))
			return k;
	print_error("no input %s\n", name);
	fail();
	return k;
}

static const struct tw_column *column(const struct tw_data *d, const char *name)
{
	for (uint32_t k = 0; k < d->columns->count; k++)
		if (!strcmp(d->columns->column[k].name, name))
			return &d->columns->column[k];
	fail();
	return NULL;
}

/* All kinds of columns in one table. */
static void put_messy(void)
{
	char text[ROWS * 160], *p = text;
	static const char *const words[] = { "red", "green", "blue" };

	p += sprintf(p, "id,code,since,at,size,colour,zip,fixed,note,empty,kind\n");
	for (int i = 0; i < ROWS; i++)
		p += sprintf(p,
			     "%d,K%03d,2020-%02d-%02d,%d/%d/2021 07:30,%d.5,%s,%d,same,row %d of "
			     "it,,%s\n",
			     i, i, i % 12 + 1, i % 28 + 1, i % 12 + 1, i % 28 + 1, i, words[i % 3],
			     4000 + i % 4, i, i % 2 ? "a" : "b");
	put("messy.csv", text, (size_t)(p - text));
}

static void types_are_found(void **state)
{
	static const struct {
		const char *name;
		enum tw_column_type type;
		uint32_t inputs;
	} wanted[] = {
		{ "id", TW_COLUMN_IDENTIFIER, 0 }, { "code", TW_COLUMN_IDENTIFIER, 0 },
		{ "since", TW_COLUMN_DATE, 4 },    { "at", TW_COLUMN_DATE, 5 },
		{ "size", TW_COLUMN_NUMBER, 1 },   { "colour", TW_COLUMN_CATEGORY, 4 },
		{ "zip", TW_COLUMN_NUMBER, 1 },    { "fixed", TW_COLUMN_CONSTANT, 0 },
		{ "note", TW_COLUMN_TEXT, 0 },     { "empty", TW_COLUMN_CONSTANT, 0 },
	};
	struct tw_data *d;
	size_t inputs = 0;

	put_messy();
	d = kit_must_open("csv", SETS("file=messy.csv"));
	for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
		const struct tw_column *c = column(d, wanted[k].name);

		if (c->type != wanted[k].type)
			print_error("%s is a %s\n", c->name, tw_column_types[c->type]);
		assert_int_equal(c->type, wanted[k].type);
		assert_int_equal(tw_column_inputs(c), wanted[k].inputs);
		inputs += wanted[k].inputs;
	}
	assert_int_equal(d->features, inputs);
	assert_int_equal(d->classes, 2);
	/* a date without a year first, whose days go beyond 12, can be read in one way only */
	assert_int_equal(column(d, "at")->order, TW_DATE_MONTH_FIRST);
	assert_int_equal(kit_warned()->count, 0);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=messy.csv", "categories=[zip]", "numbers=id",
				      "drop=[colour, 3, at]"));
	assert_int_equal(column(d, "zip")->type, TW_COLUMN_CATEGORY);
	assert_int_equal(column(d, "zip")->words, 4);
	assert_int_equal(column(d, "id")->type, TW_COLUMN_NUMBER);
	assert_int_equal(column(d, "since")->type, TW_COLUMN_DROPPED);
	assert_int_equal(d->features, 1 + 1 + 5);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=messy.csv", "columns=[size, colour]"));
	assert_int_equal(d->features, 1 + 4);
	assert_string_equal(d->names.column[0], "size");
	assert_string_equal(d->names.column[1], "colour=blue");
	assert_string_equal(d->names.column[4], "colour=?");
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=messy.csv", "category_limit=2", "drop=[since, at]"));
	assert_int_equal(column(d, "colour")->type, TW_COLUMN_DROPPED);
	kit_says(d->notes->text[d->notes->count - 1],
		 PARTS("column 6 (colour)", "more than 2 different words", "category_limit"));
	tw_data_close(d);
}

/* One input is 1; means are untouched by it, and it is not scaled. */
static void words_have_inputs(void **state)
{
	struct tw_data *d;

	put_messy();
	d = kit_must_open("csv", SETS("file=messy.csv", "columns=[size, colour]", "test=0.2"));
	for (uint64_t i = 0; i < d->train.count; i++) {
		const float *x = row_of(d, &d->train, i);
		const unsigned n = (unsigned)x[0];
		static const char *const name[] = { "colour=red", "colour=green", "colour=blue" };

		assert_true(x[input(d, name[n % 3])] == 1);
		assert_true(x[1] + x[2] + x[3] + x[4] == 1 && x[4] == 0);
	}
	for (int k = 1; k < 4; k++)
		assert_true(d->scale[k] == 1 && d->shift[k] == 0);
	assert_true(d->scale[4] == 0); /* nothing was learned of other words */
	assert_true(d->scale[0] != 1);
	tw_data_close(d);
}

/* The dates that Python's datetime has, with their weekdays (0 is Monday). */
static void dates_have_parts(void **state)
{
	static const struct {
		const char *text;
		float part[TW_DATE_PARTS];
	} dates[] = {
		{ "2024-02-29", { 2024, 2, 29, 3, 0 } },
		{ "1969-07-20T20:17:40Z", { 1969, 7, 20, 6, 20.294445f } },
		{ "31.12.1999 23:59", { 1999, 12, 31, 4, 23.983334f } },
		{ "2000/1/1", { 2000, 1, 1, 5, 0 } },
		{ "0001-01-01", { 1, 1, 1, 0, 0 } },
		{ "12/25/2021", { 2021, 12, 25, 5, 0 } },
		{ " 1900-03-01 06:30:00+02:00 ", { 1900, 3, 1, 3, 6.5f } },
	};
	static const char *const none[] = {
		"2023-02-29",  "2024-13-01",   "2024-00-10",       "2024-1",
		"20240101",    "12:30",        "2024-01-01 25:00", "2024-01-01x",
		"2024-01/01",  "13/13/2020",   "1/1/20",           "",
		"2024-01-01T", "2024-01-01 7", "-2024-01-01",
	};
	struct tw_date date;
	float part[TW_DATE_PARTS];

	for (size_t k = 0; k < sizeof dates / sizeof *dates; k++) {
		const struct tw_csv_field f = { dates[k].text, strlen(dates[k].text), false };

		assert_true(tw_date_parse(&f, TW_DATE_MONTH_FIRST, &date));
		tw_date_split(&date, part);
		for (int i = 0; i < TW_DATE_PARTS; i++)
			assert_true(fabsf(part[i] - dates[k].part[i]) < 1e-5f);
	}
	for (size_t k = 0; k < sizeof none / sizeof *none; k++) {
		const struct tw_csv_field f = { none[k], strlen(none[k]), false };

		assert_false(tw_date_parse(&f, TW_DATE_MONTH_FIRST, &date));
	}
	assert_true(tw_date_parse(&(struct tw_csv_field){ "1970-01-02 12:00", 16, false },
				  TW_DATE_DAY_FIRST, &date));
	assert_true(tw_date_hours(&date) == 36);
}

/* Rows 0 to 29 have even numbers 0 to 58 and lack every third; the test file has others. */
static void put_gaps(void)
{
	char text[4000], *p = text;

	p += sprintf(p, "x,word,y\n");
	for (int i = 0; i < 30; i++) {
		if (i % 3 == 0)
			p += sprintf(p, "%s,%s,%d\n", i % 2 ? "" : " NA ", i % 2 ? "" : "u", i % 2);
		else
			p += sprintf(p, "%d,%s,%d\n", 2 * i, i % 2 ? "v" : "u", i % 2);
	}
	put("gaps.csv", text, (size_t)(p - text));
	put_text("other.csv", "x,word,y\n1000,w,1\n,,0\n-1000,v,1\n");
}

static float filled(const char *missing)
{
	char set[40];
	struct tw_data *d;
	float v;

	snprintf(set, sizeof set, "missing=%s", missing);
	d = kit_must_open("csv", SETS("file=gaps.csv", "test_file=other.csv", set));
	v = row_of(d, &d->test, 1)[0];
	assert_true(row_of(d, &d->train, 0)[0] == v);
	assert_true(row_of(d, &d->test, 0)[0] == 1000);
	tw_data_close(d);
	return v;
}

/* Nothing of a test file moves what is filled in, nor the words or scales. */
static void missing_values_are_those_of_the_training_set(void **state)
{
	double sum = 0;
	struct tw_data *d, *alone;
	int n = 0;

	put_gaps();
	for (int i = 0; i < 30; i++)
		if (i % 3) {
			sum += 2 * i;
			n++;
		}
	assert_true(fabs((double)filled("mean") - sum / n) < 1e-5);
	assert_true(filled("median") == (2 * 14 + 2 * 16) / 2.0f);
	assert_true(filled("zero") == 0);
	d = kit_must_open("csv", SETS("file=gaps.csv", "test_file=other.csv", "missing=indicator"));
	assert_int_equal(d->features, 2 + 3);
	assert_true(row_of(d, &d->train, 0)[input(d, "x.missing")] == 1);
	assert_true(row_of(d, &d->train, 1)[input(d, "x.missing")] == 0);
	assert_true(row_of(d, &d->test, 1)[input(d, "x.missing")] == 1);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=gaps.csv", "test_file=other.csv"));
	alone = kit_must_open("csv", SETS("file=gaps.csv", "test=0"));
	assert_int_equal(d->features, 4);
	assert_true(row_of(d, &d->test, 0)[input(d, "word=?")] == 1); /* a word of the test alone */
	assert_true(row_of(d, &d->test, 1)[input(d, "word=?")] == 1); /* none */
	assert_true(row_of(d, &d->test, 2)[input(d, "word=v")] == 1);
	assert_memory_equal(d->scale, alone->scale, 4 * sizeof(float));
	assert_memory_equal(d->shift, alone->shift, 4 * sizeof(float));
	assert_true(d->scale[3] == 1); /* the training set has empty words */
	tw_data_close(d);
	tw_data_close(alone);
	d = kit_must_open("csv", SETS("file=gaps.csv", "missing=drop", "test=0"));
	assert_int_equal(d->train.count, 20);
	for (uint64_t i = 0; i < 20; i++)
		assert_true(isfinite(row_of(d, &d->train, i)[0]));
	tw_data_close(d);
}

/* What is held out of the file decides nothing either: the fill is the mean of those that stay. */
static void held_out_rows_decide_nothing(void **state)
{
	struct tw_data *d;
	double sum = 0;
	uint64_t n = 0;
	bool lacks = false;

	put_gaps();
	d = kit_must_open("csv", SETS("file=gaps.csv", "test=0.3", "validation=0.2"));
	for (uint64_t i = 0; i < d->train.count; i++) {
		const float v = row_of(d, &d->train, i)[0];

		if (v != d->columns->column[0].fill[0] && fmodf(v, 2) == 0) {
			sum += (double)v;
			n++;
		}
	}
	assert_true(n > 0 && n < 20);
	assert_true(fabs(sum / (double)n - (double)d->columns->column[0].fill[0]) < 1e-5);
	for (uint64_t i = 0; i < d->test.count; i++)
		lacks |= row_of(d, &d->test, i)[0] == d->columns->column[0].fill[0];
	assert_true(lacks);
	tw_data_close(d);
}

static void several_values_are_predicted(void **state)
{
	struct tw_data *d;

	put_text("two.csv", "a,b,c\n1,10,x\n2,20,y\n3,30,x\n4,40,y\n");
	put_text("more.csv", "c,b,a\ny,50,5\n");
	d = kit_must_open("csv", SETS("file=two.csv", "test_file=more.csv", "label=[b, a]"));
	assert_int_equal(d->targets, 2);
	assert_string_equal(d->names.answer[0], "b");
	assert_string_equal(d->names.answer[1], "a");
	assert_true(d->train.target[2] == 20 && d->train.target[3] == 2);
	assert_true(d->test.target[0] == 50 && d->test.target[1] == 5);
	tw_data_close(d);
	put_text("two.csv", "1,10,5\n2,20,6\n3,30,7.5\n4,40,7\n");
	d = kit_must_open("csv", SETS("file=two.csv", "label=[3, 1]", "test=0"));
	assert_true(d->features == 1 && d->train.target[4] == 7.5f && d->train.target[5] == 3);
	tw_data_close(d);
}

/* Decimals are values, words and few whole numbers are classes, and that is said. */
static void tasks_are_found(void **state)
{
	char text[8000], *p = text;
	struct tw_data *d;

	put_text("t.csv", "a,y\n1,0.5\n2,0.25\n3,0.5\n");
	d = kit_must_open("csv", SETS("file=t.csv"));
	assert_true(d->targets == 1 && d->classes == 0);
	kit_says(d->notes->text[0], PARTS("predicts values", "column 2 (y)", "decimals"));
	tw_data_close(d);
	put_text("t.csv", "a,y\n1,0\n2,1\n3,1\n");
	d = kit_must_open("csv", SETS("file=t.csv"));
	assert_int_equal(d->classes, 2);
	kit_says(d->notes->text[0], PARTS("predicts classes", "2 different whole numbers"));
	tw_data_close(d);
	p += sprintf(p, "a,y\n");
	for (int i = 0; i < 300; i++)
		p += sprintf(p, "%d,%d\n", i % 7, i * 37 % 211);
	put("t.csv", text, (size_t)(p - text));
	d = kit_must_open("csv", SETS("file=t.csv"));
	assert_int_equal(d->targets, 1);
	kit_says(d->notes->text[0], PARTS("predicts values", "211 different numbers"));
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=t.csv", "task=classes"));
	assert_int_equal(d->classes, 211);
	assert_int_equal(d->notes->count, 0);
	tw_data_close(d);
}

static void bad(const char *text, const char *const *sets, const char *const *parts)
{
	put_text("bad.csv", text);
	kit_refuses("csv", sets, parts);
}

static void what_cannot_be_is_refused(void **state)
{
	static const char small[] = "a,b,y\n1,x,0\n2,y,1\n3,x,0\n";
#define BAD(...) SETS("file=bad.csv", __VA_ARGS__)

	bad("a,y\n1,0\n,1\n", BAD("missing=refuse"),
	    PARTS("bad.csv:3: column 1 (a): is empty", "missing values are refused"));
	bad("a,y\n1,0\nnan,1\n", BAD("missing=refuse"), PARTS("bad.csv:3: column 1 (a): 'nan'"));
	bad("a,b,y\n1,,0\n,2,1\n", BAD("missing=drop"), PARTS("no rows without missing values"));
	bad("a,y\n1,0\n2,\n", BAD("missing=mean"), PARTS("bad.csv:3: column 2 (y): is empty"));
	bad("a,y\n1,0\n2,1\nzwei,1\n", BAD("test=0"),
	    PARTS("bad.csv:4: column 1 (a): 'zwei'", "as in 2 other rows", "data.categories"));
	bad("a;y\n1,5;0\n2,5;1\n", BAD("separator=;"),
	    PARTS("bad.csv:2: column 1 (a): '1,5'", "decimal point"));
	bad(small, BAD("label=z"), PARTS("label: bad.csv has no column 'z'", "1 to 3", "`last`"));
	bad(small, BAD("label=4"), PARTS("label: there is no column 4", "1 to 3"));
	bad(small, BAD("label=[a, a]"), PARTS("label: column 1", "twice"));
	bad(small, BAD("label=[a, b, y]"), PARTS("label: names all columns"));
	bad(small, BAD("label=[a, y]", "task=classes"), PARTS("must be values"));
	bad(small, BAD("label=[b, y]"), PARTS("bad.csv:2: column 2 (b): 'x'", "number"));
	bad(small, BAD("drop=q"), PARTS("drop: bad.csv has no column 'q'"));
	bad(small, BAD("drop=9"), PARTS("drop: there is no column 9"));
	bad(small, BAD("drop=y"), PARTS("drop: 'y' is the column to predict"));
	bad(small, BAD("columns=[a, y]"), PARTS("columns: 'y' is the column to predict"));
	bad(small, BAD("drop=a", "numbers=a"), PARTS("drop: 'a' is named by another field"));
	bad(small, BAD("drop=[a, b]"), PARTS("no column is left", "dropped"));
	bad(small, BAD("numbers=b"), PARTS("bad.csv:2: column 2 (b): 'x'", "number"));
	bad(small, BAD("categories=a", "category_limit=2"),
	    PARTS("categories: column 1", "3 different words", "category_limit is 2"));
	bad("a,y\nx,0\nx,1\nx,1\n", BAD("test=0"), PARTS("no column is left", "constant"));
	bad("a,y\np,0\nq,1\nr,1\n", BAD("test=0"), PARTS("no column is left", "identifier"));
	put_text("w.csv", "a,b,y\n1,x,0\nx,x,1\n");
	bad(small, BAD("test_file=w.csv"), PARTS("w.csv:3: column 1 (a): 'x'"));
	put_text("w.csv", "b,y\nx,0\n");
	bad(small, BAD("test_file=w.csv"), PARTS("w.csv:1:", "lacks 'a' of the 2"));
	bad("d,y\n2024-01-01,0\n2024-02-30,1\n2024-03-01,0\n", BAD("test=0"),
	    PARTS("no column is left"));
	put_text("w.csv", "d,y\n31.31.2024,0\n");
	bad("d,y\n2024-01-01,0\n2024-02-20,1\n2024-03-01,0\n", BAD("test_file=w.csv"),
	    PARTS("w.csv:2: column 1 (d): '31.31.2024'", "a date such as"));
}

static void dates_in_two_ways_are_said(void **state)
{
	struct tw_data *d;

	put_text("d.csv", "d,y\n01/02/2020,0\n03/04/2020,1\n05/06/2020,0\n");
	kit_warns("csv", SETS("file=d.csv", "test=0"), PARTS("column 1", "month/day/year"));
	put_text("d.csv", "d,y\n01/02/2020,0\n13/04/2020,1\n05/06/2020,0\n");
	kit_warns("csv", SETS("file=d.csv", "test=0"), NOTHING);
	d = kit_must_open("csv", SETS("file=d.csv", "test=0"));
	assert_true(row_of(d, &d->train, 1)[input(d, "d.month")] == 4);
	tw_data_close(d);
}

/* Inputs that are called alike get other names, and long ones are cut. */
static void names_stay_different(void **state)
{
	char text[2000], word[98];
	struct tw_data *d;

	put_text("n.csv", "a,a=x,a=?,y\nx,1,3,0\nz,2,4,1\nx,3,5,0\n");
	d = kit_must_open("csv", SETS("file=n.csv", "test=0"));
	assert_int_equal(d->features, 5);
	assert_string_equal(d->names.column[0], "a=x");
	assert_string_equal(d->names.column[3], "a=x#2");
	assert_string_equal(d->names.column[4], "a=?#2");
	tw_data_close(d);
	memset(word, 'w', sizeof word - 1);
	word[sizeof word - 1] = 0;
	snprintf(text, sizeof text, "%s%s,y\n%s,0\nz,1\n%s,0\n", word, word, word, word);
	put_text("n.csv", text);
	d = kit_must_open("csv", SETS("file=n.csv", "test=0"));
	assert_int_equal(strncmp(d->names.column[0], "column 1, input 1", 17) &&
				 strlen(d->names.column[0]) > 255,
			 0);
	tw_data_close(d);
}

/* --- weights, and what is held out ------------------------------------------------------------ */

static void put_held(void)
{
	char text[8000], *p = text;

	p += sprintf(p, "x,who,day,set,w,kind\n");
	for (int i = 0; i < 80; i++)
		p += sprintf(p, "%d.5,p%d,2024-%02d-%02d,%s,%d,%s\n", i, i % 8, 1 + i / 28,
			     1 + i % 28,
			     i % 5 == 0   ? "test"
			     : i % 5 == 1 ? "validation"
					  : "train",
			     i % 3, i % 10 ? "often" : "seldom");
	put("held.csv", text, (size_t)(p - text));
}

static unsigned row_number(const struct tw_data *d, const struct tw_samples *s, uint64_t i)
{
	return (unsigned)row_of(d, s, i)[0];
}

static void held_out_by_class_group_time_and_column(void **state)
{
	const struct tw_samples *sets[3];
	struct tw_data *d;
	uint32_t seldom[3] = { 0 }, people[3] = { 0 };
	unsigned last[3] = { 0 };

	put_held();
	d = kit_must_open("csv", SETS("file=held.csv", "columns=x", "hold.by=class", "test=0.25",
				      "validation=0.5"));
	assert_int_equal(d->test.count, 20);
	for (uint64_t i = 0; i < d->test.count; i++)
		seldom[0] += d->test.label[i];
	for (uint64_t i = 0; i < d->validation.count; i++)
		seldom[1] += d->validation.label[i];
	assert_int_equal(seldom[0], 2);
	assert_int_equal(seldom[1], 3);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=held.csv", "columns=x", "hold.by=group",
				      "hold.column=who", "test=0.2", "validation=0.2"));
	sets[0] = &d->train;
	sets[1] = &d->test;
	sets[2] = &d->validation;
	for (int k = 0; k < 3; k++) {
		assert_true(sets[k]->count >= 10 && sets[k]->count % 10 == 0);
		for (uint64_t i = 0; i < sets[k]->count; i++)
			people[k] |= 1u << row_number(d, sets[k], i) % 8;
	}
	assert_int_equal(people[0] & people[1], 0);
	assert_int_equal(people[0] & people[2], 0);
	assert_int_equal(people[1] & people[2], 0);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=held.csv", "columns=x", "hold.by=time", "hold.column=3",
				      "test=0.25", "validation=0.1"));
	last[0] = row_number(d, &d->train, d->train.count - 1);
	last[2] = row_number(d, &d->validation, 0);
	assert_int_equal(d->test.count, 20);
	assert_int_equal(row_number(d, &d->test, 0), 60);
	assert_int_equal(last[2], last[0] + 1);
	tw_data_close(d);
	d = kit_must_open("csv",
			  SETS("file=held.csv", "columns=x", "hold.by=column", "hold.column=set"));
	assert_int_equal(d->test.count, 16);
	assert_int_equal(d->validation.count, 16);
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(row_number(d, &d->test, i) % 5, 0);
	tw_data_close(d);
}

/* Rows that are dropped have groups, too, so that there are more groups than rows. */
static void groups_of_dropped_rows(void **state)
{
	char text[8000], *p = text;
	struct tw_data *d;

	p += sprintf(p, "x,who,y\n");
	for (int i = 0; i < 200; i++)
		p += sprintf(p, ",p%d,%d\n", i, i % 2);
	for (int i = 0; i < 12; i++)
		p += sprintf(p, "%d.5,q%d,%d\n", i, i % 4, i % 2);
	put("dropped.csv", text, (size_t)(p - text));
	d = kit_must_open("csv", SETS("file=dropped.csv", "missing=drop", "hold.by=group",
				      "hold.column=who", "test=0.25", "validation=0"));
	assert_int_equal(d->train.count, 9);
	assert_int_equal(d->test.count, 3);
	for (uint64_t i = 1; i < 3; i++)
		assert_int_equal(row_number(d, &d->test, i) % 4, row_number(d, &d->test, 0) % 4);
	tw_data_close(d);
}

static double mean_weight(const struct tw_data *d, uint32_t label)
{
	double sum = 0, n = 0;

	for (uint64_t i = 0; i < d->train.count; i++)
		if (label == UINT32_MAX || d->train.label[i] == label) {
			sum += (double)d->weight[i];
			n++;
		}
	return sum / n;
}

static void weights_are_1_on_the_average(void **state)
{
	struct tw_data *d;
	uint64_t often = 0;

	put_held();
	d = kit_must_open("csv", SETS("file=held.csv", "columns=x", "weight=w", "test=0.25"));
	assert_true(fabs(mean_weight(d, UINT32_MAX) - 1) < 1e-6);
	for (uint64_t i = 1; i < d->train.count; i++) /* as 0, 1 and 2 are to each other */
		assert_true(fabsf(d->weight[i] * d->train.weight[0] -
				  d->weight[0] * d->train.weight[i]) < 1e-5f &&
			    d->train.weight[i] == (float)(row_number(d, &d->train, i) % 3));
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=held.csv", "columns=x", "class_weights=balanced"));
	for (uint64_t i = 0; i < d->train.count; i++)
		often += d->train.label[i] == 0;
	assert_true(fabs(mean_weight(d, UINT32_MAX) - 1) < 1e-6);
	assert_true(fabs(mean_weight(d, 0) - (double)d->train.count / 2 / (double)often) < 1e-6);
	tw_data_close(d);
}

/* Balanced where there are classes, with a word about one that is rare; nothing for values. */
static void automatic_weights_are_those_of_classes(void **state)
{
	char text[2000], *p = text + sprintf(text, "x,y\n");
	struct tw_data *d;

	for (int i = 0; i < 100; i++)
		p += sprintf(p, "%d.5,%d\n", i, i % 10 == 0);
	put_text("rare.csv", text);
	d = kit_must_open("csv", SETS("file=rare.csv", "class_weights=auto", "test=0"));
	assert_true(fabs(mean_weight(d, 0) - 100 / 2.0 / 90) < 1e-6);
	assert_true(fabs(mean_weight(d, 1) - 100 / 2.0 / 10) < 1e-6);
	assert_non_null(strstr(d->notes->text[d->notes->count - 1],
			       "class '1' is rare, with 10 % of the training samples"));
	tw_data_close(d);
	d = kit_must_open("csv",
			  SETS("file=rare.csv", "class_weights=auto", "task=values", "test=0"));
	assert_null(d->weight);
	tw_data_close(d);
	put_text("even.csv", "x,y\n1,a\n2,b\n3,a\n4,b\n5,a\n");
	d = kit_must_open("csv", SETS("file=even.csv", "class_weights=auto", "test=0"));
	assert_true(fabsf(d->weight[0] - 5 / 6.0f) < 1e-6f);
	for (unsigned k = 0; k < d->notes->count; k++)
		assert_null(strstr(d->notes->text[k], "is rare"));
	tw_data_close(d);
}

static void holds_and_weights_that_cannot_be(void **state)
{
	static const char small[] = "a,b,y\n1,x,0\n2,y,1\n3,x,0\n4,y,1\n";

	bad(small, BAD("weight=z"), PARTS("weight: bad.csv has no column 'z'"));
	bad(small, BAD("weight=y"), PARTS("weight: is the column to predict"));
	bad(small, BAD("weight=b"), PARTS("bad.csv:2: column 2", "'x'", "a weight is a number"));
	bad("a,w,y\n1,-1,0\n2,1,1\n", BAD("weight=w"), PARTS("bad.csv:2:", "'-1'", "from 0 on"));
	bad("a,w,y\n1,0,0\n2,0,1\n3,0,1\n", BAD("weight=w"), PARTS("weigh nothing"));
	bad(small, BAD("hold.by=group"), PARTS("hold.column: must be given"));
	bad(small, BAD("hold.column=b"), PARTS("hold.column: is valid only with hold.by"));
	bad(small, BAD("hold.by=group", "hold.column=q"), PARTS("hold.column: bad.csv has no"));
	bad(small, BAD("hold.by=group", "hold.column=y"), PARTS("hold.column: is the column to"));
	bad(small, BAD("hold.by=time", "hold.column=b"), PARTS("bad.csv:2:", "'x'", "a date"));
	bad(small, BAD("hold.by=column", "hold.column=b"), PARTS("bad.csv:2:", "'x'", "train, "));
	bad(small, BAD("hold.by=file"), PARTS("hold.by: file needs", "test_file"));
	bad(small, BAD("hold.by=class", "task=values"), PARTS("hold.by: class needs classes"));
	bad(small, BAD("hold.by=class", "samples=2"), PARTS("samples: cannot be combined"));
	bad(small, BAD("class_weights=balanced", "task=values"),
	    PARTS("class_weights: ", "values"));
	bad("a,s,y\n1,test,0\n2,test,1\n", BAD("hold.by=column", "hold.column=s"),
	    PARTS("no sample is left for training"));
}

/* --- rows for a model ------------------------------------------------------------------------- */

/* The model that a table makes, as its card would say it. */
static struct tw_rows_facts facts_of(const struct tw_data *d)
{
	return (struct tw_rows_facts){
		.rank = 1,
		.shape = { d->shape[0] },
		.kind = TW_VALUE_F32,
		.classes = d->classes,
		.targets = d->targets,
		.names = d->names,
		.columns = d->columns,
	};
}

static enum tw_status rows_of(const struct tw_data *d, const char *text, struct tw_rows *out,
			      struct tw_error *why)
{
	const struct tw_rows_facts facts = facts_of(d);
	char path[400];

	put_text("rows.csv", text);
	snprintf(path, sizeof path, "%s/rows.csv", scratch());
	*why = (struct tw_error){ 0 };
	return tw_rows_open(&facts, &(struct tw_rows_request){ .heap = d->heap, .file = path }, out,
			    why);
}

static void rows_become_what_the_card_says(void **state)
{
	struct tw_data *d;
	struct tw_rows r;
	struct tw_error why;
	const float *x;

	put_gaps();
	d = kit_must_open("csv", SETS("file=gaps.csv", "test=0"));
	assert_int_equal(rows_of(d, "who,word,x\nAnn,v,7\nBo,w,\nCy,,8\n", &r, &why), TW_OK);
	assert_int_equal(r.count, 3);
	assert_string_equal(r.extra[0], "who");
	x = row_of(r.data, &r.data->test, 0);
	assert_true(x[0] == 7 && x[input(d, "word=v")] == 1 && x[input(d, "word=?")] == 0);
	x = row_of(r.data, &r.data->test, 1);
	assert_true(x[0] == d->columns->column[0].fill[0] && x[input(d, "word=?")] == 1);
	assert_true(row_of(r.data, &r.data->test, 2)[input(d, "word=?")] == 1);
	assert_int_equal(r.warnings.count, 2);
	kit_says(r.warnings.text[0], PARTS("1 cell has words", "it counts as another word"));
	kit_says(r.warnings.text[1], PARTS("2 cells are missing", "missing: mean"));
	tw_data_close(r.data);
	assert_int_equal(rows_of(d, "word,y\nv,1\n", &r, &why), TW_BAD_INPUT);
	kit_says(why.text, PARTS("rows.csv:1:", "lacks 'x' of the 2"));
	assert_int_equal(rows_of(d, "x,word\nzwei,v\n", &r, &why), TW_BAD_INPUT);
	kit_says(why.text, PARTS("rows.csv:2: column 1 (x): 'zwei'"));
	assert_int_equal(rows_of(d, "x,word,x\n1,v,2\n", &r, &why), TW_BAD_INPUT);
	kit_says(why.text, PARTS("columns 1 and 3", "'x'"));
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=gaps.csv", "missing=drop", "test=0"));
	assert_int_equal(rows_of(d, "x,word\n,v\n", &r, &why), TW_BAD_INPUT);
	kit_says(why.text, PARTS("rows.csv:2: column 1 (x)", "missing: drop"));
	tw_data_close(d);
}

/* Without a header, columns that are not read keep their places. */
static void places_are_those_of_the_training_file(void **state)
{
	char text[4000], *p = text;
	struct tw_data *d;
	struct tw_rows r;
	struct tw_error why;

	for (int i = 0; i < 40; i++)
		p += sprintf(p, "%d,w%03d,%s,%d.5\n", i % 2, i, i % 3 ? "p" : "q", i);
	put("plain2.csv", text, (size_t)(p - text));
	d = kit_must_open("csv", SETS("file=plain2.csv", "header=no", "label=1", "test=0"));
	assert_int_equal(d->features, 3 + 1);
	assert_int_equal(rows_of(d, "u,q,3\n", &r, &why), TW_OK);
	assert_true(row_of(r.data, &r.data->test, 0)[1] == 1);
	assert_true(row_of(r.data, &r.data->test, 0)[3] == 3);
	tw_data_close(r.data);
	assert_int_equal(rows_of(d, "1,u,q,3\n", &r, &why), TW_OK);
	assert_int_equal(r.answers, 1);
	assert_true(row_of(r.data, &r.data->test, 0)[3] == 3);
	tw_data_close(r.data);
	assert_int_equal(rows_of(d, "q,3\n", &r, &why), TW_BAD_INPUT);
	kit_says(why.text, PARTS("2 columns", "takes 3, or 4 with the answer as column 1"));
	tw_data_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_are_found),
		cmocka_unit_test(words_have_inputs),
		cmocka_unit_test(dates_have_parts),
		cmocka_unit_test(missing_values_are_those_of_the_training_set),
		cmocka_unit_test(held_out_rows_decide_nothing),
		cmocka_unit_test(several_values_are_predicted),
		cmocka_unit_test(tasks_are_found),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(dates_in_two_ways_are_said),
		cmocka_unit_test(names_stay_different),
		cmocka_unit_test(held_out_by_class_group_time_and_column),
		cmocka_unit_test(groups_of_dropped_rows),
		cmocka_unit_test(weights_are_1_on_the_average),
		cmocka_unit_test(automatic_weights_are_those_of_classes),
		cmocka_unit_test(holds_and_weights_that_cannot_be),
		cmocka_unit_test(rows_become_what_the_card_says),
		cmocka_unit_test(places_are_those_of_the_training_file),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
