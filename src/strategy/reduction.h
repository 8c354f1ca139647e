/* SPDX-License-Identifier: Apache-2.0 */
/* reduction.h - how peers add up their vectors, so that all of them have the sum in the end.
 *
 * A reduction cuts the vector into chunks and gives each peer, for each chunk, a list of moves.
 * The moves of a chunk are made in the order of the list; chunks know nothing of each other, so a
 * chunk may be cut into parts which go through the same list one after the other.
 *
 * A peer begins each chunk with nothing.  What it has of the chunk after its last move is the sum.
 *
 *  (1) every move that receives (ADD, TAKE) has one that sends (SEND, GIVE) on the other side, and
 *      no other: of a chunk, one peer sends to another at most one SEND and at most one GIVE.
 *  (2) every peer adds its own input to every chunk at most once, and it is in the sum once.
 *  (3) what GIVE sends is the whole sum, and has the same bits on all peers.
 *  (4) the lists are the same wherever and whenever they are asked for: they depend on the number
 *      of peers, the rank and the chunk alone.  With one peer, its own input is the sum.
 *  (5) no list waits in a circle: for any order of arrival, all peers come to the end.
 *  (6) a peer begins with the chunk that has the number of its rank (modulo chunks), then takes the
 *      next ones in turn: if all began with the same one, they would all send to the same peer.
 *  (7) where `own` is set, SEND sends the own input, whatever is here by then: nobody sends a sum.
 *
 * Functions are pure, cannot fail, and a single move costs at most log2(peers). */
#ifndef TW_STRATEGY_REDUCTION_H
#define TW_STRATEGY_REDUCTION_H

#include "base/variant.h"

enum tw_move_kind {
	TW_MOVE_ADD,  /* add what `peer` sent by SEND; the own rank: the own input */
	TW_MOVE_SEND, /* what is here so far, or (7) the own input, goes to `peer` */
	TW_MOVE_TAKE, /* what `peer` sent by GIVE takes the place of what is here */
	TW_MOVE_GIVE, /* the sum goes to `peer` */
};

struct tw_move {
	enum tw_move_kind kind;
	uint32_t peer; /* rank */
};

/* What a reduction is asked to cost. */
struct tw_reduction_load {
	uint32_t peers;
	double bytes;             /* of the vector, as it travels */
	double latency, per_byte; /* seconds; a card sends and receives one message at a time */
	double part;              /* bytes of one message, at most */
};

/* The world adds up (tw_sum in actor/actor.h); the moves only say what it costs. */
#define TW_REDUCTION_LIBRARY 1u

struct tw_reduction {
	TW_VARIANT;
	/* Into how many pieces of nearly equal length the vector is cut. */
	uint32_t (*chunks)(uint32_t peers);
	/* Length of the list, and move k of it. */
	uint32_t (*moves)(uint32_t peers, uint32_t rank, uint32_t chunk);
	struct tw_move (*move)(uint32_t peers, uint32_t rank, uint32_t chunk, uint32_t k);
	/* Bytes through the busiest peer, the larger of sent and received; seconds of a reduction
	 * that all begin at once, NULL: there is no formula (cost/cards.h plays the moves). */
	double (*busiest)(const struct tw_reduction_load *load);
	double (*seconds)(const struct tw_reduction_load *load);
	bool own; /* (7) */
	/* What takes its place where inputs must arrive as they were sent, because sums of them
	 * cannot travel in the same form; it has (7), one chunk, the same bits and no name of its
	 * own.  NULL: there is nothing like that. */
	const struct tw_reduction *gather;
};

/* Where chunk k of a vector of n values begins; k == chunks: its end. */
static inline size_t tw_reduction_border(size_t n, uint32_t chunks, uint32_t k)
{
	return n / chunks * k + n % chunks * k / chunks;
}

TW_REGISTRY(reduction, tw_reduction);

#endif
