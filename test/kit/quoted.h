/* SPDX-License-Identifier: Apache-2.0 */
/* quoted.h - what a sentence quotes: `this`. */
#ifndef TW_TEST_QUOTED_H
#define TW_TEST_QUOTED_H

#include <stdbool.h>
#include <stddef.h>

/* The next quoted text from *at on into out, and *at behind it; false: there is none. */
bool quoted(const char **at, char *out, size_t room);

#endif
