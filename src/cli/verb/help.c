/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - thalweg help: what there is, from the tables. */
#include "cli/help.h"

#include "job/job.h"

#include <string.h>

struct help_flags {
	bool markdown, man;
};

static int no_such_topic(const struct tw_call *call, const char *topic)
{
	const char *names[64] = { "strategies", "layers", "options" }, *near;
	size_t n = 3;

	for (size_t i = 0; tw_verb_all[i] && n < 63; i++)
		names[n++] = tw_verb_all[i]->name;
	near = tw_nearest(topic, names);
	tw_log_line(call->log, TW_ERROR, "",
		    "there is no help on '%s'%s%s; try strategies, layers, options or a verb",
		    topic, near ? "; did you mean " : "", near ? near : "");
	return TW_EXIT_WRONG;
}

static int help(const struct tw_call *call)
{
	const struct help_flags *f = call->flags;
	const char *topic = call->words ? call->word[0] : "";

	if (f->man) {
		tw_help_man(stdout);
	} else if (strcmp(topic, "options") == 0) {
		if (f->markdown)
			tw_help_markdown(stdout);
		tw_job_reference(stdout, TW_REFERENCE_MARKDOWN);
	} else if (strcmp(topic, "strategies") == 0) {
		tw_job_strategies(stdout);
	} else if (strcmp(topic, "layers") == 0) {
		tw_job_layers(stdout);
	} else if (!*topic) {
		tw_help_overview(stdout);
	} else if (tw_verb_find(topic)) {
		tw_help_verb(stdout, tw_verb_find(topic));
	} else {
		return no_such_topic(call, topic);
	}
	return TW_EXIT_DONE;
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct help_flags, markdown, "markdown", TW_BOOL, "false", NULL, 0, 0,
		"with options: the whole reference page, flags of the verbs included"),
	TW_FLAG(struct help_flags, man, "man", TW_BOOL, "false", NULL, 0, 0,
		"print the manual page thalweg(1) in roff"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg help strategies", "presets, gates, staleness policies, rules, codecs" },
	{ "thalweg help layers", "layers, losses, networks by name, data sources" },
	{ "thalweg help options", "every field of a job file" },
	{ "thalweg help sim", "one verb and its flags" },
	{ 0 },
};

const struct tw_verb tw_verb_help = {
	.name = "help",
	.words = "[TOPIC]",
	.help = "strategies, layers, options, or a verb",
	.about = "Says what there is.  TOPIC is strategies (presets, gates, staleness policies, "
		 "rules\n"
		 "and codecs, one line each), layers (layers, losses, networks and data sources), "
		 "options\n"
		 "(every field of a job file), or a verb.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct help_flags),
	.most = 1,
	.run = help,
};
