/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h - data files for tests, and data sets opened from "key=value" texts. */
#ifndef TW_TEST_DATA_KIT_H
#define TW_TEST_DATA_KIT_H

#include "data/data.h"
#include "data/input.h"
#include "kit/scratch.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

/* Write a file into the folder. */
void kit_put_gzip(const char *name, const void *bytes, size_t n);
/* The file's bytes, in memory that the caller frees. */
uint8_t *kit_get(const char *name, size_t *n);

/* An IDX file of bytes: `rank` sizes, then the values that `value` gives for each place. */
size_t kit_idx(uint8_t *out, uint8_t type, uint32_t rank, const uint32_t *size,
	       uint8_t (*value)(size_t));
/* An NPY file of version 1 with that header text; returns its length. */
size_t kit_npy(uint8_t *out, const char *header, const void *values, size_t bytes);

/* Open with options given as "key=value" (of the source or common), NULL at the end.  Paths begin
 * at the folder.  `heap` NULL: the system's. */
enum tw_status kit_open(struct tw_heap *heap, const char *source, const char *const *sets,
			struct tw_data **out, struct tw_error *why);
/* The same, with paths that reach as far as that; NULL: everywhere, from the folder. */
enum tw_status kit_open_at(const struct tw_reach *reach, struct tw_heap *heap, const char *source,
			   const char *const *sets, struct tw_data **out, struct tw_error *why);
/* Who hears what is opened afterwards; NULL: nobody. */
extern const struct tw_data_listener *kit_listener;
/* It must open. */
struct tw_data *kit_must_open(const char *source, const char *const *sets);
/* As tw_data_read leaves it. */
struct tw_data *kit_must_read(const char *source, const char *const *sets);
/* As `thalweg data import` does: the samples as a set file of that name. */
void kit_import(const char *source, const char *const *sets, const char *name);
/* It must be refused with TW_BAD_INPUT and a sentence with all these parts (NULL at the end). */
void kit_refuses(const char *source, const char *const *sets, const char *const *parts);

/* The sentence is one line and has all these parts. */
void kit_says(const char *text, const char *const *parts);
/* It opens with one warning that has all these parts; without parts, with none. */
void kit_warns(const char *source, const char *const *sets, const char *const *parts);
/* Warnings of the set that was opened last. */
const struct tw_warnings *kit_warned(void);

#define SETS(...)  ((const char *const[]){ __VA_ARGS__, NULL })
#define PARTS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NOTHING    ((const char *const[]){ NULL })

/* The four files of a small, whole IDX data set: 12 images of 5x4 and 4 to test, 3 classes. */
void kit_put_idx_set(void);
/* The same for csv (train.csv, test.csv: 3 values, class words) and npy (x.npy, y.npy). */
void kit_put_csv_set(void);
void kit_put_npy_set(void);
/* A folder pics/ with two classes of 6 and 4 pictures of 4x6 pixels, and pics.tar, which has them
 * with their classes. */
void kit_put_pictures(void);
/* The same for text (text.txt of 101 bytes, rest.txt) and tokens (tokens.bin of 16 bits below 300,
 * wide.bin of 32). */
void kit_put_text_set(void);

#endif
