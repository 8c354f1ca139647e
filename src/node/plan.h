/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - everything the actors are told: a job with every preset and default spelled out.
 *
 * Made once by job/, the same on every node, never changed.  Actors get a pointer to it as the
 * `arg` of their seat (struct tw_role_arg). */
#ifndef TW_NODE_PLAN_H
#define TW_NODE_PLAN_H

#include "actor/actor.h"
#include "base/order.h"
#include "base/sha256.h"
#include "strategy/codec.h"
#include "strategy/descent.h"
#include "strategy/gate.h"
#include "strategy/mixing.h"
#include "strategy/pipeline.h"
#include "strategy/projection.h"
#include "strategy/reduction.h"
#include "strategy/rule.h"
#include "strategy/staleness.h"

/* What new parameters do to a worker's own copy: they take its place; they do, but own steps that
 * were not pushed stay; nothing, both are drawn together when the worker pushes; a mix of both. */
enum tw_merges { TW_MERGE_REPLACE, TW_MERGE_KEEP, TW_MERGE_ELASTIC, TW_MERGE_MIX };
enum tw_delay_law { TW_DELAY_CONSTANT, TW_DELAY_UNIFORM, TW_DELAY_GEOMETRIC };

/* Contributions of a worker that may be on their way without an answer. */
#define TW_CREDITS 2

/* Steps that a worker may ask for samples ahead of. */
#define TW_AHEAD_MOST 16u

/* Remove a worker after this many contributions in a row that are not finite, if others' are. */
#define TW_STRIKES 8

/* What is trained: one vector, cut into shards. */
struct tw_problem {
	size_t trainable, buffers;
	uint32_t shards;
	const size_t *border; /* shards + 1, over trainable + buffers; border[0] = 0 */
	uint64_t samples, tests;
	struct tw_constants constants; /* of the model, beside the vector: its digest has them */
	uint64_t held; /* a second set: scored once, at the end; numbered after the tests */
};

/* What is dealt to workers, in global positions (epoch * samples + place). */
struct tw_dealing {
	uint32_t batch;        /* per worker and step, unless global_batch */
	uint32_t global_batch; /* 0: none; else slot k of N gets floor(G(k+1)/N) - floor(Gk/N) */
	uint32_t accumulate;   /* batches per step's gradient, summed in order */
	uint64_t positions;    /* deal [0, positions) */
	struct tw_subsets subsets; /* one for each slot; count 0: everybody gets everything */
	uint64_t own;   /* subsets.own: samples of a worker here; 0: as many as there is room for */
	uint64_t block; /* positions of a block (base/order.h); 0: there are none */
	uint32_t ahead; /* samples come with the leases: for so many steps after the one under way
			   a worker asks early; 0: every worker has all samples */
	uint32_t warm_workers; /* number of workers that train alone ... */
	uint64_t warm_until;   /* ... until so many positions are dealt; 0: no warm start */
	bool warm_gradual;     /* one after the other joins them, as that many are done */
};

/* What else ends the run. */
struct tw_ends {
	uint64_t updates; /* round gates: stop after this many rounds; 0: no limit */
	int64_t time;     /* ns of the world's clock; 0: none */
	double loss;      /* stop when an evaluation is at or below; NAN: never */
	double accuracy;  /* ... at or above; NAN: never */
};

/* train.mode online: samples pass once, in their order, and each is predicted before it is learnt
 * from. */
struct tw_online_plan {
	bool is;
	uint64_t window; /* samples of the windowed loss */
	uint64_t keeps;  /* of a stream: samples that are here at once; 0: all are here */
};

/* Which parameters are the result. */
struct tw_keeping {
	bool best;         /* those of the best evaluation; else those at the end */
	bool by_accuracy;  /* best: of the highest accuracy; else of the lowest loss */
	uint64_t patience; /* thresholds without a better evaluation that end the run; 0: never */
};

/* Members; node 0 is the master, 1..servers the servers, then the workers. */
struct tw_crew {
	uint32_t workers, min, servers;
	int64_t wait;  /* see cluster.wait */
	int64_t limit; /* heartbeat limit: how long to wait for a silent peer */
	int64_t stuck; /* ... at least, for one that answers but does not work; 0: no limit */
};

/* An evaluation is dealt in so many chunks, if there are as many test samples. */
#define TW_SCORE_CHUNKS 16

/* Floats of a sum in one message, at most: what was added stays in the cache until it is sent. */
#define TW_REDUCE_FLOATS (64u << 10)

/* Who holds the parameters: servers, or every worker a replica of its own. */
struct tw_topology {
	const struct tw_reduction *reduction; /* how peers add up; NULL: there are servers */
	const struct tw_mixing *mixing;       /* NULL: replicas are equal after every round */
};

/* One stage of a model that is cut: the part between two cuts of the engine, and the parameters of
 * it, which are whole shards. */
struct tw_stage {
	uint32_t first, last;  /* cuts */
	const uint32_t *shard; /* in order: of its trainable parameters, then of its buffers */
	uint32_t shards;
	size_t floats; /* of these shards */
	/* What crosses its first and its last cut; with the largest micro-batch so many floats go
	 * forward over the last, and back over the first. */
	const struct tw_model_cut *in, *out;
	size_t sends, returns;
	size_t send_bytes, return_bytes; /* of a usual one, as traffic.act writes them */
	uint32_t batch; /* samples of the largest micro-batch: workers that are left share */
	double forward, backward; /* shares of a step's work */
	size_t stash;             /* bytes between a forward and its backward; 0: it recomputes */
	size_t scratch;           /* bytes of a computation */
	uint32_t cell, lanes; /* the cells that compute it in turn: the first of them, how many */
	struct tw_pipe_keeps keeps; /* of a cell: the most of any lane */
};

/* The model of a worker is cut into stages, each computed by a cell of the worker: an actor of its
 * own, on its own node; or by several that take turns, its lanes (strategy/pipeline.h). */
struct tw_staging {
	const struct tw_pipeline *schedule; /* NULL: a worker computes everything by itself */
	const void *options;
	uint32_t stages;       /* at least 1 */
	const uint32_t *lanes; /* by stage; NULL: one each */
	uint32_t cells;        /* of a worker: the lanes of all stages */
	bool with_shards; /* the node of a cell holds the shards of its stage; there are no servers,
			     and one worker */
	const struct tw_stage *stage;
	const uint32_t *stage_of; /* by shard */
};

/* A batch method drives the run: workers evaluate portions of a batch, and the master tells the
 * shards what to do with their vectors.  Positions that are dealt count evaluations: evaluation k
 * (from 1) has [(k - 1) batch, k batch), whichever samples it is of. */
struct tw_optimising {
	const struct tw_optimiser *method; /* NULL: none; gate, rules and policies do */
	const void *options;
	struct tw_descent_options how;
	uint64_t batch;   /* samples of one evaluation */
	uint32_t portion; /* samples of one gradient */
	bool backup;      /* the last portions are dealt to two workers */
};

/* Elements of the vector up to `to` whose rates are multiplied with the factor; a list of them, in
 * order, goes to the last trainable element. */
struct tw_rate_run {
	size_t to;
	float factor;
};

/* One half of the update: near, at the worker, or far, where the parameters are.  Its functions are
 * in half.h. */
struct tw_half {
	const struct tw_rule *rule;
	const void *options;
	const struct tw_rate_run *layers; /* of the job's rule; NULL: 1 for all */
};

/* How vectors travel, and how often. */
struct tw_traffic {
	const struct tw_codec *up, *down;
	const struct tw_codec *act; /* of activations and their gradients, between stages */
	const void *up_options, *down_options, *act_options;
	uint32_t push, fetch; /* steps between pushes, between fetches */
	bool overlap;         /* a worker computes on while it fetches */
	bool cache;           /* it fetches only when the gate says that its copy is too old */
	uint32_t fragments;   /* a push carries one of so many parts of the vector, in turn */
	uint32_t delay;       /* own steps between a push and the merge of its answer */
	uint64_t push_from;   /* positions before this one are pushed step by step */
	bool delta;           /* a worker steps by itself, and pushes where that led ... */
	bool average_state;   /* ... with the state of its rule, which is averaged as well */
	bool adaptive;        /* `push` is for quick workers: others take fewer steps */
	enum tw_merges merge; /* at a fetch */
	float alpha;          /* ELASTIC: share of the difference; MIX: share of the own copy */
	double skip_push, skip_fetch; /* B-FASGD's c; NAN: never skips */
};

/* Steps between fetches, on the worker's own copy. */
struct tw_local {
	const struct tw_rule *rule; /* NULL: none.  No per-worker rules */
	const void *options;
	float rate;
};

/* The staleness experiment (sim.delay): gradients computed d versions back. */
struct tw_delay {
	uint32_t steps; /* 0: none */
	enum tw_delay_law law;
	double ramp; /* epochs over which the delay grows from 0 */
};

struct tw_checkpoint_plan {
	int64_t every;          /* ns; 0: only when asked to stop */
	bool final;             /* also at the end */
	bool drain;             /* cut: drain; else running */
	uint64_t stop_after;    /* end as interrupted after this many; 0: never */
	int64_t save_time;      /* what saving takes on the world's clock (sim); 0: not known */
	uint64_t memory;        /* bytes of a cut that the master holds at once, at most */
	struct tw_sha job_hash; /* of what must be the same to resume */
};

struct tw_plan {
	uint64_t seed;
	struct tw_problem problem;
	struct tw_dealing dealing;
	struct tw_ends ends;
	struct tw_crew crew;
	struct tw_topology topology;
	struct tw_staging staging;
	struct tw_optimising optimising;
	struct tw_keeping keeping;
	struct tw_online_plan online;
	double evaluate_every;    /* epochs between evaluations; 0: only at the end */
	bool instant_evaluations; /* they take no time (sim), so nothing need wait for them */
	struct tw_checkpoint_plan checkpoint;
	bool gaps; /* the gap is measured; APPLY notes carry before and sent */

	/* the line */
	const struct tw_gate *gate;
	const void *gate_options;
	const struct tw_staleness *staleness;
	const void *staleness_options;
	struct tw_half near; /* rule NULL: a worker pushes its gradient as it is */
	struct tw_half far;  /* never NULL */
	struct tw_traffic traffic;
	struct tw_local local;
	float clip;                      /* longest gradient norm; 0: any */
	float decay;                     /* weight decay; 0 none */
	struct tw_projection projection; /* after each update of the parameters */
	struct tw_schedule schedule;
	struct tw_delay delay;
};

struct tw_role_arg {
	const struct tw_plan *plan;
	uint32_t index; /* shard number; worker's wanted slot, of a cell its wanted place */
	bool resume; /* master: the world's clock continues from the cut's (sim): release on time */
};

extern const struct tw_actor_class tw_master_class, tw_server_class, tw_shard_class,
	tw_worker_class;

/* How far the run is with this many samples, in epochs, and the rate that the schedule gives then.
 * No run goes beyond what is dealt: samples that are dealt again may be counted again. */
static inline double tw_plan_progress(const struct tw_plan *p, uint64_t samples)
{
	const uint64_t all = p->dealing.positions;

	return (double)(samples < all ? samples : all) / (double)p->problem.samples;
}
static inline float tw_plan_rate(const struct tw_plan *p, uint64_t samples)
{
	return tw_schedule_rate(&p->schedule, tw_plan_progress(p, samples));
}

/* Does the master judge each contribution, once for all shards?  Shards that judged a late one by
 * themselves would not agree; one shard need not ask anybody. */
static inline bool tw_plan_judges(const struct tw_plan *p)
{
	return p->problem.shards > 1 && tw_gate_drops(p->gate, p->gate_options);
}

/* Must shards know which workers are active? */
static inline bool tw_plan_shards_know_active(const struct tw_plan *p)
{
	return (p->gate->traits & TW_GATE_ACTIVE) && !tw_plan_judges(p);
}

/* Does each worker's node hold a replica of all shards?  There are no servers then. */
static inline bool tw_plan_has_peers(const struct tw_plan *p)
{
	return p->topology.reduction;
}

/* Do replicas differ from each other while they train? */
static inline bool tw_plan_is_loose(const struct tw_plan *p)
{
	return p->topology.mixing;
}

/* Does a contribution go to all replicas, and is it encoded for that? */
static inline bool tw_plan_spreads(const struct tw_plan *p)
{
	return p->topology.mixing && (p->topology.mixing->traits & TW_MIXING_SPREADS);
}

/* Does a replica apply the contributions of its own worker only, and count those of the others? */
static inline bool tw_plan_counts_others(const struct tw_plan *p)
{
	return tw_plan_is_loose(p) && !tw_plan_spreads(p) && !p->topology.mixing->round;
}

/* Do replicas that stay equal get each contribution as its worker encoded it?  What a codec leaves
 * out is its worker's to send later; what it would leave out of a sum would be nobody's. */
static inline bool tw_plan_gathers(const struct tw_plan *p)
{
	return tw_plan_has_peers(p) && !tw_plan_is_loose(p) &&
	       (p->traffic.up->traits & TW_CODEC_REMEMBERS);
}

/* How the contributions of a round are added up, or parameters where replicas mix in rounds; NULL:
 * by servers, or there are no rounds. */
static inline const struct tw_reduction *tw_plan_round(const struct tw_plan *p)
{
	if (tw_plan_is_loose(p))
		return p->topology.mixing->round;
	return tw_plan_gathers(p) ? p->topology.reduction->gather : p->topology.reduction;
}

/* Do workers get their samples from the master? */
static inline bool tw_plan_sends_samples(const struct tw_plan *p)
{
	return p->dealing.ahead;
}

/* Do workers compute by stages? */
static inline bool tw_plan_is_staged(const struct tw_plan *p)
{
	return p->staging.schedule;
}

/* Does the node of a cell hold the shards of its stage? */
static inline bool tw_plan_is_with_stage(const struct tw_plan *p)
{
	return p->staging.with_shards;
}

static inline struct tw_pipe_shape tw_plan_pipe_shape(const struct tw_plan *p)
{
	return (struct tw_pipe_shape){ p->staging.stages, p->dealing.accumulate, p->staging.lanes };
}

/* The stage that this shard belongs to; NULL: there are none. */
static inline const struct tw_stage *tw_plan_stage_at(const struct tw_plan *p, uint32_t shard)
{
	return p->staging.stage_of ? &p->staging.stage[p->staging.stage_of[shard]] : NULL;
}
/* Updates by which gradients of this shard's stage come late. */
static inline uint32_t tw_plan_late(const struct tw_plan *p, uint32_t shard)
{
	const struct tw_stage *s = tw_plan_stage_at(p, shard);

	return s ? s->keeps.late : 0;
}

/* Who pushes to this shard: every worker, or every lane of the shard's stage.  Lane l of the worker
 * at `slot` is sender slot * lanes + l. */
static inline uint32_t tw_plan_lanes(const struct tw_plan *p, uint32_t shard)
{
	const struct tw_stage *s = tw_plan_stage_at(p, shard);

	return s ? s->lanes : 1;
}
static inline uint32_t tw_plan_senders(const struct tw_plan *p, uint32_t shard)
{
	return p->crew.workers * tw_plan_lanes(p, shard);
}

/* Do workers begin a micro-batch with this shard's parameters?  A gate that holds workers holds
 * them there: a stage that only goes on with what others have begun is held up by nobody, or two
 * workers could wait for each other at different stages. */
static inline bool tw_plan_begins_with(const struct tw_plan *p, uint32_t shard)
{
	return !p->staging.stage_of || p->staging.stage_of[shard] == 0;
}

/* Samples that workers may have to score. */
static inline uint64_t tw_plan_scored(const struct tw_plan *p)
{
	return p->problem.tests + p->problem.held;
}

/* Does a batch method drive the run? */
static inline bool tw_plan_optimises(const struct tw_plan *p)
{
	return p->optimising.method;
}

/* Portions of one evaluation. */
static inline uint64_t tw_plan_portions(const struct tw_plan *p)
{
	return (p->optimising.batch + p->optimising.portion - 1) / p->optimising.portion;
}

/* Where the samples of a dealt position are, if it is of this batch.  A batch lies in one epoch;
 * what is too short for one at the end of an epoch is left out. */
static inline uint64_t tw_plan_position(const struct tw_plan *p, uint64_t dealt, uint64_t batch)
{
	const uint64_t each = p->optimising.batch, samples = p->problem.samples;
	uint64_t in_epoch;

	if (!tw_plan_optimises(p))
		return dealt;
	in_epoch = samples / each ? samples / each : 1;
	return batch / in_epoch * samples + batch % in_epoch * each + dealt % each;
}

/* Samples of the largest step: one worker may be alone with the global batch. */
static inline uint32_t tw_plan_step_most(const struct tw_plan *p)
{
	const struct tw_dealing *d = &p->dealing;
	const uint32_t most = d->batch > d->global_batch ? d->batch : d->global_batch;

	return most > p->optimising.portion ? most : p->optimising.portion;
}

/* Snapshots of what a worker was sent that may still be computed on (of a stage: and more, as many
 * as it keeps.own). */
static inline uint32_t tw_plan_memory(const struct tw_plan *p)
{
	switch (p->delay.steps ? p->delay.law : TW_DELAY_CONSTANT) {
	case TW_DELAY_UNIFORM:
		return 2 * p->delay.steps + 2;
	case TW_DELAY_GEOMETRIC:
		return 8 * p->delay.steps + 2;
	default:
		return p->delay.steps + 2;
	}
}

/* The rule that the job names as its update, wherever it runs. */
static inline const struct tw_half *tw_plan_update(const struct tw_plan *p)
{
	return p->near.rule ? &p->near : &p->far;
}

/* What a worker steps its own copy of the parameters with; rule NULL: it has no copy. */
static inline struct tw_half tw_plan_own_steps(const struct tw_plan *p)
{
	if (p->traffic.cache)
		return p->far; /* it adds its own updates, as the shards do */
	return p->traffic.delta ? p->near : (struct tw_half){ p->local.rule, p->local.options };
}

/* Are parts of the vector exchanged in turn, or while a worker steps on? */
static inline bool tw_plan_streams(const struct tw_plan *p)
{
	return p->traffic.fragments > 1 || p->traffic.delay;
}

/* Does a push of this round bring something for this shard?  Fragments are strided over shards. */
static inline bool tw_plan_carries(const struct tw_plan *p, uint32_t shard, uint64_t round)
{
	const uint32_t parts = p->traffic.fragments;

	return parts < 2 || shard % parts == round % parts;
}

/* Does a worker's copy of the parameters outlive a fetch? */
static inline bool tw_plan_own_parameters(const struct tw_plan *p)
{
	return p->traffic.merge == TW_MERGE_ELASTIC || p->traffic.merge == TW_MERGE_MIX ||
	       tw_plan_streams(p);
}

/* Arrays of the workers' rule that travel with the parameters and are averaged, each as long as the
 * vector: the *state*.  A slice is its parameters and buffers, then its range of each array. */
static inline uint32_t tw_plan_state_arrays(const struct tw_plan *p)
{
	return p->traffic.average_state ? p->near.rule->arrays : 0;
}

/* Does a worker keep anything that must survive it: momentum, the state of its own steps (unless
 * the shards have it; what the rule shows still depends on its last rate), its own parameters, what
 * a codec owes? */
static inline bool tw_plan_worker_keeps(const struct tw_plan *p)
{
	const struct tw_half own = tw_plan_own_steps(p);
	const bool state = own.rule && own.rule->arrays &&
			   (!p->traffic.average_state || tw_rule_shows(own.rule, own.options));

	return (p->near.rule && !p->traffic.delta) || state || tw_plan_own_parameters(p) ||
	       (p->traffic.up->traits & TW_CODEC_REMEMBERS);
}

/* Does what a worker keeps go back with the shards at a rollback?  What a codec owes does: it is
 * what was contributed less what they applied.  So does what its deltas were made with. */
static inline bool tw_plan_worker_goes_back(const struct tw_plan *p)
{
	return (p->traffic.up->traits & TW_CODEC_REMEMBERS) ||
	       (p->traffic.delta && tw_plan_worker_keeps(p));
}

/* Steps between two pushes, from this position on. */
static inline uint32_t tw_plan_period(const struct tw_plan *p, uint64_t position)
{
	return position < p->traffic.push_from ? 1 : p->traffic.push;
}

/* Samples that this worker should take for one contribution which begins at this position. */
static inline double tw_plan_stripe(const struct tw_plan *p, double batch, uint64_t position)
{
	return batch * p->dealing.accumulate * (p->traffic.delta ? tw_plan_period(p, position) : 1);
}

/* May a stripe of a round go beyond the end of an epoch?  One of many steps must, or the last round
 * of every epoch would leave most workers without work.  With subsets it leaves everybody some. */
static inline bool tw_plan_crosses_epochs(const struct tw_plan *p)
{
	return tw_plan_optimises(p) || (p->traffic.delta && (p->gate->traits & TW_GATE_ROUNDS) &&
					!p->dealing.subsets.count);
}

/* Floats for each element in a shard's part of a cut: the parameter, the one that is kept, and
 * those of the rules, the policy, the optimiser and the workers. */
static inline uint64_t tw_plan_part_arrays(const struct tw_plan *p)
{
	const uint64_t vectors = tw_plan_optimises(p) ? tw_descent_vectors(p->optimising.method,
									   p->optimising.options)
						      : 0;

	return 1 + p->keeping.best + vectors + p->far.rule->arrays + p->staleness->arrays +
	       tw_plan_state_arrays(p) +
	       (p->far.rule->traits & TW_RULE_PER_WORKER ? p->crew.workers : 0);
}
/* About how many bytes the parts of these floats have. */
static inline uint64_t tw_plan_range_bytes(const struct tw_plan *p, size_t from, size_t to)
{
	return (to - from) * tw_plan_part_arrays(p) * sizeof(float);
}
static inline uint64_t tw_plan_part_bytes(const struct tw_plan *p, uint32_t shard)
{
	return tw_plan_range_bytes(p, p->problem.border[shard], p->problem.border[shard + 1]);
}

/* Is a cut more than the master may hold?  Its parts then come and go one after another. */
static inline bool tw_plan_cut_is_large(const struct tw_plan *p)
{
	const size_t *border = p->problem.border;

	return tw_plan_range_bytes(p, border[0], border[p->problem.shards]) > p->checkpoint.memory;
}

/* Is the vector more than the master may hold? */
static inline bool tw_plan_vector_is_large(const struct tw_plan *p)
{
	return (p->problem.trainable + p->problem.buffers) * sizeof(float) > p->checkpoint.memory;
}

/* Cells of a worker; the number of a cell among those of all workers is its place. */
static inline uint32_t tw_plan_cells(const struct tw_plan *p)
{
	return p->staging.cells ? p->staging.cells : 1;
}
/* Which stage a cell computes ... */
static inline uint32_t tw_plan_stage_of(const struct tw_plan *p, uint32_t cell)
{
	uint32_t stage = 0;

	if (!p->staging.lanes)
		return cell;
	while (cell >= p->staging.lanes[stage])
		cell -= p->staging.lanes[stage++];
	return stage;
}
/* ... in which of its lanes. */
static inline uint32_t tw_plan_lane_of(const struct tw_plan *p, uint32_t cell)
{
	const struct tw_pipe_shape shape = tw_plan_pipe_shape(p);

	return cell - tw_pipe_first_cell(&shape, tw_plan_stage_of(p, cell));
}
/* Which cell computes a micro-batch of a stage. */
static inline uint32_t tw_plan_cell_for(const struct tw_plan *p, uint32_t stage, uint64_t micro)
{
	const struct tw_stage *s = &p->staging.stage[stage];
	const bool shared = p->staging.schedule->traits & TW_PIPELINE_FLUSHES;

	return s->cell + (uint32_t)(micro % (shared ? p->dealing.accumulate : s->lanes) % s->lanes);
}
/* Where the nodes are known beforehand: that of a cell.  Actors hear from the master where cells
 * are. */
static inline uint32_t tw_plan_cell_node(const struct tw_plan *p, uint32_t slot, uint32_t cell)
{
	return 1 + p->crew.servers + slot * tw_plan_cells(p) + cell;
}
/* Node numbers: of the first cell of a worker; the others follow. */
static inline uint32_t tw_plan_worker_node(const struct tw_plan *p, uint32_t slot)
{
	return tw_plan_cell_node(p, slot, 0);
}
static inline struct tw_addr tw_master_addr(void)
{
	return (struct tw_addr){ 0, TW_MASTER, 0 };
}
static inline bool tw_plan_is_server(const struct tw_plan *p, uint32_t node)
{
	return node && node <= p->crew.servers;
}
/* Are shards on the nodes of workers?  There are no servers then. */
static inline bool tw_plan_holds_by_workers(const struct tw_plan *p)
{
	return tw_plan_has_peers(p) || tw_plan_is_with_stage(p);
}
/* May shards be on this node? */
static inline bool tw_plan_holds(const struct tw_plan *p, uint32_t node)
{
	return tw_plan_holds_by_workers(p) ? node != 0 : tw_plan_is_server(p, node);
}

#endif
