/* SPDX-License-Identifier: Apache-2.0 */
/* compare_section.c - the mappings of the section compare: what is varied, tuned and compared. */
#include "spec/read.h"

#include <stdio.h>
#include <string.h>

static enum tw_status refuse(struct tw_reading *r, const struct tw_tree *node, const char *path,
			     const char *reason)
{
	char whole[TW_PATH_ROOM], shown[100];

	snprintf(whole, sizeof whole, "compare.%s", tw_tree_show(path, shown, sizeof shown));
	return tw_read_refuse(r, node, whole, reason);
}

/* `vary: {strategy: [ssgd, asgd], cluster.workers: [1, 2]}`, `tune: {update.rate: grid}`. */
static enum tw_status check_values(struct tw_reading *r, const char *name,
				   const struct tw_tree **out)
{
	const struct tw_tree *map = tw_tree_child(tw_tree_child(r->root, "compare"), name);
	char path[TW_PATH_ROOM];

	if (!map)
		return TW_OK;
	if (map->kind != TW_TREE_MAP)
		return refuse(r, map, name,
			      "needs a mapping of fields to lists of values, such as "
			      "{update.rate: [0.01, 0.1]}");
	for (const struct tw_tree *c = map->first; c; c = c->next) {
		const bool grid = strcmp(name, "tune") == 0 && c->kind == TW_TREE_TEXT &&
				  strcmp(c->text, "grid") == 0;

		snprintf(path, sizeof path, "%s.%.100s", name, c->key);
		if (!grid && (c->kind != TW_TREE_LIST || !c->first))
			return refuse(r, c, path, "needs a list of values, such as [1, 2, 4]");
		if (strncmp(c->key, "compare", 7) == 0 || strcmp(c->key, "train.seed") == 0)
			return refuse(r, c, path,
				      "cannot be varied: compare.seeds says how many seeds there "
				      "are, and the rest of compare holds for all runs");
	}
	*out = map;
	return TW_OK;
}

/* `methods: {plain: {strategy: asgd}, late: {strategy: asgd, sim.delay.steps: 20}}`. */
static enum tw_status check_methods(struct tw_reading *r, const struct tw_tree **out)
{
	const struct tw_tree *map = tw_tree_child(tw_tree_child(r->root, "compare"), "methods");
	char path[TW_PATH_ROOM];

	if (!map)
		return TW_OK;
	if (map->kind != TW_TREE_MAP)
		return refuse(r, map, "methods",
			      "needs a mapping of names to fields, such as {late: {strategy: "
			      "asgd, sim.delay.steps: 20}}");
	for (const struct tw_tree *c = map->first; c; c = c->next) {
		snprintf(path, sizeof path, "methods.%.100s", c->key);
		if (c->kind != TW_TREE_MAP && !tw_tree_is_null(c))
			return refuse(r, c, path,
				      "needs a mapping of the fields that differ from the job, "
				      "such as {strategy: asgd, cluster.workers: 8}");
	}
	*out = map;
	return TW_OK;
}

enum tw_status tw_read_compare(struct tw_reading *r)
{
	struct tw_job_compare *c = &r->job->compare;
	enum tw_status st = check_values(r, "vary", &c->vary);

	c->given = tw_tree_child(r->root, "compare");
	if (st == TW_OK)
		st = check_values(r, "tune", &c->tune);
	return st == TW_OK ? check_methods(r, &c->methods) : st;
}
