/* SPDX-License-Identifier: Apache-2.0 */
/* near.h - numbers that agree within a bound, or the test fails and says both.
 *
 * After cmocka.h. */
#ifndef TW_TEST_KIT_NEAR_H
#define TW_TEST_KIT_NEAR_H

#include <math.h>

/* Within `by`. */
#define NEAR(is, want, by)                                                                         \
	do {                                                                                       \
		const double is_ = (is), want_ = (want), by_ = (by);                               \
		if (!(fabs(is_ - want_) <= by_))                                                   \
			fail_msg("%s is %.9g, not within %g of %.9g", #is, is_, by_, want_);       \
	} while (0)

/* Within a share of what it should be: 0.01 is one per cent. */
#define NEAR_SHARE(is, want, share, what)                                                          \
	do {                                                                                       \
		const double is_ = (is), want_ = (want), share_ = (share);                         \
		if (!(fabs(is_ - want_) <= share_ * fabs(want_)))                                  \
			fail_msg("%s is %.6g, not %.6g within %g %%", what, is_, want_,            \
				 100 * share_);                                                    \
	} while (0)

/* The share of sum |t_k| by which two float sums of the same n terms t_k may differ if they are
 * added in another order: each is within n u of the exact sum, and u is 2^-24.  oneDNN's order
 * depends on the instruction set and on the size of the batch. */
#define ORDERS(n) (2.0 * (double)(n)*0x1p-24)

#endif
