/* SPDX-License-Identifier: Apache-2.0 */
/* targets.h - are the values that a network shall predict such as its loss can take? */
#ifndef TW_ENGINE_TARGETS_H
#define TW_ENGINE_TARGETS_H

#include "engine/network.h"

/* Some losses take targets from 0 to 1 only (TW_LOSS_UNIT), the others any.  *why names the
 * sample and the value, without place. */
enum tw_status tw_targets_check(const struct tw_network_facts *facts, struct tw_error *why);
/* A prediction is right or wrong: there are labels, or all targets of all sets are 0 or 1. */
bool tw_targets_judged(const struct tw_network_facts *facts);

#endif
