/* SPDX-License-Identifier: Apache-2.0 */
/* isas.h - the same tests on AVX2, where the machine has more: older machines run that. */
#ifndef TEST_KIT_ISAS_H
#define TEST_KIT_ISAS_H

#include "graph/onednn.h"
#include "base/machine/isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The instruction set is chosen before anything else, so each has a process of its own.  Returns
 * what main returns. */
static inline int in_isas(int (*run)(void))
{
	int failed = 0;
	pid_t child;

	if (tw_isa() <= TW_ISA_AVX2)
		return run();
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (!tw_isa_pin(TW_ISA_AVX2) || tw_onednn_isa("avx2") != TW_OK)
			_exit(99);
		printf("with avx2:\n");
		exit(run());
	}
	if (child < 0 || waitpid(child, &failed, 0) != child)
		failed = 1;
	return run() || failed;
}

#endif
