/* SPDX-License-Identifier: Apache-2.0 */
/* stage_act.c - what crosses a cut, as the codec of activations (strategy.codec.act) writes it.
 *
 *  (1) draws are for a sample position, a stage and a direction, so a micro-batch that is computed
 *      again, by whomever, is encoded alike.
 *  (2) what is not finite goes as it is (PLAIN): the gradients that it leads to are refused by the
 *      shards, and counted there.
 *  (3) an evaluation is of the model itself: its activations are not encoded. */
#include "node/duty/stage/stage_state.h"
#include "node/worker/worker.h"
#include "vec/vec.h"

static const struct tw_codec *codec_of(const struct worker *w)
{
	return w->plan->traffic.act;
}

static bool encodes(const struct worker *w)
{
	return !(codec_of(w)->traits & TW_CODEC_IDENTITY);
}

enum tw_status tw_stage_open_codec(struct worker *w)
{
	const struct tw_traffic *t = &w->plan->traffic;
	struct stage_worker *s = w->stage;
	const uint32_t batch = w->part->batch;
	const size_t in = tw_model_cut_floats(w->part->in, batch, false);
	const size_t out = tw_model_cut_floats(w->part->out, batch, true);

	if (!encodes(w))
		return TW_OK;
	s->coded[0] = tw_pool_new(w->heap, t->act->bound(t->act_options, w->part->sends));
	s->coded[1] = tw_pool_new(w->heap, t->act->bound(t->act_options, w->part->returns));
	s->decoded[0] = tw_pool_new(w->heap, in * sizeof(float));
	s->decoded[1] = tw_pool_new(w->heap, out * sizeof(float));
	return s->coded[0] && s->coded[1] && s->decoded[0] && s->decoded[1] ? TW_OK : TW_NO_MEMORY;
}

void tw_stage_close_codec(struct worker *w)
{
	struct stage_worker *s = w->stage;

	for (int back = 0; back < 2; back++) {
		tw_pool_free(s->coded[back]);
		tw_pool_free(s->decoded[back]);
		s->coded[back] = s->decoded[back] = NULL;
	}
}

/* The values as bytes; NULL: there is no memory. */
static struct tw_block *encode(struct worker *w, const struct tw_stage_load *c, struct tw_block *v,
			       size_t *bytes)
{
	const struct tw_rng rng = tw_rng_make(w->plan->seed, TW_RNG_ACT);
	const struct tw_encoding of = { .rng = &rng,
					.draw = c->position,
					.first = (uint64_t)c->stage << 33 |
						 (uint64_t)c->back << 32 }; /* (1) */
	struct tw_block *b = tw_pool_take(w->stage->coded[c->back]);

	if (!b)
		return NULL;
	*bytes = b->bytes;
	if (codec_of(w)->encode(w->plan->traffic.act_options, NULL, &of, tw_block_floats(v),
				c->floats, b->data, bytes) == TW_OK)
		return b;
	tw_block_drop(b);
	return NULL;
}

bool tw_stage_carry(struct worker *w, struct tw_context *ctx, const struct tw_stage_load *c,
		    struct tw_block *values, struct said *out)
{
	size_t bytes = c->floats * sizeof(float);

	out->plain = encodes(w) && !c->tests &&                          /* (3) */
		     !tw_vec_finite(tw_block_floats(values), c->floats); /* (2) */
	if (!encodes(w) || c->tests || out->plain)
		out->block = tw_block_keep(values);
	else
		out->block = encode(w, c, values, &bytes);
	out->bytes = (uint32_t)bytes;
	if (!out->block)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for activations");
	return out->block;
}

struct tw_block *tw_stage_unpack(struct worker *w, struct tw_context *ctx,
				 const struct tw_header *h, struct tw_block *payload,
				 const struct tw_stage_load *c)
{
	const bool plain = !encodes(w) || c->tests || (h->flags & TW_FLAG_PLAIN);
	struct tw_block *b;

	if (!payload || (plain && h->payload != c->floats * sizeof(float)))
		return NULL;
	if (plain)
		return tw_block_keep(payload);
	b = tw_pool_take(w->stage->decoded[c->back]);
	if (!b) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for activations");
		return NULL;
	}
	if (c->floats * sizeof(float) <= b->bytes &&
	    tw_codec_decode(codec_of(w), w->plan->traffic.act_options, payload->data, h->payload,
			    tw_block_floats(b), c->floats) == TW_OK)
		return b;
	tw_block_drop(b);
	return NULL;
}
