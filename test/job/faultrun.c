/* SPDX-License-Identifier: Apache-2.0 */
/* faultrun.c - a run with faults, watched. */
#include "faultrun.h"

#include "job/reading.h"
#include "kit/caller.h"
#include "run/placement.h"
#include "watcher.h"
#include "run/open_engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 48
#define EPOCHS  2

const char *const faultrun_presets[] = {
	"ssgd",
	"backup",
	"asgd",
	"downpour",
	"softsync",
	"staleness-aware",
	"rudra",
	"ssp",
	"fasgd",
	"dc-asgd",
	"dc-asgd-a",
	"dc-ssgd",
	"gap-aware",
	"multi-asgd",
	"nag-asgd",
	"dana",
	"dana-slim",
	"dana-dc",
	"ringmaster",
	"{gate: ringmaster, limit: 2}",
	"{gate: ringmaster, limit: 1, stop: true}",
	"{gate: ringmaster, limit: 2, stop: true, push: 2}",
	"{name: diloco, push: 2}",
	"{name: async-diloco, push: 3, adaptive: true}",
	"{name: streaming-diloco, push: 4, fragments: 2, delay: 0}",
	"{name: streaming-diloco, push: 4, fragments: 2, delay: 1}",
	"{name: streaming-diloco, push: 3, fragments: 1, delay: 2}",
	"rennala",
	"{gate: softsync, fresh: true, collect: 5, stop: true}",
	"malenia",
	"{gate: malenia, collect: 3, stop: true}",
	NULL,
};

const char *const *faultrun_deltas(void)
{
	static const char *list[64] = {
		"{gate: bsp, send: delta, push: 2, merge: elastic, alpha: 0.2, outer: {rule: add, "
		"scale: 1}}",
		"{gate: backup, extra: 1, abandon: true, send: delta, push: 3, outer: {rule: "
		"average}}",
		"{gate: ssp, lead: 1, send: delta, push: 2, merge: mix, alpha: 0.4, outer: {rule: "
		"average}}",
		"{gate: async, send: delta, push: 1, fetch: 3, outer: {rule: add, scale: 0.3}}",
	};
	static bool made;
	size_t count = 0;

	while (list[count])
		count++;
	for (const struct tw_preset *p = tw_presets; !made && p->name; p++)
		if (strstr(p->fields, "send: delta")) {
			if (count + 1 == sizeof list / sizeof list[0])
				abort();
			list[count++] = short_strategy(p);
		}
	made = true;
	return list;
}

bool faultrun_large, faultrun_outside, faultrun_own, faultrun_on_demand;

/* --- those who leave ------------------------------------------------------------------------ */

#define TIMER_LEAVE 12 /* not an actor's own */
#define NODES       24

static struct {
	const struct faultrun *run;
	const struct tw_world *world;
	struct tw_world heard; /* the world, but we hear who is gone */
	uint32_t gone, stepped, doses[NODES];
} stage;

static void hear_gone(struct tw_context *ctx)
{
	stage.gone |= 1u << ctx->self.node;
	stage.world->gone(ctx);
}

static void listen(struct tw_context *ctx)
{
	stage.world = ctx->world;
	stage.heard = *ctx->world;
	stage.heard.gone = hear_gone;
	ctx->world = &stage.heard;
}

static void unlisten(struct tw_context *ctx)
{
	ctx->world = stage.world;
}

static const struct tw_actor_class *class_of(const struct tw_context *ctx)
{
	return ctx->self.role == TW_SERVER ? &tw_server_class : &tw_worker_class;
}

static void leaver_start(struct tw_actor *a, struct tw_context *ctx)
{
	class_of(ctx)->start(a, ctx);
	for (size_t k = 0; k < stage.run->leavers; k++) {
		const struct leaver *l = &stage.run->leaver[k];

		if (l->node == ctx->self.node && l->at >= tw_now(ctx))
			tw_timer(ctx, TIMER_LEAVE, l->at - tw_now(ctx));
	}
}

static void leaver_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	listen(ctx);
	if (timer == TIMER_LEAVE)
		class_of(ctx)->interrupt(a, ctx);
	else if (class_of(ctx)->timer)
		class_of(ctx)->timer(a, ctx, timer);
	unlisten(ctx);
}

static void leaver_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	listen(ctx);
	class_of(ctx)->message(a, ctx, m);
	unlisten(ctx);
}

static void leaver_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	stage.stepped |= 1u << ctx->self.node;
	if (c->pass.kind != TW_PASS_EVALUATE && stage.run->poisoned >> ctx->self.node & 1 &&
	    stage.doses[ctx->self.node]++ < stage.run->doses)
		c->gradient[stage.run->spot] = NAN;
	listen(ctx);
	class_of(ctx)->computed(a, ctx, c);
	unlisten(ctx);
}

static struct tw_actor_class leaving(const struct tw_actor_class *class)
{
	struct tw_actor_class c = *class;

	c.start = leaver_start;
	c.timer = leaver_timer;
	c.message = leaver_message;
	if (class->computed)
		c.computed = leaver_computed;
	return c;
}

/* The cast, with ears; and those who come too many, who want a place that is somebody's. */
static struct tw_seat *seats_of(const struct faultrun *r, const struct tw_placement *cast,
				struct tw_actor_class class[2], size_t *count)
{
	const uint32_t last = cast->seat[cast->seats - 1].addr.node;
	struct tw_seat *seat = calloc(cast->seats * (1 + r->spare), sizeof *seat);
	size_t seats = cast->seats;

	memcpy(seat, cast->seat, cast->seats * sizeof *seat);
	class[0] = leaving(&tw_server_class);
	class[1] = leaving(&tw_worker_class);
	for (size_t k = 0; k < cast->seats; k++)
		if (seat[k].addr.role == TW_SERVER)
			seat[k].class = &class[0];
		else if (seat[k].addr.role == TW_WORKER)
			seat[k].class = &class[1];
	for (uint32_t k = 0; k < r->spare; k++)
		for (size_t i = 0; i < cast->seats; i++)
			if (seat[i].addr.node == last) {
				seat[seats] = seat[i];
				seat[seats++].addr.node += 1 + k;
			}
	*count = seats;
	return seat;
}

static void describe(const struct faultrun *r, char *out, size_t room)
{
	snprintf(out, room,
		 "model: {quadratic: {dimension: 13, noise: 0.1}}\n"
		 "data: {source: none, samples: %d, batch: 2, accumulate: %u%s}\n"
		 "train: {epochs: %d, seed: %llu%s}\n"
		 "update: {rate: 0.01}\n"
		 "cluster: {workers: %u, servers: %u, shards: %u, wait: 30s}\n"
		 "strategy: %s\n"
		 "checkpoint: {every: 1s, cut: %s%s}\n"
		 "%s",
		 SAMPLES, r->accumulate ? r->accumulate : 1,
		 faultrun_own         ? ", deal: partition"
		 : faultrun_on_demand ? ", placement: on-demand, ahead: 2"
				      : "",
		 EPOCHS, (unsigned long long)r->seed, r->evaluates ? ", evaluate: 0.2" : "",
		 r->workers, r->servers, r->shards, r->preset, r->running ? "running" : "drain",
		 r->large || faultrun_large ? ", memory: 0B" : "",
		 r->more ? r->more
			 : "sim: {compute: {law: exponential, mean: 100ms}, latency: 5ms, jitter: "
			   "3ms}\n");
}

static void log_line(void *arg, enum tw_level level, const char *who, const char *line)
{
	const struct faultrun *r = arg;

	(void)level;
	if (r->loud)
		fprintf(stderr, "%s: %s\n", who, line);
	if (r->heard)
		r->heard(who, line);
}

/* Each worker has so many samples that nobody else has; 0: as many as there is room for. */
static void make_own(struct tw_job *job, struct tw_engine *e, uint64_t own)
{
	job->plan.dealing.subsets.own = e->order.subsets.own = true;
	job->plan.dealing.own = e->order.own = own;
}

const char *faultrun(const struct faultrun *r, struct faultend *end)
{
	static char said[900];
	static const char *const nothing[] = { NULL };
	struct faultrun listener = *r;
	const struct tw_log log = { r->loud || r->heard ? log_line : NULL, &listener, TW_DEBUG };
	struct tw_ran ran = { 0 };
	struct tw_error why = { 0 };
	struct tw_engine *engine = NULL;
	struct tw_job *job = NULL;
	struct tw_placement cast = { 0 };
	struct tw_actor_class class[2];
	struct tw_seat *seat;
	size_t seats;
	struct tw_cluster c;
	struct tw_sim_options sim;
	struct watcher *w;
	struct caller caller = { .desk = NULL };
	char text[1500];
	bool right;

	describe(r, text, sizeof text);
	if (tw_job_read_text("faults", text, strlen(text), NULL, 0, nothing, TW_WORLD_SIM, &job,
			     &why) != TW_OK ||
	    tw_job_open_engine(job, &tw_heap_system, &engine, &why) != TW_OK ||
	    tw_job_finish_plan(job, engine, &why) != TW_OK ||
	    tw_placement_init(&cast, &job->plan, false) != TW_OK) {
		snprintf(said, sizeof said, "no run: %s", why.text);
		tw_job_free(job);
		return said;
	}
	if (faultrun_own)
		make_own(job, engine, r->fault_seed % 2 ? 0 : SAMPLES / r->workers - 3);
	w = watcher_new(&job->plan, r->loud);
	sim = job->sim;
	sim.random_crashes = r->crashes;
	sim.random_partitions = r->partitions;
	sim.random_resets = r->resets;
	sim.random_slow = r->slow;
	sim.fault_seed = r->fault_seed;
	sim.fault_span = 8 * TW_SECOND;
	sim.loss = r->loss;
	sim.save_time = TW_SECOND / 50;
	/* as between threads of a process, quick ones and such as had to wait for a core */
	sim.local = (const int64_t[]){ 0, TW_SECOND / 500, TW_SECOND / 15 }[r->fault_seed % 3];
	sim.load_time = r->fault_seed % 4 == 3 ? TW_SECOND : TW_SECOND / 40;
	sim.threads = 1;
	stage.run = r;
	stage.gone = stage.stepped = 0;
	memset(stage.doses, 0, sizeof stage.doses);
	seat = seats_of(r, &cast, class, &seats);
	c = (struct tw_cluster){ .seat = seat,
				 .seats = seats,
				 .nodes = tw_placement_nodes(&job->plan) + r->spare,
				 .seed = r->seed,
				 .engine = engine,
				 .store = watcher_store(w),
				 .heap = &tw_heap_system,
				 .log = &log,
				 .observer = watcher_note,
				 .observer_arg = w };
	if (faultrun_outside) {
		caller_start(&caller, engine);
		c.desk = caller.desk;
	}
	tw_sim_run(&c, &sim, r->fault, r->faults, NULL, 3600 * TW_SECOND, &ran);
	if (faultrun_outside)
		caller_stop(&caller);
	end->status = ran.error.status != TW_OK ? ran.error.status : ran.totals.status;
	end->events = ran.events;
	end->virtual_ns = ran.virtual_ns;
	end->totals = ran.totals;
	end->gone = stage.gone;
	end->stepped = stage.stepped;
	free(seat);
	if (end->status == TW_OK)
		watcher_judge(w, &ran.totals);
	else if (!(end->status == TW_INTERRUPTED && r->forever))
		watcher_complain(w, "it ended as %s: %s", tw_status_name(end->status),
				 ran.error.text);
	if (end->status == TW_OK && r->clean && (ran.totals.lost_updates || ran.totals.repeated))
		watcher_complain(w, "nobody died, and %llu updates are lost, %llu samples repeated",
				 (unsigned long long)ran.totals.lost_updates,
				 (unsigned long long)ran.totals.repeated);
	right = !watcher_wrong(w);
	if (!right)
		snprintf(said, sizeof said, "%s: %s", r->preset, watcher_wrong(w));
	watcher_free(w);
	tw_totals_release(&ran.totals);
	tw_placement_release(&cast);
	engine->class->close(engine);
	tw_job_free(job);
	return right ? NULL : said;
}

const char *faultrun_replay(const struct faultrun *r)
{
	static char text[600];
	int at = snprintf(text, sizeof text,
			  "build/test/job_test_full_faults --replay '%s' %u %u %u seed %llu faults "
			  "%u %u %u %u %llu loss %g",
			  r->preset, r->workers, r->servers, r->shards, (unsigned long long)r->seed,
			  r->crashes, r->partitions, r->resets, r->slow,
			  (unsigned long long)r->fault_seed, r->loss);

	for (size_t k = 0; k < r->faults; k++)
		at += snprintf(text + at, sizeof text - (size_t)at,
			       " fault %d %u %u %lld %lld %llu", (int)r->fault[k].kind,
			       r->fault[k].a, r->fault[k].b, (long long)r->fault[k].at,
			       (long long)r->fault[k].lasts, (unsigned long long)r->fault[k].event);
	for (size_t k = 0; k < r->leavers; k++)
		at += snprintf(text + at, sizeof text - (size_t)at, " leaves %u %lld",
			       r->leaver[k].node, (long long)r->leaver[k].at);
	if (r->spare)
		at += snprintf(text + at, sizeof text - (size_t)at, " spare %u", r->spare);
	if (r->large || faultrun_large)
		at += snprintf(text + at, sizeof text - (size_t)at, " large");
	if (r->accumulate)
		at += snprintf(text + at, sizeof text - (size_t)at, " accumulate %u",
			       r->accumulate);
	if (r->poisoned)
		at += snprintf(text + at, sizeof text - (size_t)at, " poisoned %u %u %u",
			       r->poisoned, r->doses, r->spot);
	if (r->running)
		at += snprintf(text + at, sizeof text - (size_t)at, " running");
	if (r->evaluates)
		at += snprintf(text + at, sizeof text - (size_t)at, " evaluates");
	if (r->clean)
		at += snprintf(text + at, sizeof text - (size_t)at, " clean");
	if (r->forever)
		snprintf(text + at, sizeof text - (size_t)at, " forever");
	return text;
}

static unsigned long runs, failures, interrupted;

static void try_run(const struct faultrun *r, struct faultend *end)
{
	const char *wrong = faultrun(r, end);

	runs++;
	interrupted += end->status == TW_INTERRUPTED;
	if (!wrong)
		return;
	failures++;
	fprintf(stderr, "FAILED %s\n  replay: %s\n", wrong, faultrun_replay(r));
}

/* Kill the node at the 1st, 2nd, … event, until the run ends before. */
static void kill_everywhere(const char *preset, uint32_t node, int64_t lasts, uint64_t stride)
{
	struct faultrun r = { .preset = preset,
			      .workers = 3,
			      .servers = 2,
			      .shards = 3,
			      .seed = 7,
			      .faults = 1,
			      .forever = lasts < 0 };
	struct faultend end = { .events = UINT64_MAX };

	for (uint64_t event = 1; event < end.events; event += stride) {
		r.fault[0] = (struct tw_fault){
			.kind = TW_FAULT_KILL_AT, .a = node, .lasts = lasts, .event = event
		};
		try_run(&r, &end);
	}
}

unsigned long faultrun_kills(const char *const *presets, uint64_t stride)
{
	failures = runs = interrupted = 0;
	for (size_t k = 0; presets[k] && failures < 20; k++) {
		kill_everywhere(presets[k], 0, 2 * TW_SECOND, stride);  /* master */
		kill_everywhere(presets[k], 1, 3 * TW_SECOND, stride);  /* a server, back soon */
		kill_everywhere(presets[k], 2, -1, stride);             /* a server, for ever */
		kill_everywhere(presets[k], 3, TW_SECOND / 10, stride); /* worker, at once */
		kill_everywhere(presets[k], 4, -1, stride);             /* worker, for ever */
	}
	printf("%lu runs, %lu interrupted\n", runs, interrupted);
	return failures;
}

unsigned long faultrun_seeds(const char *const *presets, uint64_t first, uint64_t count)
{
	failures = runs = interrupted = 0;
	for (uint64_t seed = first; seed < first + count && failures < 20; seed++)
		for (size_t k = 0; presets[k]; k++) {
			const uint64_t h = seed * 2654435761u + k * 40503u;
			struct faultrun r = { .preset = presets[k],
					      .workers = 2 + (uint32_t)(h >> 3) % 4,
					      .servers = 1 + (uint32_t)(h >> 7) % 3,
					      .shards = 3 + (uint32_t)(h >> 11) % 3,
					      .seed = seed,
					      .fault_seed = seed,
					      .crashes = (uint32_t)(h >> 13) % 4,
					      .partitions = (uint32_t)(h >> 17) % 3,
					      .resets = (uint32_t)(h >> 19) % 6,
					      .slow = (uint32_t)(h >> 23) % 2,
					      .loss = (h >> 29) % 3 == 0 ? 0.1 : 0,
					      .running = (h >> 31) % 2,
					      .forever = true };
			struct faultend end;

			try_run(&r, &end);
		}
	printf("%lu runs, %lu interrupted\n", runs, interrupted);
	return failures;
}

/* Who leaves, and when: at most `servers` of the servers and `workers` of the workers. */
static void draw_leavers(struct faultrun *r, uint64_t h, uint32_t servers, uint32_t workers)
{
	const int64_t span = TW_SECOND * 8 / 5; /* about as long as the run */

	for (uint32_t k = 0; k < servers; k++, h = h * 6364136223846793005u + 1442695040888963407u)
		r->leaver[r->leavers++] = (struct leaver){ 1 + k, (int64_t)(h >> 20) % span };
	for (uint32_t k = 0; k < workers; k++, h = h * 6364136223846793005u + 1442695040888963407u)
		r->leaver[r->leavers++] =
			(struct leaver){ 1 + r->servers + (uint32_t)(h >> 9) % 2 + 2 * k,
					 (int64_t)(h >> 20) % span };
}

static void leave_once(const char *preset, uint64_t seed, uint64_t h, uint32_t crashes)
{
	struct faultrun r = { .preset = preset,
			      .workers = 4 + (uint32_t)(h >> 3) % 2,
			      .servers = 2 + (uint32_t)(h >> 7) % 2,
			      .shards = 3 + (uint32_t)(h >> 11) % 3,
			      .running = (h >> 15) % 2,
			      .spare = (uint32_t)(h >> 13) % 3,
			      .seed = seed,
			      .fault_seed = seed,
			      .crashes = crashes,
			      .resets = (uint32_t)(h >> 17) % 4,
			      .clean = crashes == 0 && (h >> 17) % 4 == 0,
			      .forever = crashes != 0 };
	struct faultend end;

	draw_leavers(&r, h * 2862933555777941757u + 3037000493u, 1 + (uint32_t)(h >> 19) % 2,
		     (uint32_t)(h >> 21) % 3);
	/* all of the servers: it ends as interrupted */
	for (size_t k = 0, servers = 0; k < r.leavers; k++) {
		servers += r.leaver[k].node <= r.servers;
		r.forever = r.forever || servers == r.servers;
	}
	try_run(&r, &end);
}

unsigned long faultrun_leaves(const char *const *presets, uint64_t first, uint64_t count)
{
	failures = runs = interrupted = 0;
	for (uint64_t seed = first; seed < first + count && failures < 20; seed++)
		for (size_t k = 0; presets[k]; k++) {
			const uint64_t h = (seed * 2654435761u + k * 40503u) * 0x9e3779b97f4a7c15u;

			leave_once(presets[k], seed, h >> 8, 0);
			leave_once(presets[k], seed, h >> 12, 1 + (h >> 40) % 3);
		}
	printf("%lu runs, %lu interrupted\n", runs, interrupted);
	return failures;
}

unsigned long faultrun_masters(const char *const *presets, uint64_t first, uint64_t count)
{
	failures = runs = interrupted = 0;
	for (uint64_t seed = first; seed < first + count && failures < 20; seed++)
		for (size_t k = 0; presets[k]; k++) {
			const uint64_t h =
				((seed * 2654435761u + k * 40503u) * 0x9e3779b97f4a7c15u) >> 8;
			struct faultrun r = { .preset = presets[k],
					      .workers = 2 + (uint32_t)(h >> 3) % 3,
					      .servers = 1 + (uint32_t)(h >> 7) % 3,
					      .shards = 3 + (uint32_t)(h >> 11) % 3,
					      .accumulate = 1 + (uint32_t)(h >> 13) % 2,
					      .running = (h >> 15) % 2,
					      .seed = seed };
			struct faultend end;

			for (uint64_t at = h >> 17; r.faults < 1 + (h >> 16) % 2; at = at / 7 + 1)
				r.fault[r.faults++] =
					(struct tw_fault){ .kind = TW_FAULT_KILL_AT,
							   .lasts = 2 * TW_SECOND,
							   .event = 1 + at % 400 + 400 * r.faults };
			/* and one whom the master that is lost had counted */
			if ((h >> 40) % 3 == 0)
				r.leaver[r.leavers++] =
					(struct leaver){ 1 + r.servers,
							 (int64_t)(h >> 20) % TW_SECOND };
			try_run(&r, &end);
		}
	printf("%lu runs, %lu interrupted\n", runs, interrupted);
	return failures;
}
