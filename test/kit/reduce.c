/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c - see reduce.h. */
#include "kit/reduce.h"
#include "vec/vec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static void *zeros(size_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes);

	assert_non_null(p);
	return p;
}

static size_t begin(const struct kit_reduction *k, uint32_t chunk)
{
	return tw_reduction_border(k->n, k->chunks, chunk);
}

static size_t length(const struct kit_reduction *k, uint32_t chunk)
{
	return begin(k, chunk + 1) - begin(k, chunk);
}

static struct kit_sum *has(const struct kit_reduction *k, uint32_t peer, uint32_t chunk)
{
	return &k->has[(size_t)peer * k->chunks + chunk];
}

static struct kit_sum *mail(const struct kit_reduction *k, uint32_t chunk, uint32_t from,
			    uint32_t to, bool gift)
{
	return &k->mail[(((size_t)chunk * k->peers + from) * k->peers + to) * 2 + gift];
}

static void put(struct kit_sum *to, const struct kit_sum *from, size_t n)
{
	assert_null(to->v); /* reduction.h, (1) */
	assert_non_null(from->v);
	*to = *from;
	to->v = zeros(n, sizeof *to->v);
	memcpy(to->v, from->v, n * sizeof *to->v);
}

static void drop(struct kit_sum *s)
{
	free(s->v);
	*s = (struct kit_sum){ NULL };
}

static void add(struct kit_sum *to, const struct kit_sum *x, size_t n)
{
	const float share = x->weight / x->divide;

	if (!to->v) {
		put(to, x, n);
		return;
	}
	if (to->weight != to->divide)
		tw_vec_scale_to(to->v, to->weight / to->divide, to->v, n);
	if (share == 1.0f)
		tw_vec_add(to->v, x->v, n);
	else
		tw_vec_axpy(to->v, share, x->v, n);
	to->weight += x->weight;
	to->divide = to->weight;
}

static struct kit_sum own_of(const struct kit_reduction *k, uint32_t peer, uint32_t chunk)
{
	const size_t n = length(k, chunk);
	struct kit_sum own = { zeros(n, sizeof(float)), k->weight[peer], k->divide[peer] };

	memcpy(own.v, k->in[peer] + begin(k, chunk), n * sizeof(float));
	return own;
}

static void add_own(struct kit_reduction *k, uint32_t peer, uint32_t chunk)
{
	struct kit_sum own = own_of(k, peer, chunk);

	add(has(k, peer, chunk), &own, length(k, chunk));
	drop(&own);
}

static void send_own(struct kit_reduction *k, uint32_t peer, uint32_t chunk, struct kit_sum *to)
{
	struct kit_sum own = own_of(k, peer, chunk);

	put(to, &own, length(k, chunk));
	drop(&own);
}

void kit_reduction_init(struct kit_reduction *k)
{
	k->chunks = k->r->chunks(k->peers);
	k->has = zeros((size_t)k->peers * k->chunks, sizeof *k->has);
	k->made = zeros((size_t)k->peers * k->chunks, sizeof *k->made);
	k->mail = zeros((size_t)k->chunks * k->peers * k->peers * 2, sizeof *k->mail);
}

void kit_reduction_release(struct kit_reduction *k)
{
	for (size_t i = 0; i < (size_t)k->peers * k->chunks; i++)
		free(k->has[i].v);
	for (size_t i = 0; i < (size_t)k->chunks * k->peers * k->peers * 2; i++)
		free(k->mail[i].v);
	free(k->has);
	free(k->mail);
	free(k->made);
}

bool kit_reduction_step(struct kit_reduction *k, uint32_t peer, uint32_t chunk)
{
	uint32_t *made = &k->made[(size_t)peer * k->chunks + chunk];
	struct kit_sum *here = has(k, peer, chunk), *came;
	struct tw_move m;

	if (*made == k->r->moves(k->peers, peer, chunk))
		return false;
	m = k->r->move(k->peers, peer, chunk, *made);
	assert_true(m.peer < k->peers);
	came = mail(k, chunk, m.peer, peer, m.kind == TW_MOVE_TAKE);
	if (m.kind == TW_MOVE_SEND && k->r->own) {
		send_own(k, peer, chunk, mail(k, chunk, peer, m.peer, false));
	} else if (m.kind == TW_MOVE_SEND || m.kind == TW_MOVE_GIVE) {
		put(mail(k, chunk, peer, m.peer, m.kind == TW_MOVE_GIVE), here, length(k, chunk));
	} else if (m.kind == TW_MOVE_ADD && m.peer == peer) {
		add_own(k, peer, chunk);
	} else if (!came->v) {
		return false;
	} else {
		if (m.kind == TW_MOVE_TAKE)
			drop(here);
		add(here, came, length(k, chunk));
		drop(came);
	}
	++*made;
	return true;
}

bool kit_reduction_ended(const struct kit_reduction *k)
{
	for (uint32_t p = 0; p < k->peers; p++)
		for (uint32_t c = 0; c < k->chunks; c++)
			if (k->made[(size_t)p * k->chunks + c] < k->r->moves(k->peers, p, c))
				return false;
	for (size_t i = 0; i < (size_t)k->chunks * k->peers * k->peers * 2; i++)
		assert_null(k->mail[i].v); /* nothing was sent in vain */
	return true;
}

void kit_reduce(const struct tw_reduction *r, uint32_t peers, size_t n, const float *const *in,
		const float *weight, const float *divide, float **out, float *weight_out,
		float *divide_out)
{
	struct kit_reduction k = {
		.r = r, .peers = peers, .n = n, .in = in, .weight = weight, .divide = divide
	};
	bool moved = true;

	kit_reduction_init(&k);
	while (moved) {
		moved = false;
		for (uint32_t p = 0; p < peers; p++)
			for (uint32_t c = 0; c < k.chunks; c++)
				while (kit_reduction_step(&k, p, c))
					moved = true;
	}
	assert_true(kit_reduction_ended(&k));
	for (uint32_t p = 0; p < peers; p++)
		for (uint32_t c = 0; c < k.chunks; c++) {
			const struct kit_sum *s = has(&k, p, c);

			memcpy(out[p] + begin(&k, c), s->v, length(&k, c) * sizeof(float));
			assert_true(p == 0 || weight_out[c] == s->weight);
			assert_true(p == 0 || divide_out[c] == s->divide);
			weight_out[c] = s->weight;
			divide_out[c] = s->divide;
		}
	kit_reduction_release(&k);
}

const struct tw_reduction *kit_reduction_at(size_t k)
{
	for (size_t i = 0; tw_reduction_all[i]; i++)
		if (!(tw_reduction_all[i]->traits & TW_REDUCTION_LIBRARY) && k-- == 0)
			return tw_reduction_all[i];
	return NULL;
}
