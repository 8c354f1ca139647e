/* SPDX-License-Identifier: Apache-2.0 */
/* slice_view.c - what workers see of a slice, and how it travels.
 *
 * Responsible for (3) and (4) of the rules in slice.h. */
#include "node/slice.h"
#include "node/half.h"
#include "vec/vec.h"

#include <string.h>

void tw_slice_answer_drop(struct slice_answer *a)
{
	tw_block_drop(a->wire);
	tw_block_drop(a->decoded);
	*a = (struct slice_answer){ NULL, NULL };
}

bool tw_slice_shows_each(const struct slice *s)
{
	const struct tw_half *far = &s->plan->far;

	return (far->rule->traits & TW_RULE_VIEW_MINE) && tw_rule_shows(far->rule, far->options);
}

/* The rule's view, in a new block; `mine` is of the worker that will see it, or NULL. */
static struct tw_block *make_view(struct slice *s, float *mine)
{
	const struct tw_half *far = &s->plan->far;
	struct tw_apply a = { .rate = tw_slice_rate(s),
			      .count = s->version.n,
			      .horizon = tw_plan_late(s->plan, s->index) };
	struct tw_block *b = tw_pool_take(s->pool);

	if (!b)
		return NULL;
	for (size_t at = 0; at < s->trainable; at += TW_TILE) {
		a.n = s->trainable - at < TW_TILE ? s->trainable - at : TW_TILE;
		a.w = tw_block_floats(s->w) + at;
		a.mine = mine ? mine + at : NULL;
		for (uint32_t k = 0; k < far->rule->arrays; k++)
			a.array[k] = s->array[k] + at;
		tw_half_view(far, &a, s->from + at, tw_block_floats(b) + at);
	}
	tw_vec_copy(tw_block_floats(b) + s->trainable, tw_block_floats(s->w) + s->trainable,
		    s->all - s->trainable);
	return b;
}

/* What all workers see now; NULL without memory.  The reference stays the slice's. */
static struct tw_block *shown(struct slice *s)
{
	HOLDS(4, !tw_slice_shows_each(s));
	if (s->view.shown)
		return s->view.shown;
	if (!tw_rule_shows(s->plan->far.rule, s->plan->far.options))
		return s->view.shown = tw_block_keep(s->w);
	return s->view.shown = make_view(s, NULL);
}

static enum tw_status encode_view(struct slice *s, struct tw_block *what, struct slice_answer *out)
{
	const struct tw_codec *c = s->plan->traffic.down;
	const void *options = s->plan->traffic.down_options;
	const struct tw_rng rng = tw_rng_make(s->plan->seed, TW_RNG_CODEC);
	const struct tw_encoding of = { .rng = &rng,
					.draw = TW_DRAW_DOWN | s->version.n,
					.first = s->from,
					.progress = tw_slice_progress(s) };
	const size_t tail = (s->all - s->trainable) * sizeof(float);
	size_t len = c->bound(options, s->trainable);

	if (c->traits & TW_CODEC_IDENTITY) {
		*out = (struct slice_answer){ tw_block_keep(what), tw_block_keep(what) };
		return TW_OK;
	}
	*out = (struct slice_answer){ tw_block_new(s->heap, len + tail), tw_pool_take(s->pool) };
	if (!out->wire || !out->decoded ||
	    c->encode(options, NULL, &of, tw_block_floats(what), s->trainable, out->wire->data,
		      &len) != TW_OK ||
	    tw_codec_decode(c, options, out->wire->data, len, tw_block_floats(out->decoded),
			    s->trainable) != TW_OK) {
		tw_slice_answer_drop(out);
		return TW_NO_MEMORY;
	}
	memcpy(out->wire->data + len, tw_block_floats(what) + s->trainable, tail);
	memcpy(tw_block_floats(out->decoded) + s->trainable, tw_block_floats(what) + s->trainable,
	       tail);
	out->wire->bytes = len + tail;
	return TW_OK;
}

/* What all workers see is encoded once per version. */
static enum tw_status show_all(struct slice *s, struct slice_answer *out)
{
	struct tw_block *what = shown(s);
	struct slice_answer made;

	if (!what)
		return TW_NO_MEMORY;
	if (!s->view.wire) {
		if (encode_view(s, what, &made) != TW_OK)
			return TW_NO_MEMORY;
		s->view.wire = made.wire;
		s->view.decoded = made.decoded;
	}
	*out = (struct slice_answer){ tw_block_keep(s->view.wire), tw_block_keep(s->view.decoded) };
	return TW_OK;
}

/* Where each sees another vector.  Without an array there was no memory for it. */
static enum tw_status show_one(struct slice *s, uint32_t slot, struct slice_answer *out)
{
	struct tw_block *mine = s->own[slot].array;
	struct tw_block *what = mine ? make_view(s, tw_block_floats(mine)) : NULL;
	enum tw_status st = what ? encode_view(s, what, out) : TW_NO_MEMORY;

	tw_block_drop(what);
	return st;
}

enum tw_status tw_slice_show(struct slice *s, uint32_t slot, struct slice_answer *out)
{
	*out = (struct slice_answer){ NULL, NULL };
	if (s->plan->gate->traits & TW_GATE_LOCKFREE) {
		out->wire = tw_slice_snapshot(s);
		return out->wire ? TW_OK : TW_NO_MEMORY;
	}
	return tw_slice_shows_each(s) ? show_one(s, slot, out) : show_all(s, out);
}
