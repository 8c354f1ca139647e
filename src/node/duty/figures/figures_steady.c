/* SPDX-License-Identifier: Apache-2.0 */
/* figures_steady.c - throughput without the tail of a run: see (4) of README.md. */
#include "node/duty/eval/eval.h"
#include "node/duty/figures/figures.h"
#include "node/duty/figures/figures_state.h"

#include <math.h>

/* (4) */
void tw_figures_steady_agreed(struct master *m)
{
	double had = 0;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const uint64_t now = m->shard[s].tally.samples;
		uint64_t *from = &m->figures->steady.had[s].from;

		if (!m->figures->steady.dealt || now < *from)
			*from = now;
		had += (double)*from;
	}
	if (!m->figures->steady.dry)
		m->figures->steady.from = had;
}

void tw_figures_steady_dealt(struct master *m, struct tw_context *ctx)
{
	if (m->figures->steady.dealt)
		return;
	m->figures->steady.dealt = true;
	m->figures->steady.began = tw_now(ctx);
}

void tw_figures_steady_dry(struct master *m, struct tw_context *ctx)
{
	struct tw_body_pin what = { .what = TW_PIN_COUNT };

	if (!m->figures->steady.dealt || m->figures->steady.dry)
		return;
	m->figures->steady.dry = true;
	m->figures->steady.end = tw_now(ctx);
	if (tw_master_rounds(m)) {
		m->figures->steady.samples = (double)m->count.samples * m->plan->problem.shards;
		return;
	}
	m->figures->steady.ask = what.pin = ((uint64_t)ctx->boot << 32) | ++m->restart.counter;
	m->figures->steady.left = m->plan->problem.shards;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_eval_master_send_pin(m, ctx, s, &what);
}

/* How much was in when nothing was left to deal. */
void tw_figures_steady_told(struct master *m, const struct tw_msg *msg)
{
	struct steady *y = &m->figures->steady;
	bool *told = &y->had[msg->h.shard].told;

	if (msg->b.pin.what != TW_PIN_COUNT || m->shard[msg->h.shard].node != msg->from.node ||
	    !y->ask || msg->b.pin.pin != y->ask || *told)
		return;
	*told = true;
	y->samples += (double)msg->b.pin.samples;
	y->left--;
}

/* A shard that was lost before it could answer takes the answer with it. */
struct tw_steady tw_figures_steady(const struct master *m)
{
	const struct steady *s = &m->figures->steady;

	if (!s->dry || s->left || s->end <= s->began)
		return (struct tw_steady){ .samples = NAN };
	return (struct tw_steady){ (s->samples - s->from) / m->plan->problem.shards,
				   s->end - s->began };
}
