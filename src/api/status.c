/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - statuses and sentences as callers get them. */
#include "api/handle.h"

#include <string.h>

_Static_assert((int)THALWEG_CANCELLED == (int)TW_CANCELLED &&
		       (int)THALWEG_INTERRUPTED == (int)TW_INTERRUPTED &&
		       (int)THALWEG_ABSENT == (int)TW_ABSENT &&
		       (int)THALWEG_REFUSED == (int)TW_REFUSED && (int)THALWEG_IO == (int)TW_IO &&
		       (int)THALWEG_NO_ROOM == (int)TW_NO_ROOM &&
		       (int)THALWEG_BAD_BYTES == (int)TW_BAD_BYTES &&
		       (int)THALWEG_BAD_INPUT == (int)TW_BAD_INPUT &&
		       (int)THALWEG_NO_MEMORY == (int)TW_NO_MEMORY,
	       "statuses are the same numbers outside and inside");
_Static_assert((int)THALWEG_ERROR == (int)TW_ERROR && (int)THALWEG_WARNING == (int)TW_WARNING &&
		       (int)THALWEG_INFO == (int)TW_INFO && (int)THALWEG_DEBUG == (int)TW_DEBUG,
	       "levels are the same numbers outside and inside");
_Static_assert(sizeof((struct thalweg_error *)0)->text == sizeof((struct tw_error *)0)->text,
	       "a sentence fits");

const char *thalweg_version(void)
{
	return TW_VERSION;
}

const char *thalweg_status_name(enum thalweg_status status)
{
	return tw_status_name((enum tw_status)status);
}

enum thalweg_status tw_api_fail(struct thalweg_error *why, const struct tw_error *said)
{
	if (why) {
		why->status = (enum thalweg_status)said->status;
		memcpy(why->text, said->text, sizeof why->text);
	}
	return (enum thalweg_status)said->status;
}

enum thalweg_status tw_api_done(struct thalweg_error *why)
{
	if (why)
		*why = (struct thalweg_error){ .status = THALWEG_OK };
	return THALWEG_OK;
}

enum thalweg_status tw_api_null(struct thalweg_error *why, const char *function,
				const char *argument)
{
	struct tw_error said = { .status = TW_OK };

	tw_fail(&said, TW_BAD_INPUT, "%s: %s is NULL", function, argument);
	return tw_api_fail(why, &said);
}
