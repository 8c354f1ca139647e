/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - fields of separated text (RFC 4180), numbers in them, and words that name classes. */
#ifndef TW_DATA_FORMAT_CSV_H
#define TW_DATA_FORMAT_CSV_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_csv_field {
	const char *at;
	size_t bytes;
	bool last; /* of its row */
};

/* A text that is taken apart from front to back.  Quoted fields are unquoted in place, so the
 * text changes, and fields stay where they were said to be. */
struct tw_csv {
	const char *name; /* of the file, for sentences */
	char *next, *end;
	char separator;
	uint64_t line;   /* of the field that was read last, from 1 */
	uint64_t after;  /* of the one that comes */
	uint32_t column; /* of the field that was read last, from 1 */
	bool inside;     /* a row goes on */
	bool looks;      /* the text stays as it is: two quotes in a quoted field stay two */
};

void tw_csv_init(struct tw_csv *c, const char *name, char separator, char *text, size_t bytes);
/* Nothing but line ends is left (and no row is half read). */
bool tw_csv_done(const struct tw_csv *c);
/* The next field.  TW_BAD_INPUT for quotes that are wrong, with line and column. */
enum tw_status tw_csv_field(struct tw_csv *c, struct tw_csv_field *out, struct tw_error *why);
/* The next field, if it is a plain number: a sign perhaps, at most 18 digits, a point among them
 * perhaps, and nothing else.  *number is what tw_field_number makes of it, in one look at the text
 * where the two functions need two.  False: it is something else, and is the next one still. */
bool tw_csv_number(struct tw_csv *c, struct tw_csv_field *out, float *number);
/* The field as a sentence may show it. */
#define TW_FIELD_SHOWN 64
const char *tw_field_show(const struct tw_csv_field *f, char out[TW_FIELD_SHOWN]);

/* The decimal number that is the whole field (blanks around it are allowed), as a float: the
 * nearest one, or its neighbour where the number is within 1e-9 of the middle between the two.
 * Plain operations on doubles, so it is the same on all machines and in all locales.  False: not a
 * number, or not finite as a float. */
bool tw_field_number(const struct tw_csv_field *f, float *out);
/* The field as a whole number, perhaps negative, of at most 18 digits. */
bool tw_field_whole(const struct tw_csv_field *f, int64_t *out);

/* Distinct words, numbered as they came; at most `most` of them.  They stay where they are: the
 * text that they came from must outlive the table. */
#define TW_WORDS_MOST (UINT32_C(1) << 30)
struct tw_words {
	struct tw_heap *heap;
	struct tw_csv_field *word;
	uint32_t *slot; /* hash table of number + 1 */
	uint32_t count, room, most;
};
void tw_words_init(struct tw_words *w, struct tw_heap *heap, uint32_t most);
void tw_words_release(struct tw_words *w);
/* The word's number, adding it where it is new.  TW_NO_MEMORY; TW_NO_ROOM if there are too many. */
enum tw_status tw_words_number(struct tw_words *w, const struct tw_csv_field *f, uint32_t *out);
/* Add the names of a list that ends with NULL.  TW_NO_MEMORY, TW_NO_ROOM. */
enum tw_status tw_words_names(struct tw_words *w, const char *const *name);
bool tw_words_find(const struct tw_words *w, const struct tw_csv_field *f, uint32_t *out);
/* All are whole numbers. */
bool tw_words_whole(const struct tw_words *w);
/* Write to rank[number] the word's place in sorted order and return how many classes that makes:
 * by value if all are whole numbers (those of equal value are one class), else by bytes.
 * `order` has room for count numbers. */
uint32_t tw_words_rank(const struct tw_words *w, uint32_t *order, uint32_t *rank);

#endif
