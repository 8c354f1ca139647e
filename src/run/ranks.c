/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - a job on the ranks of an MPI: what rank 0 orders, and what the others do with it. */
#include "run/ranks.h"

#include "base/machine/cores.h"
#include "run/open_engine.h"
#include "run/transfer.h"
#include "world/memory_store.h"
#include "world/mpi/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parameters that the thread which calls MPI applies itself: waking another takes longer. */
#define SMALL (64u << 10)

/* An order: this, then the name of the job file and the text of the job. */
struct order {
	struct tw_transfer_facts facts;
	uint64_t data_bytes;
	uint32_t name, text; /* bytes */
};

/* What a rank that follows keeps from one part to the next. */
struct kept {
	struct tw_job *job;
	struct tw_engine *engine;
	struct tw_sha hash;   /* of the job */
	struct tw_desk *desk; /* who computes; NULL: the engine */
};

struct tw_ranks {
	struct tw_mpi *mpi;
	const struct tw_log *log;
	uint32_t *rank_of; /* by node, of the part */
	struct tw_transfer_set *set;
};

enum tw_status tw_ranks_open(const struct tw_launcher *l, const struct tw_log *log,
			     const _Atomic int *signals, struct tw_ranks **out,
			     struct tw_error *why)
{
	struct tw_mpi_options o = {
		.heap = &tw_heap_system, .log = log, .signals = signals, .ranks = l->tasks
	};
	struct tw_ranks *r;
	enum tw_status status = tw_launcher_plugin(l, &o.plugin, why);

	if (status != TW_OK)
		return status;
	r = tw_heap_zeros(&tw_heap_system, sizeof *r);
	if (!r)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the ranks");
	r->log = log;
	status = tw_mpi_open(&o, &r->mpi, why);
	if (status == TW_OK)
		*out = r;
	else
		tw_heap_system.put(&tw_heap_system, r);
	return status;
}

int tw_ranks_main(struct tw_ranks *r, int (*program)(void *arg), void *arg)
{
	const int code = tw_mpi_main(r->mpi, program, arg);

	free(r->rank_of);
	tw_heap_system.put(&tw_heap_system, r);
	return code;
}

uint32_t tw_ranks_rank(const struct tw_ranks *r)
{
	return tw_mpi_rank(r->mpi);
}

uint32_t tw_ranks_count(const struct tw_ranks *r)
{
	return tw_mpi_size(r->mpi);
}

const _Atomic int *tw_ranks_interrupts(const struct tw_ranks *r)
{
	return tw_mpi_interrupts(r->mpi);
}

/* --- all ranks -------------------------------------------------------------------------------- */

enum tw_status tw_ranks_cast(struct tw_ranks *r, const struct tw_plan *p, struct tw_placement *out)
{
	free(r->rank_of);
	r->rank_of = tw_placement_spread(p, tw_ranks_count(r));
	if (!r->rank_of)
		return TW_NO_MEMORY;
	return tw_placement_rank(out, p, r->rank_of, tw_ranks_rank(r));
}

/* Threads that enter shards.  Ranks of one machine share its cores.  Where a rank has one, the
 * thread that calls MPI applies what it has received: a helper would only take the core from it. */
static uint32_t helpers_of(const struct tw_ranks *r, const struct tw_plan *p)
{
	const uint32_t cores = tw_cores() / tw_mpi_neighbours(r->mpi);
	const uint32_t some = cores > 2 ? cores - 1 : 1;

	if (cores <= 1 || p->problem.trainable + p->problem.buffers <= SMALL)
		return 0;
	if (tw_plan_has_peers(p) && cores <= 2) /* replicas update piece by piece */
		return 0;
	return some < p->problem.shards ? some : p->problem.shards;
}

enum tw_status tw_ranks_run(struct tw_ranks *r, const struct tw_cluster *cluster,
			    const struct tw_plan *p, struct tw_ran *ran)
{
	struct tw_cluster mine = *cluster;

	mine.nodes = tw_placement_nodes(p);
	return tw_mpi_run(r->mpi, &mine, r->rank_of, helpers_of(r, p), ran);
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

static enum tw_status give_set(void *arg, uint64_t from, void *to, size_t bytes)
{
	return tw_transfer_set_read(arg, from, to, bytes);
}

static enum tw_status open_set(struct tw_ranks *r, const struct tw_job *job,
			       const struct tw_engine *engine, struct tw_error *why)
{
	struct tw_error none = { .status = TW_OK };
	const enum tw_status status = tw_transfer_set_open(job, engine, &r->set, &none);

	if (status == TW_OK || status == TW_ABSENT)
		return TW_OK;
	return tw_fail(why, status, "%s", none.text);
}

static uint8_t *pack(const struct tw_ranks *r, const struct tw_job *job,
		     const struct tw_transfer_facts *facts, const char *text, size_t bytes,
		     size_t *count)
{
	const struct order head = {
		.facts = *facts,
		.data_bytes = r->set ? tw_transfer_set_bytes(r->set) : 0,
		.name = (uint32_t)strlen(job->file),
		.text = (uint32_t)bytes,
	};
	uint8_t *out = malloc(sizeof head + head.name + head.text);

	if (!out)
		return NULL;
	*count = sizeof head + head.name + head.text;
	memcpy(out, &head, sizeof head);
	memcpy(out + sizeof head, job->file, head.name);
	memcpy(out + sizeof head + head.name, text, head.text);
	return out;
}

/* A compute thread and the one that calls MPI want a core each. */
static void warn_of_binding(const struct tw_ranks *r)
{
	if (tw_cores() == 1 && sysconf(_SC_NPROCESSORS_ONLN) > 1)
		tw_log_line(r->log, TW_WARNING, "",
			    "the launcher has bound this rank to one core, and computing and "
			    "exchanging want one each; use mpirun --bind-to none, mpiexec.hydra "
			    "-bind-to none, or srun --cpus-per-task=2");
}

static void warn_of_idle_ranks(const struct tw_ranks *r, const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;
	const uint32_t ranks = tw_ranks_count(r);
	uint32_t *rank_of = tw_placement_spread(p, ranks);
	uint32_t idle = 0;

	for (uint32_t k = 1; rank_of && k < ranks; k++) {
		bool used = false;

		for (uint32_t n = 1; n < tw_placement_nodes(p); n++)
			used = used || rank_of[n] == k;
		idle += !used;
	}
	free(rank_of);
	if (idle)
		tw_log_line(r->log, TW_WARNING, job->file,
			    "%u of %u ranks have nothing to do: the job has %u workers and %u "
			    "servers; leave out cluster.workers, or start fewer ranks",
			    idle, ranks, p->crew.workers, p->crew.servers);
}

enum tw_status tw_ranks_begin(struct tw_ranks *r, const struct tw_job *job,
			      const struct tw_engine *engine, struct tw_error *why)
{
	struct tw_mpi_order o = {
		.beat = { job->cluster.heartbeat, job->cluster.suspect, job->cluster.limit },
		.read = give_set,
	};
	struct tw_transfer_facts facts;
	uint8_t *order = NULL;
	char *text = NULL;
	size_t bytes = 0;
	enum tw_status status = tw_transfer_facts(job, engine, &facts, why);

	warn_of_binding(r);
	warn_of_idle_ranks(r, job);
	if (status == TW_OK)
		status = tw_transfer_text(job, &text, &bytes, why);
	if (status == TW_OK)
		status = open_set(r, job, engine, why);
	if (status == TW_OK && !(order = pack(r, job, &facts, text, bytes, &o.count)))
		status = tw_fail(why, TW_NO_MEMORY, "no memory for the job of other ranks");
	if (status == TW_OK) {
		o.bytes = order;
		o.arg = r->set;
		if (!r->set)
			o.read = NULL;
		status = tw_mpi_begin(r->mpi, &o, why);
	}
	free(order);
	free(text);
	return status;
}

void tw_ranks_over(struct tw_ranks *r)
{
	tw_mpi_over(r->mpi);
	tw_transfer_set_close(r->set);
	r->set = NULL;
}

/* --- other ranks ------------------------------------------------------------------------------ */

static void release(struct kept *k, const struct tw_engine *given)
{
	if (k->engine && k->engine != given)
		k->engine->class->close(k->engine);
	tw_job_free(k->job);
	*k = (struct kept){ .job = NULL, .desk = k->desk };
}

static enum tw_status open_job(struct tw_ranks *r, const struct order *o, struct tw_engine *given,
			       struct kept *k, struct tw_error *why)
{
	/* the job is this user's own: what it names may be opened */
	const struct tw_transfer_paths paths = { .all = true };
	enum tw_status status = TW_OK;

	k->hash = o->facts.job;
	k->engine = given;
	if (!given)
		status = tw_transfer_open_engine(k->job, &paths, &o->facts.data, o->data_bytes,
						 tw_mpi_ask, r->mpi, r->log, &k->engine, why);
	if (status == TW_OK)
		status = tw_job_finish_plan(k->job, k->engine, why);
	if (status == TW_OK)
		k->job->plan.checkpoint.final = true;
	return status;
}

static enum tw_status check_facts(const struct order *o, const struct kept *k, struct tw_error *why)
{
	struct tw_transfer_facts own;
	const enum tw_status status = tw_transfer_facts(k->job, k->engine, &own, why);

	if (status != TW_OK ||
	    (tw_sha_same(&own.job, &o->facts.job) && tw_sha_same(&own.layout, &o->facts.layout)))
		return status;
	return tw_fail(why, TW_REFUSED,
		       "it reads the job otherwise than rank 0; do all ranks run the same version "
		       "of thalweg?");
}

/* What rank 0 orders; a part that begins again has only another rate. */
static enum tw_status obey(struct tw_ranks *r, const struct tw_block *bytes,
			   struct tw_engine *given, struct kept *k, struct tw_error *why)
{
	struct tw_job *job = NULL;
	struct order o;
	char name[4200];
	enum tw_status status;

	memcpy(&o, bytes->data, sizeof o);
	snprintf(name, sizeof name, "%.*s", (int)o.name, (const char *)bytes->data + sizeof o);
	status = tw_job_read_text(name, (const char *)bytes->data + sizeof o + o.name, o.text, NULL,
				  0, NULL, TW_WORLD_MPI, &job, why);
	if (status != TW_OK)
		return status;
	if (k->job && tw_sha_same(&k->hash, &o.facts.job)) {
		tw_job_set_rate(k->job, job->update.schedule.rate);
		tw_job_free(job);
		return TW_OK;
	}
	release(k, given);
	k->job = job;
	status = open_job(r, &o, given, k, why);
	return status == TW_OK ? check_facts(&o, k, why) : status;
}

static enum tw_status take_part(struct tw_ranks *r, const struct kept *k, struct tw_error *why)
{
	const struct tw_plan *p = &k->job->plan;
	struct tw_placement cast = { .seat = NULL };
	struct tw_ran ran = { 0 };
	struct tw_cluster cluster = {
		.seed = p->seed,
		.engine = k->engine,
		.desk = k->desk,
		.store = tw_memory_store_new(&tw_heap_system),
		.heap = &tw_heap_system,
		.log = r->log,
		.cells = tw_plan_cells(p),
	};
	enum tw_status status = TW_NO_MEMORY;

	if (cluster.store)
		status = tw_ranks_cast(r, p, &cast);
	if (status != TW_OK)
		tw_fail(why, status, "no memory for the actors");
	cluster.seat = cast.seat;
	cluster.seats = cast.seats;
	if (status == TW_OK && tw_ranks_run(r, &cluster, p, &ran) != TW_OK)
		status = tw_fail(why, ran.error.status, "%s", ran.error.text);
	tw_totals_release(&ran.totals);
	tw_placement_release(&cast);
	if (cluster.store)
		tw_memory_store_free(cluster.store);
	return status;
}

static bool follow_once(struct tw_ranks *r, struct tw_engine *engine, struct kept *kept,
			struct tw_error *why)
{
	struct tw_block *order = tw_mpi_next(r->mpi);
	struct tw_error said = { .status = TW_OK };
	enum tw_status status;

	if (!order)
		return false;
	status = obey(r, order, engine, kept, &said);
	tw_block_drop(order);
	tw_mpi_ready(r->mpi, &said);
	if (status == TW_OK && take_part(r, kept, &said) != TW_OK)
		tw_mpi_fail(r->mpi, &said);
	*why = said;
	return true;
}

enum tw_status tw_ranks_follow(struct tw_ranks *r, struct tw_engine *engine, struct tw_desk *desk,
			       struct tw_error *why)
{
	struct kept kept = { .job = NULL, .desk = desk };

	while (follow_once(r, engine, &kept, why))
		continue;
	release(&kept, engine);
	return why->status;
}

bool tw_ranks_follow_once(struct tw_ranks *r, struct tw_engine *engine)
{
	struct kept kept = { .job = NULL };
	struct tw_error none = { .status = TW_OK };
	const bool more = follow_once(r, engine, &kept, &none);

	release(&kept, engine);
	return more;
}

/* --- benches ---------------------------------------------------------------------------------- */

struct floor {
	size_t n, block;
	unsigned times;
	tw_floor_pass pass;
	double out;
};

static void floor_exchange(const struct tw_mpi_plugin *p, void *arg)
{
	struct floor *f = arg;

	p->floor_exchange(f->n, f->block, f->times, f->pass, &f->out);
}

static void floor_reduce(const struct tw_mpi_plugin *p, void *arg)
{
	struct floor *f = arg;

	p->floor_reduce(f->n, f->times, &f->out);
}

double tw_ranks_floor_exchange(struct tw_ranks *r, size_t n, size_t block, unsigned times,
			       tw_floor_pass pass)
{
	struct floor f = { n, block, times, pass, 0.0 };

	tw_mpi_call(r->mpi, floor_exchange, &f);
	return f.out;
}

double tw_ranks_floor_reduce(struct tw_ranks *r, size_t n, unsigned times)
{
	struct floor f = { .n = n, .times = times };

	tw_mpi_call(r->mpi, floor_reduce, &f);
	return f.out;
}

static void add_up(const struct tw_mpi_plugin *p, void *arg)
{
	double *x = arg;

	*x = p->floor_sum(*x);
}

double tw_ranks_sum(struct tw_ranks *r, double x)
{
	tw_mpi_call(r->mpi, add_up, &x);
	return x;
}

struct numbers {
	double *x;
	size_t n;
};

static void find_least(const struct tw_mpi_plugin *p, void *arg)
{
	const struct numbers *all = arg;

	p->floor_least(all->x, all->n);
}

void tw_ranks_least(struct tw_ranks *r, double *x, size_t n)
{
	struct numbers all = { x, n };

	tw_mpi_call(r->mpi, find_least, &all);
}

size_t tw_ranks_sums_took(const struct tw_ranks *r, double *out, size_t most)
{
	return tw_mpi_sums_took(r->mpi, out, most);
}
