/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - encode and decode of every codec against an SGD pass over the same values. */
#include "bench/bench.h"

#include "base/arena.h"
#include "metrics/progress.h"
#include "strategy/codec.h"
#include "vec/vec.h"

#include <stdio.h>
#include <string.h>

#define VALUES ((size_t)4 << 20)
#define ROUNDS 15

struct work {
	struct tw_arena arena;
	float *x, *w, *back; /* back: decoded */
	uint8_t *bytes;
	void *options, *state;
	struct tw_rng rng;
};

static double seconds_since(int64_t began)
{
	return (double)(tw_clock() - began) / (double)TW_SECOND;
}

static enum tw_status prepare(struct work *k, const struct tw_codec *c, struct tw_error *why)
{
	tw_arena_init(&k->arena, &tw_heap_system);
	k->options = tw_arena_get(&k->arena, c->options_bytes + 1);
	if (!k->options)
		return tw_fail(why, TW_NO_MEMORY, "no memory for codec %s", c->name);
	if (c->options && tw_option_defaults(c->options, k->options, &k->arena, why) != TW_OK)
		return why->status;
	k->x = tw_arena_get(&k->arena, VALUES * sizeof(float));
	k->w = tw_arena_get(&k->arena, VALUES * sizeof(float));
	k->back = tw_arena_get(&k->arena, VALUES * sizeof(float));
	k->bytes = tw_arena_get(&k->arena, c->bound(k->options, VALUES));
	k->state = tw_arena_get(&k->arena,
				c->state_bytes ? c->state_bytes(k->options, VALUES) + 1 : 1);
	if (!k->x || !k->w || !k->back || !k->bytes || !k->state)
		return tw_fail(why, TW_NO_MEMORY, "no memory for codec %s", c->name);
	k->rng = tw_rng_make(1, TW_RNG_TEST);
	tw_rng_gauss_fill(&k->rng, 0, 0, k->x, VALUES);
	return TW_OK;
}

static enum tw_status measure(struct work *k, const struct tw_codec *c, json_t *cases,
			      struct tw_error *why)
{
	double floors[ROUNDS], encodes[ROUNDS], decodes[ROUNDS];
	size_t len = 0;
	char name[60];
	double floor;

	for (size_t i = 0; i < ROUNDS; i++) {
		int64_t began = tw_clock();

		tw_vec_sgd(k->w, k->w, k->x, 0.01f, VALUES, false);
		floors[i] = seconds_since(began);
		len = c->bound(k->options, VALUES);
		began = tw_clock();
		if (c->encode(k->options, k->state, &k->rng, i, k->x, VALUES, k->bytes, &len) !=
		    TW_OK)
			return tw_fail(why, TW_BAD_BYTES, "codec %s does not encode", c->name);
		encodes[i] = seconds_since(began);
		began = tw_clock();
		if (c->decode(k->options, k->bytes, len, k->back, VALUES) != TW_OK)
			return tw_fail(why, TW_BAD_BYTES, "codec %s does not decode", c->name);
		decodes[i] = seconds_since(began);
	}
	floor = tw_median(floors, ROUNDS);
	snprintf(name, sizeof name, "%s-encode", c->name);
	if (tw_bench_case(cases, name, tw_median(encodes, ROUNDS), "s", floor, why) != TW_OK)
		return why->status;
	snprintf(name, sizeof name, "%s-decode", c->name);
	if (tw_bench_case(cases, name, tw_median(decodes, ROUNDS), "s", floor, why) != TW_OK)
		return why->status;
	snprintf(name, sizeof name, "%s-bytes", c->name);
	return tw_bench_case(cases, name, (double)len / (double)VALUES, "bytes/value",
			     sizeof(float), why);
}

static enum tw_status codecs(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const struct tw_log *log = how->log;
	enum tw_status status = TW_OK;

	for (size_t i = 0; tw_codec_all[i] && status == TW_OK; i++) {
		struct work k;

		tw_log_line(log, TW_DEBUG, "bench", "codec %s", tw_codec_all[i]->name);
		status = prepare(&k, tw_codec_all[i], why);
		if (status == TW_OK)
			status = measure(&k, tw_codec_all[i], cases, why);
		tw_arena_release(&k.arena);
	}
	return status;
}

const struct tw_bench tw_bench_codec = {
	.name = "codec",
	.help = "encode and decode of every codec",
	.run = codecs,
};
