/* SPDX-License-Identifier: Apache-2.0 */
/* environment.h - variables of an environment that the caller hands over. */
#ifndef TW_BASE_ENVIRONMENT_H
#define TW_BASE_ENVIRONMENT_H

/* The value of a variable among "NAME=value" texts, NULL after the last; NULL: not set, or to
 * nothing. */
const char *tw_environment_find(const char *const *environment, const char *name);

#endif
