/* SPDX-License-Identifier: Apache-2.0 */
/* test_key.c - keys are made, read back, and refused where somebody else could read them. */
#include "wire/key.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define GOOD "thalweg-key-1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eFF"

static char path[300];

static void put_key(const char *bytes, size_t n, mode_t mode)
{
	snprintf(path, sizeof path, "%s", path_of("cluster.key"));
	unlink(path);
	put("cluster.key", bytes, n);
	assert_int_equal(chmod(path, mode), 0);
}

static void a_new_key_reads_back(void **state)
{
	char text[TW_KEY_TEXT], other[TW_KEY_TEXT];
	uint8_t a[TW_KEY_BYTES], b[TW_KEY_BYTES];

	assert_int_equal(tw_key_make(text, NULL), TW_OK);
	assert_int_equal(tw_key_make(other, NULL), TW_OK);
	assert_string_not_equal(text, other);
	assert_int_equal(strlen(text), 14 + 64 + 1);
	assert_int_equal(strncmp(text, "thalweg-key-1 ", 14), 0);
	assert_int_equal(text[78], '\n');
	assert_int_equal(tw_key_parse(text, a, NULL), TW_OK);
	put_key(text, strlen(text), 0600);
	assert_int_equal(tw_key_read(path, b, NULL), TW_OK);
	assert_memory_equal(a, b, sizeof a);
	put_key(text, strlen(text), 0400);
	assert_int_equal(tw_key_read(path, b, NULL), TW_OK);
}

static void text_is_taken_by_its_bytes(void **state)
{
	uint8_t key[TW_KEY_BYTES];

	assert_int_equal(tw_key_parse(" \t\n" GOOD "\r\n ", key, NULL), TW_OK);
	for (int i = 0; i < 31; i++)
		assert_int_equal(key[i], i);
	assert_int_equal(key[31], 0xff);
}

static void what_is_no_key_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"thalweg-key-1",
		"thalweg-key-1 ",
		"thalweg-key-2 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eFF",
		"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eFF",
		"thalweg-key-1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eF",
		"thalweg-key-1 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eFg",
		GOOD "0",
		GOOD "\n" GOOD,
		GOOD " x",
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct tw_error why = { .status = TW_OK };
		uint8_t key[TW_KEY_BYTES] = { 42 };

		assert_int_equal(tw_key_parse(bad[i], key, &why), TW_BAD_INPUT);
		assert_non_null(strstr(why.text, "`thalweg key` prints it"));
		assert_null(strstr(why.text, "0001020304"));
		assert_int_equal(key[0], 42);
	}
}

static void refuse(const char *file, const char *part)
{
	struct tw_error why = { .status = TW_OK };
	uint8_t key[TW_KEY_BYTES];

	assert_int_equal(tw_key_read(file, key, &why), TW_BAD_INPUT);
	if (!strstr(why.text, part))
		fail_msg("no '%s' in '%s'", part, why.text);
	assert_non_null(strstr(why.text, file));
}

static void files_that_others_read_are_refused(void **state)
{
	static const mode_t modes[] = { 0644, 0640, 0604, 0620, 0602, 0610, 0601 };

	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		put_key(GOOD, strlen(GOOD), modes[i]);
		refuse(path, "chmod 600 ");
	}
	if (geteuid() == 0) {
		put_key(GOOD, strlen(GOOD), 0600);
		assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
		refuse(path, "belongs to user 12345");
	}
}

static void files_that_are_no_key_are_refused(void **state)
{
	char long_text[5000], hidden[] = GOOD "\0" GOOD;

	refuse("/nowhere/cluster.key", "No such file");
	refuse(scratch(), "not a regular file");
	refuse("/dev/null", "not a regular file");
	put_key("hello\n", 6, 0600);
	refuse(path, "this is not a key");
	put_key(hidden, sizeof hidden, 0600);
	refuse(path, "this is not a key");
	memset(long_text, ' ', sizeof long_text);
	put_key(long_text, sizeof long_text, 0600);
	refuse(path, "at most 4096 bytes");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refuse(path, "not a regular file"); /* and does not wait for a writer */
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_key_reads_back),
		cmocka_unit_test(text_is_taken_by_its_bytes),
		cmocka_unit_test(what_is_no_key_is_refused),
		cmocka_unit_test(files_that_others_read_are_refused),
		cmocka_unit_test(files_that_are_no_key_are_refused),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
