/* SPDX-License-Identifier: Apache-2.0 */
/* test_set_rest.c - a data set goes out without its training samples, and these step by step: a
 * worker makes the same batches of them; what is damaged is refused with a sentence. */
#include "data/kit.h"
#include "base/refusing.h"
#include "data/format/set_rest.h"
#include "kit/has.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct sample {
	const char *source;
	const char *sets[8];
} samples[] = {
	{ "digits", { "count=40", "tests=10" } },
	{ "digits", { "count=40", "tests=10", "validation=0.25", "class_weights=balanced" } },
	{ "idx",
	  { "images=images", "labels=labels", "test_images=test-images.gz",
	    "test_labels=test-labels", "normalise=unit" } },
	{ "csv", { "file=train.csv", "test_file=test.csv" } },
	{ "csv",
	  { "file=plain.csv", "task=values", "label=2", "header=no", "test=0.4",
	    "normalise_targets=standard" } },
	{ "npy", { "x=x.npy", "y=x.npy", "normalise=none", "test=0" } },
	{ "text", { "file=text.txt", "length=5", "validation=0.1" } },
};
#define SAMPLES (sizeof samples / sizeof samples[0])

struct bytes {
	uint8_t *at;
	uint64_t n, next;
};

static enum tw_status give(void *arg, uint64_t from, void *to, size_t n, struct tw_error *why)
{
	struct bytes *b = arg;

	(void)why;
	assert_true(from == b->next && n <= b->n - from);
	b->next += n;
	memcpy(to, b->at + from, n);
	return TW_OK;
}

static struct tw_data_options options_of(const struct sample *s)
{
	struct tw_data_options o;
	struct tw_arena keep;

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(tw_data_common_rows, &o, &keep, NULL), TW_OK);
	for (size_t k = 0; s->sets[k]; k++)
		if (strncmp(s->sets[k], "normalise", 9) == 0 ||
		    strncmp(s->sets[k], "class_weights", 13) == 0) {
			char name[40];
			const char *is = strchr(s->sets[k], '=');

			snprintf(name, sizeof name, "%.*s", (int)(is - s->sets[k]), s->sets[k]);
			assert_int_equal(tw_option_set(tw_option_find(tw_data_common_rows, name),
						       &o, is + 1, &keep, NULL),
					 TW_OK);
		}
	o.fold = "";
	tw_arena_release(&keep);
	return o;
}

static struct bytes bytes_of(const struct tw_data *d)
{
	struct tw_set_rest *r = NULL;
	struct tw_error why = { 0 };
	struct bytes b = { 0 };
	uint64_t half;

	assert_int_equal(tw_set_rest_make(d, &r, &why), TW_OK);
	b.n = tw_set_rest_bytes(r);
	b.at = malloc(b.n);
	half = b.n / 3; /* any piece of it may be asked for */
	assert_non_null(b.at);
	assert_int_equal(tw_set_rest_copy(r, half, b.at + half, b.n - half), TW_OK);
	assert_int_equal(tw_set_rest_copy(r, 0, b.at, half), TW_OK);
	assert_int_equal(tw_set_rest_copy(r, b.n - 1, b.at, 2), TW_BAD_INPUT);
	tw_set_rest_free(r);
	return b;
}

static enum tw_status open_bytes(struct tw_heap *heap, struct bytes *b, const struct tw_data *d,
				 const struct tw_data_options *o, struct tw_data **out,
				 struct tw_error *why)
{
	const struct tw_set_origin from = {
		.name = "a set",
		.read = give,
		.arg = b,
		.bytes = b->n,
		.fingerprint = d->fingerprint,
	};
	uint64_t length = 0;
	enum tw_status st;

	b->next = 0;
	*why = (struct tw_error){ 0 };
	*out = NULL;
	st = tw_set_rest_open(heap, &from, o, out, &length, why);
	if (st == TW_OK)
		assert_true(length == b->n && b->next == b->n);
	return st;
}

/* Batches of one made of what is here, and of what was sent. */
static void same_batches(const struct tw_data *here, const struct tw_data *there)
{
	enum { COUNT = 5 };
	const struct tw_data_options moved = { .shift = here->rank == 3, .noise = 0.5 };
	const uint64_t index[COUNT] = { 3, 1, 0, here->train.count - 1, 1 };
	const struct tw_batch from = { &here->train, index, COUNT, 70, NULL };
	const size_t bytes = tw_data_pack_bytes(here, COUNT), answers = 800 * COUNT;
	uint8_t *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
	float *x = calloc(here->features * COUNT, 4), *y = calloc(here->features * COUNT, 4);
	float a[800 * COUNT] = { 0 }, b[800 * COUNT] = { 0 };
	struct tw_batch to = { &there->train, NULL, COUNT, 70, packed };
	const float *weight;

	assert_true(packed && x && y);
	assert_true(there->train.count == here->train.count && !there->train.value);
	assert_true(tw_data_pack_bytes(there, COUNT) == bytes);
	assert_int_equal(tw_data_pack(here, &from, packed), TW_OK);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(
			tw_data_fill(here, &from, k ? &moved : NULL, 3, x, (uint32_t *)a, a),
			TW_OK);
		assert_int_equal(
			tw_data_fill(there, &to, k ? &moved : NULL, 3, y, (uint32_t *)b, b), TW_OK);
		assert_memory_equal(x, y, here->features * COUNT * sizeof *x);
		assert_memory_equal(a, b, answers * sizeof *a);
	}
	weight = tw_data_packed_weights(there, packed, COUNT);
	assert_true(!weight == !here->weight);
	for (int k = 0; weight && k < COUNT; k++)
		assert_true(weight[k] == here->weight[index[k]]);
	if (here->classes) { /* a label that no class has */
		memset(packed + bytes - COUNT * (weight ? 4 : 0) - 4, 0xff, 4);
		assert_int_equal(tw_data_fill(there, &to, NULL, 3, y, (uint32_t *)b, b),
				 TW_BAD_BYTES);
	}
	free(y);
	free(x);
	free(packed);
}

static void same_rest(const struct tw_data *a, const struct tw_data *b)
{
	const struct tw_samples *sets[][2] = { { &a->test, &b->test },
					       { &a->validation, &b->validation } };

	assert_memory_equal(a->scale, b->scale, a->features * sizeof *a->scale);
	assert_memory_equal(a->shift, b->shift, a->features * sizeof *a->shift);
	assert_true(!a->target_scale == !b->target_scale);
	for (uint32_t k = 0; a->target_scale && k < a->targets; k++)
		assert_true(a->target_scale[k] == b->target_scale[k] &&
			    a->target_shift[k] == b->target_shift[k]);
	assert_true(tw_sha_same(&a->fingerprint, &b->fingerprint));
	for (size_t k = 0; k < 2; k++) {
		const size_t bytes = sets[k][0]->count * tw_samples_width(a);

		assert_true(sets[k][0]->count == sets[k][1]->count);
		if (bytes)
			assert_memory_equal(sets[k][0]->value, sets[k][1]->value, bytes);
	}
}

static void a_worker_makes_the_same_batches(void **state)
{
	for (size_t k = 0; k < SAMPLES; k++) {
		const struct tw_data_options o = options_of(&samples[k]);
		struct tw_data *d = kit_must_open(samples[k].source, samples[k].sets), *rest;
		struct bytes b = bytes_of(d);
		struct tw_error why;

		if (open_bytes(&tw_heap_system, &b, d, &o, &rest, &why) != TW_OK)
			fail_msg("%s %zu: %s", samples[k].source, k, why.text);
		same_rest(d, rest);
		same_batches(d, rest);
		tw_data_close(rest);
		tw_data_close(d);
		free(b.at);
	}
}

/* Each byte is covered by a hash, and each length is looked at. */
static void damage_is_refused(void **state)
{
	const struct sample *s = &samples[3];
	const struct tw_data_options o = options_of(s);
	struct tw_data *d = kit_must_open(s->source, s->sets), *rest;
	struct bytes b = bytes_of(d);
	const uint64_t whole = b.n;
	struct tw_error why;

	for (uint64_t at = 0; at < whole; at++) {
		b.at[at] ^= 4;
		if (open_bytes(&tw_heap_system, &b, d, &o, &rest, &why) == TW_OK) {
			const uint64_t zeros = 112 + 2 * d->features * 4;

			/* between the scales and the set is nothing */
			assert_true(at >= zeros && at < (zeros + 63) / 64 * 64);
			tw_data_close(rest);
		} else {
			assert_true(why.status == TW_BAD_BYTES && *why.text);
		}
		b.at[at] ^= 4;
	}
	for (b.n = 0; b.n < whole; b.n++)
		if (open_bytes(&tw_heap_system, &b, d, &o, &rest, &why) != TW_BAD_BYTES)
			fail_msg("%llu bytes are taken", (unsigned long long)b.n);
	b.n = whole;
	d->fingerprint.b[3] ^= 1;
	assert_int_equal(open_bytes(&tw_heap_system, &b, d, &o, &rest, &why), TW_BAD_BYTES);
	has(why.text, "another data set");
	tw_data_close(d);
	free(b.at);
}

static void every_allocation_may_fail(void **state)
{
	const struct sample *s = &samples[4];
	const struct tw_data_options o = options_of(s);
	struct tw_data *d = kit_must_open(s->source, s->sets), *rest;
	struct bytes b = bytes_of(d);
	struct tw_error why;

	for (unsigned nth = 1;; nth++) {
		struct refusing r = { .heap = { refusing_get, refusing_put }, .refuse = nth };
		const enum tw_status st = open_bytes(&r.heap, &b, d, &o, &rest, &why);

		if (st == TW_OK)
			tw_data_close(rest);
		assert_int_equal(r.live, 0);
		if (r.calls < nth) {
			assert_int_equal(st, TW_OK);
			break;
		}
		assert_int_equal(st, TW_NO_MEMORY);
	}
	tw_data_close(d);
	free(b.at);
}

static int files(void **state)
{
	if (scratch_make(state))
		return -1;
	kit_put_idx_set();
	kit_put_csv_set();
	kit_put_npy_set();
	kit_put_text_set();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_makes_the_same_batches),
		cmocka_unit_test(damage_is_refused),
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, files, scratch_remove);
}
