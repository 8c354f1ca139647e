/* SPDX-License-Identifier: Apache-2.0 */
/* hostlist.h - Slurm's lists of hosts: "node[01-03,07],gpu5", "r[1-2]n[01-04]", "b[2-3]-ib".
 *
 * Numbers have at least the digits of their range's first; of several brackets the last runs
 * fastest; the order is the list's and repeated hosts stay. */
#ifndef TW_CLI_HOSTLIST_H
#define TW_CLI_HOSTLIST_H

#include "base/status.h"

#include <stdint.h>

#define TW_HOSTLIST_MOST UINT64_C(65536) /* hosts: as many as Slurm itself has */
#define TW_HOSTLIST_TEXT 256             /* room for the name of one */

/* The first host of the list; the whole of it is read.  `what` names the list in sentences.
 * TW_BAD_INPUT: not such a list, or more than TW_HOSTLIST_MOST hosts; *why names place and
 * reason. */
enum tw_status tw_hostlist_first(const char *what, const char *list, char out[TW_HOSTLIST_TEXT],
				 struct tw_error *why);

#endif
