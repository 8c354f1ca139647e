/* SPDX-License-Identifier: Apache-2.0 */
/* threshold.c - one step of tau for each value that has reached it (Strom 2015).
 *
 *	r = r + x; where r >= tau send +tau and r = r - tau; where r <= -tau send -tau and
 *	r = r + tau
 *
 * With a density, tau follows: after each encoding it is multiplied by the fourth root of what was
 * sent / what should have been, between 1 / 1.1 and 1.1; where that is far away, by 2 or 1/2.
 * (Residuals answer to another tau only after as many steps as a value waits, so larger steps
 * swing.)  Each slice has a tau of its own.
 *
 * Bytes: f32 tau, u32 count, then what is shortest of
 *
 *	words	count u32: index << 1 | negative, in ascending order (coding: plain)
 *	Rice	u8 k, then for each value the gap to the one before in Rice code k (the gap >> k in
 *		zeros, a one, the lower k bits) and one bit for negative (coding: rice)
 *	bitmap	(top bit of the count) ceil(n / 8) bytes with a bit for each value that is sent,
 *		then ceil(count / 8) bytes with their signs
 *
 * Bits are counted from the lowest of each byte; those left over are 0. */
#include "strategy/sparse.h"
#include "vec/clone.h"

#include <math.h>

#define HEADER 8
#define BITMAP (UINT32_C(1) << 31)
#define TILE   4096 /* values between two looks at the room */
#define RANGE  0x1p20f

enum coding { PLAIN, RICE };
static const char *const codings[] = { "plain", "rice", NULL };

struct threshold_options {
	float tau, density;
	uint32_t coding;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct threshold_options, tau, TW_F32, "0.001", NULL, 1e-12, 1e12,
		  "what is sent for a value, and the size that it must have reached; with a "
		  "density: at the start"),
	TW_OPTION(struct threshold_options, density, TW_F32, "0", NULL, 0, 1,
		  "the share of the values to be sent, which tau follows, within a factor of a "
		  "million; 0: tau does not change",
		  .example = "0.01"),
	TW_OPTION_CHOICE(struct threshold_options, coding, "coding", "plain", codings,
			 "plain: four bytes for each value that is sent; rice: the gaps between "
			 "them in Golomb-Rice code, a third of that"),
	TW_OPTION_END
};

/* The residual, then the tau of the next encoding where it follows a density; 0: the first. */
static size_t state_bytes(const void *options, size_t n)
{
	const struct threshold_options *o = options;

	return (n + (o->density > 0.0f)) * sizeof(float);
}

static size_t bytes_for(size_t bits)
{
	return (bits + 7) / 8;
}

/* Beyond so many, the bitmap is shorter than words, or than any Rice code. */
static size_t most_words(const struct threshold_options *o, size_t n)
{
	return o->coding == RICE ? n / 4 : n / 31;
}

/* What is sent in front, then the words that it is made from. */
static size_t front(size_t n)
{
	return HEADER + 2 * bytes_for(n) + 1;
}

static size_t bound(const void *options, size_t n)
{
	const size_t most = most_words(options, n) + TILE, words = most < n ? most : n;

	return front(n) + sizeof(uint32_t) * (words + 1);
}

/* The density is kept, as words or as a bitmap; Rice codes depend on where the values are. */
static double usual(const void *options, size_t n)
{
	const struct threshold_options *o = options;
	const double words = sizeof(uint32_t) * (double)o->density * (double)n;
	const double bitmap = 2.0 * (double)bytes_for(n);

	if (o->coding == RICE || o->density <= 0.0f)
		return 0;
	return HEADER + (words < bitmap ? words : bitmap);
}

/* --- encode --------------------------------------------------------------------------------- */

#define STRETCH 64 /* values that are looked at together, most of them in vain */

/* A word for each of the bytes that is not 0: 1 for +tau, 2 for -tau. */
static inline __attribute__((always_inline)) size_t list_hits(const uint8_t *hit, uint32_t first,
							      uint32_t *words)
{
	size_t count = 0;

	for (unsigned at = 0; at < STRETCH; at += 8) {
		uint64_t eight = 0;

		for (unsigned k = 0; k < 8; k++)
			eight |= (uint64_t)hit[at + k] << 8 * k;
		for (; eight; eight &= eight - 1) {
			const unsigned bit = (unsigned)__builtin_ctzll(eight);

			words[count++] = (first + at + bit / 8) << 1 | bit % 8;
		}
	}
	return count;
}

/* r = r + x, less what is sent of it; a word for each value that is.  Returns how many. */
TW_CLONED_STATIC(size_t, step,
		 (float *r, const float *x, size_t n, float tau, uint32_t first, uint32_t *words),
		 (r, x, n, tau, first, words))
{
	size_t count = 0;

	for (size_t at = 0; at < n; at += STRETCH) {
		const size_t m = n - at < STRETCH ? n - at : STRETCH;
		uint8_t hit[STRETCH];
		float *const owed = r + at;
		int32_t any = 0;

#pragma GCC ivdep
		for (size_t i = 0; i < m; i++) {
			const float sum = owed[i] + x[at + i];

			owed[i] = sum;
			any |= fabsf(sum) >= tau;
		}
		if (!any)
			continue;
		memset(hit, 0, sizeof hit);
#pragma GCC ivdep
		for (size_t i = 0; i < m; i++) {
			const float sum = owed[i];

			hit[i] = (uint8_t)((sum >= tau) | (sum <= -tau) << 1);
			owed[i] = sum - (sum >= tau ? tau : sum <= -tau ? -tau : 0.0f);
		}
		count += list_hits(hit, first + (uint32_t)at, words + count);
	}
	return count;
}

static void set_bit(uint8_t *bytes, size_t bit)
{
	bytes[bit / 8] |= (uint8_t)(1u << (bit % 8));
}

static bool bit_of(const uint8_t *bytes, size_t bit)
{
	return bytes[bit / 8] >> (bit % 8) & 1;
}

/* Words into the bitmap, after `count` that are in it. */
static void mark(uint8_t *out, size_t n, size_t count, const uint32_t *words, size_t more)
{
	uint8_t *const signs = out + HEADER + bytes_for(n);

	for (size_t j = 0; j < more; j++) {
		set_bit(out + HEADER, words[j] >> 1);
		if (words[j] & 1)
			set_bit(signs, count + j);
	}
}

/* The best Rice parameter for gaps whose mean is n / count: log2(ln 2 * mean), rounded. */
static unsigned rice_parameter(size_t n, size_t count)
{
	double mean = count ? 0.6931471805599453 * (double)n / (double)count : 1.0;
	unsigned k = 0;

	for (; mean >= 1.4142135623730951 && k < 30; mean /= 2)
		k++;
	return k;
}

struct bit_writer {
	uint8_t *at;
	uint64_t bits;
	unsigned have;
};

static void write_bits(struct bit_writer *w, uint64_t bits, unsigned count)
{
	w->bits |= bits << w->have;
	for (w->have += count; w->have >= 8; w->have -= 8) {
		*w->at++ = (uint8_t)w->bits;
		w->bits >>= 8;
	}
}

/* Zeros, however many, and a one. */
static void write_unary(struct bit_writer *w, uint32_t zeros)
{
	for (; zeros >= 32; zeros -= 32)
		write_bits(w, 0, 32);
	write_bits(w, UINT64_C(1) << zeros, zeros + 1);
}

/* The length of the Rice code, in bytes. */
static size_t rice_bytes(const uint32_t *words, size_t count, unsigned k)
{
	uint64_t bits = (uint64_t)count * (k + 2);
	uint32_t next = 0;

	for (size_t j = 0; j < count; j++) {
		bits += ((words[j] >> 1) - next) >> k;
		next = (words[j] >> 1) + 1;
	}
	return 1 + bytes_for(bits);
}

static size_t put_rice(uint8_t *out, const uint32_t *words, size_t count, unsigned k)
{
	struct bit_writer w = { .at = out + 1 };
	uint32_t next = 0;

	*out = (uint8_t)k;
	for (size_t j = 0; j < count; j++) {
		const uint32_t gap = (words[j] >> 1) - next;

		write_unary(&w, gap >> k);
		write_bits(&w, gap & ((1u << k) - 1), k);
		write_bits(&w, words[j] & 1, 1);
		next = (words[j] >> 1) + 1;
	}
	if (w.have)
		write_bits(&w, 0, 8 - w.have);
	return (size_t)(w.at - out);
}

static size_t put_words(uint8_t *out, const uint32_t *words, size_t count)
{
	for (size_t j = 0; j < count; j++)
		tw_put_u32(out + 4 * j, words[j]);
	return 4 * count;
}

/* All that was sent is in `words`: the shortest of what it can be written as. */
static size_t put_shortest(const struct threshold_options *o, uint8_t *out, size_t n,
			   const uint32_t *words, size_t count)
{
	const size_t bitmap = bytes_for(n) + bytes_for(count);
	const unsigned k = rice_parameter(n, count);
	const size_t list = o->coding == RICE ? rice_bytes(words, count, k) : 4 * count;

	tw_put_u32(out + 4, (uint32_t)count | (list > bitmap ? BITMAP : 0));
	if (list <= bitmap)
		return HEADER + (o->coding == RICE ? put_rice(out + HEADER, words, count, k)
						   : put_words(out + HEADER, words, count));
	memset(out + HEADER, 0, bitmap);
	mark(out, n, 0, words, count);
	return HEADER + bitmap;
}

/* There are more than `most` words after `at` values: the rest goes into the bitmap. */
static size_t put_bitmap(float *owed, const float *x, size_t n, float tau, uint8_t *out,
			 uint32_t *words, size_t *count, size_t at)
{
	memset(out + HEADER, 0, 2 * bytes_for(n));
	mark(out, n, 0, words, *count);
	for (; at < n; at += TILE) {
		const size_t m = n - at < TILE ? n - at : TILE;
		const size_t more = step(owed + at, x + at, m, tau, (uint32_t)at, words);

		mark(out, n, *count, words, more);
		*count += more;
	}
	tw_put_u32(out + 4, BITMAP | (uint32_t)*count);
	return HEADER + bytes_for(n) + bytes_for(*count);
}

#define FAR 16.0f /* times what should have been sent, or a part of it */

static float between(float x, float least, float most)
{
	return x < least ? least : x > most ? most : x;
}

static float followed(const struct threshold_options *o, float tau, size_t count, size_t n)
{
	const float want = o->density * (float)n, off = (float)count / want;
	const bool far = want >= FAR && (off > FAR || off < 1 / FAR);
	const float most = far ? 2.0f : 1.1f;

	return between(tau * between(sqrtf(sqrtf(off)), 1 / most, most), o->tau / RANGE,
		       o->tau * RANGE);
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const struct threshold_options *o = options;
	const size_t most = most_words(o, n);
	float *const owed = state;
	uint32_t *words;
	float tau = o->tau;
	size_t at = 0, count = 0;

	(void)of;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	if (o->density > 0.0f && owed[n] > 0.0f)
		tau = owed[n];
	/* out may begin anywhere */
	words = (uint32_t *)(((uintptr_t)(out + front(n)) + 3) & ~(uintptr_t)3);
	tw_put_f32(out, tau);
	for (; at < n && count <= most; at += TILE)
		count += step(owed + at, x + at, n - at < TILE ? n - at : TILE, tau, (uint32_t)at,
			      words + count);
	*len = count <= most ? put_shortest(o, out, n, words, count)
			     : put_bitmap(owed, x, n, tau, out, words, &count, at);
	if (o->density > 0.0f && n)
		owed[n] = followed(o, tau, count, n);
	return TW_OK;
}

/* --- decode --------------------------------------------------------------------------------- */

struct bit_reader {
	const uint8_t *at, *end;
	uint64_t bits;
	unsigned have;
};

static void fill(struct bit_reader *r)
{
	for (; r->have <= 56 && r->at < r->end; r->have += 8)
		r->bits |= (uint64_t)*r->at++ << r->have;
}

static bool read_bits(struct bit_reader *r, unsigned count, uint32_t *out)
{
	fill(r);
	if (r->have < count)
		return false;
	*out = (uint32_t)(r->bits & ((UINT64_C(1) << count) - 1));
	r->bits >>= count;
	r->have -= count;
	return true;
}

static bool read_unary(struct bit_reader *r, uint64_t *zeros)
{
	unsigned some;

	*zeros = 0;
	for (fill(r); r->bits == 0; fill(r)) {
		if (!r->have)
			return false;
		*zeros += r->have;
		r->have = 0;
	}
	some = (unsigned)__builtin_ctzll(r->bits);
	*zeros += some;
	r->bits = r->bits >> some >> 1;
	r->have -= some + 1;
	return true;
}

/* The next word of a Rice code after index `next` - 1; false: there is none below n. */
static bool read_word(struct bit_reader *r, unsigned k, uint64_t next, size_t n, uint32_t *word)
{
	uint32_t low, sign;
	uint64_t high, i;

	if (!read_unary(r, &high) || !read_bits(r, k, &low) || !read_bits(r, 1, &sign))
		return false;
	i = next + (high << k) + low;
	*word = (uint32_t)i << 1 | sign;
	return high <= n >> k && i < n;
}

static enum tw_status check_rice(const uint8_t *bytes, size_t len, size_t n, size_t count)
{
	struct bit_reader r = { .at = bytes + 1, .end = bytes + len };
	uint64_t next = 0;

	if (len < 1 || *bytes > 30)
		return TW_BAD_BYTES;
	for (size_t j = 0; j < count; j++) {
		uint32_t word;

		if (!read_word(&r, *bytes, next, n, &word))
			return TW_BAD_BYTES;
		next = (uint64_t)(word >> 1) + 1;
	}
	return r.at == r.end && r.have < 8 && r.bits == 0 ? TW_OK : TW_BAD_BYTES;
}

static enum tw_status check_words(const uint8_t *bytes, size_t len, size_t n, size_t count)
{
	uint64_t next = 0;

	if (len % 4 || len / 4 != count)
		return TW_BAD_BYTES;
	for (size_t j = 0; j < count; j++) {
		const uint32_t i = tw_get_u32(bytes + 4 * j) >> 1;

		if (i < next || i >= n)
			return TW_BAD_BYTES;
		next = (uint64_t)i + 1;
	}
	return TW_OK;
}

/* Are the bits from `from` on to the end of the last byte 0? */
static bool ends_with_zeros(const uint8_t *bytes, size_t from)
{
	return from % 8 == 0 || bytes[from / 8] >> (from % 8) == 0;
}

static enum tw_status check_bitmap(const uint8_t *bytes, size_t len, size_t n, size_t count)
{
	const size_t map = bytes_for(n);
	size_t set = 0;

	if (len != map + bytes_for(count) || !ends_with_zeros(bytes, n) ||
	    !ends_with_zeros(bytes + map, count))
		return TW_BAD_BYTES;
	for (size_t i = 0; i < map; i++)
		set += (size_t)__builtin_popcount(bytes[i]);
	return set == count ? TW_OK : TW_BAD_BYTES;
}

static enum tw_status check(const void *options, const uint8_t *bytes, size_t len, size_t n,
			    size_t *sent)
{
	const struct threshold_options *o = options;
	const float tau = len < HEADER ? 0.0f : tw_get_f32(bytes);
	uint32_t head;

	if (!(tau > 0.0f) || !isfinite(tau))
		return TW_BAD_BYTES;
	head = tw_get_u32(bytes + 4);
	*sent = head & ~BITMAP;
	if (*sent > n)
		return TW_BAD_BYTES;
	if (head & BITMAP)
		return check_bitmap(bytes + HEADER, len - HEADER, n, *sent);
	return o->coding == RICE ? check_rice(bytes + HEADER, len - HEADER, n, *sent)
				 : check_words(bytes + HEADER, len - HEADER, n, *sent);
}

#define AHEAD 16 /* values whose memory is asked for in advance */

TW_CLONED_STATIC(void, add_words, (const uint8_t *bytes, size_t count, const float *by, float *out),
		 (bytes, count, by, out))
{
	for (size_t j = 0; j < count; j++) {
		const uint32_t word = tw_get_u32(bytes + 4 * j);
		float *const to = out + (word >> 1);

		if (j + AHEAD < count)
			__builtin_prefetch(out + (tw_get_u32(bytes + 4 * (j + AHEAD)) >> 1), 1);
		*to = fmaf(by[0], by[1 + (word & 1)], *to);
	}
}

static void add_rice(const uint8_t *bytes, size_t len, size_t count, const float *by, float *out,
		     size_t n)
{
	struct bit_reader r = { .at = bytes + 1, .end = bytes + len };
	uint8_t some[4 * 256];
	uint64_t next = 0;

	while (count) {
		const size_t m = count < 256 ? count : 256;

		for (size_t j = 0; j < m; j++) {
			uint32_t word = 0;

			read_word(&r, *bytes, next, n, &word);
			tw_put_u32(some + 4 * j, word);
			next = (uint64_t)(word >> 1) + 1;
		}
		add_words(some, m, by, out);
		count -= m;
	}
}

static void add_bitmap(const uint8_t *bytes, const float *by, float *out, size_t n)
{
	const uint8_t *const signs = bytes + bytes_for(n);
	uint8_t word[4];
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (bit_of(bytes, i)) {
			tw_put_u32(word, (uint32_t)i << 1 | bit_of(signs, count++));
			add_words(word, 1, by, out);
		}
}

static void add(const void *options, const uint8_t *bytes, size_t len, float scale, float *out,
		size_t n)
{
	const struct threshold_options *o = options;
	const float tau = tw_get_f32(bytes), by[] = { scale, tau, -tau };
	const uint32_t head = tw_get_u32(bytes + 4);

	if (head & BITMAP)
		add_bitmap(bytes + HEADER, by, out, n);
	else if (o->coding == RICE)
		add_rice(bytes + HEADER, len - HEADER, head, by, out, n);
	else
		add_words(bytes + HEADER, head, by, out);
}

const struct tw_codec tw_codec_threshold = {
	.name = "threshold",
	.help = "a fixed step for each value that has grown to it; the rest is kept",
	.options = rows,
	.options_bytes = sizeof(struct threshold_options),
	.traits = TW_CODEC_REMEMBERS,
	.state_bytes = state_bytes,
	.bound = bound,
	.usual = usual,
	.encode = encode,
	.check = check,
	.add = add,
};
