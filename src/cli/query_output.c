/* SPDX-License-Identifier: Apache-2.0 */
/* query_output.c - what eval, inspect, export and data have in common. */
#include "cli/query_output.h"
#include "cli/summary.h"
#include "run/result.h"

#include <stdio.h>
#include <string.h>

int tw_query_failed(const struct tw_call *call, const struct tw_error *why)
{
	const int code = tw_exit_for(call, why);

	return why->status == TW_ABSENT || why->status == TW_BAD_BYTES ? TW_EXIT_WRONG : code;
}

int tw_query_show(json_t *o, bool json, void (*print)(const json_t *o))
{
	tw_result_printable(o, json);
	(json ? tw_print_json : print)(o);
	json_decref(o);
	return TW_EXIT_DONE;
}

const char *tw_query_bytes(double bytes, char out[24])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t k = 0;

	for (; bytes >= 1024.0 && k < 4; k++)
		bytes /= 1024.0;
	snprintf(out, 24, k ? "%.1f %s" : "%.0f %s", bytes, unit[k]);
	return out;
}

const char *tw_query_shape(const json_t *list, char out[100])
{
	const json_t *d;
	size_t at = 0, k;

	out[0] = '\0';
	json_array_foreach(list, k, d) if (at < 100) at += (size_t)snprintf(
		out + at, 100 - at, "%s%lld", k ? "x" : "", (long long)json_integer_value(d));
	return out;
}

const char *tw_query_text(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text ? text : "-";
}

bool tw_query_is_job(const char *path)
{
	const char *dot = strrchr(path, '.');

	return strcmp(path, "-") == 0 ||
	       (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
}
