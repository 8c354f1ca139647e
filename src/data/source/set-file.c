/* SPDX-License-Identifier: Apache-2.0 */
/* set-file.c - a set that was imported: mapped, divided already, and as large as the disk. */
#include "data/data_memory.h"
#include "data/format/set_map.h"

struct options {
	const char *file;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, file, TW_TEXT, NULL, NULL, 0, 0,
		  "a file that `thalweg data import` wrote"),
	TW_OPTION_END,
};

static enum tw_status open_set(const void *options, const struct tw_source_site *site,
			       struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	enum tw_status st;

	if (!o->file || !o->file[0])
		return tw_fail(why, TW_BAD_INPUT,
			       "file: must be given: a file that `thalweg data import JOB --to "
			       "FILE.tws` wrote");
	st = tw_set_map(site, o->file, out, why);
	if (st == TW_BAD_BYTES)
		st = why->status = TW_BAD_INPUT;
	out->divided = true;
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_set_file = {
	.name = "set-file",
	.help = "a set that `thalweg data import` wrote: read from the disk while it is used",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.files = (const struct tw_source_file[]){ { ".tws" }, { 0 } },
	.open = open_set,
};
