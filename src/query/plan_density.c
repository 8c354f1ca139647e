/* SPDX-License-Identifier: Apache-2.0 */
/* plan_density.c - which share of the values a codec sends, where that depends on the gradients:
 * measured over the first steps of one worker. */
#include "query/plan_density.h"

#include "vec/vec.h"

#include <stdlib.h>

#define STEPS 40 /* the second half counts: at first the residual is empty */

/* One worker's run: gradients, what the codec makes of them, and what that does. */
struct run {
	const struct tw_engine *e;
	const struct tw_plan *p;
	float *w, *gradient, *sent;
	void *scratch, *state;
	uint8_t *bytes;
	size_t room;
};

static enum tw_status run_init(struct run *r)
{
	const size_t n = r->e->trainable + r->e->buffers, t = r->e->trainable;
	const struct tw_traffic *c = &r->p->traffic;

	r->room = c->up->bound(c->up_options, t);
	r->w = calloc(n, sizeof *r->w);
	r->gradient = calloc(n, sizeof *r->gradient);
	r->sent = calloc(t, sizeof *r->sent);
	r->scratch = malloc(r->e->scratch_bytes + 1);
	r->state = calloc(1, c->up->state_bytes(c->up_options, t) + 1);
	r->bytes = malloc(r->room);
	if (!r->w || !r->gradient || !r->sent || !r->scratch || !r->state || !r->bytes)
		return TW_NO_MEMORY;
	return r->e->class->init(r->e, 0, n, r->w);
}

static void run_release(struct run *r)
{
	free(r->w);
	free(r->gradient);
	free(r->sent);
	free(r->scratch);
	free(r->state);
	free(r->bytes);
}

static enum tw_status run_step(struct run *r, uint64_t position, uint32_t batch, size_t *sent,
			       size_t *bytes)
{
	const struct tw_traffic *c = &r->p->traffic;
	const struct tw_rng rng = tw_rng_make(r->p->seed, TW_RNG_CODEC);
	const struct tw_encoding of = { .rng = &rng, .draw = position };
	const size_t n = r->e->trainable;
	const struct tw_piece piece = { r->w, 0, n + r->e->buffers };
	const struct tw_inputs in = {
		.from = position, .count = batch, .piece = &piece, .pieces = 1
	};
	size_t len = r->room;
	struct tw_score score;
	enum tw_status st = r->e->class->gradient(r->e, r->scratch, &in, r->gradient, &score);

	if (st == TW_OK && !tw_vec_finite(r->gradient, n))
		st = TW_BAD_BYTES;
	if (st == TW_OK)
		st = c->up->encode(c->up_options, r->state, &of, r->gradient, n, r->bytes, &len);
	if (st == TW_OK)
		st = c->up->check(c->up_options, r->bytes, len, n, sent);
	if (st == TW_OK)
		st = tw_codec_decode(c->up, c->up_options, r->bytes, len, r->sent, n);
	*bytes = len;
	if (st == TW_OK)
		tw_vec_axpy(r->w, -(float)tw_schedule_rate(&r->p->schedule, 0), r->sent, n);
	return st;
}

struct tw_plan_density tw_plan_density(const struct tw_engine *e, const struct tw_plan *p,
				       uint32_t batch)
{
	const double n = (double)e->trainable * (STEPS - STEPS / 2);
	struct run r = { .e = e, .p = p };
	const uint64_t samples = e->samples;
	const uint32_t count = batch < samples ? batch : (uint32_t)samples;
	struct tw_plan_density d = { 0 };
	enum tw_status st;

	if (!p->traffic.up->check || !p->traffic.up->state_bytes)
		return d;
	st = run_init(&r);
	for (uint64_t k = 0; k < STEPS && st == TW_OK; k++) {
		size_t sent = 0, bytes = 0;

		st = run_step(&r, k * count % (samples - count + 1), count, &sent, &bytes);
		d.share += k < STEPS / 2 ? 0 : (double)sent / n;
		d.per_value += k < STEPS / 2 ? 0 : (double)bytes / n;
	}
	run_release(&r);
	return st == TW_OK ? d : (struct tw_plan_density){ 0 };
}
