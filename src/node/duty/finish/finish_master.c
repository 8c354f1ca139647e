/* SPDX-License-Identifier: Apache-2.0 */
/* finish_master.c - the end of a run: the last vectors, and the totals.  The numbers in brackets
 * are those of README.md. */
#include "node/duty/finish/finish.h"
#include "node/duty/samples/samples.h"
#include "node/figures.h"
#include "node/master/master.h"

#include <math.h>
#include <stddef.h>

/* The vectors of the first `digested` shards are in the digests, where the vector is large (3); the
 * first `asked_for` shards were asked for theirs. */
struct finish_master {
	bool large, interrupted;
	uint32_t asked_for, digested;
	uint32_t lacks; /* whose vector or tally is not here */
	struct tw_digest *parameters, *buffers;
	struct tw_mingling model; /* of the parameters */
	struct tw_block **vector; /* by shard; NULL: not here, or digested */
};

static bool has_vector(const struct master *m, uint32_t shard)
{
	return m->finish->vector[shard] || (m->finish->large && shard < m->finish->digested);
}

static void count_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_msg *msg;

	if (m->phase != PHASE_COUNT || (m->finish->large && shard >= m->finish->asked_for) ||
	    (has_vector(m, shard) && m->shard[shard].counted))
		return;
	msg = tw_master_to_shard(m, ctx, shard, TW_SNAP);
	if (!msg)
		return;
	/* not free of time: it must not overtake the last COMMIT */
	msg->b.snap = (struct tw_body_snap){ .flush = 1,
					     .part = !has_vector(m, shard),
					     .pin = tw_eval_master_delivers(m) };
	tw_send(ctx, msg);
	tw_master_ask(m, ctx, shard, 0);
}

static uint64_t vector_bytes(const struct master *m, uint32_t shard)
{
	const size_t *border = m->plan->problem.border;

	return (border[shard + 1] - border[shard]) * sizeof(float);
}

/* Of a large vector, ask for as many shards as there is room for, at least one; else for all. */
static void ask_for_vectors(struct master *m, struct tw_context *ctx)
{
	struct finish_master *e = m->finish;
	uint64_t bytes = 0;

	for (uint32_t s = e->digested; s < e->asked_for; s++)
		bytes += vector_bytes(m, s);
	while (e->asked_for < m->plan->problem.shards) {
		bytes += vector_bytes(m, e->asked_for);
		if (e->large && e->asked_for > e->digested && bytes > m->plan->checkpoint.memory)
			return;
		e->asked_for++;
		count_shard(m, ctx, e->asked_for - 1);
	}
}

static void digest_some(void *digest, const float *values, size_t n)
{
	tw_digest_add(digest, values, n * sizeof *values);
}

/* The next vectors in order, as far as they are here. */
static void digest_vectors(struct master *m)
{
	const struct tw_problem *p = &m->plan->problem;
	struct finish_master *e = m->finish;

	for (; e->digested < p->shards && e->vector[e->digested]; e->digested++) {
		struct tw_block **vector = &e->vector[e->digested];
		const size_t from = p->border[e->digested], to = p->border[e->digested + 1];
		const size_t turn = from > p->trainable ? from
				    : to < p->trainable ? to
							: p->trainable;
		const float *at = tw_block_floats(*vector);

		tw_mingle(&e->model, at, turn - from, digest_some, e->parameters);
		tw_digest_add(e->buffers, at + (turn - from), (to - turn) * sizeof *at);
		tw_block_drop(*vector);
		*vector = NULL;
	}
}

static bool begin_ending(struct master *m, struct tw_context *ctx)
{
	struct finish_master *e = m->finish;

	tw_digest_free(e->parameters);
	tw_digest_free(e->buffers);
	*e = (struct finish_master){ .large = tw_plan_vector_is_large(m->plan),
				     .model.of = m->plan->problem.constants,
				     .interrupted = e->interrupted,
				     .vector = e->vector };
	if (!e->large)
		return true;
	e->parameters = tw_digest_new();
	e->buffers = tw_digest_new();
	if (e->parameters && e->buffers)
		return true;
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for the result");
	return false;
}

static bool has_counted(const struct master *m, uint32_t shard)
{
	return has_vector(m, shard) && m->shard[shard].counted;
}

/* Fetch the final vectors and tallies, then score them. */
void tw_finish_master_count(struct master *m, struct tw_context *ctx)
{
	if (m->phase != PHASE_COUNT) {
		tw_eval_master_abort(m, ctx);
		m->phase = PHASE_COUNT;
		m->since = tw_now(ctx);
		m->restart.asks++;
		if (!begin_ending(m, ctx))
			return;
		for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
			m->shard[s].counted = false;
			tw_block_drop(m->finish->vector[s]);
			m->finish->vector[s] = NULL;
		}
		ask_for_vectors(m, ctx);
		tw_figures_master_ask(m, ctx);
		return;
	}
	if (m->finish->large) {
		digest_vectors(m);
		ask_for_vectors(m, ctx);
	}
	if (!tw_figures_master_complete(m) ||
	    !tw_master_every_shard(m, &m->finish->lacks, has_counted))
		return;
	if (m->finish->interrupted)
		tw_finish_master_end(m, ctx, TW_INTERRUPTED);
	else if (!tw_eval_master_final(m, ctx))
		tw_finish_master_end(m, ctx, TW_OK);
}

void tw_finish_master_interrupted(struct master *m)
{
	m->finish->interrupted = true;
}

/* PART without a checkpoint and without a pin: the final vector of a shard. */
static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct master *m = actor;
	const uint32_t s = msg->h.shard;

	(void)ctx;
	if (msg->from.role != TW_SHARD || msg->b.part.cut || msg->h.seq || !msg->payload ||
	    m->shard[s].node != msg->from.node)
		return;
	if (tw_master_rounds(m) && msg->b.part.round != m->rounds.number)
		return; /* a COMMIT was lost on the way there: it is sent again, and this, too */
	if (m->phase == PHASE_COUNT && !has_vector(m, s) && msg->h.payload == vector_bytes(m, s))
		m->finish->vector[s] = tw_block_keep(msg->payload);
}

uint64_t tw_finish_master_progress(const struct master *m)
{
	uint64_t done = m->finish->digested;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		done += m->finish->vector[s] != NULL;
	return done;
}

/* Has every shard said what it has at the end? */
static bool counted(const struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (!m->shard[s].counted)
			return false;
	return true;
}

/* Samples applied more than once by some shard; updates that some shard lost. */
static enum tw_status add_up(struct master *m, struct tw_totals *t)
{
	const struct passed passed = tw_deal_passed(m);
	const uint64_t unit = tw_deal_unit(m);
	struct tw_spans twice, all, some;
	enum tw_status st = TW_OK;
	uint64_t lost = 0;
	const bool all_say = counted(m) && !tw_master_rounds(m);

	tw_spans_init(&twice, m->heap);
	tw_spans_init(&all, m->heap);
	tw_spans_init(&some, m->heap);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++) {
		st = tw_spans_unite(&some, &m->shard[s].applied);
		if (st == TW_OK)
			st = tw_spans_unite(&twice, &m->shard[s].twice);
	}
	if (st == TW_OK)
		st = tw_spans_copy(&all, &m->dealing.taken);
	if (st == TW_OK)
		st = tw_spans_unite(&all, &some);
	t->repeated = tw_spans_total(&twice);
	t->dealt = tw_spans_total(&all);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK && all_say; s++) {
		const uint64_t refused = m->shard[s].tally.refused; /* these are not lost */
		const uint64_t here =
			tw_spans_total(&m->shard[s].applied) + passed.unreachable + passed.vacant;
		const uint64_t samples = tw_spans_total(&all) - (here < t->dealt ? here : t->dealt);
		const uint64_t missing = (samples + unit - 1) / unit;

		lost += missing > refused ? missing - refused : 0;
	}
	t->lost_updates = (lost + m->plan->problem.shards - 1) / m->plan->problem.shards;
	tw_spans_release(&twice);
	tw_spans_release(&all);
	tw_spans_release(&some);
	return st;
}

void tw_finish_master_end(struct master *m, struct tw_context *ctx, enum tw_status status)
{
	const struct tw_plan *p = m->plan;
	struct tw_totals t = { .status = status,
			       .steps = m->count.steps,
			       .samples = m->count.samples,
			       .redealt = m->count.redealt,
			       .dropped = m->count.dropped,
			       .refused = m->count.refused,
			       .lost_copies = m->count.lost_copies,
			       .unreachable = tw_deal_passed(m).unreachable,
			       .vacant = tw_deal_passed(m).vacant,
			       .steady = tw_figures_steady(m),
			       .train_loss = m->count.train_loss,
			       .workers = p->crew.workers,
			       .shards = p->problem.shards,
			       .cut = m->cuts.last };
	uint64_t steps, samples;

	tw_eval_master_totals(m, &t);
	tw_samples_master_count(m, &t);
	tw_speed_range(m, &t.least_period, &t.most_period);
	tw_master_applied(m, &steps, &samples);
	if (counted(m) || samples > t.samples) {
		t.steps = steps;
		t.samples = samples;
	}
	t.epochs = p->online.keeps
			   ? (double)NAN
			   : (double)tw_spans_total(&m->dealing.taken) / (double)p->problem.samples;
	for (uint32_t s = 0; s < p->problem.shards; s++)
		tw_tally_add(&t.tally, &m->shard[s].tally);
	t.updates = tw_master_updates(m, (double)t.tally.updates, (double)t.tally.contributions) /
		    p->problem.shards;
	tw_batch_master_totals(m, &t);
	tw_online_master_totals(m, &t);
	t.applied =
		counted(m) ? (double)t.tally.samples / p->problem.shards : (double)m->count.samples;
	if (!tw_master_rounds(m)) /* contributions; the most that any shard refused */
		t.refused = t.tally.refused;
	t.dropped += t.tally.dropped_samples / p->problem.shards;
	if (add_up(m, &t) != TW_OK)
		goto fail;
	if (status == TW_OK && m->finish->large) {
		tw_digest_text(m->finish->parameters, t.parameters_digest);
		tw_digest_text(m->finish->buffers, t.buffers_digest);
	} else if (status == TW_OK) {
		t.vector = tw_heap_zeros(m->heap, p->problem.shards * sizeof *t.vector);
		if (!t.vector)
			goto fail;
		t.vector_heap = m->heap;
		for (uint32_t s = 0; s < p->problem.shards; s++)
			t.vector[s] = tw_block_keep(m->finish->vector[s]);
	}
	for (uint32_t k = 0; k < p->crew.workers; k++)
		if (m->member[k].live) {
			for (uint32_t c = 0; c < tw_plan_cells(p); c++) {
				struct tw_msg *msg = tw_master_to_cell(m, ctx, k, c, TW_BYE);

				if (msg)
					tw_send(ctx, msg);
			}
		}
	m->phase = PHASE_OVER;
	ctx->world->finish(ctx, status, &t);
	return;
fail:
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for the result");
}

/* --- the duty -------------------------------------------------------------------------------- */

static enum tw_status open_finish(void *actor)
{
	struct master *m = actor;
	struct finish_master *f = m->finish;

	f->vector = tw_heap_zeros(m->heap, m->plan->problem.shards * sizeof *f->vector);
	return f->vector ? TW_OK : TW_NO_MEMORY;
}

static void close_finish(void *actor)
{
	struct master *m = actor;
	struct finish_master *f = m->finish;

	for (uint32_t s = 0; f->vector && s < m->plan->problem.shards; s++)
		tw_block_drop(f->vector[s]);
	m->heap->put(m->heap, f->vector);
	tw_digest_free(f->parameters);
	tw_digest_free(f->buffers);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	count_shard(actor, ctx, shard);
}

static const char *waits(const void *actor, uint32_t shard)
{
	const struct master *m = actor;

	return m->phase != PHASE_COUNT || (m->shard[shard].counted && has_vector(m, shard))
		       ? NULL
		       : "its last parameters";
}

const struct tw_duty tw_finish_master = {
	.name = "finish",
	.bytes = sizeof(struct finish_master),
	.place = offsetof(struct master, finish),
	.hears = TW_HEARS(TW_PART),
	.open = open_finish,
	.close = close_finish,
	.message = message,
	.home = home,
	.waits = waits,
};
