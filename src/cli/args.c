/* SPDX-License-Identifier: Apache-2.0 */
/* args.c - a command line against the tables of the verbs. */
#include "cli/args.h"
#include "base/grow.h"
#include "cli/verb_hints.h"
#include "spec/help/hint.h"
#include "spec/help/synonyms.h"

#include <stdio.h>
#include <string.h>

#define NAMES_MOST 64

const struct tw_flag tw_common_flags[] = {
	TW_FLAG_SHORT(struct tw_common, help, "help", 'h', "show the help of the verb"),
	TW_FLAG_SHORT(struct tw_common, version, "version", 0, "show the version"),
	TW_FLAG_SHORT(struct tw_common, quiet, "quiet", 'q', "print only errors on stderr"),
	TW_FLAG_SHORT(struct tw_common, verbose, "verbose", 'v', "print every detail on stderr"),
	TW_FLAG_END,
};

/* --- finding --- */

/* `name` is without dashes; one letter means the short form if `brief`. */
static const struct tw_flag *find_in(const struct tw_flag *rows, const char *name, size_t len,
				     bool brief)
{
	for (; rows && rows->option.name; rows++)
		if (brief ? len == 1 && rows->letter == *name
			  : strlen(rows->option.name) == len &&
				    strncmp(rows->option.name, name, len) == 0)
			return rows;
	return NULL;
}

static size_t names_of(const struct tw_flag *rows, const char **names, size_t n)
{
	for (; rows && rows->option.name && n + 1 < NAMES_MOST; rows++)
		names[n++] = rows->option.name;
	names[n] = NULL;
	return n;
}

/* What stands behind "there is no flag --x of train; ", from what other programs call things.
 * Fields help only where the verb reads a job. */
static bool flag_hint(const struct tw_args *a, const char *text, const char *next, char *out,
		      size_t room)
{
	const char *equals = strchr(text, '=');
	const struct tw_synonym *s;
	char name[80];

	if (text[1] != '-' || (a->verb && !find_in(a->verb->flags, "set", 3, false)))
		return false;
	snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
	s = tw_synonym_field(name);
	if (s && s->ours && *s->ours == '-' && a->verb &&
	    !find_in(a->verb->flags, s->ours + 2, strcspn(s->ours + 2, " "), false) &&
	    !find_in(tw_common_flags, s->ours + 2, strcspn(s->ours + 2, " "), false))
		return false;
	if (!equals && next && *next == '-' && (next[1] < '0' || next[1] > '9'))
		next = NULL;
	return tw_hint_setting(name, equals ? equals + 1 : next, out, room);
}

static enum tw_status no_such_flag(const struct tw_args *a, const char *text, const char *next,
				   struct tw_error *why)
{
	const char *names[NAMES_MOST], *near;
	const char *verb = a->verb ? a->verb->name : "";
	char wrong[80], hint[400];
	size_t n;

	n = names_of(tw_common_flags, names, 0);
	if (a->verb)
		names_of(a->verb->flags, names, n);
	snprintf(wrong, sizeof wrong, "%.*s", (int)strcspn(text, "="), text);
	near = tw_nearest(wrong + strspn(wrong, "-"), names);
	if (flag_hint(a, text, next, hint, sizeof hint))
		return tw_fail(why, TW_BAD_INPUT, "there is no flag %s%s%s; %s", wrong,
			       *verb ? " of " : "", verb, hint);
	if (near)
		return tw_fail(why, TW_BAD_INPUT, "there is no flag %s%s%s; did you mean --%s?",
			       wrong, *verb ? " of " : "", verb, near);
	return tw_fail(why, TW_BAD_INPUT,
		       "there is no flag %s%s%s; `thalweg%s%s --help` lists them", wrong,
		       *verb ? " of " : "", verb, *verb ? " " : "", verb);
}

static enum tw_status no_such_verb(const char *text, const char *next, struct tw_error *why)
{
	const char *names[NAMES_MOST], *near;
	char hint[500];
	size_t n = 0;

	for (; tw_verb_all[n] && n + 1 < NAMES_MOST; n++)
		names[n] = tw_verb_all[n]->name;
	names[n] = NULL;
	near = tw_nearest(text, names);
	if (tw_verb_hint(text, next, hint, sizeof hint))
		return tw_fail(why, TW_BAD_INPUT, "there is no verb %.120s; %s", text, hint);
	if (near)
		return tw_fail(why, TW_BAD_INPUT, "there is no verb %s; did you mean %s?", text,
			       near);
	return tw_fail(why, TW_BAD_INPUT, "there is no verb %s; `thalweg --help` lists them", text);
}

/* --- filling --- */

static enum tw_status append(struct tw_args *a, struct tw_texts *list, const char *text)
{
	if (!TW_GROW_IN(&a->arena, list->at, list->room, list->count, list->count + 1))
		return TW_NO_MEMORY;
	list->at[list->count++] = text;
	return TW_OK;
}

static enum tw_status fill(struct tw_args *a, const struct tw_flag *flag, void *base,
			   const char *value, struct tw_error *why)
{
	struct tw_error cause = { .status = TW_OK };
	enum tw_status status;

	if (flag->many)
		status = append(a, (struct tw_texts *)((char *)base + flag->option.offset), value);
	else
		status = tw_option_set(&flag->option, base, value, &a->arena, &cause);
	if (status == TW_NO_MEMORY)
		return tw_fail(why, status, "no memory for the command line");
	if (status != TW_OK)
		return tw_fail(why, TW_BAD_INPUT, "--%s", cause.text);
	return TW_OK;
}

static enum tw_status defaults(struct tw_args *a, const struct tw_flag *rows, void *base,
			       struct tw_error *why)
{
	for (; rows && rows->option.name; rows++)
		if (!rows->many && tw_option_set(&rows->option, base, rows->option.standard,
						 &a->arena, why) != TW_OK)
			return why->status;
	return TW_OK;
}

/* One argument that begins with a dash; *next is the value it may take, and NULL if it took it. */
static enum tw_status one_flag(struct tw_args *a, const char *text, const char **next,
			       struct tw_error *why)
{
	const bool brief = text[1] != '-';
	const char *name = text + (brief ? 1 : 2);
	const char *equals = brief ? NULL : strchr(name, '=');
	const size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct tw_flag *flag = find_in(tw_common_flags, name, len, brief);
	void *base = &a->common;
	const char *value;

	if (!flag && a->verb) {
		flag = find_in(a->verb->flags, name, len, brief);
		base = a->flags;
	}
	if (!flag)
		return no_such_flag(a, text, *next, why);
	if (flag->option.type == TW_BOOL && equals)
		return tw_fail(why, TW_BAD_INPUT, "--%s takes no value", flag->option.name);
	if (flag->option.type == TW_BOOL)
		return fill(a, flag, base, "true", why);
	value = equals ? equals + 1 : *next;
	if (!value)
		return tw_fail(why, TW_BAD_INPUT, "--%s needs a value: --%s %s", flag->option.name,
			       flag->option.name, flag->value);
	if (!equals)
		*next = NULL;
	return fill(a, flag, base, value, why);
}

static enum tw_status take_verb(struct tw_args *a, const char *text, const char *next,
				struct tw_error *why)
{
	a->verb = tw_verb_find(text);
	if (!a->verb)
		return no_such_verb(text, next, why);
	a->flags = tw_arena_get(&a->arena, a->verb->flags_bytes ? a->verb->flags_bytes : 1);
	if (!a->flags)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the command line");
	return defaults(a, a->verb->flags, a->flags, why);
}

static enum tw_status count_words(const struct tw_args *a, struct tw_error *why)
{
	const struct tw_verb *v = a->verb;

	if (!v || a->common.help || a->common.version)
		return TW_OK;
	if (a->words < v->least)
		return tw_fail(why, TW_BAD_INPUT, "%s needs %s: thalweg %s %s", v->name, v->words,
			       v->name, v->words);
	if (a->words > v->most)
		return tw_fail(why, TW_BAD_INPUT, "%s does not take '%s': thalweg %s %s", v->name,
			       a->word[v->most], v->name, v->words);
	return TW_OK;
}

enum tw_status tw_args_parse(struct tw_args *a, int argc, char *const *argv, struct tw_error *why)
{
	enum tw_status status;
	bool words_only = false;

	*a = (struct tw_args){ .verb = NULL };
	tw_arena_init(&a->arena, &tw_heap_system);
	a->word = tw_arena_get(&a->arena, ((size_t)argc + 1) * sizeof *a->word);
	if (!a->word)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the command line");
	status = defaults(a, tw_common_flags, &a->common, why);
	for (int i = 1; i < argc && status == TW_OK; i++) {
		const char *text = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
		const char *was = next;

		if (!words_only && strcmp(text, "--") == 0)
			words_only = true;
		else if (!words_only && text[0] == '-' && text[1])
			status = one_flag(a, text, &next, why);
		else if (!a->verb)
			status = take_verb(a, text, next, why);
		else
			a->word[a->words++] = text;
		if (was && !next)
			i++;
	}
	return status == TW_OK ? count_words(a, why) : status;
}

void tw_args_release(struct tw_args *a)
{
	tw_arena_release(&a->arena);
}
