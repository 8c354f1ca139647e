/* SPDX-License-Identifier: Apache-2.0 */
/* test_npy.c - NumPy files: types and versions, and headers that lie. */
#include "data/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	kit_put_npy_set();
	return 0;
}

static void a_pair_is_read(void **state)
{
	struct tw_data *d = kit_must_open("npy", SETS("x=x.npy", "y=y.npy", "test=0"));
	const float *v = d->train.value;

	assert_int_equal(d->rank, 1);
	assert_int_equal(d->features, 2);
	assert_int_equal(d->classes, 4);
	assert_int_equal(d->train.count, 12);
	for (int i = 0; i < 24; i++)
		assert_true(v[i] == (float)(i * i) / 8 - 5);
	for (uint32_t i = 0; i < 12; i++)
		assert_int_equal(d->train.label[i], i % 4);
	tw_data_close(d);
	d = kit_must_open("npy", SETS("x=x.npy", "y=x.npy", "test_x=x.npy", "test_y=x.npy"));
	assert_int_equal(d->targets, 2);
	assert_int_equal(d->classes, 0);
	assert_memory_equal(d->train.target, d->train.value, 24 * sizeof(float));
	assert_int_equal(d->test.count, 12);
	tw_data_close(d);
}

/* Values -1 (or 255), 2, 3, ... of a type, as (6, 2). */
static void check_type(const char *descr, const void *values, size_t bytes, bool is_signed)
{
	uint8_t file[512];
	char header[128];
	struct tw_data *d;

	snprintf(header, sizeof header,
		 "{'shape': (6, 2), 'fortran_order': False, \"descr\": '%s'}\n", descr);
	put("t.npy", file, kit_npy(file, header, values, bytes));
	put("l.npy", file,
	    kit_npy(file, "{'descr': '|u1', 'fortran_order': False, 'shape': (6, 1)}",
		    "\0\1\2\0\1\2", 6));
	d = kit_must_open("npy", SETS("x=t.npy", "y=l.npy", "test=0"));
	if (!strcmp(descr, "|u1")) {
		assert_int_equal(d->kind, TW_VALUE_U8);
		assert_memory_equal(d->train.value, values, bytes);
	} else {
		const float *v = d->train.value;

		assert_int_equal(d->kind, TW_VALUE_F32);
		assert_true(is_signed ? v[0] == -1 : v[0] > 0);
		for (int i = 1; i < 12; i++)
			assert_true(v[i] == (float)(i + 1));
	}
	tw_data_close(d);
}

#define TYPE(type, descr, is_signed)                                                               \
	do {                                                                                       \
		type v[12];                                                                        \
		v[0] = (type)-1;                                                                   \
		for (int i = 1; i < 12; i++)                                                       \
			v[i] = (type)(i + 1);                                                      \
		check_type(descr, v, sizeof v, is_signed);                                         \
	} while (0)

static void types_are_converted(void **state)
{
	TYPE(uint8_t, "|u1", false);
	TYPE(int8_t, "|i1", true);
	TYPE(int16_t, "<i2", true);
	TYPE(uint16_t, "<u2", false);
	TYPE(int32_t, "<i4", true);
	TYPE(uint32_t, "<u4", false);
	TYPE(int64_t, "<i8", true);
	TYPE(uint64_t, "<u8", false);
	TYPE(float, "<f4", true);
	TYPE(double, "<f8", true);
}

/* True is 1 and not a 255th of it, however values are normalised. */
static void truth_is_one(void **state)
{
	uint8_t file[512];
	struct tw_data *d;

	(void)state;
	put("t.npy", file,
	    kit_npy(file, "{'descr': '|b1', 'fortran_order': False, 'shape': (4, 1)}", "\0\1\1\0",
		    4));
	put("l.npy", file,
	    kit_npy(file, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", "\0\1\0\1",
		    4));
	d = kit_must_open("npy", SETS("x=t.npy", "y=l.npy", "test=0", "normalise=unit"));
	assert_int_equal(d->classes, 2);
	assert_int_equal(d->kind, TW_VALUE_F32);
	assert_true(((const float *)d->train.value)[1] * d->scale[0] + d->shift[0] == 1);
	tw_data_close(d);
}

static void images_and_versions(void **state)
{
	uint8_t file[512], values[48] = { 0 };
	const char *header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 2, 4), }\n";
	struct tw_data *d;
	size_t n;

	put("l.npy", file,
	    kit_npy(file, "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", "\0\1",
		    2));
	for (uint8_t version = 2; version <= 3; version++) {
		n = strlen(header);
		memcpy(file, "\x93NUMPY", 6);
		file[6] = version;
		file[7] = 0;
		file[8] = (uint8_t)n;
		memset(file + 9, 0, 3);
		memcpy(file + 12, header, n);
		memcpy(file + 12 + n, values, 48);
		put("i.npy", file, 12 + n + 48);
		d = kit_must_open("npy", SETS("x=i.npy", "y=l.npy", "test=0"));
		assert_int_equal(d->rank, 3);
		assert_int_equal(d->shape[0], 3);
		assert_int_equal(d->shape[1], 2);
		assert_int_equal(d->shape[2], 4);
		tw_data_close(d);
	}
	file[6] = 4;
	put("i.npy", file, 12 + n + 48);
	kit_refuses("npy", SETS("x=i.npy", "y=l.npy"), PARTS("/i.npy: ", "version"));
	file[6] = 2;
	file[11] = 0x7f;
	put("i.npy", file, 12 + n + 48);
	kit_refuses("npy", SETS("x=i.npy", "y=l.npy"), PARTS("/i.npy: ", "65536"));
}

static void bad(const char *header, const char *part)
{
	uint8_t file[1024], values[96] = { 0 };

	put("bad.npy", file, kit_npy(file, header, values, sizeof values));
	kit_refuses("npy", SETS("x=bad.npy", "y=y.npy"), PARTS("/bad.npy: ", part));
}

#define OF(shape) "{'descr': '<f4', 'fortran_order': False, 'shape': " shape ", }\n"

static void headers_are_not_believed(void **state)
{
	bad(OF("(13, 2)"), "ends before byte");
	bad(OF("(11, 2)"), "continues after byte");
	bad(OF("(18446744073709551615, 2)"), "ends before byte");
	bad(OF("(18446744073709551616,)"), "shape");
	bad(OF("(4294967296, 4294967296, 4294967296)"), "ends before byte");
	bad(OF("(4611686018427387904,)"), "ends before byte");
	bad(OF("(0, 2)"), "continues after byte");
	bad(OF("()"), "shape");
	bad(OF("(24)"), "shape");
	bad(OF("(-1, 2)"), "shape");
	bad(OF("(1, 2, 2, 2, 3)"), "shape");
	bad(OF("(24,"), "shape");
	bad("", "not a dictionary");
	bad("{", "not a dictionary");
	bad("{}", "must have");
	bad("{'descr': '<f4'}", "must have");
	bad("{'descr': '<f4', 'fortran_order': True, 'shape': (12, 2), }\n", "ascontiguousarray");
	bad("{'descr': '>f4', 'fortran_order': False, 'shape': (12, 2), }\n", "little endian");
	bad("{'descr': '<c8', 'fortran_order': False, 'shape': (12, 2), }\n", "type");
	bad("{'descr': '|O', 'fortran_order': False, 'shape': (12, 2), }\n", "type");
	bad("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (24,), }\n", "type");
	bad("{'descr': '<f4', 'descr': '<f4', 'shape': (24,), }\n", "repeated");
	bad("{'descr': '<f4', 'fortran_order': False, 'shape': (12, 2), 'x': 1}\n", "unknown");
	bad("{'descr': '<f4', 'fortran_order': False, 'shape': (12, 2), } x\n", "no more");
	bad("{'descr': '<f4', 'fortran_order': None, 'shape': (12, 2), }\n", "True or False");
}

/* No prefix of the file is taken for a file, and none does harm. */
static void truncated_files_are_refused(void **state)
{
	size_t n;
	uint8_t *whole = kit_get("x.npy", &n);

	for (size_t cut = 0; cut < n; cut++) {
		put("cut.npy", whole, cut);
		kit_refuses("npy", SETS("x=cut.npy", "y=y.npy"), PARTS("/cut.npy: ", "byte"));
	}
	kit_put_gzip("cut.npy", whole, n - 1);
	kit_refuses("npy", SETS("x=cut.npy", "y=y.npy"), PARTS("/cut.npy: ", "byte"));
	free(whole);
}

static void answers_must_fit(void **state)
{
	uint8_t file[512];
	const int32_t y[12] = { 0, 1, 2, 0, 1, 2, -5, 1, 2, 0, 1, 2 };
	const float nan[1] = { __builtin_nanf("") };

	put("m.npy", file,
	    kit_npy(file, "{'descr': '<i4', 'fortran_order': False, 'shape': (12,), }\n", y,
		    sizeof y));
	kit_refuses("npy", SETS("x=x.npy", "y=m.npy"), PARTS("/m.npy: ", "label 7", "is -5"));
	put("m.npy", file,
	    kit_npy(file, "{'descr': '<i4', 'fortran_order': False, 'shape': (6,), }\n", y, 24));
	kit_refuses("npy", SETS("x=x.npy", "y=m.npy"), PARTS("/m.npy: ", "6 labels", "12 samples"));
	put("m.npy", file,
	    kit_npy(file, "{'descr': '<i4', 'fortran_order': False, 'shape': (6, 2), }\n", y,
		    sizeof y));
	kit_refuses("npy", SETS("x=x.npy", "y=m.npy"), PARTS("/m.npy: ", "wrong shape"));
	kit_refuses("npy", SETS("x=x.npy", "y=y.npy", "classes=3"),
		    PARTS("y.npy: label 4", "is 3"));
	kit_refuses("npy", SETS("x=x.npy", "y=x.npy", "classes=3"), PARTS("/x.npy: ", "floats"));
	kit_refuses("npy", SETS("x=x.npy", "y=x.npy", "test_x=x.npy", "test_y=y.npy"),
		    PARTS("/y.npy: ", "type"));
	put("nan.npy", file, kit_npy(file, OF("(1, 1)"), nan, 4));
	kit_refuses("npy", SETS("x=nan.npy", "y=y.npy"), PARTS("/nan.npy: ", "value 1", "finite"));
	put("m.npy", file, kit_npy(file, OF("(0, 2)"), nan, 0));
	kit_refuses("npy", SETS("x=m.npy", "y=y.npy"), PARTS("/m.npy: ", "no samples"));
	kit_refuses("npy", SETS("x=none.npy", "y=y.npy"), PARTS("/none.npy: "));
	kit_refuses("npy", SETS("x=.", "y=y.npy"), PARTS("it is a directory"));
	kit_refuses("npy", SETS("x=x.npy"), PARTS("y: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pair_is_read),
		cmocka_unit_test(types_are_converted),
		cmocka_unit_test(truth_is_one),
		cmocka_unit_test(images_and_versions),
		cmocka_unit_test(headers_are_not_believed),
		cmocka_unit_test(truncated_files_are_refused),
		cmocka_unit_test(answers_must_fit),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
