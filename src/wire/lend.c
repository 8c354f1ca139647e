/* SPDX-License-Identifier: Apache-2.0 */
/* lend.c - reading from the memory of another process. */
#include "wire/lend.h"

#include <sys/types.h>
#include <sys/uio.h>

/* The parts are read in order: the token last (2). */
bool tw_lend_fetch(const struct tw_lender *from, struct tw_loan loan, void *to, size_t len)
{
	uint64_t token = 0;
	const struct iovec here[2] = { { to, len }, { &token, sizeof token } };
	const struct iovec there[2] = { { (void *)(uintptr_t)loan.address, len },
					{ (void *)(uintptr_t)from->cell, sizeof token } };
	const ssize_t got = process_vm_readv((pid_t)from->process, here, 2, there, 2, 0);

	return got == (ssize_t)(len + sizeof token) && token == from->token;
}

bool tw_lend_works(const struct tw_lender *from)
{
	return from->token && tw_lend_fetch(from, (struct tw_loan){ from->cell }, NULL, 0);
}
