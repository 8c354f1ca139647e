/* SPDX-License-Identifier: Apache-2.0 */
/* watch_standstill.c - a run in which nothing moves (14 to 18).  The numbers in brackets are
 * those of README.md. */
#include "node/duty/watch/watch_state.h"

#define FIRST  60 /* times cluster.stuck */
#define DOUBTS 20

/* --- whether anything moves ------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t x)
{
	h ^= x + UINT64_C(0x9e3779b97f4a7c15) + (h << 6) + (h >> 2);
	return h * UINT64_C(0xff51afd7ed558ccd);
}

static uint64_t stamp_shards(const struct master *m)
{
	uint64_t done = 0;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct shard_info *i = &m->shard[s];

		done += (uint64_t)tw_shard_has_home(i) + i->agreed + i->counted +
			tw_eval_master_has_view(m, s);
	}
	return done;
}

static uint64_t stamp_replicas(const struct master *m)
{
	uint64_t said = m->replicas.ready;

	for (uint32_t w = 0; w < REPLICA_WORDS; w++)
		said += m->replicas.full[w];
	return said;
}

/* Parts of a checkpoint, and of the vectors at the end. */
static uint64_t stamp_pause(const struct master *m)
{
	return tw_checkpoint_master_progress(m) + tw_finish_master_progress(m);
}

/* (14) */
static uint64_t stamp(const struct master *m)
{
	const uint64_t done[] = {
		m->rounds.number,
		m->dealer->progress ? m->dealer->progress(m) : 0,
		m->count.samples,
		m->count.steps,
		tw_verdict_master_progress(m),
		tw_eval_master_done(m),
		tw_eval_master_evaluated(m),
		tw_eval_master_shown(m),
		m->restart.current,
		m->restart.reading.to,
		stamp_shards(m),
		stamp_replicas(m),
	};
	uint64_t h = 0;

	for (size_t k = 0; k < sizeof done / sizeof done[0]; k++)
		h = mix(h, done[k]);
	return h;
}

/* --- for whom it waits ------------------------------------------------------------------------ */

/* Who is to blame: the slot, and the node of its process or cell. */
struct culprit {
	uint32_t slot;
	struct tw_addr who;
	bool computes; /* it is waited for because of work that takes time */
};

static bool blame(const struct master *m, uint32_t slot, bool computes, struct culprit *out)
{
	if (slot == TW_NO_SLOT || !m->member[slot].live)
		return false;
	*out = (struct culprit){ slot, tw_watch_holds_up(m, slot), computes };
	return true;
}

/* A shard that a worker holds, and that owes something. */
static bool blame_holder(const struct master *m, struct culprit *out)
{
	const struct cell_info *c;

	for (uint32_t s = 0; s < m->plan->problem.shards && tw_plan_is_with_stage(m->plan); s++) {
		if (!tw_watch_shard_owes(m, s) || m->shard[s].place < SHARD_ASSIGNED ||
		    !blame(m, tw_master_slot_at(m, m->shard[s].node), false, out))
			continue;
		c = tw_cell_on(m, m->shard[s].node);
		out->who = (struct tw_addr){ c->node, TW_WORKER, (uint16_t)tw_cell_number(m, c) };
		return true;
	}
	return false;
}

/* A replica that has not said what all must say. */
static bool blame_replica(const struct master *m, struct culprit *out)
{
	/* a view may be that of steps which are still computed */
	const bool trains = m->phase == PHASE_RUN || m->phase == PHASE_DRAIN;
	const char *why;
	uint32_t slot;

	if (!tw_master_has_replicas(m))
		return false;
	if (m->phase == PHASE_AGREE)
		return blame(m, tw_replicas_owes(m, REPLICA_AGREED), false, out);
	if (tw_mix_master_waits(m, &slot, &why))
		return blame(m, slot, false, out);
	if (tw_eval_master_awaits(m))
		return blame(m, tw_replicas_owes(m, REPLICA_PINNED), trains, out);
	if (tw_eval_master_averages(m))
		return blame(m, tw_replicas_owes(m, REPLICA_VIEWED), trains, out);
	return false;
}

/* Of what this member works on, in how many shards is its contribution?  UINT32_MAX: in all, it
 * works on nothing, or only shards know. */
static uint32_t reached(const struct master *m, uint32_t slot)
{
	return m->dealer->reached ? m->dealer->reached(m, slot) : UINT32_MAX;
}

/* Does this member have something to do, whether others wait for it or not? */
static bool has_work(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	return tw_watch_waits_for(m, slot) || e->held.count || tw_eval_master_has_chunk(m, slot) ||
	       reached(m, slot) != UINT32_MAX;
}

/* It has nothing to do, and does not ask for more: its word is missing. */
static bool is_mute(const struct master *m, uint32_t slot)
{
	return m->member[slot].appetite == APPETITE_NONE && !has_work(m, slot);
}

/* Of two members that have work: in a round, the one whose contribution has reached the fewest
 * shards; else the one that was given it first. */
static bool is_worse(const struct master *m, uint32_t a, uint32_t b)
{
	const uint32_t x = reached(m, a), y = reached(m, b);

	if (x != UINT32_MAX && y != UINT32_MAX && x != y)
		return x < y;
	return m->member[a].asked < m->member[b].asked;
}

static uint32_t worst_of(const struct master *m, bool (*is)(const struct master *, uint32_t))
{
	const struct tw_slots *live = &m->members.live;
	uint32_t worst = TW_NO_SLOT;

	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1))
		if (is(m, k) && (worst == TW_NO_SLOT || is_worse(m, k, worst)))
			worst = k;
	return worst;
}

static bool blame_worker(struct master *m, struct culprit *out)
{
	return blame(m, tw_watch_stalled_culprit(m), true, out) ||
	       blame(m, worst_of(m, has_work), true, out) ||
	       blame(m, worst_of(m, is_mute), true, out);
}

static bool find(struct master *m, struct culprit *out)
{
	switch (m->phase) {
	case PHASE_GATHER:
	case PHASE_AGREE:
	case PHASE_COUNT:
		return blame_holder(m, out) || blame_replica(m, out);
	case PHASE_RUN:
	case PHASE_DRAIN:
	case PHASE_SNAP:
	case PHASE_SCORE:
		return blame_holder(m, out) || blame_replica(m, out) || blame_worker(m, out);
	default:
		return false;
	}
}

/* Messages take their time, however short the limit is. */
static int64_t stuck_of(const struct master *m)
{
	return m->plan->crew.stuck > TW_SECOND ? m->plan->crew.stuck : TW_SECOND;
}

/* (15) How long all parameters take on a slow link: a byte in a microsecond. */
static int64_t carrying(const struct master *m)
{
	return (int64_t)(m->plan->problem.border[m->plan->problem.shards] * sizeof(float)) *
	       (TW_SECOND / 1000000);
}

/* (15) */
static int64_t limit(const struct master *m, const struct culprit *c)
{
	const int64_t stuck = stuck_of(m);
	int64_t usual = tw_watch_allowed(m, c->slot);

	if (!c->computes)
		return 2 * stuck + carrying(m);
	if (usual == INT64_MAX && !tw_eval_master_has_chunk(m, c->slot))
		usual = tw_watch_stalled_patience(m, m->member[c->slot].asked);
	if (usual == INT64_MAX)
		usual = stuck < INT64_MAX / FIRST ? FIRST * stuck : INT64_MAX;
	return usual > stuck + stuck / 2 ? usual : stuck + stuck / 2;
}

/* Does nobody train, because of a checkpoint or the end? */
static bool pauses(const struct master *m)
{
	return m->phase != PHASE_RUN && m->phase != PHASE_DRAIN && m->phase != PHASE_SCORE;
}

/* (18) Are shards to be asked now?  Where nobody has shown how long a step takes, they may know
 * that somebody has: they are asked early, and after twice as long each time. */
static bool must_ask(const struct master *m, int64_t now, int64_t since, int64_t most)
{
	const struct stalled *s = &m->watch->stalled;
	const uint32_t doubts = m->watch->doubts < DOUBTS ? m->watch->doubts : DOUBTS;
	const int64_t half = stuck_of(m) / 2;

	if (m->rounds.open || (s->asked && s->left && now - s->at < most))
		return false;
	if (!m->pace.work.count && !s->first)
		return !s->asked || (now - s->at) >> doubts >= half;
	return now - since >= most / 2 && !(s->asked && s->at >= since + most / 2);
}

/* (18) */
static bool has_heard(const struct master *m, int64_t now, int64_t since, int64_t most)
{
	const struct stalled *s = &m->watch->stalled;

	return m->rounds.open || (s->asked && s->at >= since && (!s->left || now - s->at >= most));
}

void tw_watch_check_standstill(struct master *m, struct tw_context *ctx)
{
	const uint64_t done = stamp(m);
	const int64_t now = tw_now(ctx);
	struct watch_master *w = m->watch;
	struct culprit c;
	int64_t since, most;

	if (pauses(m) && stamp_pause(m) != w->pause_stamp)
		w->moved += now - w->looked;
	w->pause_stamp = stamp_pause(m);
	w->looked = now;
	if (done != w->stamp) {
		w->stamp = done;
		w->moved = now;
		w->doubts = 0;
		if (!m->rounds.open) { /* what was answered is of the past */
			m->watch->stalled.asked = false;
			m->watch->stalled.first = 0;
		}
	}
	since = w->moved > w->awake_since ? w->moved : w->awake_since;
	if (now - since < stuck_of(m) / 2 || !find(m, &c))
		return;
	most = limit(m, &c);
	if (must_ask(m, now, since, most)) {
		w->doubts++;
		tw_watch_stalled_ask(m, ctx);
	}
	if (now - since < most || !has_heard(m, now, since, most))
		return;
	w->moved = now; /* (16) */
	tw_watch_expel(m, ctx, c.slot, c.who, now - since);
}
