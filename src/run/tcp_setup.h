/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_setup.h - what `serve`, `join` and `train --processes` have in common: how processes reach
 * each other, and what is known about them while they run. */
#ifndef TW_RUN_TCP_SETUP_H
#define TW_RUN_TCP_SETUP_H

#include "metrics/gauges.h"
#include "spec/job.h"
#include "wire/address.h"
#include "wire/tls.h"
#include "world/tcp/tcp.h"

#include <pthread.h>

struct tw_tcp_setup {
	struct tw_tls *tls;              /* NULL: in the clear */
	const struct tw_address *listen; /* NULL: only inherited pairs */
	const int *accepted;             /* inherited pairs, taken over */
	size_t accepts;
	uint32_t helpers;         /* threads for shards; 0: one fewer than there are cores */
	struct tw_gauges *gauges; /* may be NULL; gets the plan, notes, peers and waits */
	/* Listening, and where; before anything else happens.  May be NULL. */
	void (*opened)(void *arg, const struct tw_address *bound);
	void *arg;
	/* the run's own */
	pthread_mutex_t lock;
	struct tw_tcp *tcp;
	uint64_t codec[4];
	struct tw_job *kept; /* a joiner's: the gauges may be asked for its plan until release */
};

void tw_tcp_setup_init(struct tw_tcp_setup *n);
void tw_tcp_setup_release(struct tw_tcp_setup *n); /* after the gauges are free */
/* Bring the gauges up to date; any thread, any time between init and release. */
void tw_tcp_setup_refresh(struct tw_tcp_setup *n);
/* From now on (or no more: NULL) this is the run's world. */
void tw_tcp_setup_attach(struct tw_tcp_setup *n, struct tw_tcp *tcp);

/* Fill what follows from the job: bounds, hashes, heartbeats, helpers, gauges. */
enum tw_status tw_tcp_setup_options(struct tw_tcp_setup *n, const struct tw_job *job,
				    const struct tw_engine *engine, const struct tw_log *log,
				    struct tw_tcp_options *out, struct tw_error *why);

/* Who a run is: from `dir`/cluster if the run resumes there (with the next boot), else new.  Saved
 * before it is used.  dir NULL: only for this process. */
enum tw_status tw_tcp_setup_identity(const char *dir, bool resumes, struct tw_tcp_identity *out,
				     struct tw_error *why);

#endif
