/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.c - the section optimiser: a batch method in place of the sections update and
 * strategy. */
#include "spec/optimiser.h"

#include "spec/read.h"
#include "spec/refuse.h"
#include "strategy/gate.h"
#include "strategy/refusals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PORTIONS_MOST 1e7

enum tw_status tw_read_optimiser(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	enum tw_status st = tw_read_rows(r, "optimiser.", tw_optimiser_rows, &job->optimiser);

	if (st == TW_OK)
		st = tw_read_variant(r, "optimiser.name");
	if (tw_plan_optimises(&job->plan))
		job->plan.gate = &tw_gate_portions;
	return st;
}

/* --- completed ------------------------------------------------------------------------------ */

enum tw_status tw_job_complete_optimiser(struct tw_job *job, struct tw_error *why)
{
	struct tw_job_optimiser *o = &job->optimiser;
	struct tw_optimising *p = &job->plan.optimising;

	const struct tw_fact optimises = { "optimises", tw_plan_optimises(&job->plan) };
	enum tw_status st;

	if (!tw_facts_add(&job->facts, &optimises, 1))
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for its facts", job->file);
	tw_job_field(job, "optimiser.name")->silent = !optimises.is;
	if (!optimises.is)
		return TW_OK;
	st = tw_job_refuse_rows(job, tw_idle_optimiser, true, why);
	if (st != TW_OK)
		return st;
	if (tw_job_given(job, "checkpoint.cut") && job->checkpoint.cut != TW_CUT_DRAIN)
		return tw_job_refuse(
			job, why, "checkpoint.cut",
			"a checkpoint of an optimiser is made between two iterations, "
			"when all workers have finished; use drain, or leave this out");
	if (tw_job_given(job, "data.batch") && tw_job_given(job, "optimiser.portion"))
		return tw_job_refuse(job, why, "data.batch",
				     "is the same as optimiser.portion here; leave one out");
	if (tw_job_given(job, "data.batch") && !job->data.batch)
		return tw_job_refuse(job, why, "data.batch", "needs at least 1 sample");
	if (tw_job_given(job, "data.batch"))
		o->portion = job->data.batch;
	job->checkpoint.cut = TW_CUT_DRAIN;
	job->data.batch = o->portion;
	job->data.global_batch = 0;
	job->data.accumulate = 1;
	if (!tw_job_given(job, "train.epochs"))
		job->train.epochs = 0;                  /* no limit */
	tw_job_field(job, "data.batch")->silent = true; /* optimiser.portion says it */
	tw_job_field(job, "train.epochs")->silent = job->train.epochs == 0;
	o->how.fresh = o->batches == 1;
	p->how = o->how;
	p->backup = o->backup;
	return TW_OK;
}

enum tw_status tw_job_complete_evaluations(struct tw_job *job, struct tw_error *why)
{
	const struct tw_job_optimiser *o = &job->optimiser;
	struct tw_plan *p = &job->plan;
	const bool all = strcmp(o->batch, "all") == 0;
	char *end = NULL;
	const unsigned long long number = all ? 0 : strtoull(o->batch, &end, 10);
	const uint64_t most = (uint64_t)1 << 62;
	double positions, passes;

	if (!all && (!*o->batch || *end || *o->batch == '-' || !number))
		return tw_job_refuse(job, why, "optimiser.batch",
				     "needs a whole number of samples, such as 10000, or all, not "
				     "'%.40s'",
				     o->batch);
	if (number > job->data.samples)
		return tw_job_refuse(job, why, "optimiser.batch",
				     "%llu samples are more than the %llu of an epoch; use fewer, "
				     "or all",
				     number, (unsigned long long)job->data.samples);
	p->optimising.batch = all ? job->data.samples : number;
	p->optimising.portion =
		o->portion < p->optimising.batch ? o->portion : (uint32_t)p->optimising.batch;
	if ((double)tw_plan_portions(p) > PORTIONS_MOST)
		return tw_job_refuse(job, why, "optimiser.portion",
				     "makes %llu portions of a batch, and at most %.0f can be "
				     "tracked; use a larger portion",
				     (unsigned long long)tw_plan_portions(p), PORTIONS_MOST);
	job->data.batch = p->dealing.batch = p->optimising.portion;
	passes = floor(job->train.epochs * (double)job->data.samples / (double)p->optimising.batch);
	p->optimising.how.evaluations = o->how.evaluations;
	if (job->train.epochs > 0 && (!o->how.evaluations || passes < (double)o->how.evaluations))
		p->optimising.how.evaluations = passes < 1 ? 1 : (uint64_t)fmin(passes, 1e15);
	/* the line search of the last iteration may exceed the limit */
	positions = ((double)p->optimising.how.evaluations + 2 * (double)o->how.trials + 4) *
		    (double)p->optimising.batch;
	p->dealing.positions = p->optimising.how.evaluations && positions < (double)most
				       ? (uint64_t)positions
				       : most;
	p->ends.updates = 0;
	p->ends.time = job->train.time;
	return TW_OK;
}

enum tw_status tw_job_check_optimiser(const struct tw_job *job, const struct tw_engine *engine,
				      struct tw_error *why)
{
	if (!tw_plan_optimises(&job->plan) || !engine->buffers)
		return TW_OK;
	return tw_job_refuse(job, why, "optimiser.name",
			     "a line search compares losses of one function, and running "
			     "statistics (batch normalisation) change that function from step to "
			     "step; use a model without them, such as one with layernorm, or leave "
			     "optimiser: out");
}
