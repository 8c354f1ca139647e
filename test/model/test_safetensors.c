/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c - what was written is read bit for bit, and what nobody should have written
 * is refused with a sentence that says why. */
#include "base/refusing.h"
#include "base/rng.h"
#include "model/safe_sample.h"
#include "vec/vec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A file of `header` and `data` bytes, exactly as long as that so that the sanitizers see every
 * byte too far. */
static uint8_t *file_of(const char *header, size_t data, size_t *n)
{
	const uint64_t length = strlen(header);
	uint8_t *bytes;

	*n = 8 + length + data;
	bytes = malloc(*n);
	assert_non_null(bytes);
	memcpy(bytes, &length, 8);
	memcpy(bytes + 8, header, length);
	for (size_t i = 0; i < data; i++)
		bytes[8 + length + i] = (uint8_t)(i * 37);
	return bytes;
}

static void refused(const char *header, size_t data, const char *because)
{
	struct tw_error why = { 0 };
	struct tw_safe s;
	size_t n;
	uint8_t *bytes = file_of(header, data, &n);

	assert_int_equal(tw_safe_read(&tw_heap_system, bytes, n, &s, &why), TW_BAD_BYTES);
	if (!strstr(why.text, because))
		fail_msg("%s: '%s' does not say '%s'", header, why.text, because);
	free(bytes);
}

static void accepted(const char *header, size_t data, size_t tensors)
{
	struct tw_error why = { 0 };
	struct tw_safe s;
	size_t n;
	uint8_t *bytes = file_of(header, data, &n);

	if (tw_safe_read(&tw_heap_system, bytes, n, &s, &why) != TW_OK)
		fail_msg("%s: %s", header, why.text);
	assert_int_equal(s.tensors, tensors);
	tw_safe_release(&s);
	free(bytes);
}

static void good_headers(void **state)
{
	accepted("{}", 0, 0);
	accepted("{}    ", 0, 0);
	accepted("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, 1);
	accepted("{\"a\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,0]}}", 0, 1);
	accepted("{\"__metadata__\":{\"format\":\"pt\"},"
		 "\"b\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[4,7]},"
		 "\"a\":{\"dtype\":\"I16\",\"shape\":[1,2],\"data_offsets\":[0,4]}}",
		 7, 2);
}

#define ROW(type, shape, from, to)                                                                 \
	"{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void bad_headers(void **state)
{
	refused("", 0, "does not begin with '{'");
	refused(" {}", 0, "does not begin with '{'");
	refused("[]", 0, "does not begin with '{'");
	refused("{", 0, "not JSON");
	refused("{}x", 0, "not JSON");
	refused("{\"a\":" ROW("F32", "[1]", "0", "4") ",\"a\":" ROW("F32", "[1]", "0", "4") "}", 4,
		"duplicate");
	refused("{}", 4, "4 bytes after the last tensor");
	refused("{\"a\":3}", 0, "dtype, shape and data_offsets");
	refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "dtype, shape and data_offsets");
	refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
		"nothing else");
	refused("{\"a\":" ROW("F31", "[1]", "0", "4") "}", 4, "not 'F31'");
	refused("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype must be");
	refused("{\"a\":" ROW("F32", "1", "0", "4") "}", 4, "shape must be a list");
	refused("{\"a\":" ROW("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "at most 8");
	refused("{\"a\":" ROW("F32", "[-1]", "0", "4") "}", 4, "whole number");
	refused("{\"a\":" ROW("F32", "[1.0]", "0", "4") "}", 4, "whole number");
	refused("{\"a\":" ROW("F32", "[4294967296,4294967296]", "0", "4") "}", 4, "counted");
	refused("{\"a\":" ROW("F64", "[2305843009213693952]", "0", "0") "}", 0, "counted");
	refused("{\"a\":" ROW("F32", "[99999999999999999999]", "0", "4") "}", 4, "not JSON");
	refused("{\"a\":" ROW("F32", "[2]", "0", "4") "}", 4, "needs 8 bytes");
	refused("{\"a\":" ROW("F32", "[1]", "4", "0") "}", 4, "not larger");
	refused("{\"a\":" ROW("F32", "[1]", "-4", "0") "}", 4, "data_offsets");
	refused("{\"a\":" ROW("F32", "[1]", "0", "4,8") "}", 4, "data_offsets");
	refused("{\"a\":" ROW("F32", "[1]", "4", "8") "}", 4, "only 4");
	refused("{\"a\":" ROW("F32", "[1]", "4", "8") "}", 8, "gap");
	refused("{\"a\":" ROW("F32", "[1]", "0", "4") ",\"b\":" ROW("F32", "[1]", "0", "4") "}", 4,
		"inside another");
	refused("{\"a\":" ROW("F32", "[2]", "0", "8") ",\"b\":" ROW("F32", "[1]", "4", "8") "}", 8,
		"inside another");
	refused("{\"a\\n\":" ROW("F32", "[1]", "0", "4") "}", 4, "control");
	refused("{\"a\\u0000b\":" ROW("F32", "[1]", "0", "4") "}", 4, "not JSON");
	refused("{\"a\xff\":" ROW("F32", "[1]", "0", "4") "}", 4, "not JSON");
	refused("{\"__metadata__\":{\"a\":1}}", 0, "object of strings");
	refused("{\"__metadata__\":\"a\"}", 0, "object of strings");
}

static void lengths_are_not_trusted(void **state)
{
	uint8_t bytes[16] = { 0 };
	struct tw_error why = { 0 };
	struct tw_safe s;
	uint64_t length;

	for (size_t n = 0; n < 8; n++)
		assert_int_equal(tw_safe_read(&tw_heap_system, bytes, n, &s, NULL), TW_BAD_BYTES);
	for (length = 9; length; length <<= 1) {
		memcpy(bytes, &length, 8);
		memset(&why, 0, sizeof why);
		assert_int_equal(tw_safe_read(&tw_heap_system, bytes, 16, &s, &why), TW_BAD_BYTES);
		assert_non_null(strstr(why.text, "but only 8 follow"));
	}
	length = TW_SAFE_HEADER + 1;
	{
		uint8_t *large = calloc(1, 8 + length);

		assert_non_null(large);
		memset(large + 8, ' ', length);
		memcpy(large, &length, 8);
		memcpy(large + 8, "{}", 2);
		memset(&why, 0, sizeof why);
		assert_int_equal(tw_safe_read(&tw_heap_system, large, 8 + length, &s, &why),
				 TW_BAD_BYTES);
		assert_non_null(strstr(why.text, "at most 16777216 are read"));
		length--;
		memcpy(large, &length, 8);
		assert_int_equal(tw_safe_read(&tw_heap_system, large, 8 + length, &s, NULL), TW_OK);
		tw_safe_release(&s);
		free(large);
	}
}

static void long_names_are_refused(void **state)
{
	char name[600], header[1000];

	memset(name, 'n', sizeof name);
	name[512] = 0;
	snprintf(header, sizeof header, "{\"%s\":" ROW("U8", "[1]", "0", "1") "}", name);
	accepted(header, 1, 1);
	name[512] = 'n';
	name[513] = 0;
	snprintf(header, sizeof header, "{\"%s\":" ROW("U8", "[1]", "0", "1") "}", name);
	refused(header, 1, "at most 512 bytes");
}

/* --- what is written --- */

static void round_trip(void **state)
{
	struct tw_error why = { 0 };
	struct tw_block *b = NULL, *again = NULL;
	struct tw_safe s;
	float got[6];
	uint64_t length;

	assert_int_equal(tw_safe_write(&tw_heap_system, sample, SAMPLES,
				       "{\"format\": \"pt\", \"by\": \"\\u00e4\"}", &b),
			 TW_OK);
	memcpy(&length, b->data, 8);
	assert_int_equal(length % 8, 0);
	assert_int_equal(tw_safe_read(&tw_heap_system, b->data, b->bytes, &s, &why), TW_OK);
	assert_int_equal(s.tensors, SAMPLES);
	assert_string_equal(s.metadata, "{\"format\":\"pt\",\"by\":\"\xc3\xa4\"}");
	for (size_t k = 0; k < SAMPLES; k++) {
		const struct tw_safe_tensor *t = &s.tensor[k];

		assert_string_equal(t->name, sample[k].name);
		assert_ptr_equal(tw_safe_find(&s, sample[k].name), t);
		assert_int_equal(t->type, sample[k].type);
		assert_int_equal(t->rank, sample[k].rank);
		assert_memory_equal(t->d, sample[k].d, sizeof t->d);
		assert_int_equal(t->bytes, sample[k].bytes);
		if (t->bytes)
			assert_memory_equal(t->data, sample[k].data, t->bytes);
	}
	assert_null(tw_safe_find(&s, "4.body.0"));
	assert_int_equal(tw_safe_floats(&s.tensor[0], got), TW_OK);
	assert_memory_equal(got, sample[0].data, sizeof got);
	assert_int_equal(tw_safe_floats(&s.tensor[2], got), TW_BAD_INPUT);
	assert_int_equal(tw_safe_floats(&s.tensor[3], got), TW_BAD_INPUT);
	assert_int_equal(tw_safe_write(&tw_heap_system, s.tensor, s.tensors, s.metadata, &again),
			 TW_OK);
	assert_int_equal(again->bytes, b->bytes);
	assert_memory_equal(again->data, b->data, b->bytes);
	tw_safe_release(&s);
	tw_block_drop(again);
	tw_block_drop(b);
}

static void writes_nothing_that_is_wrong(void **state)
{
	struct tw_safe_tensor t[2] = { sample[0], sample[0] };
	struct tw_block *b = NULL;

#define REFUSES(count, metadata)                                                                   \
	assert_int_equal(tw_safe_write(&tw_heap_system, t, count, metadata, &b), TW_BAD_INPUT)
	REFUSES(2, NULL); /* the same name twice */
	REFUSES(1, "{\"a\": 1}");
	REFUSES(1, "[]");
	REFUSES(1, "nonsense");
	t[0].bytes--;
	REFUSES(1, NULL);
	t[0] = sample[0];
	t[0].type = TW_SAFE_OTHER;
	REFUSES(1, NULL);
	t[0] = sample[0];
	t[0].rank = TW_SAFE_RANK + 1;
	REFUSES(1, NULL);
	t[0] = sample[0];
	t[0].name = "__metadata__";
	REFUSES(1, NULL);
	t[0].name = "\xff";
	REFUSES(1, NULL);
	t[0].name = "a\tb";
	REFUSES(1, NULL);
	assert_null(b);
}

/* Other types become floats, also from places that are aligned to nothing. */
static void other_types_become_floats(void **state)
{
	enum { N = 1000 };
	static uint8_t bytes[8 * N + 1];
	static uint16_t half[N];
	static float x[N], want[N], got[N];
	struct tw_safe_tensor t = { .rank = 1, .d = { N }, .count = N, .data = bytes + 1 };
	const struct tw_rng rng = tw_rng_make(3, TW_RNG_TEST);

	tw_rng_gauss_fill(&rng, 0, 0, x, N);
	x[0] = INFINITY;
	tw_vec_to_fp16(half, x, N);
	tw_vec_from_fp16(want, half, N);
	memcpy(bytes + 1, half, sizeof half);
	t.type = TW_SAFE_F16;
	assert_int_equal(tw_safe_floats(&t, got), TW_OK);
	assert_memory_equal(got, want, sizeof got);
	tw_vec_to_bf16(half, x, N);
	tw_vec_from_bf16(want, half, N);
	memcpy(bytes + 1, half, sizeof half);
	t.type = TW_SAFE_BF16;
	assert_int_equal(tw_safe_floats(&t, got), TW_OK);
	assert_memory_equal(got, want, sizeof got);
	for (size_t i = 0; i < N; i++) {
		const double wide = (double)x[i];

		memcpy(bytes + 1 + 8 * i, &wide, sizeof wide);
	}
	t.type = TW_SAFE_F64;
	assert_int_equal(tw_safe_floats(&t, got), TW_OK);
	assert_memory_equal(got, x, sizeof got);
}

static void without_memory(void **state)
{
	struct tw_block *b = NULL;
	unsigned refusals = 0;

	for (unsigned nth = 1;; nth++) {
		struct refusing r = REFUSING(nth);
		struct tw_safe s;
		enum tw_status status;

		status = tw_safe_write(&r.heap, sample, SAMPLES, "{\"a\":\"b\"}", &b);
		if (status == TW_OK) {
			status = tw_safe_read(&r.heap, b->data, b->bytes, &s, NULL);
			if (status == TW_OK)
				tw_safe_release(&s);
			tw_block_drop(b);
		}
		assert_int_equal(r.live, 0);
		if (status == TW_OK)
			break;
		assert_int_equal(status, TW_NO_MEMORY);
		refusals++;
	}
	assert_int_equal(refusals, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_headers),
		cmocka_unit_test(bad_headers),
		cmocka_unit_test(lengths_are_not_trusted),
		cmocka_unit_test(long_names_are_refused),
		cmocka_unit_test(round_trip),
		cmocka_unit_test(writes_nothing_that_is_wrong),
		cmocka_unit_test(other_types_become_floats),
		cmocka_unit_test(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
