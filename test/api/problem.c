/* SPDX-License-Identifier: Apache-2.0 */
/* problem.c - a caller's engine for tests, watched closely. */
#include "api/problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static const float first[PARAMETERS + BUFFERS] = { 1.5f, -2.0f, 0.25f, [PARAMETERS] = 3.0f };

static float target(uint64_t sample, size_t i)
{
	return (float)((sample * 7 + i * 3) % 11) * 0.1f;
}

void problem_gradient(const float *w, const uint64_t *sample, size_t count, float *g)
{
	for (size_t i = 0; i < PARAMETERS; i++) {
		g[i] = 0;
		for (size_t k = 0; k < count; k++)
			g[i] += (w[i] - target(sample[k], i)) / (float)count;
	}
	for (size_t i = PARAMETERS; i < PARAMETERS + BUFFERS; i++)
		g[i] = 0.5f * (1.0f - w[i]);
}

static double loss_of(const float *w, const uint64_t *sample, size_t count)
{
	double sum = 0;

	for (size_t k = 0; k < count; k++)
		for (size_t i = 0; i < PARAMETERS; i++) {
			const double d = (double)w[i] - (double)target(sample[k], i);

			sum += 0.5 * d * d;
		}
	return sum / (double)count;
}

static void enter(struct problem *p)
{
	const int now = atomic_fetch_add(&p->inside, 1) + 1;
	const struct timespec moment = { .tv_nsec = 100000 };
	int most = atomic_load(&p->most);

	while (now > most && !atomic_compare_exchange_weak(&p->most, &most, now))
		;
	for (int k = 0; k < 100000 && atomic_load(&p->most) < atomic_load(&p->meet); k++)
		nanosleep(&moment, NULL);
}

static int gradient(void *user, const struct thalweg_batch *b, float *g, double *loss)
{
	struct problem *p = user;
	const unsigned call = atomic_fetch_add(&p->gradients, 1);

	enter(p);
	if (call < 8 * SAMPLES)
		p->count[call] = b->count;
	for (size_t k = 0; k < b->count; k++) {
		if (b->epoch < 8 && b->sample[k] < SAMPLES)
			atomic_fetch_add(&p->seen[b->epoch][b->sample[k]], 1);
		if (atomic_load(&p->met) < 8 * SAMPLES)
			p->order[atomic_fetch_add(&p->met, 1)] = b->sample[k];
	}
	memset(b->scratch, 0x5a, p->engine.scratch_bytes);
	problem_gradient(b->parameters, b->sample, b->count, g);
	*loss = loss_of(b->parameters, b->sample, b->count);
	atomic_fetch_sub(&p->inside, 1);
	return atomic_load(&p->fail_gradient);
}

static int evaluate(void *user, const struct thalweg_batch *b, double *loss, double *correct)
{
	struct problem *p = user;

	enter(p);
	atomic_fetch_add(&p->evaluated, (unsigned)b->count);
	*loss = loss_of(b->parameters, b->sample, b->count);
	*correct = 0;
	for (size_t k = 0; k < b->count; k++)
		*correct += b->sample[k] % 4 == 0;
	atomic_fetch_sub(&p->inside, 1);
	return atomic_load(&p->fail_evaluate);
}

void problem_init(struct problem *p)
{
	memset(p, 0, sizeof *p);
	p->engine = (struct thalweg_engine){
		.parameters = PARAMETERS,
		.buffers = BUFFERS,
		.initial = first,
		.samples = SAMPLES,
		.tests = TESTS,
		.scratch_bytes = 100,
		.user = p,
		.gradient = gradient,
		.evaluate = evaluate,
	};
}

struct thalweg_job *problem_open(struct problem *p, enum thalweg_world world, const char *text)
{
	const struct thalweg_request request = { .text = text,
						 .world = world,
						 .engine = &p->engine };
	struct thalweg_error why = { 0 };
	struct thalweg_job *job = NULL;

	if (thalweg_open(&request, &job, &why) != THALWEG_OK)
		fail_msg("%s", why.text);
	return job;
}
