/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h - the deterministic simulator: virtual time, an event queue, links, faults.
 *
 * Same seed, same bits, on any number of cores.  Every draw is keyed by what it is drawn for (the
 * node and the first position of the batch; the link, the send time and the type of message), so
 * that a run resumed at a cut draws what the run that was not stopped draws.
 *
 * A node has one device: what its actors compute runs one after the other (sim_device.c).
 *
 * A message goes through the network card of its sender and that of its receiver and, where they
 * are in different groups of machines, through the link of each group in between (sim_link.c).
 *
 * Links: the master's node with every other, servers with workers, and any nodes that exchange
 * messages;
 * `up` comes only after a restart,
 * a reset or a partition that outlasted silent_limit, never at the start.  Messages within a node
 * take `local`, those with TW_FLAG_FREE no time; neither are counted in bytes, and both may
 * overtake others.
 * A save reaches the store when save_time has passed; a crash before completes it or not. */
#ifndef TW_WORLD_SIM_H
#define TW_WORLD_SIM_H

#include "actor/cluster.h"
#include "base/option.h"

enum tw_law {
	TW_LAW_CONSTANT,
	TW_LAW_UNIFORM,
	TW_LAW_LOG_NORMAL,
	TW_LAW_EXPONENTIAL,
	TW_LAW_GAMMA,
	TW_LAW_PARETO
};

/* What goes wrong, when.  In a job file: sim.faults: [{crash: worker 3, at: 5s, restart: 2s}, …] */
enum tw_fault_kind {
	TW_FAULT_CRASH,     /* node loses its memory; back after `lasts` (< 0: never) */
	TW_FAULT_PARTITION, /* a and b (TW_EVERYBODY: all others) cannot talk for `lasts` */
	TW_FAULT_RESET,     /* the connection a-b breaks and is made again at once: what was on its
			       way arrives, is lost or arrives late (duplicates, reordering) */
	TW_FAULT_SLOW,      /* node computes `factor` times slower for `lasts` */
	TW_FAULT_KILL_AT,   /* crash the node at the `event`-th handler entered in the run */
	TW_FAULT_LEAVE,     /* the worker's node is asked to stop: it leaves cleanly */
};
#define TW_EVERYBODY UINT32_MAX
struct tw_fault {
	enum tw_fault_kind kind;
	uint32_t a, b;
	int64_t at, lasts; /* ns of virtual time */
	uint64_t event;
	double factor;
};

/* A machine of a cluster of unequal ones: sim.nodes has one for each node that computes, in the
 * order of workers and of their cells. */
struct tw_machine {
	double speed;     /* 1: what it computes takes the times of `compute` */
	uint64_t memory;  /* bytes; 0: any */
	double bandwidth; /* of its network card, each direction, bits/s; 0: infinite */
	int64_t latency;
	uint32_t group; /* number of its group, from 1; 0: it is in none */
};
struct tw_machines {
	const struct tw_machine *at;
	uint32_t count; /* 0: all nodes are alike */
	const char *const
		*group; /* names; machines that have the same one share a link to others */
	uint32_t groups;
	double bandwidth; /* of the link of a group, each direction, bits/s; 0: infinite */
	int64_t latency;  /* what a message from group to group takes more */
};

struct tw_sim_options {
	/* compute: seconds per step of a worker of speed 1 */
	uint32_t law;
	int64_t mean, median; /* mean: all but log-normal, which takes the median */
	double sigma, spread, shape;
	struct tw_f64s speeds;             /* per worker, cyclic; empty: 1 */
	struct tw_machines machines;       /* instead of `speeds` and stragglers */
	uint32_t stragglers;               /* number of stragglers, the last workers ... */
	double slower;                     /* ... how many times slower they are ... */
	int64_t straggle_on, straggle_off; /* ... slow for `on`, then normal for `off`; 0: always */
	bool per_sample;                   /* the cost is per sample of the batch, not per step */
	double backward;       /* how many times longer than a forward, for who plans stages */
	struct tw_f64s stages; /* what forward and backward of each stage take, relative to each
				  other; empty: by operations and `backward` */
	struct tw_f64s by_label, by_sample; /* for the engine: see struct tw_effort */
	/* shards and links */
	double apply_rate; /* parameters per second that a shard applies; 0: infinitely fast */
	int64_t latency, jitter; /* one way; jitter: uniform in [0, jitter) on top */
	double bandwidth;        /* of each node's NIC, each direction, bits/s; 0: infinite */
	double loss;             /* share of messages that need a retransmission */
	int64_t retransmit;      /* what each retransmission adds */
	int64_t local;           /* what a message takes inside a node */
	int64_t save_time;       /* how long saving a cut takes */
	int64_t load_time;       /* ... and reading one */
	/* failure detection */
	int64_t closed_limit; /* a closed connection is down after this */
	int64_t silent_limit; /* a silent one after this */
	/* faults from the seed: the number of each, at times drawn in [0, fault_span) */
	uint32_t random_crashes, random_partitions, random_resets, random_slow;
	uint64_t fault_seed;
	int64_t fault_span;
	/* the machine underneath */
	uint32_t threads; /* compute pool; 0: as many as cores.  Never changes a result */
	int64_t start;    /* virtual time at the start (a resumed run: before its cut) */
	int64_t rest;     /* a resumed run continues at this time: no wait before it is logged */
};
/* Rows with dotted names ("compute.law", "stragglers.count"): nested mappings in a job file. */
extern const struct tw_option tw_sim_rows[];
/* One way between two machines, in the same group or not; NULL: a node that computes nothing, which
 * has the latency and the bandwidth of `o` and is in no group. */
int64_t tw_sim_latency(const struct tw_sim_options *o, const struct tw_machine *a,
		       const struct tw_machine *b);
/* Seconds for a byte through the narrowest of cards and links between them. */
double tw_sim_per_byte(const struct tw_sim_options *o, const struct tw_machine *a,
		       const struct tw_machine *b);
/* What no single row can say: TW_BAD_INPUT with the reason (Pareto without a mean, ...). */
enum tw_status tw_sim_check(const struct tw_sim_options *options, struct tw_error *why);
/* Rows of one entry of sim.faults, for struct tw_fault_text: parsed by job/, which knows nodes. */

/* Run the cluster until its master finishes, nothing can happen any more, or `max_ns` of virtual
 * time (0: no limit) have passed; the last two end with TW_REFUSED and name every wait.  `faults`
 * are added to those drawn from the seed.  `trace` (may be NULL) gets Chrome's trace-event JSON.
 * The return value is ran->error.status. */
enum tw_status tw_sim_run(const struct tw_cluster *cluster, const struct tw_sim_options *options,
			  const struct tw_fault *faults, size_t fault_count, const char *trace,
			  int64_t max_ns, struct tw_ran *ran);

#endif
