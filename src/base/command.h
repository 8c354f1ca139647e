/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - commands over named vectors: whoever holds a range of the parameters holds the same
 * range of every vector, and carries out a list of commands on it.
 *
 *  (1) every command works element by element, or adds up over the elements.  So a list may be
 *      carried out for one part of the range after the other, and the vectors are read only once.
 *  (2) a command that adds up has one result.  Results of a list are in the order of its commands;
 *      the sum over all ranges is the result of the whole vector.
 *  (3) results come back when the list is done: no command of the list can use them. */
#ifndef TW_BASE_COMMAND_H
#define TW_BASE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

enum tw_command_kind {
	TW_COMMAND_COPY = 1, /* to = a */
	TW_COMMAND_FILL,     /* to = x */
	TW_COMMAND_SCALE,    /* to = x to */
	TW_COMMAND_AXPY,     /* to = to + x a */
	TW_COMMAND_MULTIPLY, /* to = a b, element by element */
	TW_COMMAND_DOT,      /* result: a . b */
	TW_COMMAND_GATHER,   /* to = mean of the portions of the evaluation, which is over now;
				result: their mean loss, NAN if some value was not finite */
	TW_COMMAND_EVALUATE, /* workers evaluate vector 0 on batch number x, after the list */
	TW_COMMAND_KINDS
};

struct tw_command {
	uint16_t kind, to, a, b; /* enum tw_command_kind; numbers of vectors */
	double x;
};
_Static_assert(sizeof(struct tw_command) == 16, "a record of VEC");

/* The parameters as workers see them are a vector like the others. */
#define TW_VECTOR_POINT 0

/* Does it have a result? */
static inline bool tw_command_results(const struct tw_command *c)
{
	return c->kind == TW_COMMAND_DOT || c->kind == TW_COMMAND_GATHER;
}

/* Does it write vector `to`? */
static inline bool tw_command_writes(const struct tw_command *c)
{
	return c->kind != TW_COMMAND_DOT && c->kind != TW_COMMAND_EVALUATE;
}

/* A list that is being written; whoever gives `at` has made room for `room` commands. */
struct tw_commands {
	struct tw_command *at;
	uint32_t count, room;
};

static inline void tw_command_add(struct tw_commands *l, enum tw_command_kind kind, uint32_t to,
				  uint32_t a, uint32_t b, double x)
{
	if (l->count < l->room)
		l->at[l->count++] =
			(struct tw_command){ kind, (uint16_t)to, (uint16_t)a, (uint16_t)b, x };
}
static inline void tw_command_copy(struct tw_commands *l, uint32_t to, uint32_t from)
{
	tw_command_add(l, TW_COMMAND_COPY, to, from, 0, 0);
}
static inline void tw_command_scale(struct tw_commands *l, uint32_t to, double x)
{
	tw_command_add(l, TW_COMMAND_SCALE, to, 0, 0, x);
}
static inline void tw_command_axpy(struct tw_commands *l, uint32_t to, double x, uint32_t a)
{
	tw_command_add(l, TW_COMMAND_AXPY, to, a, 0, x);
}
static inline void tw_command_dot(struct tw_commands *l, uint32_t a, uint32_t b)
{
	tw_command_add(l, TW_COMMAND_DOT, 0, a, b, 0);
}

#endif
