/* SPDX-License-Identifier: Apache-2.0 */
/* sim_send.c - what a handler has sent: through the card of its node, onto the link. */
#include "base/fetch.h"
#include "world/sim/sim_run.h"

#define POST_AHEAD 3

enum { DRAW_JITTER = 1, DRAW_LOSS };

/* What jitter and loss add.  Drawn for (link; time, type, shard), which a run that was resumed
 * meets again. */
static int64_t disturb(struct sim *s, const struct parcel *p)
{
	const struct tw_sim_options *o = s->options;
	const struct tw_msg *m = &p->msg;
	const uint64_t link = (uint64_t)m->from.node << 32 | m->to.node;
	const uint64_t what = tw_sim_mix(tw_sim_mix((uint64_t)s->now, m->h.type), m->h.shard);
	int64_t more = 0;

	if (o->jitter > 0)
		more = (int64_t)(tw_rng_uniform(&s->rng, link, tw_sim_mix(what, DRAW_JITTER)) *
				 (double)o->jitter);
	for (uint64_t try = 0; o->loss > 0.0; try++) {
		if (tw_rng_uniform(&s->rng, link, tw_sim_mix(what, DRAW_LOSS + try)) >= o->loss)
			break;
		more += o->retransmit;
	}
	return more;
}

/* (3): a message that was less unlucky waits for the one before it. */
static bool in_order(struct sim *s, const struct tw_msg *m, int64_t *at)
{
	int64_t *last = tw_map_put(&s->links.fifo, (uint64_t)m->from.node << 32 | m->to.node, *at);

	if (!last)
		return false;
	if (*last > *at)
		*at = *last;
	*last = *at;
	return true;
}

/* When what is behind the sender's NIC has the message, which is taken meanwhile. */
static bool travel(struct sim *s, struct parcel *p, int64_t *at)
{
	const size_t bytes = tw_msg_bytes(&p->msg);
	struct node *from = &s->cast.node[p->msg.from.node];
	const struct node *to = &s->cast.node[p->msg.to.node];
	const double nic = tw_sim_nic(s, from);

	s->ran->bytes_sent += bytes;
	*at = p->left = s->now;
	if (nic > 0.0) {
		if (from->egress > *at)
			*at = from->egress;
		from->egress = p->left = *at + tw_sim_takes(bytes, nic);
	}
	tw_sim_use_sent(s, p, *at);
	tw_sim_go_on(s, p, HOP_NIC);
	*at = tw_sim_begins(p, *at, p->left) +
	      tw_sim_latency(s->options, from->machine, to->machine);
	if (!s->links.lossy)
		return true;
	*at += disturb(s, p);
	return in_order(s, &p->msg, at);
}

static void post(struct sim *s, struct tw_msg *m)
{
	struct parcel *p = tw_sim_parcel(m);
	struct cell *to = tw_sim_cell(s, m->to);
	const struct pair *pair;
	int64_t at = s->now;

	if (!to) {
		char name[64];

		tw_sim_name(s, m->from, name, sizeof name);
		tw_sim_fail(s, TW_ABSENT,
			    "%s sent %s to node %u, role %u, index %u, but there is no such actor",
			    name, tw_type_name(m->h.type), m->to.node, m->to.role, m->to.index);
	}
	if (!to || !to->actor) {
		tw_sim_parcel_free(s, p);
		return;
	}
	if (!tw_sim_befriend(s, m->from.node, m->to.node)) {
		tw_sim_parcel_free(s, p);
		tw_sim_fail(s, TW_NO_MEMORY, "no memory for a link");
		return;
	}
	s->alive_bytes += m->h.payload;
	p->counted = true;
	if (s->alive_bytes > s->ran->peak_bytes)
		s->ran->peak_bytes = s->alive_bytes;
	pair = tw_sim_pair(s, m->from.node, m->to.node);
	p->epoch = pair ? pair->epoch : 0;
	p->from_boot = s->cast.node[m->from.node].boot;
	p->event.boot = s->cast.node[m->to.node].boot;
	p->event.cell = to;
	p->sent = p->left = s->now;
	p->hop = HOP_NIC;
	p->lasts = 0;
	p->event.kind = EVENT_ARRIVE;
	if (m->from.node == m->to.node) {
		p->event.kind = EVENT_RECEIVED;
		if (!(m->h.flags & TW_FLAG_FREE))
			at += s->options->local;
	} else if (!(m->h.flags & TW_FLAG_FREE) && !travel(s, p, &at)) {
		tw_sim_parcel_free(s, p);
		tw_sim_fail(s, TW_NO_MEMORY, "no memory for the state of a link");
		return;
	}
	if (!tw_sim_push(s, at, &p->event))
		tw_sim_parcel_free(s, p);
}

void tw_sim_post_first(struct sim *s, uint64_t count)
{
	struct tw_msg *m = s->out, *ahead = s->out;

	for (int k = 0; k < POST_AHEAD && ahead; k++)
		ahead = ahead->next;
	s->out = NULL;
	s->out_end = &s->out;
	while (m) {
		struct tw_msg *next = m->next;

		if (ahead) {
			const struct node *to = &s->cast.node[next->to.node];

			tw_fetch(tw_sim_parcel(ahead), sizeof(struct parcel));
			tw_fetch(to, sizeof *to);
			ahead = ahead->next;
		}
		m->next = NULL;
		if (count && !s->over) {
			count--;
			post(s, m);
		} else {
			tw_sim_parcel_free(s, tw_sim_parcel(m));
		}
		m = next;
	}
}

void tw_sim_leave(struct sim *s, struct cell *c)
{
	s->ran->events++;
	tw_sim_wait_look(s, c);
	if (s->ran->events >= s->faults.next_kill)
		s->faults.kill(s, c);
	else if (s->out)
		tw_sim_post_first(s, UINT64_MAX);
}
