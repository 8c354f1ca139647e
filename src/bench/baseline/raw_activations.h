/* SPDX-License-Identifier: Apache-2.0 */
/* raw_activations.h - the floor of a pipeline in two processes: its activations and their
 * gradients over a bare socket, and nothing else. */
#ifndef TW_BENCH_RAW_ACTIVATIONS_H
#define TW_BENCH_RAW_ACTIVATIONS_H

#include "base/status.h"

#include <stddef.h>

/* Mean seconds of one micro-batch over loopback: a process sends `bytes`, another sends as many
 * back when all of them have come.  At most `window` micro-batches are on their way, each in memory
 * of its own, as those of a pipeline are.  The first `warm` of `count` are left out. */
struct tw_raw_activations {
	size_t bytes;
	unsigned window, warm, count;
};
enum tw_status tw_raw_activations(const struct tw_raw_activations *q, double *out,
				  struct tw_error *why);

#endif
