/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c - a comparison from its request to its report: tune, run, read, write. */
#include "compare/compare.h"

#include "base/machine/cores.h"
#include "base/grow.h"
#include "compare/report.h"

#include <stdlib.h>
#include <string.h>

/* Where time is measured, a run has the machine to itself. */
uint32_t tw_compare_jobs(const struct tw_comparison *c)
{
	return c->world == TW_COMPARE_SIM ? tw_cores() : 1;
}

/* Cells to run; the list grows. */
struct list {
	const struct tw_compare_cell **cell;
	size_t n, room;
};

static bool append(struct list *l, const struct tw_compare_cell *cell)
{
	if (!TW_GROW(&tw_heap_system, l->cell, l->room, l->n, l->n + 1))
		return false;
	l->cell[l->n++] = cell;
	return true;
}

static enum tw_status no_memory(struct tw_error *why)
{
	return tw_fail(why, TW_NO_MEMORY, "no memory for the comparison");
}

/* Seeds first: if it is interrupted, every row has some runs. */
static bool gather_finals(const struct tw_comparison *c, const size_t *chosen, struct list *out)
{
	bool good = true;

	out->n = 0;
	for (size_t s = 0; s < c->options.seeds; s++)
		for (size_t k = 0; k < c->rows && good; k++)
			good = append(out, &c->row[k].try_[chosen[k]].final[s]);
	return good;
}

/* Those of tries from number first[k] on, of each row. */
static bool gather_tuning(const struct tw_comparison *c, const size_t *first, struct list *out)
{
	size_t most = 0;
	bool good = true;

	out->n = 0;
	for (size_t k = 0; k < c->rows; k++)
		most = c->row[k].tries > most ? c->row[k].tries : most;
	for (size_t s = 0; s < most * c->options.tune_seeds; s++)
		for (size_t k = 0; k < c->rows && good; k++) {
			const size_t at = s / c->options.tune_seeds;
			const struct tw_compare_row *row = &c->row[k];

			if (at >= first[k] && at < row->tries && !row->try_[at].refused)
				good = append(out,
					      &row->try_[at].tuning[s % c->options.tune_seeds]);
		}
	return good;
}

/* --- widening --- */

struct wishes {
	struct tw_compare_wish *at;
	size_t n;
};

static void wish(const struct tw_comparison *c, size_t row, size_t combination, struct wishes *w)
{
	if (!tw_comparison_tried(&c->row[row], combination))
		w->at[w->n++] = (struct tw_compare_wish){ row, combination };
}

/* What lies beside the best combination and was not tried: in a grid the values next to it, in a
 * list all others.  In the grid that was given everything was tried: so this is where the best
 * value is an end of it, and then around the value that was found beyond. */
static void wish_neighbours(const struct tw_comparison *c, size_t row, size_t best,
			    struct wishes *w)
{
	for (size_t t = 0; t < c->tunes; t++) {
		const struct tw_compare_axis *axis = &c->tune[t];
		const size_t own = tw_comparison_value(c, best, t);

		for (size_t v = 0; v < axis->count; v++)
			if (axis->narrow ? v != own : v + 1 == own || v == own + 1)
				wish(c, row, tw_comparison_with(c, best, t, v), w);
	}
}

static size_t neighbours(const struct tw_comparison *c)
{
	size_t n = 0;

	for (size_t t = 0; t < c->tunes; t++)
		n += c->tune[t].count;
	return n;
}

/* One round: run the tries from first[k] on, choose, and let rows try what lies beside. */
static enum tw_status tune_round(struct tw_comparison *c, struct tw_cells *cells, struct list *list,
				 struct wishes *w, size_t *first, size_t *chosen,
				 struct tw_error *why)
{
	struct tw_compare_runs runs = { 0 };
	enum tw_status st = gather_tuning(c, first, list) ? TW_OK : no_memory(why);

	if (st == TW_OK)
		st = tw_cells_run(cells, list->cell, list->n, c->rows * c->options.seeds, why);
	if (st == TW_OK)
		st = tw_compare_runs_read(c, cells, NULL, &runs, why);
	w->n = 0;
	if (st == TW_OK)
		tw_compare_choose(&runs, chosen);
	tw_compare_runs_release(&runs);
	for (size_t k = 0; k < c->rows && st == TW_OK; k++) {
		first[k] = c->row[k].tries;
		wish_neighbours(c, k, c->row[k].try_[chosen[k]].combination, w);
	}
	return st == TW_OK ? tw_comparison_widen(c, w->at, w->n, why) : st;
}

static enum tw_status tune(struct tw_comparison *c, struct tw_cells *cells, struct list *list,
			   size_t *chosen, struct tw_error *why)
{
	struct wishes w = { .at = malloc((c->rows * neighbours(c) + 1) * sizeof *w.at) };
	size_t *first = calloc(c->rows + 1, sizeof *first);
	enum tw_status st = w.at && first ? TW_OK : no_memory(why);

	memset(chosen, 0, c->rows * sizeof *chosen);
	if (tw_comparison_tunes(c))
		do {
			if (st == TW_OK)
				st = tune_round(c, cells, list, &w, first, chosen, why);
		} while (st == TW_OK && w.n);
	free(w.at);
	free(first);
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

enum tw_status tw_compare_run(struct tw_comparison *c, const struct tw_cells_how *how,
			      json_t **report, size_t *failed, struct tw_error *why)
{
	size_t *chosen = malloc((c->rows + 1) * sizeof *chosen);
	struct list list = { 0 };
	struct tw_cells *cells = NULL;
	enum tw_status st;

	*report = NULL;
	*failed = 0;
	st = chosen ? tw_cells_open(c, how, &cells, why) : no_memory(why);
	if (st == TW_OK)
		st = tune(c, cells, &list, chosen, why);
	if (st == TW_OK && !gather_finals(c, chosen, &list))
		st = no_memory(why);
	if (st == TW_OK)
		st = tw_cells_run(cells, list.cell, list.n, 0, why);
	if (st == TW_OK)
		st = report_on(c, cells, chosen, how->dir, report, failed, why);
	tw_cells_close(cells);
	tw_heap_system.put(&tw_heap_system, (void *)list.cell);
	free(chosen);
	return st;
}
