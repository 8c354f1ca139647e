/* SPDX-License-Identifier: Apache-2.0 */
/* job_facts.c - what is true of a job beside its plan, as far as refusals ask for it. */
#include "spec/refuse.h"

#include "graph/loss.h"
#include "node/refusals.h"
#include "spec/field.h"
#include "strategy/outer.h"

#include <math.h>
#include <string.h>

enum tw_status tw_job_find_facts(struct tw_job *job, struct tw_error *why)
{
	const struct tw_sim_options *s = &job->sim;
	const uint32_t collects = tw_job_collects(job);
	const bool leaves_out =
		(job->plan.gate->traits & TW_GATE_ROUNDS) && collects < job->cluster.workers;
	const bool external = job->model == TW_MODEL_EXTERNAL;
	const struct tw_fact rows[] = {
		{ "in-sim", job->world == TW_WORLD_SIM },
		{ "in-processes", tw_world_has_processes(job->world) }, /* share no memory */
		{ "network", job->model == TW_MODEL_NETWORK },
		{ "weights-file", job->model == TW_MODEL_NETWORK && *job->network.weights },
		{ "external", external },
		{ "auto-rate", isnan(job->update.schedule.rate) },
		{ "layer-rates", strspn(job->update.layers, "[], ") < strlen(job->update.layers) },
		{ "partial-weights", job->model == TW_MODEL_NETWORK && job->network.partial },
		{ "outside-model", external }, /* a program that links the library computes it */
		{ "uncuttable", external || job->model == TW_MODEL_FUNCTION },
		/* the model has an accuracy */
		{ "scored", external || (job->loss.op && tw_loss_of(job->loss.op)->judges) },
		{ "data-set", job->data.from },
		{ "divides", job->data.deal != TW_DEAL_SHUFFLED },
		{ "drawn-subsets", job->data.deal == TW_DEAL_PARTITION },
		{ "by-blocks", job->data.shuffle_block },
		{ "owns", job->data.placement == TW_PLACEMENT_OWN }, /* callers have samples */
		{ "online", job->train.mode == TW_TRAIN_ONLINE },
		{ "endless", job->data.from && job->data.from->endless },
		{ "prefetching", job->data.set.prefetch },
		{ "evaluates", job->train.evaluate > 0 },
		{ "many-epochs", job->train.epochs != 1 },
		{ "on-demand", job->data.placement == TW_PLACEMENT_ON_DEMAND }, /* they are sent */
		{ "prefetches", job->data.set.prefetch },
		{ "counts-updates", job->train.updates },
		{ "keeps-best", job->train.keep == TW_KEEP_BEST },
		{ "by-accuracy", job->train.measure == TW_BY_ACCURACY },
		{ "patience", job->train.patience },
		{ "each-step", job->strategy.push == 1 },
		{ "outer", tw_outer_find(job->strategy.outer) }, /* an outer rule is chosen */
		{ "leaves-out", leaves_out },                    /* a round may end without some */
		{ "collects", !leaves_out && collects > 1 },     /* an update takes several */
		/* sim.compute.law */
		{ "log-normal", s->law == TW_LAW_LOG_NORMAL },
		{ "uniform", s->law == TW_LAW_UNIFORM },
		{ "shaped", s->law == TW_LAW_GAMMA || s->law == TW_LAW_PARETO },
		{ "stragglers", s->stragglers },
		{ "straggles-on", s->stragglers && s->straggle_on },
		{ "straggles-off", s->stragglers && s->straggle_off },
		{ "delay-steps", job->delay.steps },
	};

	if (tw_plan_add_facts(&job->plan, &job->facts) && TW_FACTS_ADD(&job->facts, rows))
		return TW_OK;
	return tw_fail(why, TW_NO_MEMORY, "%s: no memory for its facts", job->file);
}
