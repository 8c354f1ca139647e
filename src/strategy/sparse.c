/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - the largest values of a vector, and lists of values with their indices. */
#include "strategy/sparse.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

#define ALL (UINT32_C(1) << 31) /* in a list's count: no indices */

enum tw_status tw_codec_decode(const struct tw_codec *codec, const void *options,
			       const uint8_t *bytes, size_t len, float *out, size_t n)
{
	size_t sent;

	if (codec->decode)
		return codec->decode(options, bytes, len, out, n);
	if (codec->check(options, bytes, len, n, &sent) != TW_OK)
		return TW_BAD_BYTES;
	tw_vec_fill(out, 0.0f, n);
	codec->add(options, bytes, len, 1.0f, out, n);
	return TW_OK;
}

size_t tw_sparse_count(double share, size_t n)
{
	const size_t k = (size_t)ceil(share * (double)n);

	return k < n ? k : n;
}

/* --- the largest ---------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) uint32_t size_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits & 0x7fffffff;
}

#define STRETCH 32 /* values that are looked at together, most of them in vain */

/* Has any of them this size? */
TW_CLONED_STATIC(bool, reaches, (const float *v, uint32_t least, size_t n), (v, least, n))
{
	int32_t any = 0;

	for (size_t i = 0; i < n; i++)
		any |= (int32_t)size_of(v[i]) >= (int32_t)least;
	return any;
}

/* Digits of the 31 bits of a size, the highest first. */
#define DIGITS 3
static const unsigned digit_shift[DIGITS] = { 20, 10, 0 };
static const unsigned digit_bits[DIGITS] = { 11, 10, 10 };

/* Of the values whose digits before this one are those of `above`: how many have which digit. */
static void count_digit(const float *v, size_t n, unsigned digit, uint32_t above, uint32_t *count)
{
	const unsigned shift = digit_shift[digit], before = shift + digit_bits[digit];
	const uint32_t mask = (1u << digit_bits[digit]) - 1;

	memset(count, 0, sizeof *count << digit_bits[digit]);
	for (size_t at = 0; at < n; at += STRETCH) {
		const size_t end = n - at < STRETCH ? n : at + STRETCH;

		if (!reaches(v + at, above, end - at))
			continue;
		for (size_t i = at; i < end; i++) {
			const uint32_t size = size_of(v[i]);

			if ((uint64_t)size >> before == (uint64_t)above >> before)
				count[size >> shift & mask]++;
		}
	}
}

struct tw_cut tw_sparse_cut(const float *v, size_t n, size_t k)
{
	uint32_t count[1 << 11];
	struct tw_cut cut = { 0, k };

	for (unsigned digit = 0; digit < DIGITS; digit++) {
		uint32_t d = (1u << digit_bits[digit]) - 1;

		count_digit(v, n, digit, cut.above, count);
		for (; d && count[d] < cut.ties; d--)
			cut.ties -= count[d];
		cut.above |= d << digit_shift[digit];
	}
	return cut;
}

/* --- lists ---------------------------------------------------------------------------------- */

size_t tw_list_bound(size_t n, size_t k)
{
	return sizeof(uint32_t) + (2 * k < n ? 2 * k : n) * sizeof(float);
}

static size_t put_all(uint8_t *out, float *v, float *also, size_t n)
{
	tw_put_u32(out, ALL | (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		tw_put_f32(out + 4 + 4 * i, v[i]);
	tw_vec_fill(v, 0.0f, n);
	if (also)
		tw_vec_fill(also, 0.0f, n);
	return 4 + 4 * n;
}

/* Indices of the values that the cut keeps; zeros are never sent. */
static size_t put_indices(uint8_t *out, const float *v, size_t n, struct tw_cut cut)
{
	size_t count = 0;

	for (size_t at = 0; at < n; at += STRETCH) {
		const size_t end = n - at < STRETCH ? n : at + STRETCH;

		if (!reaches(v + at, cut.above, end - at))
			continue;
		for (size_t i = at; i < end; i++) {
			const uint32_t size = size_of(v[i]);
			const bool ties = size == cut.above && cut.ties;

			if (!size || (size <= cut.above && !ties))
				continue;
			cut.ties -= ties;
			tw_put_u32(out + 4 * count++, (uint32_t)i);
		}
	}
	return count;
}

size_t tw_list_put(uint8_t *out, float *v, float *also, size_t n, size_t k)
{
	size_t count;

	if (2 * k >= n)
		return put_all(out, v, also, n);
	count = put_indices(out + 4, v, n, tw_sparse_cut(v, n, k));
	tw_put_u32(out, (uint32_t)count);
	for (size_t j = 0; j < count; j++) {
		const uint32_t i = tw_get_u32(out + 4 + 4 * j);

		tw_put_f32(out + 4 + 4 * (count + j), v[i]);
		v[i] = 0.0f;
		if (also)
			also[i] = 0.0f;
	}
	return 4 + 8 * count;
}

enum tw_status tw_list_check(const void *options, const uint8_t *bytes, size_t len, size_t n,
			     size_t *sent)
{
	const uint32_t head = len >= 4 ? tw_get_u32(bytes) : 0;
	const size_t count = head & ~ALL, words = head & ALL ? count : 2 * count;
	const uint8_t *const value = bytes + 4 + (head & ALL ? 0 : 4 * count);
	uint64_t next = 0;

	if (len < 4 || len - 4 != 4 * words || count > n || (head & ALL && count != n))
		return TW_BAD_BYTES;
	for (size_t j = 0; !(head & ALL) && j < count; j++) {
		const uint32_t i = tw_get_u32(bytes + 4 + 4 * j);

		if (i < next || i >= n)
			return TW_BAD_BYTES;
		next = (uint64_t)i + 1;
	}
	for (size_t j = 0; j < count; j++)
		if (!isfinite(tw_get_f32(value + 4 * j)))
			return TW_BAD_BYTES;
	*sent = count;
	return TW_OK;
}

#define AHEAD 16 /* values whose memory is asked for in advance */

TW_CLONED_STATIC(void, add_listed,
		 (const uint8_t *index, const uint8_t *value, size_t count, float scale,
		  float *out),
		 (index, value, count, scale, out))
{
	for (size_t j = 0; j < count; j++) {
		float *const to = out + tw_get_u32(index + 4 * j);

		if (j + AHEAD < count)
			__builtin_prefetch(out + tw_get_u32(index + 4 * (j + AHEAD)), 1);
		*to = fmaf(scale, tw_get_f32(value + 4 * j), *to);
	}
}

TW_CLONED_STATIC(void, add_all, (const uint8_t *value, size_t n, float scale, float *out),
		 (value, n, scale, out))
{
	for (size_t i = 0; i < n; i++)
		out[i] = fmaf(scale, tw_get_f32(value + 4 * i), out[i]);
}

void tw_list_add(const void *options, const uint8_t *bytes, size_t len, float scale, float *out,
		 size_t n)
{
	const uint32_t head = tw_get_u32(bytes);

	if (head & ALL)
		add_all(bytes + 4, n, scale, out);
	else
		add_listed(bytes + 4, bytes + 4 + 4 * (size_t)head, head, scale, out);
}
