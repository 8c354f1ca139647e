/* SPDX-License-Identifier: Apache-2.0 */
/* faultrun.h - one simulated run with faults, and everything that must hold at its end.
 *
 * A watcher keeps the history behind each shard's parameters by itself, from the notes and from
 * what the store was given, and compares it with what the run says of itself. */
#ifndef TW_TEST_JOB_FAULTRUN_H
#define TW_TEST_JOB_FAULTRUN_H

#include "spec/job.h"

/* Somebody is asked to stop: a server or a worker, by its node. */
struct leaver {
	uint32_t node;
	int64_t at;
};

struct faultrun {
	const char *preset;
	const char *more; /* further lines of the job, or NULL */
	uint32_t workers, servers, shards;
	uint32_t accumulate; /* data.accumulate; 0: 1 */
	uint64_t seed;
	struct tw_fault fault[4];
	size_t faults;
	struct leaver leaver[6];
	size_t leavers;
	uint32_t poisoned; /* bit by node of a worker: its gradients are not finite ... */
	uint32_t doses;    /* ... the first so many of them ... */
	uint32_t spot;     /* ... in this of their values */
	void (*heard)(const char *who, const char *line); /* each line of the log; may be NULL */
	uint32_t spare;                             /* so many more workers than there are places */
	uint32_t crashes, partitions, resets, slow; /* drawn from fault_seed */
	uint64_t fault_seed;
	double loss;
	bool forever;   /* somebody may never come back: the run may end as interrupted */
	bool running;   /* cuts pause nobody */
	bool evaluates; /* several times an epoch */
	bool clean;     /* nobody dies: nothing may be lost or repeated */
	bool loud;
	bool large; /* a checkpoint is more than the master may hold */
};

struct faultend {
	enum tw_status status;
	uint64_t events;
	int64_t virtual_ns;
	struct tw_totals totals; /* without vectors */
	uint32_t gone;           /* bit by node: it said that it has left */
	uint32_t stepped;        /* bit by node of a worker: it worked */
};

/* Run it.  NULL if everything held, else a sentence (static buffer) saying what did not. */
const char *faultrun(const struct faultrun *r, struct faultend *end);
/* The command that replays it, for the one who reads a failure. */
const char *faultrun_replay(const struct faultrun *r);

/* For every one of these presets kill the master, a server (back soon; for ever) and a worker (back
 * at once; for ever) at every `stride`-th event.  Failures are printed with the command that
 * replays them; returns how many there were (it stops after twenty). */
unsigned long faultrun_kills(const char *const *presets, uint64_t stride);
/* For every preset and seed: crashes, partitions, resets, slow nodes and loss drawn from it. */
unsigned long faultrun_seeds(const char *const *presets, uint64_t first, uint64_t count);

/* For every preset and seed: servers that leave, workers that leave, more workers than places; then
 * the same with crashes. */
unsigned long faultrun_leaves(const char *const *presets, uint64_t first, uint64_t count);

/* For every preset and seed: the master alone is lost, once or twice; the servers outlive it. */
unsigned long faultrun_masters(const char *const *presets, uint64_t first, uint64_t count);

/* All runs from now on are with checkpoints that are more than the master may hold. */
extern bool faultrun_large;
/* Somebody outside computes, by the numbers of samples (world/desk.h). */
extern bool faultrun_outside;
/* ... and has samples that others do not have (data.placement: own). */
extern bool faultrun_own;
/* Samples come with the leases (data.placement: on-demand). */
extern bool faultrun_on_demand;

/* Presets that push gradients and that the simulator accepts, NULL at the end. */
extern const char *const faultrun_presets[];
/* Every preset of the table that pushes deltas, and gates and merges that go with them: what a job
 * file has behind `strategy:`.  NULL at the end. */
const char *const *faultrun_deltas(void);

#endif
