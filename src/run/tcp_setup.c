/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_setup.c - what processes of one run agree on, and what is known about them while they run. */
#include "run/tcp_setup.h"

#include "base/machine/cores.h"
#include "base/machine/regular_file.h"
#include "checkpoint/files.h"
#include "run/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEERS_MOST 4096
/* Parameters: the I/O thread applies them itself; of replicas, which do it piece by piece. */
#define SMALL       (64u << 10)
#define SMALL_PEERS (4u << 20)
#define BOOTS_MOST  4095 /* what incarnations have room for */

void tw_tcp_setup_init(struct tw_tcp_setup *n)
{
	*n = (struct tw_tcp_setup){ .tls = NULL };
	pthread_mutex_init(&n->lock, NULL);
}

void tw_tcp_setup_release(struct tw_tcp_setup *n)
{
	tw_job_free(n->kept);
	pthread_mutex_destroy(&n->lock);
}

void tw_tcp_setup_attach(struct tw_tcp_setup *n, struct tw_tcp *tcp)
{
	pthread_mutex_lock(&n->lock);
	n->tcp = tcp;
	pthread_mutex_unlock(&n->lock);
}

static void copy_peers(struct tw_tcp_setup *n)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_tcp_peer_info *info = heap->get(heap, PEERS_MOST * sizeof *info);
	struct tw_gauge_peer *peer = heap->get(heap, PEERS_MOST * sizeof *peer);
	const size_t count = info && peer ? tw_tcp_peers(n->tcp, info, PEERS_MOST) : 0;

	for (size_t k = 0; k < count; k++) {
		peer[k] = (struct tw_gauge_peer){
			.role = info[k].role,
			.slot = info[k].slot,
			.node = info[k].node,
			.connected = info[k].connected,
			.suspect = info[k].suspect,
			.heard_ago = info[k].heard,
			.bytes_sent = info[k].bytes_sent,
			.bytes_received = info[k].bytes_received,
		};
		memcpy(peer[k].name, info[k].name, sizeof peer[k].name);
		memcpy(peer[k].host, info[k].host, sizeof peer[k].host);
	}
	if (info && peer)
		tw_gauges_peers(n->gauges, peer, count);
	heap->put(heap, info);
	heap->put(heap, peer);
}

void tw_tcp_setup_refresh(struct tw_tcp_setup *n)
{
	uint64_t sent, received, codec[4];

	pthread_mutex_lock(&n->lock);
	if (n->tcp && n->gauges) {
		tw_tcp_bytes(n->tcp, &sent, &received);
		tw_gauges_bytes(n->gauges, sent, received);
		tw_tcp_codec(n->tcp, codec);
		tw_gauges_codec(n->gauges, TW_GAUGE_PUSH, codec[0] - n->codec[0],
				codec[1] - n->codec[1]);
		tw_gauges_codec(n->gauges, TW_GAUGE_PARAMS, codec[2] - n->codec[2],
				codec[3] - n->codec[3]);
		memcpy(n->codec, codec, sizeof codec);
		copy_peers(n);
	}
	pthread_mutex_unlock(&n->lock);
}

static void waits(void *arg, const char *who, const char *whom, const char *why, double seconds)
{
	struct tw_tcp_setup *n = arg;

	if (!n->gauges)
		return;
	if (why)
		tw_gauges_wait(n->gauges, who, whom, why, seconds);
	else
		tw_gauges_wait_over(n->gauges, who);
}

/* The most bytes that cross a cut: of a micro-batch, or of what a worker evaluates at once. */
static size_t crossing(const struct tw_plan *p)
{
	const uint64_t set =
		p->problem.tests > p->problem.held ? p->problem.tests : p->problem.held;
	const uint32_t chunk = (uint32_t)(set / TW_SCORE_CHUNKS + 1);
	size_t most = 0;

	for (uint32_t k = 0; k < p->staging.stages; k++) {
		const struct tw_stage *s = &p->staging.stage[k];
		const size_t tests =
			s->sends ? tw_model_cut_floats(s->out, chunk, false) : s->sends;

		most = s->sends > most ? s->sends : most;
		most = s->returns > most ? s->returns : most;
		most = tests > most ? tests : most;
	}
	return most * sizeof(float);
}

static uint64_t snapshots(const struct tw_plan *p, uint32_t shard)
{
	const struct tw_stage *s = tw_plan_stage_at(p, shard);

	return (uint64_t)tw_plan_senders(p, shard) *
	       (2 + tw_plan_memory(p) + (s ? s->keeps.own : 0));
}

/* The longest slice, and the most that a part of it can have. */
static void bounds(const struct tw_plan *p, const struct tw_engine *e, struct tw_tcp_options *out)
{
	const size_t all = p->problem.trainable + p->problem.buffers;
	size_t longest = 0;
	uint64_t sent = 0; /* snapshots that senders may still compute on, and contributions */
	uint64_t part;

	for (uint32_t s = 0; s < p->problem.shards; s++) {
		if (p->problem.border[s + 1] - p->problem.border[s] > longest)
			longest = p->problem.border[s + 1] - p->problem.border[s];
		if (snapshots(p, s) > sent)
			sent = snapshots(p, s);
	}
	out->push_most = longest * (8 + sizeof(float) * tw_plan_state_arrays(p)) + 4096;
	if (tw_plan_is_staged(p) && crossing(p) > out->push_most)
		out->push_most = crossing(p);
	if (tw_plan_sends_samples(p) &&
	    e->class->given_bytes(e, tw_plan_step_most(p)) > out->push_most)
		out->push_most = e->class->given_bytes(e, tw_plan_step_most(p));
	part = (uint64_t)longest * sizeof(float) *
	       (4 + 2 * TW_RULE_ARRAYS + TW_STALENESS_ARRAYS + sent);
	if (part < (uint64_t)all * sizeof(float) * (4 + TW_RULE_ARRAYS))
		part = (uint64_t)all * sizeof(float) * (4 + TW_RULE_ARRAYS);
	part += 16u << 20; /* names, spans, marks of who pushed what */
	out->part_most = part < UINT32_MAX ? (size_t)part : UINT32_MAX;
}

/* A cluster of another shape has other nodes and shards, and a run that diverged may have another
 * rate: a process that knows the old ones must ask again. */
static enum tw_status shape(const struct tw_sha *layout, const struct tw_job *job,
			    struct tw_sha *out)
{
	const struct tw_plan *p = &job->plan;
	const double all[] = { p->crew.servers,  p->problem.shards,         p->crew.workers,
			       tw_plan_cells(p), job->update.schedule.rate, job->update.clip };
	struct tw_sha_run h;

	tw_sha_init(&h);
	tw_sha_update(&h, layout, sizeof *layout);
	tw_sha_update(&h, all, sizeof all);
	if (p->staging.lanes)
		tw_sha_update(&h, p->staging.lanes, p->staging.stages * sizeof *p->staging.lanes);
	return tw_sha_final(&h, out);
}

enum tw_status tw_tcp_setup_options(struct tw_tcp_setup *n, const struct tw_job *job,
				    const struct tw_engine *engine, const struct tw_log *log,
				    struct tw_tcp_options *out, struct tw_error *why)
{
	const uint32_t cores = tw_cores();
	struct tw_transfer_facts facts;
	enum tw_status status = tw_transfer_facts(job, engine, &facts, why);

	if (status != TW_OK)
		return status;
	if (shape(&facts.layout, job, &out->layout) != TW_OK)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the model's layout",
			       job->file);
	out->heap = &tw_heap_system;
	out->log = log;
	out->tls = n->tls;
	out->peers = tw_plan_has_peers(&job->plan);
	out->cells = tw_plan_cells(&job->plan);
	out->with_shards = tw_plan_is_with_stage(&job->plan);
	out->listen = n->listen;
	out->accepted = n->accepted;
	out->accepts = n->accepts;
	out->job = facts.job;
	out->data = facts.data;
	out->servers = job->plan.crew.servers;
	out->border = job->plan.problem.border;
	out->width = 1 + tw_plan_state_arrays(&job->plan);
	out->shards = job->plan.problem.shards;
	out->every = job->cluster.heartbeat;
	out->suspect = job->cluster.suspect;
	out->limit = job->cluster.limit;
	out->waits = waits;
	out->waits_arg = n;
	out->helpers = n->helpers ? n->helpers : cores > 2 ? cores - 1 : 1;
	if (out->helpers > job->plan.problem.shards)
		out->helpers = job->plan.problem.shards;
	/* where an update takes microseconds, waking another thread for it takes longer */
	if (!n->helpers && job->plan.problem.trainable + job->plan.problem.buffers <=
				   (out->peers ? SMALL_PEERS : SMALL))
		out->helpers = 0;
	/* replicas update piece by piece; without a core for it, a helper is only in the way */
	if (!n->helpers && out->peers && cores <= 2)
		out->helpers = 0;
	bounds(&job->plan, engine, out);
	if (n->gauges)
		status = tw_gauges_plan(n->gauges, &job->plan);
	return status == TW_OK ? TW_OK : tw_fail(why, status, "no memory for the gauges");
}

/* --- who a run is ----------------------------------------------------------------------------- */

static enum tw_status draw(struct tw_tcp_identity *out, struct tw_error *why)
{
	if (getrandom(&out->run, sizeof out->run, 0) != sizeof out->run ||
	    getrandom(out->secret, sizeof out->secret, 0) != sizeof out->secret)
		return tw_fail(why, TW_IO, "no random numbers: %s", strerror(errno));
	out->run |= 1;
	out->boot = 0;
	return TW_OK;
}

static bool read_identity(int at, struct tw_tcp_identity *out)
{
	struct tw_block *text = NULL;
	bool good = false;

	if (tw_file_read(at, "cluster", 4096, &tw_heap_system, &text) == TW_OK)
		good = sscanf((const char *)text->data,
			      "run %" SCNx64 " secret %" SCNx64 " %" SCNx64 " boot %" SCNu32,
			      &out->run, &out->secret[0], &out->secret[1], &out->boot) == 4 &&
		       out->run;
	tw_block_drop(text);
	return good;
}

static enum tw_status keep_identity(int at, const char *dir, const struct tw_tcp_identity *id,
				    struct tw_error *why)
{
	char text[160];
	const int n = snprintf(text, sizeof text,
			       "run %016" PRIx64 " secret %016" PRIx64 " %016" PRIx64
			       " boot %" PRIu32 "\n",
			       id->run, id->secret[0], id->secret[1], id->boot);
	int fd;
	bool good;

	unlinkat(at, ".cluster", 0); /* of a run that was killed */
	fd = tw_regular_open(at, ".cluster", O_WRONLY | O_CREAT | O_EXCL, 0600);
	good = fd >= 0 && write(fd, text, (size_t)n) == n && fsync(fd) == 0;

	if (fd >= 0)
		good = close(fd) == 0 && good;
	good = good && renameat(at, ".cluster", at, "cluster") == 0 && fsync(at) == 0;
	return good ? TW_OK
		    : tw_fail(why, tw_not_regular(errno) ? TW_BAD_INPUT : TW_IO,
			      "%s/cluster cannot be written: %s", dir, tw_cause(errno));
}

enum tw_status tw_tcp_setup_identity(const char *dir, bool resumes, struct tw_tcp_identity *out,
				     struct tw_error *why)
{
	enum tw_status status = TW_OK;
	int at;

	*out = (struct tw_tcp_identity){ .run = 0 };
	if (!dir) {
		status = draw(out, why);
		out->boot = 1;
		return status;
	}
	at = tw_folder_at(AT_FDCWD, dir);
	if (at < 0)
		return tw_fail(why, TW_IO, "%s cannot be opened: %s", dir, strerror(errno));
	if (!resumes || !read_identity(at, out))
		status = draw(out, why);
	if (status == TW_OK && ++out->boot > BOOTS_MOST)
		status = tw_fail(why, TW_REFUSED,
				 "%s was started %d times, which is the limit; resume from its "
				 "last checkpoint in another directory",
				 dir, BOOTS_MOST);
	if (status == TW_OK)
		status = keep_identity(at, dir, out, why);
	close(at);
	return status;
}
