/* SPDX-License-Identifier: Apache-2.0 */
/* gauges_peers.c - what a world says of peers, waits and bytes, and the picture of it all. */
#include "metrics/gauges_inner.h"
#include "base/grow.h"
#include "metrics/progress.h"

#include <jansson.h>
#include <string.h>

void tw_gauges_name(char *to, size_t room, const char *from)
{
	size_t n = strnlen(from, room - 1);
	json_t *good;

	while (n && ((unsigned char)from[n] & 0xC0) == 0x80) /* not half a letter */
		n--;
	memmove(to, from, n);
	to[n] = 0;
	good = json_string(to);
	for (size_t k = 0; !good && k < n; k++)
		if ((unsigned char)to[k] >= 0x80)
			to[k] = '?';
	json_decref(good);
}

static int64_t ago(int64_t clock, double seconds)
{
	return seconds > 0.0 && seconds < 1e9 ? clock - (int64_t)(seconds * (double)TW_SECOND)
					      : clock;
}

/* --- peers ----------------------------------------------------------------------------------- */

enum tw_status tw_gauges_peers(struct tw_gauges *g, const struct tw_gauge_peer *list, size_t n)
{
	struct gauge_peer *fresh = NULL, *old;
	const int64_t clock = tw_clock();

	if (n) {
		fresh = g->heap->get(g->heap, n * sizeof *fresh);
		if (!fresh)
			return TW_NO_MEMORY;
	}
	for (size_t k = 0; k < n; k++) {
		struct gauge_peer *p = &fresh[k];

		*p = (struct gauge_peer){ .p = list[k], .heard = ago(clock, list[k].heard_ago) };
		tw_gauges_name(p->p.name, sizeof p->p.name, list[k].name);
		tw_gauges_name(p->p.host, sizeof p->p.host, list[k].host);
	}
	pthread_mutex_lock(&g->lock);
	old = g->peer;
	g->peer = fresh;
	g->peers = n;
	pthread_mutex_unlock(&g->lock);
	g->heap->put(g->heap, old);
	return TW_OK;
}

/* --- waits ----------------------------------------------------------------------------------- */

static struct gauge_wait *wait_of(struct tw_gauges *g, const char *who)
{
	for (size_t k = 0; k < g->waits; k++)
		if (strcmp(g->wait[k].who, who) == 0)
			return &g->wait[k];
	return NULL;
}

static bool make_room(struct tw_gauges *g)
{
	return TW_GROW(g->heap, g->wait, g->wait_room, g->waits, g->waits + 1);
}

static bool is_long(const struct gauge_wait *w, int64_t clock)
{
	return gauge_seconds(clock - w->since) >= TW_GAUGES_LONG;
}

enum tw_status tw_gauges_wait(struct tw_gauges *g, const char *who, const char *whom,
			      const char *why, double seconds)
{
	const int64_t clock = tw_clock();
	struct gauge_wait fresh = { .since = ago(clock, seconds) }, *w;
	enum tw_status status = TW_OK;

	tw_gauges_name(fresh.who, sizeof fresh.who, who);
	tw_gauges_name(fresh.whom, sizeof fresh.whom, whom);
	tw_gauges_name(fresh.why, sizeof fresh.why, why);
	pthread_mutex_lock(&g->lock);
	w = wait_of(g, fresh.who);
	if (w && (strcmp(w->whom, fresh.whom) == 0 && strcmp(w->why, fresh.why) == 0))
		fresh.counted = w->counted;
	if (!w && make_room(g))
		w = &g->wait[g->waits++];
	if (!w) {
		status = TW_NO_MEMORY;
	} else {
		if (!fresh.counted && is_long(&fresh, clock)) {
			fresh.counted = true;
			g->f.waits++;
		}
		*w = fresh;
	}
	pthread_mutex_unlock(&g->lock);
	return status;
}

void tw_gauges_wait_over(struct tw_gauges *g, const char *who)
{
	char known[sizeof g->wait->who];
	struct gauge_wait *w;

	tw_gauges_name(known, sizeof known, who);
	pthread_mutex_lock(&g->lock);
	w = wait_of(g, known);
	if (w)
		*w = g->wait[--g->waits];
	pthread_mutex_unlock(&g->lock);
}

/* --- bytes, the end -------------------------------------------------------------------------- */

void tw_gauges_bytes(struct tw_gauges *g, uint64_t sent, uint64_t received)
{
	pthread_mutex_lock(&g->lock);
	if (sent > g->f.sent)
		g->f.sent = sent;
	if (received > g->f.received)
		g->f.received = received;
	pthread_mutex_unlock(&g->lock);
}

void tw_gauges_codec(struct tw_gauges *g, enum tw_gauge_direction direction, uint64_t raw,
		     uint64_t encoded)
{
	atomic_fetch_add_explicit(&g->raw[direction], raw, memory_order_relaxed);
	atomic_fetch_add_explicit(&g->encoded[direction], encoded, memory_order_relaxed);
}

void tw_gauges_over(struct tw_gauges *g)
{
	pthread_mutex_lock(&g->lock);
	g->f.over = true;
	g->waits = 0;
	pthread_mutex_unlock(&g->lock);
}

/* --- the picture ----------------------------------------------------------------------------- */

/* The next `bytes` of the picture's memory, or, before there is any, only their number. */
static void *carve(const struct gauge_picture *p, size_t *used, size_t bytes)
{
	void *here = p->memory ? (char *)p->memory + *used : NULL;

	*used += (bytes + 15) / 16 * 16;
	return here;
}

static size_t lay_out(const struct tw_gauges *g, struct gauge_picture *p)
{
	size_t used = 0;

	p->slot = carve(p, &used, p->slots * sizeof *p->slot);
	p->shard = carve(p, &used, p->shards * sizeof *p->shard);
	p->peer = carve(p, &used, g->peers * sizeof *p->peer);
	p->wait = carve(p, &used, g->waits * sizeof *p->wait);
	p->of = carve(p, &used, p->slots * sizeof *p->of);
	p->cell = carve(p, &used, p->cells * sizeof *p->cell);
	return used;
}

static void fill(const struct tw_gauges *g, struct gauge_picture *p)
{
	for (size_t k = 0; k < p->slots; k++) {
		p->slot[k] = g->slot[k];
		p->of[k] = NULL;
	}
	for (size_t k = 0; k < p->shards; k++)
		p->shard[k] = g->shard[k];
	for (size_t k = 0; k < p->cells; k++)
		p->cell[k] = g->cell[k];
	for (size_t k = 0; k < g->waits; k++)
		if (is_long(&g->wait[k], p->clock))
			p->wait[p->waits++] = g->wait[k];
	for (size_t k = 0; k < g->peers; k++) {
		const struct tw_gauge_peer *e = &g->peer[k].p;

		p->peer[p->peers++] = g->peer[k];
		/* of two that had the slot the one that is there now counts */
		if (e->role == TW_WORKER && e->slot < p->slots && (!p->of[e->slot] || e->connected))
			p->of[e->slot] = &p->peer[k];
	}
}

enum tw_status tw_gauges_picture(struct tw_gauges *g, struct gauge_picture *out)
{
	pthread_mutex_lock(&g->lock);
	*out = (struct gauge_picture){
		.f = g->f,
		.plan = g->plan,
		.role = g->role,
		.host = g->host,
		.clock = tw_clock(),
		.slots = g->plan ? g->plan->crew.workers : 0,
		.shards = g->plan ? g->plan->problem.shards : 0,
		.stages = g->stages,
		.placing = g->placing,
		.cells = g->stages ? g->plan->crew.workers * tw_plan_cells(g->plan) : 0,
		.heap = g->heap
	};
	out->memory = g->heap->get(g->heap, lay_out(g, out) + 1);
	if (out->memory) {
		lay_out(g, out);
		fill(g, out);
	}
	for (size_t k = 0; g->tally && k < out->shards; k++)
		tw_tally_add(&out->tally, &g->tally[k]);
	pthread_mutex_unlock(&g->lock);
	for (int d = 0; d < TW_GAUGE_DIRECTIONS; d++) {
		out->raw[d] = atomic_load_explicit(&g->raw[d], memory_order_relaxed);
		out->encoded[d] = atomic_load_explicit(&g->encoded[d], memory_order_relaxed);
	}
	return out->memory ? TW_OK : TW_NO_MEMORY;
}

void tw_gauges_picture_release(struct gauge_picture *p)
{
	p->heap->put(p->heap, p->memory);
	p->memory = NULL;
}

bool tw_gauges_up(const struct gauge_picture *p, size_t slot)
{
	const struct gauge_slot *s = &p->slot[slot];

	if (s->viewed && s->state != TW_LIVE)
		return false;
	return p->of[slot] ? p->of[slot]->p.connected : s->seen;
}

uint32_t tw_gauges_live(const struct gauge_picture *p)
{
	uint32_t live = 0;

	if (p->f.has_live)
		return p->f.live;
	for (size_t k = 0; k < p->slots; k++)
		live += tw_gauges_up(p, k);
	return live;
}
