/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_tree.h - YAML as a small tree that remembers where each value was written.
 *
 * Only what a job file needs: mappings, lists and plain values.  Anchors, aliases, tags and a
 * second document are refused.  Nodes live in the arena they were made in. */
#ifndef TW_SPEC_YAML_TREE_H
#define TW_SPEC_YAML_TREE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

#define TW_TREE_DEPTH  12  /* mappings and lists inside each other */
#define TW_TREE_KEYS   128 /* fields of one mapping */
#define TW_TREE_LETTER 256 /* bytes of one value */

enum tw_tree_kind { TW_TREE_TEXT, TW_TREE_MAP, TW_TREE_LIST };

/* Who gave a value; a later one wins. */
enum tw_origin { TW_FROM_PRESET, TW_FROM_FILE, TW_FROM_ENVIRONMENT, TW_FROM_FLAG };

struct tw_tree {
	enum tw_tree_kind kind;
	enum tw_origin origin;
	bool quoted;       /* TEXT: '' or "" around it */
	const char *place; /* "job.yaml:3", "--set a.b=c", "THALWEG_A_B": how errors begin */
	const char *key;   /* inside a mapping; "" elsewhere */
	const char *text;  /* TEXT */
	struct tw_tree *first, *last, *next;
	size_t count; /* children */
};

/* What is being read: errors call it `name`, and number its lines when it is a file; every node
 * of another origin has `name` itself as its place. */
struct tw_text_source {
	const char *name;
	enum tw_origin origin;
};

/* Read one document.  TW_BAD_INPUT with one sentence, or TW_NO_MEMORY. */
enum tw_status tw_tree_read(struct tw_arena *keep, const struct tw_text_source *source,
			    const char *text, size_t bytes, struct tw_tree **out,
			    struct tw_error *why);
/* A node of its own; NULL without memory. */
struct tw_tree *tw_tree_new(struct tw_arena *keep, enum tw_tree_kind kind, enum tw_origin origin,
			    const char *place, const char *text);
/* The child of a mapping with that key, or NULL (also if it is not a mapping). */
struct tw_tree *tw_tree_child(const struct tw_tree *map, const char *key);
/* The node at "a.b.c" below `root`, or NULL. */
struct tw_tree *tw_tree_at(const struct tw_tree *root, const char *path);
/* Put `node` at `path` below the mapping `root`, replacing what is there and making mappings on
 * the way; TW_BAD_INPUT if the path leads through something that is not a mapping. */
enum tw_status tw_tree_put(struct tw_arena *keep, struct tw_tree *root, const char *path,
			   struct tw_tree *node, struct tw_error *why);
/* A copy of the node with all below it, of the same origin and place; NULL without memory.  `from`
 * must stay: the copy has its texts. */
struct tw_tree *tw_tree_copy(struct tw_arena *keep, const struct tw_tree *from);
/* Add from `under` whatever `root` does not have; `under` is used up. */
void tw_tree_fill(struct tw_tree *root, struct tw_tree *under);
/* An empty unquoted value, which YAML calls null: `sim:` with nothing behind it. */
bool tw_tree_is_null(const struct tw_tree *node);
/* `text` as it may stand in a sentence: one line, no control characters, not long. */
const char *tw_tree_show(const char *text, char *out, size_t room);

#endif
