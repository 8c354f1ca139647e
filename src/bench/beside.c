/* SPDX-License-Identifier: Apache-2.0 */
/* beside.c - what compute and scale share of PyTorch: it may be missing, or fail on the way. */
#include "bench/beside.h"

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

static enum tw_status describe(const struct tw_bench_how *how, const json_t *hello,
			       struct tw_error *why)
{
	const char *version = json_string_value(json_object_get(hello, "torch"));
	const char *blas = json_string_value(json_object_get(hello, "blas"));
	const char *path = json_string_value(json_object_get(hello, "blas_path"));
	char text[700];

	if (!version || !blas || !path)
		return tw_fail(why, TW_IO, "PyTorch's process does not say what it is");
	if (strcmp(blas, "reference") == 0)
		snprintf(
			text, sizeof text,
			"PyTorch %.40s runs on the reference BLAS here (%.300s), which is slow and "
			"makes us look better than we are: with Debian's libopenblas0 the "
			"comparison is fair",
			version, path);
	else
		snprintf(text, sizeof text, "PyTorch %.40s, BLAS: %.40s%s%.300s", version, blas,
			 *path ? ", " : "", path);
	return noted(how, text) ? TW_OK : tw_bench_note(how, why, "%s", text);
}

enum tw_status tw_beside_open(const struct tw_bench_how *how, struct tw_torch *t,
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
	if (status != TW_OK)
		tw_torch_stop(t);
	return status;
}

enum tw_status tw_beside_ask(struct tw_torch *t, const struct tw_net_facts *net,
			     struct tw_error *why)
{
	const struct tw_shape *s = &net->in;
	char shape[60];

	if (s->rank == 1)
		snprintf(shape, sizeof shape, "%u", s->d[0]);
	else
		snprintf(shape, sizeof shape, "%u, %u, %u", s->d[0], s->d[1], s->d[2]);
	return tw_torch_tell(t, why,
			     "{\"do\": \"make\", \"net\": \"%s\", \"zoo\": \"%s\", \"hidden\": %s, "
			     "\"shape\": [%s], \"batch\": %u}",
			     net->name, net->zoo, net->hidden ? net->hidden : "null", shape,
			     net->batch);
}

enum tw_status tw_beside_made(struct tw_torch *t, const struct tw_net_facts *net, size_t parameters,
			      struct tw_error *why)
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

enum tw_status tw_beside_make(struct tw_torch *t, const struct tw_net_facts *net, size_t parameters,
			      struct tw_error *why)
{
	const enum tw_status status = tw_beside_ask(t, net, why);

	return status == TW_OK ? tw_beside_made(t, net, parameters, why) : status;
}

enum tw_status tw_beside_lost(const struct tw_bench_how *how, struct tw_torch *t,
			      const struct tw_error *cause, struct tw_error *why)
{
	tw_torch_stop(t);
	return tw_bench_note(how, why,
			     "PyTorch stopped on the way (%s): what it should have been "
			     "compared with from there on stands alone",
			     cause->text);
}
