/* SPDX-License-Identifier: Apache-2.0 */
/* completion.c - thalweg completion: scripts that let a shell complete commands.
 *
 * A script is a function of lists, made from the tables, and a function that finds out which list
 * is wanted.  The latter is the same in all shells, in their own languages.  The keys of the lists:
 *
 *	verbs           the verbs
 *	flags VERB      flags of the verb, those of every verb among them; "flags ": before a verb
 *	VERB --flag     values of the flag; there is no such list for a flag without a value
 *	VERB 0          the verb's first word; VERB 1: its second
 *	fields          fields of a job, each with a "=" behind it
 *	PATH=           values of that field
 *
 * A list that is one word in <> says what stands in place of words: <files>, <folders> or
 * <fields>. */
#include "base/arena.h"
#include "base/grow.h"
#include "base/printable.h"
#include "cli/args.h"
#include "spec/field.h"
#include "spec/registries.h"

#include <stdio.h>
#include <string.h>

/* How a script is written. */
struct shell {
	const char *name;
	const char *first;          /* what the script must begin with; NULL: nothing */
	const char *head, *tail;    /* before the first list, after the last */
	const char *before, *after; /* a list's key */
	const char *end;            /* of a list */
	void (*item)(const char *word, const char *help);
};

struct script {
	const struct shell *shell;
	struct tw_arena keep;
	const char **seen; /* words of the list that is being written */
	size_t count, room;
	bool failed; /* no memory */
};

/* --- lists, from the tables --- */

static void begin(struct script *s, const char *format, const char *a, const char *b)
{
	s->count = 0;
	fputs(s->shell->before, stdout);
	printf(format, a, b);
	fputs(s->shell->after, stdout);
}

static void end(struct script *s)
{
	fputs(s->shell->end, stdout);
}

/* Each word once. */
static void item(struct script *s, const char *word, const char *help)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->seen[i], word) == 0)
			return;
	if (!TW_GROW_IN(&s->keep, s->seen, s->room, s->count, s->count + 1) ||
	    !(s->seen[s->count] = tw_arena_text(&s->keep, word))) {
		s->failed = true;
		return;
	}
	s->shell->item(s->seen[s->count++], help ? help : "");
}

/* What help calls a value, or a word of a verb, says what it is. */
static void kind(struct script *s, const char *called)
{
	const char *const files[] = { "FILE", "JOB", "PATH", "PROGRAM" };

	if (strncmp(called, "PATH=", 5) == 0)
		item(s, "<fields>", NULL);
	else if (strcmp(called, "DIR") == 0)
		item(s, "<folders>", NULL);
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		if (strcmp(called, files[i]) == 0)
			item(s, "<files>", NULL);
}

static void choices(struct script *s, const struct tw_option *row)
{
	for (const char *const *c = row->choices; row->type == TW_CHOICE && *c; c++)
		item(s, *c, NULL);
}

static void flag_names(struct script *s, const struct tw_flag *rows)
{
	for (; rows && rows->option.name; rows++) {
		char text[80];

		snprintf(text, sizeof text, "--%s", rows->option.name);
		item(s, text, rows->option.help);
		snprintf(text, sizeof text, "-%c", rows->letter);
		if (rows->letter)
			item(s, text, rows->option.help);
	}
}

static void flag_lists(struct script *s, const char *verb, const struct tw_flag *rows)
{
	begin(s, "flags %s%s", verb, "");
	flag_names(s, rows);
	flag_names(s, tw_common_flags);
	end(s);
	for (; rows && rows->option.name; rows++) {
		if (rows->option.type == TW_BOOL)
			continue;
		begin(s, "%s --%s", verb, rows->option.name);
		choices(s, &rows->option);
		kind(s, rows->value);
		end(s);
	}
}

static void word_lists(struct script *s, const struct tw_verb *v)
{
	const char *word;

	if (v->most == 0)
		return;
	begin(s, "%s %s", v->name, "0");
	for (size_t k = 0; v->word_at && (word = v->word_at(k)); k++)
		item(s, word, NULL);
	if (!v->word_at)
		kind(s, v->words);
	end(s);
	if (v->most == 1)
		return;
	begin(s, "%s %s", v->name, "1");
	item(s, "<files>", NULL);
	end(s);
}

static void verb_lists(struct script *s)
{
	begin(s, "verbs%s%s", "", "");
	for (size_t i = 0; tw_verb_all[i]; i++)
		item(s, tw_verb_all[i]->name, tw_verb_all[i]->help);
	end(s);
	flag_lists(s, "", NULL);
	for (size_t i = 0; tw_verb_all[i]; i++) {
		flag_lists(s, tw_verb_all[i]->name, tw_verb_all[i]->flags);
		word_lists(s, tw_verb_all[i]);
	}
}

/* Names that a field takes from the tables; 0: it takes none.  NULL only counts them. */
static size_t names(struct script *s, const char *path)
{
	const char *name, *help;
	size_t n = 0;

	for (; (name = tw_name_at(path, n, &help)); n++)
		if (s)
			item(s, name, help);
	return n;
}

/* The same of the values that a row takes.  Where names are taken, the default may be "none". */
static size_t values(struct script *s, const char *path, const struct tw_option *row)
{
	const size_t n = names(s, path);

	if (s && n && row->standard && *row->standard)
		item(s, row->standard, NULL);
	if (s)
		choices(s, row);
	if (s && row->type == TW_BOOL) {
		item(s, "true", NULL);
		item(s, "false", NULL);
	}
	return n + (row->type == TW_CHOICE) + (row->type == TW_BOOL);
}

/* Rows of several variants may be at one path: what any of them takes.  The number of the group
 * that has the first of them. */
static size_t path_values(struct script *s, const char *path)
{
	size_t first = SIZE_MAX;

	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		if (strcmp(w.path, path) != 0)
			continue;
		if (s)
			values(s, path, w.row);
		if (first == SIZE_MAX)
			first = w.number;
	}
	return first;
}

static void field_lists(struct script *s)
{
	char path[TW_PATH_ROOM + 1];

	begin(s, "fields%s%s", "", "");
	for (const struct tw_section *t = tw_sections; t->name; t++) {
		snprintf(path, sizeof path, "%s=", t->name);
		if (names(NULL, t->name))
			item(s, path, t->help);
	}
	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		snprintf(path, sizeof path, "%s=", w.path);
		item(s, path, w.row->help);
	}
	end(s);
	for (const struct tw_section *t = tw_sections; t->name; t++)
		if (names(NULL, t->name)) {
			begin(s, "%s=%s", t->name, "");
			names(s, t->name);
			end(s);
		}
	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);) {
		if (!values(NULL, w.path, w.row) || path_values(NULL, w.path) != w.number)
			continue;
		begin(s, "%s=%s", w.path, "");
		path_values(s, w.path);
		end(s);
	}
}

/* --- quoting --- */

static void quote(const char *text, const char *escape)
{
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr(escape, *text))
			printf("\\%c", *text);
		else
			putchar(*text);
}

static const char sh_head[] = "_thalweg_list()\n" /* bash and zsh */
			      "{\n"
			      "\tcase $1 in\n";

/* --- bash --- */

static void bash_item(const char *word, const char *help)
{
	quote(word, "");
	putchar(' ');
}

/* bash cuts words at "=": what was cut is put together, and of a word only what is behind the last
 * cut is replaced. */
static const char bash_tail[] =
	"\t*) return 1 ;;\n"
	"\tesac\n"
	"}\n"
	"\n"
	"_thalweg()\n"
	"{\n"
	"\tlocal IFS=$' \\t\\n' words=() list= key= verb= plain= place=0 prefix= cur word i\n"
	"\tCOMPREPLY=()\n"
	"\tfor ((i = 1; i <= COMP_CWORD; i++)); do\n"
	"\t\tif ((i > 1)) && [[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]]; then\n"
	"\t\t\twords[-1]+=${COMP_WORDS[i]}\n"
	"\t\telse\n"
	"\t\t\twords+=(\"${COMP_WORDS[i]}\")\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tcur=${words[-1]}\n"
	"\tunset 'words[-1]'\n"
	"\tfor word in \"${words[@]}\"; do\n"
	"\t\tif [[ $key ]]; then\n"
	"\t\t\tkey=\n"
	"\t\telif [[ $plain || $word != -?* ]]; then\n"
	"\t\t\tif [[ $verb ]]; then ((++place)); else verb=$word; fi\n"
	"\t\telif [[ $word == -- ]]; then\n"
	"\t\t\tplain=1\n"
	"\t\telif _thalweg_list \"$verb $word\"; then\n"
	"\t\t\tkey=\"$verb $word\"\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif [[ $key ]]; then\n"
	"\t\t:\n"
	"\telif [[ ! $plain && $cur == --*=* ]]; then\n"
	"\t\tkey=\"$verb ${cur%%=*}\" prefix=${cur%%=*}= cur=${cur#*=}\n"
	"\telif [[ ! $plain && $cur == -* ]]; then\n"
	"\t\tkey=\"flags $verb\"\n"
	"\telif [[ ! $verb ]]; then\n"
	"\t\tkey=verbs\n"
	"\telse\n"
	"\t\tkey=\"$verb $place\"\n"
	"\t\t_thalweg_list \"$key\" || [[ $plain ]] || key=\"flags $verb\"\n"
	"\tfi\n"
	"\tlist=\n"
	"\t_thalweg_list \"$key\"\n"
	"\tif [[ $list == '<fields> ' && $cur == *=* ]]; then\n"
	"\t\tkey=${cur%%=*}= prefix+=${cur%%=*}= cur=${cur#*=} list=\n"
	"\t\t_thalweg_list \"$key\"\n"
	"\telif [[ $list == '<fields> ' ]]; then\n"
	"\t\t_thalweg_list fields\n"
	"\t\tcompopt -o nospace 2>/dev/null\n"
	"\tfi\n"
	"\tcase $list in\n"
	"\t'<files> ')\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\t\t;;\n"
	"\t'<folders> ')\n"
	"\t\tcompopt -o filenames 2>/dev/null\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
	"\t\t;;\n"
	"\t*)\n"
	"\t\tfor word in $list; do\n"
	"\t\t\t[[ $word == \"$cur\"* ]] && COMPREPLY+=(\"$word\")\n"
	"\t\tdone\n"
	"\t\t;;\n"
	"\tesac\n"
	"\t[[ $COMP_WORDBREAKS == *=* ]] || COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n"
	"}\n"
	"\n"
	"complete -F _thalweg thalweg\n";

/* --- zsh --- */

static void zsh_item(const char *word, const char *help)
{
	fputs("\n\t\t'", stdout);
	quote(word, ":");
	if (*help) {
		putchar(':');
		quote(help, "");
	}
	putchar('\'');
}

/* The last lines: the file is read by compinit, or by `source`. */
static const char zsh_tail[] =
	"\t(*) return 1 ;;\n"
	"\tesac\n"
	"}\n"
	"\n"
	"_thalweg()\n"
	"{\n"
	"\tlocal -a list\n"
	"\tlocal word key= verb= plain=\n"
	"\tinteger place=0\n"
	"\tfor word in \"${(@)words[2,CURRENT-1]}\"; do\n"
	"\t\tif [[ -n $key ]]; then\n"
	"\t\t\tkey=\n"
	"\t\telif [[ -n $plain || $word != -?* ]]; then\n"
	"\t\t\tif [[ -n $verb ]]; then (( ++place )); else verb=$word; fi\n"
	"\t\telif [[ $word == -- ]]; then\n"
	"\t\t\tplain=1\n"
	"\t\telif _thalweg_list \"$verb $word\"; then\n"
	"\t\t\tkey=\"$verb $word\"\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif [[ -n $key ]]; then\n"
	"\t\t:\n"
	"\telif [[ -z $plain && $PREFIX == --*=* ]]; then\n"
	"\t\tkey=\"$verb ${PREFIX%%=*}\"\n"
	"\t\tcompset -P 1 '*='\n"
	"\telif [[ -z $plain && $PREFIX == -* ]]; then\n"
	"\t\tkey=\"flags $verb\"\n"
	"\telif [[ -z $verb ]]; then\n"
	"\t\tkey=verbs\n"
	"\telse\n"
	"\t\tkey=\"$verb $place\"\n"
	"\t\t_thalweg_list \"$key\" || [[ -n $plain ]] || key=\"flags $verb\"\n"
	"\tfi\n"
	"\tlist=()\n"
	"\t_thalweg_list \"$key\"\n"
	"\tif [[ $list[1] == '<fields>' && $PREFIX == *=* ]]; then\n"
	"\t\tlist=()\n"
	"\t\t_thalweg_list \"${PREFIX%%=*}=\"\n"
	"\t\tcompset -P 1 '*='\n"
	"\telif [[ $list[1] == '<fields>' ]]; then\n"
	"\t\t_thalweg_list fields\n"
	"\t\t_describe -t fields field list -S ''\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tcase $list[1] in\n"
	"\t('') return 1 ;;\n"
	"\t('<files>') _files ;;\n"
	"\t('<folders>') _files -/ ;;\n"
	"\t(*) _describe -t words word list ;;\n"
	"\tesac\n"
	"}\n"
	"\n"
	"if [[ $funcstack[1] == _thalweg ]]; then\n"
	"\t_thalweg \"$@\"\n"
	"else\n"
	"\tcompdef _thalweg thalweg\n"
	"fi\n";

/* --- fish --- */

static void fish_item(const char *word, const char *help)
{
	fputs(" \\\n\t\t\t'", stdout);
	quote(word, "\\");
	fputs("' '", stdout);
	quote(help, "\\");
	putchar('\'');
}

static const char fish_head[] = "function __thalweg_say\n"
				"\tset -q argv[1]; and printf '%s\\t%s\\n' $argv; or true\n"
				"end\n"
				"\n"
				"function __thalweg_list\n"
				"\tswitch $argv[1]\n";

static const char fish_tail[] =
	"\tcase '*'\n"
	"\t\treturn 1\n"
	"\tend\n"
	"end\n"
	"\n"
	"function __thalweg\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l cur (commandline -ct)\n"
	"\tset -l key ''\n"
	"\tset -l verb ''\n"
	"\tset -l plain ''\n"
	"\tset -l prefix ''\n"
	"\tset -l place 0\n"
	"\tset -e words[1]\n"
	"\tfor word in $words\n"
	"\t\tif test -n \"$key\"\n"
	"\t\t\tset key ''\n"
	"\t\telse if test -n \"$plain\"; or not string match -qr -- '^-.' $word\n"
	"\t\t\tif test -n \"$verb\"\n"
	"\t\t\t\tset place (math $place + 1)\n"
	"\t\t\telse\n"
	"\t\t\t\tset verb $word\n"
	"\t\t\tend\n"
	"\t\telse if test \"$word\" = --\n"
	"\t\t\tset plain 1\n"
	"\t\telse if __thalweg_list \"$verb $word\" >/dev/null\n"
	"\t\t\tset key \"$verb $word\"\n"
	"\t\tend\n"
	"\tend\n"
	"\tif test -n \"$key\"\n"
	"\telse if test -z \"$plain\"; and string match -qr -- '^--.*=' $cur\n"
	"\t\tset -l parts (string split -m 1 = -- $cur)\n"
	"\t\tset key \"$verb $parts[1]\"\n"
	"\t\tset prefix \"$parts[1]=\"\n"
	"\t\tset cur \"$parts[2]\"\n"
	"\telse if test -z \"$plain\"; and string match -qr -- '^-' $cur\n"
	"\t\tset key \"flags $verb\"\n"
	"\telse if test -z \"$verb\"\n"
	"\t\tset key verbs\n"
	"\telse\n"
	"\t\tset key \"$verb $place\"\n"
	"\t\t__thalweg_list \"$key\" >/dev/null; or test -n \"$plain\"; or set key \"flags "
	"$verb\"\n"
	"\tend\n"
	"\tset -l list (__thalweg_list \"$key\")\n"
	"\tset -l field (string match -r -- '^[^=]*=' $cur)\n"
	"\tswitch \"$list[1]\"\n"
	"\tcase '<files>*'\n"
	"\t\tset list (__fish_complete_path \"$cur\")\n"
	"\tcase '<folders>*'\n"
	"\t\tset list (__fish_complete_directories \"$cur\")\n"
	"\tcase '<fields>*'\n"
	"\t\tif test -n \"$field\"\n"
	"\t\t\tset prefix \"$prefix$field\"\n"
	"\t\t\tset list (__thalweg_list \"$field\")\n"
	"\t\telse\n"
	"\t\t\tset list (__thalweg_list fields)\n"
	"\t\tend\n"
	"\tend\n"
	"\tfor word in $list\n"
	"\t\tprintf '%s\\n' \"$prefix$word\"\n"
	"\tend\n"
	"end\n"
	"\n"
	"complete -c thalweg -f -a '(__thalweg)'\n";

/* --- the verb --- */

static const struct shell shells[] = {
	{ .name = "bash",
	  .head = sh_head,
	  .tail = bash_tail,
	  .before = "\t'",
	  .after = "') list='",
	  .end = "' ;;\n",
	  .item = bash_item },
	{ .name = "zsh",
	  .first = "#compdef thalweg\n",
	  .head = sh_head,
	  .tail = zsh_tail,
	  .before = "\t('",
	  .after = "') list=(",
	  .end = ") ;;\n",
	  .item = zsh_item },
	{ .name = "fish",
	  .head = fish_head,
	  .tail = fish_tail,
	  .before = "\tcase '",
	  .after = "'\n\t\t__thalweg_say",
	  .end = "\n",
	  .item = fish_item },
};
#define SHELLS (sizeof shells / sizeof shells[0])

static const char *word_at(size_t k)
{
	return k < SHELLS ? shells[k].name : NULL;
}

static int no_such_shell(const struct tw_call *call, const char *name)
{
	char list[80] = "";

	for (size_t k = 0; k < SHELLS; k++)
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s",
			 k == 0           ? ""
			 : k + 1 < SHELLS ? ", "
					  : " and ",
			 shells[k].name);
	tw_log_line(call->log, TW_ERROR, "", "there is no script for the shell '%s'; there are %s",
		    tw_show(name).text, list);
	return TW_EXIT_WRONG;
}

static int completion(const struct tw_call *call)
{
	struct script s = { .shell = NULL };

	for (size_t k = 0; k < SHELLS; k++)
		if (strcmp(shells[k].name, call->word[0]) == 0)
			s.shell = &shells[k];
	if (!s.shell)
		return no_such_shell(call, call->word[0]);
	tw_arena_init(&s.keep, &tw_heap_system);
	printf("%s# Made by `thalweg completion %s`, version " TW_VERSION ".\n%s",
	       s.shell->first ? s.shell->first : "", s.shell->name, s.shell->head);
	verb_lists(&s);
	field_lists(&s);
	fputs(s.shell->tail, stdout);
	tw_arena_release(&s.keep);
	if (!s.failed)
		return TW_EXIT_DONE;
	tw_log_line(call->log, TW_ERROR, "", "no memory for the script");
	return TW_EXIT_FAILED;
}

static const struct tw_example examples[] = {
	{ "source <(thalweg completion bash)", "complete commands in this bash; the same in zsh" },
	{ "thalweg completion fish > ~/.config/fish/completions/thalweg.fish",
	  "complete commands in every fish from now on" },
	{ 0 },
};

const struct tw_verb tw_verb_completion = {
	.name = "completion",
	.words = "SHELL",
	.help = "print a script with which bash, zsh or fish completes commands",
	.about = "Prints a script for SHELL: bash, zsh or fish.  With it the Tab key completes "
		 "verbs, flags\n"
		 "and their values, topics of help, files, fields of a job behind --set and names "
		 "that these\n"
		 "take.  `ninja -C build install` puts the scripts where shells look for them.\n",
	.example = examples,
	.least = 1,
	.most = 1,
	.word_at = word_at,
	.run = completion,
};
