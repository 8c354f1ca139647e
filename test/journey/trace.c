/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c - which thread enters and leaves which function, for journey.py.
 *
 * Linked into a program that was compiled with -finstrument-functions.  At its end it writes
 * records of 16 bytes to the file that TW_JOURNEY names: thread, and address of the function, whose
 * highest bit is set where it is left. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 8000000
#define LEFT (UINT64_C(1) << 63)

static struct record {
	uint64_t thread, function;
} record[MOST];
static unsigned records, threads;
static __thread unsigned me;

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);

static void note(uint64_t function)
{
	const unsigned k = __atomic_fetch_add(&records, 1, __ATOMIC_RELAXED);

	if (!me)
		me = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	if (k < MOST)
		record[k] = (struct record){ me, function };
}

void __cyg_profile_func_enter(void *function, void *site)
{
	note((uintptr_t)function);
}

void __cyg_profile_func_exit(void *function, void *site)
{
	note((uintptr_t)function | LEFT);
}

__attribute__((destructor)) static void write_all(void)
{
	const char *path = getenv("TW_JOURNEY");
	FILE *f = path ? fopen(path, "wb") : NULL;

	if (!f)
		return;
	fwrite(record, sizeof *record, records < MOST ? records : MOST, f);
	fclose(f);
}
