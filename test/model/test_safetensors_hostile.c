/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors_hostile.c - thousands of damaged files: each is refused, or what is read of it
 * lies inside it (the sanitizers watch). */
#include "base/rng.h"
#include "model/safe_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Whatever is read lies within the bytes and covers them. */
static void check_inside(const struct tw_safe *s, const uint8_t *bytes, size_t n)
{
	uint64_t length;
	const uint8_t *at;

	memcpy(&length, bytes, 8);
	at = bytes + 8 + length;
	for (size_t k = 0; k < s->tensors; k++) {
		assert_ptr_equal(s->tensor[k].data, at);
		at += s->tensor[k].bytes;
	}
	assert_ptr_equal(at, bytes + n);
}

static void try_bytes(const uint8_t *bytes, size_t n, unsigned *good)
{
	struct tw_error why = { 0 };
	struct tw_safe s;
	uint8_t *exact = malloc(n ? n : 1);
	enum tw_status status;

	assert_non_null(exact);
	memcpy(exact, bytes, n);
	status = tw_safe_read(&tw_heap_system, exact, n, &s, &why);
	if (status == TW_OK) {
		check_inside(&s, exact, n);
		++*good;
		tw_safe_release(&s);
	} else {
		assert_int_equal(status, TW_BAD_BYTES);
		assert_true(*why.text);
	}
	free(exact);
}

static void mutations_do_no_harm(void **state)
{
	static const char spice[] = "0123456789{}[]\",:-.eE\\tfn \x80\xff";
	const struct tw_rng rng = tw_rng_make(17, TW_RNG_TEST);
	struct tw_block *b = NULL;
	unsigned good = 0, all = 20000;
	uint8_t *bytes;

	assert_int_equal(tw_safe_write(&tw_heap_system, sample, SAMPLES, "{\"a\":\"b\"}", &b),
			 TW_OK);
	bytes = malloc(b->bytes + 8);
	assert_non_null(bytes);
	for (unsigned k = 0; k < all; k++) {
		size_t n = b->bytes;
		const uint64_t changes = 1 + tw_rng_u64(&rng, k, 0) % 4;

		memcpy(bytes, b->data, n);
		for (uint64_t c = 1; c <= changes; c++) {
			const uint64_t r = tw_rng_u64(&rng, k, c);
			const size_t at = r % n;
			const char with = spice[(r >> 32) % (sizeof spice - 1)];

			switch ((r >> 40) % 4) {
			case 0:
				bytes[at] ^= (uint8_t)(1u << (r >> 48) % 8);
				break;
			case 1:
				bytes[at] = (uint8_t)with;
				break;
			case 2: /* a byte less */
				memmove(bytes + at, bytes + at + 1, n - at - 1);
				n--;
				break;
			case 3: /* a byte more */
				memmove(bytes + at + 1, bytes + at, n - at);
				bytes[at] = (uint8_t)with;
				n++;
			}
		}
		try_bytes(bytes, n, &good);
	}
	/* data and names may change without harm to the form */
	assert_true(good > 0 && good < all / 2);
	for (size_t n = 0; n < b->bytes; n++) {
		good = 0;
		try_bytes(b->data, n, &good);
		assert_int_equal(good, 0);
	}
	free(bytes);
	tw_block_drop(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mutations_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
