/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.c - 64 simulated workers, 4 of them slow, on a function of one's own: what does it cost
 * to wait for the slowest, in virtual seconds? */
#include <math.h>
#include <stdio.h>
#include <thalweg.h>

enum { N = 50, SAMPLES = 6400 };

static const char job[] = "{data: {batch: 10}, train: {epochs: 20}, update: {rate: 0.02},"
			  " cluster: {workers: 64}, sim: {compute: {law: exponential, mean: 20ms},"
			  " stragglers: {count: 4, slower: 8}}}";

/* A bowl, shaken a little by every sample. */
static double bowl(const struct thalweg_task *t)
{
	double loss = 0;

	for (int i = 0; i < N; i++) {
		float shake = 0, slope = 0.2f * (1 + i % 5);

		for (uint64_t k = 0; k < t->count; k++)
			shake += sinf((float)(t->sample[k] * (uint64_t)(i + 1))) / t->count;
		loss += 0.5 * slope * t->parameters[i] * t->parameters[i];
		if (t->vector)
			t->vector[i] = slope * t->parameters[i] + 0.1f * shake;
	}
	return loss;
}

static int train(const char *strategy)
{
	const struct thalweg_request request = {
		.text = job, .world = THALWEG_SIM, .set = &strategy, .sets = 1
	};
	float initial[N];
	const struct thalweg_session_request q = {
		.size = sizeof q,
		.job = &request,
		.layout = { .parameters = N, .initial = initial, .samples = SAMPLES, .tests = 1 },
	};
	struct thalweg_session *s = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_result r;
	struct thalweg_task task;
	double end = 0;
	enum thalweg_got got;

	for (int i = 0; i < N; i++)
		initial[i] = 1;
	if (thalweg_session_open(&q, &s, &why) == THALWEG_OK)
		while ((got = thalweg_next(s, 100, NULL, &task, &why)) != THALWEG_END)
			if (got == THALWEG_TASK) {
				const struct thalweg_answer a = { .loss = bowl(&task),
								  .correct = -1 };

				end = task.now > end ? task.now : end;
				thalweg_done(s, &task, &a, &why);
			}
	if (why.status == THALWEG_OK && thalweg_session_result(s, &r, &why) == THALWEG_OK)
		printf("%-18s loss %.4f after %.1f virtual seconds, staleness %.1f\n", strategy,
		       r.loss, end, r.staleness);
	else
		fprintf(stderr, "%s\n", why.text);
	thalweg_session_close(s, NULL);
	return why.status;
}

int main(void)
{
	return train("strategy=ssgd") || train("strategy=backup") || train("strategy=asgd");
}
