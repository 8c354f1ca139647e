/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_tcp.c - push + apply + pull between two processes, against the same bytes and the same
 * pass over the same kind of socket without anything else. */
#include "bench/harness/children.h"
#include "bench/exchange.h"
#include "bench/harness/harness_tcp.h"
#include "bench/baseline/raw_socket.h"
#include "run/run.h"

#include <string.h>

#define PARAMETERS 14600000u
#define ROUNDS     5
#define STEPS      24          /* of one round, without the first 8 */
#define TIMES      15          /* raw exchanges of one round */
#define BLOCK      (32u << 10) /* values: two of them fit into caches */
#define PATIENCE   120.0
#define TARGET     1.5 /* at most */

enum { PAIR, TCP, TLS, KINDS };

static const struct kind {
	const char *name;
	enum tw_raw_kind raw;
	bool pair, tls;
} kinds[KINDS] = {
	[PAIR] = { "pair", TW_RAW_PAIR, .pair = true },
	[TCP] = { "tcp", TW_RAW_TCP },
	[TLS] = { "tls", TW_RAW_TLS, .tls = true },
};

struct two {
	struct tw_harness_tcp_link link;
	struct tw_job *job;
	struct tw_null_engine *idle; /* shared: the worker's engine */
	size_t parameters;
	struct tw_log log;
};

static enum tw_status serve(void *arg, size_t number, struct tw_error *why)
{
	struct two *t = arg;
	struct tw_run_request q = { .log = &t->log };
	json_t *result = NULL;
	struct tw_null_engine idle;
	struct tw_tcp_setup net;

	tw_null_engine_init(&idle, t->parameters, STEPS + TW_EXCHANGE_WARM);
	tw_harness_tcp_serve(&t->link, &net);
	q.engine = &idle.engine;
	q.net = &net;
	return tw_run(&q, t->job, &result, why);
}

static enum tw_status work(void *arg, size_t number, struct tw_error *why)
{
	struct two *t = arg;

	return tw_harness_tcp_work(&t->link, t->job, &t->idle->engine, &t->log, why);
}

static enum tw_status run_both(struct two *t, struct tw_error *why)
{
	struct tw_children c;
	enum tw_status status = tw_children_init(&c, 2, why);

	if (status == TW_OK)
		status = tw_children_add(&c, serve, t, why);
	if (status == TW_OK)
		status = tw_children_add(&c, work, t, why);
	tw_harness_tcp_link_close(&t->link);
	if (status == TW_OK)
		status = tw_children_wait(&c, PATIENCE, why);
	tw_children_release(&c);
	return status;
}

static enum tw_status measure(const struct kind *k, size_t parameters, const struct tw_log *log,
			      double *out, struct tw_error *why)
{
	struct two t = { .parameters = parameters, .log = *log };
	enum tw_status status;

	t.idle = tw_shared_new(sizeof *t.idle);
	if (!t.idle)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	tw_null_engine_init(t.idle, parameters, STEPS + TW_EXCHANGE_WARM);
	status =
		tw_exchange_job(TW_WORLD_TCP, 1, STEPS + TW_EXCHANGE_WARM, parameters, &t.job, why);
	if (status == TW_OK)
		status = tw_harness_tcp_link_open(&t.link, k->pair, k->tls, why);
	if (status == TW_OK)
		status = run_both(&t, why);
	if (status == TW_OK) {
		*out = tw_null_engine_period(t.idle, 1, TW_EXCHANGE_WARM, STEPS + TW_EXCHANGE_WARM);
		if (!(*out > 0.0))
			status = tw_fail(why, TW_BAD_BYTES, "only %zu of %u exchanges happened",
					 atomic_load(&t.idle->calls), STEPS + TW_EXCHANGE_WARM);
	}
	tw_job_free(t.job);
	tw_shared_free(t.idle, sizeof *t.idle);
	return status;
}

/* A case: ours against its floor, the ratio the median of the rounds' ratios. */
static enum tw_status compare(json_t *cases, const char *name, const double *ours,
			      const double *floor, unsigned rounds, bool target,
			      struct tw_error *why)
{
	double a[TW_BENCH_ROUNDS], b[TW_BENCH_ROUNDS];
	const double ratio = tw_paired(ours, floor, rounds);
	json_t *more = target ? json_pack("{s:f}", "target_most", TARGET) : NULL;

	memcpy(a, ours, rounds * sizeof *a);
	memcpy(b, floor, rounds * sizeof *b);
	return tw_bench_paired(cases, name, tw_median(a, rounds), "s per exchange",
			       tw_median(b, rounds), ratio, more, why);
}

static enum tw_status say_how(const struct tw_bench_how *how, size_t parameters,
			      struct tw_error *why)
{
	return tw_bench_note(
		how, why,
		"exchange between two processes, a server with the shards and a worker whose "
		"gradients cost nothing, %zu parameters: exchange-pair over an inherited socket "
		"pair (as `train --processes`), exchange-tcp over loopback, exchange-tls over "
		"loopback with TLS_AES_128_GCM_SHA256.  Floors: a page of C that sends the same "
		"bytes both ways at once in blocks of %u KiB over the same kind of socket and "
		"makes "
		"the same SGD pass; loopback-over-pair is that over loopback against that over a "
		"socket pair.  Ratios are medians over the rounds",
		parameters, BLOCK / 256);
}

struct rounds {
	double ours[KINDS][TW_BENCH_ROUNDS], raw[KINDS][TW_BENCH_ROUNDS];
};

static enum tw_status report(const struct tw_bench_how *how, const struct rounds *r,
			     unsigned rounds, json_t *cases, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (int k = 0; k < KINDS && status == TW_OK; k++) {
		char name[40] = "exchange-";

		strcat(name, kinds[k].name);
		status = compare(cases, name, r->ours[k], r->raw[k], rounds, true, why);
	}
	if (status == TW_OK)
		status = compare(cases, "exchange-tcp-over-pair", r->ours[TCP], r->raw[PAIR],
				 rounds, false, why);
	if (status == TW_OK)
		status = compare(cases, "loopback-over-pair", r->raw[TCP], r->raw[PAIR], rounds,
				 false, why);
	return status;
}

enum tw_status tw_exchange_tcp(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	const size_t parameters = how->size ? how->size : PARAMETERS;
	/* what the actors say of their coming and going is no part of a bench */
	const struct tw_log quiet = { .sink = how->log->sink,
				      .arg = how->log->arg,
				      .level = TW_WARNING };
	struct rounds r = { 0 };
	enum tw_status status = TW_OK;

	for (unsigned i = 0; i < rounds && status == TW_OK; i++) {
		tw_log_line(how->log, TW_DEBUG, "bench", "exchange, round %u of %u", i + 1, rounds);
		for (int k = 0; k < KINDS && status == TW_OK; k++) {
			status = tw_raw_exchange(kinds[k].raw, parameters, BLOCK, TIMES,
						 &r.raw[k][i], why);
			if (status == TW_OK)
				status = measure(&kinds[k], parameters, &quiet, &r.ours[k][i], why);
		}
	}
	if (status == TW_OK)
		status = report(how, &r, rounds, cases, why);
	if (status == TW_OK)
		status = say_how(how, parameters, why);
	return status;
}
