/* SPDX-License-Identifier: Apache-2.0 */
/* torch_notes.c - what compute and scale share of PyTorch: it may be missing, or fail on the way.
 * */
#include "bench/baseline/torch_notes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The notes are those of all benches of a run: the same sentence is not said twice. */
static bool noted(const struct tw_bench_how *how, const char *text)
{
	const json_t *note;
	size_t i;

	json_array_foreach(how->notes, i, note)
	{
		if (strcmp(json_string_value(note), text) == 0)
			return true;
	}
	return false;
}

/* What it says of itself in its first line; "" where it says nothing. */
static const char *said_of(const json_t *hello, const char *what)
{
	const char *text = json_string_value(json_object_get(hello, what));

	return text ? text : "";
}

/* The reference BLAS is many times slower than those that people use: nothing is measured. */
static bool is_slow(const json_t *hello)
{
	return strcmp(said_of(hello, "blas"), "reference") == 0;
}

static enum tw_status describe(const struct tw_bench_how *how, const json_t *hello,
			       struct tw_error *why)
{
	const char *version = said_of(hello, "torch"), *path = said_of(hello, "blas_path");
	const char *core = said_of(hello, "blas_core");
	char text[700];

	if (!*version || !*said_of(hello, "blas"))
		return tw_fail(why, TW_IO, "PyTorch's process does not report its version");
	if (is_slow(hello))
		snprintf(
			text, sizeof text,
			"PyTorch %.40s runs on the reference BLAS here (%.300s), many times slower "
			"than usual, so nothing is compared with it; install Debian's "
			"libopenblas0",
			version, path);
	else
		snprintf(text, sizeof text,
			 "PyTorch %.40s, instructions: %.40s, BLAS: %.40s%s%.40s%s%.300s", version,
			 said_of(hello, "isa"), said_of(hello, "blas"), *core ? " for " : "", core,
			 *path ? ", " : "", path);
	return noted(how, text) ? TW_OK : tw_bench_note(how, why, "%s", text);
}

enum tw_status tw_torch_notes_open(const struct tw_bench_how *how, struct tw_torch *t,
				   struct tw_error *why)
{
	struct tw_error said = { .status = TW_OK };
	json_t *hello = NULL;
	enum tw_status status = TW_OK;

	*t = (struct tw_torch){ .fill = 0 };
	if (tw_torch_open(t, how->python, &hello, &said) == TW_OK)
		status = describe(how, hello, why);
	else if (!noted(how, said.text))
		status = tw_bench_note(how, why, "%s", said.text);
	if (json_object_set_new(how->facts, "torch", hello ? hello : json_null()) &&
	    status == TW_OK)
		status = tw_fail(why, TW_NO_MEMORY, "no memory for the facts");
	if (status != TW_OK || (hello && is_slow(hello)))
		tw_torch_stop(t);
	return status;
}

enum tw_status tw_torch_notes_ask(struct tw_torch *t, const struct tw_net_step_facts *net,
				  struct tw_error *why)
{
	json_error_t bad;
	json_t *shape = json_array();

	for (uint32_t k = 0; k < net->in.rank; k++)
		json_array_append_new(shape, json_integer(net->in.d[k]));
	return tw_torch_tell(t,
			     json_pack("{s:s, s:s, s:s, s:o, s:o, s:I}", "do", "make", "net",
				       net->name, "zoo", net->zoo, "hidden",
				       net->hidden ? json_loads(net->hidden, JSON_DECODE_ANY, &bad)
						   : json_null(),
				       "shape", shape, "batch", (json_int_t)net->batch),
			     why);
}

enum tw_status tw_torch_notes_made(struct tw_torch *t, const struct tw_net_step_facts *net,
				   size_t parameters, struct tw_error *why)
{
	json_t *answer = NULL;
	const enum tw_status status = tw_torch_hear(t, TW_TORCH_ANSWER, &answer, why);
	size_t theirs;

	if (status != TW_OK)
		return status;
	theirs = (size_t)json_integer_value(json_object_get(answer, "parameters"));
	json_decref(answer);
	if (theirs != parameters)
		return tw_fail(why, TW_IO, "PyTorch's %s has %zu parameters, ours %zu", net->name,
			       theirs, parameters);
	return TW_OK;
}

enum tw_status tw_torch_notes_make(struct tw_torch *t, const struct tw_net_step_facts *net,
				   size_t parameters, struct tw_error *why)
{
	const enum tw_status status = tw_torch_notes_ask(t, net, why);

	return status == TW_OK ? tw_torch_notes_made(t, net, parameters, why) : status;
}

enum tw_status tw_torch_notes_lost(const struct tw_bench_how *how, struct tw_torch *t,
				   const struct tw_error *cause, struct tw_error *why)
{
	tw_torch_stop(t);
	return tw_bench_note(how, why,
			     "PyTorch stopped during the run (%s): later figures have no "
			     "comparison",
			     cause->text);
}
