/* SPDX-License-Identifier: Apache-2.0 */
/* sim_usage.c - where the time of workers goes, and what the links of servers carry. */
#include "world/sim/sim_run.h"

#define FIRST_WIDTH INT64_C(1000000) /* ns of a bin, until a run is longer than all bins */

static void account(const struct sim *s, struct node *n)
{
	struct use *u = &n->use;
	const enum tw_use now = u->computing ? TW_USE_COMPUTING
				: u->flying  ? TW_USE_TRANSFERRING
					     : TW_USE_WAITING;

	u->spent[now] += s->now - u->since;
	u->since = s->now;
}

void tw_sim_use_computing(struct sim *s, struct node *n, bool computing)
{
	if (n->use.computing == computing)
		return;
	account(s, n);
	n->use.computing = computing;
}

/* Two bins become one, until `at` is in the last one. */
static uint64_t bin_of(struct tw_load *l, int64_t at)
{
	if (!l->width)
		l->width = FIRST_WIDTH;
	while (at / l->width >= TW_LOAD_BINS) {
		for (size_t k = 0; k < TW_LOAD_BINS; k++) {
			const bool kept = k < TW_LOAD_BINS / 2;

			l->received[k] = kept ? l->received[2 * k] + l->received[2 * k + 1] : 0;
			l->sent[k] = kept ? l->sent[2 * k] + l->sent[2 * k + 1] : 0;
		}
		l->width *= 2;
	}
	return (uint64_t)(at / l->width);
}

static int64_t since_start(const struct sim *s, int64_t at)
{
	return at > s->options->start ? at - s->options->start : 0;
}

void tw_sim_use_sent(struct sim *s, struct parcel *p, int64_t at)
{
	struct node *from = &s->cast.node[p->msg.from.node], *to = &s->cast.node[p->msg.to.node];
	struct tw_load *l = &s->ran->load;

	account(s, from);
	account(s, to);
	from->use.flying++;
	to->use.flying++;
	p->flying = true;
	if (from->kinds & NODE_SERVER && !(from->kinds & NODE_WORKER))
		l->sent[bin_of(l, since_start(s, at))] += tw_msg_bytes(&p->msg);
}

void tw_sim_use_landed(struct sim *s, struct parcel *p)
{
	struct node *from = &s->cast.node[p->msg.from.node], *to = &s->cast.node[p->msg.to.node];

	if (!p->flying)
		return;
	account(s, from);
	account(s, to);
	from->use.flying--;
	to->use.flying--;
	p->flying = false;
}

void tw_sim_use_received(struct sim *s, const struct parcel *p)
{
	const struct node *to = &s->cast.node[p->msg.to.node];
	struct tw_load *l = &s->ran->load;

	if (to->kinds & NODE_SERVER && !(to->kinds & NODE_WORKER))
		l->received[bin_of(l, since_start(s, s->now))] += tw_msg_bytes(&p->msg);
}

void tw_sim_use_applied(struct sim *s, const struct tw_note *note)
{
	const struct tw_sim_options *o = s->options;
	const struct tw_inputs in = { .from = note->from, .count = note->count };

	if (note->kind != TW_NOTE_APPLY || note->shard || !note->count ||
	    !(o->by_label.count || o->by_sample.count))
		return;
	s->ran->applied.samples += note->count;
	s->ran->applied.effort +=
		note->count * s->cluster->engine->class->effort(s->cluster->engine, &in);
}

void tw_sim_use_end(struct sim *s)
{
	struct tw_usage *u = &s->ran->usage;

	for (uint32_t i = 0; s->cast.node && i < s->cast.nodes; i++) {
		struct node *n = &s->cast.node[i];

		if (!(n->kinds & NODE_WORKER))
			continue;
		account(s, n);
		u->workers++;
		for (size_t k = 0; k < TW_USES; k++) {
			const double seconds = (double)n->use.spent[k] / (double)TW_SECOND;

			u->all[k] += seconds;
			if (n->worker < TW_USE_WORKERS)
				u->worker[n->worker][k] = seconds;
		}
	}
}
