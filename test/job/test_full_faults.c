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

static unsigned long runs, failures, interrupted;

static void try(const struct faultrun *r, struct faultend *end)
{
	const char *wrong = faultrun(r, end);

	runs++;
	interrupted += end->status == TW_INTERRUPTED;
	if (!wrong)
		return;
	failures++;
	fprintf(stderr, "FAILED %s\n  replay: %s\n", wrong, faultrun_replay(r));
	if (failures > 20)
		fail_msg("too many failures");
}

/* Kill the node at the 1st, 2nd, … event, until the run ends before. */
static void kill_everywhere(const char *preset, uint32_t node, int64_t lasts, uint64_t stride)
{
	struct faultrun r = { .preset = preset, .workers = 3, .servers = 2, .shards = 3, .seed = 7,
			      .faults = 1, .forever = lasts < 0 };
	struct faultend end = { .events = UINT64_MAX };

	for (uint64_t event = 1; event < end.events; event += stride) {
		r.fault[0] = (struct tw_fault){ .kind = TW_FAULT_KILL_AT, .a = node, .lasts = lasts,
						.event = event };
		try(&r, &end);
	}
}

static void every_node_at_every_event(void **state)
{
	const char *quick = getenv("TW_FAULTS_STRIDE");
	const uint64_t stride = quick ? strtoull(quick, NULL, 10) : 3;

	(void)state;
	for (size_t k = 0; faultrun_presets[k]; k++) {
		kill_everywhere(faultrun_presets[k], 0, 2 * TW_SECOND, stride);	 /* master */
		kill_everywhere(faultrun_presets[k], 1, 3 * TW_SECOND, stride);	 /* a server, back soon */
		kill_everywhere(faultrun_presets[k], 2, -1, stride);		 /* a server, for ever */
		kill_everywhere(faultrun_presets[k], 3, TW_SECOND / 10, stride); /* worker, at once */
		kill_everywhere(faultrun_presets[k], 4, -1, stride);		 /* worker, for ever */
	}
	printf("%lu runs, %lu interrupted\n", runs, interrupted);
	assert_int_equal(failures, 0);
}

static void seeds(void **state)
{
	const char *count = getenv("TW_FAULTS_SEEDS");
	const uint64_t most = count ? strtoull(count, NULL, 10) : 600;

	(void)state;
	for (uint64_t seed = 1; seed <= most; seed++)
		for (size_t k = 0; faultrun_presets[k]; k++) {
			const uint64_t h = seed * 2654435761u + k * 40503u;
			struct faultrun r = { .preset = faultrun_presets[k],
					      .workers = 2 + (uint32_t)(h >> 3) % 4,
					      .servers = 1 + (uint32_t)(h >> 7) % 3,
					      .shards = 3 + (uint32_t)(h >> 11) % 3,
					      .seed = seed,
					      .fault_seed = seed,
					      .crashes = (uint32_t)(h >> 13) % 4,
					      .partitions = (uint32_t)(h >> 17) % 3,
					      .resets = (uint32_t)(h >> 19) % 6,
					      .slow = (uint32_t)(h >> 23) % 2,
					      .loss = (h >> 29) % 3 == 0 ? 0.1 : 0,
					      .forever = true };
			struct faultend end;

			try(&r, &end);
		}
	printf("%lu runs, %lu interrupted\n", runs, interrupted);
	assert_int_equal(failures, 0);
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
	};

	if (argc > 5 && strcmp(argv[1], "--replay") == 0)
		return replay(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
