/* SPDX-License-Identifier: Apache-2.0 */
/* connections.c - many workers, each a process of its own, on one server process with a tiny model:
 * does everybody get on, what does a connection hold, and what does an update cost the server? */
#include "bench/bench.h"
#include "bench/harness/children.h"
#include "bench/harness/harness_tcp.h"
#include "run/join.h"
#include "run/run.h"
#include "wire/frame.h"
#include "run/open_engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FEW       10
#define MANY      500
#define CROWD     2000
#define CROWD_RUN 40.0        /* seconds: they begin one after the other */
#define RUN       6.0         /* seconds of training ... */
#define WINDOW    (4.0 / 6.0) /* ... of which so much, after the beginning, is looked at */
#define PACE      2000        /* updates a second, of all together */
#define ROUNDS    3
#define DIMENSION 1000u
#define TARGET    1.25  /* at most */
#define LONGEST   100.0 /* seconds of training, where the machine is too busy for less */
#define PATIENCE  300.0

/* What the server saw between two points: everybody is there and has begun, and the end. */
struct seen {
	uint64_t updates, first; /* all, and how many of them before it is looked at */
	uint64_t counted;        /* while it is */
	int64_t window;          /* ns */
	uint32_t live;           /* workers at `first` */
	int64_t cpu, wall;       /* ns at `first`, then between them */
	uint64_t bytes;          /* resident at `first` */
	bool done;
};

struct crowd {
	uint32_t workers;
	double seconds; /* of training */
	int64_t pause;  /* ns that a gradient takes; 0: none */
	struct tw_harness_tcp_link link;
	struct tw_job *job;
	struct tw_log log;
	struct shared {
		struct seen seen;
		uint64_t steps[]; /* of each worker */
	} * shared;
};

static size_t shared_bytes(uint32_t workers)
{
	return sizeof(struct shared) + workers * sizeof(uint64_t);
}

/* --- the server --- */

static int64_t cpu_now(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * TW_SECOND +
	       ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static uint64_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	uint64_t all = 0, here = 0;

	if (f && fscanf(f, "%" SCNu64 " %" SCNu64, &all, &here) != 2)
		here = 0;
	if (f)
		fclose(f);
	return here * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool observe(void *arg, const struct tw_note *n)
{
	struct seen *s = arg;

	if (n->kind == TW_NOTE_VIEW)
		s->live = s->updates < s->first ? n->view.live : s->live;
	if (n->kind != TW_NOTE_UPDATE)
		return true;
	s->updates++;
	if (s->updates == s->first) {
		s->bytes = resident();
		s->cpu = cpu_now();
		s->wall = tw_clock();
	} else if (s->updates > s->first && !s->done && tw_clock() - s->wall >= s->window) {
		s->counted = s->updates - s->first;
		s->cpu = cpu_now() - s->cpu;
		s->wall = tw_clock() - s->wall;
		s->done = true;
	}
	return true;
}

static enum tw_status serve(void *arg, size_t number, struct tw_error *why)
{
	struct crowd *c = arg;
	struct tw_run_request q = { .log = &c->log,
				    .observer = observe,
				    .observer_arg = &c->shared->seen };
	json_t *result = NULL;
	struct tw_tcp_setup net;

	tw_harness_tcp_serve(&c->link, &net);
	q.net = &net;
	return tw_run(&q, c->job, &result, why);
}

/* --- a worker --- */

/* The job's engine, and then a rest: so that ten workers push as often as five hundred. */
struct paced {
	struct tw_engine engine;
	struct tw_engine *inner;
	int64_t pause;
};

static const struct paced *paced_of(const struct tw_engine *e)
{
	return (const struct paced *)e;
}

static enum tw_status paced_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct tw_engine *inner = paced_of(e)->inner;

	return inner->class->init(inner, from, n, out);
}

static enum tw_status paced_gradient(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	const struct paced *p = paced_of(e);

	nanosleep(&(struct timespec){ .tv_sec = p->pause / TW_SECOND,
				      .tv_nsec = p->pause % TW_SECOND },
		  NULL);
	return p->inner->class->gradient(p->inner, scratch, in, gradient, score);
}

static enum tw_status paced_evaluate(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, struct tw_score *score)
{
	const struct tw_engine *inner = paced_of(e)->inner;

	return inner->class->evaluate(inner, scratch, in, score);
}

static const struct tw_engine_class paced_class = {
	.name = "paced",
	.init = paced_init,
	.gradient = paced_gradient,
	.evaluate = paced_evaluate,
};

static enum tw_status pace(const struct crowd *c, struct paced *p, struct tw_error *why)
{
	enum tw_status status = tw_job_open_engine(c->job, &tw_heap_system, &p->inner, why);

	if (status != TW_OK)
		return status;
	p->engine = *p->inner;
	p->engine.class = &paced_class;
	p->engine.cuts = 0; /* it knows only everything at once */
	p->pause = c->pause;
	return TW_OK;
}

static enum tw_status work(void *arg, size_t number, struct tw_error *why)
{
	struct crowd *c = arg;
	struct tw_address master;
	struct tw_tcp_setup net;
	json_t *result = NULL;
	struct paced paced = { .pause = 0 };
	enum tw_status status = tw_harness_tcp_find(&c->link, &master, why);

	tw_tcp_setup_init(&net);
	if (status == TW_OK && c->pause)
		status = pace(c, &paced, why);
	if (status == TW_OK)
		status = tw_join(
			&(struct tw_join_request){ .net = &net,
						   .master = &master,
						   .master_fd = -1,
						   .patience = 60 * TW_SECOND,
						   .log = &c->log,
						   .job = c->job,
						   .engine = c->pause ? &paced.engine : NULL,
						   .wish = TW_NODE_NEW },
			&result, why);
	if (status == TW_OK)
		c->shared->steps[number - 1] =
			(uint64_t)json_integer_value(json_object_get(result, "own_steps"));
	return status;
}

/* --- all of them --- */

/* So long that leases are never short because the end is near. */
static enum tw_status read_job(uint32_t workers, double seconds, struct tw_job **job,
			       struct tw_error *why)
{
	char text[400];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: %u, curvature: [0.1, 1], noise: 0.1}}\n"
		 "data: {source: none, samples: 1000000, batch: 1}\n"
		 "train: {epochs: 100, time: %gs, evaluate: 0}\n"
		 "update: {rule: sgd, rate: 0.0001}\n"
		 "cluster: {workers: %u, min: %u, wait: 120s, limit: 60s}\n"
		 "strategy: asgd\n",
		 DIMENSION, seconds, workers, workers);
	return tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, TW_WORLD_TCP, job, why);
}

static enum tw_status run_all(struct crowd *c, struct tw_error *why)
{
	struct tw_children all;
	enum tw_status status = tw_children_init(&all, c->workers + 1, why);

	if (status == TW_OK)
		status = tw_children_add(&all, serve, c, why);
	for (uint32_t k = 0; k < c->workers && status == TW_OK; k++)
		status = tw_children_add(&all, work, c, why);
	tw_harness_tcp_link_close(&c->link);
	if (status == TW_OK)
		status = tw_children_wait(&all, PATIENCE, why);
	tw_children_release(&all);
	return status;
}

struct figures {
	double cpu, rate, bytes;
	double least, share; /* the fewest steps of a worker, and what all have in the mean */
};

/* TW_ABSENT: the time was too short to see enough. */
static enum tw_status judge(const struct crowd *c, struct figures *out, struct tw_error *why)
{
	const struct seen *s = &c->shared->seen;
	const double updates = (double)s->counted;
	uint64_t least = UINT64_MAX;

	for (uint32_t k = 0; k < c->workers; k++)
		least = c->shared->steps[k] < least ? c->shared->steps[k] : least;
	if (!s->done || !least)
		return tw_fail(why, TW_ABSENT,
			       "%u workers made only %" PRIu64 " updates in %g s, one of them %s",
			       c->workers, s->updates, c->seconds, least ? "few" : "none");
	if (s->live != c->workers)
		return tw_fail(why, TW_BAD_BYTES, "%u of %u workers were connected", s->live,
			       c->workers);
	*out = (struct figures){ .cpu = (double)s->cpu / (double)TW_SECOND / updates,
				 .rate = updates / ((double)s->wall / (double)TW_SECOND),
				 .bytes = (double)s->bytes,
				 .least = (double)least,
				 .share = (double)s->updates / c->workers };
	return TW_OK;
}

static enum tw_status measure_once(uint32_t workers, double seconds, bool paces,
				   const struct tw_log *log, struct figures *out,
				   struct tw_error *why)
{
	const double share = workers <= MANY ? WINDOW : WINDOW / 2; /* those begin slowly */
	struct crowd c = { .workers = workers, .seconds = seconds, .log = *log };
	enum tw_status status;

	if (paces)
		c.pause = (int64_t)workers * TW_SECOND / PACE;
	c.shared = tw_shared_new(shared_bytes(workers));
	if (!c.shared)
		return tw_fail(why, TW_NO_MEMORY, "no memory for %u workers", workers);
	c.shared->seen = (struct seen){ .first = workers <= MANY ? 2 * workers : workers,
					.window = (int64_t)(share * seconds * TW_SECOND) };
	status = read_job(workers, seconds, &c.job, why);
	if (status == TW_OK)
		status = tw_harness_tcp_link_open(&c.link, false, false, why);
	if (status == TW_OK)
		status = run_all(&c, why);
	if (status == TW_OK)
		status = judge(&c, out, why);
	tw_job_free(c.job);
	tw_shared_free(c.shared, shared_bytes(workers));
	return status;
}

static enum tw_status measure(uint32_t workers, double seconds, bool paces,
			      const struct tw_log *log, struct figures *out, struct tw_error *why)
{
	enum tw_status status = measure_once(workers, seconds, paces, log, out, why);

	while (status == TW_ABSENT && (seconds *= 4) <= LONGEST) {
		*why = (struct tw_error){ .status = TW_OK };
		status = measure_once(workers, seconds, paces, log, out, why);
	}
	return status;
}

/* --- the cases --- */

static double median_of(const struct figures *f, unsigned rounds, size_t member)
{
	double x[TW_BENCH_ROUNDS];

	for (unsigned i = 0; i < rounds; i++)
		memcpy(&x[i], (const char *)&f[i] + member, sizeof x[i]);
	return tw_median(x, rounds);
}

#define MEDIAN(f, member) median_of(f, rounds, offsetof(struct figures, member))

static enum tw_status report_cpu(const char *name, uint32_t many, unsigned rounds,
				 const struct figures *few_, const struct figures *many_,
				 json_t *cases, struct tw_error *why)
{
	double ratio[TW_BENCH_ROUNDS];

	for (unsigned i = 0; i < rounds; i++)
		ratio[i] = many_[i].cpu / few_[i].cpu;
	return tw_bench_paired(cases, name, MEDIAN(many_, cpu), "CPU s/update", MEDIAN(few_, cpu),
			       tw_median(ratio, rounds),
			       json_pack("{s:f, s:i, s:i, s:f, s:f}", "target_most", TARGET,
					 "workers", (int)many, "floor_workers", FEW,
					 "updates_per_s", MEDIAN(many_, rate),
					 "floor_updates_per_s", MEDIAN(few_, rate)),
			       why);
}

static enum tw_status report_rest(uint32_t many, unsigned rounds, const struct figures *few_,
				  const struct figures *many_, json_t *cases, struct tw_error *why)
{
	double each[TW_BENCH_ROUNDS];
	enum tw_status status;

	for (unsigned i = 0; i < rounds; i++)
		each[i] = (many_[i].bytes - few_[i].bytes) / (many - FEW);
	status = tw_bench_case(cases, "connections-memory", tw_median(each, rounds),
			       "bytes/connection", (double)tw_frame_memory(), why);
	if (status == TW_OK)
		status = tw_bench_case(cases, "connections-progress", MEDIAN(many_, least),
				       "steps of the slowest worker", MEDIAN(many_, share), why);
	return status;
}

/* The few and the many in turn. */
static enum tw_status measure_both(uint32_t many, double seconds, unsigned rounds, bool paces,
				   const struct tw_log *log, struct figures *few_,
				   struct figures *many_, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (unsigned i = 0; i < rounds && status == TW_OK; i++) {
		status = measure(FEW, seconds, paces, log, &few_[i], why);
		if (status == TW_OK)
			status = measure(many, seconds, paces, log, &many_[i], why);
	}
	return status;
}

/* --- two thousand --- */

/* A connection takes a descriptor of the server, which takes as many as the system allows. */
static bool has_descriptors(uint32_t connections)
{
	struct rlimit files;

	return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max >= connections + 64;
}

static enum tw_status measure_crowd(const struct tw_bench_how *how, const struct tw_log *log,
				    json_t *cases, struct tw_error *why)
{
	struct figures few_[1], many_[1];
	enum tw_status status;

	if (!has_descriptors(CROWD))
		return tw_bench_note(how, why,
				     "connections: %u were not tried, because a process may have "
				     "fewer open files here: raise ulimit -Hn",
				     CROWD);
	status = measure_both(CROWD, CROWD_RUN, 1, true, log, few_, many_, why);
	if (status == TW_OK)
		status = report_cpu("connections-2000-cpu", CROWD, 1, few_, many_, cases, why);
	if (status == TW_OK)
		status = tw_bench_case(cases, "connections-2000-rate", many_->rate, "updates/s",
				       few_->rate, why);
	if (status == TW_OK)
		status = tw_bench_case(cases, "connections-2000-memory",
				       (many_->bytes - few_->bytes) / (CROWD - FEW),
				       "bytes/connection", (double)tw_frame_memory(), why);
	return status;
}

static enum tw_status connections(const struct tw_bench_how *how, json_t *cases,
				  struct tw_error *why)
{
	const uint32_t many = how->size ? (uint32_t)how->size : MANY;
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	const double seconds = how->size ? RUN / 4 : RUN; /* a small one is a try */
	const struct tw_log quiet = { .sink = how->log->sink,
				      .arg = how->log->arg,
				      .level = TW_ERROR };
	struct figures few_[TW_BENCH_ROUNDS], many_[TW_BENCH_ROUNDS];
	enum tw_status status;

	status = measure_both(many, seconds, rounds, true, &quiet, few_, many_, why);
	if (status == TW_OK)
		status = report_cpu("connections-cpu", many, rounds, few_, many_, cases, why);
	if (status == TW_OK)
		status = measure_both(many, seconds, rounds, false, &quiet, few_, many_, why);
	if (status == TW_OK)
		status = report_cpu("connections-cpu-flat-out", many, rounds, few_, many_, cases,
				    why);
	if (status == TW_OK)
		status = report_rest(many, rounds, few_, many_, cases, why);
	if (status == TW_OK && !how->size)
		status = measure_crowd(how, &quiet, cases, why);
	if (status == TW_OK)
		status = tw_bench_note(
			how, why,
			"connections: %u worker processes over loopback on one server process, a "
			"quadratic of %u parameters, asynchronous; CPU time of the server's "
			"process "
			"over %g s of training (floor: the same with %u workers).  "
			"connections-cpu: all workers together push %u times a "
			"second, few or many; flat-out: as often as they can, so that %u processes "
			"share the caches and cores with the server.  Memory is what one "
			"connection more adds to the server's resident bytes (floor: the reader "
			"and writer of a connection); every worker made steps (floor: an equal "
			"share).  Updates per second flat out: %.0f with %u workers, %.0f with %u",
			many, DIMENSION, WINDOW * seconds, FEW, PACE, many, MEDIAN(few_, rate), FEW,
			MEDIAN(many_, rate), many);
	return status;
}

const struct tw_bench tw_bench_connections = {
	.name = "connections",
	.help = "memory and CPU of a server with 500, and 2,000, connected worker processes",
	.run = connections,
};
