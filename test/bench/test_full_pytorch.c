/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_pytorch.c - the machinery of compute, scale and allreduce beside PyTorch itself, where
 * it is installed: the same nets by the number of their parameters, and all answers. */
#include "base/skipping.h"
#include "bench/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <cmocka.h>

static bool here; /* whether there is a PyTorch, as the first bench says */

static const struct tw_bench_how few = { .rounds = 2, .block = 1e-9 };

static void compute(void **state)
{
	static const char *const nets[] = { "compute-mlp", "compute-mlp-small", "compute-mlp-large",
					    "compute-lenet", "compute-resnet20" };
	json_t *r = bench_result(&tw_bench_compute, few);

	here = !json_is_null(json_object_get(r, "torch"));
	for (size_t i = 0; here && i < sizeof nets / sizeof nets[0]; i++)
		assert_true(field(get(r, nets[i]), "ratio") > 0.0);
	json_decref(r);
	if (!here)
		SKIP("there is no PyTorch (./setup --full installs it)");
}

static void scale(void **state)
{
	json_t *r;

	if (!here)
		SKIP("there is no PyTorch (./setup --full installs it)");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP("this machine has one core");
	r = bench_result(&tw_bench_scale, few);
	assert_true(field(get(r, "scale-plain"), "ratio") > 0.0);
	assert_true(field(get(r, "scale-ddp"), "ratio") > 0.0);
	json_decref(r);
}

static void allreduce(void **state)
{
	const struct tw_bench_how how = { .size = 3000, .rounds = 1, .block = 1e-9 };
	json_t *r;

	if (!here)
		SKIP("there is no PyTorch (./setup --full installs it)");
	r = bench_result(&tw_bench_allreduce, how);
	assert_true(field(get(r, "allreduce-tcp"), "ratio") > 0.0);
	assert_true(field(get(r, "allreduce-ddp"), "ratio") > 0.0);
	json_decref(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compute),
		cmocka_unit_test(scale),
		cmocka_unit_test(allreduce),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
