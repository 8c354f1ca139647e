/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - the numbers of a job that must fit each other. */
#include "spec/check_choices.h"
#include "spec/oversubscription.h"
#include "spec/field.h"
#include "spec/stages.h"
#include "spec/suggest.h"

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

static enum tw_status refuse_suggesting(const struct tw_job *job, const char *path,
					const char *sentence, struct tw_error *why)
{
	char text[480];

	return tw_job_refuse(job, why, path, "%s", tw_suggest(job, sentence, text, sizeof text));
}

static enum tw_status check_gate(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	struct tw_error said = { 0 };

	if (!p->gate->check || p->gate->check(p->gate_options, p->crew.workers, &said) == TW_OK)
		return TW_OK;
	if (p->crew.workers == 1)
		return refuse_suggesting(job, "strategy.gate",
					 "[gate] needs more than 1 worker, and this job has 1; use "
					 "cluster: {workers: 2} or more, or gate: [at-once gate]",
					 why);
	return refuse_said(job, "strategy", &said, why);
}

/* Periods of a worker that takes its own steps. */
static enum tw_status check_delta(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_strategy *s = &job->strategy;
	const bool rounds = job->plan.gate->traits & TW_GATE_ROUNDS;
	static const char *const own[] = { "strategy.alpha", "strategy.elasticity" };
	float (*const trims)(const void *) = job->plan.gate->trims;

	if (trims && tw_job_given(job, "strategy.trim") &&
	    (trims(job->plan.gate_options) < 0.0f || trims(job->plan.gate_options) == 0.5f))
		return tw_job_refuse(job, why, "strategy.trim",
				     "has an effect only with sum: trimmed; choose that, or leave "
				     "this out");
	for (size_t k = 0; k < 2; k++)
		if (tw_job_given(job, own[k]) && s->merge != TW_MERGE_ELASTIC &&
		    s->merge != TW_MERGE_MIX)
			return tw_job_refuse(
				job, why, own[k],
				"has an effect only with merge: elastic or mix; choose "
				"one of these, or leave this out");
	if (s->send != TW_SEND_DELTA)
		return tw_job_given(job, "strategy.push_after")
			       ? tw_job_refuse(job, why, "strategy.push_after",
					       "has an effect only with send: delta; leave it out")
			       : TW_OK;
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

/* Periods by worker speed. */
static enum tw_status check_adaptive(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_strategy *s = &job->strategy;

	if (!s->adaptive)
		return TW_OK;
	if (s->push == 1)
		return tw_job_refuse(job, why, "strategy.adaptive",
				     "makes push: shorter for slow workers, and 1 step is the "
				     "least; use a longer push:, or leave this out");
	if (job->train.updates)
		return tw_job_refuse(job, why, "train.updates",
				     "with strategy.adaptive updates are of different lengths; use "
				     "train.epochs or train.steps");
	return TW_OK;
}

static enum tw_status check_sim(const struct tw_job *job, struct tw_error *why)
{
	struct tw_error said = { 0 };

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
	return TW_OK;
}

/* Fields that say nothing under the choices made: silent since complete_sim, refused if given. */
static enum tw_status check_idle(const struct tw_job *job, struct tw_error *why)
{
	static const struct {
		const char *path, *sentence;
	} idle[] = {
		{ "sim.compute.mean",
		  "is not valid with sim.compute.law: log-normal; use median:, or another law" },
		{ "sim.compute.median",
		  "is valid only with sim.compute.law: log-normal; choose that, or use mean:" },
		{ "sim.compute.sigma",
		  "is valid only with sim.compute.law: log-normal; choose that or leave this out" },
		{ "sim.compute.spread",
		  "is valid only with sim.compute.law: uniform; choose that or leave this out" },
		{ "sim.compute.shape", "is valid only with sim.compute.law: gamma or pareto; "
				       "choose that or leave this out" },
		{ "sim.stragglers.slower",
		  "has no effect while stragglers.count is 0; give count:, or leave this out" },
		{ "sim.stragglers.on",
		  "also needs stragglers.count, .slower and .off (a straggler is slow for the time "
		  "`on`, then normal for the time `off`); give these, or leave this out" },
		{ "sim.stragglers.off",
		  "also needs stragglers.count, .slower and .on (a straggler is slow for the time "
		  "`on`, then normal for the time `off`); give these, or leave this out" },
		{ "sim.delay.law",
		  "has no effect while sim.delay.steps is 0; give steps:, or leave this out" },
		{ "sim.delay.ramp",
		  "has no effect while sim.delay.steps is 0; give steps:, or leave this out" },
	};

	if (job->world != TW_WORLD_SIM)
		return TW_OK;
	for (size_t k = 0; k < sizeof idle / sizeof idle[0]; k++)
		if (tw_job_field(job, idle[k].path)->silent && tw_job_given(job, idle[k].path))
			return tw_job_refuse(job, why, idle[k].path, "%s", idle[k].sentence);
	if (job->sim.stragglers && !tw_job_given(job, "sim.stragglers.slower"))
		return tw_job_refuse(job, why, "sim.stragglers.slower",
				     "must be given with stragglers.count, such as slower: 8");
	return TW_OK;
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
				     "or `thalweg sim`, which takes up to 100000 workers",
				     c->workers, TW_CROWD_THREADS);
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
	if (job->model == TW_MODEL_EXTERNAL)
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
	const double all = (double)batch * d->accumulate * job->strategy.push;

	if (d->deal != TW_DEAL_SHUFFLED && n > d->samples)
		return tw_job_refuse(job, why, "data.deal",
				     "%llu samples are too few for a subset for each of %u "
				     "workers; use fewer workers, or deal: shuffled",
				     (unsigned long long)d->samples, n);
	if (d->deal != TW_DEAL_SHUFFLED && all > (double)(d->samples / n))
		return tw_job_refuse(job, why, "data.deal",
				     "push * accumulate * batch = %.0f samples are more than the "
				     "%llu of one worker's subset; use less, fewer workers, or "
				     "deal: shuffled",
				     all, (unsigned long long)(d->samples / n));
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

	if (job->model == TW_MODEL_NETWORK && !job->data.from)
		return refuse_suggesting(job, "data.source",
					 "a network needs samples to learn from; use source: "
					 "[drawn source], which needs no files, or your own data",
					 why);
	if (job->model != TW_MODEL_NETWORK && job->data.from)
		return tw_job_refuse(job, why, "data.source",
				     "a made-up model generates its own samples; use source: none "
				     "with samples:, or a network");
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

enum tw_status tw_job_check_lengths(const struct tw_job *job, struct tw_error *why)
{
	const enum tw_status st = check_samples(job, why);

	return st == TW_OK ? check_train(job, why) : st;
}

enum tw_status tw_job_check(const struct tw_job *job, struct tw_error *why)
{
	enum tw_status st = check_cluster(job, why);

	if (st == TW_OK)
		st = check_processes(job, why);
	if (st == TW_OK)
		st = check_library(job, why);
	if (st == TW_OK)
		st = check_gate(job, why);
	if (st == TW_OK)
		st = tw_job_check_stages(job, why);
	if (st == TW_OK)
		st = check_delta(job, why);
	if (st == TW_OK)
		st = tw_job_check_choices(job, why);
	if (st == TW_OK)
		st = check_adaptive(job, why);
	if (st == TW_OK)
		st = check_stream(job, why);
	if (st == TW_OK)
		st = check_model(job, why);
	if (st == TW_OK && !job->data.from)
		st = tw_job_check_lengths(job, why);
	if (st == TW_OK)
		st = check_sim(job, why);
	if (st == TW_OK)
		st = check_idle(job, why);
	return st;
}
