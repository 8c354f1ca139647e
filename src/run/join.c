/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - a process that joins a run: the job from the master, its own seats, its result. */
#include "run/join.h"

#include "base/machine/regular_file.h"
#include "run/memory_check.h"
#include "run/placement.h"
#include "metrics/progress.h"
#include "run/result.h"
#include "world/memory_store.h"
#include "world/trace.h"
#include "checkpoint/export.h"
#include "run/open_engine.h"
#include "run/tensors_file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define MODEL_HEAD     (64u << 20) /* names and facts in front of the values */
#define MODEL_PATIENCE (10 * TW_SECOND)

struct join {
	const struct tw_join_request *q;
	struct tw_job *job; /* the caller's, or ours to free */
	struct tw_engine *engine;
	struct tw_desk *desk; /* a caller's; NULL: the engine computes */
	struct tw_tcp *tcp;
	struct tw_store *store;
	struct tw_placement cast;
	struct tw_ran ran;
	uint64_t steps, samples;
	struct tw_json_lines metrics;
	struct tw_stage_figures *stages; /* NULL: the job has none */
	int64_t began;
};

/* What the world needs to know before there is a job. */
static void dialling(const struct join *j, struct tw_tcp_options *o)
{
	const struct tw_join_request *q = j->q;

	*o = (struct tw_tcp_options){
		.role = q->server ? TW_TCP_SERVER : TW_TCP_WORKER,
		.heap = &tw_heap_system,
		.log = q->log,
		.tls = q->net->tls,
		.master = q->master,
		.master_fd = q->job ? q->master_fd : -1,
		.route = q->route,
		.routes = q->routes,
		.wish = q->job ? q->wish : TW_NODE_NEW,
		.patience = q->patience,
		.interrupted = q->interrupted,
		.keeps = q->save || q->keep,
	};
}

/* The job, from the master.  *ask is the caller's to close, whatever comes of it, and uses *o until
 * then. */
static enum tw_status ask_job(const struct join *j, struct tw_tcp_options *o,
			      struct tw_tcp_ask **ask, struct tw_tcp_facts *facts,
			      struct tw_job **job, struct tw_error *why)
{
	char *text = NULL;
	size_t bytes = 0;
	enum tw_status status;

	dialling(j, o);
	status = tw_tcp_ask_open(o, ask, facts, why);
	if (status == TW_OK)
		status = tw_tcp_ask_job(*ask, &text, &bytes, why);
	if (status == TW_OK)
		status = tw_job_read_text("the master's job", text, bytes, NULL, 0, NULL,
					  TW_WORLD_TCP, job, why);
	tw_heap_system.put(&tw_heap_system, text);
	return status;
}

/* The master was restarted with another job while it was asked: let the old one go, ask again. */
static bool ask_again(const struct join *j, enum tw_status status, struct tw_job **job,
		      struct tw_error *why)
{
	if (status != TW_CANCELLED)
		return false;
	tw_log_line(j->q->log, TW_WARNING, "join", "%s: asking for it from the beginning",
		    why->text);
	tw_job_free(*job);
	*job = NULL;
	*why = (struct tw_error){ .status = TW_OK };
	return true;
}

/* Who computes must be able to. */
static enum tw_status check_outside(const struct join *j, struct tw_error *why)
{
	const bool outside = tw_job_is_outside(j->job);

	if (outside && !j->q->outside && !j->q->server)
		return tw_fail(
			why, TW_BAD_INPUT,
			"the master's job has model.tensors: its gradients are computed by "
			"programs that join with thalweg_session_open (docs/LIBRARY.md); this "
			"program can hold parameters: join it with --as server");
	if (!outside && j->q->outside)
		return tw_fail(
			why, TW_BAD_INPUT,
			"the master's job has a model that thalweg computes; a session needs "
			"a job with model: {tensors: FILE}");
	return TW_OK;
}

/* The job and its data, from the master or from what is here. */
static enum tw_status get_job(struct join *j, struct tw_error *why)
{
	struct tw_tcp_options o;
	struct tw_tcp_facts facts;
	enum tw_status status;

	do {
		struct tw_tcp_ask *ask = NULL;

		status = ask_job(j, &o, &ask, &facts, &j->job, why);
		if (status == TW_OK)
			status = check_outside(j, why);
		if (status == TW_OK)
			status = tw_transfer_open_engine(j->job, &j->q->paths, &facts.data,
							 facts.data_bytes, tw_tcp_ask_data, ask,
							 j->q->log, &j->engine, why);
		tw_tcp_ask_close(ask);
	} while (ask_again(j, status, &j->job, why));
	return status;
}

/* The run starts again: everything is as it was, but for the rate. */
static enum tw_status learn_rate(struct join *j, struct tw_error *why)
{
	struct tw_tcp_options o;
	struct tw_tcp_facts facts;
	struct tw_job *now = NULL;
	enum tw_status status;

	do {
		struct tw_tcp_ask *ask = NULL;

		status = ask_job(j, &o, &ask, &facts, &now, why);
		tw_tcp_ask_close(ask);
	} while (ask_again(j, status, &now, why));
	if (status == TW_OK)
		tw_job_set_rate(j->job, now->update.schedule.rate);
	tw_job_free(now);
	return status;
}

/* A worker listens where workers are connected to each other, and only there. */
static enum tw_status listen_or_not(const struct join *j, struct tw_error *why)
{
	const struct tw_join_request *q = j->q;
	const bool peers = tw_plan_has_peers(&j->job->plan);
	const bool placed = tw_plan_is_with_stage(&j->job->plan);
	const bool cells = tw_plan_cells(&j->job->plan) > 1;
	struct tw_error cause = { .status = TW_OK };

	if ((peers || placed) && q->server)
		return tw_fail(why, TW_BAD_INPUT,
			       "this job has no servers: each worker has %s; leave out --as server",
			       peers ? "all parameters" : "the parameters of its stage");
	if (!peers && !cells && !q->server && q->listens)
		return tw_fail(why, TW_BAD_INPUT,
			       "this job has servers, and a worker does not listen on a port: "
			       "leave out --listen and --insecure, which are for --as server");
	if ((!peers && (!cells || q->server)) || !q->listen ||
	    q->listen(q->listen_arg, &cause) == TW_OK)
		return TW_OK;
	return tw_fail(why, cause.status, "%s%s", peers ? TW_TCP_PEERS_LISTEN : TW_TCP_CELLS_LISTEN,
		       cause.text);
}

/* Cells that were started together have an order; others take what is missing. */
static uint32_t wished_place(const struct join *j)
{
	const bool cells = tw_plan_cells(&j->job->plan) > 1;

	return cells && j->q->job && j->q->wish != TW_NODE_NEW ? j->q->wish - 1 : UINT32_MAX;
}

static enum tw_status prepare(struct join *j, struct tw_error *why)
{
	enum tw_status status;

	/* a wrong request is said before anybody is asked */
	if (j->q->metrics &&
	    tw_json_lines_open(&j->metrics, j->q->metrics, j->q->log, why) != TW_OK)
		return why->status;
	if (j->q->trace && tw_trace_check(j->q->trace, why) != TW_OK)
		return why->status;
	if (j->q->job) {
		j->job = j->q->job;
		j->engine = j->q->engine;
		status = j->engine ? TW_OK
				   : tw_job_open_engine(j->job, &tw_heap_system, &j->engine, why);
	} else {
		status = get_job(j, why);
	}
	if (status == TW_OK && j->q->outside)
		status = j->q->outside(j->q->outside_arg, j->job, j->engine, &j->desk, why);
	if (status == TW_OK)
		status = listen_or_not(j, why);
	if (status == TW_OK)
		status = tw_job_finish_plan(j->job, j->engine, why);
	if (status == TW_OK)
		status = tw_memory_check(j->job, j->engine,
					 j->q->server ? TW_MEMORY_SERVER : TW_MEMORY_WORKER,
					 wished_place(j), why);
	if (status != TW_OK)
		return status;
	j->job->plan.checkpoint.final = true;
	j->store = tw_memory_store_new(&tw_heap_system);
	if (!j->store)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a store");
	if (tw_plan_is_staged(&j->job->plan) &&
	    !(j->stages = tw_stage_figures_new(&tw_heap_system, &j->job->plan)))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the figures of stages");
	return TW_OK;
}

static void write_line(struct join *j, json_t *line)
{
	tw_json_lines_put(&j->metrics, line);
	json_decref(line);
}

static bool observe(void *arg, const struct tw_note *n)
{
	struct join *j = arg;

	if (n->kind == TW_NOTE_GRADIENT) {
		j->steps++;
		j->samples += n->count;
		if (j->metrics.file)
			write_line(j, json_pack("{s:s, s:f, s:i, s:f, s:I}", "event", "step",
						"time", (double)n->at / (double)TW_SECOND, "worker",
						(int)n->slot, "loss",
						isfinite(n->step.loss) && n->count
							? n->step.loss / n->count
							: 0.0,
						"samples", (json_int_t)n->count));
	}
	if (j->stages)
		tw_stage_figures_note(j->stages, n);
	if (j->q->net->gauges)
		tw_gauges_note(j->q->net->gauges, n);
	return true;
}

static enum tw_status enter(struct join *j, struct tw_error *why)
{
	const struct tw_plan *p = &j->job->plan;
	struct tw_tcp_options o;
	enum tw_status status;

	dialling(j, &o);
	status = tw_tcp_setup_options(j->q->net, j->job, j->engine, j->q->log, &o, why);
	if (!j->desk && !j->q->server && !o.peers && !o.with_shards)
		o.helpers = 0;
	if (status == TW_OK)
		status = tw_tcp_open(&o, &j->tcp, why);
	if (status == TW_OK)
		status = tw_placement_join(&j->cast, p, tw_tcp_node(j->tcp), j->q->server,
					   wished_place(j)) == TW_OK
				 ? TW_OK
				 : tw_fail(why, TW_NO_MEMORY, "no memory for the actors");
	if (status != TW_OK)
		return status;
	const struct tw_cluster cluster = {
		.seat = j->cast.seat,
		.seats = j->cast.seats,
		.seed = p->seed,
		.engine = j->engine,
		.desk = j->desk,
		.store = j->store,
		.heap = &tw_heap_system,
		.log = j->q->log,
		.observer = observe,
		.observer_arg = j,
		.interrupted = j->q->interrupted,
		.cells = tw_plan_cells(p),
		.trace = j->q->trace,
	};

	/* A worker computes: it need not interrupt the server that has just answered it, which may
	 * be on the same machine and has others to answer.  A peer serves as well.  At a desk the
	 * caller's threads compute, and ours only carry what they wait for. */
	if (!j->desk && !j->q->server && !o.peers && !o.with_shards)
		sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 });
	if (j->q->net->opened)
		j->q->net->opened(j->q->net->arg, tw_tcp_bound(j->tcp));
	tw_tcp_setup_attach(j->q->net, j->tcp);
	j->began = tw_clock();
	status = tw_tcp_run(j->tcp, &cluster, &j->ran);
	tw_tcp_setup_attach(j->q->net, NULL);
	if (status != TW_OK)
		return tw_fail(why, status, "%s", j->ran.error.text);
	return TW_OK;
}

/* One who left before the end knows what it has done, and no more. */
static enum tw_status own_result(struct join *j, json_t **result, struct tw_error *why)
{
	const struct tw_result_facts facts = {
		.seconds = (double)(tw_clock() - j->began) / (double)TW_SECOND,
	};

	tw_tcp_bytes(j->tcp, &j->ran.bytes_sent, &j->ran.bytes_received);
	j->ran.totals.loss = NAN;
	j->ran.totals.accuracy = -1;
	j->ran.totals.applied = j->ran.totals.steady.samples = NAN;
	j->ran.totals.steps = j->steps;
	j->ran.totals.samples = j->samples;
	j->ran.totals.epochs = (double)j->samples / (double)j->job->plan.problem.samples;
	return tw_result_make(j->job, &j->ran, &facts, result, why);
}

static enum tw_status make_result(struct join *j, json_t **result, struct tw_error *why)
{
	const char *heard = tw_tcp_heard(j->tcp);
	json_error_t bad;
	enum tw_status status = TW_OK;

	if (heard)
		*result = json_loads(heard, JSON_REJECT_DUPLICATES, &bad);
	if (*result && !json_is_object(*result)) {
		json_decref(*result);
		*result = NULL;
	}
	tw_result_printable(*result, false);
	if (!*result)
		status = own_result(j, result, why);
	if (status == TW_OK) {
		json_object_set_new(*result, "role",
				    json_string(j->q->server ? "server" : "worker"));
		json_object_set_new(*result, "own_steps", json_integer((json_int_t)j->steps));
		json_object_set_new(*result, "own_samples", json_integer((json_int_t)j->samples));
		json_object_set_new(*result, "left", json_boolean(heard == NULL));
		if (j->stages)
			json_object_set_new(*result, "own_pipeline",
					    tw_result_pipeline(&j->job->plan, j->stages));
		write_line(j, json_pack("{s:s, s:O}", "event", "result", "result", *result));
	}
	return status;
}

/* --- the model -------------------------------------------------------------------------------- */

static enum tw_status cannot_save(const struct join *j, const struct tw_error *said,
				  struct tw_error *why)
{
	const bool file = j->q->save;

	return tw_fail(why, said->status,
		       "%s%.200s%s: %.300s; the master's run directory has the model (thalweg "
		       "export)",
		       file ? "--save: " : "", file ? j->q->save : "the model",
		       file ? " was not written" : " did not come", said->text);
}

/* The run is over and was heard of: the model as the master exports it. */
static enum tw_status save_model(struct join *j, json_t *result, struct tw_error *why)
{
	const struct tw_plan *p = &j->job->plan;
	const uint64_t most =
		(p->problem.trainable + p->problem.buffers) * sizeof(float) + MODEL_HEAD;
	struct tw_block *model = NULL;
	struct tw_error said = { 0 };
	struct tw_tcp_options o;
	struct tw_sha hash;
	const uint64_t bytes = tw_tcp_given(j->tcp, &hash);

	dialling(j, &o);
	o.patience = MODEL_PATIENCE;
	if (!bytes)
		tw_fail(&said, TW_IO, "the master did not give the model");
	else if (bytes > most)
		tw_fail(&said, TW_BAD_BYTES,
			"the master announces %" PRIu64 " bytes, more than such a model can have",
			bytes);
	else
		tw_tcp_ask_model(&o, bytes, &hash, &model, &said);
	if (said.status == TW_OK && j->q->keep)
		j->q->keep(j->q->keep_arg, j->engine, model, &said);
	if (said.status == TW_OK && j->q->save)
		tw_save(model, j->q->save, &said);
	tw_block_drop(model);
	if (said.status != TW_OK)
		return cannot_save(j, &said, why);
	if (!j->q->save)
		return TW_OK;
	tw_log_line(j->q->log, TW_INFO, "join", "the model was saved: %s (%" PRIu64 " bytes)",
		    j->q->save, bytes);
	json_object_set_new(result, "saved", json_string(j->q->save));
	return TW_OK;
}

/* There will be no model here: who asked for it is told where it will be. */
static void say_unsaved(const struct join *j, const char *reason)
{
	tw_log_line(j->q->log, TW_WARNING, "join",
		    "--save: there is nothing to save: %s; when the run is over, `thalweg export` "
		    "of the master's run directory gives the model",
		    reason);
}

/* What it was in the cluster is over. */
static void leave(struct join *j)
{
	tw_tcp_close(j->tcp);
	tw_totals_release(&j->ran.totals);
	tw_placement_release(&j->cast);
	j->tcp = NULL;
	j->ran = (struct tw_ran){ 0 };
	j->cast = (struct tw_placement){ .seat = NULL };
}

static void release(struct join *j)
{
	if (j->q->net->gauges)
		tw_gauges_over(j->q->net->gauges);
	leave(j);
	if (j->store)
		tw_memory_store_free(j->store);
	if (j->engine && j->engine != j->q->engine)
		j->engine->class->close(j->engine);
	if (j->job != j->q->job && j->q->net->gauges)
		j->q->net->kept = j->job;
	else if (j->job != j->q->job)
		tw_job_free(j->job);
	tw_json_lines_close(&j->metrics);
	tw_stage_figures_free(j->stages);
}

/* What ended may be begun again: by a server that was given up and replaced, since one more is as
 * good as another, and by all when the master restarts the run. */
static bool may_enter_again(const struct join *j, enum tw_status status)
{
	if (!j->tcp)
		return false;
	return (status == TW_REFUSED && tw_tcp_replaced(j->tcp)) ||
	       (status == TW_CANCELLED && tw_tcp_again(j->tcp));
}

static enum tw_status enter_again(struct join *j, struct tw_error *why)
{
	const bool restarts = why->status == TW_CANCELLED;
	enum tw_status status = TW_OK;

	if (restarts)
		tw_log_line(j->q->log, TW_WARNING, j->q->server ? "server" : "worker",
			    "%s; joining again", why->text);
	else
		tw_log_line(j->q->log, TW_WARNING, "server",
			    "another process took its place while it was disconnected: joining "
			    "again as a new member");
	leave(j);
	*why = (struct tw_error){ .status = TW_OK };
	if (restarts)
		status = learn_rate(j, why);
	return status == TW_OK ? enter(j, why) : status;
}

enum tw_status tw_join(const struct tw_join_request *q, json_t **result, struct tw_error *why)
{
	struct join j = { .q = q };
	enum tw_status status;

	*result = NULL;
	status = prepare(&j, why);
	if (q->prepared)
		q->prepared();
	if (status == TW_OK)
		status = enter(&j, why);
	while (may_enter_again(&j, status))
		status = enter_again(&j, why);
	if (status == TW_OK)
		status = make_result(&j, result, why);
	if ((q->save || q->keep) && status == TW_OK && tw_tcp_heard(j.tcp))
		status = save_model(&j, *result, why);
	else if (q->save && j.tcp)
		say_unsaved(&j, status == TW_OK ? "this process left before the run was over"
						: "the run did not finish here");
	release(&j);
	return status;
}
