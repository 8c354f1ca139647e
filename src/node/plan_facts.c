/* SPDX-License-Identifier: Apache-2.0 */
/* plan_facts.c - what is true of a plan, as far as refusals ask for it.
 *
 * Facts come from the tables of the chosen variants; nothing here knows a variant by its name. */
#include "node/refusals.h"

#include <math.h>

static bool add_gate(const struct tw_plan *p, struct tw_facts *f)
{
	const struct tw_gate *g = p->gate;
	const uint32_t t = g->traits;
	const void *o = p->gate_options;
	const bool in_turn = (t & TW_GATE_IN_TURN) && tw_gate_is_in_turn(g, o);
	const bool totals = tw_gate_totals(g, o);
	const float trims = tw_gate_trims(g, o);
	const struct tw_fact rows[] = {
		/* its options do not fit so many workers */
		{ "gate-unfit", g->check && g->check(o, p->crew.workers, NULL) != TW_OK },
		{ "rounds", t & TW_GATE_ROUNDS },          /* it commits whole rounds */
		{ "at-once", !(t & TW_GATE_NOT_AT_ONCE) }, /* applies each, holds nobody */
		{ "lockfree", t & TW_GATE_LOCKFREE },      /* workers write the parameters */
		{ "holds-back", t & TW_GATE_HOLDS },       /* a worker waits by its answers */
		{ "stops", tw_gate_stops(g, o) },          /* late work is given up early */
		{ "drops", tw_gate_drops(g, o) },          /* what is late, outside rounds */
		{ "fresh", tw_gate_keeps(g, o) != TW_KEEP_EACH }, /* only the current version */
		{ "abandons", tw_gate_abandons(g, o) },           /* closed rounds are given up */
		{ "in-turn", in_turn },      /* a round is applied one after the other */
		{ "totals", totals },        /* sum: total */
		{ "robust", trims >= 0.0f }, /* sum: median or trimmed */
		{ "trims", trims >= 0.0f && trims != 0.5f }, /* sum: trimmed */
		/* a contribution counts for more, or for something else, than its samples */
		{ "counts-each", in_turn || totals || trims >= 0.0f },
		{ "counts-workers", t & (TW_GATE_ACTIVE | TW_GATE_COLLECTS) },
	};

	return TW_FACTS_ADD(f, rows);
}

static bool add_rules(const struct tw_plan *p, struct tw_facts *f)
{
	const struct tw_rule *rule = tw_plan_update(p)->rule, *far = p->far.rule;
	const uint32_t t = rule->traits, not_in_turn = TW_RULE_OWN_VIEW | TW_RULE_PER_WORKER;
	const uint32_t policy = p->staleness->traits;
	const struct tw_fact rows[] = {
		/* the rule of update: */
		{ "per-worker", t & TW_RULE_PER_WORKER }, /* an array for each worker */
		{ "stamped", t & TW_RULE_STAMPED },       /* uses the rate of the answer */
		{ "plain-rule", t & TW_RULE_PLAIN },      /* w - rate * g and nothing else */
		{ "normalises", t & TW_RULE_NORMALISES }, /* divides by sizes it has seen */
		{ "predicts", t & TW_RULE_PREDICTS },     /* parameters for later stages */
		{ "steps-outside", t & TW_RULE_OUTSIDE }, /* whoever computes takes the steps */
		{ "stateless", !rule->arrays },
		{ "prepares", rule->prepare }, /* it has a worker's half */
		/* linear, shows what it keeps: may be applied in turn */
		{ "turnable", (t & TW_RULE_LINEAR) && !(t & not_in_turn) },
		{ "clips", p->clip > 0 },
		{ "decays", p->decay > 0 },
		{ "projects",
		  tw_projection_is_box(&p->projection) || tw_projection_is_ball(&p->projection) },
		{ "own-view", t & TW_RULE_OWN_VIEW }, /* workers see another vector */
		/* what is applied to the parameters: also an outer rule */
		{ "far-state", far->arrays },
		{ "one-by-one", far->traits & TW_RULE_ONE_BY_ONE }, /* one contribution at a time */
		{ "outer-totals", far->traits & TW_RULE_TOTAL },    /* takes the total of deltas */
		/* steps between fetches */
		{ "local", p->local.rule },
		{ "local-per-worker",
		  p->local.rule && (p->local.rule->traits & TW_RULE_PER_WORKER) },
		{ "local-outside", p->local.rule && (p->local.rule->traits & TW_RULE_OUTSIDE) },
		/* late gradients are corrected */
		{ "policy", p->staleness->correct },
		{ "scales", policy & TW_STALENESS_SCALES },       /* multiplies with one number */
		{ "statistic", policy & TW_STALENESS_STATISTIC }, /* has what skipping asks */
		/* compares with what a worker was sent */
		{ "sent", (policy & TW_STALENESS_SENT) && !(policy & TW_STALENESS_OBSERVES) },
	};

	return TW_FACTS_ADD(f, rows);
}

static bool add_traffic(const struct tw_plan *p, struct tw_facts *f)
{
	const struct tw_traffic *t = &p->traffic;
	const uint32_t up = t->up->traits, down = t->down->traits, act = t->act->traits;
	const bool elastic = t->merge == TW_MERGE_ELASTIC;
	const struct tw_fact rows[] = {
		/* send: */
		{ "gradient", !t->delta && !p->near.rule },
		{ "momentum", !t->delta && p->near.rule },
		{ "delta", t->delta },
		{ "accumulates", p->dealing.accumulate > 1 },
		{ "adaptive", t->adaptive }, /* periods by worker speed */
		{ "averages-state", t->average_state },
		{ "fragments", t->fragments > 1 }, /* parts of the vector in turn */
		{ "later", t->delay },             /* answers are merged some steps later */
		{ "pushes-late", t->push > 1 },
		{ "fetches-late", t->fetch > 1 },
		{ "overlaps", t->overlap }, /* a worker computes on while it fetches */
		{ "caches", t->cache },
		{ "skips", !isnan(t->skip_push) || !isnan(t->skip_fetch) },
		{ "skips-push", !isnan(t->skip_push) },
		/* merge: */
		{ "keeps", t->merge == TW_MERGE_KEEP },
		{ "elastic", elastic },
		{ "own-copy", elastic || t->merge == TW_MERGE_MIX },
		/* codec: */
		{ "up-lossy", !(up & TW_CODEC_IDENTITY) },
		{ "remembers", up & TW_CODEC_REMEMBERS },  /* sends later what it leaves out */
		{ "up-momentum", up & TW_CODEC_MOMENTUM }, /* has momentum of its own */
		{ "up-fades", up & TW_CODEC_FADES }, /* forgets a part of what it leaves out */
		{ "down-lossy", !(down & TW_CODEC_IDENTITY) },
		{ "not-down", !(down & TW_CODEC_DOWN) }, /* carries only gradients */
		{ "act-lossy", !(act & TW_CODEC_IDENTITY) },
		{ "act-not-down", !(act & TW_CODEC_DOWN) },
	};

	return TW_FACTS_ADD(f, rows);
}

/* Who holds what, and when the run is looked at. */
static bool add_places(const struct tw_plan *p, struct tw_facts *f)
{
	const struct tw_staging *s = &p->staging;
	const struct tw_fact rows[] = {
		{ "many", p->crew.workers > 1 },
		{ "peers", tw_plan_has_peers(p) }, /* every worker holds the parameters ... */
		{ "loose", tw_plan_is_loose(p) },  /* ... and they differ while they train */
		{ "mixes-in-rounds", tw_plan_is_loose(p) && p->topology.mixing->round },
		{ "spreads", tw_plan_spreads(p) }, /* contributions go to all others ... */
		/* ... or can, as they were encoded */
		{ "gathers", tw_plan_gathers(p) && p->topology.reduction->gather },
		{ "delayed", p->delay.steps }, /* sim.delay */
		{ "gap", p->gaps },            /* train.gap */
		{ "until-accuracy", !isnan(p->ends.accuracy) },
		{ "running-cut", !p->checkpoint.drain },
		{ "staged", s->schedule },
		{ "several-stages", s->schedule && s->stages > 1 },
		{ "with-stage", s->with_shards },
		{ "lanes", s->cells > s->stages }, /* a stage has more than one */
		{ "flushes", s->schedule && (s->schedule->traits & TW_PIPELINE_FLUSHES) },
		/* a micro-batch sees one version at all stages; and there is an option for that */
		{ "vertical", s->schedule && tw_pipeline_is_vertical(s->schedule, s->options) },
		{ "may-be-flat", s->schedule && s->schedule->options },
	};

	return TW_FACTS_ADD(f, rows);
}

bool tw_plan_add_facts(const struct tw_plan *p, struct tw_facts *f)
{
	return add_gate(p, f) && add_rules(p, f) && add_traffic(p, f) && add_places(p, f);
}
