/* SPDX-License-Identifier: Apache-2.0 */
/* date.h - dates in a table, with or without a time of day. */
#ifndef TW_DATA_FORMAT_DATE_H
#define TW_DATA_FORMAT_DATE_H

#include "data/format/csv.h"

/* How 03/04/2020 is read; 2020-04-03, 2020/04/03 and 03.04.2020 can be read in one way only. */
enum tw_date_order { TW_DATE_MONTH_FIRST, TW_DATE_DAY_FIRST };

#define TW_DATE_PARTS 5
extern const char *const tw_date_parts[TW_DATE_PARTS + 1]; /* "year" ... "hour"; NULL behind */

struct tw_date {
	uint32_t year, month, day;
	double hour; /* of the day, with minutes and seconds as its fraction */
	bool has_time;
	bool slashes; /* `order` decided what is day and what is month */
};

/* The date that is the whole field, blanks around it allowed.  An offset such as Z or +02:00 is
 * read and not applied: parts are those that are written.  False: it is none. */
bool tw_date_parse(const struct tw_csv_field *f, enum tw_date_order order, struct tw_date *out);
/* Year, month, day, weekday (0 is Monday), hour: the first four without a time of day. */
void tw_date_split(const struct tw_date *date, float out[TW_DATE_PARTS]);
/* Hours since 1970-01-01: a number that dates are sorted by. */
double tw_date_hours(const struct tw_date *date);

#endif
