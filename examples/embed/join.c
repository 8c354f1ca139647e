/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - logistic regression in a loop of one's own, as a worker of a cluster.
 *
 *	(umask 077; thalweg key > cluster.key)
 *	(printf 'A\0\0\0\0\0\0\0{"parameters":{"dtype":"F32","shape":[20],"data_offsets":[0,80]}}'
 *	 head -c 80 /dev/zero) > model.safetensors
 *	thalweg serve join.yaml --listen 127.0.0.1:7433 --key cluster.key
 *	join localhost:7433 cluster.key
 *
 * The second one writes names, shapes and initial values of the model: 20 zeros.  The last one is
 * run as often as the job has workers. */
#include <math.h>
#include <stdio.h>
#include <thalweg.h>

enum { FEATURES = 20, TRAIN = 4096, TEST = 1024 };

/* Sample k: features, and whether their sum is positive.  A real program reads an array here. */
static int draw(uint64_t k, float x[FEATURES])
{
	float sum = 0;

	for (int i = 0; i < FEATURES; i++)
		sum += x[i] = sinf((float)(k * (uint64_t)(i + 1)));
	return sum > 0;
}

static void compute(const struct thalweg_task *t, struct thalweg_answer *a)
{
	const uint64_t first = t->work == THALWEG_SCORE ? TRAIN : 0;

	*a = (struct thalweg_answer){ 0 };
	for (int i = 0; t->vector && i < FEATURES; i++)
		t->vector[i] = 0;
	for (uint64_t k = 0; k < t->count; k++) {
		float x[FEATURES], z = 0;
		const int is = draw(first + t->sample[k], x);

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
	const struct thalweg_session_request request = {
		.size = sizeof request,
		.layout = { .parameters = FEATURES,
			    .samples = TRAIN,
			    .tests = TEST,
			    .data = "sines" },
		.address = argv[1],
		.key = argc > 2 ? argv[2] : NULL,
	};
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_answer answer;
	struct thalweg_task task;
	enum thalweg_got got;

	if (argc < 2)
		return 2;
	if (thalweg_session_open(&request, &s, &why) == THALWEG_OK)
		while ((got = thalweg_next(s, 100, NULL, &task, &why)) != THALWEG_END)
			if (got == THALWEG_TASK) {
				compute(&task, &answer);
				thalweg_done(s, &task, &answer, &why);
			}
	fprintf(stderr, "%s\n", why.status ? why.text : "the run is over");
	thalweg_session_close(s, NULL);
	return why.status;
}
