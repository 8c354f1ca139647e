/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - a job as YAML with everything spelled out, and the hash of what must stay. */
#include "spec/field.h"

#include <stdlib.h>
#include <string.h>

/* A text that YAML would read as something else than itself needs quotes; lists do not. */
static bool is_plain(const char *text)
{
	return *text && !strpbrk(text, ":#'\"&*!|>%@`{}\n\t") && !strchr("-? ,]", text[0]) &&
	       text[strlen(text) - 1] != ' ';
}

static void print_text(FILE *out, const char *text)
{
	const bool number = text[0] == '-' && text[1] >= '.' && text[1] <= '9';

	if (is_plain(text) || text[0] == '{' || number) {
		fprintf(out, "%s", text);
		return;
	}
	fputc('\'', out);
	for (; *text; text++)
		fprintf(out, *text == '\'' ? "''" : "%c", *text);
	fputc('\'', out);
}

/* A list's mappings and lists begin on lines of their own. */
static void print_tree(FILE *out, const struct tw_tree *map, int depth)
{
	for (const struct tw_tree *c = map->first; c; c = c->next) {
		if (map->kind == TW_TREE_LIST)
			fprintf(out, "%*s-%s", depth * 2, "", c->kind == TW_TREE_TEXT ? " " : "\n");
		else
			fprintf(out, "%*s%s:%s", depth * 2, "", c->key,
				c->kind == TW_TREE_TEXT ? " " : "\n");
		if (c->kind == TW_TREE_TEXT) {
			print_text(out, c->text);
			fprintf(out, "\n");
		} else {
			print_tree(out, c, depth + 1);
		}
	}
}

static bool put(struct tw_arena *keep, struct tw_tree *root, const char *path, const char *text)
{
	struct tw_tree *node =
		text ? tw_tree_new(keep, TW_TREE_TEXT, TW_FROM_FILE, "", text) : NULL;

	return node && tw_tree_put(keep, root, path, node, NULL) == TW_OK;
}

static bool append(struct tw_arena *keep, struct tw_tree *list, const char *text)
{
	const char *kept = tw_arena_text(keep, text);
	struct tw_tree *entry =
		kept ? tw_tree_new(keep, TW_TREE_TEXT, TW_FROM_FILE, "", kept) : NULL;

	if (!entry)
		return false;
	if (list->last)
		list->last->next = entry;
	else
		list->first = entry;
	list->last = entry;
	return true;
}

static bool put_faults(struct tw_arena *keep, struct tw_tree *root, const struct tw_job *job)
{
	struct tw_tree *list = tw_tree_new(keep, TW_TREE_LIST, TW_FROM_FILE, "", NULL);
	bool good = list;

	for (size_t k = 0; good && k < job->faults; k++) {
		char text[200];

		tw_fault_text(job, &job->fault[k], text, sizeof text);
		good = append(keep, list, text);
	}
	return good && tw_tree_put(keep, root, "sim.faults", list, NULL) == TW_OK;
}

static bool put_nodes(struct tw_arena *keep, struct tw_tree *root, const struct tw_job *job)
{
	struct tw_tree *list = tw_tree_new(keep, TW_TREE_LIST, TW_FROM_FILE, "", NULL);
	bool good = list;

	for (uint32_t k = 0; good && k < job->sim.machines.count;) {
		char text[TW_MACHINE_TEXT];

		k = tw_machines_text(&job->sim.machines, k, text, sizeof text);
		good = append(keep, list, text);
	}
	return good && tw_tree_put(keep, root, "sim.nodes", list, NULL) == TW_OK;
}

static bool put_layers(struct tw_arena *keep, struct tw_tree *root, const struct tw_job *job)
{
	struct tw_tree *list = tw_tree_copy(keep, job->network.tree);

	return list && tw_tree_put(keep, root, "model.layers", list, NULL) == TW_OK;
}

static bool told(const struct tw_job *job, const struct tw_field *f, bool lasting)
{
	if (f->silent || (lasting && tw_field_may_change(job, f->path)))
		return false;
	if (strncmp(f->path, "compare.", 8) == 0)
		return false; /* what a run is compared with is no part of the run */
	if (job->world != TW_WORLD_SIM && strncmp(f->path, "sim.", 4) == 0)
		return false;
	return strcmp(f->path, "strategy.name") != 0 || *job->strategy.name;
}

/* `lasting`: only what must be the same when a run resumes. */
static bool write_job(const struct tw_job *job, FILE *out, bool lasting)
{
	struct tw_arena keep;
	struct tw_tree *root;
	bool good;

	tw_arena_init(&keep, &tw_heap_system);
	root = tw_tree_new(&keep, TW_TREE_MAP, TW_FROM_FILE, "", NULL);
	good = root;
	for (size_t k = 0; good && k < job->fields; k++)
		if (told(job, &job->field[k], lasting))
			good = put(&keep, root, job->field[k].path,
				   tw_field_text(job->field[k].row, job->field[k].base, &keep));
	if (good && job->network.tree)
		good = put_layers(&keep, root, job);
	if (good && job->faults && job->world == TW_WORLD_SIM)
		good = put_faults(&keep, root, job);
	if (good && job->sim.machines.count && job->world == TW_WORLD_SIM)
		good = put_nodes(&keep, root, job);
	if (good)
		print_tree(out, root, 0);
	tw_arena_release(&keep);
	return good;
}

void tw_job_explain(const struct tw_job *job, FILE *out)
{
	if (!write_job(job, out, false))
		fprintf(out, "# no memory to explain the job\n");
}

static enum tw_status text_of(const struct tw_job *job, bool hashed, char **text, size_t *bytes)
{
	FILE *f = open_memstream(text, bytes);
	const bool good = f && write_job(job, f, hashed) && !ferror(f);

	if (f && fclose(f) == 0 && good)
		return TW_OK;
	if (f)
		free(*text);
	*text = NULL;
	return TW_NO_MEMORY;
}

enum tw_status tw_job_text(const struct tw_job *job, char **text, size_t *bytes)
{
	return text_of(job, false, text, bytes);
}

enum tw_status tw_job_hash(const struct tw_job *job, struct tw_sha *out)
{
	char *text;
	size_t bytes;
	enum tw_status status = text_of(job, true, &text, &bytes);

	if (status == TW_OK)
		status = tw_sha_of(text, bytes, out);
	free(text);
	return status;
}
