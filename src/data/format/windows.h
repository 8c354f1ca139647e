/* SPDX-License-Identifier: Apache-2.0 */
/* windows.h - a file of tokens as samples: windows that lie one behind the other.
 *
 * Sample k has the tokens k * length to (k + 1) * length, and as labels those one place further on.
 * What is left at the end, less than a window and a token, belongs to no sample. */
#ifndef TW_DATA_FORMAT_WINDOWS_H
#define TW_DATA_FORMAT_WINDOWS_H

#include "data/input.h"
#include "data/source.h"

struct tw_windows {
	uint32_t length;              /* tokens of a sample, at least 1 */
	uint32_t bytes;               /* of a token in the file: 1, 2 or 4, little endian */
	uint32_t vocabulary;          /* tokens are below it; at most TW_CLASSES_MAX */
	const char *file, *test_file; /* test_file: "" where there is none */
};

/* Read the files into the data's training and test sets, with its shape, kind and classes; the
 * samples are divided in their order (TW_HOLD_PARTS, with a test file TW_HOLD_FILE).
 * TW_BAD_INPUT: a file is too short, ends within a token, or has one outside the vocabulary. */
enum tw_status tw_windows_open(const struct tw_windows *w, const struct tw_source_site *site,
			       struct tw_data *d, struct tw_error *why);

#endif
