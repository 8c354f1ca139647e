/* SPDX-License-Identifier: Apache-2.0 */
/* test_sha256.c - SHA-256 gives the digests of FIPS 180-4's examples, in any pieces. */
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct {
	const char *text;
	const char *hash;
} known[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};

static void examples_of_the_standard(void **state)
{
	char text[TW_SHA_TEXT];
	struct tw_sha h, back;

	for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
		assert_int_equal(tw_sha_of(known[k].text, strlen(known[k].text), &h), TW_OK);
		assert_string_equal(tw_sha_text(&h, text), known[k].hash);
		assert_true(tw_sha_read(known[k].hash, &back) && tw_sha_same(&h, &back));
		assert_false(tw_sha_none(&h));
	}
}

static void a_million_in_pieces(void **state)
{
	char *a = malloc(1000000), text[TW_SHA_TEXT], brief[TW_SHA_SHORT];
	struct tw_sha_run r;
	struct tw_sha h;

	memset(a, 'a', 1000000);
	for (size_t piece = 1; piece <= 1000000; piece = piece * 7 + 1) {
		tw_sha_init(&r);
		for (size_t at = 0; at < 1000000; at += piece)
			tw_sha_update(&r, a + at, 1000000 - at < piece ? 1000000 - at : piece);
		tw_sha_update(&r, NULL, 0);
		assert_int_equal(tw_sha_final(&r, &h), TW_OK);
		assert_string_equal(
			tw_sha_text(&h, text),
			"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	}
	assert_string_equal(tw_sha_short(&h, brief), "cdc76e5c9914fb92...");
	free(a);
}

static void only_64_digits_are_read(void **state)
{
	char text[80];
	struct tw_sha h;

	strcpy(text, known[1].hash);
	for (size_t k = 0; k < 64; k++) {
		const char was = text[k];

		for (const char *bad = "gA -\n"; *bad; bad++) {
			text[k] = *bad;
			assert_false(tw_sha_read(text, &h));
		}
		text[k] = 0;
		assert_false(tw_sha_read(text, &h));
		text[k] = was;
	}
	strcat(text, "0");
	assert_false(tw_sha_read(text, &h));
	assert_true(tw_sha_none(&(struct tw_sha){ { 0 } }));
	assert_false(tw_sha_none(&(struct tw_sha){ .b[31] = 1 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(examples_of_the_standard),
		cmocka_unit_test(a_million_in_pieces),
		cmocka_unit_test(only_64_digits_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
