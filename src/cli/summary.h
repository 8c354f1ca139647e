/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h - results on stdout: as JSON, or as a few aligned lines for people. */
#ifndef TW_CLI_SUMMARY_H
#define TW_CLI_SUMMARY_H

#include <jansson.h>

void tw_print_json(const json_t *object);
/* The result of a run (run/result.h). */
void tw_print_summary(const json_t *result);
/* The same of one that joined, with its own part in it. */
void tw_print_joined(const json_t *result);
/* The result of a bench (bench/bench.h). */
void tw_print_cases(const json_t *result);
/* Rows of tw_bench_against, with so many runs of a file. */
void tw_print_against(const json_t *rows, size_t runs, const char *file);

#endif
