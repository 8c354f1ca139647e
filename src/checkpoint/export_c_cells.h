/* SPDX-License-Identifier: Apache-2.0 */
/* export_c_cells.h - the part of a C file that makes inputs of the cells of a table. */
#ifndef TW_CHECKPOINT_EXPORT_C_CELLS_H
#define TW_CHECKPOINT_EXPORT_C_CELLS_H

#include "data/columns.h"

#include <stdio.h>

/* Is there a column to read?  NULL: no table. */
bool tw_c_cells_can(const struct tw_columns *c);
/* MODEL_COLUMNS, model_columns and model_cells; what they need is included before. */
void tw_c_cells(const struct tw_columns *c, FILE *out);
/* main() of a model with columns; `separator` of cells, 0: a comma. */
void tw_c_cells_program(char separator, FILE *out);
/* A list of texts with NULL behind the last. */
void tw_c_names(const char *list, const char *const *name, size_t n, FILE *out);

#endif
