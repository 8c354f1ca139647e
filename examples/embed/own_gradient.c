/* SPDX-License-Identifier: Apache-2.0 */
/* own_gradient.c - a gradient function of one's own, four workers and DC-ASGD from the library. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <thalweg.h>

enum { FEATURES = 20, TRAIN = 4096, TEST = 1024 };

static const char job[] = "{data: {batch: 16}, train: {epochs: 10}, update: {rate: 1},"
			  " cluster: {workers: 4}, strategy: dc-asgd}";

/* Sample k: features, and whether their sum is positive.  A real program reads an array here. */
static int draw(uint64_t k, float x[FEATURES])
{
	float sum = 0;

	for (int i = 0; i < FEATURES; i++)
		sum += x[i] = sinf((float)(k * (uint64_t)(i + 1)));
	return sum > 0;
}

/* Logistic regression on sample k: its share of loss and gradient, and whether it is right. */
static double regress(uint64_t k, const float *w, float share, float *g, double *correct)
{
	float x[FEATURES], z = 0;
	const int is = draw(k, x);

	for (int i = 0; i < FEATURES; i++)
		z += w[i] * x[i];
	for (int i = 0; i < FEATURES; i++)
		g[i] += share * (1 / (1 + expf(-z)) - is) * x[i];
	*correct += (z > 0) == is;
	return share * log1p(exp(is ? -z : z));
}

/* Four threads call this: it writes only what it is given. */
static int gradient(void *user, const struct thalweg_batch *b, float *g, double *loss)
{
	double correct = 0;

	*loss = 0;
	memset(g, 0, FEATURES * sizeof *g);
	for (size_t k = 0; k < b->count; k++)
		*loss += regress(b->sample[k], b->parameters, 1.0f / b->count, g, &correct);
	return 0;
}

static int evaluate(void *user, const struct thalweg_batch *b, double *loss, double *correct)
{
	float g[FEATURES] = { 0 };

	*loss = *correct = 0;
	for (size_t k = 0; k < b->count; k++)
		*loss += regress(TRAIN + b->sample[k], b->parameters, 1.0f / b->count, g, correct);
	return 0;
}

int main(void)
{
	const struct thalweg_engine own = { .parameters = FEATURES,
					    .samples = TRAIN,
					    .tests = TEST,
					    .gradient = gradient,
					    .evaluate = evaluate };
	const struct thalweg_request request = { .text = job, .engine = &own };
	struct thalweg_job *training = NULL;
	struct thalweg_result result;
	struct thalweg_error why = { 0 };

	if (thalweg_open(&request, &training, &why) == THALWEG_OK &&
	    thalweg_train(training, NULL, 0, &result, &why) == THALWEG_OK)
		printf("accuracy %.3f after %.0f epochs\n", result.accuracy, result.epochs);
	else
		fprintf(stderr, "%s\n", why.text);
	thalweg_close(training);
	return why.status;
}
