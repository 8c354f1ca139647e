/* SPDX-License-Identifier: Apache-2.0 */
/* test_compute.c - the machinery of compute and scale with few steps: without PyTorch, with a
 * stand-in for it and with a broken one.  How fast anything is does not matter here. */
#include "base/machine/isa.h"
#include "bench/cases.h"
#include "bench/baseline/torch_notes.h"
#include "bench/baseline/peak_flops.h"
#include "bench/harness/timed_engine.h"
#include "kit/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* What a stand-in for PyTorch does: the program is a shell, whose arguments do not matter. */
#define GREET                                                                                      \
	"echo '{\"torch\": \"0.0\", \"isa\": \"'$3'\", \"blas\": \"openblas\", \"python\": "       \
	"\"'\"$0\"'\"}'\n"
#define GREET_SLOW "echo '{\"torch\": \"0.0\", \"blas\": \"reference\", \"blas_path\": \"/x\"}'\n"
#define ANSWER                                                                                     \
	"while read -r line; do case $line in\n"                                                   \
	"*make*\\\"mlp\\\"*64*) echo '{\"parameters\": 669706}';;\n"                               \
	"*make*mlp-small*) echo '{\"parameters\": 101770}';;\n"                                    \
	"*make*mlp-large*) echo '{\"parameters\": 10020874}';;\n"                                  \
	"*make*lenet*) echo '{\"parameters\": 431080}';;\n"                                        \
	"*make*resnet20*) echo '{\"parameters\": 272474}';;\n"                                     \
	"*make*gpt*) echo '{\"parameters\": 867328}';;\n"                                          \
	"*make*char-lstm*) echo '{\"parameters\": 197888}';;\n"                                    \
	"*make*\\\"lstm\\\"*) echo '{\"parameters\": 411904}';;\n"                                 \
	"*make*\\\"gru\\\"*) echo '{\"parameters\": 329472}';;\n"                                  \
	"*make*sum*) echo '{\"parameters\": 3000}';;\n"                                            \
	"*run*) echo '{\"seconds\": 100.0, \"loss\": 1.0}';;\nesac; done\n"

static char path[300];

static const char *stand_in(const char *body)
{
	FILE *f;

	snprintf(path, sizeof path, "%s", path_of("python"));
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n%s", body);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0700), 0);
	return path;
}

static json_t *run(const struct tw_bench *bench, const char *python)
{
	return bench_result(bench,
			    (struct tw_bench_how){
				    .python = python, .rounds = 2, .block = 1e-9, .quiet = 1e-9 });
}

static json_t *run_allreduce(const char *python)
{
	return bench_result(&tw_bench_allreduce, (struct tw_bench_how){ .python = python,
									.size = 3000,
									.rounds = 1,
									.block = 1e-9,
									.quiet = 1e-9 });
}

static bool says(const json_t *result, const char *text)
{
	const json_t *note;
	size_t i;

	json_array_foreach(json_object_get(result, "notes"), i, note)
	{
		if (strstr(json_string_value(note), text))
			return true;
	}
	return false;
}

static void stands_alone(const json_t *c)
{
	assert_true(field(c, "value") > 0.0);
	assert_true(json_is_null(json_object_get(c, "floor")));
	assert_true(json_is_null(json_object_get(c, "ratio")));
}

static const char *const nets[] = { "compute-mlp",       "compute-mlp-small", "compute-mlp-large",
				    "compute-lenet",     "compute-resnet20",  "compute-gpt",
				    "compute-char-lstm", "compute-lstm",      "compute-gru" };
#define NETS (sizeof nets / sizeof nets[0])

static void compute_without_pytorch(void **state)
{
	json_t *r = run(&tw_bench_compute, "/bin/false");

	for (size_t i = 0; i < NETS; i++) {
		const json_t *c = get(r, nets[i]);

		stands_alone(c);
		assert_true(field(c, "target") > 1.0);
		assert_true(field(c, "step_ms") >= field(c, "step_ms_best"));
		assert_true(field(c, "gflops") > 0.0 && field(c, "peak_share") > 0.0);
		assert_true(json_is_null(json_object_get(c, "torch_step_ms")));
	}
	assert_true(field(get(r, "compute-mlp-peak"), "value") > 0.0);
	assert_true(field(get(r, "compute-mlp-peak"), "floor") == 0.7);
	assert_true(json_is_null(json_object_get(r, "torch")));
	assert_true(field(r, "compute_cpu_share") > 0.0 && field(r, "peak_gflops") > 0.0);
	assert_true(says(r, "PyTorch is not installed for /bin/false"));
	assert_true(says(r, "./setup --full"));
	json_decref(r);
}

static void scale_without_pytorch(void **state)
{
	json_t *r = run(&tw_bench_scale, "/no/such/python");

	stands_alone(get(r, "scale-plain"));
	assert_true(field(get(r, "scale-1"), "ratio") > 0.0);
	if (sysconf(_SC_NPROCESSORS_ONLN) >= 2) {
		assert_true(field(get(r, "scale-2"), "ratio") > 0.0);
		assert_true(field(get(r, "scale-2"), "target") == 1.7);
		stands_alone(get(r, "scale-ddp"));
	}
	assert_true(field(get(r, "scale-update"), "value") > 0.0);
	/* at least its own gradient and scratch */
	assert_true(field(get(r, "scale-memory"), "ratio") >= 1.0);
	assert_true(says(r, "PyTorch is not installed for /no/such/python"));
	assert_true(field(r, "scale_cpu_share") > 0.0);
	json_decref(r);
}

/* Ratios to a PyTorch that is many times slower than usual would be false. */
static void nothing_is_compared_with_the_reference_blas(void **state)
{
	json_t *r = run(&tw_bench_compute, stand_in(GREET_SLOW ANSWER));
	const json_t *torch = json_object_get(r, "torch");

	assert_string_equal(json_string_value(json_object_get(torch, "blas")), "reference");
	assert_true(says(r, "runs on the reference BLAS"));
	for (size_t i = 0; i < NETS; i++)
		stands_alone(get(r, nets[i]));
	json_decref(r);
}

/* Nor are ratios of a busy machine shown; the other figures stay. */
static void a_busy_machine_has_no_ratios(void **state)
{
	json_t *r = bench_result(&tw_bench_compute,
				 (struct tw_bench_how){ .python = stand_in(GREET ANSWER),
							.rounds = 2,
							.block = 1e-9,
							.quiet = 1e9 });

	assert_true(says(r, "so there are no ratios"));
	for (size_t i = 0; i < NETS; i++) {
		assert_true(json_is_null(json_object_get(get(r, nets[i]), "ratio")));
		assert_true(field(get(r, nets[i]), "value") > 0.0);
	}
	json_decref(r);
}

static void pytorch_is_measured_beside_us(void **state)
{
	json_t *r = run(&tw_bench_compute, stand_in(GREET ANSWER));
	const json_t *torch = json_object_get(r, "torch");

	/* it is told which instruction set to keep to */
	assert_string_equal(json_string_value(json_object_get(torch, "isa")),
			    tw_isa() < tw_isa_machine() ? tw_isa_name(tw_isa()) : "all");
	for (size_t i = 0; i < NETS; i++) {
		const json_t *c = get(r, nets[i]);
		const double best = field(c, "step_ms_best");

		/* it says 100 s for its one step */
		assert_true(field(c, "torch_step_ms") == 1e5);
		assert_true(field(c, "floor") == 0.01);
		/* between those of the faster and of the slower of our two, however slow we are */
		assert_true(field(c, "ratio") * best <= 1e5 * (1 + 1e-9));
		assert_true(field(c, "ratio") * (2 * field(c, "step_ms") - best) >=
			    1e5 * (1 - 1e-9));
	}
	json_decref(r);
}

static void pytorch_may_fail_on_the_way(void **state)
{
	json_t *r = run(&tw_bench_compute, stand_in(GREET "read -r x; echo '{\"parameters\": "
							  "669706}'; read -r x; exit 1\n"));

	for (size_t i = 0; i < NETS; i++)
		stands_alone(get(r, nets[i]));
	assert_true(says(r, "stopped during the run"));
	json_decref(r);
	r = run(&tw_bench_compute, stand_in(GREET "read -r x; echo '{\"parameters\": 7}'; cat\n"));
	assert_true(says(r, "PyTorch's mlp has 7 parameters, ours 669706"));
	json_decref(r);
	r = run(&tw_bench_scale, stand_in(GREET "read -r x; echo '{\"error\": \"Broken: x\"}'\n"));
	stands_alone(get(r, "scale-plain"));
	assert_true(says(r, "stopped during the run (Broken: x)"));
	json_decref(r);
}

/* A stand-in says 100 s for each of its runs, whatever was asked. */
static void allreduce_beside_a_stand_in(void **state)
{
	json_t *r = run_allreduce(stand_in(GREET ANSWER));

	assert_true(field(get(r, "allreduce-tcp"), "floor") == 100.0 / 15);
	assert_true(field(get(r, "allreduce-pair"), "ratio") ==
		    field(get(r, "allreduce-pair"), "value") / (100.0 / 15));
	assert_true(field(get(r, "allreduce-ddp"), "floor") == 2 * 64 / (100.0 / 2));
	assert_true(field(get(r, "allreduce-ddp"), "ratio") > 1.0);
	json_decref(r);
	r = run_allreduce(stand_in(GREET "read -r x; echo '{\"error\": \"Broken: x\"}'\n"));
	stands_alone(get(r, "allreduce-tcp"));
	stands_alone(get(r, "allreduce-ddp"));
	assert_true(says(r, "stopped during the run (Broken: x)"));
	json_decref(r);
}

static void nothing_is_waited_for_for_ever(void **state)
{
	struct tw_error why = { .status = TW_OK };
	struct tw_torch t;
	json_t *answer = NULL;

	assert_int_equal(tw_torch_start(&t, stand_in("exec sleep 1000\n"), NULL, &why), TW_OK);
	assert_int_equal(tw_torch_hear(&t, 0.1, &answer, &why), TW_IO);
	assert_string_equal(why.text, "PyTorch's process did not answer in time");
	tw_torch_stop(&t);
	no_child_is_left();
	tw_torch_stop(&t);
	why = (struct tw_error){ .status = TW_OK };
	assert_int_equal(tw_torch_tell(&t, json_object(), &why), TW_IO);
}

static void what_it_says_is_not_trusted(void **state)
{
	static const char *const rubbish[] = { "echo '[1, 2]'; cat\n", "echo '{\"a\"'; cat\n",
					       "printf '\\0\\n'; cat\n", "yes | tr -d '\\n'\n",
					       "exit 3\n" };

	for (size_t i = 0; i < sizeof rubbish / sizeof rubbish[0]; i++) {
		struct tw_error why = { .status = TW_OK };
		struct tw_torch t;
		json_t *answer = NULL;

		assert_int_equal(tw_torch_start(&t, stand_in(rubbish[i]), NULL, &why), TW_OK);
		assert_int_equal(tw_torch_hear(&t, 20.0, &answer, &why), TW_IO);
		assert_null(answer);
		tw_torch_stop(&t);
		no_child_is_left();
	}
}

static void the_heap_counts(void **state)
{
	struct tw_counted c;
	void *a, *b;

	tw_counted_init(&c);
	a = c.heap.get(&c.heap, 100);
	b = c.heap.get(&c.heap, 50);
	assert_non_null(a);
	assert_non_null(b);
	assert_int_equal((uintptr_t)a % TW_ALIGN, 0);
	memset(a, 1, 100);
	c.heap.put(&c.heap, a);
	assert_int_equal(atomic_load(&c.now), 50);
	c.heap.put(&c.heap, b);
	c.heap.put(&c.heap, NULL);
	assert_int_equal(atomic_load(&c.now), 0);
	assert_int_equal(atomic_load(&c.most), 150);
	assert_null(c.heap.get(&c.heap, SIZE_MAX));
}

static void rates_leave_out_both_ends(void **state)
{
	int64_t at[] = { 0, 900, 1000, 3000, 2000, 4000, 99000 };
	struct tw_timed t = { .at = at, .room = 7 };

	atomic_store(&t.calls, 7);
	/* 1000, 2000, 3000, 4000 ns are left */
	assert_true(tw_timed_rate(&t, 2, 1) == 1e6);
	assert_true(tw_timed_rate(&t, 5, 2) == 0.0);
	assert_true(tw_timed_between(&t) == 0.0);
}

static void paired_ratios(void **state)
{
	const double a[] = { 2.0, 40.0, 9.0 }, b[] = { 1.0, 10.0, 3.0 };

	assert_true(tw_paired(a, b, 3) == 3.0);
	assert_true(tw_peak_now() > 1e7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compute_without_pytorch),
		cmocka_unit_test(scale_without_pytorch),
		cmocka_unit_test(nothing_is_compared_with_the_reference_blas),
		cmocka_unit_test(a_busy_machine_has_no_ratios),
		cmocka_unit_test(pytorch_is_measured_beside_us),
		cmocka_unit_test(pytorch_may_fail_on_the_way),
		cmocka_unit_test(allreduce_beside_a_stand_in),
		cmocka_unit_test(nothing_is_waited_for_for_ever),
		cmocka_unit_test(what_it_says_is_not_trusted),
		cmocka_unit_test(the_heap_counts),
		cmocka_unit_test(rates_leave_out_both_ends),
		cmocka_unit_test(paired_ratios),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
