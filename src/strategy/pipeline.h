/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h - in which order the stages of a model work on micro-batches.
 *
 * A model is cut into stages 0..K-1.  A stage is computed by one cell of a replica, or by several
 * that take turns: its *lanes*.  Cells are numbered stage by stage, and in a stage lane by lane.  A
 * micro-batch goes forward through all stages and then backward, at each stage in one lane.  A
 * contribution is made of a *group* of M consecutive micro-batches: group g has micro-batches
 * gM..gM+M-1.
 *
 * A schedule gives each cell one endless list of moves.  A stream of N micro-batches is that list
 * without what belongs to micro-batches from N on: the end of a stream need not be known when it
 * begins.
 *
 *  (1) for every micro-batch of its own there is one FORWARD and, later, one BACKWARD in the list
 *      of a cell; UPDATE g comes after the last BACKWARD of group g, and updates come in order.
 *  (2) backwards come in the order of micro-batches, so that a contribution adds up the same
 *      numbers in the same order as a worker that accumulates M batches.
 *  (3) lists depend on K, M, the lanes, the cell and the options alone.
 *  (4) cells that make their lists together never wait in a circle, for any N: what a move needs
 *      is FORWARD of the stage before, or BACKWARD of the stage after, of the same micro-batch.
 *      A list without some micro-batches waits for nothing that the whole one does not wait for.
 *  (5) version v of a stage is what it has after v updates.  What `reads` says is there when the
 *      move comes up, and never goes back from one micro-batch to the next.
 *  (6) micro-batch m is computed in lane m mod r of a stage of r lanes.  Where updates wait for
 *      their group, m counts from 0 in every group, and the lanes of a stage share a group; M is
 *      at least r then.  Elsewhere a lane makes groups of M micro-batches of its own.
 *
 * Functions are pure, cannot fail and take constant time.  tw_pipeline_play (pipeline_play.c)
 * carries out any lists without computing anything. */
#ifndef TW_STRATEGY_PIPELINE_H
#define TW_STRATEGY_PIPELINE_H

#include "base/status.h"
#include "base/variant.h"

enum tw_deed {
	TW_FORWARD,
	TW_BACKWARD,       /* of inputs and parameters */
	TW_BACKWARD_INPUT, /* the two halves of it: only lists from files have them */
	TW_BACKWARD_WEIGHT,
	TW_UPDATE, /* the group's sum becomes the next version; takes no part in (4) */
	TW_DEEDS
};

struct tw_pipe_move {
	enum tw_deed deed;
	uint32_t stage;
	uint64_t micro; /* UPDATE: the group */
};

struct tw_pipe_shape {
	uint32_t stages;       /* K */
	uint32_t micros;       /* M */
	const uint32_t *lanes; /* by stage; NULL: one each */
};

/* What a cell is to its schedule.  Of every `cycle` micro-batches of a stream `own` are the cell's:
 * those at lane, lane + lanes, lane + 2 lanes ...  (6). */
struct tw_pipe_post {
	uint32_t stage, lane, lanes;
	uint32_t cycle, own;
	uint32_t micros; /* of its own that make a group */
	uint32_t ahead;  /* cells of later stages, for each cell of this one, rounded up */
};

enum tw_pipeline_trait {
	/* An update waits for all micro-batches of its group, and the next group for the update:
	 * no gradient is late.  Only such a schedule goes with rounds. */
	TW_PIPELINE_FLUSHES = 1,
};

#define TW_PIPE_NEWEST UINT64_MAX

struct tw_pipeline {
	TW_VARIANT; /* traits: of enum tw_pipeline_trait */
	/* Fewest micro-batches of a group; NULL: 1. */
	uint32_t (*least)(const void *options, uint32_t stages);
	/* Refuse options that contradict each other; NULL: none do. */
	enum tw_status (*check)(const void *options, struct tw_error *why);
	/* Move k of the endless list; it counts micro-batches of the cell's own. */
	struct tw_pipe_move (*move)(const struct tw_pipe_post *post, uint64_t k);
	/* (5): the version that FORWARD of a micro-batch reads, at every stage; TW_PIPE_NEWEST,
	 * or NULL: the newest that its stage has. */
	uint64_t (*reads)(const void *options, const struct tw_pipe_shape *shape, uint64_t micro);
	/* Does BACKWARD read what FORWARD read?  Else the newest.  NULL: it does. */
	bool (*stashes)(const void *options);
	/* Is `reads` the same version at every stage, of one replica? */
	bool (*vertical)(const void *options);
};

static inline uint64_t tw_pipeline_reads(const struct tw_pipeline *p, const void *options,
					 const struct tw_pipe_shape *shape, uint64_t micro)
{
	return p->reads ? p->reads(options, shape, micro) : TW_PIPE_NEWEST;
}
static inline bool tw_pipeline_stashes(const struct tw_pipeline *p, const void *options)
{
	return !p->stashes || p->stashes(options);
}
static inline bool tw_pipeline_is_vertical(const struct tw_pipeline *p, const void *options)
{
	return p->vertical && p->vertical(options);
}
static inline uint32_t tw_pipeline_least(const struct tw_pipeline *p, const void *options,
					 uint32_t stages)
{
	return p->least ? p->least(options, stages) : 1;
}

TW_REGISTRY(pipeline, tw_pipeline);

/* --- pipeline_lanes.c --------------------------------------------------------------------- */

static inline uint32_t tw_pipe_lanes(const struct tw_pipe_shape *shape, uint32_t stage)
{
	return shape->lanes ? shape->lanes[stage] : 1;
}
/* Cells of the stages before this one, so its first; of all K stages: all cells. */
uint32_t tw_pipe_first_cell(const struct tw_pipe_shape *shape, uint32_t stage);
struct tw_pipe_post tw_pipeline_post(const struct tw_pipeline *p, const struct tw_pipe_shape *shape,
				     uint32_t cell);
/* Micro-batch k of a cell's own. */
static inline uint64_t tw_pipe_micro(const struct tw_pipe_post *post, uint64_t k)
{
	return k / post->own * post->cycle + k % post->own * post->lanes + post->lane;
}
/* How many of the first `total` micro-batches are the cell's own: of one that is, its number k. */
static inline uint64_t tw_pipe_own(const struct tw_pipe_post *post, uint64_t total)
{
	const uint64_t rest = total % post->cycle;

	return total / post->cycle * post->own +
	       (rest > post->lane ? (rest - post->lane + post->lanes - 1) / post->lanes : 0);
}
/* Is it one of the cell's own? */
static inline bool tw_pipe_is_own(const struct tw_pipe_post *post, uint64_t micro)
{
	return micro % post->cycle % post->lanes == post->lane;
}
/* Is the move part of a stream that has so many micro-batches of the cell's own? */
static inline bool tw_pipe_move_counts(const struct tw_pipe_post *post,
				       const struct tw_pipe_move *m, uint64_t own)
{
	return (m->deed == TW_UPDATE ? m->micro * post->micros : m->micro) < own;
}

/* --- pipeline_list.c ---------------------------------------------------------------------- */

/* A cell's list for a stream of `total` micro-batches, which it counts as the stream does; written
 * up to `room` moves.  Returns how many it has: two for each of its own, and its groups. */
size_t tw_pipeline_list(const struct tw_pipeline *p, const struct tw_pipe_shape *shape,
			uint32_t cell, uint64_t total, struct tw_pipe_move *out, size_t room);

/* What a cell keeps at once while it makes its list, in a stream that is long enough. */
struct tw_pipe_keeps {
	uint32_t depth;    /* micro-batches between FORWARD and BACKWARD */
	uint32_t versions; /* of the parameters: those that are still read, and the newest */
	uint32_t late; /* updates of the stage between what FORWARD read and its own update ... */
	uint32_t own;  /* ... that the cell made itself; other lanes take turns with it */
	uint32_t mismatch; /* ... between FORWARD and BACKWARD, where nothing is stashed */
};
struct tw_pipe_keeps tw_pipeline_keeps(const struct tw_pipeline *p, const void *options,
				       const struct tw_pipe_shape *shape, uint32_t cell);

/* --- pipeline_play.c ---------------------------------------------------------------------- */

/* What cells compute with, and how they are linked, where they are not all alike. */
struct tw_pipe_machines {
	const double *speed;              /* by cell: what its moves take is divided by it */
	const double *latency, *per_byte; /* of a message, by [from * cells + to] */
	/* By cell: how long an UPDATE is under way to its shards, and how long its answer is.  A
	 * group ends only when the one before is answered; `newest`: no FORWARD begins before that,
	 * as it reads the newest version (tw_pipeline_reads).  `group`: updates wait for so many
	 * micro-batches, and the next ones do not begin before their cell has what all cells of
	 * the stage made of these; 0: nobody waits for the others. */
	const double *push, *answer;
	uint64_t group;
	bool newest;
	uint32_t *by; /* room for stages * micros: which cell has a micro-batch */
};

/* Lists of all cells; a cell may have several stages. */
struct tw_pipe_lists {
	const struct tw_pipe_move *const *move; /* by cell */
	const size_t *count;                    /* by cell */
	uint32_t cells, stages;
	uint64_t micros;                         /* of the stream: N */
	const struct tw_pipe_machines *machines; /* NULL: all cells are alike */
};

/* What a stage costs, in any unit of time; what it sends takes so long after it is computed. */
struct tw_pipe_times {
	double deed[TW_DEEDS];
	double forward_link, backward_link;   /* to the stage after it, to the one before ... */
	double forward_bytes, backward_bytes; /* ... and what `machines` say of so many bytes */
};

/* When a move was made. */
struct tw_pipe_when {
	double from, to;
};

/* How far a cell has come: moves made, when the last one ended, how long all of them took. */
struct tw_pipe_cell {
	size_t made;
	double at, busy;
	double answered; /* its last UPDATE is */
};

struct tw_pipe_played {
	double makespan;
	double bubble; /* share of the cells' time, from 0 to the makespan, in which they idle */
};

/* A place in the lists, where one of them is wrong. */
struct tw_pipe_place {
	uint32_t cell;
	size_t move;
};

/* Is every FORWARD and BACKWARD (or both halves of it) there once for every stage and micro-batch,
 * each stage in one cell?  TW_BAD_INPUT with the sentence and the place, which may be NULL.  `seen`
 * has stages * micros bytes of room, `owner` one for each stage: its cell. */
enum tw_status tw_pipeline_whole(const struct tw_pipe_lists *l, uint8_t *seen, uint32_t *owner,
				 struct tw_pipe_place *place, struct tw_error *why);

/* Carry out lists that are whole: each cell makes its moves in order, one at a time, each as soon
 * as what it needs is there.  `done` has TW_DEEDS * stages * micros values of room, `cell` one for
 * each cell; `when` (by cell, then by move) may be NULL.  TW_BAD_INPUT: they wait in a circle; the
 * sentence and the place name one of the waiting moves. */
enum tw_status tw_pipeline_play(const struct tw_pipe_lists *l, const struct tw_pipe_times *times,
				double *done, struct tw_pipe_cell *cell,
				struct tw_pipe_when *const *when, struct tw_pipe_played *out,
				struct tw_pipe_place *place, struct tw_error *why);

/* What texts call a deed: "2F0" is stage 2, forward, micro-batch 0. */
char tw_pipe_letter(enum tw_deed deed);

#endif
