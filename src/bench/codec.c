/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - encode and decode of every codec against an SGD pass over the same values. */
#include "bench/bench.h"

#include "base/arena.h"
#include "bench/harness/timed_engine.h"
#include "strategy/codec.h"
#include "vec/vec.h"

#include <stdio.h>
#include <string.h>

/* Strom's network, and the share of its values that mattered in one step. */
#define VALUES ((size_t)14600000)
#define MATTER 0.0036
#define LARGE  1e-3f
#define ROUNDS 15

struct work {
	struct tw_arena arena;
	float *x, *w, *back; /* back: decoded, or where a version goes that somebody holds */
	uint8_t *bytes;
	void *options, *state;
	struct tw_rng rng;
	char name[40]; /* of the codec, with a choice that is not the default */
};

/* Seconds of one round each. */
struct times {
	size_t rounds;
	double pass[ROUNDS], encode[ROUNDS], decode[ROUNDS], apply[ROUNDS], held[ROUNDS];
};

/* On a processor: others may use the machine meanwhile. */
static double seconds_since(int64_t began)
{
	return (double)(tw_timed_cpu() - began) / (double)TW_SECOND;
}

/* A gradient of which few values matter: those are LARGE, the others a thousand times smaller. */
static void make_gradient(struct work *k)
{
	k->rng = tw_rng_make(1, TW_RNG_TEST);
	tw_rng_gauss_fill(&k->rng, 0, 0, k->x, VALUES);
	tw_vec_scale(k->x, LARGE / 1000, VALUES);
	for (size_t j = 0; j < (size_t)(MATTER * (double)VALUES); j++)
		k->x[tw_rng_u64(&k->rng, 1, j) % VALUES] = j % 2 ? LARGE : -LARGE;
}

/* `choice`: of this option, value `i`; NULL: all as by default. */
static enum tw_status prepare(struct work *k, const struct tw_codec *c,
			      const struct tw_option *choice, size_t i, struct tw_error *why)
{
	tw_arena_init(&k->arena, &tw_heap_system);
	k->options = tw_arena_get(&k->arena, c->options_bytes + 1);
	if (!k->options)
		return tw_fail(why, TW_NO_MEMORY, "no memory for codec %s", c->name);
	if (c->options && tw_option_defaults(c->options, k->options, &k->arena, why) != TW_OK)
		return why->status;
	if (choice &&
	    tw_option_set(choice, k->options, choice->choices[i], &k->arena, why) != TW_OK)
		return why->status;
	snprintf(k->name, sizeof k->name, "%s%s%s", c->name, choice ? "-" : "",
		 choice ? choice->choices[i] : "");
	k->x = tw_arena_get(&k->arena, VALUES * sizeof(float));
	k->w = tw_arena_get(&k->arena, VALUES * sizeof(float));
	k->back = tw_arena_get(&k->arena, VALUES * sizeof(float));
	k->bytes = tw_arena_get(&k->arena, c->bound(k->options, VALUES));
	k->state = tw_arena_get(&k->arena,
				c->state_bytes ? c->state_bytes(k->options, VALUES) + 1 : 1);
	if (!k->x || !k->w || !k->back || !k->bytes || !k->state)
		return tw_fail(why, TW_NO_MEMORY, "no memory for codec %s", c->name);
	make_gradient(k);
	return TW_OK;
}

/* What a holder does with the bytes of a sparse codec: in place, and beside a version that
 * somebody holds. */
static enum tw_status apply(struct work *k, const struct tw_codec *c, size_t len, struct times *t,
			    size_t i)
{
	int64_t began = tw_timed_cpu();
	size_t sent;

	if (c->check(k->options, k->bytes, len, VALUES, &sent) != TW_OK)
		return TW_BAD_BYTES;
	c->add(k->options, k->bytes, len, -0.01f, k->w, VALUES);
	t->apply[i] = seconds_since(began);
	began = tw_timed_cpu();
	if (c->check(k->options, k->bytes, len, VALUES, &sent) != TW_OK)
		return TW_BAD_BYTES;
	tw_vec_copy(k->back, k->w, VALUES);
	c->add(k->options, k->bytes, len, -0.01f, k->back, VALUES);
	t->held[i] = seconds_since(began);
	return TW_OK;
}

static enum tw_status one_round(struct work *k, const struct tw_codec *c, struct times *t, size_t i,
				size_t *len)
{
	const struct tw_encoding of = { .rng = &k->rng, .draw = i };
	int64_t began = tw_timed_cpu();

	tw_vec_sgd(k->w, k->w, k->x, 0.01f, VALUES, false);
	t->pass[i] = seconds_since(began);
	*len = c->bound(k->options, VALUES);
	began = tw_timed_cpu();
	if (c->encode(k->options, k->state, &of, k->x, VALUES, k->bytes, len) != TW_OK)
		return TW_BAD_BYTES;
	t->encode[i] = seconds_since(began);
	began = tw_timed_cpu();
	if (tw_codec_decode(c, k->options, k->bytes, *len, k->back, VALUES) != TW_OK)
		return TW_BAD_BYTES;
	t->decode[i] = seconds_since(began);
	return c->add ? apply(k, c, *len, t, i) : TW_OK;
}

static enum tw_status report(const struct work *k, const char *what, const double *seconds,
			     const struct times *t, json_t *cases, struct tw_error *why)
{
	double value[ROUNDS], floor[ROUNDS];
	char name[60];

	memcpy(value, seconds, sizeof value);
	memcpy(floor, t->pass, sizeof floor);
	snprintf(name, sizeof name, "%s-%s", k->name, what);
	return tw_bench_case(cases, name, tw_median(value, t->rounds), "s",
			     tw_median(floor, t->rounds), why);
}

static enum tw_status measure(struct work *k, const struct tw_codec *c, unsigned rounds,
			      json_t *cases, struct tw_error *why)
{
	struct times t = { .rounds = rounds && rounds < ROUNDS ? rounds : ROUNDS };
	enum tw_status st;
	size_t len = 0;
	char name[60];

	for (size_t i = 0; i < t.rounds; i++)
		if (one_round(k, c, &t, i, &len) != TW_OK)
			return tw_fail(why, TW_BAD_BYTES, "codec %s does not encode or decode",
				       c->name);
	st = report(k, "encode", t.encode, &t, cases, why);
	if (st == TW_OK)
		st = report(k, "decode", t.decode, &t, cases, why);
	if (st == TW_OK && c->add)
		st = report(k, "apply", t.apply, &t, cases, why);
	if (st == TW_OK && c->add)
		st = report(k, "apply-held", t.held, &t, cases, why);
	if (st != TW_OK)
		return st;
	snprintf(name, sizeof name, "%s-bytes", k->name);
	return tw_bench_case(cases, name, (double)len / (double)VALUES, "bytes/value",
			     sizeof(float), why);
}

static enum tw_status bench_one(const struct tw_codec *c, const struct tw_option *choice, size_t i,
				const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	struct work k = { .x = NULL };
	enum tw_status status = prepare(&k, c, choice, i, why);

	tw_log_line(how->log, TW_DEBUG, "bench", "codec %s", k.name);
	if (status == TW_OK)
		status = measure(&k, c, how->rounds, cases, why);
	tw_arena_release(&k.arena);
	return status;
}

/* By default, and with every other value of a choice. */
static enum tw_status codecs(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (size_t i = 0; tw_codec_all[i] && status == TW_OK; i++) {
		const struct tw_option *o = tw_codec_all[i]->options;

		status = bench_one(tw_codec_all[i], NULL, 0, how, cases, why);
		for (; o && o->name && status == TW_OK; o++)
			for (size_t k = 0; o->type == TW_CHOICE && o->choices[k] && status == TW_OK;
			     k++)
				if (strcmp(o->choices[k], o->standard) != 0)
					status = bench_one(tw_codec_all[i], o, k, how, cases, why);
	}
	return status;
}

const struct tw_bench tw_bench_codec = {
	.name = "codec",
	.help = "encode and decode of every codec",
	.run = codecs,
};
