/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - a comparison from its request to its report. */
#ifndef TW_COMPARE_COMPARE_H
#define TW_COMPARE_COMPARE_H

#include "compare/cells.h"

#include <jansson.h>

/* Run what is not there yet, tune, widen grids, and write the report into how->dir.  *report is the
 * caller's reference; NULL for any status but TW_OK.  *failed: how many runs that are compared
 * failed. */
enum tw_status tw_compare_run(struct tw_comparison *c, const struct tw_cells_how *how,
			      json_t **report, size_t *failed, struct tw_error *why);
/* How many cells run at a time where the user does not say. */
uint32_t tw_compare_jobs(const struct tw_comparison *c);

#endif
