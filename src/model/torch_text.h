/* SPDX-License-Identifier: Apache-2.0 */
/* torch_text.h - a network as source text for PyTorch. */
#ifndef TW_MODEL_TORCH_TEXT_H
#define TW_MODEL_TORCH_TEXT_H

#include "model/model.h"

/* Python that makes `net`, an nn.Sequential whose tensors have the names and shapes of the graph,
 * which was built of these layers: imports, the classes that PyTorch lacks, the layers.  *out is
 * for free().  TW_ABSENT: some layer has no counterpart.  TW_NO_MEMORY. */
enum tw_status tw_torch_text(const struct tw_graph *g, const struct tw_layer *layer, size_t layers,
			     char **out);

#endif
