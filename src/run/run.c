/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - a job, run in its world, with its directory, to its result. */
#include "run/run.h"

#include "base/machine/regular_file.h"
#include "graph/onednn.h"
#include "checkpoint/model_card.h"
#include "run/memory_check.h"
#include "spec/field.h"
#include "run/placement.h"
#include "checkpoint/last_good_checkpoint.h"
#include "run/rate_test.h"
#include "run/result.h"
#include "run/stage_watch.h"
#include "run/transfer.h"
#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_read.h"
#include "checkpoint/tensors.h"
#include "node/checkpoint_part.h"
#include "base/machine/isa.h"
#include "world/memory_store.h"
#include "world/threads/threads.h"
#include "world/trace.h"
#include "checkpoint/export.h"
#include "run/open_engine.h"
#include "run/tensors_file.h"
#include "engine/network.h"
#include "spec/help/suggest.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR (3600 * TW_SECOND)

/* Everything a run holds, so that whatever happens it is let go in one place. */
struct run {
	const struct tw_run_request *request;
	struct tw_job *job;
	struct tw_engine *engine;
	struct tw_run_directory *dir;
	struct tw_store_facts facts;
	char job_file[PATH_MAX];
	struct tw_store *store;
	struct tw_placement cast;
	struct tw_watch watch;
	struct tw_ran ran;
	struct tw_json_lines metrics;    /* until the watch has it */
	struct tw_stage_figures *stages; /* NULL: workers have no cells */
	struct tw_stage_watch *balance;  /* likewise */
	uint64_t cut;                    /* resumed from; 0: from the beginning */
	int64_t began;
	int64_t start, release; /* of the virtual clock, and when a resumed run continues */
	/* after divergences */
	double rate;       /* the job's own update.rate */
	uint32_t restarts; /* so far */
	bool again;        /* this part has diverged, and another one follows */
	/* the world tcp */
	struct tw_tcp *tcp;
	struct tw_transfer_set *set;
	char *text; /* of the job, for joiners */
	struct tw_address listen;
	uint16_t port; /* where the part before this one listened; 0: none */
};

/* --- the store --- */

/* A resumed simulation must draw what the run that was not stopped drew: its clock starts well
 * before the moment at which the cut let everybody go on. */
static enum tw_status find_start(struct run *r, struct tw_error *why)
{
	const size_t all = r->engine->trainable + r->engine->buffers;
	struct tw_part *parts = NULL;
	enum tw_status status;
	size_t count = 0;
	uint64_t cut = 0;

	status = r->store->look(r->store, 0, 0, &cut, &parts, &count);
	if (status != TW_OK)
		return tw_fail(why, status, "the checkpoints in %s cannot be read: %s",
			       tw_run_directory_path(r->dir),
			       tw_dir_store_error(r->store)->text[0]
				       ? tw_dir_store_error(r->store)->text
				       : tw_status_name(status));
	if (!cut)
		tw_log_line(r->request->log, TW_INFO, "run",
			    "%s has no checkpoint yet: starting from the beginning",
			    tw_run_directory_path(r->dir));
	if (cut) {
		tw_log_line(r->request->log, TW_INFO, "run", "resuming from %s/ckpt-%" PRIu64,
			    tw_run_directory_path(r->dir), cut);
		if (r->job->world == TW_WORLD_SIM) {
			r->release = tw_master_release_time(parts, count);
			r->start = r->release - HOUR;
		}
	}
	r->cut = cut;
	if (cut)
		status = tw_cut_is_whole(&tw_heap_system, parts, count, all);
	if (status != TW_OK)
		tw_fail(why, status == TW_BAD_BYTES ? TW_BAD_INPUT : status,
			"%s/ckpt-%" PRIu64 " cannot be used: its parts are not the master's and "
			"%zu parameters; move it away to resume from the one before it",
			tw_run_directory_path(r->dir), cut, all);
	r->store->loaded_free(r->store, parts, count);
	return status == TW_OK ? TW_OK : why->status;
}

static enum tw_status describe(const struct run *r, json_t **out, struct tw_error *why)
{
	struct tw_tensors layout;

	if (tw_tensors_of_engine(&tw_heap_system, r->engine, &layout) == TW_OK)
		*out = tw_tensors_json(&layout);
	tw_tensors_release(&layout);
	return *out ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the names of tensors");
}

/* Who writes checkpoints has the data: the card says how it was read. */
static enum tw_status describe_model(const struct run *r, json_t **out, struct tw_error *why)
{
	struct tw_card *card = NULL;
	enum tw_status status = tw_card_make(r->job, r->engine, &card, why);

	if (status == TW_OK && !(*out = tw_card_json(card)))
		status = tw_fail(why, TW_NO_MEMORY, "no memory for the model card");
	tw_card_free(card);
	return status;
}

static enum tw_status open_store(struct run *r, struct tw_error *why)
{
	enum tw_status status;

	if (!r->request->dir) {
		r->store = tw_memory_store_new(&tw_heap_system);
		return r->store ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for checkpoints");
	}
	status = tw_run_directory_open(r->request->dir, r->job, r->request->again, r->request->log,
				       &r->dir, why);
	if (status != TW_OK)
		return status;
	r->facts = (struct tw_store_facts){
		.job_hash = r->job->plan.checkpoint.job_hash,
		.job_text = tw_run_directory_job_text(r->dir),
		.job_file = realpath(r->job->file, r->job_file) ? r->job_file : "",
		.epoch_samples = r->job->plan.problem.samples,
		.isa = tw_isa_name(tw_isa()),
		.threads = 1,
		.keep = r->job->checkpoint.keep,
		.constants = r->engine->constants,
		.moving = tw_engine_moving(r->engine),
	};
	status = describe(r, &r->facts.layout, why);
	if (status == TW_OK)
		status = describe_model(r, &r->facts.card, why);
	if (status != TW_OK)
		return status;
	status = tw_dir_store_open(&tw_heap_system, r->request->dir, &r->facts, r->request->log,
				   &r->store, why);
	if (status == TW_OK && tw_run_directory_resumes(r->dir))
		status = find_start(r, why);
	if (status == TW_OK)
		tw_dir_store_counted(r->store, &r->ran);
	return status;
}

/* --- other processes --- */

static enum tw_status give_set(void *arg, uint64_t from, void *to, size_t bytes)
{
	return tw_transfer_set_read(arg, from, to, bytes);
}

static enum tw_status open_net(struct run *r, struct tw_error *why)
{
	struct tw_tcp_setup *net = r->request->net;
	struct tw_tcp_options o = { .role = TW_TCP_SERVE, .master_fd = -1 };
	enum tw_status status;

	status = tw_tcp_setup_options(net, r->job, r->engine, r->request->log, &o, why);
	if (r->port) { /* those who joined come back */
		r->listen = *net->listen;
		r->listen.port = r->port;
		o.listen = &r->listen;
	}
	if (status == TW_OK)
		status = tw_transfer_text(r->job, &r->text, &o.job_bytes, why);
	if (status == TW_OK && net->listen) {
		struct tw_error none = { 0 };

		status = tw_transfer_set_open(r->job, r->engine, &r->set, &none);
		if (status != TW_OK && status != TW_ABSENT)
			return tw_fail(why, status, "%s", none.text);
		status = TW_OK;
	}
	if (status == TW_OK)
		status = tw_tcp_setup_identity(r->dir ? tw_run_directory_path(r->dir) : NULL,
					       r->dir && tw_run_directory_resumes(r->dir),
					       &o.identity, why);
	if (status != TW_OK)
		return status;
	o.job_text = r->text;
	o.data_bytes = r->set ? tw_transfer_set_bytes(r->set) : 0;
	o.data_read = give_set;
	o.data_arg = r->set;
	status = tw_tcp_open(&o, &r->tcp, why);
	if (status == TW_OK && net->opened && !r->port)
		net->opened(net->arg, tw_tcp_bound(r->tcp));
	if (status == TW_OK && net->listen)
		r->port = tw_tcp_bound(r->tcp)->port;
	return status;
}

/* --- running --- */

static bool observe(void *arg, const struct tw_note *n)
{
	struct run *r = arg;
	const struct tw_run_request *q = r->request;
	const bool waits = r->tcp && r->dir && !r->watch.dealt;
	const bool go_on = tw_watch_note(&r->watch, n);

	if (waits && r->watch.dealt) /* waiting for others to join is not training */
		tw_dir_store_began(r->store, r->watch.began);

	if (q->net && q->net->gauges)
		tw_gauges_note(q->net->gauges, n);
	if (r->stages) {
		tw_stage_figures_note(r->stages, n);
		tw_stage_watch_note(r->balance, n);
	}

	return (!q->observer || q->observer(q->observer_arg, n)) && go_on;
}

static void enter_world(struct run *r)
{
	const struct tw_run_request *q = r->request;
	const struct tw_plan *p = &r->job->plan;
	const struct tw_cluster cluster = {
		.seat = r->cast.seat,
		.seats = r->cast.seats,
		.nodes = tw_placement_nodes(p),
		.cells = tw_plan_cells(p),
		.seed = p->seed,
		.engine = r->engine,
		.desk = q->desk,
		.store = r->store,
		.heap = &tw_heap_system,
		.log = q->log,
		.observer = r->dir || q->show || q->metrics || q->observer || q->net || r->stages ||
					    (q->log && q->log->sink)
				    ? observe
				    : NULL,
		.observer_arg = r,
		.interrupted = q->interrupted,
		.trace = q->trace,
	};

	if (r->job->world == TW_WORLD_SIM) {
		struct tw_sim_options options = r->job->sim;

		if (q->threads)
			options.threads = q->threads;
		options.start = r->start;
		options.rest = r->release;
		tw_sim_run(&cluster, &options, r->job->fault, r->job->faults, q->trace, 0, &r->ran);
	} else if (r->tcp) {
		tw_tcp_setup_attach(q->net, r->tcp);
		tw_tcp_run(r->tcp, &cluster, &r->ran);
		tw_tcp_setup_attach(q->net, NULL);
	} else if (q->ranks) {
		tw_ranks_run(q->ranks, &cluster, p, &r->ran);
	} else {
		const struct tw_threads_options options = {
			.lockfree = (p->gate->traits & TW_GATE_LOCKFREE) != 0,
		};

		tw_threads_run(&cluster, &options, &r->ran);
	}
}

/* Outside the simulator each process has a clock of its own; the limit is the run's. */
static void subtract_time(struct run *r)
{
	struct tw_plan *p = &r->job->plan;
	const double used = r->dir ? tw_dir_store_seconds(r->store) : 0.0;

	if (r->job->world == TW_WORLD_SIM || !p->ends.time)
		return;
	p->ends.time -= (int64_t)(used * (double)TW_SECOND);
	if (p->ends.time < TW_SECOND / 1000)
		p->ends.time = TW_SECOND / 1000;
}

static void add_counts(struct run *r)
{
	const struct tw_store_counts before =
		r->dir ? tw_dir_store_counts(r->store) : (struct tw_store_counts){ 0 };

	r->ran.bytes_sent += before.bytes_sent;
	r->ran.bytes_received += before.bytes_received;
	r->ran.events += before.events;
}

/* What was resolved, for -v. */
static void say_details(const struct run *r)
{
	const struct tw_log *log = r->request->log;
	const struct tw_plan *p = &r->job->plan;
	char hash[TW_SHA_TEXT];

	tw_log_line(log, TW_DEBUG, "run",
		    "%s: gate %s, staleness %s, rule %s, codecs %s up and %s down; %u workers, %u "
		    "servers, %u shards of %zu parameters; isa %s",
		    r->job->title, p->gate->name, p->staleness->name, tw_plan_update(p)->rule->name,
		    p->traffic.up->name, p->traffic.down->name, p->crew.workers, p->crew.servers,
		    p->problem.shards, p->problem.trainable + p->problem.buffers,
		    tw_isa_name(tw_isa()));
	if (r->dir)
		tw_log_line(log, TW_DEBUG, "run",
			    "checkpoints go to %s, the newest %u are kept; job hash %s",
			    tw_run_directory_path(r->dir), r->job->checkpoint.keep,
			    tw_sha_text(&p->checkpoint.job_hash, hash));
	else
		tw_log_line(log, TW_DEBUG, "run", "nothing is kept without --run DIR");
}

/* What the parts of the run before this one came to. */
static struct tw_earlier earlier(const struct run *r)
{
	struct tw_earlier e = { .time = 0.0 };

	if (!r->dir)
		return e;
	e.seconds = tw_dir_store_seconds(r->store);
	e.bytes = tw_dir_store_counts(r->store).bytes_sent;
	if (r->job->world == TW_WORLD_SIM || !r->cut)
		return e;
	/* the log's own clock goes on: saving took a moment, too */
	e.time = tw_run_directory_cut_time(r->dir, r->cut);
	if (e.time < e.seconds)
		e.time = e.seconds;
	return e;
}

/* Where others must join first, training begins when they have. */
static int64_t waited(const struct run *r)
{
	return r->tcp && r->watch.dealt ? r->watch.began - r->began : 0;
}

static enum tw_status make_result(struct run *r, bool diverged, json_t **result,
				  struct tw_error *why)
{
	const double before = r->dir ? tw_dir_store_seconds(r->store) : 0.0;
	const bool virtual = r->job->world == TW_WORLD_SIM;
	const int64_t now = tw_clock();
	struct tw_result_facts facts = {
		.seconds = (double)(now - r->began - waited(r)) / (double)TW_SECOND + before,
		.goal_seconds = (double)(r->ran.totals.goal.at - waited(r)) / (double)TW_SECOND +
				(virtual ? 0.0 : before),
		.interrupted = r->ran.error.status == TW_INTERRUPTED,
		.diverged = diverged,
		.restarts = r->restarts,
		.stages = r->stages,
	};
	char path[4200];

	if (r->dir && r->ran.totals.cut) {
		snprintf(path, sizeof path, "%s/ckpt-%" PRIu64, tw_run_directory_path(r->dir),
			 r->ran.totals.cut);
		facts.checkpoint = path;
	}
	return tw_result_make(r->job, &r->ran, &facts, result, why);
}

/* A rate to try after one that was too high: a tenth of it, and never more than the usual one. */
static double lower_rate(const struct tw_job *job)
{
	const struct tw_rule *rule = tw_rule_find(job->update.rule);
	const double tenth = job->update.schedule.rate / 10.0;

	return rule && tenth > rule->rate.standard ? rule->rate.standard : tenth;
}

/* What to do after a divergence: in the same directory it works as it is said here. */
static void remedy(const struct run *r, char *out, size_t room)
{
	const double rate = r->job->update.schedule.rate;
	size_t n;

	if (!r->dir) {
		snprintf(out, room, "use a lower rate, such as update.rate=%g (it is %g)",
			 lower_rate(r->job), rate);
		return;
	}
	n = (size_t)snprintf(out, room,
			     "run the same command again with a lower rate, such as --set "
			     "update.rate=%g (it is %g), or with --set update.clip=1: ",
			     lower_rate(r->job), rate);
	if (r->ran.totals.cut)
		snprintf(out + n, room - n, "it resumes from %.200s/ckpt-%" PRIu64,
			 tw_run_directory_path(r->dir), r->ran.totals.cut);
	else
		snprintf(out + n, room - n, "it starts over, because no checkpoint is usable");
}

/* What else helps: targets of the usual size, and a rule that does not mind the size of gradients.
 */
static void other_remedies(const struct run *r, char *out, size_t room)
{
	const struct tw_data *d = tw_network_data(r->engine);
	const struct tw_rule *rule = tw_rule_find(r->job->update.rule);
	struct tw_target_scale s;
	char rules[120];
	size_t n = 0;

	*out = '\0';
	if (r->job->data.from && d && !d->target_scale && tw_data_targets_are_far(d, &s))
		n = (size_t)snprintf(
			out, room,
			"; or start another run with data.normalise_targets: standard, "
			"since the targets have mean %.3g and deviation %.3g",
			s.mean, s.deviation);
	if (rule && !(rule->traits & TW_RULE_NORMALISES) && !tw_plan_optimises(&r->job->plan))
		snprintf(out + n, room - n, "; or start another run with update.rule: %s",
			 tw_suggest(r->job, "[normalising rule]", rules, sizeof rules));
}

/* Parameters stay finite, since what is not is refused; but there is nothing more to learn. */
static enum tw_status diverged(const struct run *r, struct tw_error *why)
{
	char what[450], also[400];

	remedy(r, what, sizeof what);
	other_remedies(r, also, sizeof also);
	return tw_fail(why, TW_REFUSED,
		       "training diverged after %.4g epochs: the loss is not a number any more; "
		       "%s%s",
		       r->ran.totals.applied / (double)r->job->plan.problem.samples, what, also);
}

/* It is no result to be kept.  The directory is left so that training can resume with another rate:
 * the newest checkpoint is a good one, or there is none. */
static enum tw_status leave_diverged(struct run *r, struct tw_error *why)
{
	enum tw_status status;

	if (!r->dir)
		return TW_OK;
	status = tw_last_good_checkpoint(tw_run_directory_path(r->dir), r->engine, r->request->log,
					 &r->ran.totals.cut);
	if (status == TW_OK)
		status = tw_run_directory_diverged(r->dir);
	return status == TW_OK ? TW_OK
			       : tw_fail(why, status,
					 "training diverged, and the checkpoints in %s cannot be "
					 "sorted: %s; use --again",
					 tw_run_directory_path(r->dir), tw_status_name(status));
}

/* What was restarted so often trains with this rate. */
static double rate_after(const struct run *r, uint32_t restarts)
{
	double rate = r->rate;

	for (uint32_t k = 0; k < restarts; k++)
		rate *= r->job->train.restart_rate;
	return rate;
}

static bool may_restart(const struct run *r)
{
	const _Atomic int *signals = r->request->interrupted;

	return r->restarts < r->job->train.restarts && !(signals && *signals);
}

/* This part is over; the next one begins where leave_diverged left the directory. */
static enum tw_status restart(struct run *r, struct tw_error *why)
{
	const uint32_t number = r->restarts + 1;
	const double rate = rate_after(r, number);
	char from[300] = "the beginning";

	if (r->dir && r->ran.totals.cut)
		snprintf(from, sizeof from, "%.250s/ckpt-%" PRIu64, tw_run_directory_path(r->dir),
			 r->ran.totals.cut);
	if (r->dir && tw_run_directory_restarted(r->dir, number, r->rate) != TW_OK)
		return tw_fail(why, TW_IO, "training diverged, and %s/restarts cannot be written",
			       tw_run_directory_path(r->dir));
	tw_watch_line(&r->watch, json_pack("{s:s, s:f, s:I, s:I, s:f}", "event", "restart", "time",
					   r->watch.earlier.time + r->watch.now.world, "restart",
					   (json_int_t)number, "checkpoint",
					   (json_int_t)r->ran.totals.cut, "rate", rate));
	r->again = true;
	tw_fail(why, TW_CANCELLED,
		"training diverged after %.4g epochs: restart %" PRIu32 " of %" PRIu32
		", from %s, with update.rate=%g (it was %g)",
		r->ran.totals.applied / (double)r->job->plan.problem.samples, number,
		r->job->train.restarts, from, rate, r->job->update.schedule.rate);
	tw_log_line(r->request->log, TW_WARNING, "run", "%s", why->text);
	return TW_CANCELLED;
}

/* Was there something to apply, and was all of it refused? */
static bool none_applied(const struct run *r)
{
	return r->ran.totals.refused && r->ran.totals.updates == 0.0;
}

static enum tw_status unusable(const struct run *r, struct tw_error *why)
{
	char what[400];

	remedy(r, what, sizeof what);
	return tw_fail(why, TW_REFUSED,
		       "nothing was learnt: all %" PRIu64
		       " gradients were refused, because they are not finite; look at the data and "
		       "the initial weights, or %s",
		       r->ran.totals.refused, what);
}

static void write_result(struct tw_watch *w, json_t *made)
{
	json_t *line = json_pack("{s:s, s:f, s:O}", "event", "result", "time",
				 w->earlier.time + w->now.world, "result", made);

	tw_json_lines_put(&w->metrics, line);
	json_decref(line);
}

static void append(void *arg, const float *values, size_t n)
{
	float **to = arg;

	memcpy(*to, values, n * sizeof **to);
	*to += n;
}

static void copy_vector(const struct run *r)
{
	const struct tw_plan *p = &r->job->plan;
	struct tw_block *const *from = r->ran.totals.vector;
	struct tw_mingling model = { .of = p->problem.constants };
	float *to = r->request->vector;

	for (uint32_t s = 0; from && to && s < p->problem.shards; s++)
		tw_mingle(&model, tw_block_floats(from[s]),
			  p->problem.border[s + 1] - p->problem.border[s], append, &to);
}

static enum tw_status finish(struct run *r, json_t **result, struct tw_error *why)
{
	const struct tw_error *unsaved = r->dir ? tw_dir_store_error(r->store) : NULL;
	enum tw_status status = r->ran.error.status;
	json_t *made = NULL;

	if (status != TW_OK && status != TW_INTERRUPTED)
		return tw_fail(why, status, "%s%s%s",
			       r->ran.error.text[0] ? r->ran.error.text : tw_status_name(status),
			       unsaved && unsaved->status == status ? ": " : "",
			       unsaved && unsaved->status == status ? unsaved->text : "");
	if (r->watch.diverged ||
	    (status == TW_OK && (none_applied(r) || !isfinite(r->ran.totals.loss)))) {
		if (leave_diverged(r, why) != TW_OK)
			return why->status;
		if (may_restart(r))
			return restart(r, why);
		if (make_result(r, true, result, why) != TW_OK)
			return why->status;
		if (r->watch.metrics.file)
			write_result(&r->watch, *result);
		return none_applied(r) ? unusable(r, why) : diverged(r, why);
	}
	/* the last checkpoint is what a second run resumes from, or the trained parameters */
	if (unsaved && unsaved->status != TW_OK)
		return tw_fail(why, unsaved->status, "%s", unsaved->text);
	if (make_result(r, false, &made, why) != TW_OK)
		return why->status;
	if (status == TW_OK && r->dir && tw_run_directory_finish(r->dir, made, why) != TW_OK) {
		json_decref(made);
		return why->status;
	}
	if (r->watch.metrics.file) /* the directory has it as result.json */
		write_result(&r->watch, made);
	copy_vector(r);
	*result = made;
	return status;
}

static void release(struct run *r)
{
	tw_json_lines_close(&r->metrics);
	tw_json_lines_close(&r->watch.metrics);
	tw_tcp_close(r->tcp);
	tw_transfer_set_close(r->set);
	free(r->text);
	tw_totals_release(&r->ran.totals);
	tw_placement_release(&r->cast);
	tw_stage_watch_free(r->balance);
	tw_stage_figures_free(r->stages);
	r->balance = NULL;
	r->stages = NULL;
	if (r->dir || r->request->dir)
		tw_dir_store_close(r->store);
	else
		tw_memory_store_free(r->store);
	json_decref(r->facts.layout);
	json_decref(r->facts.card);
	tw_run_directory_close(r->dir);
}

static enum tw_status make_cast(struct run *r, struct tw_error *why)
{
	const bool virtual = r->job->world == TW_WORLD_SIM; /* other clocks begin at 0 again */
	const bool on_time = virtual && r->dir && tw_run_directory_resumes(r->dir);
	const struct tw_plan *p = &r->job->plan;
	struct tw_ranks *ranks = r->request->ranks;
	enum tw_status status;

	if (r->tcp)
		status = tw_placement_serve(&r->cast, p);
	else if (ranks)
		status = tw_ranks_cast(ranks, p, &r->cast);
	else
		status = tw_placement_init(&r->cast, p, on_time);
	if (status != TW_OK)
		return tw_fail(why, status, "no memory for the actors");
	if (!tw_plan_is_staged(p))
		return TW_OK;
	r->stages = tw_stage_figures_new(&tw_heap_system, p);
	r->balance = tw_stage_watch_new(r->job, r->engine, r->stages, r->request->log);
	return r->stages && r->balance
		       ? TW_OK
		       : tw_fail(why, TW_NO_MEMORY, "no memory for the figures of stages");
}

/* What `thalweg export` would write; NULL: there is none, and the log says why. */
static struct tw_block *for_keepers(const struct run *r)
{
	struct tw_error why = { 0 };
	struct tw_block *model = NULL;

	if (!r->dir)
		tw_fail(&why, TW_ABSENT, "the run has no directory");
	else
		tw_export_bytes(tw_run_directory_path(r->dir), r->request->log, &model, &why);
	if (!model)
		tw_log_line(r->request->log, TW_WARNING, "run",
			    "processes that joined with --save do not get the model: %s", why.text);
	return model;
}

/* Those who joined end with the run, and say what it came to. */
static void tell_joiners(struct run *r, enum tw_status status, const json_t *result,
			 const struct tw_error *why)
{
	const bool ended = status == TW_OK || status == TW_INTERRUPTED;
	char *text = !ended ? strdup(why->text) : result ? json_dumps(result, JSON_COMPACT) : NULL;
	struct tw_block *model = NULL;

	if (status == TW_OK && tw_tcp_keepers(r->tcp))
		model = for_keepers(r);
	tw_tcp_farewell(r->tcp, status, r->ran.totals.cut, text, model);
	tw_block_drop(model);
	free(text);
}

static json_t *start_line(const struct run *r)
{
	const struct tw_job *job = r->job;
	const uint64_t seed = job->plan.seed;

	return json_pack("{s:s, s:f, s:I, s:s, s:f, s:o, s:i}", "event", "start", "time",
			 (double)r->release / (double)TW_SECOND + r->watch.earlier.time,
			 "checkpoint", (json_int_t)r->cut, "strategy", job->title, "rate",
			 job->update.schedule.rate, "seed",
			 seed > INT64_MAX ? json_sprintf("%" PRIu64, seed)
					  : json_integer((json_int_t)seed),
			 "workers", (int)job->plan.crew.workers);
}

/* From opening to its end, or to a divergence that a restart follows. */
static enum tw_status run_part(struct run *r, json_t **result, struct tw_error *why)
{
	const struct tw_run_request *request = r->request;
	struct tw_job *job = r->job;
	enum tw_status status = TW_OK;

	if (request->dir) /* before --log puts a file into it */
		status = tw_run_directory_check(request->dir, why);
	if (status == TW_OK && request->metrics)
		status = tw_json_lines_open(&r->metrics, request->metrics, request->log, why);
	if (status == TW_OK)
		status = open_store(r, why);
	if (status == TW_OK && r->dir)
		r->restarts = tw_run_directory_restarts(r->dir, r->rate);
	if (status == TW_OK && r->restarts) /* the directory's job has the rate that was given */
		tw_job_set_rate(job, rate_after(r, r->restarts));
	if (status == TW_OK && job->world == TW_WORLD_TCP)
		status = open_net(r, why);
	if (status == TW_OK && request->ranks)
		status = tw_ranks_begin(request->ranks, job, r->engine, why);
	if (status == TW_OK)
		status = make_cast(r, why);
	if (status == TW_OK) {
		r->began = tw_clock();
		if (r->dir)
			tw_dir_store_began(r->store, r->began);
		tw_watch_init(&r->watch, &job->plan, r->dir, request->show, request->show_arg);
		r->watch.log = request->log;
		r->watch.network = job->data.from != NULL;
		r->watch.metrics = r->metrics;
		r->metrics.file = NULL;
		r->watch.earlier = earlier(r);
		tw_watch_line(&r->watch, start_line(r));
		if (r->start)
			r->watch.from = r->release;
		subtract_time(r);
		say_details(r);
		enter_world(r);
		if (r->watch.refused)
			tw_log_line(request->log, TW_WARNING, "run",
				    "contributions were refused %" PRIu64
				    " times because they were not "
				    "finite",
				    r->watch.refused);
		add_counts(r);
		status = finish(r, result, why);
		if (r->tcp)
			tell_joiners(r, status, *result, why);
	}
	if (request->ranks)
		tw_ranks_over(request->ranks);
	release(r);
	return status;
}

/* Parts, as long as one diverges and may be restarted. */
static enum tw_status run_parts(const struct tw_run_request *request, struct tw_job *job,
				struct tw_engine *engine, json_t **result, struct tw_error *why)
{
	const double rate = job->update.schedule.rate;
	const int64_t time = job->plan.ends.time;
	struct tw_run_request q = *request;
	uint32_t restarts = 0;
	uint16_t port = 0;
	enum tw_status status;
	bool again;

	do {
		struct run r = { .request = &q,
				 .job = job,
				 .engine = engine,
				 .rate = rate,
				 .restarts = restarts,
				 .port = port };

		*why = (struct tw_error){ .status = TW_OK };
		tw_job_set_rate(job, rate);
		job->plan.ends.time = time;
		status = run_part(&r, result, why);
		again = r.again;
		restarts = r.restarts + 1;
		port = r.port;
		q.again = false;
	} while (again);
	tw_job_set_rate(job, rate);
	job->plan.ends.time = time;
	return status;
}

/* Before anything is made.  Processes that this one has started have the same limits: they are
 * refused here, where somebody reads it. */
static enum tw_status check_memory(const struct tw_run_request *request, const struct tw_job *job,
				   const struct tw_engine *engine, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const bool local = request->net && !request->net->listen;
	enum tw_status status;

	if (job->world == TW_WORLD_SIM || request->ranks)
		return TW_OK;
	status = tw_memory_check(job, engine, request->net ? TW_MEMORY_MASTER : TW_MEMORY_ALL,
				 UINT32_MAX, why);
	for (uint32_t k = 0; local && status == TW_OK && k < tw_plan_cells(p); k++)
		status = tw_memory_check(job, engine, TW_MEMORY_WORKER, k, why);
	return status;
}

/* What the data was taken for, where nobody said it. */
static void log_notes(const struct tw_log *log, const struct tw_job *job,
		      const struct tw_engine *engine)
{
	const struct tw_data *d = tw_network_data(engine);

	if (job->usual)
		tw_log_line(
			log, TW_INFO, "job",
			"names no model, and trains the usual one: %s with %s at rate %g, the best "
			"of %g epochs by %g of the training rows (thalweg train JOB --explain "
			"shows all of it)",
			job->network.name, job->update.rule, job->update.schedule.rate,
			job->train.epochs, job->data.set.validation);
	for (unsigned k = 0; d && d->notes && k < d->notes->count; k++)
		tw_log_line(log, TW_INFO, "data", "%s", d->notes->text[k]);
}

enum tw_status tw_run(const struct tw_run_request *request, struct tw_job *job, json_t **result,
		      struct tw_error *why)
{
	struct tw_engine *engine = request->engine;
	enum tw_status status = TW_OK;

	*result = NULL;
	if (job->train.restarts && request->net && !request->net->listen)
		status = tw_fail(why, TW_BAD_INPUT,
				 "%s: train.on_divergence.restarts: the processes of --processes "
				 "end with a run that diverges; leave --processes out, or use "
				 "thalweg serve",
				 job->file);
	if (status == TW_OK && tw_job_is_outside(job) && request->net && !request->net->listen)
		status = tw_job_refuse(job, why, "model.tensors",
				       "the processes of --processes cannot compute this model; "
				       "use thalweg serve, and let programs join it with "
				       "thalweg_session_open");
	if (status == TW_OK && !engine)
		status = tw_job_open_engine(job, &tw_heap_system, &engine, why);
	if (status == TW_OK)
		status = tw_job_find_rate_in(job, engine, request->again ? NULL : request->dir,
					     request->log, why);
	if (status == TW_OK)
		status = tw_job_finish_plan(job, engine, why);
	if (status == TW_OK)
		status = check_memory(request, job, engine, why);
	if (status == TW_OK && request->trace)
		status = tw_trace_check(request->trace, why);
	if (status == TW_OK) {
		job->plan.checkpoint.final = request->dir != NULL;
		job->plan.checkpoint.stop_after = request->checkpoints;
		if (request->vector) /* somebody wants all of it */
			job->plan.checkpoint.memory = UINT64_MAX;
		for (size_t i = 0; i < job->warnings; i++)
			tw_log_line(request->log, TW_WARNING, job->file, "%s", job->warning[i]);
		log_notes(request->log, job, engine);
		status = run_parts(request, job, engine, result, why);
	}
	if (request->net && request->net->gauges)
		tw_gauges_over(request->net->gauges);
	if (engine && engine != request->engine)
		engine->class->close(engine);
	return status;
}

enum tw_status tw_run_check(struct tw_job *job, struct tw_error *why)
{
	struct tw_engine *engine = NULL;
	enum tw_status status;

	status = tw_job_open_engine(job, &tw_heap_system, &engine, why);
	if (status == TW_OK)
		status = tw_job_find_rate(job, engine, NULL, why);
	if (status == TW_OK)
		status = tw_job_finish_plan(job, engine, why);
	if (engine)
		engine->class->close(engine);
	return status;
}

enum tw_status tw_run_isa(const char *name, struct tw_error *why)
{
	enum tw_isa isa;

	if (!tw_isa_find(name, &isa))
		return tw_fail(why, TW_BAD_INPUT, "--isa: needs plain, avx2 or avx512, not '%s'",
			       name);
	if (tw_isa_pin(isa) && tw_onednn_isa(name) == TW_OK)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT, "--isa: this machine has no %s; it has %s", name,
		       tw_isa_name(tw_isa_machine()));
}
