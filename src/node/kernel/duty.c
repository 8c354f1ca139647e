/* SPDX-License-Identifier: Apache-2.0 */
/* duty.c - where the hooks of duties are called. */
#include "node/kernel/duty.h"
#include "node/checkpoint_part.h"

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

	*d = (struct tw_duties){ .actor = actor, .all = all };
	for (uint32_t k = 0; all[k]; k++) {
		if (!is_wanted(all[k], plan))
			continue;
		assert(k < TW_DUTIES);
		d->wanted |= UINT32_C(1) << k;
		if (all[k]->bytes)
			*(void **)((uint8_t *)actor + all[k]->place) = at;
		at += rounded(all[k]->bytes);
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

/* The next one from *k on that is wanted; NULL: there is none. */
static const struct tw_duty *next(const struct tw_duties *d, uint32_t *k)
{
	while (d->all[*k] && !(d->wanted >> *k & 1))
		++*k;
	return d->all[*k] ? d->all[(*k)++] : NULL;
}

const void *tw_duties_seat(const struct tw_duties *d)
{
	const struct tw_duty *one;

	for (uint32_t k = 0; (one = next(d, &k));)
		if (one->seat)
			return one->seat;
	return NULL;
}

/* (1), (2) */
#define CALL(d, hook, ...)                                                                         \
	for (uint32_t k = 0;;) {                                                                   \
		const struct tw_duty *one = next(d, &k), *was;                                     \
                                                                                                   \
		if (!one)                                                                          \
			break;                                                                     \
		if (!one->hook)                                                                    \
			continue;                                                                  \
		was = enter(d, one);                                                               \
		one->hook((d)->actor, __VA_ARGS__);                                                \
		(d)->inside = was;                                                                 \
	}

enum tw_status tw_duties_open(struct tw_duties *d)
{
	const struct tw_duty *one;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; st == TW_OK && (one = next(d, &k));) {
		d->opened = k; /* its close() releases what an open() that failed has left */
		if (one->open)
			st = one->open(d->actor);
	}
	return st;
}

void tw_duties_close(struct tw_duties *d)
{
	const struct tw_duty *one;

	for (uint32_t k = 0; k < d->opened && (one = next(d, &k));)
		if (one->close)
			one->close(d->actor);
}

void tw_duties_message(struct tw_duties *d, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_duty *one;

	for (uint32_t k = 0; (one = next(d, &k));)
		if (one->hears & TW_HEARS(m->h.type)) {
			const struct tw_duty *was = enter(d, one);

			one->message(d->actor, ctx, m);
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

void tw_duties_node(struct tw_duties *d, struct tw_context *ctx, uint32_t node)
{
	CALL(d, node, ctx, node)
}

void tw_duties_updated(struct tw_duties *d, struct tw_context *ctx)
{
	const struct tw_duty *const outer = d->inside;

	d->inside = NULL;
	CALL(d, updated, ctx)
	d->inside = outer;
}

void tw_duties_timer(struct tw_duties *d, struct tw_context *ctx, uint32_t timer)
{
	CALL(d, timer, ctx, timer)
}

const char *tw_duties_waits(const struct tw_duties *d, uint32_t shard)
{
	const struct tw_duty *one;
	const char *what = NULL;

	for (uint32_t k = 0; !what && (one = next(d, &k));)
		if (one->waits)
			what = one->waits(d->actor, shard);
	return what;
}

enum tw_status tw_duties_pack(struct tw_duties *d, struct tw_array *list, size_t *count)
{
	const struct tw_duty *one;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; st == TW_OK && (one = next(d, &k));) {
		list[*count] = (struct tw_array){ .kind = TW_BYTES };
		if (one->pack)
			st = one->pack(d->actor, &list[*count]);
		*count += list[*count].n != 0;
	}
	return st;
}

enum tw_status tw_duties_restore(struct tw_duties *d, const struct tw_master_part *head,
				 const struct tw_array *list, size_t count)
{
	const struct tw_duty *one;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; st == TW_OK && (one = next(d, &k));)
		if (one->restore) {
			const struct tw_duty *was = enter(d, one);

			st = one->restore(d->actor, head, list, count);
			d->inside = was;
		}
	return st;
}

bool tw_duties_idle(struct tw_duties *d, struct tw_context *ctx)
{
	const struct tw_duty *one;
	bool idle = true;

	for (uint32_t k = 0; idle && (one = next(d, &k));)
		if (one->idle) {
			const struct tw_duty *was = enter(d, one);

			idle = one->idle(d->actor, ctx);
			d->inside = was;
		}
	return idle;
}
