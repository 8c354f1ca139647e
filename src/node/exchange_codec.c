/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_codec.c - slices as a codec writes them, and what a codec that remembers owes.
 * Responsible for (7) of the rules in exchange.h. */
#include "node/exchange.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool remembers(const struct exchange *x)
{
	return x->plan->traffic.up->traits & TW_CODEC_REMEMBERS;
}

static float *residual(const struct holder *h)
{
	return h->state;
}

/* --- states ------------------------------------------------------------------------------- */

enum tw_status tw_exchange_open_codec(struct exchange *x)
{
	const struct tw_traffic *t = &x->plan->traffic;
	size_t bytes = 0, longest = 1;

	if (!t->up->state_bytes)
		return TW_OK;
	for (uint32_t k = 0; k < x->holders; k++) {
		struct holder *h = &x->holder[k];

		h->state_bytes = t->up->state_bytes(t->up_options, h->range.trainable);
		bytes += (h->state_bytes + 63) / 64 * 64;
		longest = h->range.trainable > longest ? h->range.trainable : longest;
	}
	x->states = tw_heap_zeros(x->heap, bytes ? bytes : 1);
	if (remembers(x))
		x->scratch = tw_heap_zeros(x->heap, longest * sizeof(float));
	if (!x->states || (remembers(x) && !x->scratch))
		return TW_NO_MEMORY;
	bytes = 0;
	for (uint32_t k = 0; k < x->holders; k++) {
		x->holder[k].state = x->states + bytes;
		bytes += (x->holder[k].state_bytes + 63) / 64 * 64;
	}
	return TW_OK;
}

void tw_exchange_blank(struct exchange *x)
{
	for (uint32_t k = 0; k < x->holders; k++)
		if (x->holder[k].state)
			memset(x->holder[k].state, 0, x->holder[k].state_bytes);
}

bool tw_exchange_owes(const struct exchange *x)
{
	for (uint32_t k = 0; remembers(x) && k < x->holders; k++) {
		const struct holder *h = &x->holder[k];

		for (size_t i = 0; i < h->range.trainable; i++)
			if (residual(h)[i] != 0.0f)
				return true;
	}
	return false;
}

float tw_exchange_owed(const struct exchange *x)
{
	double square = 0;

	for (uint32_t k = 0; remembers(x) && k < x->holders; k++)
		square += tw_vec_square(residual(&x->holder[k]), x->holder[k].range.trainable);
	return (float)fmin(sqrt(square), (double)FLT_MAX);
}

/* --- there -------------------------------------------------------------------------------- */

/* With all that is owed, as floats. */
static enum tw_status encode_plain(struct exchange *x, struct carried *s, const struct holder *h,
				   const float *v)
{
	const size_t n = h->range.all, t = h->range.trainable;
	struct tw_block *b = tw_block_new(x->heap, n * sizeof(float));

	if (!b)
		return TW_NO_MEMORY;
	memcpy(tw_block_floats(b), v, n * sizeof(float));
	tw_vec_add(tw_block_floats(b), residual(h), t);
	tw_vec_fill(residual(h), 0.0f, t);
	s->payload = b;
	s->bytes = n * sizeof(float);
	s->plain = true;
	return TW_OK;
}

static enum tw_status encode_bytes(struct exchange *x, struct carried *s, const struct holder *h,
				   const float *v, const struct tw_body_push *what)
{
	const struct tw_traffic *c = &x->plan->traffic;
	const struct tw_rng rng = tw_rng_make(x->plan->seed, TW_RNG_CODEC);
	const struct tw_encoding of = { .rng = &rng,
					.draw = what->range[0].from,
					.first = h->range.from,
					.progress =
						tw_plan_progress(x->plan, what->range[0].from) };
	const size_t t = h->range.trainable, tail = (h->range.all - t) * sizeof(float);
	size_t len = c->up->bound(c->up_options, t);
	struct tw_block *b = tw_block_new(x->heap, len + tail);

	if (!b)
		return TW_NO_MEMORY;
	s->payload = b;
	if (c->up->encode(c->up_options, h->state, &of, v, t, b->data, &len) != TW_OK)
		return TW_NO_ROOM;
	memcpy(b->data + len, v + t, tail);
	s->bytes = len + tail;
	return TW_OK;
}

enum tw_status tw_exchange_encode(struct exchange *x, struct outgoing *o,
				  const struct tw_offer *offer, uint32_t k)
{
	const struct holder *h = &x->holder[k];
	const float *v = tw_block_floats(offer->vector) + h->range.at;
	struct carried *s = &o->slice[k];

	if (!remembers(x))
		return encode_bytes(x, s, h, v, &o->body);
	if (!tw_vec_finite(v, h->range.trainable)) {
		/* it would be owed for good: it goes as it is, and its holder refuses it */
		tw_exchange_refer(s, offer->vector, &h->range);
		s->plain = true;
		return TW_OK;
	}
	s->returns = true;
	if (!o->vector)
		o->vector = tw_block_keep(offer->vector);
	return offer->plain ? encode_plain(x, s, h, v) : encode_bytes(x, s, h, v, &o->body);
}

/* --- not taken ---------------------------------------------------------------------------- */

/* What the holder would have applied; NULL: our own bytes are not finite. */
static const float *decoded(struct exchange *x, const struct carried *s, const struct holder *h)
{
	const struct tw_traffic *c = &x->plan->traffic;
	const size_t t = h->range.trainable;
	const size_t len = s->bytes - (h->range.all - t) * sizeof(float);

	if (s->plain)
		return (const float *)(s->payload->data + s->at);
	if (tw_codec_decode(c->up, c->up_options, s->payload->data + s->at, len, x->scratch, t) !=
	    TW_OK)
		return NULL;
	return x->scratch;
}

/* (9) */
static void give_back(struct exchange *x, const struct outgoing *o, uint32_t k)
{
	const struct tw_holding *r = &x->holder[k].range;
	const float *d = tw_block_floats(o->vector) + r->at;

	if (!tw_vec_finite(d, r->trainable))
		return;
	tw_vec_add(x->returned + r->from, d, r->trainable);
	x->has_returned = true;
}

void tw_exchange_return(struct exchange *x, const struct outgoing *o, uint32_t k, bool keeps)
{
	const struct carried *s = &o->slice[k];
	const struct holder *h = &x->holder[k];
	const size_t t = h->range.trainable;
	const float *d;

	if (x->returned && s->payload && !(keeps && s->returns))
		give_back(x, o, k);
	if (!s->returns)
		return;
	d = decoded(x, s, h);
	if (d)
		tw_vec_add(residual(h), d, t);
	if (d && !keeps)
		tw_vec_sub(residual(h), residual(h), tw_block_floats(o->vector) + h->range.at, t);
	if (!d || !tw_vec_finite(residual(h), t))
		memset(h->state, 0, h->state_bytes); /* it grew out of all numbers */
}

/* --- in a checkpoint ---------------------------------------------------------------------- */

static const char residual_name[] = "residual";

/* Bytes that a codec keeps of a range beside the residual. */
static size_t more_bytes(const struct holder *h)
{
	return h->state_bytes - h->range.trainable * sizeof(float);
}

static uint8_t *more(const struct holder *h)
{
	return (uint8_t *)(residual(h) + h->range.trainable);
}

static void name_more(char *out, size_t room, const struct holder *h)
{
	snprintf(out, room, "codec.%zu", h->range.from);
}

/* The parameters of the vector, or those of the stage that the holders have. */
static void extent(const struct exchange *x, size_t *from, size_t *n)
{
	size_t to = 0;

	if (!tw_plan_is_staged(x->plan)) {
		*from = 0;
		*n = x->plan->problem.trainable;
		return;
	}
	*from = SIZE_MAX;
	for (uint32_t k = 0; k < x->holders; k++) {
		const struct tw_holding *r = &x->holder[k].range;

		if (!r->trainable)
			continue;
		*from = r->from < *from ? r->from : *from;
		to = r->from + r->trainable > to ? r->from + r->trainable : to;
	}
	*from = to ? *from : 0;
	*n = to - *from;
}

enum tw_status tw_exchange_pack(struct exchange *x, struct tw_array *list, size_t *count,
				float **room)
{
	size_t from, n;
	struct tw_array *a;

	*room = NULL;
	if (!remembers(x))
		return TW_OK;
	extent(x, &from, &n);
	*room = tw_heap_zeros(x->heap, (n ? n : 1) * sizeof(float));
	if (!*room)
		return TW_NO_MEMORY;
	a = &list[(*count)++];
	*a = (struct tw_array){ .from = from, .n = n, .kind = TW_FLOATS, .at = *room };
	memcpy(a->name, residual_name, sizeof residual_name);
	for (uint32_t k = 0; k < x->holders; k++) {
		const struct holder *h = &x->holder[k];

		if (h->range.trainable)
			tw_vec_copy(*room + (h->range.from - from), residual(h),
				    h->range.trainable);
		if (!more_bytes(h))
			continue;
		a = &list[(*count)++];
		*a = (struct tw_array){
			.from = h->range.from, .n = more_bytes(h), .kind = TW_BYTES, .at = more(h)
		};
		name_more(a->name, sizeof a->name, h);
	}
	return TW_OK;
}

enum tw_status tw_exchange_restore(struct exchange *x, const struct tw_array *list, size_t count)
{
	const struct tw_array *a = tw_part_find(list, count, residual_name);
	size_t from, n;
	char name[40];

	if (!remembers(x))
		return TW_OK;
	extent(x, &from, &n);
	if (!a || a->kind != TW_FLOATS || a->from != from || a->n != n ||
	    !tw_vec_finite(a->at, a->n))
		return TW_BAD_BYTES;
	for (uint32_t k = 0; k < x->holders; k++) {
		const struct holder *h = &x->holder[k];
		const struct tw_array *m;

		if (h->range.trainable)
			tw_vec_copy(residual(h), (const float *)a->at + (h->range.from - from),
				    h->range.trainable);
		name_more(name, sizeof name, h);
		m = tw_part_find(list, count, name);
		if (m && m->kind == TW_BYTES && m->n == more_bytes(h)) /* of the same range */
			memcpy(more(h), m->at, m->n);
	}
	return TW_OK;
}
