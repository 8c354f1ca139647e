/* SPDX-License-Identifier: Apache-2.0 */
/* threads_mail.c - how mail is handled, and by whom; invariants: threads_inner.h. */
#include "world/threads/threads_inner.h"

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
			tw_threads_bump(&me->bytes_received, tw_msg_bytes(&mail->m));
		if (w->options.hash && mail->m.h.hash != tw_threads_hash(&mail->m))
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
	struct tw_compute *job;

	me->visits = true;
	while ((job = tw_threads_begin(me, c)) != NULL) {
		tw_threads_compute(me, c, job);
		tw_threads_drain(me, c);
	}
}

bool tw_threads_work(struct hand *me)
{
	bool any = false;

	while (!atomic_load(&me->world->over)) {
		struct cell *c;

		tw_threads_share(me);
		if (!me->works && me == &me->world->hand[PORT] && me->world->helpers)
			break;
		c = tw_threads_next(me);
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
