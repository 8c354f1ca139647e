/* SPDX-License-Identifier: Apache-2.0 */
/* test_serial.c - every method against a serial loop of its formula, bit for bit in float32. */
#include "job/methods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Laws, links and seeds take turns, so that each method meets each of them. */
static void every_method_is_its_formula(void **state)
{
	static const uint32_t workers[] = { 1, 3, 8 }, shards[] = { 1, 2, 7, 16 };
	uint64_t turn = 0;

	(void)state;
	for (size_t k = 0; k < method_count; k++) {
		const struct method *m = &methods[k];
		struct seen seen = { .runs = 0 };

		for (size_t w = 0; w < COUNT(workers); w++)
			for (size_t s = 0; s < COUNT(shards); s++)
				for (size_t link = 0; link < LINKS; link++, turn++)
					if (workers[w] >= m->least)
						method_try(m, workers[w], shards[s], 1 + turn,
							   turn % LAWS, link, &seen);
		method_met(m, &seen);
	}
}

/* A loop that forgets one thing must not agree: the comparison can fail. */
static void a_wrong_formula_is_noticed(void **state)
{
	static const struct formula right = { .step = step_sgd,
					      .correct = correct_delay,
					      .lambda = 0.5f },
				    wrong = { .step = step_sgd,
					      .correct = correct_delay,
					      .lambda = 0.25f };
	const char *text = "model: {quadratic: {dimension: 9, noise: 0.3}}\n"
			   "data: {source: none, samples: 64, batch: 2}\n"
			   "update: {rate: 0.1}\ncluster: {workers: 3}\n"
			   "strategy: {name: dc-asgd, lambda: 0.5}\n";
	const struct formula *const both[] = { &right, &wrong };

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct outcome o;
		struct serial *z;
		float mine[9];

		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		z = serial_new(&o, both[k]);
		outcome_run(&o, &(const struct watch){ .observer = serial_note,
						       .worker_hears = serial_hears,
						       .arg = z });
		serial_vector(z, mine);
		assert_null(serial_complaint(z));
		assert_int_equal(memcmp(mine, o.vector, sizeof mine) != 0, k);
		serial_free(z);
		outcome_close(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_method_is_its_formula),
		cmocka_unit_test(a_wrong_formula_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
