/* SPDX-License-Identifier: Apache-2.0 */
/* threads_mail.c - how mail gets into cells and is handled there; invariants: threads_inner.h. */
#include "world/threads_inner.h"

#include <sched.h>
#include <string.h>
#include <time.h>
#define XXH_STATIC_LINKING_ONLY /* a state on the stack */
#include <xxhash.h>

static size_t mailbox_of(const struct threads *w, struct tw_addr a)
{
	const uint64_t key = (uint64_t)a.node << 32 | (uint32_t)a.role << 16 | a.index;

	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (w->places - 1);
}

static bool same_addr(struct tw_addr a, struct tw_addr b)
{
	return a.node == b.node && a.role == b.role && a.index == b.index;
}

struct cell *tw_threads_find(const struct threads *w, struct tw_addr to)
{
	for (size_t p = mailbox_of(w, to); w->place[p]; p = (p + 1) & (w->places - 1)) {
		struct cell *c = &w->cell[w->place[p] - 1];

		if (same_addr(c->seat->addr, to))
			return c;
	}
	return NULL;
}

bool tw_threads_index(struct threads *w)
{
	for (size_t k = 0; k < w->cells; k++) {
		size_t p = mailbox_of(w, w->cell[k].seat->addr);

		if (tw_threads_find(w, w->cell[k].seat->addr))
			return false;
		while (w->place[p])
			p = (p + 1) & (w->places - 1);
		w->place[p] = (uint32_t)k + 1;
	}
	return true;
}

/* Of body, tail and payload: what a wire could damage. */
static uint64_t hash_of(const struct tw_msg *m)
{
	XXH3_state_t state;
	uint64_t hash;

	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, &m->b, tw_body_bytes(m->h.type));
	if (m->tail)
		XXH3_64bits_update(&state, m->tail->data, m->h.tail);
	if (m->payload)
		XXH3_64bits_update(&state, m->payload->data, m->h.payload);
	hash = XXH3_64bits_digest(&state);
	return hash ? hash : 1;
}

static void mail_free(struct hand *me, struct mail *mail)
{
	if (mail->abroad)
		atomic_fetch_sub_explicit(&me->world->mailed, mail->abroad, memory_order_relaxed);
	switch (mail->kind) {
	case MAIL_MESSAGE:
	case MAIL_UP:
	case MAIL_DOWN:
	case MAIL_SUMMED:
		tw_msg_pool_give(&me->messages, &mail->m);
		break;
	case MAIL_SAVED:
	case MAIL_LOADED:
		tw_threads_job_free(me->world, (struct job *)mail);
		break;
	case MAIL_START:
	case MAIL_TICK:
	case MAIL_INTERRUPT:
		break;
	}
}

void tw_threads_empty(struct hand *me, struct cell *c)
{
	struct mail *lists[2] = { c->batch, atomic_exchange(&c->box, NULL) };

	c->batch = NULL;
	for (int k = 0; k < 2; k++)
		while (lists[k]) {
			struct mail *mail = lists[k];

			lists[k] = (struct mail *)mail->m.next;
			mail_free(me, mail);
		}
}

void tw_threads_wake(struct hand *h)
{
	if (!atomic_load(&h->asleep) || !atomic_exchange(&h->asleep, false))
		return;
	pthread_mutex_lock(&h->lock);
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
}

void tw_threads_list(struct hand *me, struct cell *c)
{
	const size_t room = me->world->cells;

	if (me->listed[c->number])
		return;
	me->listed[c->number] = true;
	me->work[(me->first + me->works++) % room] = c;
}

static struct cell *unlist(struct hand *me)
{
	struct cell *c = me->work[me->first];

	me->first = (me->first + 1) % me->world->cells;
	me->works--;
	me->listed[c->number] = false;
	return c;
}

/* Make what this hand cannot begin at once ready for hands that wait. */
static void share_payload(struct hand *me)
{
	struct threads *w = me->world;
	const bool port = me == &w->hand[PORT] && w->helpers; /* it enters nothing itself */
	const size_t keep = port ? 0 : 1;
	size_t shared = 0;

	if (me->works <= keep || (!port && atomic_load(&w->idle) == 0) || me->visits)
		return;
	pthread_mutex_lock(&w->ready_lock);
	while (me->works > keep) {
		const size_t count = atomic_load(&w->ready_count);
		struct cell *c = unlist(me);

		if (c->ready)
			continue;
		c->ready = true;
		w->ready[(w->ready_first + count) % w->cells] = c;
		atomic_store(&w->ready_count, count + 1);
		shared++;
	}
	pthread_mutex_unlock(&w->ready_lock);

	const size_t workers = w->workers + w->helpers;
	const size_t begin = me >= &w->hand[WORKERS] ? (size_t)(me - w->hand) - WORKERS + 1 : 0;

	for (size_t k = 0; k < workers && shared; k++) {
		struct hand *h = &w->hand[WORKERS + (begin + k) % workers];

		if (h != me && atomic_load(&h->asleep)) {
			tw_threads_wake(h);
			shared--;
		}
	}
}

static struct cell *take_ready(struct threads *w)
{
	struct cell *c = NULL;

	if (atomic_load(&w->ready_count) == 0)
		return NULL;
	pthread_mutex_lock(&w->ready_lock);
	const size_t count = atomic_load(&w->ready_count);

	if (count) {
		c = w->ready[w->ready_first];
		c->ready = false;
		w->ready_first = (w->ready_first + 1) % w->cells;
		atomic_store(&w->ready_count, count - 1);
	}
	pthread_mutex_unlock(&w->ready_lock);
	return c;
}

void tw_threads_post(struct hand *me, struct cell *c, struct mail *mail)
{
	struct mail *newest = atomic_load(&c->box);

	do
		mail->m.next = (struct tw_msg *)newest;
	while (!atomic_compare_exchange_weak(&c->box, &newest, mail));
	if (!c->owner || atomic_load(&c->computing) || tw_threads_visits(me, c))
		tw_threads_list(me, c);
	else if (c->owner != me)
		tw_threads_wake(c->owner);
}

bool tw_threads_try(struct hand *me, struct cell *c)
{
	if (atomic_load(&c->busy) || atomic_exchange(&c->busy, true))
		return false;
	c->door.hand = me;
	return true;
}

void tw_threads_enter(struct hand *me, struct cell *c)
{
	for (unsigned turn = 0; !tw_threads_try(me, c); turn++)
		if (turn % 64 == 63)
			sched_yield();
		else
			tw_threads_rest();
}

void tw_threads_leave(struct cell *c)
{
	atomic_store(&c->busy, false);
}

static void deliver_mail(struct hand *me, struct cell *from);

/* Only its own hand writes a count; others may read it meanwhile. */
static void bump_mail(_Atomic uint64_t *count, uint64_t by)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + by,
			      memory_order_relaxed);
}

static void enter_shared(struct hand *me, struct cell *c, struct tw_msg *m)
{
	struct door door = { .ctx = c->door.ctx, .cell = c, .hand = me };

	me->events++;
	if (m->from.node != m->to.node)
		bump_mail(&me->bytes_received, tw_msg_bytes(m));
	c->seat->class->shared(c->actor, &door.ctx, m);
	tw_msg_pool_give(&me->messages, m);
	deliver_mail(me, c);
}

/* Put the sends of the handler that has returned into their mailboxes. */
static void deliver_mail(struct hand *me, struct cell *from)
{
	struct threads *w = me->world;
	struct tw_msg *m = me->out;
	bool abroad = false;

	me->out = NULL;
	me->out_end = &me->out;
	while (m) {
		struct tw_msg *next = m->next;
		struct cell *c = tw_threads_find(w, m->to);

		if (!c) {
			tw_threads_abroad(me, from, m);
			abroad = true;
			m = next;
			continue;
		}
		if (m->from.node != m->to.node && !w->options.gateway)
			bump_mail(&me->bytes_sent, tw_msg_bytes(m));
		if (c->open && from->computes && tw_kind_of(m->h.type)->shared &&
		    !atomic_load(&w->over)) {
			enter_shared(me, c, m);
		} else {
			if (w->options.hash)
				m->h.hash = hash_of(m);
			tw_threads_post(me, c, (struct mail *)m);
		}
		m = next;
	}
	if (abroad && w->options.gateway)
		w->options.gateway->sent(w->options.gateway->arg);
}

static struct tw_compute *take_cancelled(struct cell *c)
{
	for (struct tw_compute **at = &c->wanted; *at; at = (struct tw_compute **)&(*at)->world) {
		struct tw_compute *found = *at;

		if (!atomic_load(&found->cancel))
			continue;
		*at = found->world;
		if (!*at)
			c->wanted_end = at;
		return found;
	}
	return NULL;
}

void tw_threads_settle(struct hand *me, struct cell *c)
{
	const struct tw_gateway *g = me->world->options.gateway;
	const bool desk = me->world->cluster->desk;
	struct tw_compute *gone;

	deliver_mail(me, c);
	while (!atomic_load(&me->world->over) &&
	       ((desk && (gone = tw_threads_withdraw(c))) || (gone = take_cancelled(c)))) {
		gone->status = TW_CANCELLED;
		me->events++;
		c->seat->class->computed(c->actor, &c->door.ctx, gone);
		deliver_mail(me, c);
	}
	/* all that it sent is out, also what a cancelled computation made it say */
	if (me->gone && g)
		g->gone(g->arg, c->seat->addr);
	me->gone = false;
	if (desk)
		tw_threads_offer(c);
	share_payload(me);
}

void tw_threads_ring(struct hand *me, struct cell *c)
{
	const int64_t now = tw_threads_now(me->world);

	/* an alarm set meanwhile is due after `now`: this ends */
	while (atomic_load(&c->due) <= now && !atomic_load(&me->world->over)) {
		size_t least = 0;
		int64_t next = INT64_MAX;

		for (size_t k = 1; k < c->alarms; k++)
			if (c->alarm[k].due < c->alarm[least].due)
				least = k;

		const uint32_t id = c->alarm[least].id;

		c->alarm[least] = c->alarm[--c->alarms];
		for (size_t k = 0; k < c->alarms; k++)
			if (c->alarm[k].due < next)
				next = c->alarm[k].due;
		atomic_store(&c->due, next);
		me->events++;
		c->seat->class->timer(c->actor, &c->door.ctx, id);
		tw_threads_settle(me, c);
	}
}

static void handle_mail(struct hand *me, struct cell *c, struct mail *mail)
{
	const struct tw_actor_class *class = c->seat->class;
	struct tw_context *ctx = &c->door.ctx;
	struct threads *w = me->world;

	me->events++;
	switch (mail->kind) {
	case MAIL_MESSAGE:
		if (mail->m.from.node != mail->m.to.node && !w->options.gateway)
			bump_mail(&me->bytes_received, tw_msg_bytes(&mail->m));
		if (w->options.hash && mail->m.h.hash != hash_of(&mail->m))
			tw_give_up(ctx, TW_BAD_BYTES, "%s changed after it was sent",
				   tw_type_name(mail->m.h.type));
		else
			class->message(c->actor, ctx, &mail->m);
		break;
	case MAIL_START:
		if (class->start)
			class->start(c->actor, ctx);
		else
			me->events--;
		break;
	case MAIL_TICK:
		me->events--; /* each alarm counts */
		atomic_store(&c->ticking, false);
		tw_threads_ring(me, c);
		return;
	case MAIL_INTERRUPT:
		if (class->interrupt)
			class->interrupt(c->actor, ctx);
		else
			tw_give_up(ctx, TW_INTERRUPTED, "interrupted");
		break;
	case MAIL_UP:
		class->up(c->actor, ctx, mail->m.from.node, mail->m.h.incarnation);
		break;
	case MAIL_DOWN:
		class->down(c->actor, ctx, mail->m.from.node);
		break;
	case MAIL_SUMMED:
		class->summed(c->actor, ctx, mail->m.h.seq, mail->m.payload, mail->m.tail);
		break;
	case MAIL_SAVED: {
		struct job *j = (struct job *)mail;

		class->saved(c->actor, ctx, j->cut, j->status);
		break;
	}
	case MAIL_LOADED: {
		struct job *j = (struct job *)mail;

		class->loaded(c->actor, ctx, j->cut, j->parts, j->count, j->status);
		/* the store is called by one thread at a time: it frees what it gave */
		j->kind = JOB_LOADED_FREE;
		tw_threads_job(w, j);
		tw_threads_settle(me, c);
		return;
	}
	}
	mail_free(me, mail);
	tw_threads_settle(me, c);
}

static void handle_timed(struct hand *me, struct cell *c, struct mail *mail)
{
	struct threads *w = me->world;
	const int64_t began = tw_threads_now(w);

	handle_mail(me, c, mail);
	tw_threads_took(c->owner ? &c->pace[PACE_HANDLER] : &w->passive, 0,
			tw_threads_now(w) - began);
}

/* May this hand be inside (4)? */
static bool welcome(const struct hand *me, const struct cell *c)
{
	return !c->owner || c->owner == me || atomic_load(&c->computing) || atomic_load(&c->away);
}

/* Should the owner go out first, to do what its last handler gave others to do? */
static bool called_away(const struct hand *me, const struct cell *c)
{
	return c->owner == me && me->works && !atomic_load(&c->computing);
}

void tw_threads_handle(struct hand *me, struct cell *c)
{
	while (!atomic_load(&me->world->over) && welcome(me, c) && !called_away(me, c)) {
		struct mail *mail = c->batch;

		if (!mail) {
			struct mail *newest = NULL;

			if (atomic_load(&c->box))
				newest = atomic_exchange(&c->box, NULL);
			if (!newest)
				return;
			while (newest) {
				struct mail *next = (struct mail *)newest->m.next;

				newest->m.next = (struct tw_msg *)mail;
				mail = newest;
				newest = next;
			}
		}
		c->batch = (struct mail *)mail->m.next;
		if (me->world->workers && me->world->options.gateway)
			handle_timed(me, c, mail);
		else
			handle_mail(me, c, mail);
	}
}

void tw_threads_drain(struct hand *me, struct cell *c)
{
	/* an owner that is called away handles nothing: it comes back when that is done */
	while (atomic_load(&c->box) && !atomic_load(&me->world->over) && welcome(me, c) &&
	       !called_away(me, c) && tw_threads_try(me, c)) {
		tw_threads_handle(me, c);
		tw_threads_leave(c);
	}
}

/* Outside: a worker's cell that this hand has visited may have asked for a computation. */
static void go_on(struct hand *me, struct cell *c)
{
	me->visits = true;
	while (tw_threads_compute(me, c))
		tw_threads_drain(me, c);
}

bool tw_threads_work(struct hand *me)
{
	bool any = false;

	while (!atomic_load(&me->world->over)) {
		struct cell *c;

		share_payload(me);
		if (!me->works && me == &me->world->hand[PORT] && me->world->helpers)
			break;
		c = me->works ? unlist(me) : take_ready(me->world);
		if (!c)
			break;
		any = true;
		tw_threads_drain(me, c);
		if (c->owner && c->owner != me && !atomic_load(&c->computing))
			go_on(me, c);
	}
	me->visits = false;
	return any;
}
