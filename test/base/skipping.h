/* SPDX-License-Identifier: Apache-2.0 */
/* skipping.h - a case that cannot run here says why; ./check lists the reasons.
 *
 * After cmocka.h. */
#ifndef TW_TEST_SKIPPING_H
#define TW_TEST_SKIPPING_H

#define SKIP(reason)                                                                               \
	do {                                                                                       \
		print_message("skipped: %s\n", reason);                                            \
		skip();                                                                            \
	} while (0)

#endif
