/* SPDX-License-Identifier: Apache-2.0 */
/* tokens.c - numbers of a vocabulary, raw as nanoGPT writes them, each predicted from those before
 * it. */
#include "data/format/windows.h"

static const char *const widths[] = { "16", "32", NULL };

struct options {
	const char *file, *test_file;
	uint32_t length, vocabulary, bits;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, file, TW_TEXT, NULL, NULL, 0, 0,
		  "the tokens as raw whole numbers, little endian, without a header"),
	TW_OPTION(struct options, test_file, TW_TEXT, "", NULL, 0, 0,
		  "the tokens of the test set; without it the share `test` at the end of `file`"),
	TW_OPTION(struct options, vocabulary, TW_U32, NULL, NULL, 2, TW_CLASSES_MAX,
		  "how many different tokens there are; all are below it", .example = "50257"),
	TW_OPTION(struct options, length, TW_U32, "64", "tokens", 1, 65536,
		  "how many tokens a sample has, and a prediction can look back"),
	TW_OPTION_CHOICE(struct options, bits, "bits", "16", widths, "bits of a token in the file"),
	TW_OPTION_END,
};

static enum tw_status open_tokens(const void *options, const struct tw_source_site *site,
				  struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	const struct tw_windows w = { o->length, o->bits ? 4 : 2, o->vocabulary, o->file,
				      o->test_file };

	return tw_windows_open(&w, site, out, why);
}

const struct tw_source tw_source_tokens = {
	.name = "tokens",
	.help = "tokens of a text as raw numbers of 16 or 32 bits, such as nanoGPT's .bin files",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.splits = true,
	.test_option = "test_file",
	.open = open_tokens,
};
