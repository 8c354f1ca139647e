/* SPDX-License-Identifier: Apache-2.0 */
/* has.h - parts of texts and of JSON objects, or the test fails and says what there was. */
#ifndef TW_TEST_KIT_HAS_H
#define TW_TEST_KIT_HAS_H

#include <jansson.h>

/* The text has that part. */
void has(const char *text, const char *part);

/* What the object has under that name. */
double number_of(const json_t *object, const char *name);
const char *text_of(const json_t *object, const char *name);

#endif
