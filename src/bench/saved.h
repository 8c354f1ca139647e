/* SPDX-License-Identifier: Apache-2.0 */
/* saved.h - runs of a bench in a file, a JSON line each, and new runs compared with them. */
#ifndef TW_BENCH_SAVED_H
#define TW_BENCH_SAVED_H

#include "base/status.h"

#include <jansson.h>

/* Append each result of tw_bench_run in the array as a line, with the CPU and its cores.
 * A file that cannot be written is TW_BAD_INPUT; with an empty array that is all that is tried. */
enum tw_status tw_bench_save(const char *path, const json_t *results, struct tw_error *why);
/* All runs in the file; the caller's reference.  TW_BAD_INPUT with file and line where it cannot be
 * read, has no run, or has a line that is none. */
enum tw_status tw_bench_saved(const char *path, json_t **runs, struct tw_error *why);

/* One result with the medians of several: those of every number of a case. */
enum tw_status tw_bench_medians(const json_t *results, json_t **out, struct tw_error *why);

/* Each case of the new runs that the saved ones have too: {name, figure, saved, now, times, low,
 * high, verdict}.  The figure is the ratio where both sides have one, else the value; both are
 * geometric means over the runs.  times = now / saved, from low to high with 95 % confidence
 * (Student's t, of logarithms, one variance for both sides); null with fewer than 4 runs in all.
 * The verdict is "higher", "lower", "within noise" or "unknown". */
enum tw_status tw_bench_against(const json_t *saved, const json_t *results, json_t **out,
				struct tw_error *why);
/* Sentences that belong to it, appended to the notes: saved runs of another CPU or instruction set,
 * cases of the result that they do not have. */
enum tw_status tw_bench_against_notes(const json_t *saved, const json_t *result, json_t *notes,
				      struct tw_error *why);

#endif
