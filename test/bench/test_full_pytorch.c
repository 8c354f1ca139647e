/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_pytorch.c - the machinery of compute, scale and allreduce beside PyTorch itself, where
 * it is installed: the same nets by the number of their parameters, and all answers. */
#include "base/machine/isa.h"
#include "base/skipping.h"
#include "bench/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static bool here; /* whether there is a PyTorch, as the first bench says */

static const struct tw_bench_how few = { .rounds = 2, .block = 1e-9, .quiet = 1e-9 };

static void compute(void **state)
{
	static const char *const nets[] = { "compute-mlp",       "compute-mlp-small",
					    "compute-mlp-large", "compute-lenet",
					    "compute-resnet20",  "compute-gpt",
					    "compute-char-lstm", "compute-lstm",
					    "compute-gru" };
	json_t *r = bench_result(&tw_bench_compute, few);

	const json_t *torch = json_object_get(r, "torch");

	here = !json_is_null(torch);
	for (size_t i = 0; here && i < sizeof nets / sizeof nets[0]; i++)
		assert_true(field(get(r, nets[i]), "ratio") > 0.0);
	json_decref(r);
	if (!here)
		SKIP("there is no PyTorch (./setup --full installs it)");
}

/* Pinned to AVX2, all its libraries say so; what runs next is pinned, too. */
static void it_keeps_to_our_instructions(void **state)
{
	json_t *r;
	const json_t *torch;
	const char *core;

	if (!here || !tw_isa_pin(TW_ISA_AVX2) || tw_isa_machine() == TW_ISA_AVX2)
		SKIP("there is no PyTorch, or no AVX-512 that it could use instead");
	r = bench_result(&tw_bench_compute, few);
	torch = json_object_get(r, "torch");
	core = json_string_value(json_object_get(torch, "blas_core"));
	assert_string_equal(json_string_value(json_object_get(torch, "isa")), "AVX2");
	assert_true(!*core || strcmp(core, "Haswell") == 0);
	json_decref(r);
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
	const struct tw_bench_how how = { .size = 3000, .rounds = 1, .block = 1e-9, .quiet = 1e-9 };
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
		cmocka_unit_test(it_keeps_to_our_instructions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
