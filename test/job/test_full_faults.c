/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_faults.c - faults as loops: every preset, every node, every event; then seeds.
 *
 *	job_test_full_faults                    all of it
 *	job_test_full_faults --replay ...       one run, as a failure prints it, with its log */
#include "faultrun.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t wanted(const char *name, uint64_t standard)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : standard;
}

static void every_node_at_every_event(void **state)
{
	(void)state;
	assert_int_equal(faultrun_kills(faultrun_presets, wanted("TW_FAULTS_STRIDE", 3)), 0);
}

static void seeds(void **state)
{
	(void)state;
	assert_int_equal(faultrun_seeds(faultrun_presets, 1, wanted("TW_FAULTS_SEEDS", 2000)), 0);
}

static void masters(void **state)
{
	(void)state;
	assert_int_equal(faultrun_masters(faultrun_presets, 1, wanted("TW_FAULTS_SEEDS", 2000)), 0);
}

static void leavers(void **state)
{
	(void)state;
	assert_int_equal(faultrun_leaves(faultrun_presets, 1, wanted("TW_FAULTS_SEEDS", 2000) / 4),
			 0);
}

static uint64_t number(char **argv, int *k)
{
	return strtoull(argv[(*k)++], NULL, 10);
}

static int replay(int argc, char **argv)
{
	struct faultrun r = { .preset = argv[2], .loud = true };
	struct faultend end;
	const char *wrong;
	int k = 3;

	r.workers = (uint32_t)number(argv, &k);
	r.servers = (uint32_t)number(argv, &k);
	r.shards = (uint32_t)number(argv, &k);
	while (k < argc) {
		const char *word = argv[k++];

		if (strcmp(word, "seed") == 0) {
			r.seed = number(argv, &k);
		} else if (strcmp(word, "faults") == 0) {
			r.crashes = (uint32_t)number(argv, &k);
			r.partitions = (uint32_t)number(argv, &k);
			r.resets = (uint32_t)number(argv, &k);
			r.slow = (uint32_t)number(argv, &k);
			r.fault_seed = number(argv, &k);
		} else if (strcmp(word, "loss") == 0) {
			r.loss = strtod(argv[k++], NULL);
		} else if (strcmp(word, "leaves") == 0) {
			struct leaver *l = &r.leaver[r.leavers++];

			l->node = (uint32_t)number(argv, &k);
			l->at = strtoll(argv[k++], NULL, 10);
		} else if (strcmp(word, "large") == 0) {
			r.large = true;
		} else if (strcmp(word, "spare") == 0) {
			r.spare = (uint32_t)number(argv, &k);
		} else if (strcmp(word, "poisoned") == 0) {
			r.poisoned = (uint32_t)number(argv, &k);
			r.doses = (uint32_t)number(argv, &k);
			r.spot = (uint32_t)number(argv, &k);
		} else if (strcmp(word, "accumulate") == 0) {
			r.accumulate = (uint32_t)number(argv, &k);
		} else if (strcmp(word, "running") == 0) {
			r.running = true;
		} else if (strcmp(word, "evaluates") == 0) {
			r.evaluates = true;
		} else if (strcmp(word, "clean") == 0) {
			r.clean = true;
		} else if (strcmp(word, "forever") == 0) {
			r.forever = true;
		} else if (strcmp(word, "fault") == 0) {
			struct tw_fault *f = &r.fault[r.faults++];

			f->kind = (enum tw_fault_kind)number(argv, &k);
			f->a = (uint32_t)number(argv, &k);
			f->b = (uint32_t)number(argv, &k);
			f->at = strtoll(argv[k++], NULL, 10);
			f->lasts = strtoll(argv[k++], NULL, 10);
			f->event = number(argv, &k);
		}
	}
	wrong = faultrun(&r, &end);
	printf("%s after %" PRIu64 " events, %.3f s: %s\n", tw_status_name(end.status), end.events,
	       (double)end.virtual_ns / 1e9, wrong ? wrong : "everything held");
	return wrong != NULL;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_node_at_every_event),
		cmocka_unit_test(seeds),
		cmocka_unit_test(masters),
		cmocka_unit_test(leavers),
	};

	if (argc > 5 && strcmp(argv[1], "--replay") == 0)
		return replay(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
