/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - the bytes of a text, each predicted from those before it. */
#include "data/format/windows.h"

struct options {
	const char *file, *test_file;
	uint32_t length;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, file, TW_TEXT, NULL, NULL, 0, 0,
		  "the text, gzipped or not; its bytes are the tokens"),
	TW_OPTION(struct options, test_file, TW_TEXT, "", NULL, 0, 0,
		  "the text of the test set; without it the share `test` at the end of `file`"),
	TW_OPTION(struct options, length, TW_U32, "64", "bytes", 1, 65536,
		  "how many bytes a sample has, and a prediction can look back"),
	TW_OPTION_END,
};

static enum tw_status open_text(const void *options, const struct tw_source_site *site,
				struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;

	return tw_windows_open(&(struct tw_windows){ o->length, 1, 256, o->file, o->test_file },
			       site, out, why);
}

const struct tw_source tw_source_text = {
	.name = "text",
	.help = "a text as bytes: each is predicted from those before it",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.splits = true,
	.test_option = "test_file",
	.open = open_text,
};
