/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c - workers in threads against one that exchanges nothing, and against PyTorch's DDP. */
#include "bench/baseline/ddp.h"
#include "bench/harness/harness_threads.h"
#include "bench/harness/timed_engine.h"
#include "metrics/progress.h"
#include "vec/vec.h"
#include "run/open_engine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS      9
#define BLOCK       0.4 /* seconds of one side in one round */
#define STEPS_LEAST 24  /* of one worker in one round */
#define WARM        8   /* of those, left out */
#define COUNTS      4   /* 1, 2, 4 and 8 workers, as far as there are cores */
#define RATE        0.001f
#define TARGET      0.85 /* of the number of workers, times the plain one */
#define DDP_TARGET  4.0

/* Figures of all rounds; samples per second, seconds. */
struct figures {
	double plain[TW_BENCH_ROUNDS], update[TW_BENCH_ROUNDS];
	double workers[COUNTS][TW_BENCH_ROUNDS], between[COUNTS][TW_BENCH_ROUNDS];
	double torch[TW_BENCH_ROUNDS], ddp[TW_BENCH_ROUNDS];
	size_t bytes[COUNTS];
	bool beside, together; /* torch, ddp are there */
};

struct scale {
	struct tw_log log;
	struct tw_engine *engine;
	float *w, *g;
	void *scratch;
	int64_t *at;
	size_t room;
	uint64_t position; /* of the plain worker */
	double cpu, wall;  /* seconds of computing, the workers' too */
	unsigned rounds, counts, steps, torch_steps, ddp_steps;
	struct tw_torch torch;
	struct tw_ddp ddp;
	struct figures f;
};

static double seconds_since(int64_t began)
{
	return (double)(tw_clock() - began) / (double)TW_SECOND;
}

static enum tw_status read_job(uint32_t workers, unsigned steps, struct tw_job **job,
			       struct tw_error *why)
{
	char text[400];

	snprintf(text, sizeof text,
		 "data: {source: digits, count: 8192, tests: 64, batch: %u}\n"
		 "model: {name: %s, hidden: %s}\n"
		 "train: {epochs: 0, steps: %u, evaluate: 0}\n"
		 "update: {rule: sgd, rate: %g}\n"
		 "cluster: {workers: %u}\n"
		 "strategy: asgd\n",
		 tw_ddp_net.batch, tw_ddp_net.zoo, tw_ddp_net.hidden, steps * workers, (double)RATE,
		 workers);
	return tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, TW_WORLD_THREADS, job,
				why);
}

/* --- ours --- */

/* Gradient and update in a loop, by the calling thread: samples per second, and CPU seconds of an
 * update. */
static enum tw_status run_plain(struct scale *s, unsigned steps, double *rate, double *update,
				struct tw_error *why)
{
	const struct tw_engine *e = s->engine;
	const size_t all = e->trainable + e->buffers;
	const struct tw_piece piece = { .at = s->w, .from = 0, .n = all };
	const int64_t began = tw_clock(), cpu = tw_timed_cpu();
	int64_t updating = 0;

	for (unsigned i = 0; i < steps; i++) {
		const struct tw_inputs in = {
			.from = s->position,
			.count = tw_ddp_net.batch,
			.piece = &piece,
			.pieces = 1,
		};
		struct tw_score score;
		enum tw_status status;
		int64_t t;

		status = e->class->gradient(e, s->scratch, &in, s->g, &score);
		if (status != TW_OK)
			return tw_fail(why, status, "a plain step failed: %s",
				       tw_status_name(status));
		t = tw_timed_cpu();
		tw_vec_sgd(s->w, s->w, s->g, RATE, e->trainable, false);
		updating += tw_timed_cpu() - t;
		s->position += tw_ddp_net.batch;
	}
	*rate = steps * (double)tw_ddp_net.batch / seconds_since(began);
	s->wall += seconds_since(began);
	s->cpu += (double)(tw_timed_cpu() - cpu) / (double)TW_SECOND;
	*update = (double)updating / (double)TW_SECOND / steps;
	return TW_OK;
}

/* The same net through master, shards and workers. */
static enum tw_status run_workers(struct scale *s, unsigned c, unsigned round, struct tw_error *why)
{
	const uint32_t workers = 1u << c;
	struct tw_job *job = NULL;
	struct tw_counted heap;
	struct tw_timed timed;
	enum tw_status status = read_job(workers, s->steps, &job, why);
	double rate;

	tw_timed_init(&timed, s->engine, s->at, s->room);
	tw_counted_init(&heap);
	if (status == TW_OK)
		status = tw_harness_threads_run(job, &timed.engine, &heap.heap, &s->log, why);
	tw_job_free(job);
	if (status != TW_OK)
		return status;
	rate = tw_timed_rate(&timed, (size_t)WARM * workers, workers);
	if (!(rate > 0.0))
		return tw_fail(why, TW_BAD_BYTES, "%u workers made only %zu steps", workers,
			       atomic_load(&timed.calls));
	s->f.workers[c][round] = rate * tw_ddp_net.batch;
	s->f.between[c][round] = tw_timed_between(&timed);
	s->f.bytes[c] = atomic_load(&heap.most);
	s->cpu += (double)atomic_load(&timed.cpu_ns) / (double)TW_SECOND;
	s->wall += (double)atomic_load(&timed.wall_ns) / (double)TW_SECOND;
	return TW_OK;
}

/* --- opening --- */

static enum tw_status open_ours(struct scale *s, double block, struct tw_error *why)
{
	struct tw_job *job = NULL;
	double rate = 0.0, update;
	enum tw_status status = read_job(1, 1, &job, why);
	size_t all;

	if (status == TW_OK)
		status = tw_job_open_engine(job, &tw_heap_system, &s->engine, why);
	tw_job_free(job);
	if (status != TW_OK)
		return status;
	all = s->engine->trainable + s->engine->buffers;
	s->w = tw_heap_zeros(&tw_heap_system, all * sizeof(float));
	s->g = tw_heap_zeros(&tw_heap_system, all * sizeof(float));
	s->scratch = tw_heap_zeros(&tw_heap_system, s->engine->scratch_bytes);
	if (!s->w || !s->g || !s->scratch)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a worker");
	status = s->engine->class->init(s->engine, 0, all, s->w);
	if (status != TW_OK)
		return tw_fail(why, status, "no initial weights");
	status = run_plain(s, STEPS_LEAST, &rate, &update, why);
	if (status != TW_OK)
		return status;
	s->steps = (unsigned)fmin(fmax(STEPS_LEAST, block * rate / tw_ddp_net.batch), 1e5);
	s->room = (size_t)s->steps << (s->counts - 1);
	s->at = tw_heap_zeros(&tw_heap_system, s->room * sizeof *s->at);
	return s->at ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the times");
}

/* Where PyTorch failed we go on without all of it. */
static enum tw_status give_up(struct scale *s, const struct tw_bench_how *how,
			      const struct tw_error *lost, struct tw_error *why)
{
	if (lost->status == TW_OK)
		return TW_OK;
	s->f.beside = s->f.together = false;
	tw_ddp_close(&s->ddp);
	return tw_torch_notes_lost(how, &s->torch, lost, why);
}

/* PyTorch's processes, warm. */
static enum tw_status open_theirs(struct scale *s, const struct tw_bench_how *how, double block,
				  struct tw_error *why)
{
	const size_t parameters = s->engine->trainable;
	struct tw_error lost = { .status = TW_OK };
	const char *python;
	double t = 0.0;
	enum tw_status status = tw_torch_notes_open(how, &s->torch, why);

	if (status != TW_OK || !s->torch.child.pid)
		return status;
	python = json_string_value(json_object_get(json_object_get(how->facts, "torch"), "python"));
	s->f.beside = tw_torch_notes_make(&s->torch, &tw_ddp_net, parameters, &lost) == TW_OK &&
		      tw_torch_steps(&s->torch, tw_ddp_net.name, 10, &t, &lost) == TW_OK;
	s->torch_steps = (unsigned)fmax(2.0, block / t);
	if (s->f.beside && s->counts > 1) {
		s->f.together = tw_ddp_open(&s->ddp, python, &lost) == TW_OK &&
				tw_ddp_make(&s->ddp, &tw_ddp_net, parameters, &lost) == TW_OK &&
				tw_ddp_steps(&s->ddp, tw_ddp_net.name, 10, &t, &lost) == TW_OK;
		s->ddp_steps = (unsigned)fmax(2.0, block / t);
	}
	return give_up(s, how, &lost, why);
}

/* --- measuring --- */

static enum tw_status turn_theirs(struct scale *s, const struct tw_bench_how *how, unsigned round,
				  struct tw_error *why)
{
	struct tw_error lost = { .status = TW_OK };
	double t = 1.0;

	if (s->f.beside)
		s->f.beside = tw_torch_steps(&s->torch, tw_ddp_net.name, s->torch_steps, &t,
					     &lost) == TW_OK;
	s->f.torch[round] = tw_ddp_net.batch / t;
	if (s->f.together)
		s->f.together =
			tw_ddp_steps(&s->ddp, tw_ddp_net.name, s->ddp_steps, &t, &lost) == TW_OK;
	s->f.ddp[round] = TW_DDP_SIZE * tw_ddp_net.batch / t;
	return give_up(s, how, &lost, why);
}

static enum tw_status turns(struct scale *s, const struct tw_bench_how *how, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (unsigned i = 0; i < s->rounds && status == TW_OK; i++) {
		tw_log_line(how->log, TW_DEBUG, "bench", "scale, round %u of %u", i + 1, s->rounds);
		status = run_plain(s, s->steps, &s->f.plain[i], &s->f.update[i], why);
		for (unsigned c = 0; c < s->counts && status == TW_OK; c++)
			status = run_workers(s, c, i, why);
		if (status == TW_OK)
			status = turn_theirs(s, how, i, why);
	}
	return status;
}

/* --- reporting --- */

/* A case against another side of the same rounds; copies, for a median sorts. */
static enum tw_status compare(const struct scale *s, json_t *cases, const char *name,
			      const char *unit, const double *value, const double *floor,
			      json_t *more, struct tw_error *why)
{
	double a[TW_BENCH_ROUNDS], b[TW_BENCH_ROUNDS];
	const double ratio = floor ? tw_paired(value, floor, s->rounds) : 0.0;

	memcpy(a, value, sizeof a);
	if (floor)
		memcpy(b, floor, sizeof b);
	return tw_bench_paired(cases, name, tw_median(a, s->rounds), unit,
			       floor ? tw_median(b, s->rounds) : 0.0, ratio, more, why);
}

static enum tw_status report_workers(const struct scale *s, json_t *cases, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (unsigned c = 0; c < s->counts && status == TW_OK; c++) {
		json_t *more = c ? json_pack("{s:f}", "target", TARGET * (1u << c)) : NULL;
		char name[40];

		snprintf(name, sizeof name, "scale-%u", 1u << c);
		status = compare(s, cases, name, "samples/s", s->f.workers[c], s->f.plain, more,
				 why);
	}
	return status;
}

/* What one worker more needs; where only one fits, what that and all others need. */
static double worker_bytes(const struct scale *s)
{
	const unsigned c = s->counts - 1;

	if (!c)
		return (double)s->f.bytes[0];
	return ((double)s->f.bytes[c] - (double)s->f.bytes[0]) / ((1u << c) - 1);
}

static enum tw_status report(const struct scale *s, json_t *cases, struct tw_error *why)
{
	const struct figures *f = &s->f;
	const unsigned c = s->counts - 1;
	const size_t all = s->engine->trainable + s->engine->buffers;
	enum tw_status status;

	status = compare(s, cases, "scale-plain", "samples/s", f->plain,
			 f->beside ? f->torch : NULL, NULL, why);
	if (status == TW_OK)
		status = report_workers(s, cases, why);
	if (status == TW_OK && c)
		status = compare(s, cases, "scale-ddp", "samples/s", f->workers[1],
				 f->together ? f->ddp : NULL,
				 json_pack("{s:f}", "target", DDP_TARGET), why);
	if (status == TW_OK)
		status = compare(s, cases, "scale-update", "CPU s/update", f->between[c], f->update,
				 NULL, why);
	if (status == TW_OK)
		status = tw_bench_case(cases, "scale-memory", worker_bytes(s), "bytes/worker",
				       (double)all * sizeof(float), why);
	return status;
}

static enum tw_status say_how(const struct scale *s, const struct tw_bench_how *how,
			      struct tw_error *why)
{
	enum tw_status status;

	status = tw_bench_note(
		how, why,
		"scale: 784-512-512-10, batches of %u, asynchronous; scale-plain computes and "
		"updates without exchange (floor: one PyTorch process); scale-N is N worker "
		"threads (floor: the plain one); ratios are medians over the rounds",
		tw_ddp_net.batch);
	if (status == TW_OK && s->counts > 1)
		status = tw_bench_note(how, why,
				       "scale-ddp: two worker threads against two processes of "
				       "PyTorch's DDP over Gloo, one thread each");
	else if (status == TW_OK)
		status = tw_bench_note(how, why,
				       "scale: this machine has one core, so two workers are "
				       "not measured");
	if (status == TW_OK)
		status = tw_bench_note(how, why,
				       "scale-update: CPU time of a worker's thread outside the "
				       "gradient (floor: the plain SGD pass); scale-memory: what a "
				       "worker adds (floor: the parameters once)");
	return status;
}

static void close_all(struct scale *s)
{
	struct tw_heap *heap = &tw_heap_system;

	tw_ddp_close(&s->ddp);
	tw_torch_stop(&s->torch);
	if (s->engine)
		s->engine->class->close(s->engine);
	heap->put(heap, s->w);
	heap->put(heap, s->g);
	heap->put(heap, s->scratch);
	heap->put(heap, s->at);
}

static enum tw_status scale(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	const double block = how->block > 0.0 ? how->block : BLOCK;
	/* what the actors say of their coming and going is no part of a bench */
	struct scale s = {
		.log = { .sink = how->log->sink, .arg = how->log->arg, .level = TW_WARNING },
		.rounds = how->rounds ? how->rounds : ROUNDS,
		.counts = 1,
	};
	enum tw_status status;

	while (s.counts < COUNTS && 1l << s.counts <= cores)
		s.counts++;
	status = open_ours(&s, block, why);
	if (status == TW_OK)
		status = open_theirs(&s, how, block, why);
	if (status == TW_OK)
		status = turns(&s, how, why);
	if (status == TW_OK)
		status = report(&s, cases, why);
	if (status == TW_OK)
		status = say_how(&s, how, why);
	if (status == TW_OK)
		status = tw_bench_share(how, cases, "scale", s.cpu / s.wall, why);
	close_all(&s);
	return status;
}

const struct tw_bench tw_bench_scale = {
	.name = "scale",
	.help = "samples per second of workers in threads, compared with PyTorch's DDP",
	.run = scale,
};
