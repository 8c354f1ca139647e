/* SPDX-License-Identifier: Apache-2.0 */
/* test_codec.c - every codec of the table keeps codec.h's word. */
#include "strategy/tools.h"
#include "strategy/codec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LARGE   5000
#define ADDS_UP (TW_CODEC_REMEMBERS | TW_CODEC_MOMENTUM | TW_CODEC_FADES)

static const struct tw_rng rng = { { 1, 2 } };
#define OF(draw_) FROM(draw_, 0)
#define FROM(draw_, first_)                                                                        \
	(&(const struct tw_encoding){ .rng = &rng, .draw = (draw_), .first = (first_) })

struct bench {
	const struct tw_codec *codec;
	void *options, *state;
	float *x, *back;
	uint8_t *wire;
	size_t n, bound;
};

/* `shift` moves the wire buffer off any alignment. */
static void set_up_with(struct bench *b, const struct tw_codec *codec, void *options, size_t n,
			size_t shift)
{
	const size_t bound = codec->bound(options, n);
	const size_t state = codec->state_bytes ? codec->state_bytes(options, n) : 0;

	if (codec->usual)
		CHECK(codec->usual(options, n) <= (double)bound);
	*b = (struct bench){ .codec = codec,
			     .options = options,
			     .state = calloc(1, state + 1),
			     .x = malloc((n + 1) * sizeof(float)),
			     .back = malloc((n + 1) * sizeof(float)),
			     .wire = (uint8_t *)malloc(bound + shift + 1) + shift,
			     .n = n,
			     .bound = bound };
}

static void set_up(struct bench *b, const struct tw_codec *codec, size_t n, size_t shift)
{
	set_up_with(b, codec, OPTIONS(codec, NULL), n, shift);
}

/* Every codec, as by default and with every value of every choice that it offers. */
static void every_way(void (*check)(const struct tw_codec *codec, void *options))
{
	for (size_t k = 0; tw_codec_all[k]; k++) {
		const struct tw_codec *c = tw_codec_all[k];

		check(c, OPTIONS(c, NULL));
		for (const struct tw_option *o = c->options; o && o->name; o++)
			for (size_t i = 0; o->type == TW_CHOICE && o->choices[i]; i++)
				check(c, OPTIONS(c, o->name, o->choices[i], NULL));
	}
}

static void tear_down(struct bench *b, size_t shift)
{
	free(b->state);
	free(b->x);
	free(b->back);
	free(b->wire - shift);
}

/* Bytes of a sparse codec, added: what decoding and one fmaf per value give. */
static void adds_what_it_decodes(const struct bench *b, size_t len)
{
	float *w = malloc((b->n + 1) * sizeof *w), *want = malloc((b->n + 1) * sizeof *want);
	size_t sent = b->n + 1, nonzero = 0;

	CHECK(b->codec->check(b->options, b->wire, len, b->n, &sent) == TW_OK);
	gauss(w, b->n, 99, 1.0f);
	for (size_t i = 0; i < b->n; i++) {
		want[i] = fmaf(-0.3f, b->back[i], w[i]);
		nonzero += b->back[i] != 0.0f;
	}
	CHECK(nonzero <= sent && sent <= b->n);
	b->codec->add(b->options, b->wire, len, -0.3f, w, b->n);
	CHECK(same_bits(w, want, b->n));
	free(w);
	free(want);
}

static void keeps_its_word(const struct tw_codec *codec, void *options, size_t n, int steps,
			   size_t shift)
{
	struct bench b;

	CHECK(!codec->check == !codec->add && !codec->decode == !!codec->add);
	set_up_with(&b, codec, options, n, shift);
	for (int step = 0; step < steps; step++) {
		size_t len = b.bound;

		gauss(b.x, n, (uint64_t)step, step % 3 ? 1.0f : 1e-3f);
		b.wire[b.bound] = 0xA5;
		CHECK(codec->encode(b.options, b.state, OF((uint64_t)step), b.x, n, b.wire, &len) ==
		      TW_OK);
		CHECK(len <= b.bound && b.wire[b.bound] == 0xA5);
		CHECK(tw_codec_decode(codec, b.options, b.wire, len, b.back, n) == TW_OK);
		CHECK(all_finite(b.back, n));
		if (codec->traits & TW_CODEC_LOSSLESS)
			CHECK(same_bits(b.x, b.back, n));
		if (codec->add)
			adds_what_it_decodes(&b, len);
		for (size_t cut = 0; cut < len; cut++)
			CHECK(tw_codec_decode(codec, b.options, b.wire, cut, b.back, n) ==
			      TW_BAD_BYTES);
		CHECK(tw_codec_decode(codec, b.options, b.wire, len + 1, b.back, n) ==
		      TW_BAD_BYTES);
		if (b.bound) {
			size_t short_by_one = b.bound - 1;

			CHECK(codec->encode(b.options, b.state, OF((uint64_t)step), b.x, n, b.wire,
					    &short_by_one) == TW_NO_ROOM);
		}
	}
	tear_down(&b, shift);
}

static void keeps_its_word_at_all_lengths(const struct tw_codec *codec, void *options)
{
	for (size_t n = 0; n <= 33; n++)
		keeps_its_word(codec, options, n, 20, n % 3);
	keeps_its_word(codec, options, 1023, 2, 1);
	keeps_its_word(codec, options, 1024, 2, 0);
	keeps_its_word(codec, options, LARGE, 2, 1);
}

static void every_codec_keeps_its_word(void **state)
{
	(void)state;
	every_way(keeps_its_word_at_all_lengths);
}

/* After many steps: what went in is what came out and what is still owed, and that stays small. */
static void owes_what_it_did_not_send(const struct tw_codec *codec, void *options, size_t n)
{
	double *in = calloc(n + 1, sizeof *in), *out = calloc(n + 1, sizeof *out);
	struct bench b;

	set_up_with(&b, codec, options, n, 0);
	CHECK(codec->state_bytes && codec->state_bytes(b.options, n) >= n * sizeof(float));
	for (int step = 0; step < 300; step++) {
		size_t len = b.bound, none = b.bound ? b.bound - 1 : 0;

		gauss(b.x, n, (uint64_t)step, 1e-3f);
		memcpy(b.back, b.state, n * sizeof(float));
		if (b.bound) /* what could not be encoded changes no debt */
			CHECK(codec->encode(b.options, b.state, OF((uint64_t)step), b.x, n, b.wire,
					    &none) == TW_NO_ROOM);
		CHECK(same_bits(b.back, b.state, n));
		CHECK(codec->encode(b.options, b.state, OF((uint64_t)step), b.x, n, b.wire, &len) ==
		      TW_OK);
		CHECK(tw_codec_decode(codec, b.options, b.wire, len, b.back, n) == TW_OK);
		for (size_t i = 0; i < n; i++) {
			in[i] += (double)b.x[i];
			out[i] += (double)b.back[i];
		}
	}
	for (size_t i = 0; i < n; i++) {
		const double owed = (double)((const float *)b.state)[i];

		CHECK(fabs(out[i] + owed - in[i]) < 1e-6);
		CHECK(fabs(owed) < 0.1);
	}
	tear_down(&b, 0);
	free(in);
	free(out);
}

static void sends_it_later(const struct tw_codec *codec, void *options)
{
	for (size_t n = 0; (codec->traits & ADDS_UP) == TW_CODEC_REMEMBERS && n <= 66; n++)
		owes_what_it_did_not_send(codec, options, n);
}

static void every_codec_that_remembers_sends_it_later(void **state)
{
	(void)state;
	every_way(sends_it_later);
}

static void gives_the_same_bytes_on_every_isa(const struct tw_codec *codec, void *options,
					      float scale)
{
	struct bench first, b;
	size_t len0 = 0;

	set_up_with(&first, codec, options, LARGE, 0);
	for (int isa = -1; isa_next(&isa);) {
		set_up_with(&b, codec, options, LARGE, 0);

		size_t len = b.bound;

		gauss(b.x, LARGE, 5, scale);
		CHECK(codec->encode(b.options, b.state, OF(3), b.x, LARGE, b.wire, &len) == TW_OK);
		CHECK(tw_codec_decode(codec, b.options, b.wire, len, b.back, LARGE) == TW_OK);
		if (isa == TW_ISA_PLAIN) {
			len0 = len;
			memcpy(first.wire, b.wire, len);
			memcpy(first.back, b.back, LARGE * sizeof(float));
			memcpy(first.x, b.state, codec->state_bytes ? LARGE * sizeof(float) : 0);
		}
		CHECK(len == len0 && !memcmp(first.wire, b.wire, len));
		CHECK(same_bits(first.back, b.back, LARGE));
		CHECK(!codec->state_bytes || same_bits(first.x, b.state, LARGE));
		tear_down(&b, 0);
	}
	tear_down(&first, 0);
}

static void gives_the_same_bytes(const struct tw_codec *codec, void *options)
{
	gives_the_same_bytes_on_every_isa(codec, options, 100.0f);
	gives_the_same_bytes_on_every_isa(codec, options, 1e-3f);
	gives_the_same_bytes_on_every_isa(codec, options, 3e-4f);
}

static void every_codec_gives_the_same_bytes_on_every_isa(void **state)
{
	(void)state;
	every_way(gives_the_same_bytes);
}

/* All of the state is in its bytes: another copy of them goes on with the same bits. */
static void every_codec_goes_on_from_its_state(void **state)
{
	(void)state;
	for (size_t k = 0; tw_codec_all[k]; k++) {
		struct bench a, b;
		size_t bytes;

		set_up(&a, tw_codec_all[k], LARGE, 0);
		set_up(&b, tw_codec_all[k], LARGE, 0);
		bytes = a.codec->state_bytes ? a.codec->state_bytes(a.options, LARGE) : 0;
		for (uint64_t step = 0; step < 8; step++) {
			size_t len = a.bound, again = a.bound;

			gauss(a.x, LARGE, step, 1e-3f);
			if (step >= 4) {
				CHECK(b.codec->encode(b.options, b.state, OF(step), a.x, LARGE,
						      b.wire, &again) == TW_OK);
			}
			CHECK(a.codec->encode(a.options, a.state, OF(step), a.x, LARGE, a.wire,
					      &len) == TW_OK);
			if (step >= 4)
				CHECK(len == again && !memcmp(a.wire, b.wire, len));
			if (step == 3)
				memcpy(b.state, a.state, bytes);
		}
		CHECK(!memcmp(a.state, b.state, bytes));
		tear_down(&a, 0);
		tear_down(&b, 0);
	}
}

/* x in `shards` slices of one vector, through the codec and back. */
static void through_shards(const struct tw_codec *codec, const float *x, size_t n, size_t shards,
			   float *back)
{
	const size_t each = n / shards;

	for (size_t s = 0; s < shards; s++) {
		struct bench b;

		set_up(&b, codec, each, 0);
		for (uint64_t step = 0; step < 3; step++) {
			size_t len = b.bound;

			CHECK(codec->encode(b.options, b.state, FROM(step, s * each), x + s * each,
					    each, b.wire, &len) == TW_OK);
			CHECK(tw_codec_decode(codec, b.options, b.wire, len, back + s * each,
					      each) == TW_OK);
		}
		tear_down(&b, 0);
	}
}

/* Borders at multiples of any tile. */
static void results_do_not_depend_on_shards(void **state)
{
	const size_t n = (size_t)14 * 4096;
	float *x = malloc(n * sizeof *x), *one = malloc(n * sizeof *x),
	      *two = malloc(n * sizeof *x);

	(void)state;
	gauss(x, n, 8, 1e-3f);
	for (size_t k = 0; tw_codec_all[k]; k++) {
		if (tw_codec_all[k]->traits & TW_CODEC_PER_SLICE)
			continue;
		through_shards(tw_codec_all[k], x, n, 1, one);
		through_shards(tw_codec_all[k], x, n, 2, two);
		CHECK(same_bits(one, two, n));
		through_shards(tw_codec_all[k], x, n, 7, two);
		CHECK(same_bits(one, two, n));
	}
	free(x);
	free(one);
	free(two);
}

/* Equal values in two shards: a codec that draws draws other numbers for them. */
static void draws_do_not_repeat_across_shards(void **state)
{
	unsigned draw = 0;

	(void)state;
	for (size_t k = 0; tw_codec_all[k]; k++) {
		const struct tw_encoding of[] = { *OF(7), *OF(8), *FROM(7, LARGE) };
		uint8_t *wire[3];
		size_t len[3];
		struct bench b;

		for (int i = 0; i < 3; i++) {
			set_up(&b, tw_codec_all[k], LARGE, 0);
			gauss(b.x, LARGE, 4, 1e-3f);
			len[i] = b.bound;
			wire[i] = malloc(b.bound);
			CHECK(b.codec->encode(b.options, b.state, &of[i], b.x, LARGE, wire[i],
					      &len[i]) == TW_OK);
			tear_down(&b, 0);
		}
		if (len[0] != len[1] || memcmp(wire[0], wire[1], len[0]) != 0) {
			CHECK(len[0] != len[2] || memcmp(wire[0], wire[2], len[0]) != 0);
			draw++;
		}
		for (int i = 0; i < 3; i++)
			free(wire[i]);
	}
	CHECK(draw >= 2);
}

/* Those that remember are not given such values. */
static void what_is_not_finite_does_not_become_finite(void **state)
{
	static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };

	(void)state;
	for (size_t k = 0; tw_codec_all[k]; k++)
		for (size_t at = 0; !(tw_codec_all[k]->traits & TW_CODEC_REMEMBERS) && at < 300;
		     at++) {
			struct bench b;
			size_t len;

			set_up(&b, tw_codec_all[k], 300, 0);
			gauss(b.x, 300, at, 1.0f);
			b.x[at] = bad[at % 4];
			len = b.bound;
			CHECK(b.codec->encode(b.options, b.state, OF(1), b.x, 300, b.wire, &len) ==
			      TW_OK);
			CHECK(tw_codec_decode(b.codec, b.options, b.wire, len, b.back, 300) ==
			      TW_BAD_BYTES);
			tear_down(&b, 0);
		}
}

/* Whatever the bytes: refused, or all values finite. */
static void refuses_what_is_not_finite(const struct tw_codec *codec, void *options)
{
	for (size_t n = 1; n <= 33; n++) {
		struct bench b;
		unsigned refused = 0;

		set_up_with(&b, codec, options, n, 1);
		for (unsigned round = 0; round < 2000; round++) {
			size_t len = b.bound;

			gauss(b.x, n, round, 1.0f);
			CHECK(codec->encode(b.options, b.state, OF(round), b.x, n, b.wire, &len) ==
			      TW_OK);
			/* a random byte or a run of ones somewhere */
			const uint32_t at = pick(round * 64 + n, (uint32_t)len);

			b.wire[at] = (uint8_t)pick(round, 256);
			for (size_t i = at; i < len && i < at + pick(round + 9, 6); i++)
				b.wire[i] = 0xFF;
			if (tw_codec_decode(codec, b.options, b.wire, len, b.back, n) == TW_OK)
				CHECK(all_finite(b.back, n));
			else
				refused++;
		}
		CHECK(refused > 0);
		tear_down(&b, 1);
	}
}

static void every_codec_refuses_what_is_not_finite(void **state)
{
	(void)state;
	every_way(refuses_what_is_not_finite);
}

static void fp32_bytes_are_little_endian_floats(void **state)
{
	const float x[] = { 1.0f, -2.5f, FLT_MAX, FLT_TRUE_MIN, -0.0f };
	const uint8_t want[] = { 0,    0,    0x80, 0x3F, 0, 0, 0x20, 0xC0, 0xFF, 0xFF,
				 0x7F, 0x7F, 1,    0,    0, 0, 0,    0,    0,    0x80 };
	const struct tw_codec *c = tw_codec_find("fp32");
	uint8_t wire[sizeof want];
	size_t len = sizeof wire;

	(void)state;
	CHECK(c->encode(NULL, NULL, OF(0), x, 5, wire, &len) == TW_OK);
	CHECK(len == sizeof want && !memcmp(wire, want, len));
}

/* NaN and both infinities at every place of the vector. */
static void refuses_at_every_place(const char *name, const uint8_t *bad, size_t width)
{
	const struct tw_codec *c = tw_codec_find(name);
	uint8_t wire[40 * 4] = { 0 };
	float back[40];

	for (size_t i = 0; i < 40; i++) {
		memcpy(wire + i * width, bad, width);
		CHECK(tw_codec_decode(c, NULL, wire, 40 * width, back, 40) == TW_BAD_BYTES);
		memset(wire + i * width, 0, width);
		CHECK(tw_codec_decode(c, NULL, wire, 40 * width, back, 40) == TW_OK);
	}
}

static void nan_and_infinity_are_refused(void **state)
{
	(void)state;
	refuses_at_every_place("fp32", (const uint8_t[]){ 0, 0, 0x80, 0x7F }, 4);
	refuses_at_every_place("fp32", (const uint8_t[]){ 0, 0, 0x80, 0xFF }, 4);
	refuses_at_every_place("fp32", (const uint8_t[]){ 1, 0, 0x80, 0x7F }, 4);
	refuses_at_every_place("fp32", (const uint8_t[]){ 0, 0, 0xC0, 0xFF }, 4);
	refuses_at_every_place("fp16", (const uint8_t[]){ 0, 0x7C }, 2);
	refuses_at_every_place("fp16", (const uint8_t[]){ 0, 0xFC }, 2);
	refuses_at_every_place("fp16", (const uint8_t[]){ 1, 0x7C }, 2);
	refuses_at_every_place("bf16", (const uint8_t[]){ 0x80, 0x7F }, 2);
	refuses_at_every_place("bf16", (const uint8_t[]){ 0x80, 0xFF }, 2);
	refuses_at_every_place("bf16", (const uint8_t[]){ 0x81, 0x7F }, 2);
}

static void half_round_trip(const char *name, float x, float want, const uint8_t *bytes)
{
	const struct tw_codec *c = tw_codec_find(name);
	uint8_t wire[2];
	size_t len = sizeof wire;
	float back;

	CHECK(c->encode(NULL, NULL, OF(0), &x, 1, wire, &len) == TW_OK);
	CHECK(len == 2 && !memcmp(wire, bytes, 2));
	CHECK(tw_codec_decode(c, NULL, wire, len, &back, 1) == TW_OK);
	CHECK(same_bits(&back, &want, 1));
}

static void halves_round_to_even_and_saturate(void **state)
{
	(void)state;
	half_round_trip("fp16", 1.0f, 1.0f, (const uint8_t[]){ 0x00, 0x3C });
	half_round_trip("fp16", -2.0f, -2.0f, (const uint8_t[]){ 0x00, 0xC0 });
	half_round_trip("fp16", 1.0f + 0x1p-11f, 1.0f, (const uint8_t[]){ 0x00, 0x3C });
	half_round_trip("fp16", 1.0f + 0x3p-11f, 1.0f + 0x1p-9f, (const uint8_t[]){ 0x02, 0x3C });
	half_round_trip("fp16", 0x1p-24f, 0x1p-24f, (const uint8_t[]){ 0x01, 0x00 });
	half_round_trip("fp16", 65520.0f, 65504.0f, (const uint8_t[]){ 0xFF, 0x7B });
	half_round_trip("fp16", -FLT_MAX, -65504.0f, (const uint8_t[]){ 0xFF, 0xFB });
	half_round_trip("bf16", 1.0f, 1.0f, (const uint8_t[]){ 0x80, 0x3F });
	half_round_trip("bf16", 1.0f + 0x1p-8f, 1.0f, (const uint8_t[]){ 0x80, 0x3F });
	half_round_trip("bf16", 1.0f + 0x3p-8f, 1.0f + 0x1p-6f, (const uint8_t[]){ 0x82, 0x3F });
	half_round_trip("bf16", FLT_MAX, 0x1.FEp127f, (const uint8_t[]){ 0x7F, 0x7F });
	half_round_trip("bf16", -FLT_MAX, -0x1.FEp127f, (const uint8_t[]){ 0x7F, 0xFF });
}

static void halves_err_by_half_a_last_place(void **state)
{
	static float x[LARGE], back[LARGE];
	static uint8_t wire[2 * LARGE];
	const struct {
		const char *name;
		double within;
	} half[] = { { "fp16", 0x1p-11 }, { "bf16", 0x1p-8 } };

	(void)state;
	gauss(x, LARGE, 77, 10.0f);
	for (size_t k = 0; k < 2; k++) {
		const struct tw_codec *c = tw_codec_find(half[k].name);
		size_t len = sizeof wire;

		CHECK(c->encode(NULL, NULL, OF(0), x, LARGE, wire, &len) == TW_OK);
		CHECK(tw_codec_decode(c, NULL, wire, len, back, LARGE) == TW_OK);
		for (size_t i = 0; i < LARGE; i++)
			CHECK(fabs((double)back[i] - x[i]) <=
			      half[k].within * fabs(x[i]) + 0x1p-25);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_codec_keeps_its_word),
		cmocka_unit_test(every_codec_that_remembers_sends_it_later),
		cmocka_unit_test(every_codec_gives_the_same_bytes_on_every_isa),
		cmocka_unit_test(every_codec_goes_on_from_its_state),
		cmocka_unit_test(results_do_not_depend_on_shards),
		cmocka_unit_test(draws_do_not_repeat_across_shards),
		cmocka_unit_test(what_is_not_finite_does_not_become_finite),
		cmocka_unit_test(every_codec_refuses_what_is_not_finite),
		cmocka_unit_test(fp32_bytes_are_little_endian_floats),
		cmocka_unit_test(nan_and_infinity_are_refused),
		cmocka_unit_test(halves_round_to_even_and_saturate),
		cmocka_unit_test(halves_err_by_half_a_last_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
