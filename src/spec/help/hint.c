/* SPDX-License-Identifier: Apache-2.0 */
/* hint.c - from what people type first to the field that they mean. */
#include "spec/help/hint.h"

#include "spec/field.h"
#include "spec/read.h"
#include "spec/registries.h"
#include "spec/help/synonyms.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define TABLE "instead write the table as CSV, and a job with `data: {source: csv, file: FILE}`"
#define ALIEN                                                                                      \
	"is a model of another program, not a job; instead save its weights as safetensors, and "  \
	"name these in a job: `model: {name: mlp, weights: FILE}`"
#define IMAGE                                                                                      \
	"is an image, not a job; put the images of each class into a folder of their own, and "    \
	"write a job with `data: {source: images, path: FOLDER}`, where FOLDER has these folders"
#define SCRIPT "is a program, not a job; a job is a YAML file: `thalweg help` shows its sections"

const struct tw_other_file tw_other_files[] = {
	{ ".parquet", "Parquet is not supported; " TABLE },
	{ ".feather", "Arrow is not supported; " TABLE },
	{ ".arrow", "Arrow is not supported; " TABLE },
	{ ".xlsx", "spreadsheets are not supported; " TABLE },
	{ ".xls", "spreadsheets are not supported; " TABLE },
	{ ".npz", "archives of arrays are not supported; instead save each array with numpy.save, "
		  "and write "
		  "a job with `data: {source: npy, x: FILE, y: FILE}`" },
	{ ".png", IMAGE },
	{ ".jpg", IMAGE },
	{ ".jpeg", IMAGE },
	{ ".safetensors",
	  "is a model, not a job; `thalweg predict FILE --data FILE` uses it, and a job trains "
	  "from it: `model: {name: mlp, weights: FILE}`" },
	{ ".pt", ALIEN },
	{ ".pth", ALIEN },
	{ ".onnx", ALIEN },
	{ ".h5", ALIEN },
	{ ".keras", ALIEN },
	{ ".py", SCRIPT },
	{ ".ipynb", SCRIPT },
	{ NULL },
};

/* --- fields --- */

/* Sections whose value may be a name, and the field that takes it. */
static const char *const named[][2] = {
	{ "data", "data.source" },  { "model", "model" },         { "loss", "loss" },
	{ "strategy", "strategy" }, { "optimiser", "optimiser" },
};

static size_t dots(const char *path)
{
	size_t n = 0;

	for (; *path; path++)
		n += *path == '.';
	return n;
}

/* The first field whose last word this is, of those with the shortest path. */
static bool namesake(const char *word, char *path)
{
	for (struct tw_row_walk w = { .row = NULL }; tw_row_next(&w);)
		if (strcmp(tw_path_last(w.row->name), word) == 0 &&
		    (!*path || dots(w.path) < dots(path)))
			strcpy(path, w.path);
	return *path != 0;
}

/* The path of the field that a word means, and in *s the synonym that says so; NULL: it is the
 * field's own name.  Where the synonym is no field, the path is "". */
static bool field_of(const char *word, char *path, const struct tw_synonym **s)
{
	char plain[80];

	*path = 0;
	*s = tw_synonym_field(word);
	if (*s && (!(*s)->ours || *(*s)->ours == '-'))
		return true;
	tw_synonym_plain(word, plain, sizeof plain);
	for (size_t k = 0; !*s && k < sizeof named / sizeof named[0]; k++)
		if (strcmp(named[k][0], plain) == 0) {
			snprintf(path, TW_PATH_ROOM, "%s", named[k][1]);
			return true;
		}
	if (*s)
		snprintf(path, TW_PATH_ROOM, "%s", (*s)->ours);
	return *path || namesake(plain, path);
}

/* --- values --- */

static bool takes(const struct tw_option *row, const char *value)
{
	struct tw_option alone = *row;
	struct tw_error why = { 0 };
	struct tw_arena keep;
	double place[8];
	bool yes;

	alone.offset = 0;
	tw_arena_init(&keep, &tw_heap_system);
	yes = tw_field_set(&alone, place, value, &keep, &why) == TW_OK;
	tw_arena_release(&keep);
	return yes;
}

/* What the field would take: the value where it does, in any case of letters, another program's
 * name for one that it takes, the nearest name, or an example. */
static void value_for(const char *path, const char *value, char *out, size_t room)
{
	const struct tw_synonym *s = value ? tw_synonym_value(path, value) : NULL;
	const struct tw_option *row = tw_row_at(path);
	struct tw_name_list names = { .count = 0 };
	char text[TW_PATH_ROOM + 8];
	const char *name, *help;

	snprintf(text, sizeof text, "%s.name", path);
	if (!row)
		row = tw_row_at(text);
	if (s)
		value = strstr(s->ours, ": ") + 2;
	for (size_t k = 0; (name = tw_name_at(path, k, &help)); k++)
		tw_names_add(&names, name);
	names.at[names.count] = NULL;
	for (size_t k = 0; value && k < names.count; k++)
		if (strcasecmp(names.at[k], value) == 0) {
			snprintf(out, room, "%s", names.at[k]);
			return;
		}
	if (names.count && value && tw_nearest(value, names.at))
		snprintf(out, room, "%s", tw_nearest(value, names.at));
	else if (!names.count && value && row && takes(row, value))
		snprintf(out, room, "%s", value);
	else if (names.count && !(row && (row->example || tw_names_have(&names, row->standard))))
		snprintf(out, room, "%s", names.at[0]);
	else if (row)
		tw_option_example(row, out, room);
}

/* --- files --- */

/* Does the name end so, in any case of letters and gzipped or not? */
static bool ends(const char *path, const char *suffix)
{
	const size_t n = strlen(path), k = strlen(suffix);
	const size_t gz = n > 3 && strcasecmp(path + n - 3, ".gz") == 0 ? 3 : 0;

	return n - gz > k && strncasecmp(path + n - gz - k, suffix, k) == 0;
}

/* "data: {source: csv, file: x.csv}": the file in the first field that must be given. */
static void job_for(const struct tw_source *source, const struct tw_source_file *file,
		    const char *path, char *out, size_t room)
{
	size_t n = (size_t)snprintf(out, room, "data: {source: %s", source->name);
	const char *value = path;

	for (const struct tw_option *row = source->options; row && row->name && n < room; row++) {
		if (row->standard)
			continue;
		n += (size_t)snprintf(out + n, room - n, ", %s: %.120s", row->name, value);
		value = "FILE";
	}
	if (n < room && file->also)
		n += (size_t)snprintf(out + n, room - n, ", %s", file->also);
	if (n < room)
		snprintf(out + n, room - n, "}");
}

/* The same for a file whose name tells which source reads it; false: it does not. */
static bool data_section(const char *path, char *out, size_t room)
{
	for (size_t k = 0; tw_source_all[k]; k++)
		for (const struct tw_source_file *f = tw_source_all[k]->files; f && f->suffix; f++)
			if (ends(path, f->suffix)) {
				job_for(tw_source_all[k], f, path, out, room);
				return true;
			}
	return false;
}

/* The source that reads such files; NULL: none is known. */
static const struct tw_source *reader_of(const char *path)
{
	for (size_t k = 0; tw_source_all[k]; k++)
		for (const struct tw_source_file *f = tw_source_all[k]->files; f && f->suffix; f++)
			if (ends(path, f->suffix))
				return tw_source_all[k];
	return NULL;
}

bool tw_hint_file(const char *path, char *out, size_t room)
{
	char fields[300];

	if (reader_of(path) && reader_of(path)->models) {
		snprintf(out, room,
			 "is a file of data, not a job; `thalweg init %.120s --label COLUMN` "
			 "writes a job that predicts that column",
			 path);
		return true;
	}
	if (data_section(path, fields, sizeof fields)) {
		snprintf(out, room,
			 "is a file of data, not a job; write a job with `%s` and a model such as "
			 "`model: mlp`, and train that",
			 fields);
		return true;
	}
	for (const struct tw_other_file *o = tw_other_files; o->suffix; o++)
		if (ends(path, o->suffix)) {
			snprintf(out, room, "%s", o->says);
			return true;
		}
	return false;
}

/* --- flags and variables --- */

/* "the directory of a run is --run x", or the note alone. */
static void say(const struct tw_synonym *s, const char *value, char *out, size_t room)
{
	const size_t n = s->ours ? strcspn(s->ours, " ") : 0;

	if (!s->ours)
		snprintf(out, room, "%s", s->note);
	else if (s->ours[n] && value)
		snprintf(out, room, "%s is %.*s %.80s", s->note, (int)n, s->ours, value);
	else
		snprintf(out, room, "%s is %s", s->note, s->ours);
}

bool tw_hint_setting(const char *word, const char *value, char *out, size_t room)
{
	char path[TW_PATH_ROOM], text[300] = "VALUE";
	const struct tw_synonym *s;
	const char *quote;

	if (!field_of(word, path, &s))
		return false;
	if (!*path) {
		say(s, value, out, room);
		return true;
	}
	if (value && strncmp(path, "data.", 5) == 0 && data_section(value, text, sizeof text)) {
		snprintf(out, room, "name the file in the job: `%s`", text);
		return true;
	}
	value_for(path, value, text, sizeof text);
	quote = strpbrk(text, " []{}'\"$&;|<>()*?!#~`\\") ? "'" : "";
	snprintf(out, room, "%s%s --set %s%s=%s%s", s ? s->note : "use", s ? " is" : "", quote,
		 path, text, quote);
	return true;
}

void tw_hint_capitals(const char *path, char *out, size_t room)
{
	size_t n = 0;

	for (; *path && n + 1 < room; path++)
		out[n++] =
			isalnum((unsigned char)*path) ? (char)toupper((unsigned char)*path) : '_';
	out[n] = '\0';
}

/* The longest end of the name that means something: UPDATE_LR is LR. */
bool tw_hint_variable(const char *name, char *out, size_t room)
{
	char path[TW_PATH_ROOM], capitals[TW_PATH_ROOM];
	const struct tw_synonym *s;

	for (const char *word = name; word; word = strchr(word, '_')) {
		word += *word == '_';
		if (!*word || !field_of(word, path, &s))
			continue;
		tw_hint_capitals(path, capitals, sizeof capitals);
		if (!*path)
			say(s, NULL, out, room);
		else if (s)
			snprintf(out, room, "%s is THALWEG_%s", s->note, capitals);
		else
			snprintf(out, room, "did you mean THALWEG_%s?", capitals);
		return true;
	}
	return false;
}
