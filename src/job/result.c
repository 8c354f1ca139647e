/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - what a run says at its end, as one JSON object. */
#include "job/result.h"

#include "job/digest.h"
#include "job/field.h"
#include "vec/clone.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *tw_result_evaluated(const struct tw_plan *plan)
{
	if (plan->send == TW_SEND_MOMENTUM)
		return "Theta (dana-slim)";
	if (strcmp(plan->rule->name, "dana") == 0)
		return "theta (dana)";
	if (strcmp(plan->rule->name, "nag") == 0)
		return "theta (nag)";
	return "w";
}

/* JSON has no NaN: what is not a number is null. */
static json_t *number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

/* Beyond what JSON libraries call an integer it is a text of digits. */
static json_t *count(uint64_t n)
{
	if (n > INT64_MAX)
		return json_sprintf("%" PRIu64, n);
	return json_integer((json_int_t)n);
}

/* Entry k counts contributions applied k updates late; the last of TW_HISTOGRAM, if it is there,
 * all that were later. */
static json_t *staleness(const struct tw_tally *t)
{
	json_t *bins = json_array();
	size_t last = TW_HISTOGRAM;

	while (last > 0 && t->histogram[last - 1] == 0)
		last--;
	for (size_t i = 0; bins && i < last; i++)
		json_array_append_new(bins, count(t->histogram[i]));
	return json_pack("{s:o, s:o, s:o}", "mean",
			 number(t->staleness_count
					? (double)t->staleness_sum / (double)t->staleness_count
					: 0.0),
			 "max", count(t->staleness_max), "histogram", bins);
}

static enum tw_status digests(const struct tw_plan *plan, const struct tw_totals *t, json_t *r)
{
	const size_t all = plan->trainable + plan->buffers;
	char text[TW_DIGEST_TEXT];
	enum tw_status status;

	if (!t->vector) {
		json_object_set_new(r, "parameters_digest", json_null());
		json_object_set_new(r, "buffers_digest", json_null());
		return TW_OK;
	}
	status = tw_digest_floats(t->vector, plan->border, plan->shards, 0, plan->trainable, text);
	if (status != TW_OK)
		return status;
	json_object_set_new(r, "parameters_digest", json_string(text));
	status =
		tw_digest_floats(t->vector, plan->border, plan->shards, plan->trainable, all, text);
	if (status != TW_OK)
		return status;
	json_object_set_new(r, "buffers_digest", json_string(text));
	return TW_OK;
}

static void set(json_t *r, const char *name, json_t *value)
{
	json_object_set_new(r, name, value ? value : json_null());
}

static void measures(const struct tw_totals *t, double seconds, json_t *r)
{
	set(r, "loss", number(t->loss));
	set(r, "accuracy", t->accuracy < 0.0 ? json_null() : number(t->accuracy));
	set(r, "epochs", number(t->epochs));
	set(r, "steps", count(t->steps));
	set(r, "updates", number(t->updates));
	set(r, "samples", count(t->samples));
	set(r, "seconds", number(seconds));
	set(r, "samples_per_second", number(seconds > 0.0 ? (double)t->samples / seconds : 0.0));
}

static void counts(const struct tw_ran *ran, json_t *r)
{
	const struct tw_totals *t = &ran->totals;

	set(r, "staleness", staleness(&t->tally));
	set(r, "bytes_sent", count(ran->bytes_sent));
	set(r, "bytes_received", count(ran->bytes_received));
	set(r, "dropped", count(t->dropped));
	set(r, "refused", count(t->refused));
	set(r, "redealt", count(t->redealt));
	set(r, "repeated", count(t->repeated));
	set(r, "lost_updates", count(t->lost_updates));
}

enum tw_status tw_result_make(const struct tw_job *job, const struct tw_ran *ran,
			      const struct tw_result_facts *facts, json_t **out,
			      struct tw_error *why)
{
	const struct tw_plan *plan = &job->plan;
	json_t *r = json_object();
	enum tw_status status;

	if (!r)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the result");
	set(r, "strategy", json_string(job->title));
	set(r, "seed", count(plan->seed));
	set(r, "world", json_string(tw_job_world(job->world)));
	set(r, "interrupted", json_boolean(facts->interrupted));
	set(r, "evaluated", json_string(tw_result_evaluated(plan)));
	measures(&ran->totals, facts->seconds, r);
	set(r, "workers", count(plan->workers));
	set(r, "shards", count(plan->shards));
	set(r, "parameters", count(plan->trainable));
	counts(ran, r);
	status = digests(plan, &ran->totals, r);
	set(r, "isa", json_string(tw_isa_name(tw_isa())));
	set(r, "threads", json_integer(1));
	set(r, "checkpoint", facts->checkpoint ? json_string(facts->checkpoint) : json_null());
	if (job->world == TW_WORLD_SIM) {
		set(r, "virtual_seconds", number((double)ran->virtual_ns / (double)TW_SECOND));
		set(r, "events", count(ran->events));
	}
	if (status != TW_OK) {
		json_decref(r);
		return tw_fail(why, status, "the parameters at the end cannot be digested: %s",
			       tw_status_name(status));
	}
	*out = r;
	return TW_OK;
}
