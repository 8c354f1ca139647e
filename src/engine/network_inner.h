/* SPDX-License-Identifier: Apache-2.0 */
/* network_inner.h - what the files of the network engine share: its parts, their programs, and the
 * scratch of one computation.
 *
 * A part is the network between two cuts (actor/engine.h).  All of it is one that is always there,
 * and whose programs do forward and backward at once. */
#ifndef TW_ENGINE_NETWORK_INNER_H
#define TW_ENGINE_NETWORK_INNER_H

#include "engine/network.h"

#include <pthread.h>

struct made {
	struct tw_program *program;
	enum tw_program_kind kind;
	uint32_t batch;
	struct tw_pool *arenas; /* where its arena is larger than the scratch has; else NULL */
	struct made *next;
};

struct part {
	uint32_t first, last; /* cuts */
	struct tw_graph_part of;
	enum tw_program_kind trains; /* with programs of this kind */
	size_t elements;             /* of the vector */
	size_t arena_room;           /* bytes of scratch for a program ... */
	size_t gathered;             /* ... and for tensors that their ops want whole */
	_Atomic(struct made *) list;
	struct part *next;
};

struct network {
	struct tw_engine e; /* must stay first */
	struct tw_heap *heap;
	struct tw_network_facts facts;
	struct tw_prefetch *prefetch;
	size_t *tensor; /* starts of those in the vector */
	float *drawn;   /* frozen values that are in no file; NULL: none */
	const float *frozen;
	struct tw_piece *constant;
	const struct tw_samples *test; /* what is evaluated ... */
	const struct tw_samples *held; /* ... and what is scored at the end; NULL: nothing else */
	uint32_t portion;              /* samples evaluated at once */
	uint32_t room;                 /* samples of the largest batch of any kind */
	size_t outputs;
	bool looks;   /* a batch is predicted by itself, before its gradient is computed */
	bool judged;  /* predictions are right or wrong */
	float *share; /* what the gradient of each output is multiplied with; NULL: 1 */
	struct tw_model_cut *cut;
	uint32_t *after; /* the node before each cut */
	pthread_mutex_t making;
	struct part whole;
	_Atomic(struct part *) parts; /* others, made when they are first asked for */
};

/* What a part reads of the data. */
static inline bool tw_part_begins(const struct part *p)
{
	return p->first == 0;
}
static inline bool tw_part_ends(const struct network *n, const struct part *p)
{
	return p->last + 1 == n->e.cuts;
}

/* network_parts.c */

/* List the cuts of a graph; TW_NO_MEMORY. */
enum tw_status tw_network_cuts(struct network *n, struct tw_error *why);
/* Make a part ready: its usual programs, and with them the arena's room. */
enum tw_status tw_part_init(struct network *n, struct part *p, uint32_t first, uint32_t last,
			    enum tw_program_kind trains, struct tw_error *why);
void tw_part_release(struct network *n, struct part *p);
/* The part between two cuts, made if need be; TW_BAD_INPUT: there is none. */
enum tw_status tw_part_of(const struct network *n, uint32_t first, uint32_t last,
			  struct part **out);
/* The program for this batch, made by whoever needs it first. */
enum tw_status tw_part_program(const struct network *n, struct part *p, enum tw_program_kind kind,
			       uint32_t batch, struct made **out);

/* Where things lie in the scratch of one computation. */
struct bench {
	uint8_t *arena;
	float *x, *target;
	float *clean; /* the inputs without their noise, where they are to be predicted */
	uint32_t *label;
	uint64_t *index;
	const float **parameter;
	float *gathered;
	const struct tw_piece *piece; /* of the parameters */
	size_t pieces;
	const float *wanted; /* what is to be predicted, in one of these; NULL: labels */
	float *weight;       /* of each sample of a training batch */
	bool weighs;         /* these are set */
};
/* Does it predict what its inputs were before the noise? */
static inline bool tw_network_denoises(const struct network *n)
{
	return n->facts.own_input && n->facts.options.noise > 0;
}
/* Lay the scratch out from `base`; returns its length.  With base 0 only the length counts. */
size_t tw_bench_carve(const struct network *n, const struct part *p, uintptr_t base,
		      struct bench *b);
/* A pointer per tensor of the part: into the piece that holds it, or to a gathered copy; NULL where
 * its op takes it in pieces. */
void tw_bench_tensors(const struct network *n, const struct part *p, const struct tw_inputs *in,
		      struct bench *b);

/* network_batch.c */

/* Samples of a training batch as far as the part reads them.  again: it has read them before. */
enum tw_status tw_network_fill(const struct network *n, const struct part *p,
			       const struct tw_inputs *in, bool again, struct bench *b);
/* A training batch for an engine that does not have it. */
size_t tw_network_given_bytes(const struct tw_engine *e, uint32_t count);
enum tw_status tw_network_give(const struct tw_engine *e, uint64_t from, uint32_t count,
			       uint8_t *out);
/* The set of samples that may be scored from this one on: *from becomes its place in the set. */
const struct tw_samples *tw_network_scored(const struct network *n, uint64_t *from);
/* The same of a set that is evaluated; `from` is a place in it. */
enum tw_status tw_network_fill_test(const struct network *n, const struct part *p,
				    const struct tw_samples *set, uint64_t from, uint32_t count,
				    struct bench *b);
/* Run a program on what was filled in; r has the rest. */
enum tw_status tw_network_execute(const struct network *n, struct made *m, struct bench *b,
				  struct tw_program_run *r);

/* network_passes.c: the functions of the engine's table. */
enum tw_status tw_network_pass(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       const struct tw_pass *pass, float *change, struct tw_score *score);
enum tw_status tw_network_needs(const struct tw_engine *e, uint32_t first, uint32_t last,
				uint32_t count, struct tw_needs *out);

#endif
