/* SPDX-License-Identifier: Apache-2.0 */
/* verb.c - what every verb does with a failure. */
#include "cli/verb.h"

int tw_exit_for(const struct tw_call *call, const struct tw_error *why)
{
	if (why->status == TW_INTERRUPTED) {
		tw_log_line(call->log, TW_INFO, "", "%s", why->text);
		return TW_EXIT_INTERRUPTED;
	}
	tw_log_line(call->log, TW_ERROR, "", "%s", why->text);
	return why->status == TW_BAD_INPUT ? TW_EXIT_WRONG : TW_EXIT_FAILED;
}
