/* SPDX-License-Identifier: Apache-2.0 */
/* cluster.h - what a world is given to run: seats, engine, store, and who listens. */
#ifndef TW_ACTOR_CLUSTER_H
#define TW_ACTOR_CLUSTER_H

#include "actor/actor.h"

/* Where cuts are kept.  A cut may be too large to be in memory as a whole, so it comes and goes
 * part by part: `put` takes a part of a cut that a later `save` completes, whose list names that
 * part without bytes; what was put of a cut that is never completed is forgotten when another
 * one begins.  `save` returns when the cut is complete or not there at all.  `load` gives the
 * newest complete cut (0 parts and cut 0 when there is none); parts are references that the
 * caller drops. `look` is a load that gives only the heads (node/checkpoint_part.h) of those
 * parts of shards that hold no parameters of from..to.  Called by one thread at a time. */
struct tw_store {
	enum tw_status (*save)(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
			       size_t count);
	enum tw_status (*load)(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
			       size_t *count); /* *parts from the heap given at open */
	void (*loaded_free)(struct tw_store *s, struct tw_part *parts, size_t count);
	enum tw_status (*put)(struct tw_store *s, uint64_t cut, const struct tw_part *part);
	/* May be NULL: then `load` is called. */
	enum tw_status (*look)(struct tw_store *s, uint64_t from, uint64_t to, uint64_t *cut,
			       struct tw_part **parts, size_t *count);
};

/* Sees every note, in order, one at a time.  Returning false interrupts the run. */
typedef bool (*tw_observer)(void *arg, const struct tw_note *note);

struct tw_desk;

struct tw_cluster {
	const struct tw_seat *seat;
	size_t seats;
	uint32_t nodes; /* seats' nodes are 0..nodes-1; the master's is 0 */
	uint32_t cells; /* nodes of one worker, for names; 0 stands for 1 */
	uint32_t boot;  /* threads, tcp: of all nodes of this process; 0 stands for 1 */
	uint64_t seed;
	const struct tw_engine *engine;
	struct tw_desk *desk;   /* who computes, in place of the engine (world/desk.h); NULL: it */
	struct tw_store *store; /* never NULL: a memory store where nothing is to be kept */
	struct tw_heap *heap;
	const struct tw_log *log;
	tw_observer observer; /* may be NULL */
	void *observer_arg;
	const _Atomic int *interrupted; /* number of SIGINT/SIGTERM so far; may be NULL */
	const char *trace;              /* threads, tcp: file of the timeline; NULL: none */
};

/* What workers do with their time, of which each moment counts once: computing; else transferring,
 * while a message from or to the worker is on its way, or, in threads, while the worker's thread
 * works on messages; else waiting. */
enum tw_use { TW_USE_COMPUTING, TW_USE_TRANSFERRING, TW_USE_WAITING, TW_USES };
#define TW_USE_WORKERS 64 /* that are told one by one */
struct tw_usage {
	uint32_t workers;                       /* all of them; 0: the world does not measure it */
	double all[TW_USES];                    /* seconds, summed over the workers */
	double worker[TW_USE_WORKERS][TW_USES]; /* of the first ones */
};
/* Bytes that all servers received and sent, in bins of equal width from the start on. */
#define TW_LOAD_BINS 512
struct tw_load {
	int64_t width; /* ns; 0: there are no servers, or the world does not measure it */
	uint64_t received[TW_LOAD_BINS], sent[TW_LOAD_BINS];
};

/* Which samples were applied, where some take longer than others (struct tw_effort): their number
 * on shard 0, and the sum of their factors. */
struct tw_applied {
	uint64_t samples;
	double effort;
};

/* What a world counts. */
struct tw_ran {
	uint64_t events;    /* handlers entered */
	int64_t virtual_ns; /* sim: the clock at the end */
	uint64_t bytes_sent, bytes_received;
	uint64_t peak_bytes;       /* sim: payload bytes alive at once, at most */
	struct tw_usage usage;     /* sim, threads */
	struct tw_load load;       /* sim */
	struct tw_applied applied; /* sim */
	uint64_t waits;            /* waits of more than 5 s that were named in the log */
	struct tw_totals totals;   /* vector references are the caller's */
	struct tw_error error;     /* status not TW_OK: the first cause */
};

/* Drop what totals hold. */
void tw_totals_release(struct tw_totals *t);

#endif
