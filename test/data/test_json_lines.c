/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_lines.c - lines of JSON against the same table as CSV, and what no table can be made
 * of. */
#include "data/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void same_set(const struct tw_data *a, const struct tw_data *b)
{
	assert_true(tw_sha_same(&a->fingerprint, &b->fingerprint));
	assert_int_equal(a->train.count, b->train.count);
	assert_int_equal(a->test.count, b->test.count);
	assert_int_equal(a->features, b->features);
	assert_memory_equal(a->train.value, b->train.value,
			    a->train.count * a->features * sizeof(float));
	assert_int_equal(a->columns->count, b->columns->count);
	for (uint32_t k = 0; k < a->columns->count; k++) {
		assert_int_equal(a->columns->column[k].type, b->columns->column[k].type);
		assert_string_equal(a->columns->column[k].name, b->columns->column[k].name);
	}
}

static void check_same(const char *json, const char *csv, const char *const *sets)
{
	struct tw_data *a, *b;
	const char *with[12] = { "file=rows.jsonl" };
	size_t n = 1;

	put_text("rows.jsonl", json);
	put_text("rows.csv", csv);
	for (; *sets; sets++)
		with[n++] = *sets;
	a = kit_must_open("json-lines", with);
	with[0] = "file=rows.csv";
	b = kit_must_open("csv", with);
	same_set(a, b);
	tw_data_close(a);
	tw_data_close(b);
}

static void lines_are_rows_of_a_table(void **state)
{
	(void)state;
	check_same("{\"age\": 31, \"job\": \"clerk\", \"paid\": 1.5, \"class\": \"a\"}\n"
		   "{\"job\": \"cook\", \"age\": 2.5e1, \"class\": \"b\", \"paid\": -0.25}\r\n"
		   "{\"job\": \"clerk\", \"age\": null, \"paid\": 7, \"class\": \"a\"}\n"
		   "{\"class\": \"b\", \"job\": \"cook\", \"age\": 40}\n"
		   "{\"age\": 12345678, \"job\": \"clerk\", \"paid\": 0, \"class\": \"a\"}\n\n",
		   "age,job,paid,class\n31,clerk,1.5,a\n25,cook,-0.25,b\n,clerk,7,a\n40,cook,,b\n"
		   "12345678,clerk,0,a\n",
		   SETS("label=class", "missing=indicator"));
	/* fields that come late, objects within, words with every mark, truth */
	check_same("{\"a\": {\"x\": 1, \"y\": {\"z\": 2}}, \"t\": true}\n"
		   "{\"a\": {\"x\": 5, \"y\": {\"z\": 3}}, \"t\": false, \"w\": \"q, \\\"r\\\"\"}\n"
		   "{\"w\": \"o\\np\", \"t\": true, \"a\": {\"x\": 4}}\n"
		   "{\"w\": \"q, \\\"r\\\"\", \"t\": false, \"a\": {\"x\": 6}}\n",
		   "a.x,a.y.z,t,w\n1,2,true,\n5,3,false,\"q, \"\"r\"\"\"\n4,,true,o p\n"
		   "6,,false,\"q, \"\"r\"\"\"\n",
		   SETS("label=t", "test=0"));
	/* values to predict; columns by place; a list that nobody wants */
	check_same("{\"a\": 1, \"l\": [1, {}], \"y\": 0.5}\n{\"a\": 2, \"l\": {\"b\": 1}, \"y\": "
		   "1}\n{\"a\": 3, \"y\": 2.5}\n",
		   "a,l,y\n1,,0.5\n2,,1\n3,,2.5\n",
		   SETS("label=y", "task=values", "drop=[l]", "test=0"));
	check_same("{\"a\": 1, \"l\": [1], \"y\": 0.5}\n{\"a\": 2, \"y\": 1}\n"
		   "{\"a\": 3, \"y\": 2.5}\n",
		   "a,l,y\n1,,0.5\n2,,1\n3,,2.5\n",
		   SETS("label=3", "task=values", "columns=a", "test=0"));
}

static void fields_of_objects_are_wanted_by_name(void **state)
{
	(void)state;
	check_same("{\"a\": 1, \"b\": {\"c\": 3, \"l\": [1]}, \"y\": 0.5}\n"
		   "{\"a\": 2, \"b\": {\"c\": 5}, \"y\": 1}\n{\"a\": 3, \"y\": 2.5}\n",
		   "a,b.c,b.l,y\n1,3,,0.5\n2,5,,1\n3,,,2.5\n",
		   SETS("label=y", "task=values", "columns=b.c", "test=0"));
}

static void a_test_file_has_the_same_fields(void **state)
{
	struct tw_data *d;

	(void)state;
	put_text("train.jsonl", "{\"a\": 1, \"k\": \"x\"}\n{\"a\": 2, \"k\": \"y\"}\n");
	put_text("test.jsonl",
		 "{\"k\": \"y\", \"new\": 1, \"a\": 7}\n{\"a\": null, \"k\": \"x\"}\n");
	d = kit_must_open("json-lines", SETS("file=train.jsonl", "test_file=test.jsonl", "label=k",
					     "normalise=none"));
	assert_int_equal(d->test.count, 2);
	assert_true(((const float *)d->test.value)[0] == 7.0f);
	assert_true(((const float *)d->test.value)[1] == 1.5f); /* the mean of the training set */
	assert_int_equal(d->test.label[0], 1);
	tw_data_close(d);
	put_text("test.jsonl", "{\"k\": \"y\", \"b\": 1}\n");
	kit_refuses("json-lines", SETS("file=train.jsonl", "test_file=test.jsonl", "label=k"),
		    PARTS("test.jsonl", "'a'"));
	put_text("test.jsonl", "{\"a\": 1, \"k\": \"y\"}\n{\"a\": 1, \"k\": \"z\"}\n");
	kit_refuses("json-lines", SETS("file=train.jsonl", "test_file=test.jsonl", "label=k"),
		    PARTS("test.jsonl:2: ", "(k): 'z'"));
}

static void what_is_no_table_is_refused(void **state)
{
	static const struct {
		const char *text, *says[3];
	} cases[] = {
		{ "", { "is empty", "lines of JSON" } },
		{ "\n\n", { "is empty" } },
		{ "{\"a\": 1}\n{\"a\": 1", { "rows.jsonl:2: is no JSON" } },
		{ "{\"a\": 1}\n\n{\"a\": 1}", { "rows.jsonl:2: is blank", "at the end only" } },
		{ "{\"a\": 1}\n[1]", { "rows.jsonl:2: is no object", "{\"age\": 31" } },
		{ "{\"a\": 1}\n7", { "rows.jsonl:2: is no object" } },
		{ "{\"a\": 1, \"a\": 2}", { "rows.jsonl:1: is no JSON", "duplicate" } },
		{ "{\"a\": {\"b\": 1}, \"a.b\": 2}", { ":1: field 'a.b' is given twice" } },
		{ "{\"a\": 1, \"b\": [1]}", { ":1: field 'b' is a list", "drop" } },
		{ "{\"\": 1}", { ":1: field ''", "cannot be a column" } },
		{ "{\" a\": 1}", { ":1: field ' a'", "no blank begins" } },
		{ "{\"a\\u0007\": 1}", { ":1: field", "cannot be a column" } },
		{ "{\"a\": \"\\u0000\"}", { ":1: is no JSON" } },
		{ "{\"a\": \"\xff\"}", { ":1: is no JSON", "0xff" } },
		{ "{\"a\": 1e999}", { ":1: is no JSON", "overflow" } },
		{ "{}\n{}", { "its lines have no fields", "at least two" } },
		{ "{\"a\": 1}", { "its lines have one field; at least two" } },
		{ "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}"
		  "}",
		  { "nested deeper than 8" } },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		put_text("rows.jsonl", cases[k].text);
		kit_refuses("json-lines", SETS("file=rows.jsonl"), cases[k].says);
	}
	kit_refuses("json-lines", SETS("file="), PARTS("file: must be given: a file of lines of"));
	/* a cell that is wrong is told with its line, as in a CSV file */
	put_text("rows.jsonl", "{\"w\": 1, \"a\": 1, \"b\": 1}\n{\"a\": 2, \"b\": 2, \"w\": -1}\n");
	kit_refuses("json-lines", SETS("file=rows.jsonl", "weight=w"),
		    PARTS("rows.jsonl:2: column 1: ", "a weight is a number from 0 on"));
	kit_refuses("json-lines", SETS("file=rows.jsonl", "label=nowhere"),
		    PARTS("label: ", "has no column 'nowhere'"));
}

/* Lines that each have a field of their own would be a table of their square. */
static void tables_are_not_squares(void **state)
{
	char *text = malloc(2000 * 20), *at = text;

	(void)state;
	for (int i = 0; i < 2000; i++)
		at += sprintf(at, "{\"k%d\":1}\n", i);
	put_text("rows.jsonl", text);
	kit_refuses("json-lines", SETS("file=rows.jsonl"),
		    PARTS("rows.jsonl:", "different fields", "lack most"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_rows_of_a_table),
		cmocka_unit_test(fields_of_objects_are_wanted_by_name),
		cmocka_unit_test(a_test_file_has_the_same_fields),
		cmocka_unit_test(what_is_no_table_is_refused),
		cmocka_unit_test(tables_are_not_squares),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
