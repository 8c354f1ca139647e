/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h - oneDNN's primitives as a program keeps them: made once, run by any thread.
 *
 * A kit owns the primitives of one program.  A hand is what one running thread also needs: memory
 * objects for every argument and a stream.  Hands are made when more threads run at the same time
 * than ever before, and kept.  Scratchpads are the user's (dnnl_scratchpad_mode_user), so nothing
 * ties a primitive to the thread that made it. */
#ifndef TW_GRAPH_ONEDNN_H
#define TW_GRAPH_ONEDNN_H

#include "base/heap.h"
#include "base/status.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#define TW_KIT_ARGS 12

struct tw_onednn;
struct tw_hand;

/* The one CPU engine of the process and the attribute with user scratchpad; never NULL after a
 * kit was made. */
dnnl_engine_t tw_onednn_engine(const struct tw_onednn *kit);
const_dnnl_primitive_attr_t tw_onednn_attr(const struct tw_onednn *kit);

/* Make the primitive of `pd` (which the kit takes and destroys, also on failure), to be run with
 * the arguments arg[0..n) (DNNL_ARG_SRC, ...; never the scratchpad).  *id names it;
 * *scratch (may be NULL) becomes max(*scratch, bytes of its scratchpad). */
enum tw_status tw_onednn_add(struct tw_onednn *kit, dnnl_primitive_desc_t pd, const int *arg,
			     size_t n, uint32_t *id, size_t *scratch);
/* What tw_onednn_add takes for the matrix product c = a b, or c += a b if it `adds` (source,
 * weights, destination). */
enum tw_status tw_onednn_product(const struct tw_onednn *kit, const dnnl_memory_desc_t *a,
				 const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *c,
				 bool adds, dnnl_primitive_desc_t *out);
/* A reorder between two descriptors; *id is TW_KIT_NONE where they are equal. */
#define TW_KIT_NONE UINT32_MAX
enum tw_status tw_onednn_reorder(struct tw_onednn *kit, const dnnl_memory_desc_t *from,
				 const dnnl_memory_desc_t *to, uint32_t *id, size_t *scratch);
/* Run it: data[k] belongs to arg[k]; `scratch` is at least what tw_onednn_add asked for. */
enum tw_status tw_hand_run(struct tw_hand *hand, uint32_t id, void *const *data, void *scratch);
/* A status of oneDNN's as one of ours. */
enum tw_status tw_onednn_status(dnnl_status_t st);

/* The descriptor of a batch in a layout (float, or the given type). */
struct tw_shape;
enum tw_status tw_onednn_describe(const struct tw_shape *s, uint32_t batch, int layout,
				  dnnl_memory_desc_t *out);

/* For programs. */
struct tw_onednn *tw_onednn_new(struct tw_heap *heap); /* NULL without memory */
void tw_onednn_free(struct tw_onednn *kit);
struct tw_hand *tw_onednn_take(struct tw_onednn *kit); /* NULL without memory */
void tw_onednn_give(struct tw_onednn *kit, struct tw_hand *hand);
/* How many threads what this thread starts may use (OpenMP); returns what it was.  Making and
 * running want 1; a hand that is given back restores what its thread had. */
uint32_t tw_onednn_threads(uint32_t threads);
/* Pin oneDNN to an instruction set ("avx512", "avx2", "plain"), before anything else is made.
 * Without this, it obeys THALWEG_ISA (src/base/machine/isa.h). */
enum tw_status tw_onednn_isa(const char *name);
/* What oneDNN uses.  It decides here, if it has not yet: tw_onednn_isa is refused from now on. */
dnnl_cpu_isa_t tw_onednn_effective_isa(void);

#endif
