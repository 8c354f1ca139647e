/* SPDX-License-Identifier: Apache-2.0 */
/* comparison_inner.h - the steps of reading a comparison; for the files of this folder. */
#ifndef TW_COMPARE_COMPARISON_INNER_H
#define TW_COMPARE_COMPARISON_INNER_H

#include "compare/comparison.h"
#include "spec/yaml_tree.h"

struct tw_compare_file {
	const char *path, *name; /* name: for errors */
	char *text;
	size_t bytes;
	struct tw_job *base; /* read without any change */
};

struct tw_compare_reading {
	struct tw_compare_request
		q; /* its texts are copies, which live as long as the comparison */
	struct tw_comparison *c;
	struct tw_compare_file *file;  /* request.jobs of them */
	size_t owner;                  /* the file whose section compare: counts */
	size_t warnings, warning_room; /* logged so far, each once */
	const char **warning;
	struct tw_error *why;
};

enum tw_status tw_compare_no_memory(struct tw_compare_reading *r);
/* The rows, from methods and varied fields (comparison_rows.c). */
enum tw_status tw_compare_make_rows(struct tw_compare_reading *r);
/* A node for a value that we set ourselves. */
struct tw_tree *tw_compare_node(struct tw_compare_reading *r, const char *text);
/* The job of a row with further changes; the caller's. */
enum tw_status tw_compare_job(struct tw_compare_reading *r, const struct tw_compare_row *row,
			      const struct tw_job_change *more, size_t mores, struct tw_job **out,
			      struct tw_error *why);
/* The cells of all rows, each read and its plan made (comparison_cells.c). */
enum tw_status tw_compare_make_cells(struct tw_compare_reading *r);
/* The values that `grid` stands for, and those beyond the ones that were given
 * (comparison_grid.c). */
enum tw_status tw_compare_settle_grid(struct tw_compare_reading *r, struct tw_compare_axis *axis);

#endif
