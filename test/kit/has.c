/* SPDX-License-Identifier: Apache-2.0 */
/* has.c - parts of texts and of JSON objects, or the test fails and says what there was. */
#include "kit/has.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' lacks '%s'", text, part);
}

double number_of(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	if (!json_is_number(v))
		fail_msg("%s is not a number", name);
	return json_number_value(v);
}

const char *text_of(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	if (!json_is_string(v))
		fail_msg("%s is not a text", name);
	return json_string_value(v);
}
