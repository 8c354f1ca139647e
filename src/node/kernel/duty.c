/* SPDX-License-Identifier: Apache-2.0 */
/* duty.c - where the hooks of duties are called. */
#include "node/kernel/duty.h"

#include <assert.h>

#define ALIGNMENT 64 /* a line of the cache: no two duties share one */

static size_t rounded(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool is_wanted(const struct tw_duty *duty, const struct tw_plan *plan)
{
	return !duty->wanted || duty->wanted(plan);
}

size_t tw_duties_bytes(const struct tw_duty *const *all, const struct tw_plan *plan)
{
	size_t bytes = 0;

	for (; *all; all++)
		bytes += is_wanted(*all, plan) ? rounded((*all)->bytes) : 0;
	return bytes;
}

void tw_duties_place(struct tw_duties *d, void *actor, const struct tw_duty *const *all,
		     const struct tw_plan *plan, void *memory)
{
	uint8_t *at = memory;

	d->actor = actor;
	for (; *all; all++) {
		if (!is_wanted(*all, plan))
			continue;
		assert(d->count < TW_DUTIES);
		d->of[d->count++] = *all;
		*(void **)((uint8_t *)actor + (*all)->place) = at;
		at += rounded((*all)->bytes);
	}
}

/* (3): `was` is the duty whose hook runs now. */
static const struct tw_duty *enter(struct tw_duties *d, const struct tw_duty *duty)
{
	const struct tw_duty *was = d->inside;

	assert(!was || was == duty);
	d->inside = duty;
	return was;
}

/* (1), (2) */
#define CALL(d, hook, ...)                                                                         \
	for (uint32_t k = 0; k < (d)->count; k++)                                                  \
		if ((d)->of[k]->hook) {                                                            \
			const struct tw_duty *was = enter(d, (d)->of[k]);                          \
                                                                                                   \
			(d)->of[k]->hook((d)->actor, __VA_ARGS__);                                 \
			(d)->inside = was;                                                         \
		}

enum tw_status tw_duties_open(struct tw_duties *d)
{
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < d->count && st == TW_OK; k++)
		if (d->of[k]->open)
			st = d->of[k]->open(d->actor);
	return st;
}

void tw_duties_close(struct tw_duties *d)
{
	for (uint32_t k = d->count; k-- > 0;)
		if (d->of[k]->close)
			d->of[k]->close(d->actor);
}

void tw_duties_message(struct tw_duties *d, struct tw_context *ctx, const struct tw_msg *m)
{
	for (uint32_t k = 0; k < d->count; k++)
		if (d->of[k]->hears & TW_HEARS(m->h.type)) {
			const struct tw_duty *was = enter(d, d->of[k]);

			d->of[k]->message(d->actor, ctx, m);
			d->inside = was;
		}
}

void tw_duties_begin(struct tw_duties *d, struct tw_context *ctx)
{
	CALL(d, begin, ctx)
}

void tw_duties_renew(struct tw_duties *d, struct tw_context *ctx)
{
	CALL(d, renew, ctx)
}

void tw_duties_joined(struct tw_duties *d, struct tw_context *ctx, uint32_t slot)
{
	CALL(d, joined, ctx, slot)
}

void tw_duties_lost(struct tw_duties *d, struct tw_context *ctx, uint32_t slot)
{
	CALL(d, lost, ctx, slot)
}

void tw_duties_back(struct tw_duties *d, struct tw_context *ctx, uint32_t slot)
{
	CALL(d, back, ctx, slot)
}

void tw_duties_home(struct tw_duties *d, struct tw_context *ctx, uint32_t shard)
{
	CALL(d, home, ctx, shard)
}

void tw_duties_updated(struct tw_duties *d, struct tw_context *ctx)
{
	CALL(d, updated, ctx)
}
