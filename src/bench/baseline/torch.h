/* SPDX-License-Identifier: Apache-2.0 */
/* torch.h - PyTorch in its own process, asked one thing after the other. */
#ifndef TW_BENCH_TORCH_H
#define TW_BENCH_TORCH_H

#include "base/machine/child.h"
#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

/* Seconds that a child may take to load PyTorch, and to answer anything later. */
#define TW_TORCH_START  120.0
#define TW_TORCH_ANSWER 120.0

/* All zeros: no child. */
struct tw_torch {
	struct tw_child child;
	int fd; /* both its standard input and output */
	char line[4096];
	size_t fill;
};

/* Start `python` with the program in torch_bench.py and these arguments (NULL at the end; NULL:
 * none).  All its libraries keep to the instruction set that we use.  Returns at once; the first
 * thing to hear is the greeting.  tw_torch_stop in any case. */
enum tw_status tw_torch_start(struct tw_torch *t, const char *python, const char *const *args,
			      struct tw_error *why);
/* Ask; takes the reference, and NULL is no memory.  Waits for nothing. */
enum tw_status tw_torch_tell(struct tw_torch *t, json_t *request, struct tw_error *why);
/* The next answer, the caller's reference.  TW_IO with a sentence where the child fails, is gone
 * or says nothing for so many seconds. */
enum tw_status tw_torch_hear(struct tw_torch *t, double seconds, json_t **answer,
			     struct tw_error *why);
/* Kill the child and wait for its end; nothing where there is none. */
void tw_torch_stop(struct tw_torch *t);

/* Start one that has PyTorch: `python`, or for NULL /usr/bin/python3, else python3 from PATH.
 * *hello is {"torch": version, "isa", "blas": kind, "blas_core", "blas_path", "python"}.  TW_ABSENT
 * with a sentence for people where nothing has it. */
enum tw_status tw_torch_open(struct tw_torch *t, const char *python, json_t **hello,
			     struct tw_error *why);
/* Run so many steps of a net that was made; seconds per step. */
enum tw_status tw_torch_steps(struct tw_torch *t, const char *net, unsigned steps, double *seconds,
			      struct tw_error *why);
/* The two halves of that, for several children at the same time. */
enum tw_status tw_torch_ask(struct tw_torch *t, const char *net, unsigned steps,
			    struct tw_error *why);
enum tw_status tw_torch_time(struct tw_torch *t, unsigned steps, double *seconds,
			     struct tw_error *why);

#endif
