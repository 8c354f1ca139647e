/* SPDX-License-Identifier: Apache-2.0 */
/* well_formed.c - what no actor of a job can have said, whatever has become of it.
 *
 * A master's numbers begin with its boot: generations, views and pins above bit 32, incarnations,
 * attempts and leases above bit 20.  What it says to servers and shards has its boot in
 * h.incarnation; so has a COPY. */
#include "node/well_formed.h"

#include <math.h>
#include <string.h>

/* --- parts of messages ---------------------------------------------------------------------- */

static bool is_slot(const struct tw_plan *p, uint32_t slot)
{
	return slot < p->crew.workers;
}

static bool is_shard(const struct tw_plan *p, uint32_t shard)
{
	return shard < p->problem.shards;
}

/* Servers come first. */
static bool is_workers_node(const struct tw_plan *p, uint32_t node)
{
	return node > p->crew.servers;
}

static bool is_truth(uint32_t x)
{
	return x <= 1;
}

/* Is there a master that has said so by the time of the one that says this? */
static bool of_time(const struct tw_msg *m, uint32_t number)
{
	return number >> 20 <= m->h.incarnation;
}

static bool of_age(const struct tw_msg *m, uint64_t number)
{
	return number >> 32 <= m->h.incarnation;
}

static const void *tail_of(const struct tw_msg *m)
{
	return m->tail ? m->tail->data : NULL;
}

static bool ranges_exist(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_range *list = tail_of(m);

	for (size_t k = 0; k < m->h.tail / sizeof *list; k++)
		if (!list[k].count || list[k].from >= p->dealing.positions ||
		    list[k].count > p->dealing.positions - list[k].from)
			return false;
	return true;
}

static bool spans_exist(const struct tw_plan *p, const struct tw_span *list, uint64_t count)
{
	for (uint64_t k = 0; k < count; k++)
		if (list[k].from >= list[k].to || list[k].to > p->dealing.positions)
			return false;
	return true;
}

static bool is_member(const struct tw_plan *p, const struct tw_msg *m, const struct tw_member *x)
{
	return is_slot(p, x->slot) && x->state <= TW_LEFT && of_time(m, x->incarnation) &&
	       (is_workers_node(p, x->node) || x->state != TW_LIVE);
}

/* --- kinds ---------------------------------------------------------------------------------- */

static bool hello(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_hello *b = &m->b.hello;

	if (b->role != m->from.role)
		return false;
	if (b->role == TW_SERVER)
		return b->hosted <= p->problem.shards && m->h.incarnation && !m->h.tail;
	return ranges_exist(p, m);
}

static bool places(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_place *list = tail_of(m);

	for (size_t k = 0; k < m->h.tail / sizeof *list; k++)
		if (list[k].what == TW_PLACE_CELL
			    ? list[k].shard >= tw_plan_cells(p)
			    : list[k].what != TW_PLACE_SHARD || !is_shard(p, list[k].shard))
			return false;
	return true;
}

/* Of a worker there is an entry for each lane of the shard's stage, one after the other. */
static bool members(const struct tw_plan *p, const struct tw_msg *m)
{
	const uint32_t lanes = tw_plan_lanes(p, m->to.index);
	const struct tw_member *list = tail_of(m);
	const size_t count = m->h.tail / sizeof *list;

	for (size_t k = 0; k < count; k++)
		if (!is_member(p, m, &list[k]) || list[k].slot != list[k - k % lanes].slot)
			return false;
	return count % lanes == 0;
}

static bool view(const struct tw_plan *p, const struct tw_msg *m)
{
	if (m->b.view.live > p->crew.workers || !is_truth(m->b.view.running))
		return false;
	if (m->to.role == TW_WORKER)
		return places(p, m);
	return of_age(m, m->b.view.number) && members(p, m);
}

static bool host(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_host *b = &m->b.host;

	return is_shard(p, b->shard) && is_truth(b->unhost) && b->live <= p->crew.workers &&
	       of_time(m, b->attempt) && of_time(m, b->incarnation) && b->incarnation && !b->pad &&
	       !b->cut == !m->h.payload;
}

static bool state(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_state *b = &m->b.state;
	const uint64_t ranges = (uint64_t)b->spans + b->twice;

	return is_shard(p, m->h.shard) && m->h.payload == sizeof(struct tw_tally) &&
	       b->members <= p->crew.workers &&
	       (ranges + b->members) * sizeof(struct tw_span) == m->h.tail &&
	       spans_exist(p, tail_of(m), ranges);
}

static bool lease(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_lease *b = &m->b.lease;

	return b->range.count <= p->dealing.positions &&
	       b->range.from <= p->dealing.positions - b->range.count &&
	       b->live <= p->crew.workers && isfinite(b->nominal) && b->nominal >= 0.0;
}

static bool commit(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_commit *b = &m->b.commit;
	const struct tw_member *set = tail_of(m);
	const struct tw_judged *judged = tail_of(m);

	if ((uint64_t)b->count * sizeof *set != m->h.tail || !of_time(m, b->attempt))
		return false;
	if (tw_plan_has_peers(p))
		return spans_exist(p, tail_of(m), b->count);
	for (uint32_t k = 0; k < b->count; k++)
		if (tw_plan_judges(p)
			    ? (judged[k].what & ~TW_JUDGED_FLUSH) > TW_JUDGED_VOID ||
				      (judged[k].slot != UINT32_MAX && !is_slot(p, judged[k].slot))
			    : !is_member(p, m, &set[k]) || set[k].state != TW_LIVE)
			return false;
	return b->count <= p->crew.workers;
}

/* Can it be what is kept of an evaluation; none where nothing is kept, or asked for. */
static bool kept(const struct tw_plan *p, const struct tw_body_pin *b)
{
	static const struct tw_kept none;

	if (b->what != TW_PIN_BEST || !b->kept.pin)
		return memcmp(&b->kept, &none, sizeof none) == 0;
	return p->keeping.best && !isnan(b->kept.loss) && b->kept.accuracy >= -1.0 &&
	       b->kept.accuracy <= 1.0 && b->kept.samples >= 0.0;
}

static bool pin(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_pin *b = &m->b.pin;

	if (b->what > (p->keeping.best ? TW_PIN_ASK : TW_PIN_COUNT) || b->pad || !kept(p, b))
		return false;
	return m->from.role == TW_MASTER ? of_age(m, b->pin)
					 : is_shard(p, m->h.shard) && isfinite(b->rate);
}

/* Are these samples of the set that is evaluated, or of the one that is scored at the end? */
static bool are_scored(const struct tw_plan *p, uint64_t from, uint64_t count)
{
	const uint64_t all = tw_plan_scored(p);

	return count && count <= all && from <= all - count;
}

static bool result(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_result *b = &m->b.result;
	const uint64_t end = p->dealing.positions;

	if (!b->pin)
		return p->online.is && b->count && b->from < end && b->count <= end - b->from &&
		       b->correct >= -1.0 && b->correct <= (double)b->count;
	return are_scored(p, b->from, b->count) && b->correct >= -1.0 &&
	       b->correct <= (double)b->count;
}

static bool form(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_member *list = tail_of(m);
	const size_t count = m->h.tail / sizeof *list;

	if (m->b.form.what >= TW_FORMS || !of_time(m, m->b.form.attempt) || !count)
		return false;
	for (size_t k = 0; k < count; k++)
		if (!is_member(p, m, &list[k]) || list[k].state == TW_GONE ||
		    (k && list[k].slot <= list[k - 1].slot))
			return false;
	return true;
}

/* The copy is of the shard that gives it, and was asked for by the master that it names. */
static bool copy(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_copy *b = &m->b.copy;

	return is_shard(p, b->shard) && b->shard == m->h.shard && m->h.payload &&
	       b->live <= p->crew.workers && of_time(m, b->attempt) && b->attempt &&
	       of_time(m, b->incarnation) && b->incarnation && m->h.view;
}

/* Samples of a step, to who asked for them or asks. */
static bool batch(const struct tw_plan *p, const struct tw_msg *m)
{
	const struct tw_body_fetch *b = &m->b.fetch;

	return tw_plan_sends_samples(p) && b->count && !b->pad &&
	       b->count <= tw_plan_step_most(p) && b->count <= p->problem.samples &&
	       b->from % p->problem.samples <= p->problem.samples - b->count;
}

/* Does it come from a node where such an actor can be? */
static bool has_seat(const struct tw_plan *p, const struct tw_addr *a)
{
	switch ((enum tw_role)a->role) {
	case TW_MASTER:
		return a->node == 0;
	case TW_SERVER:
	case TW_SHARD:
		return tw_plan_holds_by_workers(p) ? is_workers_node(p, a->node)
						   : tw_plan_is_server(p, a->node);
	case TW_WORKER:
		return is_workers_node(p, a->node);
	case TW_ROLES:
		return false;
	}
	return false;
}

/* The master speaks to servers and shards, or one of them hands on what it said. */
static bool has_term(const struct tw_msg *m)
{
	return m->h.type == TW_COPY || m->from.role == TW_SERVER
		       ? m->to.role == TW_SHARD || m->to.role == TW_SERVER
		       : m->from.role == TW_MASTER && m->to.role != TW_WORKER;
}

bool tw_well_formed(const struct tw_plan *p, const struct tw_msg *m)
{
	if (!has_seat(p, &m->from) || (has_term(m) && !of_age(m, m->h.view)))
		return false;
	switch ((enum tw_type)m->h.type) {
	case TW_HELLO:
		return hello(p, m);
	case TW_WELCOME:
		return is_slot(p, m->b.welcome.slot) && m->b.welcome.incarnation &&
		       m->b.welcome.workers == p->crew.workers &&
		       m->b.welcome.cell < tw_plan_cells(p) && !m->b.welcome.pad && places(p, m);
	case TW_REFUSE:
		return m->b.refuse.why >= TW_REFUSED_FENCED && m->b.refuse.why <= TW_REFUSED_LIES;
	case TW_VIEW:
		return view(p, m);
	case TW_HOST:
		return host(p, m);
	case TW_HOSTED:
		return is_shard(p, m->h.shard) && m->b.host.shard == m->h.shard;
	case TW_STATE:
		return state(p, m);
	case TW_LEASE:
		return lease(p, m);
	case TW_DONE:
		/* of its steps and samples no more are counted than the lease has */
		return ranges_exist(p, m) && m->b.done.losses < TW_FIGURE_MOST &&
		       m->b.done.busy < TW_FIGURE_MOST;
	case TW_IDLE:
		return is_truth(m->b.idle.idle) &&
		       (m->from.role == TW_WORKER ||
			(is_slot(p, m->b.idle.slot) && of_time(m, m->b.idle.incarnation)));
	case TW_HAVE:
		return is_shard(p, m->h.shard) && isfinite(m->b.have.rate) &&
		       (m->b.have.slot == UINT32_MAX || is_slot(p, m->b.have.slot));
	case TW_COMMIT:
		return commit(p, m);
	case TW_PIN:
		return pin(p, m);
	case TW_EVAL:
		return !m->b.eval.pad && are_scored(p, m->b.eval.from, m->b.eval.count);
	case TW_RESULT:
		return result(p, m);
	case TW_SNAP:
		return is_truth(m->b.snap.flush) && is_truth(m->b.snap.part);
	case TW_PART:
		return m->from.role == TW_SHARD ? is_shard(p, m->h.shard)
						: is_slot(p, m->b.part.slot);
	case TW_FORM:
		return form(p, m);
	case TW_GIVE:
		return is_workers_node(p, m->b.give.node) && of_time(m, m->b.give.attempt);
	case TW_COPY:
		return copy(p, m);
	case TW_HEARD:
		return is_truth(m->b.heard.again);
	case TW_MIX:
		return is_truth(m->b.mix.answer) && !m->b.mix.pad;
	case TW_CLOSED:
		return m->b.closed.cell < tw_plan_cells(p);
	case TW_FETCH:
	case TW_SAMPLES:
		return batch(p, m);
	case TW_BYE:
	case TW_ASK:
	case TW_PUSH:
	case TW_ACK:
	case TW_PULL:
	case TW_PARAMS:
	case TW_UNCHANGED:
	case TW_REDUCE:
	case TW_SPREAD:
	case TW_VEC:
	case TW_SCALAR:
	case TW_ACT:
	case TW_GRAD:
	case TW_FIGURES:
		return true;
	case TW_GREET:
	case TW_TERMS:
	case TW_DENY:
	case TW_PING:
	case TW_PEERS:
	case TW_DATA:
	case TW_OVER:
	case TW_TICKETS:
	case TW_LEAVING:
	case TW_LEND:
	case TW_TYPES:
		return false;
	}
	return false;
}
