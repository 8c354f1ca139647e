/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h - what the fuzzers share: a heap with bounds, input taken apart, files in memory. */
#ifndef TW_FUZZ_FUZZ_H
#define TW_FUZZ_FUZZ_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* What must be true whatever the input is; says so and aborts where it is not. */
#define MUST(truth) ((truth) ? (void)0 : tw_fuzz_broken(__FILE__, __LINE__, #truth))
_Noreturn void tw_fuzz_broken(const char *file, int line, const char *truth);

/* A heap that counts, refuses the nth request (0: none), and ends the run where somebody believes
 * a header and asks for more than `most` in all. */
struct tw_fuzz_heap {
	struct tw_heap heap; /* must stay first */
	size_t bytes, most;  /* asked for so far, together */
	unsigned calls, refuse;
	int live;
};
void tw_fuzz_heap_init(struct tw_fuzz_heap *h, unsigned refuse, size_t most);

/* The input from its front to its end. */
struct tw_fuzz_input {
	const uint8_t *at;
	size_t left;
};
uint8_t tw_fuzz_byte(struct tw_fuzz_input *in); /* 0 at the end */
/* A 16-bit length, little endian, and so many bytes; what is there if there are fewer. */
struct tw_fuzz_input tw_fuzz_piece(struct tw_fuzz_input *in);

/* A file in memory with these bytes, by number; its path stays valid for the process.  Writing the
 * same number again replaces it. */
#define TW_FUZZ_FILES 4
const char *tw_fuzz_file(unsigned number, const uint8_t *bytes, size_t n);

/* TW_FUZZ_TELL is set: whoever looks at an input wants to see why it is refused. */
bool tw_fuzz_tells(void);
/* A failure must be told: a sentence of one line, and a status that fits bad input. */
void tw_fuzz_told(enum tw_status status, const struct tw_error *why, bool memory_refused);

struct tw_data;
/* What must hold of a data set that was opened. */
void tw_fuzz_check(const struct tw_data *d);
/* Open the data source with option rows given as name, value, ..., NULL; normalise, make a batch,
 * close.  The heap must end as it began. */
void tw_fuzz_data(const char *source, uint8_t choice, struct tw_fuzz_heap *heap,
		  const char *const *options);

#endif
