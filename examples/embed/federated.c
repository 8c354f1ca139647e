/* SPDX-License-Identifier: Apache-2.0 */
/* federated.c - callers that have data of their own: it stays with them, only deltas travel.
 *
 *	(printf 'A\0\0\0\0\0\0\0{"parameters":{"dtype":"F32","shape":[20],"data_offsets":[0,80]}}'
 *	 head -c 80 /dev/zero) > model.safetensors
 *	thalweg serve federated.yaml --listen 127.0.0.1:7433
 *	federated localhost:7433 0
 *
 * The last one is run five times, with 0 to 4: each has another number of samples, and in its data
 * another feature is large.  The test set is of all kinds, and everybody has it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <thalweg.h>

enum { FEATURES = 20, TEST = 1024, CALLERS = 5 };

/* Sample k of this caller: features, and whether their sum is positive. */
static int draw(int caller, uint64_t k, float x[FEATURES])
{
	float sum = 0;

	for (int i = 0; i < FEATURES; i++)
		sum += x[i] =
			(i % CALLERS == caller ? 2 : 0.5f) *
			sinf((float)((k * CALLERS + (uint64_t)caller + 1) * (uint64_t)(i + 1)));
	return sum > 0;
}

static void compute(int caller, const struct thalweg_task *t, struct thalweg_answer *a)
{
	*a = (struct thalweg_answer){ 0 };
	for (int i = 0; t->vector && i < FEATURES; i++)
		t->vector[i] = 0;
	for (uint64_t k = 0; k < t->count; k++) {
		const uint64_t n = t->sample[k];
		float x[FEATURES], z = 0;
		const int is = t->work == THALWEG_SCORE ? draw(n % CALLERS, 1000000 + n, x)
							: draw(caller, n, x);

		for (int i = 0; i < FEATURES; i++)
			z += t->parameters[i] * x[i];
		for (int i = 0; t->vector && i < FEATURES; i++)
			t->vector[i] += (1 / (1 + expf(-z)) - is) * x[i] / t->count;
		a->loss += log1p(exp(is ? -z : z)) / t->count;
		a->correct += (z > 0) == is;
	}
}

int main(int argc, char **argv)
{
	const int caller = argc > 2 ? atoi(argv[2]) : 0;
	const struct thalweg_session_request request = {
		.size = sizeof request,
		.layout = { .parameters = FEATURES,
			    .samples = 400 + 100 * (uint64_t)caller, /* how many this one has */
			    .tests = TEST },
		.address = argv[1],
		.key = argc > 3 ? argv[3] : NULL,
	};
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_answer answer;
	struct thalweg_task task;
	enum thalweg_got got;

	if (argc < 3)
		return 2;
	if (thalweg_session_open(&request, &s, &why) == THALWEG_OK)
		while ((got = thalweg_next(s, 100, NULL, &task, &why)) != THALWEG_END)
			if (got == THALWEG_TASK) {
				compute(caller, &task, &answer);
				thalweg_done(s, &task, &answer, &why);
			}
	fprintf(stderr, "%s\n", why.status ? why.text : "the run is over");
	thalweg_session_close(s, NULL);
	return why.status;
}
