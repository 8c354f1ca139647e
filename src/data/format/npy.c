/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - headers of NumPy files read strictly, and their values converted. */
#include "data/format/npy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEADER_MOST 65536
#define CHUNK       4096

static enum tw_status bad_header(struct tw_input *in, const char *what, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: its header (before byte %" PRIu64
		       ") %s; a file saved by numpy.save is needed",
		       tw_input_name(in), tw_input_at(in), what);
}

static const char *skip(const char *p)
{
	while (*p == ' ')
		p++;
	return p;
}

/* The text in quotes at *p. */
static bool quoted(const char **p, char *out, size_t room)
{
	const char mark = **p;
	size_t n = 0;

	if (mark != '\'' && mark != '"')
		return false;
	for (++*p; **p && **p != mark; ++*p) {
		if (n + 1 >= room)
			return false;
		out[n++] = **p;
	}
	out[n] = 0;
	return *(*p)++ == mark;
}

static bool take_descr(const char **p, struct tw_npy *n)
{
	char d[8];

	if (!quoted(p, d, sizeof d) || strlen(d) != 3)
		return false;
	if (d[0] != '<' && !(d[0] == '|' && d[2] == '1'))
		return false;
	n->width = (uint32_t)(d[2] - '0');
	n->kind = d[1] == 'f'   ? TW_NPY_FLOAT
		  : d[1] == 'i' ? TW_NPY_SIGNED
		  : d[1] == 'b' ? TW_NPY_BOOL
				: TW_NPY_UNSIGNED;
	switch (d[1]) {
	case 'f':
		return n->width == 4 || n->width == 8;
	case 'i':
	case 'u':
		return n->width == 1 || n->width == 2 || n->width == 4 || n->width == 8;
	case 'b':
		return n->width == 1;
	default:
		return false;
	}
}

static bool take_order(const char **p, bool *fortran)
{
	*fortran = strncmp(*p, "True", 4) == 0;
	if (!*fortran && strncmp(*p, "False", 5) != 0)
		return false;
	*p += *fortran ? 4 : 5;
	return true;
}

/* "(3, 2)", "(3,)": one number at least. */
static bool take_shape(const char **p, struct tw_npy *n)
{
	if (*(*p)++ != '(')
		return false;
	for (n->rank = 0;; n->rank++) {
		uint64_t v = 0;

		*p = skip(*p);
		if (**p == ')' && n->rank > 0)
			break;
		if (n->rank == TW_NPY_RANK || **p < '0' || **p > '9')
			return false;
		for (; **p >= '0' && **p <= '9'; ++*p)
			if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
			    __builtin_add_overflow(v, (uint64_t)(**p - '0'), &v))
				return false;
		n->size[n->rank] = v;
		*p = skip(*p);
		if (**p == ',')
			++*p;
		else if (**p != ')' || n->rank == 0)
			return false;
	}
	++*p;
	return true;
}

/* The dictionary: three keys, each once, in any order. */
static enum tw_status take_dictionary(struct tw_input *in, const char *p, struct tw_npy *n,
				      struct tw_error *why)
{
	static const char *const keys[] = { "descr", "fortran_order", "shape" };
	unsigned seen = 0;
	bool fortran = false;

	p = skip(p);
	if (*p++ != '{')
		return bad_header(in, "is not a dictionary", why);
	for (p = skip(p); *p != '}'; p = skip(p)) {
		char key[32];
		unsigned k = 0;

		if (!quoted(&p, key, sizeof key) || *(p = skip(p)) != ':')
			return bad_header(in, "is not a dictionary", why);
		while (k < 3 && strcmp(key, keys[k]))
			k++;
		if (k == 3 || (seen & 1u << k))
			return bad_header(in, "has a key that is unknown or repeated", why);
		seen |= 1u << k;
		p = skip(p + 1);
		if (k == 0 && !take_descr(&p, n))
			return bad_header(in,
					  "has a type other than u1 u2 u4 u8 i1 i2 i4 i8 f4 f8 b1, "
					  "little endian",
					  why);
		if (k == 1 && !take_order(&p, &fortran))
			return bad_header(in, "has no True or False at fortran_order", why);
		if (k == 2 && !take_shape(&p, n))
			return bad_header(in, "has a shape that is not 1 to 4 whole numbers", why);
		p = skip(p);
		if (*p == ',')
			p++;
		else if (*p != '}')
			return bad_header(in, "is not a dictionary", why);
	}
	p = skip(p + 1);
	if (seen != 7 || (*p != 0 && strcmp(p, "\n") != 0))
		return bad_header(in, "must have descr, fortran_order and shape, and no more", why);
	if (fortran)
		return bad_header(
			in, "says fortran_order; save numpy.ascontiguousarray of it instead", why);
	return TW_OK;
}

static enum tw_status check_size(struct tw_input *in, struct tw_npy *n, struct tw_error *why)
{
	uint64_t bytes;
	bool large = false;

	n->values = 1;
	for (uint32_t k = 0; k < n->rank; k++)
		large |= __builtin_mul_overflow(n->values, n->size[k], &n->values);
	large |= __builtin_mul_overflow(n->values, (uint64_t)n->width, &bytes);
	large |= __builtin_add_overflow(bytes, tw_input_at(in), &bytes);
	if (large || bytes > tw_input_most(in) || bytes > SIZE_MAX / 8)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: ends before byte %" PRIu64 ", which the shape in its header "
			       "leads to",
			       tw_input_name(in), large ? UINT64_MAX : bytes);
	if (tw_input_exact(in) && bytes < tw_input_most(in))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: continues after byte %" PRIu64 ", where its header says it "
			       "ends",
			       tw_input_name(in), bytes);
	return TW_OK;
}

enum tw_status tw_npy_header(struct tw_input *in, struct tw_npy *out, struct tw_error *why)
{
	uint8_t m[12];
	char header[HEADER_MOST + 1];
	size_t length;
	enum tw_status st = tw_input_read(in, m, 8, "the beginning of an NPY file", why);

	if (st != TW_OK)
		return st;
	if (memcmp(m, "\x93NUMPY", 6) != 0 || m[6] < 1 || m[6] > 3 || m[7] != 0)
		return bad_header(in, "does not begin like NPY of version 1, 2 or 3", why);
	st = tw_input_read(in, m + 8, m[6] == 1 ? 2 : 4, "the length of its header", why);
	if (st != TW_OK)
		return st;
	length = m[8] | (size_t)m[9] << 8;
	if (m[6] > 1)
		length |= (size_t)m[10] << 16 | (size_t)m[11] << 24;
	if (length > HEADER_MOST)
		return bad_header(in, "is longer than 65536 bytes", why);
	st = tw_input_read(in, header, length, "its header", why);
	if (st != TW_OK)
		return st;
	header[length] = 0;
	if (strlen(header) != length)
		return bad_header(in, "has zero bytes in it", why);
	*out = (struct tw_npy){ 0 };
	st = take_dictionary(in, header, out, why);
	return st == TW_OK ? check_size(in, out, why) : st;
}

/* One value, whatever it is. */
static double as_real(const struct tw_npy *n, const uint8_t *p)
{
	uint64_t bits = 0;
	float f;
	double d;

	memcpy(&bits, p, n->width); /* little endian, as we are */
	if (n->kind == TW_NPY_FLOAT && n->width == 4) {
		memcpy(&f, p, 4);
		return (double)f;
	}
	if (n->kind == TW_NPY_FLOAT) {
		memcpy(&d, p, 8);
		return d;
	}
	if (n->kind == TW_NPY_BOOL)
		return bits != 0;
	if (n->kind == TW_NPY_UNSIGNED)
		return (double)bits;
	bits <<= 64 - 8 * n->width;
	return (double)((int64_t)bits >> (64 - 8 * n->width));
}

/* Keep value `at` of the file, or say what is wrong with it. */
typedef enum tw_status keep_fn(const struct tw_input *in, uint64_t at, double v, void *out,
			       struct tw_error *why);

/* All values to the end of the file. */
static enum tw_status each(struct tw_input *in, const struct tw_npy *n, keep_fn *keep, void *out,
			   struct tw_error *why)
{
	uint8_t chunk[CHUNK * 8];
	size_t some;

	for (uint64_t done = 0; done < n->values; done += some) {
		const uint64_t left = n->values - done;
		enum tw_status st;

		some = left < CHUNK ? (size_t)left : CHUNK;
		st = tw_input_read(in, chunk, some * n->width, "its values", why);
		for (size_t i = 0; st == TW_OK && i < some; i++)
			st = keep(in, done + i, as_real(n, chunk + i * n->width), out, why);
		if (st != TW_OK)
			return st;
	}
	return tw_input_end(in, why);
}

static enum tw_status keep_float(const struct tw_input *in, uint64_t at, double v, void *out,
				 struct tw_error *why)
{
	const float f = (float)v;

	if (!isfinite(f))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: value %" PRIu64 " (from 1) is not a finite number (of 32 bits)",
			       tw_input_name(in), at + 1);
	((float *)out)[at] = f;
	return TW_OK;
}

enum tw_status tw_npy_floats(struct tw_input *in, const struct tw_npy *n, float *out,
			     struct tw_error *why)
{
	return each(in, n, keep_float, out, why);
}

static enum tw_status keep_label(const struct tw_input *in, uint64_t at, double v, void *out,
				 struct tw_error *why)
{
	if (v < 0 || v > INT32_MAX)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: label %" PRIu64 " (from 1) is %.0f; labels are 0 or more, "
			       "below the number of classes",
			       tw_input_name(in), at + 1, v);
	((uint32_t *)out)[at] = (uint32_t)v;
	return TW_OK;
}

enum tw_status tw_npy_labels(struct tw_input *in, const struct tw_npy *n, uint32_t *out,
			     struct tw_error *why)
{
	return each(in, n, keep_label, out, why);
}

size_t tw_npy_head(const char *type, uint32_t rank, const uint64_t *size, char out[TW_NPY_HEAD])
{
	char shape[300] = "";
	size_t at = 0, n;

	for (uint32_t k = 0; k < rank; k++)
		at += (size_t)snprintf(shape + at, sizeof shape - at, "%" PRIu64 "%s", size[k],
				       k + 1 < rank ? ", "
				       : rank == 1  ? ","
						    : "");
	n = 10 + (size_t)snprintf(out + 10, TW_NPY_HEAD - 74,
				  "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type,
				  shape);
	while ((n + 1) % 64)
		out[n++] = ' ';
	out[n++] = '\n';
	memcpy(out, "\x93NUMPY\x01\x00", 8);
	out[8] = (char)((n - 10) & 255);
	out[9] = (char)((n - 10) >> 8);
	return n;
}
