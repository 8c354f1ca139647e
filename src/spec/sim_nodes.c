/* SPDX-License-Identifier: Apache-2.0 */
/* sim_nodes.c - sim.nodes: a list of the machines that compute, where they are not all alike. */
#include "spec/field.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MACHINES_MOST 1000000
#define EXAMPLE       "{speed: 0.5, bandwidth: 1Gbit/s, count: 2}"

/* One entry: so many machines in a row. */
struct entry {
	double speed, bandwidth;
	uint64_t memory;
	int64_t latency;
	const char *group;
	uint32_t count;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct entry, speed, TW_F64, "1", NULL, 1e-6, 1e6,
		  "how fast it computes; 1 takes the times of sim.compute"),
	TW_OPTION(struct entry, memory, TW_SIZE, "0B", NULL, 0, 0, "its memory; 0B: any"),
	TW_OPTION(struct entry, bandwidth, TW_BITS, NULL, NULL, 0, 1e18,
		  "of its network card, in each direction"),
	TW_OPTION(struct entry, latency, TW_TIME, NULL, NULL, 0, 3.2e16, "one way"),
	TW_OPTION(struct entry, group, TW_TEXT, "", NULL, 0, 0,
		  "machines of one group share a link to all others"),
	TW_OPTION(struct entry, count, TW_U32, "1", NULL, 1, MACHINES_MOST,
		  "how many such machines"),
	TW_OPTION_END
};

struct reading {
	struct tw_job *job;
	const struct tw_tree *node;
	size_t number;
	const char **group;
	struct tw_error *why;
};

static enum tw_status refuse(const struct reading *r, const struct tw_tree *at, const char *key,
			     const char *reason)
{
	char shown[60];

	return tw_fail(r->why, TW_BAD_INPUT, "%.300s: sim.nodes[%zu]%s%s: %s",
		       at ? at->place : r->node->place, r->number, *key ? "." : "",
		       tw_tree_show(key, shown, sizeof shown), reason);
}

static enum tw_status value(const struct reading *r, const struct tw_tree *at, struct entry *e)
{
	const struct tw_option *row = tw_option_find(rows, at->key);
	const char *names[sizeof rows / sizeof rows[0] + 1] = { NULL }, *near;
	struct tw_error said = { 0 };
	char reason[300];
	size_t k;

	for (k = 0; rows[k].name; k++)
		names[k] = rows[k].name;
	near = tw_nearest(at->key, names);
	if (!row) {
		snprintf(reason, sizeof reason,
			 "a node has speed, memory, bandwidth, latency, group and count, as in "
			 "%s%s%s%s",
			 EXAMPLE, near ? "; did you mean '" : "", near ? near : "",
			 near ? "'?" : "");
		return refuse(r, at, at->key, reason);
	}
	if (at->kind != TW_TREE_TEXT)
		return refuse(r, at, at->key, "needs a single value");
	if (tw_field_set(row, e, at->text, &r->job->arena, &said) != TW_OK)
		return refuse(r, at, at->key, said.text);
	return TW_OK;
}

/* The number of a group, from 1; its name is kept. */
static uint32_t group_of(struct reading *r, const char *name)
{
	struct tw_machines *m = &r->job->sim.machines;
	uint32_t k = 0;

	if (!*name)
		return 0;
	while (k < m->groups && strcmp(r->group[k], name) != 0)
		k++;
	if (k == m->groups)
		r->group[m->groups++] = name;
	return k + 1;
}

static enum tw_status read_one(struct reading *r, struct entry *e)
{
	const struct tw_sim_options *o = &r->job->sim;
	enum tw_status st = TW_OK;

	*e = (struct entry){ .speed = 1,
			     .bandwidth = o->bandwidth,
			     .latency = o->latency,
			     .group = "",
			     .count = 1 };
	if (r->node->kind != TW_TREE_MAP)
		return refuse(r, NULL, "", "needs a mapping such as " EXAMPLE);
	for (const struct tw_tree *c = r->node->first; c && st == TW_OK; c = c->next)
		st = value(r, c, e);
	return st;
}

/* Whoever plans a job lists more machines than it uses as it is. */
static enum tw_status check_count(const struct tw_job *job, const struct tw_tree *list,
				  struct tw_error *why)
{
	const uint64_t nodes = (uint64_t)job->cluster.workers * tw_plan_cells(&job->plan);

	if (job->planned || job->sim.machines.count == nodes)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: sim.nodes: has %u nodes, and %" PRIu64
		       " compute in this job (%u worker%s of %u); use as many, or let `thalweg "
		       "plan JOB --stages auto` choose",
		       list->place, job->sim.machines.count, nodes, job->cluster.workers,
		       job->cluster.workers == 1 ? "" : "s", tw_plan_cells(&job->plan));
}

static enum tw_status read_all(struct reading *r, const struct tw_tree *list, struct entry *entry)
{
	struct tw_machines *m = &r->job->sim.machines;
	struct tw_machine *at;
	uint64_t count = 0;

	for (r->node = list->first; r->node; r->node = r->node->next, r->number++) {
		if (read_one(r, &entry[r->number]) != TW_OK)
			return r->why->status;
		count += entry[r->number].count;
	}
	if (count > MACHINES_MOST)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: sim.nodes: %" PRIu64 " nodes are too many; use at most %d",
			       list->place, count, MACHINES_MOST);
	m->at = at = tw_arena_get(&r->job->arena, count * sizeof *at);
	if (!at)
		return tw_fail(r->why, TW_NO_MEMORY, "no memory for sim.nodes");
	for (size_t k = 0; k < r->number; k++) {
		const struct entry *e = &entry[k];
		const struct tw_machine one = { e->speed, e->memory, e->bandwidth, e->latency,
						group_of(r, e->group) };

		for (uint32_t i = 0; i < e->count; i++)
			at[m->count++] = one;
	}
	m->group = r->group;
	tw_job_field(r->job, "sim.groups.bandwidth")->silent = !m->groups;
	tw_job_field(r->job, "sim.groups.latency")->silent = !m->groups;
	return check_count(r->job, list, r->why);
}

enum tw_status tw_job_read_nodes(struct tw_job *job, const struct tw_tree *list,
				 struct tw_error *why)
{
	struct reading r = { .job = job, .why = why };
	struct entry *entry;

	tw_job_field(job, "sim.groups.bandwidth")->silent = true;
	tw_job_field(job, "sim.groups.latency")->silent = true;
	if (!list || tw_tree_is_null(list) || (list->kind == TW_TREE_LIST && !list->count))
		return TW_OK;
	if (list->kind != TW_TREE_LIST)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: sim.nodes: needs a list such as [" EXAMPLE ", {count: 2}]",
			       list->place);
	entry = tw_arena_get(&job->arena, list->count * sizeof *entry);
	r.group = tw_arena_get(&job->arena, list->count * sizeof *r.group);
	if (!entry || !r.group)
		return tw_fail(why, TW_NO_MEMORY, "no memory for sim.nodes");
	return read_all(&r, list, entry);
}

static bool alike(const struct tw_machine *a, const struct tw_machine *b)
{
	return a->speed == b->speed && a->memory == b->memory && a->bandwidth == b->bandwidth &&
	       a->latency == b->latency && a->group == b->group;
}

uint32_t tw_machines_text(const struct tw_machines *m, uint32_t first, char *out, size_t room)
{
	const struct tw_machine *one = &m->at[first];
	const struct entry e = { .speed = one->speed,
				 .bandwidth = one->bandwidth,
				 .memory = one->memory,
				 .latency = one->latency };
	char text[4][40];
	uint32_t last = first + 1;

	while (last < m->count && alike(&m->at[last], one))
		last++;
	for (size_t k = 0; k < 4; k++)
		tw_option_text(&rows[k], &e, text[k], sizeof text[k]);
	snprintf(out, room, "{speed: %s, memory: %s, bandwidth: %s, latency: %s%s%s, count: %u}",
		 text[0], text[1], text[2], text[3], one->group ? ", group: " : "",
		 one->group ? m->group[one->group - 1] : "", last - first);
	return last;
}
