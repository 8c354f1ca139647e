/* SPDX-License-Identifier: Apache-2.0 */
/* round_books.h - what a shard has for the round that is open, for the files of this folder. */
#ifndef TW_NODE_DUTY_ROUND_ROUND_BOOKS_H
#define TW_NODE_DUTY_ROUND_ROUND_BOOKS_H

#include "node/duty/round/round.h"
#include "node/shard/shard.h"

/* What is staged may be of an earlier life of its worker: what was promised is kept. */
struct round_shard {
	struct contribution **staged; /* by slot; NULL: nothing is */
	struct contribution *
		*refused;      /* by slot: the last that was refused for its numbers, or NULL */
	uint32_t *list, count; /* slots whose worker has something staged, each once */
};

/* --- round_staged.c ------------------------------------------------------------------------- */

enum tw_status tw_round_books_open(struct shard *s);
void tw_round_books_close(struct shard *s);
/* Nothing is staged, or was refused; of one worker, nothing was refused. */
void tw_round_books_forget(struct shard *s);
void tw_round_forget_refused(struct shard *s, uint32_t slot);
/* HAVE: a contribution is staged.  Of all, for a master that may have lost what it was told. */
enum tw_status tw_round_tell(struct shard *s, struct tw_context *ctx, struct contribution *c);
void tw_round_tell_again(struct shard *s, struct tw_context *ctx);
/* Lanes of this worker whose slices for the round are here, if all of them are; 0: they are not. */
uint32_t tw_round_staged_of(const struct shard *s, const struct tw_member *who);

#endif
