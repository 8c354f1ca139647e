/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - events that wait until somebody asks for them.
 *
 *  (1) the ring has `count` events from `first` on; their texts are copies, and the slot's.
 *  (2) of two events of progress in a row only the second is kept. */
#include "api/handle.h"

#include "base/machine/clock.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOM_MAX 1000000u

struct thalweg_events {
	struct tw_heap *heap;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct thalweg_event given; /* its texts are the caller's until the next call */
	size_t room, first, count;
	struct thalweg_event event[];
};

static void drop(struct thalweg_event *e)
{
	free((char *)e->who);
	free((char *)e->line);
	*e = (struct thalweg_event){ .who = NULL };
}

enum thalweg_status thalweg_events_open(size_t room, struct thalweg_events **out,
					struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	struct thalweg_events *e;
	pthread_condattr_t monotonic;

	if (!out)
		return tw_api_null(why, "thalweg_events_open", "out");
	if (room == 0 || room > ROOM_MAX) {
		tw_fail(&said, TW_BAD_INPUT, "thalweg_events_open: room is %zu; use 1 to %u events",
			room, ROOM_MAX);
		return tw_api_fail(why, &said);
	}
	e = tw_heap_zeros(&tw_heap_system, sizeof *e + room * sizeof e->event[0]);
	if (!e) {
		tw_fail(&said, TW_NO_MEMORY, "no memory for %zu events", room);
		return tw_api_fail(why, &said);
	}
	e->heap = &tw_heap_system;
	e->room = room;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->more, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*out = e;
	return tw_api_done(why);
}

/* The slot for one more; the lock is held. */
static struct thalweg_event *slot(struct thalweg_events *e, enum thalweg_event_kind kind)
{
	struct thalweg_event *last =
		e->count ? &e->event[(e->first + e->count - 1) % e->room] : NULL;

	if (last && kind == THALWEG_PROGRESS && last->kind == THALWEG_PROGRESS)
		return last; /* (2) */
	if (e->count == e->room) {
		e->first = (e->first + 1) % e->room;
		e->count--;
	}
	return &e->event[(e->first + e->count++) % e->room];
}

int thalweg_events_listen(void *events, const struct thalweg_event *event)
{
	struct thalweg_events *e = events;
	struct thalweg_event *to, copy;

	if (!e || !event)
		return 0;
	copy = *event;
	copy.who = event->who ? strdup(event->who) : NULL;
	copy.line = event->line ? strdup(event->line) : NULL;
	pthread_mutex_lock(&e->lock);
	to = slot(e, event->kind);
	drop(to);
	*to = copy;
	pthread_cond_signal(&e->more);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int thalweg_events_next(struct thalweg_events *e, unsigned ms, struct thalweg_event *out)
{
	const int64_t until = tw_clock() + (int64_t)ms * 1000000;
	const struct timespec at = { .tv_sec = until / TW_SECOND, .tv_nsec = until % TW_SECOND };
	int got;

	if (!e || !out)
		return 0;
	pthread_mutex_lock(&e->lock);
	for (bool waited = ms == 0; !e->count && !waited;)
		waited = pthread_cond_timedwait(&e->more, &e->lock, &at) != 0;
	got = e->count > 0;
	if (got) {
		struct thalweg_event *from = &e->event[e->first];

		drop(&e->given);
		*out = e->given = *from;
		*from = (struct thalweg_event){ .who = NULL }; /* (1) */
		e->first = (e->first + 1) % e->room;
		e->count--;
	}
	pthread_mutex_unlock(&e->lock);
	return got;
}

void thalweg_events_close(struct thalweg_events *e)
{
	if (!e)
		return;
	for (size_t k = 0; k < e->room; k++)
		drop(&e->event[k]);
	drop(&e->given);
	pthread_cond_destroy(&e->more);
	pthread_mutex_destroy(&e->lock);
	e->heap->put(e->heap, e);
}
