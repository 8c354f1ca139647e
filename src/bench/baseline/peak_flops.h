/* SPDX-License-Identifier: Apache-2.0 */
/* peak_flops.h - the most floating-point operations per second that one core does. */
#ifndef TW_BENCH_PEAK_FLOPS_H
#define TW_BENCH_PEAK_FLOPS_H

/* Measure now, for some milliseconds on the calling thread: the best of a few bursts of multiply-
 * adds in registers, 2 operations each, with the widest vectors that kernels may use. */
double tw_peak_now(void);

#endif
