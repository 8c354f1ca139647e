/* SPDX-License-Identifier: Apache-2.0 */
/* abi.c - what the public structs look like, as one line of text. */
#include "api/abi.h"

#include "thalweg.h"

#include <pthread.h>
#include <stdio.h>

static char text[8192];

static void make(void)
{
	size_t n = (size_t)snprintf(text, sizeof text, "thalweg %d.%d", THALWEG_VERSION_MAJOR,
				    THALWEG_VERSION_MINOR);

	for (const struct tw_abi_row *r = tw_abi_rows; r->name && n < sizeof text; r++)
		n += r->field ? (size_t)snprintf(text + n, sizeof text - n, " %s@%zu/%zu", r->name,
						 r->from, r->size)
			      : (size_t)snprintf(text + n, sizeof text - n, " %s %zu", r->name,
						 r->size);
}

const char *thalweg_abi(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make);
	return text;
}
