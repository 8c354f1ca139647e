/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - which choices go together: one table of traits, and the numbers that must fit. */
#include "job/crowd.h"
#include "job/field.h"

#include "graph/loss.h"

#include <math.h>
#include <string.h>

#define CONTRIBUTION_MOST (1u << 26) /* samples; counts of them fit 32 bits with room to add */

/* What is true of a job, as far as combinations ask for it: a bit each, of 64. */
#define FACT(k)          (UINT64_C(1) << (k))
#define IN_SIM           FACT(0)
#define ROUNDS           FACT(1)  /* the gate commits whole rounds */
#define LOCKFREE         FACT(2)  /* workers write the parameters themselves */
#define COLLECTS         FACT(3)  /* an update takes several contributions */
#define IN_TURN          FACT(4)  /* a round's contributions are applied one after the other */
#define PER_WORKER       FACT(5)  /* the rule keeps an array for each worker */
#define STAMPED          FACT(6)  /* the rule uses the rate of the answer */
#define PLAIN_RULE       FACT(7)  /* sgd: w - rate * g and nothing else */
#define TURNABLE         FACT(8)  /* linear, shows what it keeps: may be applied in turn */
#define POLICY           FACT(9)  /* staleness is not none */
#define SENT             FACT(10) /* the policy compares with what a worker was sent */
#define STATISTIC        FACT(11) /* the policy has what skipping asks */
#define MOMENTUM         FACT(12) /* send: momentum */
#define PREPARES         FACT(13) /* the rule has a worker's half */
#define PUSHES_LATE      FACT(14) /* push above 1 */
#define FETCHES_LATE     FACT(15) /* fetch above 1 */
#define SKIPS            FACT(16)
#define LOCAL            FACT(17)
#define LOCAL_PER_WORKER FACT(18)
#define KEEPS            FACT(19) /* merge: keep */
#define UP_LOSSY         FACT(20)
#define DOWN_LOSSY       FACT(21)
#define NOT_DOWN         FACT(22) /* codec.down carries only gradients */
#define DECAYS           FACT(23)
#define DELAYED          FACT(24) /* sim.delay */
#define MANY             FACT(25) /* more than one worker */
#define ASYNC            FACT(26) /* applies each contribution at once and holds nobody */
#define ACCURACY         FACT(27) /* train.until.accuracy */
#define SCORED           FACT(28) /* the model has an accuracy */
#define IN_TCP           FACT(29) /* processes, which share no memory */
#define NORMALISES       FACT(30) /* the rule divides by the size of gradients it has seen */
#define SCALES           FACT(31) /* the policy multiplies a gradient with one number */
#define TOTALS           FACT(32) /* sum: total */

/* Refused when all of `with` and none of `without` are true.  The field is blamed; where only
 * `because` was given by the user, its place is named. */
static const struct refusal {
	uint64_t with, without;
	const char *field, *because, *sentence;
} refusals[] = {
	{ LOCKFREE | IN_SIM, 0, "strategy.gate", NULL,
	  "hogwild races on memory that threads share, which the simulator has not; run it with "
	  "thalweg train, or use gate: async" },
	{ LOCKFREE | IN_TCP, 0, "strategy.gate", NULL,
	  "hogwild needs threads: it races on memory, which processes do not share; run it with "
	  "thalweg train, or use gate: async" },
	{ LOCKFREE, PLAIN_RULE, "update.rule", "strategy.gate",
	  "hogwild has no lock to keep a rule's state under; use rule: sgd, or gate: async" },
	{ LOCKFREE | POLICY, 0, "strategy.staleness", "strategy.gate",
	  "hogwild has no versions to count staleness by; use staleness: none, or gate: async" },
	{ LOCKFREE | DECAYS, 0, "update.decay", "strategy.gate",
	  "hogwild writes gradients straight into the parameters; use decay: 0, or gate: async" },
	{ LOCKFREE | UP_LOSSY, 0, "strategy.codec.up", "strategy.gate",
	  "hogwild sends nothing; use codec: {up: fp32}, or gate: async" },
	{ LOCKFREE | DOWN_LOSSY, 0, "strategy.codec.down", "strategy.gate",
	  "hogwild sends nothing; use codec: {down: fp32}, or gate: async" },
	{ LOCKFREE | PUSHES_LATE, 0, "strategy.push", "strategy.gate",
	  "hogwild applies every step at once; use push: 1, or gate: async" },
	{ LOCKFREE | FETCHES_LATE, 0, "strategy.fetch", "strategy.gate",
	  "hogwild always reads the newest parameters; use fetch: 1, or gate: async" },
	{ LOCKFREE | MOMENTUM, 0, "strategy.send", "strategy.gate",
	  "hogwild applies gradients; use send: gradient, or gate: async" },

	{ MOMENTUM, PREPARES, "strategy.send", "update.rule",
	  "momentum on the worker needs a rule that has a worker's half; use rule: dana, or send: "
	  "gradient" },
	{ MOMENTUM | ROUNDS, 0, "strategy.send", "strategy.gate",
	  "momentum on the worker has its rate inside, so a round cannot average it; use gate: "
	  "async or ssp, or send: gradient" },
	{ MOMENTUM | COLLECTS, 0, "strategy.send", "strategy.gate",
	  "momentum on the worker has its rate inside, so an update cannot average it; use gate: "
	  "async or ssp, or send: gradient" },
	{ MOMENTUM | POLICY, 0, "strategy.staleness", "strategy.send",
	  "a policy corrects raw gradients, and send: momentum sends none; use staleness: none, or "
	  "send: gradient" },

	{ PER_WORKER | ROUNDS, 0, "update.rule", "strategy.gate",
	  "keeps a state for each worker, so each contribution must be applied alone, which rounds "
	  "do not; use gate: async or ssp, or rule: momentum" },
	{ PER_WORKER | COLLECTS, 0, "update.rule", "strategy.gate",
	  "keeps a state for each worker, so each contribution must be applied alone; use collect: "
	  "1, gate: async or ssp, or rule: momentum" },
	{ STAMPED | ROUNDS, 0, "update.rule", "strategy.gate",
	  "uses the rate each gradient was computed at, and a round has only one; use gate: async "
	  "or ssp" },
	{ ROUNDS | IN_TURN, TURNABLE, "update.rule", "strategy.gate",
	  "a round applied in turn needs a rule that is linear in the gradients and shows what it "
	  "keeps; use rule: sgd or momentum, or apply: sum" },
	{ ROUNDS | POLICY, IN_TURN, "strategy.staleness", "strategy.gate",
	  "in a round that is applied as one nothing is stale; use staleness: none, apply: in-turn "
	  "with "
	  "staleness: delay, or gate: async" },
	{ ROUNDS | IN_TURN | POLICY, SENT, "strategy.staleness", "strategy.gate",
	  "contributions applied in turn are all of one version; use staleness: delay or none" },
	{ ROUNDS | PUSHES_LATE, 0, "strategy.push", "strategy.gate",
	  "a round takes one step of every worker; use push: 1 (data.accumulate makes steps "
	  "larger), "
	  "or gate: async" },
	{ ROUNDS | FETCHES_LATE, 0, "strategy.fetch", "strategy.gate",
	  "after a round everybody has the new parameters; use fetch: 1, or gate: async" },
	{ ROUNDS | SKIPS, 0, "strategy.skip", "strategy.gate",
	  "a round waits for every push; leave skip: out, or use gate: async" },
	{ ROUNDS | LOCAL, 0, "strategy.local.rule", "strategy.gate",
	  "in rounds there are no steps between fetches; leave local: out, or use gate: async with "
	  "fetch: 2 or more" },
	{ ROUNDS | KEEPS, 0, "strategy.merge", "strategy.gate",
	  "in rounds nothing is left to keep at a fetch; use merge: replace, or gate: async" },

	{ TOTALS | NORMALISES, 0, "strategy.sum", "update.rule",
	  "this rule divides by the size of gradients, so their total does what their mean does; "
	  "use sum: mean, or rule: sgd, momentum or nag" },
	{ SCALES | NORMALISES, 0, "strategy.staleness", "update.rule",
	  "a factor on the gradient does nothing here, because the rule divides by the size of the "
	  "gradients it has seen; use rule: sgd or momentum, or staleness: none" },
	{ SKIPS, STATISTIC, "strategy.skip", "strategy.staleness",
	  "skipping looks at the deviation that only fasgd keeps; use staleness: fasgd, or leave "
	  "skip: out" },
	{ SKIPS | LOCAL, 0, "strategy.skip", "strategy.local.rule",
	  "a worker that takes local steps does not skip; leave skip: or local: out" },
	{ LOCAL_PER_WORKER, 0, "strategy.local.rule", NULL,
	  "a worker is alone with its own steps; use rule: sgd or momentum" },
	{ LOCAL, FETCHES_LATE | KEEPS, "strategy.local.rule", "strategy.fetch",
	  "with fetch: 1 every local step is overwritten at once; use fetch: 2 or more, or leave "
	  "local: out" },
	{ LOCAL | KEEPS, FETCHES_LATE | PUSHES_LATE, "strategy.local.rule", "strategy.fetch",
	  "with push: 1 and fetch: 1 no local step is ever kept; use push: or fetch: 2 or more, or "
	  "leave local: out" },
	{ LOCAL | MOMENTUM, 0, "strategy.local.rule", "strategy.send",
	  "local steps go with gradients; use send: gradient, or leave local: out" },
	{ KEEPS, LOCAL, "strategy.merge", NULL,
	  "without local steps there is nothing to keep; use merge: replace, or add local: {rule: "
	  "sgd}" },
	{ NOT_DOWN, 0, "strategy.codec.down", NULL,
	  "carries gradients, not parameters; use fp32, fp16 or bf16" },

	{ DELAYED | MANY, 0, "sim.delay.steps", "cluster.workers",
	  "delays the gradients of a single worker; use cluster: {workers: 1}, or leave sim.delay "
	  "out" },
	{ DELAYED, ASYNC, "sim.delay.steps", "strategy.gate",
	  "needs every gradient applied at once; use gate: async, or leave sim.delay out" },
	{ DELAYED | PUSHES_LATE, 0, "strategy.push", "sim.delay.steps",
	  "sim.delay counts in steps of one update each; use push: 1" },
	{ DELAYED | FETCHES_LATE, 0, "strategy.fetch", "sim.delay.steps",
	  "sim.delay counts in steps of one update each; use fetch: 1" },
	{ DELAYED | SKIPS, 0, "strategy.skip", "sim.delay.steps",
	  "sim.delay counts in steps of one update each; leave skip: out" },
	{ ACCURACY, SCORED, "train.until.accuracy", NULL,
	  "this model has no accuracy; use until: {loss: ...}" },
};

static uint64_t facts_of_gate(const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;
	const uint32_t t = p->gate->traits;
	uint64_t facts = 0;

	if (t & TW_GATE_ROUNDS)
		facts |= ROUNDS;
	else if (tw_job_collects(job) > 1)
		facts |= COLLECTS;
	if (t & TW_GATE_LOCKFREE)
		facts |= LOCKFREE;
	if (p->gate->totals && p->gate->totals(p->gate_options))
		facts |= TOTALS;
	if ((t & TW_GATE_IN_TURN) && p->gate->in_turn && p->gate->in_turn(p->gate_options))
		facts |= IN_TURN;
	if (!(t & (TW_GATE_ROUNDS | TW_GATE_HOLDS | TW_GATE_COLLECTS | TW_GATE_LOCKFREE)))
		facts |= ASYNC;
	return facts;
}

static uint64_t facts_of_rule(const struct tw_plan *p)
{
	const struct tw_rule *rule = tw_plan_update(p)->rule;
	const uint32_t t = rule->traits;
	uint64_t facts = 0;

	if (t & TW_RULE_PER_WORKER)
		facts |= PER_WORKER;
	if (t & TW_RULE_STAMPED)
		facts |= STAMPED;
	if ((t & TW_RULE_LINEAR) && !(t & (TW_RULE_OWN_VIEW | TW_RULE_PER_WORKER))) {
		facts |= TURNABLE;
	}
	if (t & TW_RULE_PLAIN)
		facts |= PLAIN_RULE;
	if (t & TW_RULE_NORMALISES)
		facts |= NORMALISES;
	if (rule->prepare)
		facts |= PREPARES;
	if (p->local.rule)
		facts |= LOCAL;
	if (p->local.rule && (p->local.rule->traits & TW_RULE_PER_WORKER))
		facts |= LOCAL_PER_WORKER;
	return facts;
}

static uint64_t facts_of_line(const struct tw_plan *p)
{
	uint64_t facts = 0;

	if (p->staleness->correct)
		facts |= POLICY;
	if (p->staleness->traits & TW_STALENESS_SENT &&
	    !(p->staleness->traits & TW_STALENESS_OBSERVES))
		facts |= SENT;
	if (p->staleness->traits & TW_STALENESS_STATISTIC)
		facts |= STATISTIC;
	if (p->staleness->traits & TW_STALENESS_SCALES)
		facts |= SCALES;
	if (p->near.rule)
		facts |= MOMENTUM;
	if (p->traffic.push > 1)
		facts |= PUSHES_LATE;
	if (p->traffic.fetch > 1)
		facts |= FETCHES_LATE;
	if (!isnan(p->traffic.skip_push) || !isnan(p->traffic.skip_fetch))
		facts |= SKIPS;
	if (p->traffic.merge == TW_MERGE_KEEP)
		facts |= KEEPS;
	if (!(p->traffic.up->traits & TW_CODEC_IDENTITY))
		facts |= UP_LOSSY;
	if (!(p->traffic.down->traits & TW_CODEC_IDENTITY))
		facts |= DOWN_LOSSY;
	if (!(p->traffic.down->traits & TW_CODEC_DOWN))
		facts |= NOT_DOWN;
	if (p->decay > 0)
		facts |= DECAYS;
	if (p->delay.steps)
		facts |= DELAYED;
	if (p->crew.workers > 1)
		facts |= MANY;
	if (!isnan(p->ends.accuracy))
		facts |= ACCURACY;
	return facts;
}

/* The field itself where it is a mapping (skip:), whichever of its fields was given. */
static const char *blamed(const struct tw_job *job, const char *field)
{
	if (strcmp(field, "strategy.skip") != 0)
		return field;
	return tw_job_given(job, "strategy.skip.push") ? "strategy.skip.push"
						       : "strategy.skip.fetch";
}

static enum tw_status refuse_combination(const struct tw_job *job, const struct refusal *r,
					 struct tw_error *why)
{
	const char *field = blamed(job, r->field);
	const struct tw_field *f = tw_job_field(job, field);
	const struct tw_field *b = r->because ? tw_job_field(job, r->because) : NULL;
	const char *place = job->file;

	if (b && b->from)
		place = b->from->place;
	if (f && f->from && (f->from->origin != TW_FROM_PRESET || place == job->file))
		place = f->from->place;
	return tw_fail(why, TW_BAD_INPUT, "%.300s: %s: %s", place, field, r->sentence);
}

static enum tw_status check_combinations(const struct tw_job *job, struct tw_error *why)
{
	const bool scored = job->model == TW_MODEL_EXTERNAL ||
			    (job->loss.op && tw_loss_of(job->loss.op)->judges);
	const uint64_t world = job->world == TW_WORLD_SIM   ? IN_SIM
			       : job->world == TW_WORLD_TCP ? IN_TCP
							    : 0;
	const uint64_t facts = world | (scored ? SCORED : 0) | facts_of_gate(job) |
			       facts_of_rule(&job->plan) | facts_of_line(&job->plan);

	for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++)
		if ((facts & refusals[k].with) == refusals[k].with &&
		    !(facts & refusals[k].without))
			return refuse_combination(job, &refusals[k], why);
	return TW_OK;
}

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
	if (p->crew.workers == 1)
		return tw_job_refuse(job, why, "strategy.gate",
				     "%s asks for more than the one worker there is; use cluster: "
				     "{workers: 2} or more, or gate: async",
				     p->gate->name);
	return refuse_said(job, "strategy", &said, why);
}

static enum tw_status check_sim(const struct tw_job *job, struct tw_error *why)
{
	struct tw_error said = { 0 };

	if (job->world != TW_WORLD_SIM)
		return TW_OK;
	if (tw_sim_check(&job->sim, &said) != TW_OK)
		return refuse_said(job, "sim", &said, why);
	if (job->sim.speeds.count > job->cluster.workers)
		return tw_job_refuse(job, why, "sim.speeds",
				     "has %zu speeds for %u workers; leave the last out, or use "
				     "more workers",
				     job->sim.speeds.count, job->cluster.workers);
	if (job->sim.stragglers > job->cluster.workers)
		return tw_job_refuse(job, why, "sim.stragglers.count",
				     "%u is more than all %u workers; use 0 to %u",
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
		  "goes with every sim.compute.law but log-normal; use median:, or another law" },
		{ "sim.compute.median",
		  "goes only with sim.compute.law: log-normal; choose that, or use mean:" },
		{ "sim.compute.sigma",
		  "goes only with sim.compute.law: log-normal; choose that or leave this out" },
		{ "sim.compute.spread",
		  "goes only with sim.compute.law: uniform; choose that or leave this out" },
		{ "sim.compute.shape", "goes only with sim.compute.law: gamma or pareto; choose "
				       "that or leave this out" },
		{ "sim.stragglers.slower",
		  "slows nobody while stragglers.count is 0; give count:, or leave this out" },
		{ "sim.stragglers.on",
		  "needs stragglers.count, .slower and .off beside it (slow for so long, then well "
		  "for so long); give these, or leave this out" },
		{ "sim.stragglers.off",
		  "needs stragglers.count, .slower and .on beside it (slow for so long, then well "
		  "for so long); give these, or leave this out" },
		{ "sim.delay.law",
		  "draws nothing while sim.delay.steps is 0; give steps:, or leave this out" },
		{ "sim.delay.ramp",
		  "leads nowhere while sim.delay.steps is 0; give steps:, or leave this out" },
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

	if (until && t->evaluate == 0)
		return tw_job_refuse(job, why, "train.evaluate",
				     "train.until looks at evaluations, and 0 makes none before "
				     "the end; use evaluate: 1, or leave until: out");
	if (t->evaluate > 0 && t->evaluate * (double)job->data.samples < 1.0)
		return tw_job_refuse(job, why, "train.evaluate",
				     "%g epochs are less than one of the %llu samples; use at "
				     "least %g, or 0",
				     t->evaluate, (unsigned long long)job->data.samples, step);
	return TW_OK;
}

static enum tw_status check_cluster(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_cluster *c = &job->cluster;

	if (job->world == TW_WORLD_THREADS && c->workers > TW_CROWD_THREADS)
		return tw_job_refuse(job, why, "cluster.workers",
				     "%u threads are more than one process may have; use 1 to %u, "
				     "or `thalweg sim`, which takes up to 100000 workers",
				     c->workers, TW_CROWD_THREADS);
	if (c->min > c->workers)
		return tw_job_refuse(job, why, "cluster.min",
				     "%u is more than all %u workers; use 1 to %u", c->min,
				     c->workers, c->workers);
	if (c->shards && c->servers > c->shards)
		return tw_job_refuse(job, why, "cluster.servers",
				     "%u servers would share %u shards, and some have none; use at "
				     "most %u, or more shards",
				     c->servers, c->shards, c->shards);
	return TW_OK;
}

static void said_time(char out[32], int64_t ns)
{
	static const struct tw_option row = { .name = "", .type = TW_TIME };

	tw_option_text(&row, &ns, out, 32);
}

/* What only processes do: say that they are alive, and run engines that came as text. */
static enum tw_status check_processes(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_cluster *c = &job->cluster;
	char heartbeat[32], suspect[32], limit[32];

	if (job->world != TW_WORLD_TCP)
		return TW_OK;
	said_time(heartbeat, c->heartbeat);
	said_time(suspect, c->suspect);
	said_time(limit, c->limit);
	if (c->suspect >= c->limit)
		return tw_job_refuse(job, why, "cluster.suspect",
				     "%s is not before the limit of %s, at which who is silent is "
				     "removed; use less, or a longer cluster.limit",
				     suspect, limit);
	if (c->heartbeat >= c->suspect)
		return tw_job_refuse(
			job, why, "cluster.heartbeat",
			"every %s is not more often than the %s after which silence is "
			"suspect; use less, or a longer cluster.suspect",
			heartbeat, suspect);
	if (job->model == TW_MODEL_EXTERNAL)
		return tw_job_refuse(job, why, "model.external.parameters",
				     "is a model of a program that links libthalweg, which other "
				     "processes do not have; use a network");
	return TW_OK;
}

static enum tw_status check_samples(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_data *d = &job->data;
	const uint32_t n = job->cluster.workers;
	const char *field = d->global_batch ? "data.global_batch" : "data.batch";
	const uint64_t batch = d->global_batch ? ((uint64_t)d->global_batch + n - 1) / n : d->batch;
	const double all = (double)batch * d->accumulate * job->strategy.push;

	if (batch > d->samples)
		return tw_job_refuse(job, why, field,
				     "%llu samples per worker are more than the %llu of an epoch; "
				     "use less, or more data.samples",
				     (unsigned long long)batch, (unsigned long long)d->samples);
	if (all > (double)CONTRIBUTION_MOST)
		return tw_job_refuse(job, why,
				     job->strategy.push > 1 ? "strategy.push"
				     : d->accumulate > 1    ? "data.accumulate"
							    : field,
				     "push * accumulate * batch = %.0f samples are more than the "
				     "%u of the largest contribution; use at most %u in all",
				     all, CONTRIBUTION_MOST, CONTRIBUTION_MOST);
	if (all > (double)d->samples)
		return tw_job_refuse(job, why,
				     job->strategy.push > 1 ? "strategy.push" : "data.accumulate",
				     "push * accumulate * batch = %.0f samples are more than the "
				     "%llu of an epoch; use less, or more data.samples",
				     all, (unsigned long long)d->samples);
	return TW_OK;
}

static enum tw_status check_model(const struct tw_job *job, struct tw_error *why)
{
	const struct tw_quadratic_options *q = &job->engine.quadratic;
	const struct tw_least_squares_options *l = &job->engine.least_squares;

	if (job->model == TW_MODEL_NETWORK && !job->data.from)
		return tw_job_refuse(job, why, "data.source",
				     "a network needs samples to learn from; use source: digits, "
				     "which needs no files, mnist, or one's own");
	if (job->model != TW_MODEL_NETWORK && job->data.from)
		return tw_job_refuse(job, why, "data.source",
				     "a made-up model makes its own samples; use source: none with "
				     "samples:, or a network");
	if (job->data.from && !job->data.from->splits && tw_job_given(job, "data.test"))
		return tw_job_refuse(job, why, "data.test",
				     "%s has a test set of its own; leave this out",
				     job->data.from->name);
	if (job->model == TW_MODEL_NETWORK || job->model == TW_MODEL_EXTERNAL)
		return TW_OK;
	if (job->model == TW_MODEL_LEAST_SQUARES) {
		if (l->blocks > l->dimension)
			return tw_job_refuse(job, why, "model.least-squares.blocks",
					     "more blocks than dimensions; use 0 to %llu",
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
		st = check_gate(job, why);
	if (st == TW_OK)
		st = check_combinations(job, why);
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
