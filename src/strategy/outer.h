/* SPDX-License-Identifier: Apache-2.0 */
/* outer.h - what does a delta do to the parameters?  The far half of an update whose near half, the
 * rule of `update:`, runs on the worker (`send: delta`).
 *
 * An outer rule is a rule (rule.h) whose `g` is what workers pushed: base - local, where `base` is
 * what the worker began its steps with and `local` is where they led.  So `w - g` takes the steps
 * over.  `rate` of struct tw_apply is the near half's, and no outer rule reads it. */
#ifndef TW_STRATEGY_OUTER_H
#define TW_STRATEGY_OUTER_H

#include "strategy/rule.h"

TW_REGISTRY(outer, tw_rule);

#endif
