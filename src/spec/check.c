/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the numbers of a job that must fit each other. */
#include "node/refusals.h"
#include "spec/field.h"
#include "spec/oversubscription.h"
#include "spec/refuse.h"
#include "strategy/refusals.h"

#include <math.h>
#include <string.h>

#define CONTRIBUTION_MOST (1u << 26) /* samples; counts of them fit 32 bits with room to add */

/* A variant's own check names its field first ("collect: ..."); here it gets place and path. */
static enum tw_status refuse_said(const struct tw_job *job, const char *section,
				  const struct tw_error *said, struct tw_error *why)
{
	const char *colon = strstr(said->text, ": ");
	char path[80];

	if (!colon || colon - said->text > 60)
		return tw_job_refuse(job, why, section, "%s", said->text);
	snprintf(path, sizeof path, "%s.%.*s", section, (int)(colon - said->text), said->text);
	return tw_job_refuse(job, why, path, "%s", colon + 2);
}

static enum tw_status check_gate(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	struct tw_error said = { 0 };

	if (!p->gate->check || p->gate->check(p->gate_options, p->crew.workers, &said) == TW_OK)
		return TW_OK;
	return refuse_said(job, "strategy", &said, why);
}

/* A lost node takes its parameters along, and there is one node for the parameters of a stage. */
static enum tw_status check_place(const struct tw_job *job, struct tw_error *why)
{
	if (!tw_plan_is_with_stage(&job->plan) || job->cluster.workers == 1)
		return TW_OK;
	return tw_job_refuse(job, why, "cluster.workers",
			     "with place: with-stage the parameters of a stage are on one node, "
			     "and those of %u workers would be on several; use workers: 1, or "
			     "place: servers",
			     job->cluster.workers);
}

static enum tw_status check_schedule(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_staging *s = &p->staging;
	struct tw_error said = { 0 };
	uint32_t least;

	if (!tw_plan_is_staged(p))
		return TW_OK;
	if (s->schedule->check && s->schedule->check(s->options, &said) != TW_OK)
		return refuse_said(job, "strategy.pipeline", &said, why);
	least = tw_pipeline_least(s->schedule, s->options, s->stages);
	if (p->dealing.accumulate < least)
		return tw_job_refuse(job, why, "data.accumulate",
				     "%u micro-batches per update are too few for this schedule "
				     "with %u stages, whose versions would not be ready; use at "
				     "least %u",
				     p->dealing.accumulate, s->stages, least);
	return TW_OK;
}

static enum tw_status check_lanes(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_staging *s = &p->staging;
	const bool flushes = s->schedule && (s->schedule->traits & TW_PIPELINE_FLUSHES);
	uint32_t most = 1, least = UINT32_MAX; /* of stages that have more than one */

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
	return TW_OK;
}

/* Periods of a worker that takes its own steps. */
static enum tw_status check_delta(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_strategy *s = &job->strategy;
	const bool rounds = job->plan.gate->traits & TW_GATE_ROUNDS;
	const enum tw_status st = tw_job_refuse_rows(job, tw_idle_delta, true, why);

	if (st != TW_OK || s->send != TW_SEND_DELTA)
		return st;
	if (tw_job_given(job, "strategy.push_after") && s->push_after != 0.0 && s->push == 1)
		return tw_job_refuse(job, why, "strategy.push_after",
				     "changes nothing with push: 1; use a longer push:, or leave "
				     "this out");
	if (rounds && s->fetch != s->push)
		return tw_job_refuse(
			job, why, "strategy.fetch",
			"after a round every worker has the new parameters; use fetch: "
			"%u, as push:, or leave it out",
			s->push);
	if (s->fetch % s->push)
		return tw_job_refuse(job, why, "strategy.fetch",
				     "%u steps are not a multiple of push: %u, and new parameters "
				     "come with a push; use %u, %u, ...",
				     s->fetch, s->push, s->push, 2 * s->push);
	if (s->merge == TW_MERGE_ELASTIC && s->fetch != s->push)
		return tw_job_refuse(job, why, "strategy.fetch",
				     "merge: elastic pushes what it finds at a fetch; use fetch: "
				     "%u, as push:, or leave it out",
				     s->push);
	return TW_OK;
}

/* Parts of the parameters in turn, and answers that are merged later. */
static enum tw_status check_stream(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_strategy *s = &job->strategy;

	if (s->push % s->fragments)
		return tw_job_refuse(
			job, why, "strategy.push",
			"%u steps cannot be divided by fragments: %u, and one part is "
			"pushed every push / fragments steps; use a multiple of %u, or "
			"other fragments",
			s->push, s->fragments, s->fragments);
	if (s->delay >= s->push / s->fragments && s->delay)
		return tw_job_refuse(
			job, why, "strategy.delay",
			"%u steps are not less than push / fragments = %u, after "
			"which the next part is pushed; use 0 to %u, or a longer push:",
			s->delay, s->push / s->fragments, s->push / s->fragments - 1);
	if (tw_plan_streams(&job->plan) && tw_job_given(job, "strategy.push_after") &&
	    s->push_after != 0.0)
		return tw_job_refuse(job, why, "strategy.push_after",
				     "cannot be combined with fragments: or delay:, which need the "
				     "same period from the start; leave one of them out");
	if (job->cluster.shards && job->cluster.shards < s->fragments)
		return tw_job_refuse(job, why, "cluster.shards",
				     "%u shards are fewer than the %u fragments of "
				     "strategy.fragments, and each has at least one; use %u or "
				     "more, or leave it out",
				     job->cluster.shards, s->fragments, s->fragments);
	return TW_OK;
}

static enum tw_status check_sim(const struct tw_job *job, struct tw_error *why)
{
	struct tw_error said = { 0 };
	enum tw_status st;

	if (job->world != TW_WORLD_SIM)
		return TW_OK;
	if (tw_sim_check(&job->sim, &said) != TW_OK)
		return refuse_said(job, "sim", &said, why);
	if (job->sim.by_label.count && job->model != TW_MODEL_NETWORK)
		return tw_job_refuse(job, why, "sim.compute.by_label",
				     "needs a data set with labels; use by_sample, or leave this "
				     "out");
	if (job->sim.by_sample.count && job->model == TW_MODEL_EXTERNAL)
		return tw_job_refuse(job, why, "sim.compute.by_sample",
				     "a program's own model does not say which sample is where; "
				     "leave this out");
	if (job->sim.speeds.count > job->cluster.workers)
		return tw_job_refuse(job, why, "sim.speeds",
				     "has %zu speeds for %u workers; use at most one speed per "
				     "worker, or more workers",
				     job->sim.speeds.count, job->cluster.workers);
	if (job->sim.stragglers > job->cluster.workers)
		return tw_job_refuse(job, why, "sim.stragglers.count",
				     "%u is more than cluster.workers, which is %u; use 0 to %u",
				     job->sim.stragglers, job->cluster.workers,
				     job->cluster.workers);
	st = tw_job_refuse_rows(job, tw_idle_sim, true, why);
	if (st == TW_OK && job->sim.stragglers && !tw_job_given(job, "sim.stragglers.slower"))
		st = tw_job_refuse(job, why, "sim.stragglers.slower",
				   "must be given with stragglers.count, such as slower: 8");
	return st;
}

static enum tw_status check_window(const struct tw_job *job, struct tw_error *why)
{
	return tw_job_refuse_rows(job, tw_idle_online, true, why);
}

static enum tw_status check_train(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_train *t = &job->train;
	const bool until = !isnan(t->until_loss) || !isnan(t->until_accuracy);
	const double step = 1.0 / (double)job->data.samples;

	if (tw_job_given(job, "train.on_divergence.rate") &&
	    !tw_job_given(job, "train.on_divergence.restarts"))
		return tw_job_refuse(
			job, why, "train.on_divergence.rate",
			"has no effect without on_divergence.restarts; give restarts:, "
			"or leave this out");
	if (!(t->restart_rate > 0.0 && t->restart_rate < 1.0))
		return tw_job_refuse(job, why, "train.on_divergence.rate",
				     "each restart needs a lower rate: use a number above 0 and "
				     "below 1, such as 0.5");
	if (until && t->evaluate == 0)
		return tw_job_refuse(job, why, "train.evaluate",
				     "train.until is checked at every evaluation, and 0 evaluates "
				     "only at the end; use evaluate: 1, or leave until: out");
	if (t->keep == TW_KEEP_BEST && t->evaluate == 0)
		return tw_job_refuse(job, why, "train.evaluate",
				     "train.keep: best chooses among evaluations, and 0 evaluates "
				     "only at the end; use evaluate: 1, or keep: last");
	if (t->evaluate > 0 && t->evaluate * (double)job->data.samples < 1.0)
		return tw_job_refuse(job, why, "train.evaluate",
				     "%g epochs is less than one sample (an epoch has %llu); use "
				     "at least %g, or 0",
				     t->evaluate, (unsigned long long)job->data.samples, step);
	return TW_OK;
}

static enum tw_status check_cluster(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_cluster *c = &job->cluster;

	if (job->world == TW_WORLD_THREADS && c->workers > TW_CROWD_THREADS)
		return tw_job_refuse(job, why, "cluster.workers",
				     "one process cannot run %u workers as threads; use 1 to %u, "
				     "or `thalweg sim`, which takes up to %u workers",
				     c->workers, TW_CROWD_THREADS, TW_CROWD_SIM);
	if (c->min > c->workers)
		return tw_job_refuse(job, why, "cluster.min",
				     "%u is more than cluster.workers, which is %u; use 1 to %u",
				     c->min, c->workers, c->workers);
	if (c->shards && c->servers > c->shards)
		return tw_job_refuse(job, why, "cluster.servers",
				     "%u servers for %u shards would leave some servers without a "
				     "shard; use at most %u, or more shards",
				     c->servers, c->shards, c->shards);
	return TW_OK;
}

static void said_time(char out[32], int64_t ns)
{
	static const struct tw_option row = { .name = "", .type = TW_TIME };

	tw_option_text(&row, &ns, out, 32);
}

/* What adds up is a library that only ranks have, and it takes floats of all of them. */
static enum tw_status check_library(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_reduction *r = job->plan.topology.reduction;

	if (!r || !(r->traits & TW_REDUCTION_LIBRARY))
		return TW_OK;
	if (job->world != TW_WORLD_MPI)
		return tw_job_refuse(
			job, why, "strategy.topology.schedule",
			"%s: MPI_Iallreduce adds up, and only MPI ranks have it; start "
			"the job with mpirun or srun --mpi=pmix, or use another schedule",
			r->name);
	if (!(job->plan.traffic.up->traits & TW_CODEC_IDENTITY))
		return tw_job_refuse(job, why, "strategy.topology.schedule",
				     "%s: MPI adds up floats, and codec.up writes something else; "
				     "use another schedule, or leave codec.up out",
				     r->name);
	if (job->ranks && job->cluster.workers != job->ranks)
		return tw_job_refuse(job, why, "strategy.topology.schedule",
				     "%s: every rank takes part with one worker, and there are %u "
				     "ranks and %u workers; leave out cluster.workers, or use "
				     "another schedule",
				     r->name, job->ranks, job->cluster.workers);
	return TW_OK;
}

/* What only processes do: say that they are alive, and run engines that came as text. */
static enum tw_status check_processes(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_cluster *c = &job->cluster;
	char heartbeat[32], suspect[32], limit[32];

	if (!tw_world_has_processes(job->world))
		return TW_OK;
	said_time(heartbeat, c->heartbeat);
	said_time(suspect, c->suspect);
	said_time(limit, c->limit);
	if (c->suspect >= c->limit)
		return tw_job_refuse(job, why, "cluster.suspect",
				     "%s is not below cluster.limit (%s), after which a silent "
				     "peer is removed; use less, or a longer cluster.limit",
				     suspect, limit);
	if (c->heartbeat >= c->suspect)
		return tw_job_refuse(
			job, why, "cluster.heartbeat",
			"%s between heartbeats is not below cluster.suspect (%s), after which a "
			"silent peer is suspect; use less, or a longer cluster.suspect",
			heartbeat, suspect);
	if (job->model == TW_MODEL_EXTERNAL && !*job->engine.external.file &&
	    job->world != TW_WORLD_MPI) /* there every rank is such a program */
		return tw_job_refuse(job, why, "model.external.parameters",
				     "is a model inside a program that links libthalweg, and other "
				     "processes do not have it; use a network");
	return TW_OK;
}

static enum tw_status check_samples(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_data *d = &job->data;
	const uint32_t n = job->cluster.workers;
	const char *field = d->global_batch ? "data.global_batch" : "data.batch";
	const uint64_t batch = d->global_batch ? ((uint64_t)d->global_batch + n - 1) / n : d->batch;
	const char *divided = d->deal != TW_DEAL_SHUFFLED ? "data.deal" : "data.placement";
	const double all = (double)batch * d->accumulate * job->strategy.push;

	if (tw_job_divides(job) && n > d->samples)
		return tw_job_refuse(job, why, divided,
				     "%llu samples are too few for a subset for each of %u "
				     "workers; use fewer workers, or leave this out",
				     (unsigned long long)d->samples, n);
	if (tw_job_divides(job) && all > (double)(d->samples / n))
		return tw_job_refuse(job, why, divided,
				     "push * accumulate * batch = %.0f samples are more than the "
				     "%llu of one worker's subset; use less, fewer workers, or "
				     "leave this out",
				     all, (unsigned long long)(d->samples / n));
	if (d->shuffle_block > d->samples / (tw_job_divides(job) ? n : 1))
		return tw_job_refuse(
			job, why, "data.shuffle.block",
			"a block of %llu samples is larger than %s, which has %llu; "
			"use less, or 0 to permute all samples together",
			(unsigned long long)d->shuffle_block,
			tw_job_divides(job) ? "one worker's subset" : "an epoch",
			(unsigned long long)(d->samples / (tw_job_divides(job) ? n : 1)));
	if (batch > d->samples)
		return tw_job_refuse(job, why, field,
				     "a batch of %llu samples per worker is larger than an epoch, "
				     "which has %llu; use less, or more data.samples",
				     (unsigned long long)batch, (unsigned long long)d->samples);
	if (all > (double)CONTRIBUTION_MOST)
		return tw_job_refuse(job, why,
				     job->strategy.push > 1 ? "strategy.push"
				     : d->accumulate > 1    ? "data.accumulate"
							    : field,
				     "push * accumulate * batch = %.0f samples, but one "
				     "contribution holds at most %u; use at most %u in all",
				     all, CONTRIBUTION_MOST, CONTRIBUTION_MOST);
	if (job->plan.traffic.delta && all > (double)job->plan.dealing.positions)
		return tw_job_refuse(job, why, "strategy.push",
				     "push * accumulate * batch = %.0f samples are more than the "
				     "%llu of the whole run; use less, or more train.epochs",
				     all, (unsigned long long)job->plan.dealing.positions);
	if (!job->plan.traffic.delta && all > (double)d->samples)
		return tw_job_refuse(job, why,
				     job->strategy.push > 1 ? "strategy.push" : "data.accumulate",
				     "push * accumulate * batch = %.0f samples, but an epoch has "
				     "only %llu; use less, or more data.samples",
				     all, (unsigned long long)d->samples);
	return TW_OK;
}

static enum tw_status check_model(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_quadratic_options *q = &job->engine.quadratic;
	const struct tw_least_squares_options *l = &job->engine.least_squares;

	if (job->data.from && !job->data.from->splits && tw_job_given(job, "data.test"))
		return tw_job_refuse(job, why, "data.test",
				     "%s has a test set of its own; leave this out",
				     job->data.from->name);
	if (job->model == TW_MODEL_NETWORK || job->model == TW_MODEL_EXTERNAL ||
	    job->model == TW_MODEL_FUNCTION)
		return TW_OK;
	if (job->model == TW_MODEL_LEAST_SQUARES) {
		if (l->blocks > l->dimension)
			return tw_job_refuse(job, why, "model.least-squares.blocks",
					     "more blocks than dimensions; use 0 to %llu",
					     (unsigned long long)l->dimension);
		if (l->stages > l->dimension)
			return tw_job_refuse(job, why, "model.least-squares.stages",
					     "more stages than dimensions; use 1 to %llu",
					     (unsigned long long)l->dimension);
		return TW_OK;
	}
	if (q->curvature.count < 1 || q->curvature.count > 2)
		return tw_job_refuse(
			job, why, "model.quadratic.curvature",
			"needs one number or two, lowest and highest, such as [0.1, 1]");
	if (q->curvature.count == 2 && q->curvature.at[0] > q->curvature.at[1])
		return tw_job_refuse(job, why, "model.quadratic.curvature",
				     "needs the lower number first, such as [0.1, 1]");
	if (q->tensors > q->dimension)
		return tw_job_refuse(job, why, "model.quadratic.tensors",
				     "more tensors than dimensions; use 0 to %llu",
				     (unsigned long long)q->dimension);
	if (q->stages > q->dimension)
		return tw_job_refuse(job, why, "model.quadratic.stages",
				     "more stages than dimensions; use 1 to %llu",
				     (unsigned long long)q->dimension);
	if (q->per_stage.count && q->per_stage.count != q->stages)
		return tw_job_refuse(job, why, "model.quadratic.per_stage",
				     "has %zu numbers for %llu stages; give one for each stage",
				     q->per_stage.count, (unsigned long long)q->stages);
	return TW_OK;
}

static enum tw_status check_projection(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_update *u = &job->update;

	if (u->box.count && u->box.count != 2)
		return tw_job_refuse(job, why, "update.project.box",
				     "needs two numbers, lowest and highest, such as [-1, 1]");
	if (u->box.count && !(u->box.at[0] < u->box.at[1]))
		return tw_job_refuse(job, why, "update.project.box",
				     "needs the lower number first, such as [-1, 1]");
	if (isnan(u->ball))
		return TW_OK;
	if (u->ball == 0)
		return tw_job_refuse(job, why, "update.project.ball",
				     "a ball of norm 0 has one point, so nothing could be learnt; "
				     "use a number above 0, or leave this out");
	if (u->box.count)
		return tw_job_refuse(job, why, "update.project.ball",
				     "the nearest point of a ball and a box together is not found "
				     "by one after the other; leave update.project.box or this "
				     "out");
	if (job->plan.staging.stages > 1 || job->cluster.shards > 1 || job->cluster.servers > 1)
		return tw_job_refuse(
			job, why, "update.project.ball",
			"the norm is that of all parameters, and %s hold parts of them; use "
			"shards: 1 with one server and one stage, or update.project.box, which "
			"is found element by element",
			job->plan.staging.stages > 1 ? "stages"
			: job->cluster.shards > 1    ? "several shards"
						     : "several servers");
	return TW_OK;
}

enum tw_status tw_job_check_lengths(const struct tw_job *job, struct tw_error *why)
{
	const enum tw_status st = check_samples(job, why);

	return st == TW_OK ? check_train(job, why) : st;
}

/* With a data set the engine says how many samples there are, and tw_job_check_lengths is asked
 * then. */
static enum tw_status check_lengths(const struct tw_job *job, struct tw_error *why)
{
	return job->data.from ? TW_OK : tw_job_check_lengths(job, why);
}

static enum tw_status check_data(const struct tw_job *job, struct tw_error *why)
{
	return tw_job_refuse_rows(job, tw_idle_data, true, why);
}

const struct tw_job_check tw_job_checks[] = {
	{ .check = check_cluster },
	{ .check = check_processes },
	{ .check = check_library },
	{ .refusals = tw_refusals_alone },
	{ .check = check_gate },
	{ .refusals = tw_refusals_staged },
	{ .check = check_place },
	{ .refusals = tw_refusals_staged_gate },
	{ .check = check_schedule },
	{ .refusals = tw_refusals_vertical },
	{ .check = check_lanes },
	{ .refusals = tw_refusals_lanes },
	{ .check = check_delta },
	{ .refusals = tw_refusals_gap },
	{ .refusals = tw_refusals_topology },
	{ .refusals = tw_refusals_outside },
	{ .refusals = tw_refusals_delta },
	{ .refusals = tw_refusals_late },
	{ .refusals = tw_refusals_state },
	{ .refusals = tw_refusals_robust },
	{ .refusals = tw_refusals_stream },
	{ .refusals = tw_refusals_lockfree },
	{ .refusals = tw_refusals_codec },
	{ .refusals = tw_refusals_momentum },
	{ .refusals = tw_refusals_rounds },
	{ .refusals = tw_refusals_fetch },
	{ .refusals = tw_refusals_steps },
	{ .refusals = tw_refusals_project },
	{ .check = check_projection },
	{ .check = check_stream },
	{ .refusals = tw_refusals_model },
	{ .refusals = tw_refusals_online },
	{ .check = check_window },
	{ .refusals = tw_refusals_keep },
	{ .check = check_data },
	{ .check = check_model },
	{ .check = check_lengths },
	{ .check = check_sim },
	{ NULL },
};

enum tw_status tw_job_check(const struct tw_job *job, struct tw_error *why)
{
	enum tw_status st = TW_OK;

	for (const struct tw_job_check *c = tw_job_checks; st == TW_OK && (c->check || c->refusals);
	     c++)
		st = c->check ? c->check(job, why)
			      : tw_job_refuse_rows(job, c->refusals, false, why);
	return st;
}
