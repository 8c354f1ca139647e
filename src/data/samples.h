/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - the samples of a set, by position: nothing but this knows where they lie.
 *
 * A set either has its samples one after the other in memory (`value` is set; a mapped file is
 * memory, too), or a *supply* gives them.  Whoever wants samples asks for positions:
 *
 *	tw_samples_fill   some, in any order; what training does
 *	tw_samples_walk   all of a set, in order; statistics, fingerprints, files
 *	tw_samples_soon   a hint that some will be wanted; it only ever saves time
 *
 * A supply that *lends* has its samples in memory of its own while they may be asked for, and is
 * what a set that is trained on has.  One that does not (samples that are drawn, or decoded) makes
 * them in the caller's room; tw_data_open has it make all of them once, and an import one piece
 * after the other.
 *
 * An unbounded source is a supply that lends, and a set whose count is TW_ENDLESS.  Position p is
 * sample p of the stream, counted from 0.  Samples are kept from their arrival until the supply is
 * told that nobody will ask for them again (forget).  A position that has not arrived yet, or was
 * let go, is TW_ABSENT: fill never waits, so a lease may only name positions that have arrived.
 * Such a set is not split and not walked; its order is that of the positions. */
#ifndef TW_DATA_SAMPLES_H
#define TW_DATA_SAMPLES_H

#include "base/arrived.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_ENDLESS UINT64_MAX

struct tw_data;

/* One sample as its source has it: not normalised. */
struct tw_sample {
	const void *value;     /* features of data->kind */
	const uint32_t *label; /* tw_data_labels of them, or */
	const float *target;   /* data->targets of them */
};

/* Where samples come from, by position.  Any thread may fill and hint. */
struct tw_supply {
	bool lends; /* `room` is not needed, and may be NULL */
	/* The samples at these positions, each below the count of the set.  What out[k] points to
	 * stays good until the set is closed, the position is let go, or `room` is used again.
	 * `room`: of n * tw_samples_room bytes, aligned for floats.
	 * TW_ABSENT: one of them is not here; others: it cannot be read or made. */
	enum tw_status (*fill)(struct tw_supply *s, const uint64_t *position, uint32_t n,
			       void *room, struct tw_sample *out, struct tw_error *why);
	/* These will be wanted soon, in this order.  NULL: it would not help. */
	void (*soon)(struct tw_supply *s, const uint64_t *position, uint32_t n);
	void (*close)(struct tw_supply *s); /* by tw_data_close */
	/* Of an unbounded source: the most samples that it has at once; 0: it is none.  How far it
	 * has come, after `wait` ns at most, or when there are `want` or no more; and nothing below
	 * this position is asked for any more. */
	uint64_t keeps;
	void (*arrived)(struct tw_supply *s, uint64_t want, int64_t wait, struct tw_arrived *out);
	void (*forget)(struct tw_supply *s, uint64_t below);
};

/* A set has labels (data->classes > 0) or targets (data->targets > 0), never both. */
struct tw_samples {
	uint64_t count;
	/* All samples, one after the other; NULL: only the supply has them. */
	const void *value;        /* count * features of data->kind */
	const uint32_t *label;    /* below data->classes; tw_data_labels of each sample */
	const float *target;      /* count * data->targets */
	const float *weight;      /* of the training set, as a source gave them; NULL: none */
	struct tw_supply *supply; /* NULL: none is needed.  With `value`, it only takes hints */
};

/* Bytes of one sample: its values, its labels or targets, and the room that a supply needs for
 * it. */
size_t tw_samples_width(const struct tw_data *d);
size_t tw_samples_answer(const struct tw_data *d);
size_t tw_samples_room(const struct tw_data *d);
/* Does tw_samples_fill work without room? */
bool tw_samples_lend(const struct tw_samples *s);

/* As struct tw_supply says of `fill`. */
enum tw_status tw_samples_fill(const struct tw_data *d, const struct tw_samples *s,
			       const uint64_t *position, uint32_t n, void *room,
			       struct tw_sample *out, struct tw_error *why);
void tw_samples_soon(const struct tw_samples *s, const uint64_t *position, uint32_t n);

/* Called with each sample of a set in order; `i` is its position.  The first status that is not
 * TW_OK ends the walk. */
typedef enum tw_status (*tw_samples_visit)(void *arg, uint64_t i, const struct tw_sample *sample,
					   struct tw_error *why);
/* Samples from.. of the set, at most `count` (UINT64_MAX: all that follow).  Takes memory of d's
 * heap for a while where the supply does not lend. */
enum tw_status tw_samples_walk(const struct tw_data *d, const struct tw_samples *s, uint64_t from,
			       uint64_t count, tw_samples_visit visit, void *arg,
			       struct tw_error *why);

#endif
