/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - from the values of a job to the plan of its actors: limits, positions, borders.
 *
 * Limits are positions of samples wherever that is possible, so that a run ends by what it dealt
 * and not by who was quick. */
#include "spec/layer_names.h"
#include "spec/field.h"
#include "spec/optimiser.h"
#include "spec/refuse.h"
#include "spec/stages.h"

#include "engine/network.h"

#include <math.h>
#include <string.h>

#define SENT_MOST (1u << 30)          /* bytes of the samples of a step */
#define ENDLESS   ((uint64_t)1 << 62) /* positions without a limit, with room to add to */

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) || product > ENDLESS ? ENDLESS : product;
}

static uint64_t of_epochs(const struct tw_job *job, double epochs)
{
	const double positions = epochs * (double)job->data.samples;

	return positions < (double)ENDLESS ? (uint64_t)llround(positions) : ENDLESS;
}

/* Positions that so many gradients, of `accumulate` batches each, of all workers take, one worker
 * after the other. */
static uint64_t of_gradients(const struct tw_job *job, uint64_t gradients)
{
	const struct tw_job_data *d = &job->data;
	const uint64_t n = job->cluster.workers;
	uint64_t samples;

	if (d->global_batch == 0)
		samples = times(gradients, d->batch);
	else if (times(gradients / n, d->global_batch) == ENDLESS)
		samples = ENDLESS;
	else
		samples = gradients / n * d->global_batch + gradients % n * d->global_batch / n;
	return times(samples, d->accumulate);
}

/* A step is one gradient on one batch: `accumulate` of them go into what is applied, whole. */
static uint64_t of_steps(const struct tw_job *job, uint64_t steps)
{
	const uint64_t a = job->data.accumulate;

	return of_gradients(job, steps / a + (steps % a != 0));
}

static enum tw_status complete_batch(struct tw_job *job, struct tw_error *why)
{
	struct tw_job_data *d = &job->data;

	if (tw_plan_optimises(&job->plan))
		return TW_OK;
	if (d->global_batch && tw_job_given(job, "data.batch") && d->batch)
		return tw_job_refuse(job, why, "data.global_batch",
				     "cannot be combined with data.batch; leave one out");
	if (d->global_batch && d->global_batch < job->cluster.workers)
		return tw_job_refuse(job, why, "data.global_batch",
				     "%u samples are too few for %u workers; use at least %u",
				     d->global_batch, job->cluster.workers, job->cluster.workers);
	if (d->global_batch && tw_job_divides(job))
		return tw_job_refuse(job, why, "data.global_batch",
				     "workers with subsets of their own share no batch; use "
				     "data.batch, or deal: shuffled and placement: everywhere");
	if (d->global_batch)
		d->batch = 0;
	else if (d->from && !tw_job_given(job, "data.batch"))
		d->batch = 64;
	else if (d->batch == 0)
		return tw_job_refuse(job, why, "data.batch",
				     "needs at least 1 sample, unless global_batch is given");
	return TW_OK;
}

static double mean_staleness(const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;

	if (p->gate->staleness)
		return p->gate->staleness(p->gate_options, job->cluster.workers);
	return (double)job->cluster.workers / tw_job_collects(job);
}

/* A policy may leave the mean staleness open. */
static enum tw_status complete_staleness(struct tw_job *job, struct tw_error *why)
{
	const struct tw_staleness *policy = job->plan.staleness;
	const double mean = mean_staleness(job);
	char path[80], text[40];
	struct tw_error said = { 0 };
	struct tw_field *f;
	double value;

	if (!policy->open)
		return TW_OK;
	snprintf(path, sizeof path, "strategy.%s", policy->open);
	f = tw_job_field(job, path);
	memcpy(&value, (const char *)f->base + f->row->offset, sizeof value);
	f->follows = value == 0 || value == mean; /* an explained job is the job it explains */
	if (value > 0.0 && value < 1.0 && value != mean)
		return tw_job_refuse(
			job, why, path,
			"%g has no effect, because the rate is divided only by a staleness above "
			"1; use 1 or more, or 0 for the mean staleness of this job (%g)",
			value, mean);
	snprintf(text, sizeof text, "%.17g", mean);
	if (value == 0 && tw_field_set(f->row, f->base, text, &job->arena, &said) != TW_OK)
		return tw_job_refuse(job, why, path, "%s", said.text);
	return TW_OK;
}

/* Positions that go into one update, while all workers are there. */
static uint64_t of_update(const struct tw_job *job)
{
	return of_gradients(job, times(tw_job_collects(job), job->strategy.push));
}

static enum tw_status complete_limits(struct tw_job *job, struct tw_error *why)
{
	struct tw_job_train *t = &job->train;
	struct tw_plan *p = &job->plan;
	const bool rounds = p->gate->traits & TW_GATE_ROUNDS;

	if (tw_plan_optimises(p))
		return tw_job_complete_evaluations(job, why);
	if (t->epochs == 0 && !t->steps && !t->updates && !t->time)
		return tw_job_refuse(job, why, "train.epochs",
				     "the run would have no end; give epochs, steps, updates or "
				     "time above 0");
	p->dealing.positions = t->epochs > 0 ? of_epochs(job, t->epochs) : ENDLESS;
	if (t->epochs > 0 && p->dealing.positions == 0)
		return tw_job_refuse(job, why, "train.epochs",
				     "is less than one sample (an epoch has %llu); use more epochs",
				     (unsigned long long)job->data.samples);
	if (t->steps && of_steps(job, t->steps) < p->dealing.positions)
		p->dealing.positions = of_steps(job, t->steps);
	if (t->updates && !rounds) {
		const uint64_t most = of_gradients(
			job, times(times(t->updates, tw_job_collects(job)), job->strategy.push));

		p->dealing.positions = most < p->dealing.positions ? most : p->dealing.positions;
	}
	p->ends.updates = rounds ? t->updates : 0;
	p->ends.time = t->time;
	return TW_OK;
}

/* The run's length in epochs where it has one; 0 where only time ends it. */
static double length(const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;
	uint64_t positions = p->dealing.positions;

	if (p->ends.updates) {
		const uint64_t period = p->traffic.delta ? p->traffic.push : 1;
		const uint64_t most = of_gradients(
			job, times(times(p->ends.updates, job->cluster.workers), period));

		positions = positions < most ? positions : most;
	}
	return positions >= ENDLESS ? 0 : (double)positions / (double)job->data.samples;
}

static enum tw_status complete_schedule(struct tw_job *job, struct tw_error *why)
{
	struct tw_schedule *s = &job->update.schedule;

	s->epochs = length(job);
	if (s->kind == TW_SCHEDULE_STEP && s->every == 0 && s->at.count == 0)
		return tw_job_refuse(job, why, "update.schedule.kind",
				     "step needs at: (a list of epochs) or every: (epochs)");
	if (s->kind == TW_SCHEDULE_STEP && s->every > 0 && s->at.count > 0)
		return tw_job_refuse(job, why, "update.schedule.every",
				     "cannot be combined with update.schedule.at; leave one out");
	for (size_t k = 1; s->kind == TW_SCHEDULE_STEP && k < s->at.count; k++)
		if (s->at.at[k] <= s->at.at[k - 1])
			return tw_job_refuse(job, why, "update.schedule.at",
					     "needs ascending epochs, such as [80, 120]");
	if ((s->kind == TW_SCHEDULE_COSINE || s->kind == TW_SCHEDULE_LINEAR) && s->epochs == 0)
		return tw_job_refuse(job, why, "update.schedule.kind",
				     "a schedule over the whole run needs its length; give "
				     "train.epochs, steps or updates");
	s->update = (double)of_update(job) / (double)job->data.samples;
	job->plan.schedule = *s;
	return TW_OK;
}

/* From where on a worker takes several steps between two pushes. */
static enum tw_status complete_period(struct tw_job *job, struct tw_error *why)
{
	const struct tw_schedule *s = &job->update.schedule;
	double after = job->strategy.push_after;

	if (after < 0.0 && s->kind == TW_SCHEDULE_STEP)
		after = s->every > 0.0 ? s->every : s->at.at[0];
	else if (after < 0.0 && length(job) == 0)
		return tw_job_refuse(
			job, why, "strategy.push_after",
			"-1 waits for the first drop of the learning rate, or for half "
			"of the run, and this job has neither; use an epoch");
	else if (after < 0.0)
		after = length(job) / 2;
	job->plan.traffic.push_from = of_epochs(job, after);
	return TW_OK;
}

/* A user who sets one of the two to 0, and does not give the other one, has no warm start, whatever
 * the preset says. */
static void switch_off_warm(struct tw_job *job)
{
	struct tw_job_train *t = &job->train;
	const bool workers = tw_job_given(job, "train.warm.workers");
	const bool length = tw_job_given(job, "train.warm.for");

	if ((workers && !length && t->warm_workers == 0) ||
	    (length && !workers && t->warm_for == 0)) {
		t->warm_workers = 0;
		t->warm_for = 0;
	}
}

/* A preset's warm start that cannot be is left out; the user's own is refused. */
static enum tw_status complete_warm(struct tw_job *job, struct tw_error *why)
{
	struct tw_job_train *t = &job->train;
	const bool own =
		tw_job_given(job, "train.warm.workers") || tw_job_given(job, "train.warm.for");
	const double run = length(job);
	const double own_run = run * t->warm_workers / job->cluster.workers;
	struct tw_error said = { 0 };

	switch_off_warm(job);
	if (t->warm_workers == 0 && t->warm_for == 0)
		return tw_job_given(job, "train.warm.release")
			       ? tw_job_refuse(job, why, "train.warm.release",
					       "has an effect only with warm.workers and warm.for; "
					       "give these, or leave this out")
			       : TW_OK;
	if (t->warm_workers == 0)
		tw_job_refuse(job, &said, "train.warm.workers",
			      "must be given with warm.for: the number of workers that train alone "
			      "at first");
	else if (t->warm_for == 0)
		tw_job_refuse(job, &said, "train.warm.for",
			      "must be given with warm.workers, such as 0.2 epochs");
	else if (t->warm_workers >= job->cluster.workers)
		tw_job_refuse(job, &said, "train.warm.workers",
			      "%u is not less than cluster.workers, which is %u; use fewer, or "
			      "leave warm: out",
			      t->warm_workers, job->cluster.workers);
	else if (run > 0 && t->warm_for >= run)
		tw_job_refuse(job, &said, "train.warm.for",
			      "the warm start would take the whole run of %g epochs; use less",
			      run);
	else if (run > 0 && tw_job_divides(job) && t->warm_for >= own_run)
		tw_job_refuse(job, &said, "train.warm.for",
			      "with data.deal these workers have only %g epochs of samples of "
			      "their own in the whole run; use less, or deal: shuffled",
			      own_run);
	if (said.status != TW_OK && own)
		return tw_fail(why, said.status, "%s", said.text);
	if (said.status != TW_OK) {
		t->warm_workers = 0;
		t->warm_for = 0;
		tw_job_field(job, "train.warm.release")->silent = true;
		if (tw_job_warn(job, "the preset's warm start is left out: it does not fit the "
				     "run") != TW_OK)
			return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
		return TW_OK;
	}
	job->plan.dealing.warm_workers = t->warm_workers;
	job->plan.dealing.warm_until = of_epochs(job, t->warm_for);
	job->plan.dealing.warm_gradual = t->warm_release == TW_RELEASE_GRADUAL;
	return TW_OK;
}

static struct tw_subsets subsets_of(const struct tw_job *job, uint64_t samples)
{
	const struct tw_job_data *d = &job->data;

	if (!tw_job_divides(job))
		return (struct tw_subsets){ 0 };
	return (struct tw_subsets){
		.samples = samples,
		.unit = (uint64_t)d->batch * d->accumulate * job->strategy.push,
		.count = job->cluster.workers,
		.own = d->placement == TW_PLACEMENT_OWN,
	};
}

void tw_job_divide(const struct tw_job *job, struct tw_engine *e)
{
	e->order.subsets = subsets_of(job, e->samples);
	e->order.blocks = job->data.deal == TW_DEAL_BLOCKS;
	e->order.block = job->data.shuffle_block;
	e->order.stored = job->train.mode == TW_TRAIN_ONLINE;
}

static void copy_values(struct tw_job *job)
{
	const struct tw_job_strategy *s = &job->strategy;
	struct tw_plan *p = &job->plan;

	p->seed = job->train.seed;
	p->problem.samples = job->data.samples;
	p->dealing.batch = job->data.batch;
	p->dealing.global_batch = job->data.global_batch;
	p->dealing.accumulate = job->data.accumulate;
	p->dealing.block = job->data.shuffle_block;
	if (job->data.placement == TW_PLACEMENT_ON_DEMAND)
		p->dealing.ahead = job->data.ahead;
	p->ends.loss = job->train.until_loss;
	p->ends.accuracy = job->train.until_accuracy;
	p->keeping = (struct tw_keeping){ .best = job->train.keep == TW_KEEP_BEST,
					  .by_accuracy = job->train.measure == TW_BY_ACCURACY,
					  .patience = job->train.patience };
	p->online = (struct tw_online_plan){ .is = job->train.mode == TW_TRAIN_ONLINE,
					     .window = job->train.window };
	p->evaluate_every = job->train.evaluate;
	p->instant_evaluations = job->world == TW_WORLD_SIM;
	p->gaps = job->train.gap;
	p->crew.workers = job->cluster.workers;
	p->crew.min = job->cluster.min;
	p->crew.servers = job->cluster.servers;
	p->crew.wait = job->cluster.wait;
	p->crew.limit = job->cluster.limit;
	p->crew.stuck = job->cluster.stuck;
	if (s->send == TW_SEND_MOMENTUM && !p->near.rule) { /* the whole update is the worker's */
		p->near = p->far;
		p->far = (struct tw_half){ &tw_rule_subtract, NULL };
	}
	p->traffic.delta = s->send == TW_SEND_DELTA;
	p->traffic.adaptive = s->adaptive;
	p->traffic.average_state = s->average_state;
	p->traffic.fragments = s->fragments;
	p->traffic.delay = s->delay;
	p->traffic.push = s->push / s->fragments ? s->push / s->fragments : 1; /* see check.c */
	p->traffic.fetch = s->fetch / s->fragments ? s->fetch / s->fragments : 1;
	p->traffic.overlap = s->overlap;
	p->traffic.cache = s->cache;
	p->traffic.merge = (enum tw_merges)s->merge;
	p->traffic.alpha = (float)s->alpha;
	tw_job_set_rate(job, job->update.schedule.rate);
	p->traffic.skip_push = s->skip_push;
	p->traffic.skip_fetch = s->skip_fetch;
	p->clip = (float)job->update.clip;
	p->decay = (float)job->update.decay;
	p->projection =
		(struct tw_projection){ .ball = isnan(job->update.ball) ? 0 : job->update.ball };
	if (job->update.box.count == 2) { /* any other number of them is refused */
		p->projection.low = (float)job->update.box.at[0];
		p->projection.high = (float)job->update.box.at[1];
	}
	p->delay.steps = job->world == TW_WORLD_SIM ? job->delay.steps : 0;
	p->delay.law = (enum tw_delay_law)job->delay.law;
	p->delay.ramp = job->delay.ramp;
	p->checkpoint.every = job->checkpoint.every;
	p->checkpoint.drain = job->checkpoint.cut == TW_CUT_DRAIN;
	p->checkpoint.memory = job->checkpoint.memory;
	p->checkpoint.save_time = job->world == TW_WORLD_SIM ? job->sim.save_time : 0;
}

void tw_job_set_rate(struct tw_job *job, double rate)
{
	const double local = job->strategy.local_rate;

	job->update.schedule.rate = job->plan.schedule.rate = rate;
	job->plan.local.rate = (float)(local > 0 ? local : rate);
}

static void silence(struct tw_job *job, const char *path, bool idle)
{
	tw_job_field(job, path)->silent = idle;
}

static void complete_delta(struct tw_job *job)
{
	const struct tw_job_strategy *s = &job->strategy;

	silence(job, "strategy.fragments", s->send != TW_SEND_DELTA && s->fragments == 1);
	silence(job, "strategy.delay", s->send != TW_SEND_DELTA && s->delay == 0);
	silence(job, "strategy.adaptive", s->send != TW_SEND_DELTA && !s->adaptive);
	silence(job, "strategy.average_state", s->send != TW_SEND_DELTA);
}

/* A limit that was given shorter takes what must be within it along. */
static void complete_pulse(struct tw_job *job)
{
	struct tw_job_cluster *c = &job->cluster;
	const bool processes = tw_world_has_processes(job->world);

	if (!tw_job_given(job, "cluster.suspect") && c->suspect > c->limit / 3)
		c->suspect = c->limit / 3;
	if (!tw_job_given(job, "cluster.heartbeat") && c->heartbeat > c->suspect / 5)
		c->heartbeat = c->suspect / 5;
	silence(job, "train.on_divergence.rate", job->train.restarts == 0);
	silence(job, "cluster.heartbeat", !processes);
	silence(job, "cluster.suspect", !processes);
	/* a thread cannot hang alone, and simulated workers may be as slow as the job says */
	if (!processes && !(job->world == TW_WORLD_SIM && tw_job_given(job, "cluster.stuck")))
		c->stuck = 0;
	silence(job, "cluster.stuck", c->stuck == 0 && !processes);
}

/* The caller's engine knows how many samples it has. */
static enum tw_status complete_external(struct tw_job *job, struct tw_error *why)
{
	const uint64_t samples = job->engine.external.samples;

	if (job->model != TW_MODEL_EXTERNAL)
		return TW_OK;
	if (*job->engine.external.file) {
		if (!tw_job_given(job, "data.samples"))
			return tw_job_refuse(job, why, "data.samples",
					     "must be given with model.tensors: how many training "
					     "samples the programs have that join");
		job->engine.external.samples = job->data.samples;
		return TW_OK;
	}
	if (tw_job_given(job, "data.samples") && job->data.samples != samples)
		return tw_job_refuse(job, why, "data.samples",
				     "the program's own engine has %llu samples; leave this out",
				     (unsigned long long)samples);
	job->data.samples = samples;
	return TW_OK;
}

const char *tw_job_test_set(const struct tw_job *job)
{
	const struct tw_source *from = job->data.from;
	char value[2];

	if (!from || !from->test_option)
		return NULL;
	tw_option_text(tw_option_find(from->options, from->test_option), job->data.options, value,
		       sizeof value);
	return *value ? from->test_option : NULL;
}

/* A test set that --set names goes before a share that stands in the file. */
static bool overrules_share(const struct tw_job *job, const char *own)
{
	const struct tw_field *share = tw_job_field(job, "data.test"), *file;
	char path[60];

	snprintf(path, sizeof path, "data.%s", own);
	file = tw_job_field(job, path);
	return file && file->from && share->from && file->from->origin > share->from->origin;
}

/* An autoencoder predicts what it sees; what is held out, and whether. */
static enum tw_status complete_network(struct tw_job *job, struct tw_error *why)
{
	const char *own = tw_job_test_set(job);
	const struct tw_zoo *zoo = job->network.zoo;

	if (own && tw_job_given(job, "data.test") && !overrules_share(job, own))
		return tw_job_refuse(job, why, "data.test",
				     "cannot be combined with data.%s, which gives a test set; "
				     "leave one of them out",
				     own);
	if (zoo && zoo->predicts_input && !tw_job_given(job, "data.predict"))
		job->data.predict = TW_PREDICT_INPUT;
	if (own || (job->data.from && !job->data.from->splits))
		silence(job, "data.test", true);
	if (job->model == TW_MODEL_NETWORK)
		silence(job, "model.name", !zoo);
	return TW_OK;
}

enum tw_status tw_job_complete_lengths(struct tw_job *job, struct tw_error *why)
{
	enum tw_status st = complete_limits(job, why);

	job->plan.dealing.subsets = subsets_of(job, job->data.samples);
	if (st == TW_OK)
		st = complete_schedule(job, why);
	if (st == TW_OK)
		st = complete_period(job, why);
	return st == TW_OK ? complete_warm(job, why) : st;
}

enum tw_status tw_job_complete(struct tw_job *job, struct tw_error *why)
{
	struct tw_job_train *t = &job->train;
	enum tw_status st;

	/* before any text of the job is made: whoever reads that text finds the number given */
	if (t->mode == TW_TRAIN_EPOCHS && !tw_job_given(job, "train.epochs") &&
	    (t->steps || t->updates || t->time))
		t->epochs = 0;
	if (!tw_job_given(job, "checkpoint.cut"))
		job->checkpoint.cut = job->world == TW_WORLD_SIM || tw_plan_is_loose(&job->plan) ||
						      tw_plan_is_with_stage(&job->plan)
					      ? TW_CUT_DRAIN
					      : TW_CUT_RUNNING;
	if (!tw_job_given(job, "train.evaluate") &&
	    (!isnan(t->until_loss) || !isnan(t->until_accuracy) || t->keep == TW_KEEP_BEST))
		job->train.evaluate = 1;
	else if (!tw_job_given(job, "train.evaluate") && job->data.from && !job->data.from->endless)
		job->train.evaluate = 1;
	if (job->strategy.send == TW_SEND_DELTA && !tw_job_given(job, "strategy.fetch"))
		job->strategy.fetch = job->strategy.push;
	silence(job, "train.warm.release", t->warm_workers == 0);
	complete_pulse(job);
	st = complete_network(job, why);
	if (st == TW_OK)
		st = complete_external(job, why);
	if (st == TW_OK)
		st = tw_job_complete_optimiser(job, why);
	if (st == TW_OK)
		st = complete_batch(job, why);
	if (st == TW_OK)
		st = tw_job_complete_aliases(job, why);
	if (st == TW_OK)
		complete_delta(job);
	if (st == TW_OK)
		st = complete_staleness(job, why);
	if (st == TW_OK) {
		copy_values(job);
		st = tw_job_find_facts(job, why);
	}
	if (st == TW_OK)
		tw_job_silence_idle(job);
	if (st == TW_OK && !job->data.from)
		st = tw_job_complete_lengths(job, why);
	return st;
}

/* Shards in rounds give their parts of a large checkpoint one after another: nobody goes on until
 * the last one has. */
static void settle_cut(struct tw_job *job)
{
	struct tw_plan *p = &job->plan;

	if ((p->gate->traits & TW_GATE_ROUNDS) && tw_plan_cut_is_large(p))
		p->checkpoint.drain = true;
}

/* Lengths of parts and messages are 32 bits wide. */
static enum tw_status check_parts(struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const uint64_t arrays = tw_plan_part_arrays(p);
	uint64_t largest = 0, most = UINT32_MAX / (sizeof(float) * arrays);

	for (uint32_t k = 0; k < p->problem.shards; k++)
		if (p->problem.border[k + 1] - p->problem.border[k] > largest)
			largest = p->problem.border[k + 1] - p->problem.border[k];
	settle_cut(job);
	if (largest <= most)
		return TW_OK;
	return tw_job_refuse(
		job, why, "cluster.shards",
		"a shard of %llu parameters with %llu arrays of rule, policy and workers would "
		"exceed 4 GiB; use at least %llu shards",
		(unsigned long long)largest, (unsigned long long)arrays - 1,
		(unsigned long long)((p->problem.border[p->problem.shards] + most - 1) / most));
}

#define FAR_OUTSIDE 3.0 /* times the end of a range */

/* One rate of a network; made-up problems have scales of their own. */
static enum tw_status judge_rate(struct tw_job *job, const char *path, double rate,
				 const struct tw_rule *rule)
{
	const struct tw_usual_rate *u = &rule->rate;
	const bool high = rate > FAR_OUTSIDE * u->high, low = rate < u->low / FAR_OUTSIDE;

	if (!(u->high > 0) || !(rate > 0) || !(high || low))
		return TW_OK;
	return tw_job_warn(
		job,
		"%s: %g is far %s what %s usually takes (%g to %g); without the field it "
		"is %g",
		path, rate, high ? "above" : "below", rule->name, u->low, u->high, u->standard);
}

static enum tw_status warn_rates(struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;
	const bool own = p->local.rule && job->strategy.local_rate > 0;
	enum tw_status st = TW_OK;

	if (!tw_plan_optimises(p))
		st = judge_rate(job, "update.rate", job->update.schedule.rate,
				tw_rule_find(job->update.rule));
	if (st == TW_OK && own)
		st = judge_rate(job, "strategy.local.rate", job->strategy.local_rate,
				p->local.rule);
	return st;
}

/* What is chosen by a set is better on it than on others. */
static enum tw_status warn_keep(struct tw_job *job)
{
	if (job->train.keep != TW_KEEP_BEST || job->data.set.evaluate != TW_SET_TEST)
		return TW_OK;
	return tw_job_warn(job,
			   "train.keep: best chooses by the test set, so the figures on it are "
			   "too good; hold rows out for that with data.validation: 0.15 and "
			   "data.evaluate: validation");
}

/* Targets of another scale make other gradients: what to do about it. */
static enum tw_status warn_targets(struct tw_job *job, const struct tw_data *d)
{
	struct tw_target_scale s;
	const char *name = "";

	if (d->target_scale || !tw_data_targets_are_far(d, &s))
		return TW_OK;
	if (d->names.answer)
		name = d->names.answer[s.target];
	else if (d->names.label)
		name = d->names.label;
	return tw_job_warn(
		job,
		"data: the target%s%s has mean %.3g and deviation %.3g, far from 0 and 1, "
		"so the loss is far from its usual size and usual rates may diverge; "
		"data.normalise_targets: standard scales it for the network",
		*name ? " " : "", name, s.mean, s.deviation);
}

/* What is odd about the data, and about rates for it.  It is said where the data was read: those
 * who join know nothing of the job that its master does not. */
static enum tw_status warn_data(struct tw_job *job, const struct tw_data *d, struct tw_error *why)
{
	enum tw_status st = TW_OK;

	if (!d || !d->warnings)
		return TW_OK;
	for (unsigned k = 0; k < d->warnings->count && st == TW_OK; k++)
		st = tw_job_warn(job, "%s", d->warnings->text[k]);
	if (st == TW_OK)
		st = warn_targets(job, d);
	if (st == TW_OK)
		st = warn_rates(job);
	if (st == TW_OK)
		st = warn_keep(job);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "%s: no memory for its warnings", job->file);
}

/* The same words about other data are another job. */
static enum tw_status hash_with_data(const struct tw_job *job, const struct tw_engine *engine,
				     struct tw_sha *out)
{
	struct tw_sha both[2];
	enum tw_status st = tw_job_hash(job, &both[0]);

	if (st != TW_OK || !tw_network_data(engine)) {
		*out = both[0];
		return st;
	}
	both[1] = tw_network_data(engine)->fingerprint;
	return tw_sha_of(both, sizeof both, out);
}

/* Ranks that a launcher has started all hold shards, unless the job says otherwise.  The borders of
 * shards do not depend on it: nor do bits. */
static void spread_shards(struct tw_job *job)
{
	const uint32_t shards = job->plan.problem.shards;

	if (job->world != TW_WORLD_MPI || !job->ranks || !job->cluster.servers ||
	    tw_job_given(job, "cluster.servers"))
		return;
	job->cluster.servers = job->ranks < shards ? job->ranks : shards;
	job->plan.crew.servers = job->cluster.servers;
}

/* Rates of layers belong to the half that has the job's rule. */
static enum tw_status find_rates(struct tw_job *job, const struct tw_graph *g, struct tw_error *why)
{
	struct tw_half *half = job->plan.near.rule ? &job->plan.near : &job->plan.far;

	return g ? tw_job_layer_rates(job, g, &half->layers, why) : TW_OK;
}

/* Samples that are sent fit a message. */
static enum tw_status check_sent(const struct tw_job *job, const struct tw_engine *e,
				 struct tw_error *why)
{
	const uint32_t most = tw_plan_step_most(&job->plan);
	const uint32_t count = most < e->samples ? most : (uint32_t)e->samples;

	if (!e->class->give)
		return tw_job_refuse(job, why, "data.placement",
				     "this model generates its samples where they are needed, and "
				     "none are sent; use placement: everywhere");
	if (e->class->given_bytes(e, count) > SENT_MOST)
		return tw_job_refuse(job, why, "data.placement",
				     "the %u samples of a step are %zu bytes, and a message has at "
				     "most %u; use smaller batches, or placement: everywhere",
				     count, e->class->given_bytes(e, count), SENT_MOST);
	return TW_OK;
}

/* Members that hold leases, and the pushes that are waited for, fit what a stream keeps. */
static enum tw_status check_keeps(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const uint64_t batch = p->dealing.global_batch ? p->dealing.global_batch
						       : p->dealing.batch * p->crew.workers;
	const uint64_t least = 8 * batch * p->dealing.accumulate * p->traffic.push;

	if (!p->online.keeps || least <= p->online.keeps)
		return TW_OK;
	return tw_job_refuse(job, why, "data.keep",
			     "%llu samples are too few for %u workers with %llu samples in each "
			     "push; use at least %llu",
			     (unsigned long long)p->online.keeps, p->crew.workers,
			     (unsigned long long)(least / 8 / p->crew.workers),
			     (unsigned long long)least);
}

enum tw_status tw_job_finish_plan(struct tw_job *job, const struct tw_engine *engine,
				  struct tw_error *why)
{
	struct tw_plan *p = &job->plan;
	const size_t total = engine->trainable + engine->buffers;
	size_t *border;

	p->problem.trainable = engine->trainable;
	p->problem.buffers = engine->buffers;
	p->problem.samples = engine->samples;
	p->problem.tests = engine->tests;
	p->problem.constants = engine->constants;
	p->problem.held = engine->held;
	if (tw_plan_sends_samples(p) && check_sent(job, engine, why) != TW_OK)
		return why->status;
	p->online.keeps = engine->keeps;
	if (check_keeps(job, why) != TW_OK)
		return why->status;
	if (isnan(p->schedule.rate)) /* only looked at: whoever trains has found one */
		p->schedule.rate = tw_plan_update(p)->rule->rate.standard;
	if (find_rates(job, tw_network_graph(engine), why) != TW_OK)
		return why->status;
	if (job->data.from) {
		enum tw_status st;

		/* what is usual is for more rows than these */
		if (job->usual && job->data.batch > engine->samples)
			job->data.batch = p->dealing.batch = (uint32_t)engine->samples;
		job->data.samples = engine->samples;
		st = tw_network_graph(engine)
			     ? tw_job_settle_network(job, tw_network_graph(engine), why)
			     : TW_OK;
		if (st == TW_OK)
			st = warn_data(job, tw_network_data(engine), why);
		if (st == TW_OK)
			st = tw_job_complete_lengths(job, why);
		if (st == TW_OK)
			st = tw_job_check_lengths(job, why);
		if (st == TW_OK && tw_plan_is_staged(p)) /* the hash is of cuts as they are */
			st = tw_job_plan_stages(job, engine, why);
		if (st != TW_OK)
			return st;
		if (hash_with_data(job, engine, &p->checkpoint.job_hash) != TW_OK)
			return tw_fail(why, TW_NO_MEMORY, "%s: no memory for its hash", job->file);
	} else if (tw_plan_is_staged(p) && tw_job_plan_stages(job, engine, why) != TW_OK) {
		return why->status;
	}
	if (tw_plan_is_staged(p)) {
		spread_shards(job);
		return check_parts(job, why);
	}
	p->problem.shards =
		job->cluster.shards ? job->cluster.shards : tw_job_usual_shards(job, total);
	if (p->problem.shards > total)
		return tw_job_refuse(job, why,
				     job->cluster.shards           ? "cluster.shards"
				     : job->strategy.fragments > 1 ? "strategy.fragments"
								   : "cluster.servers",
				     "%u shards do not fit a model of %zu parameters; use 1 to %zu",
				     p->problem.shards, total, total);
	spread_shards(job);
	border = tw_arena_get(&job->arena, ((size_t)p->problem.shards + 1) * sizeof *border);
	if (!border)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the plan", job->file);
	tw_job_borders(engine->tensor, engine->tensors, p->problem.shards, border);
	p->problem.border = border;
	if (tw_job_check_optimiser(job, engine, why) != TW_OK)
		return TW_BAD_INPUT;
	return check_parts(job, why);
}
