/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - a comparison from its request to its report: tune, run, read, write. */
#include "compare/compare.h"

#include "base/cores.h"
#include "compare/report.h"

#include <stdlib.h>
#include <string.h>

/* Where time is measured, a run has the machine to itself. */
uint32_t tw_compare_jobs(const struct tw_comparison *c)
{
	return c->world == TW_COMPARE_SIM ? tw_cores() : 1;
}

/* Seeds first: if it is interrupted, every row has some runs. */
static size_t gather(const struct tw_comparison *c, const size_t *chosen,
		     const struct tw_compare_cell **out)
{
	const size_t seeds = c->options.seeds;
	size_t n = 0, most = chosen ? seeds : c->rows ? c->row[0].tuning : 0;

	for (size_t s = 0; s < most; s++)
		for (size_t k = 0; k < c->rows; k++)
			out[n++] = &c->row[k].cell[chosen ? c->row[k].tuning + chosen[k] * seeds + s
							  : s];
	return n;
}

static enum tw_status tune(const struct tw_comparison *c, struct tw_cells *cells,
			   const struct tw_compare_cell **list, size_t *chosen,
			   struct tw_error *why)
{
	struct tw_compare_runs runs = { 0 };
	const size_t n = gather(c, NULL, list);
	enum tw_status st;

	memset(chosen, 0, c->rows * sizeof *chosen);
	if (!n)
		return TW_OK;
	st = tw_cells_run(cells, list, n, c->rows * c->options.seeds, why);
	if (st == TW_OK)
		st = tw_compare_runs_read(c, cells, NULL, &runs, why);
	if (st == TW_OK)
		tw_compare_choose(&runs, chosen);
	tw_compare_runs_release(&runs);
	return st;
}

static enum tw_status report_on(const struct tw_comparison *c, const struct tw_cells *cells,
				const size_t *chosen, const char *dir, json_t **report,
				size_t *failed, struct tw_error *why)
{
	struct tw_compare_runs runs = { 0 };
	enum tw_status st = tw_compare_runs_read(c, cells, chosen, &runs, why);

	if (st != TW_OK)
		return st;
	for (size_t k = 0; k < c->rows * c->options.seeds; k++)
		*failed += runs.run[k].failure != NULL;
	st = tw_report_write(&runs, chosen, dir, report, why);
	tw_compare_runs_release(&runs);
	return st;
}

enum tw_status tw_compare_run(const struct tw_comparison *c, const struct tw_cells_how *how,
			      json_t **report, size_t *failed, struct tw_error *why)
{
	const size_t most = c->rows * (c->options.seeds + c->row[0].tuning);
	const struct tw_compare_cell **list = malloc((most + 1) * sizeof *list);
	size_t *chosen = malloc((c->rows + 1) * sizeof *chosen);
	struct tw_cells *cells = NULL;
	enum tw_status st = TW_NO_MEMORY;

	*report = NULL;
	*failed = 0;
	if (!list || !chosen)
		tw_fail(why, st, "no memory for the comparison");
	else
		st = tw_cells_open(c, how, &cells, why);
	if (st == TW_OK)
		st = tune(c, cells, list, chosen, why);
	if (st == TW_OK)
		st = tw_cells_run(cells, list, gather(c, chosen, list), 0, why);
	if (st == TW_OK)
		st = report_on(c, cells, chosen, how->dir, report, failed, why);
	tw_cells_close(cells);
	free(list);
	free(chosen);
	return st;
}
