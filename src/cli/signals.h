/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - SIGINT, SIGTERM and SIGHUP: the first checkpoints and stops, the second stops at
 * once. */
#ifndef TW_CLI_SIGNALS_H
#define TW_CLI_SIGNALS_H

#include <stdatomic.h>
#include <stdbool.h>

/* On, as the first thing that a process does: nothing has begun that could be lost, so until one of
 * the functions below counts them a signal ends the process with TW_EXIT_INTERRUPTED and a
 * sentence.  Off, for a verb that never counts them: signals do what they do to any program. */
void tw_signals_early(bool on);
/* What that sentence is from now on: "thalweg: ...\n", which stays. */
void tw_signals_say(const char *sentence);
/* The handler that it sets; also that of a process which another one has just started. */
void tw_signals_stop(int number);
/* Count SIGINT, SIGTERM and SIGHUP from now on.  SIGHUP stays ignored where it was (nohup), and is
 * never the second signal.  With `patient` the second one ends the process at once
 * with 128 + its number; without, where there is nothing to resume, the first one does. */
const _Atomic int *tw_signals_count(bool patient);
/* While `on` there is nothing yet that could be lost: where the first signal has not ended the
 * process within a second, because it is reading or computing something long, the process ends with
 * TW_EXIT_INTERRUPTED. */
void tw_signals_hurry(bool on);
/* Count them and do nothing else: for a process that passes them on to others. */
const _Atomic int *tw_signals_count_all(void);
/* For a process that another has started and drains: count SIGTERM only. */
const _Atomic int *tw_signals_count_term(void);

/* For a rank of an MPI, which tells rank 0: count these three and SIGUSR1, which every launcher
 * passes on at once. */
const _Atomic int *tw_signals_count_ranks(void);

#endif
