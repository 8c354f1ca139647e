/* SPDX-License-Identifier: Apache-2.0 */
/* lend.h - long payloads that stay where they are until the other process fetches them.
 *
 * Two processes of one machine that may read each other's memory need no socket for a long payload:
 * its frame has its address, the reader copies it from there, once, and says so.  Until then the
 * writer keeps it.
 *
 *  (1) a writer lends only to a reader that has shown that it can fetch: it has read the token.
 *  (2) the token stands in the writer's memory as long as what it lends stays there.  A reader that
 *      fetched bytes looks at it afterwards: if it is gone, the bytes may be anything. */
#ifndef TW_WIRE_LEND_H
#define TW_WIRE_LEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Payloads below cost less through the socket. */
#define TW_LEND_LEAST (64u << 10)

/* What a reader knows of the process that lends to it. */
struct tw_lender {
	uint64_t process, cell, token; /* the token stands at address `cell` */
};

/* In place of the bytes of a chunk. */
struct tw_loan {
	uint64_t address;
};

/* Can this process fetch from there? */
bool tw_lend_works(const struct tw_lender *from);
/* `len` bytes; false: they could not be read, or (2) are void. */
bool tw_lend_fetch(const struct tw_lender *from, struct tw_loan loan, void *to, size_t len);

#endif
