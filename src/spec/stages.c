/* SPDX-License-Identifier: Apache-2.0 */
/* stages.c - from `cluster.stages`, `model.stages` and `strategy.pipeline` to the stages of a plan.
 *
 *  (1) a shard belongs to one stage: the borders of stages are borders of shards, among trainable
 *      parameters as among buffers. */
#include "spec/stages.h"

#include "spec/field.h"
#include "spec/help/suggest.h"

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
