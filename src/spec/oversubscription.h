/* SPDX-License-Identifier: Apache-2.0 */
/* oversubscription.h - how many workers one machine is asked to run at the same time. */
#ifndef TW_SPEC_OVERSUBSCRIPTION_H
#define TW_SPEC_OVERSUBSCRIPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_CROWD_SIM       300000 /* simulated workers */
#define TW_CROWD_THREADS   4096   /* workers as threads of one process */
#define TW_CROWD_PROCESSES 1024   /* as processes of one machine */

/* Are `n` workers so many more than this machine has cores (over four times) that they mostly wait
 * for one?  Then out has a sentence that says so; `what` is "threads" or "processes". */
bool tw_oversubscribed(uint32_t n, const char *what, char *out, size_t room);

#endif
