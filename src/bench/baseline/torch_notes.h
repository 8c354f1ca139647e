/* SPDX-License-Identifier: Apache-2.0 */
/* torch_notes.h - what compute and scale share of PyTorch: it may be missing, or fail on the way.
 * */
#ifndef TW_BENCH_TORCH_NOTES_H
#define TW_BENCH_TORCH_NOTES_H

#include "bench/bench.h"
#include "bench/network_step.h"
#include "bench/baseline/torch.h"

/* Start PyTorch and put "torch" into the facts, an object or null, and what people should know of
 * it into the notes.  Where there is none t->pid is 0 and the bench continues: that is not a
 * failure. */
enum tw_status tw_torch_notes_open(const struct tw_bench_how *how, struct tw_torch *t,
				   struct tw_error *why);
/* Tell it to make a net, which must have so many parameters. */
enum tw_status tw_torch_notes_make(struct tw_torch *t, const struct tw_net_step_facts *net,
				   size_t parameters, struct tw_error *why);
/* The two halves of that, for several children at the same time. */
enum tw_status tw_torch_notes_ask(struct tw_torch *t, const struct tw_net_step_facts *net,
				  struct tw_error *why);
enum tw_status tw_torch_notes_made(struct tw_torch *t, const struct tw_net_step_facts *net,
				   size_t parameters, struct tw_error *why);
/* PyTorch failed on the way: say so in the notes and go on without. */
enum tw_status tw_torch_notes_lost(const struct tw_bench_how *how, struct tw_torch *t,
				   const struct tw_error *cause, struct tw_error *why);

#endif
