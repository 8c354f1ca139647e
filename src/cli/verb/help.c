/* SPDX-License-Identifier: Apache-2.0 */
/* help.c - thalweg help: what there is, from the tables. */
#include "cli/help.h"

#include "base/printable.h"
#include "spec/job.h"
#include "spec/help/help_topic.h"

#include <string.h>

#include <stdlib.h>

#define WORDS 1000 /* of a job file that help knows, at most */

struct help_flags {
	bool markdown, man;
};

static void options(const struct help_flags *f)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *page = f->markdown ? open_memstream(&text, &bytes) : NULL;

	if (page)
		tw_help_markdown(page);
	tw_job_reference(page ? page : stdout,
			 f->markdown ? TW_REFERENCE_MARKDOWN : TW_REFERENCE_PLAIN);
	if (page && fclose(page) == 0)
		tw_help_wrapped(stdout, text);
	free(text);
}

static void strategies(const struct help_flags *f)
{
	tw_job_strategies(stdout);
}

static void codecs(const struct help_flags *f)
{
	tw_job_codecs(stdout);
}

static void layers(const struct help_flags *f)
{
	tw_job_layers(stdout);
}

/* Topics that are lists. */
static const struct {
	const char *name;
	void (*print)(const struct help_flags *f);
} lists[] = {
	{ "strategies", strategies },
	{ "codecs", codecs },
	{ "layers", layers },
	{ "options", options },
};
#define LISTS (sizeof lists / sizeof lists[0])

static const char *word_at(size_t k)
{
	size_t verbs = 0;

	while (tw_verb_all[verbs])
		verbs++;
	if (k < LISTS)
		return lists[k].name;
	return k < LISTS + verbs ? tw_verb_all[k - LISTS]->name
				 : tw_job_topic_at(k - LISTS - verbs);
}

static int no_such_topic(const struct tw_call *call, const char *topic)
{
	static char words[WORDS][80];
	const char *names[WORDS + 1] = { NULL }, *near, *word;
	char absent[400];

	if (tw_job_topic_absent(topic, absent, sizeof absent)) {
		tw_log_line(call->log, TW_ERROR, "", "%s: %s", tw_show(topic).text, absent);
		return TW_EXIT_WRONG;
	}
	for (size_t i = 0; i < WORDS && (word = word_at(i)); i++) {
		snprintf(words[i], sizeof words[i], "%s", word);
		names[i] = words[i];
	}
	near = tw_nearest(topic, names);
	if (near)
		tw_log_line(call->log, TW_ERROR, "", "there is no help on '%s'; did you mean '%s'?",
			    tw_show(topic).text, near);
	else
		tw_log_line(call->log, TW_ERROR, "",
			    "there is no help on '%s'; a topic is a verb, a field "
			    "(update.rate), a section, a preset, a layer, a data source, or "
			    "one of strategies, codecs, layers and options",
			    tw_show(topic).text);
	return TW_EXIT_WRONG;
}

/* A verb, or a word of a job file; where it is both, "sim:" is the latter. */
static int one_topic(const struct tw_call *call, const char *topic)
{
	const struct tw_verb *verb = tw_verb_find(topic);
	const size_t n = strlen(topic);
	char word[200];

	if (verb) {
		tw_help_verb(stdout, verb);
		if (tw_job_is_section(topic))
			printf("\n`thalweg help %s:` shows the section of job files with this "
			       "name.\n",
			       topic);
		return TW_EXIT_DONE;
	}
	snprintf(word, sizeof word, "%.*s", (int)(n && topic[n - 1] == ':' ? n - 1 : n), topic);
	return tw_job_topic(stdout, word) ? TW_EXIT_DONE : no_such_topic(call, topic);
}

static int help(const struct tw_call *call)
{
	const struct help_flags *f = call->flags;
	char topic[200] = "";

	for (size_t k = 0, n = 0; k < call->words && n < sizeof topic; k++)
		n += (size_t)snprintf(topic + n, sizeof topic - n, "%s%s", k ? " " : "",
				      call->word[k]);
	if (f->man) {
		tw_help_man(stdout);
		return TW_EXIT_DONE;
	}
	if (!*topic) {
		tw_help_overview(stdout);
		return TW_EXIT_DONE;
	}
	for (size_t k = 0; k < LISTS; k++)
		if (strcmp(lists[k].name, topic) == 0) {
			lists[k].print(f);
			return TW_EXIT_DONE;
		}
	return one_topic(call, topic);
}

static const struct tw_flag flags[] = {
	TW_SWITCH(struct help_flags, markdown, "markdown",
		  "with options: print the whole reference page, including the flags of the verbs"),
	TW_SWITCH(struct help_flags, man, "man", "print the manual page thalweg(1) in roff"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg help strategies", "presets, gates, staleness policies, rules, codecs" },
	{ "thalweg help codecs", "codecs with their options" },
	{ "thalweg help layers", "layers, losses, networks by name, data sources" },
	{ "thalweg help options", "every field of a job file" },
	{ "thalweg help sim", "one verb and its flags" },
	{ "thalweg help update.rate", "one field: what it takes, its default, an example" },
	{ "thalweg help dana", "one preset; the same for a gate, a layer, a data source" },
	{ 0 },
};

const struct tw_verb tw_verb_help = {
	.name = "help",
	.words = "[TOPIC]",
	.help = "explain a verb, a field, a preset, a layer ...",
	.about = "Explains a topic.  TOPIC is strategies (presets, gates, staleness policies,\n"
		 "rules and codecs, one line each), codecs (with their options), layers (layers,\n"
		 "losses, networks and data sources), options (every field of a job file), a\n"
		 "verb, or one word of a job file: a field, a section, a preset, a data source, a\n"
		 "layer.  For a name from another program, such as lr, it shows the name that\n"
		 "thalweg uses.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct help_flags),
	.most = 4, /* learning rate */
	.word_at = word_at,
	.run = help,
};
