/* SPDX-License-Identifier: Apache-2.0 */
/* scarce.h - clusters without memory: every request refused in turn. */
#ifndef TW_TEST_JOB_SCARCE_H
#define TW_TEST_JOB_SCARCE_H

#include <stdbool.h>
#include <stdint.h>

/* A cluster that goes through every path that allocates: cuts, evaluations, a worker, a server
 * and the master that crash and come back (in the simulator). */
struct scarce {
	const char *preset;
	const char *strategy, *checkpoint, *sim; /* further fields, ", push: 2", or NULL */
	uint32_t workers, servers, shards;
	uint32_t from_workers, from_shards; /* resumes a cut of so many; 0: from the beginning */
	unsigned first, stride;
	bool optimises; /* the preset has an optimiser (simulator only) */
};

/* Run it with the nth request for memory refused, for n = 1, 2, ... `first` and then every
 * `stride`-th, until it comes through whole; then with all requests from the nth on refused; and
 * both again for messages, which worlds recycle.  Each time it ends by itself, says that there was
 * no memory, and gives everything back.  Returns how many runs that took. */
unsigned scarce_sim(const struct scarce *s);
/* The same in threads, where the nth request is not the same one every time. */
unsigned scarce_threads(const struct scarce *s);

#endif
