/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c - sim.faults: a list of what goes wrong, where and when. */
#include "spec/field.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The plain values of one entry, besides the nodes. */
struct values {
	int64_t at, restart, lasts;
	uint64_t event;
	double factor;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct values, at, TW_TIME, NULL, NULL, 0, 3.2e18, "when it happens"),
	TW_OPTION(struct values, restart, TW_TIME, NULL, NULL, 0, 3.2e18,
		  "time until the node restarts"),
	TW_OPTION(struct values, lasts, TW_TIME, NULL, NULL, 1, 3.2e18, "how long it lasts"),
	TW_OPTION(struct values, event, TW_U64, NULL, NULL, 1, 1e18,
		  "number of the event of the run at which it happens"),
	TW_OPTION(struct values, factor, TW_F64, NULL, NULL, 1, 1e9, "how many times slower"),
	TW_OPTION_END
};

/* What an entry of each kind looks like; `other` names the second node's key. */
static const struct kind {
	const char *name, *other, *needs[3], *may[3];
	enum tw_fault_kind kind;
	const char *example;
} kinds[] = {
	{ "crash",
	  NULL,
	  { NULL },
	  { "at", "event", "restart" },
	  TW_FAULT_CRASH,
	  "{crash: worker 3, at: 5s, restart: 2s}" },
	{ "partition",
	  "from",
	  { "at", "lasts" },
	  { NULL },
	  TW_FAULT_PARTITION,
	  "{partition: worker 2, from: everybody, at: 3s, lasts: 20s}" },
	{ "reset",
	  "to",
	  { "at" },
	  { NULL },
	  TW_FAULT_RESET,
	  "{reset: worker 1, to: server 0, at: 2s}" },
	{ "slow",
	  NULL,
	  { "factor", "at", "lasts" },
	  { NULL },
	  TW_FAULT_SLOW,
	  "{slow: worker 4, factor: 8, at: 1s, lasts: 10s}" },
	{ "leave", NULL, { "at" }, { NULL }, TW_FAULT_LEAVE, "{leave: worker 3, at: 5s}" },
};
#define KINDS (sizeof kinds / sizeof kinds[0])

struct entry {
	const struct tw_job *job;
	const struct tw_tree *node;
	size_t number;
	const struct kind *kind;
	struct tw_error *why;
};

static enum tw_status refuse(const struct entry *e, const struct tw_tree *at, const char *key,
			     const char *reason)
{
	return tw_fail(e->why, TW_BAD_INPUT, "%.300s: sim.faults[%zu]%s%s: %s",
		       at ? at->place : e->node->place, e->number, *key ? "." : "", key, reason);
}

/* Nodes of a worker. */
static uint32_t cells_of(const struct tw_job *job)
{
	return tw_plan_cells(&job->plan);
}

/* "master", "server 0", "worker 3", "worker 3.1" for its cell 1, and where allowed "everybody". */
static bool read_node(const struct tw_job *job, const char *text, uint32_t *node)
{
	const bool server = strncmp(text, "server ", 7) == 0;
	const uint32_t most = server ? job->cluster.servers : job->cluster.workers;
	unsigned long k, cell = 0;
	char *end;

	if (strcmp(text, "master") == 0) {
		*node = 0;
		return true;
	}
	if ((!server && strncmp(text, "worker ", 7) != 0) || text[7] < '0' || text[7] > '9')
		return false;
	k = strtoul(text + 7, &end, 10);
	if (*end == '.' && !server && cells_of(job) > 1 && end[1] >= '0' && end[1] <= '9')
		cell = strtoul(end + 1, &end, 10);
	if (*end || k >= most || cell >= cells_of(job))
		return false;
	*node = server ? 1 + (uint32_t)k
		       : 1 + job->cluster.servers + (uint32_t)k * cells_of(job) + (uint32_t)cell;
	return true;
}

/* "worker 0", or "worker 0 to 7". */
static const char *range(const char *what, uint32_t count, char out[40])
{
	if (count == 1)
		snprintf(out, 40, "%s 0", what);
	else
		snprintf(out, 40, "%s 0 to %u", what, count - 1);
	return out;
}

static enum tw_status node_value(const struct entry *e, const struct tw_tree *at, bool all,
				 uint32_t *node)
{
	char reason[300], shown[60], workers[40], servers[40];

	range("worker", e->job->cluster.workers, workers);
	range("server", e->job->cluster.servers, servers);
	if (at->kind == TW_TREE_TEXT && all && strcmp(at->text, "everybody") == 0) {
		*node = TW_EVERYBODY;
		return TW_OK;
	}
	if (at->kind == TW_TREE_TEXT && read_node(e->job, at->text, node) &&
	    (e->kind->kind != TW_FAULT_LEAVE || *node > e->job->cluster.servers))
		return TW_OK;
	if (e->kind->kind == TW_FAULT_LEAVE)
		snprintf(reason, sizeof reason, "needs %s, not '%s': only workers can leave",
			 workers, tw_tree_show(at->text, shown, sizeof shown));
	else
		snprintf(reason, sizeof reason, "needs master, %s%s%s%s, not '%s'",
			 e->job->cluster.servers ? servers : "",
			 e->job->cluster.servers ? ", " : "", workers, all ? " or everybody" : "",
			 tw_tree_show(at->text, shown, sizeof shown));
	return refuse(e, at, at->key, reason);
}

static bool listed(const char *const list[3], const char *key)
{
	for (size_t k = 0; k < 3 && list[k]; k++)
		if (strcmp(list[k], key) == 0)
			return true;
	return false;
}

static enum tw_status find_kind(struct entry *e)
{
	const char *names[KINDS + 1] = { NULL }, *near = NULL;
	char reason[300];

	if (e->node->kind != TW_TREE_MAP)
		return refuse(e, NULL, "",
			      "needs a mapping such as "
			      "{crash: worker 3, at: 5s, restart: 2s}");
	for (size_t k = 0; k < KINDS; k++) {
		names[k] = kinds[k].name;
		if (!e->kind && tw_tree_child(e->node, kinds[k].name))
			e->kind = &kinds[k];
	}
	if (e->kind)
		return TW_OK;
	if (e->node->first)
		near = tw_nearest(e->node->first->key, names);
	snprintf(reason, sizeof reason,
		 "does not name a fault; needs one of crash, partition, reset, slow, leave%s%s%s",
		 near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
	return refuse(e, NULL, "", reason);
}

static enum tw_status value(const struct entry *e, const struct tw_tree *at, struct values *v)
{
	const struct tw_option *row = tw_option_find(rows, at->key);
	struct tw_arena none;
	struct tw_error said = { 0 };
	char reason[300], shown[60];

	if (!row || (!listed(e->kind->needs, at->key) && !listed(e->kind->may, at->key))) {
		snprintf(reason, sizeof reason, "a %s has no such field; an example is %s",
			 e->kind->name, e->kind->example);
		return refuse(e, at, tw_tree_show(at->key, shown, sizeof shown), reason);
	}
	tw_arena_init(&none, &tw_heap_system);
	if (at->kind != TW_TREE_TEXT)
		tw_fail(&said, TW_BAD_INPUT, "needs a single value");
	else
		tw_field_set(row, v, at->text, &none, &said);
	tw_arena_release(&none);
	return said.status == TW_OK ? TW_OK : refuse(e, at, at->key, said.text);
}

static enum tw_status complete(const struct entry *e, const struct values *v, struct tw_fault *f)
{
	const bool at = tw_tree_child(e->node, "at"), event = tw_tree_child(e->node, "event");
	char reason[300];

	for (size_t k = 0; k < 3 && e->kind->needs[k]; k++)
		if (!tw_tree_child(e->node, e->kind->needs[k])) {
			snprintf(reason, sizeof reason, "must be given, as in %s",
				 e->kind->example);
			return refuse(e, NULL, e->kind->needs[k], reason);
		}
	if (e->kind->kind == TW_FAULT_CRASH && at == event)
		return refuse(
			e, NULL, "at",
			"needs either at: (a time such as 5s) or event: (a number), not both");
	if (e->kind->other && f->a == f->b)
		return refuse(e, NULL, e->kind->other, "needs a node other than the first");
	f->kind = event ? TW_FAULT_KILL_AT : e->kind->kind;
	f->at = at ? v->at : 0;
	f->event = event ? v->event : 0;
	f->factor = e->kind->kind == TW_FAULT_SLOW ? v->factor : 0;
	f->lasts = e->kind->kind == TW_FAULT_CRASH ? v->restart : v->lasts;
	return TW_OK;
}

static enum tw_status read_one(struct entry *e, struct tw_fault *f)
{
	struct values v = { .restart = -1 };
	enum tw_status st = find_kind(e);
	bool other = false;

	f->b = TW_EVERYBODY;
	for (const struct tw_tree *c = st == TW_OK ? e->node->first : NULL; c && st == TW_OK;
	     c = c->next) {
		if (strcmp(c->key, e->kind->name) == 0) {
			st = node_value(e, c, false, &f->a);
		} else if (e->kind->other && strcmp(c->key, e->kind->other) == 0) {
			st = node_value(e, c, e->kind->kind == TW_FAULT_PARTITION, &f->b);
			other = true;
		} else {
			st = value(e, c, &v);
		}
	}
	if (st == TW_OK && e->kind->other && !other)
		return refuse(e, NULL, e->kind->other, "must be given: the other node");
	if (st == TW_OK)
		st = complete(e, &v, f);
	return st;
}

enum tw_status tw_job_read_faults(struct tw_job *job, const struct tw_tree *list,
				  struct tw_error *why)
{
	struct entry e = { .job = job, .why = why };

	if (!list || tw_tree_is_null(list))
		return TW_OK;
	if (list->kind != TW_TREE_LIST)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: sim.faults: needs a list such as "
			       "[{crash: worker 0, at: 5s, restart: 2s}]",
			       list->place);
	job->fault = tw_arena_get(&job->arena, (list->count + 1) * sizeof *job->fault);
	if (!job->fault)
		return tw_fail(why, TW_NO_MEMORY, "no memory for sim.faults");
	for (e.node = list->first; e.node; e.node = e.node->next) {
		const enum tw_status st = (e.kind = NULL, read_one(&e, &job->fault[e.number]));

		if (st != TW_OK)
			return st;
		e.number++;
	}
	job->faults = e.number;
	return TW_OK;
}

static void node_text(const struct tw_job *job, uint32_t node, char *out, size_t room)
{
	if (node == TW_EVERYBODY)
		snprintf(out, room, "everybody");
	else if (node == 0)
		snprintf(out, room, "master");
	else if (node <= job->cluster.servers)
		snprintf(out, room, "server %u", node - 1);
	else if (cells_of(job) == 1)
		snprintf(out, room, "worker %u", node - 1 - job->cluster.servers);
	else
		snprintf(out, room, "worker %u.%u",
			 (node - 1 - job->cluster.servers) / cells_of(job),
			 (node - 1 - job->cluster.servers) % cells_of(job));
}

void tw_fault_text(const struct tw_job *job, const struct tw_fault *f, char *out, size_t room)
{
	const struct values v = { .at = f->at,
				  .restart = f->lasts,
				  .lasts = f->lasts,
				  .event = f->event,
				  .factor = f->factor };
	char a[40], b[40], at[40], lasts[40] = "", factor[40];

	node_text(job, f->a, a, sizeof a);
	node_text(job, f->b, b, sizeof b);
	tw_option_text(&rows[0], &v, at, sizeof at);
	if (f->lasts >= 0)
		tw_option_text(&rows[2], &v, lasts, sizeof lasts);
	tw_option_text(&rows[4], &v, factor, sizeof factor);
	switch (f->kind) {
	case TW_FAULT_CRASH:
		snprintf(out, room, "{crash: %s, at: %s%s%s}", a, at, *lasts ? ", restart: " : "",
			 lasts);
		break;
	case TW_FAULT_KILL_AT:
		snprintf(out, room, "{crash: %s, event: %" PRIu64 "%s%s}", a, f->event,
			 *lasts ? ", restart: " : "", lasts);
		break;
	case TW_FAULT_PARTITION:
		snprintf(out, room, "{partition: %s, from: %s, at: %s, lasts: %s}", a, b, at,
			 lasts);
		break;
	case TW_FAULT_RESET:
		snprintf(out, room, "{reset: %s, to: %s, at: %s}", a, b, at);
		break;
	case TW_FAULT_LEAVE:
		snprintf(out, room, "{leave: %s, at: %s}", a, at);
		break;
	case TW_FAULT_SLOW:
		snprintf(out, room, "{slow: %s, factor: %s, at: %s, lasts: %s}", a, factor, at,
			 lasts);
		break;
	}
}
