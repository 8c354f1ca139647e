/* SPDX-License-Identifier: Apache-2.0 */
/* test_isa_limit.c - THALWEG_ISA limits kernels and oneDNN in every program that has them.
 *
 * It is read before main, so each case is this program again, with another environment. */
#include "graph/onednn.h"
#include "run/run.h"
#include "thalweg.h"
#include "base/machine/isa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char program[1000];

/* --- the child -------------------------------------------------------------------------------- */

/* "avx2 3f", behind oneDNN's first product. */
static int say_what_is_used(const char *pinned)
{
	struct tw_onednn *kit;
	struct tw_error why;

	if (*pinned && tw_run_isa(pinned, &why) != TW_OK)
		return 1;
	kit = tw_onednn_new(&tw_heap_system);
	printf("%s %x\n", tw_isa_name(tw_isa()), (unsigned)tw_onednn_effective_isa());
	tw_onednn_free(kit);
	return !kit;
}

static int say_what_opening_says(void)
{
	const struct thalweg_request q = { .text = "data: {samples: 8}\nmodel: {quadratic: {}}\n",
					   .environment = 1 };
	struct thalweg_error why = { 0 };
	struct thalweg_model *model = NULL;
	struct thalweg_job *job = NULL;
	const int job_status = (int)thalweg_open(&q, &job, &why);

	thalweg_close(job);
	printf("%d %s", job_status, why.text);
	printf(" %d\n", (int)thalweg_model_open("/nowhere", &model, &why));
	thalweg_model_close(model);
	return 0;
}

/* --- the parent ------------------------------------------------------------------------------- */

/* What it says with THALWEG_ISA=`limit` (NULL: not set); lives until the next call. */
static const char *again(const char *limit, const char *words)
{
	static char said[600];
	char line[1200];
	FILE *f;

	snprintf(line, sizeof line, "env -u THALWEG_ISA %s%s '%s' %s", limit ? "THALWEG_ISA=" : "",
		 limit ? limit : "", program, words);
	f = popen(line, "r");
	assert_non_null(f);
	assert_non_null(fgets(said, sizeof said, f));
	assert_int_equal(pclose(f), 0);
	return said;
}

static void used(const char *limit, const char *pinned, char name[16], unsigned *onednn)
{
	char words[40];

	snprintf(words, sizeof words, "uses '%s'", pinned);
	assert_int_equal(sscanf(again(limit, words), "%15s %x", name, onednn), 2);
}

static void a_limit_is_obeyed(void **state)
{
	const enum tw_isa machine = tw_isa_machine();
	unsigned free_onednn, onednn;
	char name[16];

	used(NULL, "", name, &free_onednn);
	assert_string_equal(name, tw_isa_name(machine));
	for (int isa = TW_ISA_PLAIN; isa <= TW_ISA_AVX512; isa++) {
		const char *limit = tw_isa_name((enum tw_isa)isa);

		used(limit, "", name, &onednn);
		assert_string_equal(name, isa < (int)machine ? limit : tw_isa_name(machine));
		if (isa == TW_ISA_PLAIN)
			assert_int_equal(onednn & ~(unsigned)dnnl_cpu_isa_sse41, 0);
		else if (isa == TW_ISA_AVX2)
			assert_int_equal(onednn & ~(unsigned)dnnl_cpu_isa_avx2, 0);
		else
			assert_int_equal(onednn, free_onednn);
		if (isa == TW_ISA_AVX2 && machine >= TW_ISA_AVX2)
			assert_int_equal(onednn, dnnl_cpu_isa_avx2);
	}
	used("''", "", name, &onednn); /* set to nothing is not set */
	assert_string_equal(name, tw_isa_name(machine));
	assert_int_equal(onednn, free_onednn);
}

/* As --isa does, up and down. */
static void a_program_may_choose_otherwise(void **state)
{
	const char *best = tw_isa_name(tw_isa_machine());
	unsigned free_onednn, onednn;
	char name[16];

	used(NULL, "", name, &free_onednn);
	used("plain", best, name, &onednn);
	assert_string_equal(name, best);
	if (tw_isa_machine() == TW_ISA_AVX512)
		assert_int_equal(onednn, free_onednn);
	used(best, "plain", name, &onednn);
	assert_string_equal(name, "plain");
	assert_int_equal(onednn & ~(unsigned)dnnl_cpu_isa_sse41, 0);
}

static void the_library_refuses_what_names_none(void **state)
{
	char want[200];

	snprintf(want, sizeof want, "%d THALWEG_ISA: needs plain, avx2 or avx512, not 'sse9' %d\n",
		 (int)THALWEG_BAD_INPUT, (int)THALWEG_BAD_INPUT);
	assert_string_equal(again("sse9", "opens"), want);
	snprintf(want, sizeof want, "%d  ", (int)THALWEG_OK);
	assert_memory_equal(again("avx2", "opens"), want, strlen(want));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_is_obeyed),
		cmocka_unit_test(a_program_may_choose_otherwise),
		cmocka_unit_test(the_library_refuses_what_names_none),
	};

	if (argc == 3 && strcmp(argv[1], "uses") == 0)
		return say_what_is_used(argv[2]);
	if (argc == 2 && strcmp(argv[1], "opens") == 0)
		return say_what_opening_says();
	if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
