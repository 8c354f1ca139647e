/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - fields of JSON objects: made, and read where some may be missing. */
#ifndef TW_BASE_JSON_H
#define TW_BASE_JSON_H

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

/* JSON has no NaN: what is not a number is null. */
static inline json_t *tw_json_number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

/* Beyond what JSON libraries call an integer it is a text of digits. */
static inline json_t *tw_json_count(uint64_t n)
{
	return n > INT64_MAX ? json_sprintf("%" PRIu64, n) : json_integer((json_int_t)n);
}

/* "" and NULL are null. */
static inline json_t *tw_json_text(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

/* NULL if one of them is no text of JSON. */
static inline json_t *tw_json_texts(const char *const *list, size_t n)
{
	json_t *texts = json_array();

	for (size_t k = 0; k < n; k++)
		if (json_array_append_new(texts, json_string(list[k]))) {
			json_decref(texts);
			return NULL;
		}
	return texts;
}

/* Takes the value over; NULL is null. */
static inline void tw_json_set(json_t *o, const char *name, json_t *value)
{
	json_object_set_new(o, name, value ? value : json_null());
}

/* The text, "" where there is none; the whole number or the count, 0 where there is none. */
static inline const char *tw_text_at(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));

	return text ? text : "";
}
static inline long long tw_whole_at(const json_t *o, const char *name)
{
	return (long long)json_integer_value(json_object_get(o, name));
}
static inline size_t tw_count_at(const json_t *o, const char *name)
{
	return (size_t)tw_whole_at(o, name);
}

/* The number; where there is none, 0, or NAN. */
static inline double tw_number_at(const json_t *o, const char *name)
{
	return json_number_value(json_object_get(o, name));
}
static inline double tw_real_at(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

#endif
