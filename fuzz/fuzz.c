/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.c - what the fuzzers share: a heap with bounds, input taken apart, files in memory. */
#include "fuzz.h"

#include "data/columns.h"
#include "data/data.h"
#include "data/format/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void tw_fuzz_broken(const char *file, int line, const char *truth)
{
	fprintf(stderr, "%s:%d: must be true: %s\n", file, line, truth);
	abort();
}

/* --- memory --- */

static void *get(struct tw_heap *heap, size_t bytes)
{
	struct tw_fuzz_heap *h = (struct tw_fuzz_heap *)heap;
	void *memory;

	MUST(!__builtin_add_overflow(h->bytes, bytes, &h->bytes) && h->bytes <= h->most);
	if (++h->calls == h->refuse)
		return NULL;
	memory = tw_heap_system.get(&tw_heap_system, bytes);
	h->live += memory != NULL;
	return memory;
}

static void put(struct tw_heap *heap, void *memory)
{
	struct tw_fuzz_heap *h = (struct tw_fuzz_heap *)heap;

	h->live -= memory != NULL;
	tw_heap_system.put(&tw_heap_system, memory);
}

void tw_fuzz_heap_init(struct tw_fuzz_heap *h, unsigned refuse, size_t most)
{
	*h = (struct tw_fuzz_heap){ .heap = { get, put }, .refuse = refuse, .most = most };
}

/* --- input --- */

uint8_t tw_fuzz_byte(struct tw_fuzz_input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

struct tw_fuzz_input tw_fuzz_piece(struct tw_fuzz_input *in)
{
	const size_t low = tw_fuzz_byte(in), n = low | (size_t)tw_fuzz_byte(in) << 8;
	const struct tw_fuzz_input out = { in->at, n < in->left ? n : in->left };

	in->at += out.left;
	in->left -= out.left;
	return out;
}

const char *tw_fuzz_file(unsigned number, const uint8_t *bytes, size_t n)
{
	static char path[TW_FUZZ_FILES][40];
	static int fd[TW_FUZZ_FILES];

	MUST(number < TW_FUZZ_FILES);
	if (!path[number][0]) {
		fd[number] = memfd_create("fuzz", 0);
		MUST(fd[number] >= 0);
		snprintf(path[number], sizeof path[number], "/proc/self/fd/%d", fd[number]);
	}
	MUST(ftruncate(fd[number], 0) == 0);
	MUST(pwrite(fd[number], bytes, n, 0) == (ssize_t)n);
	return path[number];
}

/* --- what comes out --- */

bool tw_fuzz_tells(void)
{
	static int tells = -1;

	if (tells < 0)
		tells = getenv("TW_FUZZ_TELL") != NULL;
	return tells;
}

void tw_fuzz_told(enum tw_status status, const struct tw_error *why, bool memory_refused)
{
	MUST(status == TW_BAD_INPUT || status == TW_BAD_BYTES || status == TW_ABSENT ||
	     (status == TW_NO_MEMORY && memory_refused));
	MUST(why->status == status && why->text[0] && !strchr(why->text, '\n'));
	if (tw_fuzz_tells())
		fprintf(stderr, "%s: %s\n", tw_status_name(status), why->text);
}

static void fill(const struct tw_data *d, const struct tw_samples *set)
{
	const uint32_t count = set->count < 4 ? (uint32_t)set->count : 4;
	const uint64_t index[4] = { 0, set->count / 2, set->count - 1, 0 };
	const struct tw_batch b = { .set = set, .index = index, .count = count };
	float *x = malloc((count * d->features + 1) * sizeof *x);
	float *target = malloc(((size_t)count * d->targets + 1) * sizeof *target);
	const size_t labels = tw_data_labels(d);
	uint32_t *label = malloc((count * labels + 1) * sizeof *label);

	MUST(x && target && label);
	if (count)
		tw_data_fill(d, &b, NULL, 1, x, label, target);
	for (uint32_t k = 0; k < count; k++)
		MUST(d->targets ? isfinite(target[k * d->targets])
				: label[k * labels] < d->classes);
	for (size_t k = 0; d->tokens && k < count * labels; k++)
		MUST(x[k] >= 0 && x[k] < (float)d->classes && label[k] < d->classes &&
		     ((k + 1) % labels == 0 || x[k + 1] == (float)label[k]));
	free(label);
	free(x);
	free(target);
}

/* Where there are names, there are as many as there should be, and all can be shown. */
static void check_names(const char *const *name, size_t count)
{
	for (size_t k = 0; name && k < count; k++)
		MUST(name[k] && tw_name_valid(name[k], strlen(name[k])));
	MUST(!name || !name[count]);
}

void tw_fuzz_check(const struct tw_data *d)
{
	check_names(d->names.column, d->features);
	check_names(d->names.answer, d->classes ? d->classes : d->targets);
	/* of the file, whose columns need not all be inputs */
	MUST(d->names.place <= (d->columns ? d->columns->all : TW_WORDS_MOST));
	for (unsigned k = 0; d->warnings && k < d->warnings->count; k++)
		MUST(d->warnings->text[k][0] && !strchr(d->warnings->text[k], '\n'));
	MUST(d->features > 0 && d->rank >= 1 && d->rank <= TW_DATA_RANK);
	MUST((d->classes > 0) != (d->targets > 0) && d->train.count > 0);
	fill(d, &d->train);
	fill(d, &d->test);
	fill(d, &d->validation);
}

static enum tw_status set_rows(const struct tw_option *rows, void *base, struct tw_arena *keep,
			       const char *const *options, struct tw_error *why)
{
	enum tw_status st = TW_OK;

	/* rows without a default are the files, which are given */
	for (const struct tw_option *row = rows; row->name && st == TW_OK; row++)
		if (row->standard)
			st = tw_option_set(row, base, row->standard, keep, why);
	for (; options && *options && st == TW_OK; options += 2)
		st = tw_option_set(tw_option_find(rows, options[0]), base, options[1], keep, why);
	return st;
}

void tw_fuzz_data(const char *source, uint8_t choice, struct tw_fuzz_heap *heap,
		  const char *const *options)
{
	const struct tw_source_site site = { .heap = &heap->heap, .cache = "" };
	const struct tw_source *from = tw_source_find(source);
	struct tw_data_options common;
	struct tw_error why = { 0 };
	struct tw_data *d = NULL;
	struct tw_arena keep;
	enum tw_status st;
	void *own;

	tw_arena_init(&keep, &tw_heap_system);
	own = tw_arena_get(&keep, from->options_bytes);
	MUST(own && set_rows(from->options, own, &keep, options, &why) == TW_OK);
	memset(&common, 0, sizeof common);
	MUST(set_rows(tw_data_common_rows, &common, &keep, NULL, &why) == TW_OK);
	common.normalise = choice % 3;
	if (choice & 4)
		common.validation = 0.25;
	if (choice & 8)
		common.samples = 3;

	st = tw_data_open(from, own, &common, &site, choice, &d, &why);
	if (st == TW_OK) {
		tw_fuzz_check(d);
		tw_data_close(d);
	} else {
		tw_fuzz_told(st, &why, heap->refuse && heap->calls >= heap->refuse);
	}
	MUST(heap->live == 0);
	tw_arena_release(&keep);
}
