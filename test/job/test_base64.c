/* SPDX-License-Identifier: Apache-2.0 */
/* test_base64.c - bytes come back as they were, and text that is not base64 is refused. */
#include "checkpoint/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* RFC 4648, section 10. */
static void the_examples_of_the_standard(void **state)
{
	static const struct {
		const char *bytes, *text;
	} known[] = { { "", "" },
		      { "f", "Zg==" },
		      { "fo", "Zm8=" },
		      { "foo", "Zm9v" },
		      { "foob", "Zm9vYg==" },
		      { "fooba", "Zm9vYmE=" },
		      { "foobar", "Zm9vYmFy" } };

	for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
		const size_t n = strlen(known[k].bytes);
		char text[20], bytes[20] = "";

		tw_base64_write(known[k].bytes, n, text);
		assert_string_equal(text, known[k].text);
		assert_true(tw_base64_read(text, strlen(text), bytes, n));
		assert_string_equal(bytes, known[k].bytes);
	}
}

static void every_byte_comes_back(void **state)
{
	uint8_t in[256], out[256];
	char text[TW_BASE64_LETTERS(256) + 1];

	for (size_t k = 0; k < 256; k++)
		in[k] = (uint8_t)(k * 167 + 13);
	for (size_t n = 0; n <= 256; n++) {
		tw_base64_write(in, n, text);
		assert_int_equal(strlen(text), TW_BASE64_LETTERS(n));
		assert_true(tw_base64_read(text, strlen(text), out, n));
		assert_memory_equal(in, out, n);
	}
}

static void other_text_is_refused(void **state)
{
	uint8_t out[8];

	assert_false(tw_base64_read("Zg==", 4, out, 2)); /* one byte, not two */
	assert_false(tw_base64_read("Zg=", 3, out, 1));  /* a letter is missing */
	assert_false(tw_base64_read("Z===", 4, out, 1)); /* half a byte */
	assert_false(tw_base64_read("Zh==", 4, out, 1)); /* bits behind the byte */
	assert_false(tw_base64_read("Zm9=", 4, out, 2));
	assert_false(tw_base64_read("Zm-v", 4, out, 3));  /* no letter of it */
	assert_false(tw_base64_read("Zm\0v", 4, out, 3)); /* a zero is none either */
	assert_false(tw_base64_read("Zm9v\n", 5, out, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_examples_of_the_standard),
		cmocka_unit_test(every_byte_comes_back),
		cmocka_unit_test(other_text_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
