/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - when is a contribution applied, and when may a worker continue?
 *
 * A gate decides; the shard parks, the master commits.  Every function here is pure: it reads no
 * clock, allocates nothing, never waits and cannot fail (impossible options were refused at
 * the start).  Shard functions are called with the shard entered by one thread. */
#ifndef TW_STRATEGY_GATE_H
#define TW_STRATEGY_GATE_H

#include "base/status.h"
#include "base/variant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tw_verdict {
	TW_APPLY,      /* apply this contribution alone, now */
	TW_ACCUMULATE, /* add it to what is collected (or stage it for its round) */
	TW_DROP,       /* too late; acknowledged, counted, not applied */
};

enum tw_gate_traits {
	TW_GATE_ROUNDS = 1,   /* the master commits whole rounds (HAVE/COMMIT) */
	TW_GATE_HOLDS = 2,    /* may hold answers (`may_read` can say no) */
	TW_GATE_COLLECTS = 4, /* one update may take several contributions */
	TW_GATE_LOCKFREE = 8, /* workers write the parameters themselves: threads only */
	TW_GATE_IN_TURN = 16, /* can apply a round's contributions one after the other */
	TW_GATE_DROPS =
		32, /* without rounds: `admit` may drop what is late; its positions are dealt
			       again.  With several shards the master asks, for all of them */
	TW_GATE_WAITS = 64, /* without rounds: an update waits for every active worker */
};

/* Gates for which shards must know which workers are active. */
#define TW_GATE_ACTIVE (TW_GATE_HOLDS | TW_GATE_WAITS)

/* A gate with none of these applies each contribution at once and never makes anybody wait. */
#define TW_GATE_NOT_AT_ONCE                                                                        \
	(TW_GATE_ROUNDS | TW_GATE_HOLDS | TW_GATE_COLLECTS | TW_GATE_LOCKFREE | TW_GATE_DROPS)

/* How a shard keeps what was admitted until its update. */
enum tw_keeps {
	TW_KEEP_EACH,      /* as it came: contributions may be of several versions */
	TW_KEEP_SUM,       /* all are of the current version: they are one sum */
	TW_KEEP_BY_WORKER, /* the same, one sum for each worker; their means count alike */
};

/* What is kept. */
struct tw_collected {
	uint32_t count;   /* contributions */
	uint32_t workers; /* TW_KEEP_BY_WORKER: active workers of which there is one ... */
	uint32_t missing; /* ... or none ... */
	double inverse;   /* ... and the sum over `workers` of 1 / contributions of that one */
};

/* What a shard knows of the clocks of its workers: how many contributions each has closed. */
struct tw_clocks {
	uint32_t active_count; /* workers that are live, not idle, and whose clock is known */
	uint32_t least_slot;   /* one active worker that is at `least` */
	uint64_t least;        /* smallest clock among the active */
};

/* What becomes of several contributions (strategy/gate/sum.h has the rows). */
enum tw_sums { TW_SUM_MEAN, TW_SUM_TOTAL, TW_SUM_MEDIAN, TW_SUM_TRIMMED };
struct tw_summing {
	uint32_t kind; /* enum tw_sums */
	float trim;    /* TW_SUM_TRIMMED: the share that is left out at each end */
};

struct tw_gate {
	TW_VARIANT; /* traits: of enum tw_gate_traits */

	/* Refuse option values that do not fit this number of workers; NULL: nothing to refuse.
	 * The sentence names the field and what would work. */
	enum tw_status (*check)(const void *options, uint32_t workers, struct tw_error *why);

	/* Round gates, on the master: how many complete contributions close a round of so many
	 * `stripes` while `busy` further workers still compute for an earlier round (1 <= result
	 * <= stripes when stripes >= 1); NULL: all stripes.  A short round, at the end of an epoch,
	 * has fewer stripes than there are workers. */
	uint32_t (*quorum)(const void *options, uint32_t stripes, uint32_t busy);
	/* Round gates: should a late worker abandon its computation when its round closes?  NULL:
	 * no. */
	bool (*abandons)(const void *options);
	/* Round gates: apply one after the other (one version) instead of all together?  NULL: no.
	 */
	bool (*in_turn)(const void *options);
	/* TW_GATE_COLLECTS: where its options have a struct tw_summing, which is not at their
	 * beginning; 0: an update takes the mean. */
	size_t sum;

	/* How many updates late a contribution is on average, among this number of equally
	 * fast workers; NULL: workers / contributions of an update. */
	double (*staleness)(const void *options, uint32_t workers);

	/* TW_GATE_HOLDS: how many contributions a worker may be ahead of the slowest when it starts
	 * a step; NULL: not always the same. */
	double (*lead)(const void *options);

	/* Other gates: judge one whole contribution, once per (worker, incarnation, seq).  The
	 * shard asks; if the gate drops and there are several shards, the master does
	 * (tw_plan_judges).  NULL: apply it at once; in rounds, where lateness is judged by round
	 * on the master, accumulate it. */
	enum tw_verdict (*admit)(const void *options, uint32_t worker, uint64_t staleness);
	/* After TW_ACCUMULATE: is the update due with what is kept?  Where `missing` counts, it is
	 * asked again when a worker leaves or becomes idle. */
	bool (*full)(const void *options, const struct tw_collected *kept);
	/* NULL: TW_KEEP_EACH.  The others admit nothing of an earlier version. */
	enum tw_keeps (*keeps)(const void *options);

	/* Staleness at which a gradient that is being computed is given up: its worker is told, and
	 * begins again with new parameters; 0, or NULL: never. */
	uint64_t (*stops)(const void *options);

	/* May the answer or pull of a worker at this clock leave now?  NULL: always.  On false
	 * *whom is the slot of a worker that is waited for; the shard parks the request, and asks
	 * again when `least` has grown, when nobody is active or when the clock has changed.  So
	 * what is allowed once stays allowed while `least` grows. */
	bool (*may_read)(const void *options, const struct tw_clocks *clocks, uint64_t clock,
			 uint32_t *whom);
};

static inline uint32_t tw_gate_quorum(const struct tw_gate *g, const void *options,
				      uint32_t stripes, uint32_t busy)
{
	return g->quorum ? g->quorum(options, stripes, busy) : stripes;
}
static inline bool tw_gate_abandons(const struct tw_gate *g, const void *options)
{
	return g->abandons && g->abandons(options);
}
static inline bool tw_gate_is_in_turn(const struct tw_gate *g, const void *options)
{
	return g->in_turn && g->in_turn(options);
}
static inline struct tw_summing tw_gate_summing(const struct tw_gate *g, const void *options)
{
	return g->sum ? *(const struct tw_summing *)((const char *)options + g->sum)
		      : (struct tw_summing){ .kind = TW_SUM_MEAN };
}
/* Does an update take the sum of its contributions (in turn: each at the full rate), not their mean
 * (each at rate/N)?  The weight decay counts as often as the gradients; running statistics are
 * averaged either way. */
static inline bool tw_gate_totals(const struct tw_gate *g, const void *options)
{
	return tw_gate_summing(g, options).kind == TW_SUM_TOTAL;
}
/* Round gates: for each parameter, leave out this share of the contributions at each end and take
 * the mean of the rest, which all count the same; 0.5: the median; below 0: the mean by weight. */
static inline float tw_gate_trims(const struct tw_gate *g, const void *options)
{
	const struct tw_summing s = tw_gate_summing(g, options);

	return s.kind == TW_SUM_MEDIAN ? 0.5f : s.kind == TW_SUM_TRIMMED ? s.trim : -1.0f;
}
static inline uint64_t tw_gate_stops(const struct tw_gate *g, const void *options)
{
	return g->stops ? g->stops(options) : 0;
}
static inline enum tw_verdict tw_gate_admit(const struct tw_gate *g, const void *options,
					    uint32_t worker, uint64_t staleness)
{
	if (g->admit)
		return g->admit(options, worker, staleness);
	return g->traits & TW_GATE_ROUNDS ? TW_ACCUMULATE : TW_APPLY;
}
static inline enum tw_keeps tw_gate_keeps(const struct tw_gate *g, const void *options)
{
	return g->keeps ? g->keeps(options) : TW_KEEP_EACH;
}

/* Does the gate drop what is late, with these options? */
static inline bool tw_gate_drops(const struct tw_gate *g, const void *options)
{
	return (g->traits & TW_GATE_DROPS) && tw_gate_admit(g, options, 0, UINT64_MAX) == TW_DROP;
}

/* The gate of a run that an optimiser drives; no job names it. */
extern const struct tw_gate tw_gate_portions;
TW_REGISTRY(gate, tw_gate);

#endif
