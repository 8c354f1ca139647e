/* SPDX-License-Identifier: Apache-2.0 */
/* test_completion.c - shells read the scripts of `thalweg completion`, and offer what the tables
 * have: every verb, every flag of every verb, every name that is taken. */
#include "cli/args.h"
#include "cli/spawn.h"
#include "spec/registries.h"
#include "spec/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/skipping.h"

#define WORDS 2000 /* that are offered at one place, at most */
#define LINES 400  /* that are completed */
#define NEXT  "==" /* stands behind what is offered for a line */

/* --- sets of words --- */

struct set {
	char *at[WORDS];
	size_t count;
};

static void add(struct set *s, const char *format, ...)
{
	va_list args;
	char *word;

	va_start(args, format);
	assert_true(vasprintf(&word, format, args) >= 0);
	va_end(args);
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->at[i], word) == 0) {
			free(word);
			return;
		}
	assert_true(s->count < WORDS);
	s->at[s->count++] = word;
}

static bool in(const struct set *s, const char *word)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->at[i], word) == 0)
			return true;
	return false;
}

static void empty(struct set *s)
{
	while (s->count)
		free(s->at[--s->count]);
}

/* --- what must be offered, line by line --- */

static struct want {
	char line[120];
	struct set words;
} wants[LINES];
static size_t lines;

static struct set *want(const char *format, ...)
{
	struct want *w = &wants[lines++];
	va_list args;

	assert_true(lines < LINES);
	va_start(args, format);
	vsnprintf(w->line, sizeof w->line, format, args);
	va_end(args);
	return &w->words;
}

static void add_flags(struct set *s, const struct tw_flag *rows)
{
	for (; rows && rows->option.name; rows++) {
		add(s, "--%s", rows->option.name);
		if (rows->letter)
			add(s, "-%c", rows->letter);
	}
}

static void want_flags(const struct tw_verb *v)
{
	struct set *s = want("thalweg %s -", v->name);

	add_flags(s, v->flags);
	add_flags(s, tw_common_flags);
	for (const struct tw_flag *f = v->flags; f && f->option.name; f++) {
		s = want("thalweg -q %s --%s", v->name, f->option.name);
		for (const struct tw_flag *g = v->flags; g->option.name; g++)
			if (strncmp(g->option.name, f->option.name, strlen(f->option.name)) == 0)
				add(s, "--%s", g->option.name);
		if (f->option.type != TW_CHOICE)
			continue;
		s = want("thalweg %s --%s ", v->name, f->option.name);
		for (size_t i = 0; f->option.choices[i]; i++)
			add(s, "%s", f->option.choices[i]);
		s = want("thalweg %s --%s=%s", v->name, f->option.name, f->option.choices[0]);
		add(s, "%s", f->option.choices[0]);
	}
}

static void want_words(const struct tw_verb *v)
{
	struct set *s;

	if (!v->word_at)
		return;
	s = want("thalweg %s ", v->name);
	for (size_t i = 0; v->word_at(i); i++)
		add(s, "%s", v->word_at(i));
}

/* The folder has job.yaml, notes.txt and, a folder, runs. */
static void want_files(void)
{
	static const char *const all[] = { "sim ",        "data check ",     "sim -- ",
					   "sim --json ", "sim --run runs ", "sim --run=runs ",
					   "eval --job " };
	struct set *s;

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		s = want("thalweg %s", all[i]);
		add(s, "job.yaml");
		add(s, "notes.txt");
		add(s, "runs");
	}
	add(want("thalweg train --set train.seed=1 --run runs jo"), "job.yaml");
	add(want("thalweg sim --run "), "runs");
	add(want("thalweg sim --run="), "runs");
	want("thalweg sim --threads ");
	want("thalweg join ");
	want("thalweg sim job.yaml -- ");
	want("thalweg xyzzy --se");
	s = want("thalweg doctor ");
	add_flags(s, tw_verb_find("doctor")->flags);
	add_flags(s, tw_common_flags);
}

static void want_fields(void)
{
	const struct tw_option *row = tw_option_find(tw_strategy_rows, "send");
	struct set *s = want("thalweg sim --set ");
	const char *name, *help;
	struct tw_group g;

	for (size_t k = 0; tw_group_at(k, &g); k++)
		for (const struct tw_option *r = g.rows; r->name; r++)
			add(s, "%s%s=", g.prefix, r->name);
	add(s, "strategy=");
	for (const struct tw_registry *r = tw_registries; r->field; r++) {
		add(s, "%s=", r->field);
		if (r->also)
			add(s, "%s=", r->also);
	}
	add(want("thalweg sim --set update.sched"), "%s", "update.schedule.kind=");
	for (size_t k = 0; k < s->count; k++)
		if (strncmp(s->at[k], "update.sched", 12) == 0)
			add(&wants[lines - 1].words, "%s", s->at[k]);
	for (size_t k = 0; k < 3; k++) {
		static const char *const how[] = { "--set ", "--set=", "--set=x=y --set " };

		s = want("thalweg train %sstrategy=", how[k]);
		for (const struct tw_preset *p = tw_presets; p->name; p++)
			add(s, "%s", p->name);
	}
	s = want("thalweg train --set strategy.send=");
	for (size_t k = 0; row->choices[k]; k++)
		add(s, "%s", row->choices[k]);
	s = want("thalweg train --set strategy.local.rule=");
	add(s, "none");
	for (size_t k = 0; (name = tw_name_at("strategy.local.rule", k, &help)); k++)
		add(s, "%s", name);
	want("thalweg train --set train.seed=");
	want("thalweg train --set no.such=");
}

static int want_all(void **state)
{
	struct set *s = want("thalweg ");

	for (size_t i = 0; tw_verb_all[i]; i++)
		add(s, "%s", tw_verb_all[i]->name);
	add_flags(want("thalweg -"), tw_common_flags);
	for (size_t i = 0; tw_verb_all[i]; i++) {
		want_flags(tw_verb_all[i]);
		want_words(tw_verb_all[i]);
	}
	want_files();
	want_fields();
	if (scratch_make(state))
		return -1;
	mkdir(path_of("work"), 0755);
	mkdir(path_of("work/runs"), 0755);
	put_text("work/job.yaml", "");
	put_text("work/notes.txt", "");
	return 0;
}

static int forget_all(void **state)
{
	while (lines)
		empty(&wants[--lines].words);
	return scratch_remove(state);
}

/* --- what is offered --- */

static void write_lines(void)
{
	FILE *f = fopen(path_of("lines"), "w");

	assert_non_null(f);
	for (size_t i = 0; i < lines; i++)
		fprintf(f, "%s\n", wants[i].line);
	assert_int_equal(fclose(f), 0);
}

static size_t compare(const char *shell, const struct want *w, const struct set *got)
{
	size_t wrong = 0;

	for (size_t i = 0; i < w->words.count; i++)
		if (!in(got, w->words.at[i]) && wrong++ < 5)
			print_error("%s: '%s' does not offer '%s'\n", shell, w->line,
				    w->words.at[i]);
	for (size_t i = 0; i < got->count; i++)
		if (!in(&w->words, got->at[i]) && wrong++ < 5)
			print_error("%s: '%s' offers '%s'\n", shell, w->line, got->at[i]);
	return wrong;
}

/* The answers in the file `offered`, against what must be there. */
static void compare_all(const char *shell)
{
	FILE *f = fopen(path_of("offered"), "r");
	size_t room = 0, answered = 0, wrong = 0;
	struct set got = { .count = 0 };
	char *line = NULL;

	assert_non_null(f);
	while (getline(&line, &room, f) >= 0) {
		line[strcspn(line, "\n")] = 0;
		if (strcmp(line, NEXT) != 0) {
			const size_t n = strlen(line);

			if (n && line[n - 1] == '/')
				line[n - 1] = 0;
			if (n)
				add(&got, "%s", line);
			continue;
		}
		assert_true(answered < lines);
		wrong += compare(shell, &wants[answered++], &got);
		empty(&got);
	}
	free(line);
	fclose(f);
	assert_int_equal(answered, lines);
	assert_int_equal(wrong, 0);
}

/* The shell runs `driver` in a folder with some files.  The driver reads the script `../script`,
 * completes each line of `../lines`, and writes what is offered to `../offered`. */
static void offers(const char *shell, const char *driver)
{
	char command[800];

	snprintf(command, sizeof command, "command -v %s >/dev/null", shell);
	if (system(command) != 0) {
		snprintf(command, sizeof command,
			 "there is no %s here (./setup --full installs it)", shell);
		SKIP(command);
	}
	expect(thalweg(NULL, "completion %s", shell), 0);
	put_text("script", thalweg(NULL, "completion %s", shell)->out);
	put_text("driver", driver);
	write_lines();
	snprintf(command, sizeof command,
		 "cd %s && rm -f ../offered && HOME=.. ZDOTDIR=.. TERM=dumb timeout 100 %s "
		 "../driver "
		 ">../said 2>&1",
		 path_of("work"), shell);
	if (system(command) != 0) {
		snprintf(command, sizeof command, "cat %s >&2", path_of("said"));
		fail_msg("%s ends badly%s", shell, system(command) ? "" : "; see above");
	}
	compare_all(shell);
}

/* Words are cut at "=", as bash cuts them. */
static void bash_offers_what_there_is(void **state)
{
	offers("bash", "source ../script\n"
		       "function=$(complete -p thalweg)\n"
		       "function=${function#*-F } function=${function%% *}\n"
		       "while IFS= read -r line; do\n"
		       "	read -ra COMP_WORDS <<<\"${line//=/ = }\"\n"
		       "	[[ $line == *' ' ]] && COMP_WORDS+=('')\n"
		       "	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
		       "	$function\n"
		       "	printf '%s\\n' \"${COMPREPLY[@]}\" " NEXT "\n"
		       "done <../lines >../offered\n");
}

/* A second zsh, at a terminal of its own, completes each line as if it had been typed. */
static void zsh_offers_what_there_is(void **state)
{
	put_text(".zshrc", "unsetopt auto_menu auto_list beep\n"
			   "autoload -Uz compinit && compinit -u -D\n"
			   "source ../script\n"
			   "compadd() {\n"
			   "	local -a found\n"
			   "	if (( ! ${argv[(I)-[OAD]]} )); then\n"
			   "		builtin compadd -O found \"$@\"\n"
			   "		print -rl -- $found >>../offered\n"
			   "	fi\n"
			   "	builtin compadd \"$@\"\n"
			   "}\n"
			   "zle-line-init() {\n"
			   "	local line\n"
			   "	while IFS= read -r line; do\n"
			   "		BUFFER=$line CURSOR=$#line\n"
			   "		zle complete-word\n"
			   "		print -r -- '" NEXT "' >>../offered\n"
			   "	done <../lines\n"
			   "	BUFFER=exit\n"
			   "	zle accept-line\n"
			   "}\n"
			   "zle -N zle-line-init\n");
	offers("zsh", "zmodload zsh/zpty\n"
		      "zpty inner zsh -i\n"
		      "while zpty -r inner said; do print -r -- $said; done\n"
		      "[[ -s ../offered ]]\n");
}

/* Of "--set=a=b" and "a=b", fish offers the whole. */
static void fish_offers_what_there_is(void **state)
{
	offers("fish", "source ../script\n"
		       "while read -l line\n"
		       "	complete -C \"$line\" | string replace -r '\\t.*' '' |\n"
		       "		string replace -r '^.*=(.)' '$1'\n"
		       "	echo " NEXT "\n"
		       "end <../lines >../offered\n");
}

static void other_shells_are_refused(void **state)
{
	thalweg_refuses(NULL, "there is no script for the shell 'tcsh'; there are bash, zsh and",
			"completion tcsh");
	thalweg_refuses(NULL, "completion needs SHELL", "completion");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bash_offers_what_there_is),
		cmocka_unit_test(zsh_offers_what_there_is),
		cmocka_unit_test(fish_offers_what_there_is),
		cmocka_unit_test(other_shells_are_refused),
	};

	return cmocka_run_group_tests(tests, want_all, forget_all);
}
