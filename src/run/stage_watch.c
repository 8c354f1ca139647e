/* SPDX-License-Identifier: Apache-2.0 */
/* stage_watch.c - times of stages, minute by minute, and the cuts that would make them equal. */
#include "run/stage_watch.h"

#include "engine/stages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE      (60 * (int64_t)1000000000)
#define LEAST       8 /* micro-batches of a stage, or its time is not known */
#define UNEVEN      1.15
#define STAGES_MOST 64

struct sums {
	double micros, seconds; /* of all lanes of a stage, in all workers */
};

struct tw_stage_watch {
	const struct tw_job *job;
	const struct tw_engine *engine;
	struct tw_stage_figures *figures;
	const struct tw_log *log;
	int64_t began; /* of this minute; INT64_MIN: nothing has been heard */
	struct sums before[STAGES_MOST];
	char said[600]; /* the last line: it is not repeated */
};

struct tw_stage_watch *tw_stage_watch_new(const struct tw_job *job, const struct tw_engine *engine,
					  struct tw_stage_figures *figures,
					  const struct tw_log *log)
{
	struct tw_stage_watch *w = calloc(1, sizeof *w);

	if (w) {
		w->job = job;
		w->engine = engine;
		w->figures = figures;
		w->log = log;
		w->began = INT64_MIN;
	}
	return w;
}

void tw_stage_watch_free(struct tw_stage_watch *w)
{
	free(w);
}

static void add_up(const struct tw_stage_watch *w, struct sums *out)
{
	const struct tw_plan *p = &w->job->plan;

	memset(out, 0, p->staging.stages * sizeof *out);
	for (uint32_t slot = 0; slot < p->crew.workers; slot++)
		for (uint32_t c = 0; c < tw_plan_cells(p); c++) {
			const struct tw_stage_work work =
				tw_stage_figures_of(w->figures, slot, c).work;
			struct sums *s = &out[tw_plan_stage_of(p, c)];

			s->micros += (double)work.backwards;
			s->seconds += (double)(work.forward_time + work.backward_time) * 1e-9;
		}
}

/* Where its stages would be cut if each part took as long as on the machines of its stage now, and
 * how many times as fast the slowest would be; false: nowhere else. */
static bool cut_better(const struct tw_stage_watch *w, const double *time, char *text, size_t room,
		       double *faster)
{
	const struct tw_staging *s = &w->job->plan.staging;
	const struct tw_engine *e = w->engine;
	double *compute = malloc(2 * e->cuts * sizeof *compute), speed[STAGES_MOST];
	bool *counts = malloc(e->cuts * sizeof *counts), other = false;
	uint32_t cut[STAGES_MOST + 1] = { 0 };
	const struct tw_stage_costs costs = { .compute = compute,
					      .counts = counts,
					      .parts = e->cuts - 1,
					      .lanes = s->lanes,
					      .speed = speed };
	double before = 0, after = 0;
	size_t used = 0;

	if (compute && counts)
		tw_stages_flops(e, compute, compute + e->cuts, counts);
	for (uint32_t k = 0; compute && counts && k < s->stages; k++) {
		const double lanes = s->stage[k].lanes;
		double work = 0;

		for (uint32_t i = s->stage[k].first; i < s->stage[k].last; i++)
			work += compute[i];
		speed[k] = work / (time[k] * lanes);
		before = fmax(before, time[k]);
	}
	if (!compute || !counts ||
	    tw_stages_balance(&tw_heap_system, &costs, s->stages, cut + 1) != TW_OK) {
		free(compute);
		free(counts);
		return false;
	}
	cut[s->stages] = (uint32_t)e->cuts - 1;
	text[0] = '\0';
	for (uint32_t k = 0; k < s->stages; k++) {
		double work = 0;

		for (uint32_t i = cut[k]; i < cut[k + 1]; i++)
			work += compute[i];
		after = fmax(after, work / (speed[k] * s->stage[k].lanes));
		other = other || cut[k] != s->stage[k].first;
		if (k && used < room)
			used += (size_t)snprintf(text + used, room - used, "%s%s",
						 k > 1 ? ", " : "", e->cut[cut[k]].after);
	}
	*faster = before / after;
	free(compute);
	free(counts);
	return other && *faster > 1;
}

/* One line, where the slowest stage is too slow. */
static void judge(struct tw_stage_watch *w, const double *time)
{
	const uint32_t stages = w->job->plan.staging.stages;
	char line[sizeof w->said], cuts[300];
	double mean = 0, faster = 1;
	uint32_t slowest = 0;

	for (uint32_t k = 0; k < stages; k++) {
		mean += time[k] / stages;
		slowest = time[k] > time[slowest] ? k : slowest;
	}
	if (!(time[slowest] > UNEVEN * mean))
		return;
	if (w->job->model == TW_MODEL_NETWORK && cut_better(w, time, cuts, sizeof cuts, &faster))
		snprintf(
			line, sizeof line,
			"stage %u holds up the others: for a minute it took %.2f times the mean of "
			"all stages; model.stages: [%s] would be about %.2f times as fast, and "
			"needs a new run",
			slowest, time[slowest] / mean, cuts, faster);
	else
		snprintf(
			line, sizeof line,
			"stage %u holds up the others: for a minute it took %.2f times the mean of "
			"all stages; no other cut into %u stages is better",
			slowest, time[slowest] / mean, stages);
	/* the same stage and advice is not news */
	if (strncmp(line, w->said, strcspn(line, ":")) == 0)
		return;
	memcpy(w->said, line, sizeof line);
	tw_log_line(w->log, TW_WARNING, "pipeline", "%s", line);
}

void tw_stage_watch_note(struct tw_stage_watch *w, const struct tw_note *n)
{
	const uint32_t stages = w->job->plan.staging.stages;
	struct sums now[STAGES_MOST];
	double time[STAGES_MOST];
	bool known = true;

	if (n->kind != TW_NOTE_STAGE || (w->began != INT64_MIN && n->at - w->began < MINUTE))
		return;
	add_up(w, now);
	for (uint32_t k = 0; k < stages; k++) {
		const double micros = now[k].micros - w->before[k].micros;

		known = known && micros >= LEAST;
		time[k] = (now[k].seconds - w->before[k].seconds) /
			  (micros * w->job->plan.staging.stage[k].lanes);
	}
	if (w->began != INT64_MIN && known && stages > 1)
		judge(w, time);
	if (w->began == INT64_MIN || known) {
		w->began = n->at;
		memcpy(w->before, now, stages * sizeof *now);
	}
}
