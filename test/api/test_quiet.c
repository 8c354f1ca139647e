/* SPDX-License-Identifier: Apache-2.0 */
/* test_quiet.c - nothing in the library prints, and nothing is left behind without memory. */
#include "api/problem.h"
#include "base/heap.h"
#include "kit/scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const char text[] = "data: {batch: 3}\ntrain: {epochs: 2, evaluate: 1}\n"
			   "update: {rate: 0.1}\ncluster: {workers: 2, shards: 2}\n"
			   "strategy: dc-asgd\ncheckpoint: {every: 100ms}\n";

static int count_lines(void *user, const struct thalweg_event *e)
{
	*(unsigned *)user += e->kind == THALWEG_LOG;
	return 0;
}

/* --- silence ---------------------------------------------------------------------------------- */

/* Good and bad, in both worlds: returns what the listener heard. */
static unsigned be_busy(const char *folder)
{
	unsigned lines = 0;
	char path[100];

	for (int world = THALWEG_THREADS; world <= THALWEG_SIM; world++) {
		struct problem p;
		struct thalweg_job *job = NULL;
		struct thalweg_request q = { .text = text,
					     .world = (enum thalweg_world)world,
					     .engine = &p.engine,
					     .listen = count_lines,
					     .user = &lines,
					     .verbosity = 1 };

		problem_init(&p);
		if (thalweg_open(&q, &job, NULL) != THALWEG_OK)
			continue;
		snprintf(path, sizeof path, "%s/run-%d", folder, world);
		thalweg_train(job, path, 0, NULL, NULL);
		thalweg_train(job, path, 0, NULL, NULL); /* refused */
		thalweg_train(job, "/proc/none", 0, NULL, NULL);
		thalweg_load(job, path, NULL);
		thalweg_load(job, "/dev/null", NULL);
		thalweg_save(job, "/proc/none", NULL);
		atomic_store(&p.fail_gradient, 1);
		thalweg_train(job, NULL, 0, NULL, NULL);
		thalweg_close(job);
		q.text = "model: [}";
		thalweg_open(&q, &job, NULL);
		q.text = "train: {epochs: 0}";
		thalweg_open(&q, &job, NULL);
	}
	return lines;
}

static void nothing_is_printed(void **state)
{
	char folder[64], said[100];
	int own[2], fd;
	struct stat facts;
	unsigned lines;

	folder_make(folder);
	snprintf(said, sizeof said, "%s/said", folder);
	fflush(NULL);
	fd = open(said, O_CREAT | O_WRONLY | O_APPEND, 0600);
	assert_true(fd >= 0);
	for (int k = 0; k < 2; k++) {
		own[k] = dup(k + 1);
		dup2(fd, k + 1);
	}
	lines = be_busy(folder);
	fflush(NULL);
	for (int k = 0; k < 2; k++) {
		dup2(own[k], k + 1);
		close(own[k]);
	}
	close(fd);
	assert_int_equal(stat(said, &facts), 0);
	assert_int_equal(facts.st_size, 0);
	assert_true(lines > 10); /* there was something to say */
	assert_true(folder_remove(folder));
}

/* --- memory ----------------------------------------------------------------------------------- */

static struct tw_heap real;
static _Atomic unsigned calls;
static _Atomic int live;
static unsigned refuse;

static void *counted_get(struct tw_heap *heap, size_t bytes)
{
	void *memory = NULL;

	if (atomic_fetch_add(&calls, 1) + 1 != refuse)
		memory = real.get(&real, bytes);
	if (memory)
		atomic_fetch_add(&live, 1);
	return memory;
}

static void counted_put(struct tw_heap *heap, void *memory)
{
	if (memory)
		atomic_fetch_sub(&live, 1);
	real.put(&real, memory);
}

static enum thalweg_status whole_life(struct problem *p, const char *file)
{
	const struct thalweg_request q = { .text = text,
					   .world = THALWEG_SIM,
					   .engine = &p->engine };
	struct thalweg_job *job = NULL;
	struct thalweg_error why = { 0 };
	struct thalweg_score score;
	enum thalweg_status st;

	st = thalweg_open(&q, &job, &why);
	if (st == THALWEG_OK)
		st = thalweg_train(job, NULL, 0, NULL, &why);
	if (st == THALWEG_OK)
		st = thalweg_save(job, file, &why);
	if (st == THALWEG_OK)
		st = thalweg_load(job, file, &why);
	if (st == THALWEG_OK)
		st = thalweg_evaluate(job, &score, &why);
	thalweg_close(job);
	if (st != THALWEG_OK && !why.text[0])
		fail_msg("%s without a sentence", thalweg_status_name(st));
	return st;
}

static void every_allocation_may_fail(void **state)
{
	const struct thalweg_tensor tensor[] = {
		{ .name = "weight", .rank = 1, .shape = { PARAMETERS } },
		{ .name = "mean", .rank = 1, .shape = { BUFFERS } },
	};
	char file[] = "/tmp/thalweg-api-XXXXXX";
	const int fd = mkstemp(file);
	struct problem p;
	unsigned refused = 0;

	assert_true(fd >= 0);
	close(fd);
	problem_init(&p);
	p.engine.tensor = tensor;
	p.engine.tensors = 2;
	p.engine.one_at_a_time = 1;
	real = tw_heap_system;
	for (refuse = 1;; refuse++) {
		enum thalweg_status st;

		atomic_store(&calls, 0);
		tw_heap_system.get = counted_get;
		tw_heap_system.put = counted_put;
		st = whole_life(&p, file);
		tw_heap_system = real;
		if (atomic_load(&live) != 0)
			fail_msg("request %u refused: %d blocks are left", refuse,
				 atomic_load(&live));
		refused += st == THALWEG_NO_MEMORY;
		if (atomic_load(&calls) < refuse) {
			assert_int_equal(st, THALWEG_OK);
			break;
		}
		/* some can be done without: a warning, an explained job's hash */
		if (st != THALWEG_NO_MEMORY && st != THALWEG_OK)
			fail_msg("request %u refused: %s", refuse, thalweg_status_name(st));
	}
	assert_true(refused > 50);
	unlink(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_printed),
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
