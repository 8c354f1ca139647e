/* SPDX-License-Identifier: Apache-2.0 */
/* stages.c - from `cluster.stages`, `model.stages` and `strategy.pipeline` to the stages of a plan.
 *
 *  (1) a shard belongs to one stage: the borders of stages are borders of shards, among trainable
 *      parameters as among buffers. */
#include "spec/stages.h"

#include "spec/field.h"
#include "spec/suggest.h"

#include <math.h>
#include <string.h>

static bool is_auto(const struct tw_job *job)
{
	return job->model != TW_MODEL_NETWORK || strcmp(job->network.stages, "auto") == 0;
}

/* Layers in the list of model.stages. */
static uint32_t listed(const struct tw_job *job)
{
	const char *at = job->network.stages;
	uint32_t count = 0;

	for (at += strspn(at, "[], "); *at; at += strspn(at, "[], ")) {
		count++;
		at += strcspn(at, "[], ");
	}
	return count;
}

/* --- settled ------------------------------------------------------------------------------ */

static enum tw_status settle_count(struct tw_job *job, struct tw_error *why)
{
	const uint32_t from_list = is_auto(job) ? 0 : listed(job) + 1;
	const uint32_t from_lanes = (uint32_t)job->cluster.lanes.count;
	uint32_t *stages = &job->cluster.stages;

	if (!*stages)
		*stages = from_list ? from_list : from_lanes ? from_lanes : 2;
	if (from_list && *stages != from_list)
		return tw_job_refuse(job, why, "model.stages",
				     "lists %u layers to cut after, which makes %u stages, and "
				     "cluster.stages is %u; leave cluster.stages out, or list %u",
				     from_list - 1, from_list, *stages, *stages - 1);
	if (!tw_job_given(job, "cluster.workers"))
		job->cluster.workers = 1;
	return TW_OK;
}

/* As many nodes as the lanes of all stages. */
static enum tw_status settle_lanes(struct tw_job *job, struct tw_error *why)
{
	const struct tw_f64s *given = &job->cluster.lanes;
	struct tw_staging *s = &job->plan.staging;
	uint32_t *lanes;

	s->cells = s->stages;
	if (!given->count)
		return TW_OK;
	if (given->count != s->stages)
		return tw_job_refuse(job, why, "cluster.lanes",
				     "has %zu numbers for %u stages; give one for each stage, or "
				     "leave it out",
				     given->count, s->stages);
	lanes = tw_arena_get(&job->arena, s->stages * sizeof *lanes);
	if (!lanes)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for its stages", job->file);
	s->cells = 0;
	for (uint32_t k = 0; k < s->stages; k++) {
		lanes[k] = (uint32_t)given->at[k];
		if (given->at[k] != (double)lanes[k])
			return tw_job_refuse(job, why, "cluster.lanes",
					     "%g is no number of nodes; use whole numbers, such as "
					     "[15, 1]",
					     given->at[k]);
		s->cells += lanes[k];
	}
	s->lanes = lanes;
	return TW_OK;
}

static void silence(struct tw_job *job, const char *path)
{
	struct tw_field *f = tw_job_field(job, path);

	if (f)
		f->silent = true;
}

enum tw_status tw_job_settle_stages(struct tw_job *job, struct tw_error *why)
{
	struct tw_staging *s = &job->plan.staging;
	char text[300];

	if (s->schedule) {
		const enum tw_status st = settle_count(job, why);

		s->stages = job->cluster.stages;
		s->with_shards = job->cluster.place == TW_PLACE_WITH_STAGE;
		if (!job->cluster.lanes.count)
			silence(job, "cluster.lanes");
		return st == TW_OK ? settle_lanes(job, why) : st;
	}
	if (job->cluster.place == TW_PLACE_WITH_STAGE)
		return tw_job_refuse(
			job, why, "cluster.place",
			"only stages have nodes of their own; use %s, or place: servers",
			tw_suggest(job, "strategy: {pipeline: [pipeline]}", text, sizeof text));
	if (job->cluster.stages > 1 || job->cluster.lanes.count ||
	    (job->model == TW_MODEL_NETWORK && !is_auto(job)))
		return tw_job_refuse(
			job, why,
			job->cluster.stages > 1    ? "cluster.stages"
			: job->cluster.lanes.count ? "cluster.lanes"
						   : "model.stages",
			"stages need an order in which they compute; use %s, or leave "
			"this out",
			tw_suggest(job, "strategy: {pipeline: [pipeline]}", text, sizeof text));
	s->stages = s->cells = job->cluster.stages = 1;
	silence(job, "cluster.stages");
	silence(job, "cluster.lanes");
	silence(job, "cluster.place");
	silence(job, "model.stages");
	silence(job, "strategy.codec.act");
	silence(job, "strategy.pipeline.schedule");
	return TW_OK;
}

/* --- checked ------------------------------------------------------------------------------ */

/* What a worker that is one computation can do, and one that is several cells cannot. */
static const char *unfit(const struct tw_job *job, const char **field)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_traffic *t = &p->traffic;
	const struct {
		bool is;
		const char *field, *sentence;
	} list[] = {
		{ p->optimising.method, "optimiser.name",
		  "workers of an optimiser compute whole portions; leave optimiser: out, or "
		  "strategy.pipeline" },
		{ p->clip > 0, "update.clip",
		  "the norm of a whole gradient is known to no stage; use clip: 0, or leave "
		  "strategy.pipeline out" },
		{ tw_plan_has_peers(p), "strategy.topology.kind",
		  "the stages of a worker hold different parameters, and replicas of all of them "
		  "would not; use topology: server" },
		{ t->delta || p->near.rule, "strategy.send",
		  "a stage sends the gradient of its parameters; use send: gradient" },
		{ p->local.rule, "strategy.local.rule",
		  "a stage takes no steps of its own; leave local: out" },
		{ t->cache, "strategy.cache",
		  "a stage fetches after every update; use cache: false" },
		{ t->overlap, "strategy.overlap",
		  "the schedule decides on which version a stage computes; use overlap: false" },
		{ t->push > 1, "strategy.push",
		  "a stage pushes once per group of micro-batches; use push: 1 (data.accumulate "
		  "makes groups larger)" },
		{ t->fetch > 1, "strategy.fetch",
		  "the schedule decides when a stage fetches; use fetch: 1" },
		{ !isnan(t->skip_push) || !isnan(t->skip_fetch), "strategy.skip",
		  "the schedule decides when a stage pushes; leave skip: out" },
		{ p->delay.steps, "sim.delay.steps",
		  "the schedule decides on which version a stage computes; leave sim.delay out" },
	};

	for (size_t k = 0; k < sizeof list / sizeof list[0]; k++)
		if (list[k].is) {
			*field = list[k].field;
			return list[k].sentence;
		}
	return NULL;
}

static enum tw_status check_act(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_codec *act = job->plan.traffic.act;
	const char *sentence = NULL;
	char text[480];

	if (act->traits & TW_CODEC_IDENTITY)
		return TW_OK;
	if (!tw_plan_is_staged(&job->plan) || job->plan.staging.stages < 2)
		sentence =
			"no activations travel where a worker computes the whole model; use "
			"codec: {act: [exact codec]}, or strategy: {pipeline: [pipeline]} with two "
			"stages or more";
	else if (!(act->traits & TW_CODEC_DOWN))
		sentence = "encodes gradients of parameters, which it may send in part; use codec: "
			   "{act: [downward codec]}";
	return sentence ? tw_job_refuse(job, why, "strategy.codec.act", "%s",
					tw_suggest(job, sentence, text, sizeof text))
			: TW_OK;
}

static enum tw_status check_gate(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_staging *s = &p->staging;
	const bool flushes = s->schedule->traits & TW_PIPELINE_FLUSHES;
	const bool rounds = p->gate->traits & TW_GATE_ROUNDS;
	const bool drops = tw_gate_drops(p->gate, p->gate_options);
	const char *sentence = NULL;
	char text[480];

	if (rounds && !flushes)
		sentence = "a round ends when every stage has pushed, and the stages of this "
			   "schedule are never at the same update; use gate: [at-once gate], or "
			   "pipeline: [flushing pipeline]";
	else if (p->gate->abandons && p->gate->abandons(p->gate_options))
		sentence =
			"a worker that gives up a round when it closes would leave micro-batches "
			"between its stages; use abandon: false";
	else if (drops)
		sentence = "a gate that drops what is late would drop it at one stage and apply it "
			   "at another, because stages are not equally late; use gate: [at-once "
			   "gate] or [whole-round gate]";
	else if (p->gate->traits & TW_GATE_LOCKFREE)
		sentence = "[gate] has no versions of the parameters, and the backward of a "
			   "micro-batch needs the one that its forward read; use gate: [at-once "
			   "gate]";
	return sentence ? tw_job_refuse(job, why, "strategy.gate", "%s",
					tw_suggest(job, sentence, text, sizeof text))
			: TW_OK;
}

static enum tw_status check_schedule(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_staging *s = &p->staging;
	const uint32_t least = tw_pipeline_least(s->schedule, s->options, s->stages);
	struct tw_error said = { 0 };
	char text[480];

	if (s->schedule->check && s->schedule->check(s->options, &said) != TW_OK) {
		const char *colon = strstr(said.text, ": ");

		snprintf(text, sizeof text, "strategy.pipeline.%.*s", (int)(colon - said.text),
			 said.text);
		return tw_job_refuse(job, why, text, "%s", colon + 2);
	}
	if (p->dealing.accumulate < least)
		return tw_job_refuse(job, why, "data.accumulate",
				     "%u micro-batches per update are too few for this schedule "
				     "with %u stages, whose versions would not be ready; use at "
				     "least %u",
				     p->dealing.accumulate, s->stages, least);
	if (p->crew.workers > 1 && !(p->gate->traits & TW_GATE_ROUNDS) &&
	    tw_pipeline_is_vertical(s->schedule, s->options))
		return tw_job_refuse(
			job, why, "cluster.workers",
			"with several asynchronous workers the stages of one would not see the "
			"same updates of the others, so no version is the same everywhere; use "
			"workers: 1%s",
			s->schedule->options ? ", or vertical: false" : "");
	return TW_OK;
}

/* Rounds: does a contribution count for more, or for something else, than its samples? */
static bool counts_each(const struct tw_plan *p)
{
	const struct tw_gate *g = p->gate;

	return (g->in_turn && g->in_turn(p->gate_options)) ||
	       (g->totals && g->totals(p->gate_options)) ||
	       (g->trims && g->trims(p->gate_options) >= 0);
}

/* Lanes push one after the other to the shards of their stage. */
static enum tw_status check_lanes(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_staging *s = &p->staging;
	const bool flushes = s->schedule->traits & TW_PIPELINE_FLUSHES;
	const bool rounds = p->gate->traits & TW_GATE_ROUNDS;
	const char *sentence = NULL, *field = "strategy.gate";
	uint32_t most = 1, least = UINT32_MAX; /* of stages that have more than one */
	char text[480];

	for (uint32_t k = 0; s->lanes && k < s->stages; k++) {
		most = s->lanes[k] > most ? s->lanes[k] : most;
		least = s->lanes[k] > 1 && s->lanes[k] < least ? s->lanes[k] : least;
	}
	if (most == 1)
		return TW_OK;
	if (flushes && p->dealing.accumulate < most)
		return tw_job_refuse(
			job, why, "data.accumulate",
			"%u micro-batches per update are too few for %u lanes, some of "
			"which would have none; use at least %u",
			p->dealing.accumulate, most, most);
	if (p->dealing.accumulate > TW_RANGES * (flushes ? least : 1))
		return tw_job_refuse(
			job, why, "data.accumulate",
			"%u micro-batches per update are too many for %u lanes, because "
			"a contribution of a lane has at most %u; use at most %u",
			p->dealing.accumulate, flushes ? least : most, TW_RANGES,
			TW_RANGES * (flushes ? least : 1));
	if (tw_pipeline_is_vertical(s->schedule, s->options)) {
		field = "cluster.lanes";
		sentence = s->schedule->options
				   ? "the lanes of a stage see each other's updates, so no version "
				     "is the same at every stage; use vertical: false, or leave "
				     "lanes out"
				   : "the lanes of a stage see each other's updates, so no version "
				     "is the same at every stage; use another pipeline, or leave "
				     "lanes out";
	} else if (flushes && !rounds) {
		sentence = "the lanes of a stage share an update of this schedule, which needs a "
			   "round; use gate: [whole-round gate], or leave lanes out";
	} else if (rounds && counts_each(p)) {
		sentence =
			"treats every contribution of a round on its own, and the lanes of a stage "
			"share one; use apply: sum and sum: mean, or leave lanes out";
	} else if (!rounds && (p->gate->traits & (TW_GATE_ACTIVE | TW_GATE_COLLECTS))) {
		sentence = "counts the contributions of workers, and here every lane makes some; "
			   "use gate: [at-once gate], or leave lanes out";
	} else if (p->far.rule->traits & TW_RULE_PER_WORKER) {
		field = "update.rule";
		sentence = "keeps something for every worker, and here every lane is one; use "
			   "another rule, or leave lanes out";
	}
	return sentence ? tw_job_refuse(job, why, field, "%s",
					tw_suggest(job, sentence, text, sizeof text))
			: TW_OK;
}

/* A lost node takes its parameters along, so the last checkpoint must be one that all stages can go
 * back to; and there is one node for the parameters of a stage. */
static enum tw_status check_place(const struct tw_job *job, struct tw_error *why)
{
	if (!tw_plan_is_with_stage(&job->plan))
		return TW_OK;
	if (job->cluster.workers > 1)
		return tw_job_refuse(job, why, "cluster.workers",
				     "with place: with-stage the parameters of a stage are on one "
				     "node, and those of %u workers would be on several; use "
				     "workers: 1, or place: servers",
				     job->cluster.workers);
	if (job->checkpoint.cut != TW_CUT_DRAIN)
		return tw_job_refuse(job, why, "checkpoint.cut",
				     "with place: with-stage all stages go back to the last "
				     "checkpoint when one is lost, so it must be of one moment; "
				     "use cut: drain");
	return TW_OK;
}

enum tw_status tw_job_check_stages(const struct tw_job *job, struct tw_error *why)
{
	const char *field = NULL, *sentence;
	enum tw_status st;
	char text[480];

	st = check_act(job, why);
	if (st != TW_OK)
		return st;
	if (!tw_plan_is_staged(&job->plan)) {
		if (!(tw_plan_update(&job->plan)->rule->traits & TW_RULE_PREDICTS))
			return TW_OK;
		return tw_job_refuse(job, why, "update.rule", "%s",
				     tw_suggest(job,
						"this rule predicts parameters for the stages of "
						"a pipeline, and this job has none; use "
						"strategy: {pipeline: [pipeline]}, or another rule",
						text, sizeof text));
	}
	if (job->model == TW_MODEL_EXTERNAL || job->model == TW_MODEL_FUNCTION)
		return tw_job_refuse(job, why, "strategy.pipeline.schedule",
				     "this model cannot be cut into stages; use a network, a "
				     "quadratic or least squares, or leave strategy.pipeline out");
	sentence = unfit(job, &field);
	if (sentence)
		return tw_job_refuse(job, why, field, "%s",
				     tw_suggest(job, sentence, text, sizeof text));
	st = check_place(job, why);
	if (st == TW_OK)
		st = check_gate(job, why);
	if (st == TW_OK)
		st = check_schedule(job, why);
	return st == TW_OK ? check_lanes(job, why) : st;
}
