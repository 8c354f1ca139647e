/* SPDX-License-Identifier: Apache-2.0 */
/* test_table.c - tables that belong together: columns matched by name, and readings that are
 * probably not meant. */
#include "data/kit.h"

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

/* The same rows in another order of columns are the same set. */
static void order_does_not_matter(void **state)
{
	struct tw_data *a, *b;

	put_text("one.csv", "a,b,c,kind\n1,2,3,ash\n3,2,1,oak\n");
	put_text("two.csv", "kind, c ,\"a\",b\nash,3,1,2\noak,1,3,2\n");
	a = kit_must_open("csv", SETS("file=train.csv", "test_file=one.csv"));
	b = kit_must_open("csv", SETS("file=train.csv", "test_file=two.csv"));
	assert_int_equal(kit_warned()->count, 0);
	assert_true(tw_sha_same(&a->fingerprint, &b->fingerprint));
	assert_int_equal(b->test.count, 2);
	assert_memory_equal(a->test.value, b->test.value, 6 * sizeof(float));
	assert_memory_equal(a->test.label, b->test.label, 2 * sizeof(uint32_t));
	tw_data_close(b);
	/* the label said by its place in the training file is found by name, too */
	b = kit_must_open("csv", SETS("file=train.csv", "test_file=two.csv", "label=4"));
	assert_true(tw_sha_same(&a->fingerprint, &b->fingerprint));
	tw_data_close(a);
	tw_data_close(b);
}

static void values_are_matched_by_name_too(void **state)
{
	struct tw_data *d;

	put_text("v.csv", "x,y,z\n1,2,3\n4,5,6\n");
	put_text("w.csv", "z,x,y\n30,10,20\n");
	d = kit_must_open("csv", SETS("file=v.csv", "test_file=w.csv", "label=y", "task=values"));
	assert_int_equal(d->test.count, 1);
	assert_true(d->test.target[0] == 20);
	assert_true(((const float *)d->test.value)[0] == 10);
	assert_true(((const float *)d->test.value)[1] == 30);
	tw_data_close(d);
}

/* An id, say: it is not read, and that is said once. */
static void unknown_columns_of_a_test_file_are_passed_over(void **state)
{
	struct tw_data *d;

	put_text("w.csv", "id,kind,c,b,a,\"n\x1bte\"\n7,ash,3,2,1,word\n8,oak,1,2,3,\n");
	kit_warns("csv", SETS("file=train.csv", "test_file=w.csv"),
		  PARTS("w.csv:1:", "no column 'id', 'n?te'", "ignored"));
	d = kit_must_open("csv", SETS("file=train.csv", "test_file=w.csv"));
	assert_true(((const float *)d->test.value)[3] == 3);
	assert_int_equal(d->test.label[1], 2);
	tw_data_close(d);
}

static void what_cannot_be_matched_is_refused(void **state)
{
	static const char *const sets[] = { "file=train.csv", "test_file=w.csv", NULL };
	static const char *const plain[] = { "file=plain.csv", "test_file=w.csv", "task=values",
					     NULL };
	char text[4000] = "k";
	size_t n = 1;

	put_text("w.csv", "a,c,kind\n1,2,oak\n");
	kit_refuses("csv", sets, PARTS("w.csv:1:", "3 columns", "lacks 'b' of the 3"));
	put_text("w.csv", "p,q,r,s\n1,2,3,oak\n");
	kit_refuses("csv", sets, PARTS("w.csv:1:", "lacks 'a', 'b', 'c' of the 3"));
	put_text("w.csv", "a,b,c,sort\n1,2,3,oak\n");
	kit_refuses("csv", sets, PARTS("w.csv:1:", "no column 'kind'"));
	put_text("w.csv", "a,b,c,b,kind\n1,2,3,4,oak\n");
	kit_refuses("csv", sets, PARTS("w.csv:1: columns 2 and 4", "'b'"));
	put_text("w.csv", "kind,a,b,c,kind\noak,1,2,3,oak\n");
	kit_refuses("csv", sets, PARTS("w.csv:1: columns 1 and 5", "'kind'"));
	put_text("w.csv", "1,2,3,oak\n");
	kit_refuses("csv", sets, PARTS("w.csv:1:", "no header", "training file has one"));
	put_text("w.csv", "x,y,z\n1,2,3\n");
	kit_refuses("csv", plain, PARTS("w.csv:1:", "begins with a header", "has none"));
	put_text("w.csv", "1,2\n");
	kit_refuses("csv", plain, PARTS("w.csv:1:", "2 columns", "training file has 3"));
	put_text("w.csv", "kind,a,b,c\noak,1,x,3\n");
	kit_refuses("csv", sets, PARTS("w.csv:2: column 3 (b): 'x'", "a finite number"));
	/* names are listed as far as they fit */
	for (int i = 0; i < 300; i++)
		n += (size_t)sprintf(text + n, ",column%d", i);
	n += (size_t)sprintf(text + n, "\n1");
	for (int i = 0; i < 300; i++)
		n += (size_t)sprintf(text + n, ",2");
	put("big.csv", text, n);
	put_text("w.csv", "a,b\n1,2\n");
	kit_refuses("csv", SETS("file=big.csv", "test_file=w.csv", "label=k", "task=values"),
		    PARTS("w.csv:1:", "lacks 'column0', 'column1'", "more of the 300"));
}

/* The usual surprises of a first table are answered with what to write. */
static void other_habits_are_answered(void **state)
{
	put_text("w.csv", "a;b;c\r\n1;2;3\r\n");
	kit_refuses("csv", SETS("file=w.csv"),
		    PARTS("w.csv:1: has one column", "',';", "separator: ';' would give 3"));
	put_text("w.csv", "a\tb,b\n");
	kit_refuses("csv", SETS("file=w.csv", "separator=;"),
		    PARTS("separator: 'tab' would give 2"));
	put_text("w.csv", "a\n1\n");
	kit_refuses("csv", SETS("file=w.csv"), PARTS("has one column", "separated by ','"));
	put_text("w.csv", "a;b;c\n1,5;2;3\n");
	kit_refuses("csv", SETS("file=w.csv", "separator=;"),
		    PARTS("w.csv:2: column 1 (a): '1,5'", "with a decimal point"));
}

/* Numbers as names: such a header is asked for, and a test file has it too. */
static void numbers_may_be_names(void **state)
{
	struct tw_data *d;

	put_text("n.csv", "0,1,2\n5,6,0\n7,8,1\n");
	put_text("w.csv", "2,1,0\n1,60,50\n");
	d = kit_must_open("csv", SETS("file=n.csv", "test_file=w.csv", "header=yes", "label=3"));
	assert_int_equal(d->test.count, 1);
	assert_true(((const float *)d->test.value)[0] == 50);
	assert_int_equal(d->test.label[0], 1);
	tw_data_close(d);
}

/* A class that is a whole number is known by its value. */
static void whole_classes_are_known_by_value(void **state)
{
	struct tw_data *d;

	put_text("n.csv", "1,07\n2,8\n");
	put_text("w.csv", "3, 7\n4,+8\n5,007\n");
	d = kit_must_open("csv", SETS("file=n.csv", "test_file=w.csv"));
	assert_int_equal(d->test.label[0], 0);
	assert_int_equal(d->test.label[1], 1);
	assert_int_equal(d->test.label[2], 0);
	tw_data_close(d);
	put_text("w.csv", "3,9\n");
	kit_refuses("csv", SETS("file=n.csv", "test_file=w.csv"),
		    PARTS("w.csv:1: column 2:", "'9'", "7, 8"));
}

/* --- what is probably not meant --- */

/* A file of `rows` rows: `line` is told each row's number from 0. */
static void put_rows(const char *header, size_t rows, const char *line)
{
	char *text = malloc(strlen(header) + rows * 80);
	size_t n = (size_t)sprintf(text, "%s", header);

	for (size_t i = 0; i < rows; i++) {
		const unsigned k = (unsigned)i;

		for (const char *p = line; *p; p++)
			switch (*p) {
			case '#': /* 0, 1, 2, ... */
				n += (size_t)sprintf(text + n, "%u", k);
				break;
			case '^': /* 1, 2, 3, ... */
				n += (size_t)sprintf(text + n, "%u", k + 1);
				break;
			case '/': /* whole and increasing, with gaps */
				n += (size_t)sprintf(text + n, "%u", 100 + 7 * k + k % 3);
				break;
			case '~': /* values that are all over the place */
				n += (size_t)sprintf(text + n, "%.3f", (k * 37 % 101) / 8.0 - 3);
				break;
			case '!': /* one of two classes */
				n += (size_t)sprintf(text + n, "%u", k % 2);
				break;
			default:
				text[n++] = *p;
			}
		text[n++] = '\n';
	}
	put("odd.csv", text, n);
	free(text);
}

static const char *const odd[] = { "file=odd.csv", NULL };
static const char *const odd_values[] = { "file=odd.csv", "task=values", NULL };

static void ordinary_tables_are_not_warned_about(void **state)
{
	kit_warns("csv", SETS("file=train.csv", "test_file=test.csv"), NOTHING);
	kit_warns("csv", SETS("file=plain.csv", "task=values"), NOTHING);
	put_rows("length,width,kind\n", 150, "~,~,!");
	kit_warns("csv", odd, NOTHING);
	put_rows("", 150, "~,~,!");
	kit_warns("csv", odd, NOTHING);
	put_rows("", 40, "~,~,~");
	kit_warns("csv", odd_values, NOTHING);
	/* time is no number of the row, pixels are often 0, ids may be anything but numbers */
	put_rows("t,pixel,kind\n", 40, "#,0,!");
	kit_warns("csv", odd, NOTHING);
	put_rows("id,width,kind\n", 40, "~,~,!");
	kit_warns("csv", odd, NOTHING);
	put_rows(",width,kind\n", 40, "!,~,!");
	kit_warns("csv", odd, NOTHING);
	/* every row counts */
	put_rows("", 12, "1,2,3");
	kit_warns("csv", SETS("file=odd.csv", "header=no", "task=values"),
		  PARTS("odd.csv: column 1, column 2", "same value"));
	put_text("odd.csv", "0,1,2\n1,2,3\n2,3,4\n");
	kit_warns("csv", odd_values, NOTHING);
}

static void numbers_as_names_are_doubted(void **state)
{
	put_rows("0,1,2,3\n", 20, "~,~,~,!");
	kit_warns("csv", odd, PARTS("odd.csv:1:", "0, 1, ...", "header: yes", "header: no"));
	kit_warns("csv", SETS("file=odd.csv", "header=no"), NOTHING);
	kit_warns("csv", SETS("file=odd.csv", "header=yes"), NOTHING);
	put_rows("1,2,3,4\n", 20, "~,~,~,~");
	kit_warns("csv", odd_values, PARTS("odd.csv:1:", "1, 2, ...", "header: yes"));
	put_rows("1999,2000,2001\n", 20, "~,~,~");
	kit_warns("csv", odd_values, PARTS("odd.csv:1:", "1999, 2000, ..."));
}

/* It opens without the column, and a note says so. */
static void not_read(const char *const *sets, const char *const *parts)
{
	struct tw_data *d = kit_must_open("csv", sets);

	assert_int_equal(d->features, 1);
	assert_string_equal(d->names.column[0], "width");
	kit_says(d->notes->text[d->notes->count - 1], parts);
	tw_data_close(d);
}

static void columns_that_number_rows_are_not_read(void **state)
{
	put_rows(",width,kind\n", 40, "#,~,!");
	not_read(odd, PARTS("odd.csv: column 1 numbers", "not read"));
	put_rows("\"\",width,kind\n", 40, "^,~,!");
	not_read(odd, PARTS("odd.csv: column 1 numbers", "not read"));
	put_rows("kind,width,Unnamed: 0\n", 40, "!,~,#");
	not_read(SETS("file=odd.csv", "label=kind"),
		 PARTS("odd.csv: column 3 (Unnamed: 0) numbers"));
	put_rows("width,ID,kind\n", 40, "~,/,!");
	not_read(odd, PARTS("odd.csv: column 2 (ID) numbers", "data.numbers"));
	put_rows("kind,width,index\n", 40, "!,~,^");
	not_read(SETS("file=odd.csv", "label=1"), PARTS("odd.csv: column 3 (index) numbers"));
}

/* A warning is cut where it is too long, and stays text. */
static void warnings_are_text(void **state)
{
	char header[700], *p = header;

	for (int k = 0; k < 2; k++) {
		for (int i = 0; i < 120; i++)
			p += sprintf(p, "\xc3\xa4");
		p += sprintf(p, "%d,", k);
	}
	sprintf(p, "kind\n");
	put_rows(header, 40, "5,~,n#");
	tw_data_close(kit_must_open("csv", odd));
	assert_int_equal(kit_warned()->count, 2);
	for (unsigned k = 0; k < 2; k++) {
		const char *text = kit_warned()->text[k];

		for (size_t i = 0; text[i]; i++)
			assert_true(strchr("\xc3\xa4", text[i]) ||
				    ((unsigned char)text[i] >= 0x20 && !(text[i] & 0x80)));
	}
	put_rows(header, 40, "5,6,!");
	kit_warns("csv", odd,
		  PARTS("column 1 (\xc3\xa4", "...), column 2 (\xc3\xa4", "...): every row"));
	put_rows("\xc3\xa4,w,k\n", 40, "5,~,!");
	kit_warns("csv", odd, PARTS("column 1 (\xc3\xa4)"));
}

static void constant_columns_are_doubted(void **state)
{
	put_rows("width,year,kind\n", 40, "~,2024,!");
	kit_warns("csv", odd, PARTS("odd.csv: column 2 (year)", "same value"));
}

static void labels_that_are_no_classes_are_doubted(void **state)
{
	put_rows("width,price\n", 100, "~,^");
	kit_warns("csv", SETS("file=odd.csv", "task=classes"),
		  PARTS("odd.csv: column 2 (price) has 100 different classes in 100 rows",
			"task: values"));
	kit_warns("csv", odd_values, NOTHING);
	put_rows("", 8, "~,~");
	kit_warns("csv", SETS("file=odd.csv", "task=classes"),
		  PARTS("odd.csv: column 2 has 8 different", "task: values"));
	put_rows("width,name\n", 100, "~,n#");
	kit_warns("csv", odd, PARTS("odd.csv: column 2 (name) has 100", "another label"));
	put_rows("width,kind\n", 100, "~,!");
	kit_warns("csv", odd_values, PARTS("odd.csv: column 2 (kind) has only 2", "task: classes"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_does_not_matter),
		cmocka_unit_test(values_are_matched_by_name_too),
		cmocka_unit_test(unknown_columns_of_a_test_file_are_passed_over),
		cmocka_unit_test(what_cannot_be_matched_is_refused),
		cmocka_unit_test(other_habits_are_answered),
		cmocka_unit_test(numbers_may_be_names),
		cmocka_unit_test(whole_classes_are_known_by_value),
		cmocka_unit_test(ordinary_tables_are_not_warned_about),
		cmocka_unit_test(numbers_as_names_are_doubted),
		cmocka_unit_test(columns_that_number_rows_are_not_read),
		cmocka_unit_test(warnings_are_text),
		cmocka_unit_test(constant_columns_are_doubted),
		cmocka_unit_test(labels_that_are_no_classes_are_doubted),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
