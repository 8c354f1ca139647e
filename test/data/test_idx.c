/* SPDX-License-Identifier: Apache-2.0 */
/* test_idx.c - IDX files: shapes and types, and every way in which they can be wrong. */
#include "data/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WHOLE                                                                                      \
	"images=images", "labels=labels", "test_images=test-images.gz", "test_labels=test-labels"

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 37 + i / 7);
}

static uint8_t label_at(size_t i)
{
	return (uint8_t)(i % 3);
}

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	kit_put_idx_set();
	return 0;
}

static void a_whole_set_is_read(void **state)
{
	struct tw_data *d = kit_must_open("idx", SETS(WHOLE));
	const uint8_t *v = d->train.value, *t = d->test.value;

	assert_int_equal(d->rank, 3);
	assert_int_equal(d->shape[0], 1);
	assert_int_equal(d->shape[1], 5);
	assert_int_equal(d->shape[2], 4);
	assert_int_equal(d->kind, TW_VALUE_U8);
	assert_int_equal(d->train.count, 12);
	assert_int_equal(d->test.count, 4);
	assert_int_equal(d->classes, 3);
	for (size_t i = 0; i < 240; i++)
		assert_int_equal(v[i], byte_at(i));
	for (size_t i = 0; i < 80; i++)
		assert_int_equal(t[i], byte_at(i));
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(d->train.label[i], i % 3);
	tw_data_close(d);
}

static void other_ranks_and_types_are_read(void **state)
{
	uint8_t bytes[2048];
	const uint32_t colour[] = { 6, 3, 2, 4 }, flat[] = { 6, 5 };
	struct tw_data *d;
	size_t n;

	put("colour", bytes, kit_idx(bytes, 8, 4, colour, byte_at));
	put("six", bytes, kit_idx(bytes, 8, 1, colour, label_at));
	d = kit_must_open("idx", SETS("images=colour", "labels=six", "test=0"));
	assert_int_equal(d->shape[0], 3);
	assert_int_equal(d->shape[1], 2);
	assert_int_equal(d->shape[2], 4);
	assert_int_equal(d->train.count, 6);
	assert_int_equal(d->test.count, 0);
	tw_data_close(d);

	/* floats, big endian: 1.5 is 3f c0 00 00 */
	n = 4 + 8;
	kit_idx(bytes, 0x0D, 2, flat, byte_at);
	for (int i = 0; i < 30; i++, n += 4)
		memcpy(bytes + n, i % 2 ? "\x3f\xc0\x00\x00" : "\xc0\x20\x00\x00", 4);
	put("floats", bytes, n);
	d = kit_must_open("idx", SETS("images=floats", "labels=six", "test=0"));
	assert_int_equal(d->rank, 1);
	assert_int_equal(d->features, 5);
	assert_int_equal(d->kind, TW_VALUE_F32);
	assert_true(((const float *)d->train.value)[0] == -2.5f);
	assert_true(((const float *)d->train.value)[1] == 1.5f);
	tw_data_close(d);
	memcpy(bytes + 12 + 4 * 7, "\x7f\xc0\x00\x00", 4);
	put("floats", bytes, n);
	kit_refuses("idx", SETS("images=floats", "labels=six"),
		    PARTS("floats", "value 8", "finite"));
}

/* Every prefix of the file is refused and says where it ends. */
static void truncated_files_are_refused(void **state)
{
	size_t n;
	uint8_t *whole = kit_get("images", &n);

	for (size_t cut = 0; cut < n; cut++) {
		put("cut", whole, cut);
		kit_refuses("idx", SETS("images=cut", "labels=labels"), PARTS("/cut: ", "byte"));
	}
	put("cut", whole, n);
	tw_data_close(kit_must_open("idx", SETS("images=cut", "labels=labels")));
	whole = realloc(whole, n + 1);
	whole[n] = 0;
	put("cut", whole, n + 1);
	kit_refuses("idx", SETS("images=cut", "labels=labels"), PARTS("/cut: ", "after byte 256"));
	free(whole);
}

static void truncated_gzip_is_refused(void **state)
{
	size_t n, plain_bytes;
	uint8_t *gz, *plain = kit_get("images", &plain_bytes);

	kit_put_gzip("cut.gz", plain, plain_bytes);
	gz = kit_get("cut.gz", &n);
	tw_data_close(kit_must_open("idx", SETS("images=cut.gz", "labels=labels")));
	for (size_t cut = 2; cut < n; cut++) {
		put("cut.gz", gz, cut);
		kit_refuses("idx", SETS("images=cut.gz", "labels=labels"), PARTS("/cut.gz: "));
	}
	gz = realloc(gz, n + 4);
	memcpy(gz + n, "more", 4);
	put("cut.gz", gz, n + 4);
	kit_refuses("idx", SETS("images=cut.gz", "labels=labels"), PARTS("/cut.gz: ", "not gzip"));
	gz[n / 2] ^= 0x40;
	put("cut.gz", gz, n);
	kit_refuses("idx", SETS("images=cut.gz", "labels=labels"), PARTS("/cut.gz: "));
	plain = realloc(plain, plain_bytes + 1);
	plain[plain_bytes] = 7;
	kit_put_gzip("cut.gz", plain, plain_bytes + 1);
	kit_refuses("idx", SETS("images=cut.gz", "labels=labels"),
		    PARTS("/cut.gz: ", "after byte 256"));
	kit_put_gzip("cut.gz", plain, plain_bytes - 1);
	kit_refuses("idx", SETS("images=cut.gz", "labels=labels"), PARTS("/cut.gz: ", "byte 255"));
	free(gz);
	free(plain);
}

static void headers_are_not_believed(void **state)
{
	uint8_t bytes[64];
	const uint32_t huge[] = { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff };
	const uint32_t none[] = { 12, 0, 4 }, empty[] = { 0, 5, 4 };

	memset(bytes, 0xff, sizeof bytes);
	bytes[0] = bytes[1] = 0;
	bytes[2] = 8;
	bytes[3] = 4;
	assert_int_equal(huge[0], UINT32_MAX);
	put("huge", bytes, 20);
	kit_refuses("idx", SETS("images=huge", "labels=labels"), PARTS("/huge: ", "too short"));
	kit_put_gzip("huge.gz", bytes, 20);
	kit_refuses("idx", SETS("images=huge.gz", "labels=labels"),
		    PARTS("/huge.gz: ", "too short"));
	put("none", bytes, kit_idx(bytes, 8, 3, none, byte_at));
	kit_refuses("idx", SETS("images=none", "labels=labels"), PARTS("/none: ", "empty"));
	put("empty", bytes, kit_idx(bytes, 8, 3, empty, byte_at));
	kit_refuses("idx", SETS("images=empty", "labels=labels"), PARTS("/empty: ", "no samples"));
	put("magic", "\x89PNG\r\n", 6);
	kit_refuses("idx", SETS("images=magic", "labels=labels"),
		    PARTS("/magic: ", "89 50 4e 47", "IDX"));
	put("type", "\0\0\x0e\x01\0\0\0\0", 8);
	kit_refuses("idx", SETS("images=type", "labels=labels"), PARTS("/type: ", "00 00 0e 01"));
	put("rank", "\0\0\x08\x05\0\0\0\0", 8);
	kit_refuses("idx", SETS("images=rank", "labels=labels"), PARTS("/rank: ", "00 00 08 05"));
}

static void labels_must_fit(void **state)
{
	uint8_t bytes[64];
	const uint32_t eleven[] = { 11 }, twelve[] = { 12 };
	size_t n;

	put("eleven", bytes, kit_idx(bytes, 8, 1, eleven, label_at));
	kit_refuses("idx", SETS("images=images", "labels=eleven"),
		    PARTS("/eleven: ", "11 labels", "12 samples"));
	n = kit_idx(bytes, 8, 1, twelve, label_at);
	bytes[8 + 5] = 9;
	put("nine", bytes, n);
	kit_refuses("idx", SETS("images=images", "labels=nine", "classes=3"),
		    PARTS("nine: ", "label 6", "is 9", "0 to 2"));
	tw_data_close(kit_must_open("idx", SETS("images=images", "labels=nine")));
	kit_refuses("idx", SETS("images=images", "labels=images"),
		    PARTS("/images: ", "3 dimensions"));
	memset(bytes + 8, 0, 12);
	put("same", bytes, n);
	kit_refuses("idx", SETS("images=images", "labels=same"), PARTS("two classes"));
	/* 32-bit labels, one of them negative */
	bytes[2] = 0x0C;
	memset(bytes + 8, 0, 48);
	bytes[8 + 3] = 1;
	put("wide", bytes, 8 + 48);
	tw_data_close(kit_must_open("idx", SETS("images=images", "labels=wide")));
	bytes[8 + 4] = 0xff;
	put("wide", bytes, 8 + 48);
	kit_refuses("idx", SETS("images=images", "labels=wide"),
		    PARTS("/wide: ", "label 2", "is -"));
	bytes[8 + 4] = 0x0f;
	put("wide", bytes, 8 + 48);
	kit_refuses("idx", SETS("images=images", "labels=wide"), PARTS("wide: ", "65536"));
}

static void files_must_be_there_and_be_files(void **state)
{
	char path[600];

	kit_refuses("idx", SETS("images=nothing", "labels=labels"),
		    PARTS("/nothing: ", "No such file"));
	snprintf(path, sizeof path, "%s/inner", scratch());
	mkdir(path, 0700);
	kit_refuses("idx", SETS("images=inner", "labels=labels"), PARTS("/inner: ", "a directory"));
	snprintf(path, sizeof path, "%s/pipe", scratch());
	assert_int_equal(mkfifo(path, 0600), 0);
	kit_refuses("idx", SETS("images=pipe", "labels=labels"), PARTS("/pipe: ", "it is a FIFO"));
	kit_refuses("idx", SETS("images=images"), PARTS("labels: "));
	kit_refuses("idx", SETS("images=images", "labels=labels", "test_images=images"),
		    PARTS("test_labels: "));
	kit_refuses("idx", SETS(WHOLE, "classes=2"), PARTS("labels: label 3", "0 to 1"));
}

static void test_files_must_match(void **state)
{
	uint8_t bytes[512];
	const uint32_t other[] = { 4, 4, 5 };

	put("turned", bytes, kit_idx(bytes, 8, 3, other, byte_at));
	kit_refuses("idx",
		    SETS("images=images", "labels=labels", "test_images=turned",
			 "test_labels=test-labels"),
		    PARTS("/turned: ", "shape"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_set_is_read),
		cmocka_unit_test(other_ranks_and_types_are_read),
		cmocka_unit_test(truncated_files_are_refused),
		cmocka_unit_test(truncated_gzip_is_refused),
		cmocka_unit_test(headers_are_not_believed),
		cmocka_unit_test(labels_must_fit),
		cmocka_unit_test(files_must_be_there_and_be_files),
		cmocka_unit_test(test_files_must_match),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
