/* SPDX-License-Identifier: Apache-2.0 */
/* target_rows.c - rows to predict or to score: CSV, NPY and IDX against models of five kinds.
 *
 * Input: choices, the request for memory that is refused, the length of the rows' file (2 bytes),
 * that file; the rest is the file of answers.  A file goes by its path or, gzipped or not, through
 * a pipe. */
#include "fuzz.h"
#include "data/format/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const columns[] = { "a", "b", "c", NULL };
static const char *const words[] = { "cat", "dog", NULL };
static const char *const numbers[] = { "-1", "0", "7", NULL };
static const char *const price[] = { "price", NULL };

/* A number, a category and a date without its time. */
static const char *const colours[] = { "blue", "red", NULL };
static struct tw_column mixed[] = {
	{ .name = "a", .type = TW_COLUMN_NUMBER, .place = 1, .fill = { 0.5f } },
	{ .name = "b", .type = TW_COLUMN_CATEGORY, .place = 2, .word = colours, .words = 2 },
	{ .name = "c", .type = TW_COLUMN_DATE, .place = 4, .fill = { 2000, 1, 1, 1 } },
};
static const uint32_t third[] = { 3 };
static const struct tw_columns table = {
	.column = mixed, .count = 3, .named = true, .all = 4, .label = third, .labels = 1, .raws = 6
};
static const char *const inputs[] = { "a",       "b=blue", "b=red",     "b=?", "c.year",
				      "c.month", "c.day",  "c.weekday", NULL };

static const struct tw_rows_facts models[] = {
	{ 1, { 3 }, TW_VALUE_F32, 2, 0, { columns, words, "class", ',', 4 } },
	{ 1, { 3 }, TW_VALUE_F32, 0, 1, { columns, price, "price", ';', 2 } },
	{ 1, { 2 }, TW_VALUE_F32, 3, 0, { NULL, numbers, NULL, ',', 1 } },
	{ 3, { 1, 2, 3 }, TW_VALUE_U8, 10, 0, { NULL } },
	{ 1, { 8 }, TW_VALUE_F32, 2, 0, { inputs, words, "class", ',', 3 }, &table },
};

static void check_set(const struct tw_data *d)
{
	const uint64_t last = d->test.count - 1;
	const struct tw_batch b = { .set = &d->test, .index = &last, .count = 1 };
	float x[8], target[8];
	uint32_t label;

	MUST(d->features <= 8 && d->targets <= 1);
	tw_data_fill(d, &b, NULL, 1, x, &label, target);
	for (size_t k = 0; k < d->features; k++)
		MUST(isfinite(x[k]));
	MUST(d->targets ? isfinite(target[0]) : label < d->classes);
}

static void check_rows(struct tw_rows *r, bool score)
{
	static const float ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 }, zeros[8];
	uint64_t known = 0;

	MUST(r->count > 0 && r->count == r->data->test.count);
	for (uint64_t i = 0; r->known && i < r->count; i++)
		known += r->known[i];
	MUST(known == r->answers && r->answers <= r->count);
	MUST(!score || r->answers == r->count);
	for (uint32_t k = 0; k < r->extras; k++)
		MUST(r->extra[k]);
	for (uint64_t i = 0; i < r->count * r->extras; i++)
		for (const char *p = r->cell[i]; *p; p++)
			MUST((unsigned char)*p >= 0x20 && *p != 0x7f);
	for (unsigned i = 0; i < r->warnings.count; i++)
		MUST(r->warnings.text[i][0] && !strchr(r->warnings.text[i], '\n'));
	r->data->scale = ones;
	r->data->shift = zeros;
	check_set(r->data);
}

/* Standard input has these bytes; a pipe of that size takes them all. */
static void pipe_in(const uint8_t *bytes, size_t n)
{
	int ends[2];

	MUST(n < 60000 && pipe(ends) == 0);
	MUST(n == 0 || write(ends[1], bytes, n) == (ssize_t)n);
	close(ends[1]);
	MUST(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
	close(ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const char *const formats[] = { NULL, "csv", "npy", "idx" };
	struct tw_fuzz_input in = { bytes, n }, file;
	const uint8_t choice = tw_fuzz_byte(&in);
	/* the last model is the first with other columns */
	const struct tw_rows_facts *model = &models[n % 2 && !(choice & 3) ? 4 : choice & 3];
	struct tw_fuzz_heap heap;
	struct tw_rows_request request = {
		.heap = &heap.heap,
		.format = formats[choice >> 2 & 3],
		.score = choice & 16,
		.separator = choice & 128 ? "tab" : NULL,
	};
	struct tw_error why = { 0 };
	struct tw_rows rows;
	enum tw_status st;

	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in),
			  ((size_t)8 << 20) + n * 1040 * 64 + n * 8320 * 3);
	file = tw_fuzz_piece(&in);
	if (choice & 32) {
		request.file = "-";
		pipe_in(file.at, file.left);
	} else {
		request.file = tw_fuzz_file(0, file.at, file.left);
	}
	if (choice & 64)
		request.answers = tw_fuzz_file(1, in.at, in.left);
	st = tw_rows_open(model, &request, &rows, &why);
	if (st == TW_OK) {
		check_rows(&rows, request.score);
		tw_data_close(rows.data);
	} else {
		MUST(!rows.data);
		tw_fuzz_told(st, &why, heap.refuse && heap.calls >= heap.refuse);
	}
	MUST(heap.live == 0);
	return 0;
}
