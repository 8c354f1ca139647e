/* SPDX-License-Identifier: Apache-2.0 */
/* target_codec.c - slices as every codec writes them.
 *
 * Input: the number of the codec, the value of its choices, the number of values (2 bytes); the
 * rest is what is decoded. */
#include "fuzz.h"

#include "base/arena.h"
#include "strategy/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Defaults, with another value for options that are a choice. */
static void *options_of(const struct tw_codec *c, uint8_t choice, struct tw_arena *keep)
{
	char *base = tw_arena_get(keep, c->options_bytes + 1);
	struct tw_error why;

	MUST(base);
	if (c->options)
		MUST(tw_option_defaults(c->options, base, keep, &why) == TW_OK);
	for (const struct tw_option *o = c->options; o && o->name; o++) {
		uint32_t many = 0;

		if (o->type != TW_CHOICE)
			continue;
		while (o->choices[many])
			many++;
		many = choice % many;
		memcpy(base + o->offset, &many, sizeof many);
	}
	return base;
}

/* Added to zeros, and to other values: what decoding says. */
static void add_it(const struct tw_codec *c, const void *options, const struct tw_fuzz_input *in,
		   const float *decoded, size_t n)
{
	float *w = malloc((n + 1) * sizeof *w);
	size_t sent = n + 1, nonzero = 0;

	MUST(w && c->check(options, in->at, in->left, n, &sent) == TW_OK && sent <= n);
	for (size_t i = 0; i < n; i++) {
		w[i] = (float)i;
		nonzero += decoded[i] != 0.0f;
	}
	MUST(nonzero <= sent);
	c->add(options, in->at, in->left, -0.5f, w, n);
	for (size_t i = 0; i < n; i++)
		MUST(w[i] == fmaf(-0.5f, decoded[i], (float)i));
	free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct tw_fuzz_input in = { bytes, size };
	const uint8_t which = tw_fuzz_byte(&in), choice = tw_fuzz_byte(&in);
	const size_t low = tw_fuzz_byte(&in), n = (low | (size_t)tw_fuzz_byte(&in) << 8) % 3000;
	const struct tw_codec *c;
	struct tw_arena keep;
	size_t codecs = 0;
	float *out;
	void *options;

	while (tw_codec_all[codecs])
		codecs++;
	c = tw_codec_all[which % codecs];
	tw_arena_init(&keep, &tw_heap_system);
	options = options_of(c, choice, &keep);
	out = malloc((n + 1) * sizeof *out);
	MUST(out);
	if (tw_codec_decode(c, options, in.at, in.left, out, n) == TW_OK) {
		for (size_t i = 0; i < n; i++)
			MUST(isfinite(out[i]));
		if (c->add)
			add_it(c, options, &in, out, n);
	} else if (c->check) {
		size_t sent;

		MUST(c->check(options, in.at, in.left, n, &sent) == TW_BAD_BYTES);
	}
	free(out);
	tw_arena_release(&keep);
	return 0;
}
