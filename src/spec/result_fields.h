/* SPDX-License-Identifier: Apache-2.0 */
/* result_fields.h - what each field of a result means, for the reference page. */
#ifndef TW_SPEC_RESULT_FIELDS_H
#define TW_SPEC_RESULT_FIELDS_H

/* The table ends with a name of NULL. */
struct tw_result_field {
	const char *name, *help;
};
extern const struct tw_result_field tw_result_fields[];

#endif
