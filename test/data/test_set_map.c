/* SPDX-License-Identifier: Apache-2.0 */
/* test_set_map.c - a set that was written to a file and is mapped is the set that was in memory,
 * and files that are something else are refused with a sentence. */
#include "data/kit.h"
#include "data/data_memory.h"
#include "data/format/set_file.h"
#include "data/format/set_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const struct sample {
	const char *source;
	const char *sets[8];
} samples[] = {
	{ "digits", { "count=40", "tests=10" } },
	{ "digits", { "count=40", "tests=10", "validation=0.25", "samples=20" } },
	{ "idx",
	  { "images=images", "labels=labels", "test_images=test-images.gz",
	    "test_labels=test-labels" } },
	{ "idx", { "images=images", "labels=labels", "test=0.25", "validation=0.1", "samples=3" } },
	{ "csv", { "file=train.csv", "test_file=test.csv" } },
	{ "csv", { "file=plain.csv", "task=values", "label=2", "header=no", "test=0.4" } },
	{ "csv", { "file=heavy.csv", "weight=w", "label=c", "test=0.3" } },
	{ "npy", { "x=x.npy", "y=y.npy" } },
	{ "images", { "path=pics", "test=0.3" } },
	{ "text", { "file=text.txt", "length=5", "validation=0.1" } },
	{ "tokens", { "file=tokens.bin", "vocabulary=300", "length=4" } },
};
#define SAMPLES (sizeof samples / sizeof samples[0])

static void same_sets(const struct tw_data *a, const struct tw_data *b)
{
	const size_t values = a->features + a->targets + 1;
	float *x = calloc(values, 8), *y = calloc(values, 8);

	for (int which = TW_SET_TEST; which <= TW_SET_TRAIN; which++) {
		const struct tw_samples *s = tw_data_set(a, (enum tw_data_set)which);
		const struct tw_samples *r = tw_data_set(b, (enum tw_data_set)which);

		assert_int_equal(s->count, r->count);
		for (uint64_t i = 0; i < s->count; i++) {
			const struct tw_batch from = { s, &i, 1, i }, to = { r, &i, 1, i };
			uint32_t label[784] = { 7 }, same[784] = { 7 };

			assert_int_equal(tw_data_fill(a, &from, NULL, 3, x, label, x + a->features),
					 TW_OK);
			assert_int_equal(tw_data_fill(b, &to, NULL, 3, y, same, y + a->features),
					 TW_OK);
			assert_memory_equal(x, y, values * sizeof *x);
			assert_memory_equal(label, same, tw_data_labels(a) * sizeof *label);
		}
	}
	assert_true(!a->weight == !b->weight);
	if (a->weight)
		assert_memory_equal(a->weight, b->weight, a->train.count * sizeof(float));
	free(x);
	free(y);
}

static void mapped_is_the_same(void **state)
{
	static const char *const how[] = { "normalise=none", "normalise=unit",
					   "normalise=standard" };
	bool weighed = false;

	for (size_t k = 0; k < SAMPLES; k++) {
		kit_import(samples[k].source, samples[k].sets, "a.tws");
		for (int n = 0; n < 3; n++) {
			const char *sets[10] = { NULL };
			size_t words = 0;
			struct tw_data *d, *m;

			while (samples[k].sets[words]) {
				sets[words] = samples[k].sets[words];
				words++;
			}
			sets[words] = how[n];
			d = kit_must_open(samples[k].source, sets);
			m = kit_must_open("set-file", SETS("file=a.tws", how[n]));
			assert_true(tw_sha_same(&d->fingerprint, &m->fingerprint));
			assert_true(m->divided && m->train.supply);
			assert_true(!m->known.feature == m->tokens);
			assert_memory_equal(d->scale, m->scale, d->features * sizeof(float));
			assert_memory_equal(d->shift, m->shift, d->features * sizeof(float));
			if (d->targets)
				assert_memory_equal(d->target_scale, m->target_scale,
						    2 * d->targets * sizeof(float));
			same_sets(d, m);
			weighed |= m->weight != NULL;
			tw_data_close(m);
			tw_data_close(d);
		}
	}
	assert_true(weighed);
}

static struct tw_data *map(const char *name, enum tw_status wanted, struct tw_error *why)
{
	const struct tw_reach reach = { TW_REACH_ALL, scratch() };
	const struct tw_source_site site = { .heap = &tw_heap_system, .base = &reach };
	struct tw_data *d = tw_heap_zeros(site.heap, sizeof *d);
	char path[4200];

	d->heap = site.heap;
	*why = (struct tw_error){ 0 };
	snprintf(path, sizeof path, "%s/%s", scratch(), name);
	assert_int_equal(tw_set_map(&site, path, d, why), wanted);
	return d;
}

/* Every byte that is changed is seen when all of it is looked at; those of the head, the names and
 * the statistics also at once.  Zeros between arrays mean nothing. */
static void damage_is_seen(void **state)
{
	for (size_t k = 0; k < SAMPLES; k++) {
		struct tw_error why;
		uint64_t harmless = 0, late = 0;
		size_t n;
		uint8_t *bytes;
		struct tw_data *d;

		kit_import(samples[k].source, samples[k].sets, "a.tws");
		bytes = kit_get("a.tws", &n);
		d = map("a.tws", TW_OK, &why);
		assert_int_equal(tw_set_check("a.tws", d, &why), TW_OK);
		tw_data_close(d);
		for (size_t at = 0; at<n; at += n> 2000 && at > TW_SET_HEAD ? 41 : 1) {
			struct tw_data m = { .heap = &tw_heap_system };
			enum tw_status st;

			why = (struct tw_error){ 0 };
			bytes[at] ^= (uint8_t)(1u << at % 8);
			st = tw_set_lay("a set", bytes, n, &m, &why);
			assert_true(at >= TW_SET_HEAD || st == TW_BAD_BYTES);
			if (st == TW_OK) {
				late++;
				st = tw_set_check("a set", &m, &why);
			}
			if (st == TW_OK)
				harmless++;
			else
				assert_true(st == TW_BAD_BYTES &&
					    strncmp(why.text, "a set: ", 7) == 0);
			tw_data_keep_release(&m);
			bytes[at] ^= (uint8_t)(1u << at % 8);
		}
		assert_true(late > 0 && harmless < 64 * 8);
		for (size_t less = 0; less < n; less += less < 200 ? 1 : 53) {
			struct tw_data m = { .heap = &tw_heap_system };

			why = (struct tw_error){ 0 };
			assert_int_equal(tw_set_lay("a set", bytes, less, &m, &why), TW_BAD_BYTES);
			if (!strstr(why.text, "is truncated") && !strstr(why.text, "more names"))
				fail_msg("%zu bytes: %s", less, why.text);
			tw_data_keep_release(&m);
		}
		free(bytes);
	}
}

/* Statistics that are not those of the samples are believed, and found by the check. */
static void false_statistics_are_found(void **state)
{
	struct tw_data m = { .heap = &tw_heap_system };
	struct tw_error why = { 0 };
	size_t n;
	uint8_t *bytes;
	uint64_t from, hash;
	double mean = 5;

	kit_import("digits", samples[0].sets, "a.tws");
	bytes = kit_get("a.tws", &n);
	memcpy(&from, bytes + 112, sizeof from);
	memcpy(bytes + from + 8, &mean, sizeof mean);
	hash = XXH3_64bits(bytes + from + 8, n - from - 8);
	memcpy(bytes + from, &hash, sizeof hash);
	assert_int_equal(tw_set_lay("a set", bytes, n, &m, &why), TW_OK);
	assert_int_equal(tw_set_check("a set", &m, &why), TW_BAD_BYTES);
	kit_says(why.text, PARTS("its statistics are not those of its samples"));
	tw_data_keep_release(&m);
	free(bytes);
}

static void refusals(void **state)
{
	static const struct {
		const char *set, *says;
	} wrong[] = {
		{ "samples=20", "samples: the set was divided when it was imported" },
		{ "test=0.3", "test: the set was divided" },
		{ "fold=1/5", "fold: the set was divided" },
		{ "validation=0.1", "validation: the set was divided" },
		{ "split=2", "split: the set was divided" },
		{ "evaluate=validation",
		  "evaluate: set-file was imported without a validation set" },
		{ "shift=40", "shift: 40 pixels" },
	};
	const uint8_t gzip[] = { 31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

	kit_import("digits", samples[0].sets, "a.tws");
	for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++)
		kit_refuses("set-file", SETS("file=a.tws", wrong[k].set), PARTS(wrong[k].says));
	kit_refuses("set-file", NOTHING, PARTS("file: must be given", "data import"));
	kit_refuses("set-file", SETS("file=none.tws"), PARTS("none.tws"));
	kit_refuses("set-file", SETS("file=images"), PARTS("not a data set of thalweg"));
	put("zip.tws", gzip, sizeof gzip);
	kit_refuses("set-file", SETS("file=zip.tws"), PARTS("zip.tws", "unzip"));
	put("empty.tws", "", 0);
	kit_refuses("set-file", SETS("file=empty.tws"), PARTS("empty.tws", "is empty"));
	put("short.tws", "TWSET\r\n\x1a", 8);
	kit_refuses("set-file", SETS("file=short.tws"), PARTS("is truncated: it has 8 bytes"));
}

/* A validation set that was imported is one to evaluate on. */
static void imported_validation_is_used(void **state)
{
	struct tw_data *d;

	kit_import("digits", samples[1].sets, "v.tws");
	d = kit_must_open("set-file", SETS("file=v.tws", "evaluate=validation"));
	assert_int_equal(d->validation.count, 10);
	tw_data_close(d);
}

static void heard(void *arg, const char *file, const char *doing, uint64_t done, uint64_t total)
{
	uint64_t *last = arg;

	assert_string_equal(doing, "writing");
	assert_string_equal(file, "big.tws");
	assert_true(done > *last && done <= total);
	*last = done;
}

static void progress_is_told(void **state)
{
	struct tw_data *d = kit_must_read("digits", SETS("count=12000", "tests=10"));
	char path[4200];
	struct tw_error why = { 0 };
	uint64_t last = 0, bytes;
	const struct tw_data_listener l = { heard, &last };
	int fd;

	snprintf(path, sizeof path, "%s/big.tws", scratch());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	assert_int_equal(tw_set_write(d, "big.tws", fd, &l, &bytes, &why), TW_OK);
	assert_true(last > TW_HEARD_EVERY && last <= bytes);
	close(fd);
	tw_data_close(d);
}

static void a_full_disk_is_told(void **state)
{
	struct tw_data *d = kit_must_read("digits", SETS("count=4000", "tests=10"));
	struct tw_error why = { 0 };
	uint64_t bytes;
	const int fd = open("/dev/full", O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(tw_set_write(d, "full.tws", fd, NULL, &bytes, &why), TW_IO);
	kit_says(why.text, PARTS("full.tws: cannot be written: No space left"));
	close(fd);
	tw_data_close(d);
}

static int setup(void **state)
{
	static const char heavy[] = "a,b,c,w\n1,2,x,0.5\n3,5,y,2\n4,4,x,1\n7,1,y,0\n2,2,x,3\n"
				    "9,1,y,1\n3,3,x,1\n5,8,y,1.5\n6,6,x,1\n1,0,y,2\n";

	if (scratch_make(state))
		return -1;
	kit_put_idx_set();
	kit_put_csv_set();
	kit_put_npy_set();
	kit_put_text_set();
	kit_put_pictures();
	put("heavy.csv", heavy, sizeof heavy - 1);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapped_is_the_same),          cmocka_unit_test(damage_is_seen),
		cmocka_unit_test(false_statistics_are_found),  cmocka_unit_test(refusals),
		cmocka_unit_test(imported_validation_is_used), cmocka_unit_test(progress_is_told),
		cmocka_unit_test(a_full_disk_is_told),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
