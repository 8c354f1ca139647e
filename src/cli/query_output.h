/* SPDX-License-Identifier: Apache-2.0 */
/* query_output.h - what eval, inspect, export and data have in common. */
#ifndef TW_CLI_QUERY_OUTPUT_H
#define TW_CLI_QUERY_OUTPUT_H

#include "cli/verb.h"
#include "query/query.h"

/* As tw_exit_for; here a path that is missing or damaged was a wrong request. */
int tw_query_failed(const struct tw_call *call, const struct tw_error *why);
/* Give `o` to the user, as JSON or by `print`, and let go of it: TW_EXIT_DONE. */
int tw_query_show(json_t *o, bool json, void (*print)(const json_t *o));
/* "1.2 MiB". */
const char *tw_query_bytes(double bytes, char out[24]);
/* "3x28x28" of a list of numbers. */
const char *tw_query_shape(const json_t *list, char out[100]);
/* The text of a field, "-" where there is none. */
const char *tw_query_text(const json_t *o, const char *name);
/* Is it the name of a job file: -, *.yaml or *.yml? */
bool tw_query_is_job(const char *path);

#endif
