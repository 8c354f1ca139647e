/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c - rows for a model: by name, by place, with answers and without, and every way in
 * which they do not fit. */
#include "data/kit.h"
#include "data/format/rows.h"
#include "base/refusing.h"
#include "kit/pictures.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const columns[] = { "a", "b", "c", NULL };
static const char *const kinds[] = { "ash", "elm", "oak", NULL };
static const char *const price[] = { "price", NULL };

static const struct tw_rows_facts trees = {
	.rank = 1,
	.shape = { 3 },
	.kind = TW_VALUE_F32,
	.classes = 3,
	.names = { columns, kinds, "kind", ',', 4 },
};
static const struct tw_rows_facts prices = {
	.rank = 1,
	.shape = { 3 },
	.kind = TW_VALUE_F32,
	.targets = 1,
	.names = { columns, price, "price", ';', 2 },
};
/* as an NPY source makes them */
static const struct tw_rows_facts nameless = {
	.rank = 1,
	.shape = { 3 },
	.kind = TW_VALUE_F32,
	.classes = 3,
};
static const struct tw_rows_facts images = {
	.rank = 3,
	.shape = { 1, 2, 3 },
	.kind = TW_VALUE_U8,
	.classes = 10,
};

static struct tw_rows_request at(const char *file)
{
	static char path[4][600];
	static unsigned next;

	next = (next + 1) % 4;
	if (!strcmp(file, "-"))
		snprintf(path[next], sizeof path[next], "-");
	else
		snprintf(path[next], sizeof path[next], "%s/%s", scratch(), file);
	return (struct tw_rows_request){ .heap = &tw_heap_system, .file = path[next] };
}

static struct tw_rows must(const struct tw_rows_facts *facts, const struct tw_rows_request *request)
{
	struct tw_error why = { 0 };
	struct tw_rows rows;

	if (tw_rows_open(facts, request, &rows, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(rows.data->test.count, rows.count);
	assert_int_equal(rows.data->train.count, 0);
	return rows;
}

static void no(const struct tw_rows_facts *facts, const struct tw_rows_request *request,
	       const char *const *parts)
{
	struct tw_error why = { 0 };
	struct tw_rows rows;
	const enum tw_status st = tw_rows_open(facts, request, &rows, &why);

	if (st != TW_BAD_INPUT || why.status != st)
		fail_msg("%s instead of a refusal: %s", tw_status_name(st), why.text);
	assert_null(rows.data);
	kit_says(why.text, parts);
}

static void refused(const struct tw_rows_facts *facts, const char *text, bool score,
		    const char *const *parts)
{
	struct tw_rows_request q = at("rows.csv");

	q.score = score;
	put_text("rows.csv", text);
	no(facts, &q, parts);
}

static struct tw_rows opened(const struct tw_rows_facts *facts, const char *text, bool score)
{
	struct tw_rows_request q = at("rows.csv");

	q.score = score;
	put_text("rows.csv", text);
	return must(facts, &q);
}

static void has(const struct tw_rows *rows, const float *values)
{
	assert_memory_equal(rows->data->test.value, values, rows->count * 3 * sizeof *values);
}

static const float two[] = { 1, 2, 3, 4, 5, 6 };

static void columns_are_found_by_name(void **state)
{
	struct tw_rows r = opened(&trees, "c,a,b\n3,1,2\n6,4,5\n", false);

	assert_int_equal(r.count, 2);
	has(&r, two);
	assert_int_equal(r.answers, 0);
	assert_null(r.known);
	assert_int_equal(r.extras, 0);
	assert_int_equal(r.data->classes, 3);
	assert_string_equal(r.data->names.answer[2], "oak");
	assert_string_equal(r.data->names.column[0], "a");
	assert_int_equal(r.data->test.label[1], 0);
	assert_int_equal(r.warnings.count, 0);
	tw_data_close(r.data);
	r = opened(&trees, "kind,c,a,b\noak,3,1,2\nash,6,4,5\n", true);
	has(&r, two);
	assert_int_equal(r.answers, 2);
	assert_int_equal(r.data->test.label[0], 2);
	assert_int_equal(r.data->test.label[1], 0);
	tw_data_close(r.data);
	r = opened(&prices, "c;price;a;b\n3;0.5;1;2\n6;7;4;5\n", true);
	has(&r, two);
	assert_true(r.data->test.target[0] == 0.5f && r.data->test.target[1] == 7);
	tw_data_close(r.data);
}

static void columns_are_taken_by_place_without_names(void **state)
{
	struct tw_rows r = opened(&trees, "1,2,3\n4,5,6\n", false);

	has(&r, two);
	assert_int_equal(r.warnings.count, 1);
	kit_says(r.warnings.text[0], PARTS("rows.csv: has no header", "a, b, ..."));
	tw_data_close(r.data);
	r = opened(&trees, "1,2,3,elm\n4,5,6,oak", true);
	has(&r, two);
	assert_int_equal(r.data->test.label[0], 1);
	tw_data_close(r.data);
	r = opened(&prices, "1;9;2;3\n4;8;5;6\n", true);
	has(&r, two);
	assert_true(r.data->test.target[1] == 8);
	tw_data_close(r.data);
	/* a header that the model has no names for is passed over */
	r = opened(&nameless, "x,y,z,k\n1,2,3,2\n4,5,6,01\n", true);
	has(&r, two);
	assert_int_equal(r.data->test.label[0], 2);
	assert_int_equal(r.data->test.label[1], 1);
	assert_int_equal(r.warnings.count, 0);
	tw_data_close(r.data);
	/* numbers as names are data here, which is said */
	r = opened(&nameless, "0,1,2\n9,2,3\n4,5,7\n", false);
	assert_int_equal(r.count, 3);
	assert_int_equal(r.warnings.count, 1);
	kit_says(r.warnings.text[0], PARTS("rows.csv:1:", "counts upwards", "remove it"));
	tw_data_close(r.data);
	/* images as rows */
	r = opened(&images, "0,1,2,3,4,5\n", false);
	assert_int_equal(r.data->rank, 3);
	assert_int_equal(r.data->features, 6);
	tw_data_close(r.data);
}

/* What the model does not know is kept beside the row. */
static void other_columns_are_kept_as_text(void **state)
{
	struct tw_rows r = opened(&trees,
				  "id,a,note,b,c,\"empty \"\n"
				  "r1,1,\"say \"\"hi\"\", now\",2,3,\n"
				  "r2,4,\x1b[2J\xff\xc3\xa4,5,6,x\n",
				  false);

	has(&r, two);
	assert_int_equal(r.extras, 3);
	assert_string_equal(r.extra[0], "id");
	assert_string_equal(r.extra[1], "note");
	assert_string_equal(r.extra[2], "empty");
	assert_null(r.extra[3]);
	assert_string_equal(r.cell[0], "r1");
	assert_string_equal(r.cell[1], "say \"hi\", now");
	assert_string_equal(r.cell[2], "");
	assert_string_equal(r.cell[3], "r2");
	assert_string_equal(r.cell[4], "?[2J?\xc3\xa4");
	assert_string_equal(r.cell[5], "x");
	tw_data_close(r.data);
}

/* An answer that is missing or of no known class does not stop a prediction. */
static void answers_may_lack_where_rows_are_predicted(void **state)
{
	struct tw_rows r = opened(&trees, "a,b,c,kind\n1,2,3,oak\n4,5,6,fir\n7,8,9,\n", false);

	assert_int_equal(r.count, 3);
	assert_int_equal(r.answers, 1);
	assert_true(r.known[0] && !r.known[1] && !r.known[2]);
	assert_int_equal(r.data->test.label[0], 2);
	assert_int_equal(r.data->test.label[1], 0);
	tw_data_close(r.data);
	r = opened(&prices, "a;b;c;price\n1;2;3;\n4;5;6;7.5\n7;8;9;NA\n", false);
	assert_int_equal(r.answers, 1);
	assert_true(!r.known[0] && r.known[1] && !r.known[2]);
	assert_true(r.data->test.target[0] == 0 && r.data->test.target[1] == 7.5f);
	tw_data_close(r.data);
	r = opened(&trees, "a,b,c,kind\n1,2,3,\n", false);
	assert_int_equal(r.answers, 0);
	assert_null(r.known);
	tw_data_close(r.data);
}

static void tables_that_do_not_fit_are_refused(void **state)
{
	refused(&trees, "a,c\n1,2\n", false,
		PARTS("rows.csv:1:", "2 columns", "lacks 'b' of the 3"));
	refused(&trees, "a,b,c,d\n1,2,3,4\n", true, PARTS("rows.csv:1:", "no column 'kind'"));
	refused(&trees, "1,2\n", false,
		PARTS("rows.csv:1:", "2 columns", "takes 3, or 4", "column 4"));
	refused(&trees, "1,2,3\n", true, PARTS("rows.csv:1:", "3 columns", "4 are needed"));
	refused(&trees, "1,2,3,4,5\n", false, PARTS("5 columns", "matched by name"));
	refused(&nameless, "1,2,3,1,5\n", false, PARTS("5 columns", "takes 3, or 4"));
	refused(&trees, "a;b;c\n1;2;3\n", false, PARTS("1 column (separated by ',')", "lacks 'a'"));
	refused(&trees, "a,b,b,c\n1,2,3,4\n", false, PARTS("rows.csv:1: columns 2 and 3", "'b'"));
	refused(&trees, "a,b,c\n1,,3\n", false, PARTS("rows.csv:2: column 2 (b): is empty"));
	refused(&trees, "c,b,a\n1,2,NaN\n", false, PARTS("rows.csv:2: column 3 (a): 'NaN'"));
	refused(&trees, "1,2,3\n4,NA,6\n", false, PARTS("rows.csv:2: column 2 (b): 'NA'"));
	refused(&trees, "1,NA,3\n4,5,6\n", false, PARTS("rows.csv:1: column 2", "'NA'"));
	refused(&trees, "a,b,c\n1,2,3\n4,5\n", false, PARTS("rows.csv:3:", "2 columns"));
	refused(&trees, "a,b,c,kind\n1,2,3,fir\n", true,
		PARTS("rows.csv:2: column 4 (kind): 'fir'", "ash, elm, oak"));
	refused(&trees, "a,b,c,kind\n1,2,3,\n", true,
		PARTS("rows.csv:2: column 4 (kind): is empty"));
	refused(&prices, "a;b;c;price\n1;2;3;x\n", true, PARTS("column 4 (price): 'x'"));
	refused(&trees, "a,b,c\n", false, PARTS("rows.csv:", "no rows"));
	refused(&trees, "", false, PARTS("rows.csv:", "empty"));
	refused(&trees,
		"\xff\xfe"
		"a",
		false, PARTS("rows.csv:", "UTF-16"));
	refused(&trees, "PK\3\4....", false, PARTS("rows.csv:", "ZIP", ".xlsx"));
	refused(&trees, "PAR1....", false,
		PARTS("rows.csv:", "Parquet", "CSV, NPY, IDX or an image"));
}

static void requests_that_make_no_sense_are_refused(void **state)
{
	struct tw_rows_request q = at("rows.csv");
	struct tw_rows_facts f = trees;
	static const char *const same[] = { "a", "b", "a", NULL };

	put_text("rows.csv", "a,b,c\n1,2,3\n");
	q.format = "parquet";
	no(&trees, &q, PARTS("'parquet'", "csv, npy, idx and image"));
	q.format = "npy";
	no(&trees, &q, PARTS("rows.csv", "NPY"));
	q.format = NULL;
	q.answers = "y.npy";
	no(&trees, &q, PARTS("rows.csv", "in a column"));
	q = at("none.csv");
	no(&trees, &q, PARTS("none.csv: cannot be opened"));
	q = at(".");
	no(&trees, &q, PARTS("a folder"));
	q = at("rows.csv");
	f.names.column = same;
	no(&f, &q, PARTS("two columns 'a'"));
	f = trees;
	f.targets = 2;
	no(&f, &q, PARTS("the model"));
	f.classes = 0;
	f.names.answer = NULL;
	no(&f, &q, PARTS("rows.csv", "2 values", "NPY"));
}

static void separators_are_those_of_the_training(void **state)
{
	struct tw_rows_request q = at("rows.tsv");
	struct tw_rows r;

	put_text("rows.tsv", "a\tb\tc\n1\t2\t3\n");
	r = must(&prices, &q);
	has(&r, two);
	tw_data_close(r.data);
	q = at("rows.csv");
	put_text("rows.csv", "a|b|c\n1|2|3\n");
	q.separator = "|";
	r = must(&prices, &q);
	has(&r, two);
	tw_data_close(r.data);
}

static void put_npy(const char *name, const char *header, const void *values, size_t bytes)
{
	uint8_t file[1024];

	put(name, file, kit_npy(file, header, values, bytes));
}

static void arrays_are_read(void **state)
{
	static const double halves[] = { 1, 2, 3, 4, 5, 6 };
	static const int64_t labels[] = { 2, 7 };
	static const float values[] = { 0.25f, 3 };
	struct tw_rows_request q = at("x.npy"), y = at("y.npy");
	struct tw_rows_facts f = nameless;
	static const char *const numbers[] = { "2", "5", "7", NULL };
	struct tw_rows r;

	put_npy("x.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", halves,
		sizeof halves);
	put_npy("y.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", labels,
		sizeof labels);
	put_npy("v.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", values,
		sizeof values);
	r = must(&nameless, &q);
	has(&r, two);
	assert_int_equal(r.answers, 0);
	assert_int_equal(r.data->test.label[1], 0);
	tw_data_close(r.data);
	/* numbers from 0, of which the model knows three */
	q.answers = y.file;
	r = must(&nameless, &q);
	assert_int_equal(r.answers, 1);
	assert_true(r.known[0] && !r.known[1]);
	assert_int_equal(r.data->test.label[0], 2);
	tw_data_close(r.data);
	/* classes that are called by numbers */
	f.names.answer = numbers;
	q.score = true;
	r = must(&f, &q);
	assert_int_equal(r.answers, 2);
	assert_int_equal(r.data->test.label[0], 0);
	assert_int_equal(r.data->test.label[1], 2);
	tw_data_close(r.data);
	no(&nameless, &q, PARTS("y.npy: label 2", "is 7", "3 classes"));
	q.answers = at("v.npy").file;
	no(&nameless, &q, PARTS("v.npy", "floats"));
	r = must(&prices, &q);
	assert_int_equal(r.answers, 2);
	assert_true(r.data->test.target[0] == 0.25f);
	tw_data_close(r.data);
	q.answers = y.file;
	no(&prices, &q, PARTS("y.npy", "1 values"));
	q.answers = "";
	no(&nameless, &q, PARTS("x.npy", "no answers", "NPY or IDX"));
	q.answers = at("rows.csv").file;
	no(&nameless, &q, PARTS("rows.csv", "not an NPY or IDX"));
	put_npy("y.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", labels, 8);
	q.answers = y.file;
	no(&nameless, &q, PARTS("y.npy: has 1 labels", "x.npy has 2"));
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 17);
}

static uint8_t label_at(size_t i)
{
	return (uint8_t)(9 - i);
}

static void images_are_read(void **state)
{
	static const float unit[] = { 0, 0.5f, 1, 0.25f, 0, 1 };
	struct tw_rows_request q = at("images"), flat = at("x.npy");
	uint8_t file[200];
	struct tw_rows r;

	kit_put_gzip("images", file, kit_idx(file, 8, 3, (const uint32_t[]){ 4, 2, 3 }, byte_at));
	put("labels", file, kit_idx(file, 8, 1, (const uint32_t[]){ 4 }, label_at));
	q.answers = at("labels").file;
	q.score = true;
	r = must(&images, &q);
	assert_int_equal(r.count, 4);
	assert_int_equal(r.answers, 4);
	assert_int_equal(r.data->kind, TW_VALUE_U8);
	assert_int_equal(r.data->test.label[3], 6);
	assert_int_equal(((const uint8_t *)r.data->test.value)[23], byte_at(23));
	tw_data_close(r.data);
	put("images", file, kit_idx(file, 8, 3, (const uint32_t[]){ 4, 3, 2 }, byte_at));
	no(&images, &q, PARTS("images", "1x3x2", "1x2x3"));
	put("images", file, kit_idx(file, 8, 3, (const uint32_t[]){ 0, 3, 2 }, byte_at));
	no(&images, &q, PARTS("images", "no samples"));
	/* flat floats will do, but not divided by 255 */
	put_npy("x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6), }", unit,
		sizeof unit);
	r = must(&images, &flat);
	assert_int_equal(r.data->rank, 3);
	assert_int_equal(r.warnings.count, 1);
	kit_says(r.warnings.text[0], PARTS("x.npy", "between 0 and 1", "0 to 255"));
	tw_data_close(r.data);
	no(&nameless, &flat, PARTS("x.npy", "6 values", "takes 3"));
}

struct writer {
	int fd;
	const char *path;
	const void *bytes;
	size_t n, each;
};

static void *write_slowly(void *arg)
{
	struct writer *w = arg;
	const char *p = w->bytes;

	if (w->path)
		w->fd = open(w->path, O_WRONLY);
	for (size_t at = 0; at < w->n; at += w->each) {
		const size_t n = w->n - at < w->each ? w->n - at : w->each;

		if (write(w->fd, p + at, n) != (ssize_t)n)
			break;
		if (at < 5 * w->each)
			usleep(1000);
	}
	close(w->fd);
	return NULL;
}

/* Read what is written piece by piece into a pipe: standard input, or a FIFO by its path. */
static struct tw_rows piped(const char *fifo, const void *bytes, size_t n, size_t each)
{
	struct tw_rows_request q = at(fifo ? fifo : "-");
	struct writer w = { .path = fifo ? q.file : NULL, .bytes = bytes, .n = n, .each = each };
	struct tw_rows r;
	pthread_t thread;
	int ends[2] = { -1, -1 }, before = -1;

	if (fifo) {
		assert_int_equal(mkfifo(q.file, 0600), 0);
	} else {
		assert_int_equal(pipe(ends), 0);
		before = dup(STDIN_FILENO);
		dup2(ends[0], STDIN_FILENO);
		close(ends[0]);
		w.fd = ends[1];
	}
	assert_int_equal(pthread_create(&thread, NULL, write_slowly, &w), 0);
	r = must(&nameless, &q);
	pthread_join(thread, NULL);
	if (!fifo) {
		dup2(before, STDIN_FILENO);
		close(before);
	}
	return r;
}

static void streams_are_read_to_their_end(void **state)
{
	const size_t lines = 40000;
	char *text = malloc(lines * 6);
	struct tw_rows r;
	uint8_t *bytes;
	size_t n;

	for (size_t i = 0; i < lines; i++)
		memcpy(text + 6 * i, "1,2,3\n", 6);
	r = piped(NULL, text, 6 * lines, 50000);
	assert_int_equal(r.count, lines);
	tw_data_close(r.data);
	r = piped("fifo", "a,b,c\n1,2,3\n4,5,6\n", 18, 1);
	assert_int_equal(r.count, 2);
	has(&r, two);
	tw_data_close(r.data);
	/* gzip, byte by byte; and an array */
	kit_put_gzip("rows.gz", text, 6000);
	bytes = kit_get("rows.gz", &n);
	r = piped(NULL, bytes, n, 1);
	assert_int_equal(r.count, 1000);
	tw_data_close(r.data);
	free(bytes);
	put_npy("x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", two,
		sizeof two);
	bytes = kit_get("x.npy", &n);
	r = piped(NULL, bytes, n, 7);
	has(&r, two);
	tw_data_close(r.data);
	free(bytes);
	free(text);
}

static void every_allocation_may_fail(void **state)
{
	static const struct {
		const struct tw_rows_facts *facts;
		const char *file, *answers;
	} cases[] = {
		{ &trees, "rows.csv", "" },
		{ &nameless, "one.csv.gz", "" },
		{ &nameless, "x.npy", "y.npy" },
		{ &images, "images", "labels" },
	};

	uint8_t file[400];

	put_text("rows.csv", "id,kind,a,b,c\n1,oak,2,3,4\n2,fir,3,4,5\n");
	kit_put_gzip("one.csv.gz", "1,2,3,1\n", 8);
	put_npy("x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", two,
		sizeof two);
	put_npy("y.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\1\2", 2);
	put("images", file, kit_idx(file, 8, 3, (const uint32_t[]){ 4, 2, 3 }, byte_at));
	put("labels", file, kit_idx(file, 8, 1, (const uint32_t[]){ 4 }, label_at));
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
		for (unsigned nth = 1;; nth++) {
			struct refusing h = REFUSING(nth);
			struct tw_rows_request q = at(cases[k].file);
			struct tw_error why = { 0 };
			struct tw_rows r;
			enum tw_status st;

			q.heap = &h.heap;
			q.answers = *cases[k].answers ? at(cases[k].answers).file : "";
			st = tw_rows_open(cases[k].facts, &q, &r, &why);
			if (h.calls < nth) {
				assert_int_equal(st, TW_OK);
				tw_data_close(r.data);
				assert_int_equal(h.live, 0);
				assert_true(nth > 4);
				break;
			}
			assert_int_equal(st, TW_NO_MEMORY);
			assert_true(why.text[0]);
			assert_null(r.data);
			assert_int_equal(h.live, 0);
		}
}

static uint16_t shade(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint16_t)((31 * x + 57 * y + 91 * c) & 255);
}

/* An image is what the source of images makes of it, for a model of either number of channels. */
static void an_image_is_cut_as_in_training(void **state)
{
	static uint8_t bytes[KIT_PICTURE_MOST];
	const struct kit_png how = {
		.width = 17, .height = 11, .depth = 8, .type = 2, .value = shade
	};
	const size_t n = kit_png(bytes, &how);
	struct tw_rows_request q = at("one.png");

	(void)state;
	mkdir(path_of("pics"), 0700);
	mkdir(path_of("pics/a"), 0700);
	mkdir(path_of("pics/b"), 0700);
	put("pics/a/0.png", bytes, n);
	put("pics/b/0.png", bytes, n);
	put("one.png", bytes, n);
	for (uint32_t channels = 1; channels <= 3; channels += 2) {
		struct tw_rows_facts f = images;
		struct tw_data *d = kit_must_open(
			"images", channels == 1
					  ? SETS("path=pics", "size=4x6", "test=0", "channels=1")
					  : SETS("path=pics", "size=4x6", "test=0"));
		struct tw_rows r;

		memcpy(f.shape, d->shape, sizeof f.shape);
		r = must(&f, &q);
		assert_int_equal(r.count, 1);
		assert_int_equal(r.answers, 0);
		assert_int_equal(r.data->kind, TW_VALUE_U8);
		assert_int_equal(r.data->features, 24 * channels);
		assert_memory_equal(r.data->test.value, d->train.value, d->features);
		tw_data_close(r.data);
		tw_data_close(d);
	}
	q.format = "image";
	no(&trees, &q, PARTS("one.png: is an image", "the model takes 3 values"));
	q.score = true;
	no(&images, &q, PARTS("one.png: is one image", "scoring needs NPY or IDX"));
	q.score = false;
	put("one.png", bytes, n - 1);
	no(&images, &q, PARTS("one.png: cannot be read: it ends too early", "a whole PNG or JPEG"));
	put_text("one.png", "1,2,3\n");
	no(&images, &q, PARTS("one.png: cannot be read; a whole PNG or JPEG"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_found_by_name),
		cmocka_unit_test(columns_are_taken_by_place_without_names),
		cmocka_unit_test(other_columns_are_kept_as_text),
		cmocka_unit_test(answers_may_lack_where_rows_are_predicted),
		cmocka_unit_test(tables_that_do_not_fit_are_refused),
		cmocka_unit_test(requests_that_make_no_sense_are_refused),
		cmocka_unit_test(separators_are_those_of_the_training),
		cmocka_unit_test(arrays_are_read),
		cmocka_unit_test(images_are_read),
		cmocka_unit_test(streams_are_read_to_their_end),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(an_image_is_cut_as_in_training),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
