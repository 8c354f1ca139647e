/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_tree.c - libyaml's events into a tree, with everything refused that a job file has no use
 * for. */
#include "spec/yaml_tree.h"

#include "base/printable.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

struct reader {
	struct tw_arena *keep;
	const struct tw_text_source *source;
	struct tw_error *why;
	const char *text;
	size_t bytes;
	yaml_parser_t yaml;
};

const char *tw_tree_show(const char *text, char *out, size_t room)
{
	return tw_show_in(text, strlen(text), out, room);
}

struct tw_tree *tw_tree_new(struct tw_arena *keep, enum tw_tree_kind kind, enum tw_origin origin,
			    const char *place, const char *text)
{
	struct tw_tree *node = tw_arena_get(keep, sizeof *node);

	if (!node)
		return NULL;
	node->kind = kind;
	node->origin = origin;
	node->place = place;
	node->key = "";
	node->text = text ? text : "";
	return node;
}

static void append(struct tw_tree *to, struct tw_tree *child)
{
	child->next = NULL;
	if (to->last)
		to->last->next = child;
	else
		to->first = child;
	to->last = child;
	to->count++;
}

struct tw_tree *tw_tree_child(const struct tw_tree *map, const char *key)
{
	if (!map || map->kind != TW_TREE_MAP)
		return NULL;
	for (struct tw_tree *c = map->first; c; c = c->next)
		if (strcmp(c->key, key) == 0)
			return c;
	return NULL;
}

struct tw_tree *tw_tree_at(const struct tw_tree *root, const char *path)
{
	struct tw_tree *node = NULL;
	char key[128];

	for (const char *p = path; p;) {
		const char *dot = strchr(p, '.');
		const size_t n = dot ? (size_t)(dot - p) : strlen(p);

		if (n >= sizeof key)
			return NULL;
		memcpy(key, p, n);
		key[n] = '\0';
		node = tw_tree_child(root, key);
		if (!node)
			return NULL;
		root = node;
		p = dot ? dot + 1 : NULL;
	}
	return node;
}

bool tw_tree_is_null(const struct tw_tree *node)
{
	return node->kind == TW_TREE_TEXT && !node->quoted &&
	       (node->text[0] == '\0' || strcmp(node->text, "null") == 0 ||
		strcmp(node->text, "~") == 0);
}

static void become(struct tw_tree *old, const struct tw_tree *node)
{
	struct tw_tree *next = old->next;
	const char *key = old->key;

	*old = *node;
	old->next = next;
	old->key = key;
}

enum tw_status tw_tree_put(struct tw_arena *keep, struct tw_tree *root, const char *path,
			   struct tw_tree *node, struct tw_error *why)
{
	char whole[200], *rest = NULL, *save = whole;

	if (snprintf(whole, sizeof whole, "%s", path) >= (int)sizeof whole)
		return tw_fail(why, TW_BAD_INPUT, "%s: does not name a field of a job file",
			       node->place);
	for (char *key = strtok_r(save, ".", &rest); key;) {
		char *after = strtok_r(NULL, ".", &rest);
		struct tw_tree *child = tw_tree_child(root, key);

		if (!child) {
			child = tw_tree_new(keep, TW_TREE_MAP, node->origin, node->place, NULL);
			if (!child || !(child->key = tw_arena_text(keep, key)))
				return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
			append(root, child);
		}
		if (!after) {
			become(child, node);
			return TW_OK;
		}
		if (tw_tree_is_null(child))
			child->kind = TW_TREE_MAP;
		if (child->kind != TW_TREE_MAP)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: %s is not a mapping at %s; set it as a whole: --set "
				       "'%s={...}'",
				       node->place, key, child->place, key);
		root = child;
		key = after;
	}
	return tw_fail(why, TW_BAD_INPUT, "%s: does not name a field of a job file", node->place);
}

struct tw_tree *tw_tree_copy(struct tw_arena *keep, const struct tw_tree *from)
{
	struct tw_tree *node = tw_tree_new(keep, from->kind, from->origin, from->place, from->text);

	if (node)
		node->key = from->key;
	for (const struct tw_tree *c = from->first; c && node; c = c->next) {
		struct tw_tree *child = tw_tree_copy(keep, c);

		if (!child)
			return NULL;
		if (node->last)
			node->last->next = child;
		else
			node->first = child;
		node->last = child;
		node->count++;
	}
	return node;
}

void tw_tree_fill(struct tw_tree *root, struct tw_tree *under)
{
	for (struct tw_tree *c = under->first, *next; c; c = next) {
		struct tw_tree *have = tw_tree_child(root, c->key);

		next = c->next;
		if (!have)
			append(root, c);
		else if (have->kind == TW_TREE_MAP && c->kind == TW_TREE_MAP)
			tw_tree_fill(have, c);
		else if (c->kind == TW_TREE_MAP && tw_tree_is_null(have))
			become(have, c);
	}
}

static enum tw_status no_memory(struct reader *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "no memory for %s", r->source->name);
}

static const char *place_of(struct reader *r, size_t line)
{
	char text[320];

	if (r->source->origin != TW_FROM_FILE)
		return r->source->name;
	snprintf(text, sizeof text, "%s:%zu", r->source->name, line + 1);
	return tw_arena_text(r->keep, text);
}

static enum tw_status refuse(struct reader *r, const yaml_event_t *e, const char *sentence)
{
	const char *place = place_of(r, e->start_mark.line);

	return tw_fail(r->why, TW_BAD_INPUT, "%s: %s", place ? place : r->source->name, sentence);
}

/* libyaml knows the line of what it parsed, but only the offset of bytes that are no characters. */
static size_t broken_line(const struct reader *r)
{
	const yaml_parser_t *y = &r->yaml;
	size_t line = 0;

	if (y->error != YAML_READER_ERROR)
		return y->problem_mark.line;
	for (size_t k = 0; k < r->bytes && k < y->problem_offset; k++)
		line += r->text[k] == '\n';
	return line;
}

static enum tw_status broken(struct reader *r)
{
	const yaml_parser_t *y = &r->yaml;
	const char *place = place_of(r, broken_line(r));

	if (y->error == YAML_MEMORY_ERROR)
		return no_memory(r);
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s: is not YAML: %s%s%s; write fields as 'name: value', indented by spaces",
		       place ? place : r->source->name, y->context ? y->context : "",
		       y->context ? ", " : "", y->problem ? y->problem : "it cannot be read");
}

static enum tw_status next_event(struct reader *r, yaml_event_t *e)
{
	if (!yaml_parser_parse(&r->yaml, e))
		return broken(r);
	return TW_OK;
}

static enum tw_status decorated(struct reader *r, const yaml_event_t *e, const yaml_char_t *anchor,
				const yaml_char_t *tag)
{
	if (anchor)
		return refuse(r, e,
			      "an anchor (&name) has no meaning in a job file; "
			      "write the value out");
	if (tag)
		return refuse(r, e, "a tag (!name) has no meaning in a job file; leave it out");
	return TW_OK;
}

static enum tw_status read_text(struct reader *r, const yaml_event_t *e, struct tw_tree **out)
{
	const char *text = (const char *)e->data.scalar.value;
	const char *place, *kept;
	enum tw_status st = decorated(r, e, e->data.scalar.anchor, e->data.scalar.tag);

	if (st != TW_OK)
		return st;
	if (strlen(text) != e->data.scalar.length)
		return refuse(r, e, "a value holds a zero byte; leave it out");
	if (e->data.scalar.length > TW_TREE_LETTER)
		return refuse(r, e, "a value is longer than 256 bytes, which no field takes");
	place = place_of(r, e->start_mark.line);
	kept = tw_arena_text(r->keep, text);
	if (!place || !kept)
		return no_memory(r);
	*out = tw_tree_new(r->keep, TW_TREE_TEXT, r->source->origin, place, kept);
	if (!*out)
		return no_memory(r);
	(*out)->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	return TW_OK;
}

static enum tw_status read_node(struct reader *r, yaml_event_t *e, unsigned depth,
				struct tw_tree **out);

static enum tw_status read_pair(struct reader *r, yaml_event_t *key, unsigned depth,
				struct tw_tree *map)
{
	struct tw_tree *name = NULL, *value = NULL;
	yaml_event_t e;
	enum tw_status st;
	char shown[80];

	if (key->type != YAML_SCALAR_EVENT)
		return refuse(r, key, "a field's name must be plain text");
	st = read_text(r, key, &name);
	if (st != TW_OK)
		return st;
	if (tw_tree_child(map, name->text))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: %s: is given twice, first at %s; "
			       "leave one of them out",
			       name->place, tw_tree_show(name->text, shown, sizeof shown),
			       tw_tree_child(map, name->text)->place);
	if (map->count >= TW_TREE_KEYS)
		return refuse(r, key,
			      "more than 128 fields in one mapping; no section has so many");
	st = next_event(r, &e);
	if (st != TW_OK)
		return st;
	st = read_node(r, &e, depth, &value);
	yaml_event_delete(&e);
	if (st != TW_OK)
		return st;
	value->key = name->text;
	append(map, value);
	return TW_OK;
}

static enum tw_status read_children(struct reader *r, unsigned depth, struct tw_tree *node)
{
	for (;;) {
		struct tw_tree *child = NULL;
		yaml_event_t e;
		enum tw_status st = next_event(r, &e);

		if (st != TW_OK)
			return st;
		if (e.type == YAML_MAPPING_END_EVENT || e.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&e);
			return TW_OK;
		}
		if (node->kind == TW_TREE_MAP) {
			st = read_pair(r, &e, depth, node);
		} else {
			st = read_node(r, &e, depth, &child);
			if (st == TW_OK)
				append(node, child);
		}
		yaml_event_delete(&e);
		if (st != TW_OK)
			return st;
	}
}

static enum tw_status read_node(struct reader *r, yaml_event_t *e, unsigned depth,
				struct tw_tree **out)
{
	const bool map = e->type == YAML_MAPPING_START_EVENT;
	const char *place;
	enum tw_status st;

	if (e->type == YAML_SCALAR_EVENT)
		return read_text(r, e, out);
	if (e->type == YAML_ALIAS_EVENT)
		return refuse(r, e,
			      "an alias (*name) has no meaning in a job file; "
			      "write the value out");
	if (depth >= TW_TREE_DEPTH)
		return refuse(r, e,
			      "mappings and lists are nested deeper than 8, "
			      "which no field needs");
	st = map ? decorated(r, e, e->data.mapping_start.anchor, e->data.mapping_start.tag)
		 : decorated(r, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
	if (st != TW_OK)
		return st;
	place = place_of(r, e->start_mark.line);
	*out = place ? tw_tree_new(r->keep, map ? TW_TREE_MAP : TW_TREE_LIST, r->source->origin,
				   place, NULL)
		     : NULL;
	if (!*out)
		return no_memory(r);
	return read_children(r, depth + 1, *out);
}

/* STREAM-START DOCUMENT-START node DOCUMENT-END STREAM-END, and nothing else. */
static enum tw_status read_document(struct reader *r, struct tw_tree **out)
{
	struct tw_tree *root = NULL;

	for (;;) {
		yaml_event_t e;
		enum tw_status st = next_event(r, &e);
		const yaml_event_type_t type = st == TW_OK ? e.type : YAML_NO_EVENT;

		if (st != TW_OK)
			return st;
		if (type == YAML_DOCUMENT_START_EVENT && root)
			st = refuse(r, &e, "a second document begins; a job file holds one");
		else if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT &&
			 type != YAML_DOCUMENT_END_EVENT && type != YAML_STREAM_END_EVENT)
			st = read_node(r, &e, 0, &root);
		yaml_event_delete(&e);
		if (st != TW_OK)
			return st;
		if (type == YAML_STREAM_END_EVENT)
			break;
	}
	*out = root;
	return TW_OK;
}

enum tw_status tw_tree_read(struct tw_arena *keep, const struct tw_text_source *source,
			    const char *text, size_t bytes, struct tw_tree **out,
			    struct tw_error *why)
{
	struct reader r = {
		.keep = keep, .source = source, .why = why, .text = text, .bytes = bytes
	};
	struct tw_tree *root = NULL;
	enum tw_status st;

	if (!yaml_parser_initialize(&r.yaml))
		return no_memory(&r);
	yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, bytes);
	st = read_document(&r, &root);
	yaml_parser_delete(&r.yaml);
	if (st == TW_OK && !root)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: is empty; a job needs at least data: and model:", source->name);
	if (st == TW_OK)
		*out = root;
	return st;
}
