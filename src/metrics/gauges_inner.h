/* SPDX-License-Identifier: Apache-2.0 */
/* gauges_inner.h - the figures themselves, between those who gather and those who show them. */
#ifndef TW_METRICS_GAUGES_INNER_H
#define TW_METRICS_GAUGES_INNER_H

#include "metrics/gauges.h"
#include "metrics/stage_figures.h"
#include "node/figures.h"

#include <pthread.h>

/* A contribution: of this slot, or for this shard. */
struct gauge_one {
	uint32_t who, incarnation;
	uint64_t seq;
};

/* A worker, by its slot. */
struct gauge_slot {
	bool seen;            /* it did something, or a view named it */
	bool viewed;          /* `state` is known */
	bool stepping;        /* its steps are seen here, not only what shards get of them */
	bool timed;           /* `at` is when its last step or contribution was */
	uint32_t state;       /* enum tw_member_state */
	uint32_t incarnation; /* of its newest contribution ... */
	uint64_t seq;         /* ... on whichever shard it came first */
	int64_t at;           /* of the world's clock */
	double last, sum;     /* seconds between steps */
	uint64_t steps;       /* in sum */
	float owes;           /* norm of its residual after its newest contribution */
	struct gauge_one one; /* lock-free: the contribution last counted */
};

struct gauge_shard {
	bool seen;
	struct gauge_one one; /* the contribution last counted */
	uint64_t updates, steps, samples, refused, dropped;
	uint64_t pushes, own_steps, skipped, cached;
};

/* The place of a cell of a worker. */
struct gauge_cell {
	bool here;
	uint32_t node; /* who has it, or had it last */
};

struct gauge_peer {
	struct tw_gauge_peer p;
	int64_t heard; /* CLOCK_MONOTONIC, ns */
};

struct gauge_wait {
	char who[48], whom[48], why[120];
	int64_t since;
	bool counted;
};

struct gauge_mark {
	int64_t at;
	uint64_t samples;
};

struct gauge_facts {
	uint64_t computed_steps, computed_samples; /* of workers here */
	uint64_t applied_steps, applied_samples;   /* by that shard here which has most */
	uint64_t heard_steps, heard_samples;       /* by the master, since its process began */
	struct tw_point heard_first;               /* what was in then */
	uint64_t refused, dropped, dropped_rounds, redealt, dealt_upto;
	uint64_t sent_samples, sent_bytes; /* data.placement: on-demand */
	uint64_t checkpoints, cut, rollbacks, waits;
	uint64_t closed; /* positions dealt */
	double in;       /* samples whose contributions the master knows to be in */
	uint64_t staleness[TW_HISTOGRAM], staleness_sum, staleness_count;
	uint64_t pushes, own_steps, skipped, cached; /* by that shard here which has most */
	double drift, drift_most, residual_most;
	double residual_lost;    /* with workers that died ... */
	uint64_t residuals_lost; /* ... so many of them */
	uint64_t told;           /* contributions in drift */
	uint64_t sent, received;
	uint64_t values, values_sent; /* in contributions that shards here applied */
	double loss, accuracy, train_loss;
	bool evaluated, dealt, resumed, has_in, has_closed, has_train_loss, has_live, begun, over;
	uint32_t live;
	int64_t made, progressed, cut_at; /* CLOCK_MONOTONIC */
	struct tw_progressive score;      /* as it was reported last */
	struct gauge_mark old, mid;       /* the rate is since `old` */
};

struct tw_gauges {
	struct tw_heap *heap;
	pthread_mutex_t lock; /* guards everything but the codec's counts */
	const struct tw_plan *plan;
	char role[48], host[64];
	struct gauge_facts f;
	struct gauge_slot *slot;
	struct gauge_shard *shard;
	struct tw_tally *tally;          /* by shard, as it was last; NULL: no row shows it */
	struct tw_stage_figures *stages; /* NULL: workers have no cells */
	struct gauge_cell *cell;         /* by slot and cell, where there are stages */
	bool placing;                    /* the master that gives these places is here */
	struct gauge_peer *peer;
	struct gauge_wait *wait;
	size_t peers, peer_room, waits, wait_room;
	_Atomic uint64_t raw[TW_GAUGE_DIRECTIONS], encoded[TW_GAUGE_DIRECTIONS];
};

/* Everything at one moment. */
struct gauge_picture {
	struct gauge_facts f;
	const struct tw_plan *plan; /* may be NULL */
	const char *role, *host;
	int64_t clock;
	struct gauge_slot *slot;
	struct gauge_shard *shard;
	struct tw_tally tally; /* of all shards here */
	struct gauge_peer *peer;
	struct gauge_wait *wait;         /* the long ones */
	struct tw_stage_figures *stages; /* as they are now; may be NULL */
	struct gauge_cell *cell;
	bool placing;
	const struct gauge_peer **of;              /* peer of each slot, or NULL */
	size_t slots, shards, peers, waits, cells; /* cells: of all workers */
	uint64_t raw[TW_GAUGE_DIRECTIONS], encoded[TW_GAUGE_DIRECTIONS];
	struct tw_heap *heap;
	void *memory;
};

/* The facts, and what follows from them. */
struct gauge_page {
	struct gauge_facts f;
	uint64_t steps, samples, dropped, fetches;
	double loss, rate, epochs, dealt, since_cut, period, drift;
	uint32_t workers;
	bool has_loss, has_accuracy, bounded, has_cut, told, scored;
};

/* Rows of a struct for the pages; after the name of the metric: help, and where else it is. */
#define TW_GAUGE_ROW(s, field, kind, line, ...)                                                    \
	{                                                                                          \
		.name = line, .metric = line, .offset = offsetof(s, field), .type = kind,          \
		.help = __VA_ARGS__                                                                \
	}
/* Of struct gauge_page: of any run, and of workers that step by themselves, that cache, whose
 * codecs remember, and that predict before they learn. */
extern const struct tw_figure tw_gauge_training[], tw_gauge_deltas[], tw_gauge_caches[],
	tw_gauge_residuals[], tw_gauge_online[], tw_gauge_sent[];
struct gauge_page tw_gauges_page(const struct gauge_picture *g);

/* Text from elsewhere becomes UTF-8, which both formats ask for, and fits. */
void tw_gauges_name(char *to, size_t room, const char *from);
/* Copy it; NULL memory and TW_NO_MEMORY otherwise. */
enum tw_status tw_gauges_picture(struct tw_gauges *g, struct gauge_picture *out);
void tw_gauges_picture_release(struct gauge_picture *p);

static inline uint64_t tw_gauges_most(uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t ab = a > b ? a : b;

	return ab > c ? ab : c;
}
static inline uint64_t gauge_steps(const struct gauge_facts *f)
{
	return tw_gauges_most(f->computed_steps, f->applied_steps, f->heard_steps);
}
static inline uint64_t gauge_samples(const struct gauge_facts *f)
{
	return tw_gauges_most(f->computed_samples, f->applied_samples, f->heard_samples);
}
static inline double gauge_seconds(int64_t ns)
{
	return ns > 0 ? (double)ns / (double)TW_SECOND : 0.0;
}
/* Is the worker there? */
bool tw_gauges_up(const struct gauge_picture *p, size_t slot);
/* How many are. */
uint32_t tw_gauges_live(const struct gauge_picture *p);

#endif
