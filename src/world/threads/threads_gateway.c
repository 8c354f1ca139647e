/* SPDX-License-Identifier: Apache-2.0 */
/* threads_gateway.c - the gateway's side of the threads world: actors elsewhere, and their news. */
#include "world/threads/threads_inner.h"

#include <stdio.h>
#include <string.h>

static struct hand *hand_of(struct tw_port *p)
{
	return (struct hand *)p;
}

size_t tw_port_msg_bytes(void)
{
	return sizeof(struct mail);
}

bool tw_port_deliver(struct tw_port *p, struct tw_msg *m)
{
	struct hand *me = hand_of(p);
	struct cell *c = tw_threads_find(me->world, m->to);

	if (!c)
		return false;
	((struct mail *)m)->kind = MAIL_MESSAGE;
	((struct mail *)m)->abroad = sizeof(struct mail) + m->h.tail + m->h.payload;
	atomic_fetch_add_explicit(&me->world->mailed, ((struct mail *)m)->abroad,
				  memory_order_relaxed);
	tw_threads_post(me, c, (struct mail *)m);
	return true;
}

size_t tw_port_mailed(struct tw_port *p)
{
	return atomic_load_explicit(&hand_of(p)->world->mailed, memory_order_relaxed);
}

static bool tell(struct hand *me, enum mail_kind kind, uint32_t node, uint32_t boot)
{
	const struct threads *w = me->world;

	for (size_t k = 0; k < w->cells; k++) {
		struct cell *c = &w->cell[k];
		struct mail *mail;

		if (kind == MAIL_UP ? !c->seat->class->up : !c->seat->class->down)
			continue;
		mail = (struct mail *)tw_msg_pool_take(&me->messages);
		if (!mail)
			return false;
		mail->kind = kind;
		mail->m.from.node = node;
		mail->m.h.incarnation = boot;
		tw_threads_post(me, c, mail);
	}
	return true;
}

bool tw_port_up(struct tw_port *p, uint32_t node, uint32_t boot)
{
	return tell(hand_of(p), MAIL_UP, node, boot);
}

bool tw_port_down(struct tw_port *p, uint32_t node)
{
	return tell(hand_of(p), MAIL_DOWN, node, 0);
}

bool tw_port_summed(struct tw_port *p, struct tw_addr who, const struct tw_sum *sum)
{
	struct hand *me = hand_of(p);
	struct cell *c = tw_threads_find(me->world, who);
	struct mail *mail = c ? (struct mail *)tw_msg_pool_take(&me->messages) : NULL;

	tw_block_drop(sum->in);
	if (!mail) {
		tw_block_drop(sum->out);
		tw_block_drop(sum->more);
		return !c;
	}
	mail->kind = MAIL_SUMMED;
	mail->m.h.seq = sum->key;
	mail->m.payload = sum->out;
	mail->m.tail = sum->more;
	tw_threads_post(me, c, mail);
	return true;
}

void tw_port_work(struct tw_port *p)
{
	hand_of(p)->passes = 0;
	tw_threads_work(hand_of(p));
}

void tw_port_end(struct tw_port *p, enum tw_status status, const char *text)
{
	struct tw_totals t = { 0 };

	snprintf(t.text, sizeof t.text, "%s", text ? text : "");
	tw_threads_end(hand_of(p)->world, status, &t, NULL);
}
