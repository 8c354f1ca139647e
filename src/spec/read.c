/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - from text to a job: the tree, what overrides it, presets, choices, rows.
 *
 *  (1) one tree holds all that was given: environment and flags are put over the file, presets are
 *      filled in under it; so precedence is the order of these steps and nothing else.
 *  (2) every value in the tree belongs to a row that the job's choices brought in, or is refused;
 *      only a preset may carry fields of a choice that the user overruled. */
#include "spec/read.h"

#include "base/machine/regular_file.h"
#include "spec/help/hint.h"
#include "spec/oversubscription.h"
#include "spec/stages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum tw_status title(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	char text[128];

	if (!*job->strategy.name && tw_plan_optimises(&job->plan))
		snprintf(text, sizeof text, "%s", job->plan.optimising.method->name);
	else if (*job->strategy.name)
		snprintf(text, sizeof text, "%s", job->strategy.name);
	else
		snprintf(text, sizeof text, "%s%s%s%s%s%s%s", job->plan.gate->name,
			 job->plan.staleness->correct ? "+" : "",
			 job->plan.staleness->correct ? job->plan.staleness->name : "",
			 tw_plan_is_staged(&job->plan) ? "+" : "",
			 tw_plan_is_staged(&job->plan) ? job->strategy.pipeline : "",
			 tw_plan_has_peers(&job->plan) ? "+" : "",
			 tw_plan_is_loose(&job->plan) ? job->strategy.mixing
						      : job->strategy.reduction);
	job->title = tw_arena_text(r->keep, text);
	return job->title ? TW_OK : tw_read_no_memory(r);
}

/* Where every worker holds the parameters there is nothing for servers to do. */
static enum tw_status settle_servers(struct tw_reading *r)
{
	struct tw_job *job = r->job;
	const bool given = tw_job_given(job, "cluster.servers");

	if (tw_plan_is_with_stage(&job->plan)) {
		if (given && job->cluster.servers)
			return tw_job_refuse(job, r->why, "cluster.servers",
					     "with place: with-stage the nodes of the stages hold "
					     "the parameters, and a server would hold none; use 0 "
					     "or leave this out, or use place: servers");
		job->cluster.servers = 0;
		return TW_OK;
	}
	if (!tw_plan_has_peers(&job->plan))
		return job->cluster.servers ? TW_OK
					    : tw_job_refuse(job, r->why, "cluster.servers",
							    "without servers every worker must "
							    "hold the parameters; use 1 or more, "
							    "or strategy: {topology: allreduce}");
	if (given && job->cluster.servers)
		return tw_job_refuse(job, r->why, "cluster.servers",
				     "with this topology every worker holds the parameters, and a "
				     "server would hold none; use 0 or leave this out, or use "
				     "topology: server");
	job->cluster.servers = 0;
	return TW_OK;
}

/* A job file may serve several worlds: what is for another one is said, not refused. */
static enum tw_status say_unread(struct tw_reading *r)
{
	static const char *const pulse[] = { "cluster.heartbeat", "cluster.suspect" };
	const enum tw_world_kind world = r->job->world;
	enum tw_status st = TW_OK;
	char crowd[250];

	if (world != TW_WORLD_SIM && tw_tree_child(r->root, "sim"))
		st = tw_job_warn(r->job, "section sim: is ignored by %s; only thalweg sim uses it",
				 tw_world_has_processes(world) ? "processes" : "threads");
	for (size_t k = 0; k < 2 && st == TW_OK && !tw_world_has_processes(world); k++)
		if (tw_job_given(r->job, pulse[k]))
			st = tw_job_warn(r->job, "%s: is ignored here; only serve and join use it",
					 pulse[k]);
	if (st == TW_OK && world == TW_WORLD_THREADS && tw_job_given(r->job, "cluster.stuck"))
		st = tw_job_warn(r->job,
				 "cluster.stuck: is ignored here; only serve, join and sim use it");
	if (st == TW_OK && world == TW_WORLD_THREADS &&
	    tw_oversubscribed(r->job->cluster.workers * tw_plan_cells(&r->job->plan), "threads",
			      crowd, sizeof crowd))
		st = tw_job_warn(r->job, "cluster.workers: %s", crowd);
	return st == TW_OK ? TW_OK : tw_read_no_memory(r);
}

/* Text that is no job at all: a file of data was named in its place, perhaps. */
static enum tw_status say_what_file(const char *file, struct tw_error *why)
{
	char hint[450];

	if (tw_hint_file(file, hint, sizeof hint)) {
		*why = (struct tw_error){ .status = TW_OK };
		return tw_fail(why, TW_BAD_INPUT, "%.120s: %s", file, hint);
	}
	return why->status;
}

static enum tw_status build(struct tw_reading *r, const struct tw_job_text *from)
{
	enum tw_status st;

	if (r->root->kind != TW_TREE_MAP) {
		tw_fail(r->why, TW_BAD_INPUT,
			"%s: a job is a mapping of sections such as data: and model:, not %s",
			r->root->place,
			r->root->kind == TW_TREE_LIST ? "a list" : "a single value");
		return say_what_file(r->job->file, r->why);
	}
	st = tw_read_outside(r, from);
	if (st == TW_OK)
		st = tw_read_sections(r);
	if (st == TW_OK)
		st = tw_read_usual(r);
	if (st == TW_OK)
		st = tw_read_standard(r);
	if (st == TW_OK)
		st = tw_read_preset(r);
	if (st == TW_OK)
		st = tw_read_bind(r);
	if (st == TW_OK)
		st = tw_read_values(r);
	if (st == TW_OK && r->job->ranks && !tw_job_given(r->job, "cluster.workers"))
		r->job->cluster.workers = r->job->ranks;
	if (st == TW_OK)
		st = tw_read_compare(r);
	if (st == TW_OK)
		st = tw_job_settle_stages(r->job, r->why);
	if (st == TW_OK)
		st = settle_servers(r);
	if (st == TW_OK)
		st = title(r);
	if (st == TW_OK)
		st = tw_job_read_faults(r->job, tw_tree_at(r->root, "sim.faults"), r->why);
	if (st == TW_OK)
		st = tw_job_read_nodes(r->job, tw_tree_at(r->root, "sim.nodes"), r->why);
	if (st == TW_OK)
		st = tw_job_complete(r->job, r->why);
	if (st == TW_OK)
		st = tw_job_check(r->job, r->why);
	if (st == TW_OK)
		st = say_unread(r);
	if (st == TW_OK && tw_job_hash(r->job, &r->job->plan.checkpoint.job_hash) != TW_OK)
		st = tw_fail(r->why, TW_NO_MEMORY, "%s: no memory for its hash", r->job->file);
	return st;
}

/* Read it with such a strategy where it does not say one; *stood: it did not. */
static enum tw_status attempt(const struct tw_job_text *from, enum tw_world_kind world,
			      enum tw_standard standard, bool *stood, struct tw_job **out,
			      struct tw_error *why)
{
	struct tw_error said = { 0 };
	struct tw_job *job = tw_heap_zeros(&tw_heap_system, sizeof *job);
	struct tw_reading r = {
		.job = job, .why = &said, .standard = standard, .compared = from->compared
	};
	struct tw_text_source source = { .origin = TW_FROM_FILE };
	char shown[280];
	enum tw_status st = TW_NO_MEMORY;

	if (!job)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
	tw_arena_init(&job->arena, &tw_heap_system);
	r.keep = job->facts.keep = &job->arena;
	job->world = world;
	job->planned = from->planned;
	job->ranks = from->ranks;
	job->former = from->former;
	job->file = source.name =
		tw_arena_text(r.keep, tw_tree_show(from->name, shown, sizeof shown));
	job->field = r.field = tw_arena_get(r.keep, TW_FIELDS_MAX * sizeof *r.field);
	if (!job->file || !job->field)
		tw_fail(&said, st, "no memory for the job");
	else if (from->bytes > TW_JOB_BYTES_MAX)
		st = tw_fail(&said, TW_BAD_INPUT,
			     "%s: is longer than 1 MiB, which no job file needs to be", job->file);
	else
		st = tw_tree_read(r.keep, &source, from->text, from->bytes, &r.root, &said);
	if (st == TW_OK)
		st = build(&r, from);
	else if (st == TW_BAD_INPUT)
		say_what_file(job->file, &said);
	*stood = r.stood;
	if (st == TW_OK) {
		*out = job;
		return TW_OK;
	}
	tw_job_free(job);
	return tw_fail(why, st, "%s", said.text);
}

/* Where nothing is said of the gate, a job that cannot have rounds may still be one without rounds.
 * One that is neither hears why not, of that attempt which does not blame the gate. */
enum tw_status tw_job_read_changed(const struct tw_job_text *from, enum tw_world_kind world,
				   struct tw_job **out, struct tw_error *why)
{
	struct tw_error said = { 0 }, then = { 0 };
	bool stood = false;
	enum tw_status st =
		attempt(from, world, from->former ? TW_STANDARD_AT_ONCE : TW_STANDARD_ROUNDS,
			&stood, out, &said);

	if (st == TW_BAD_INPUT && stood && !from->former) {
		st = attempt(from, world, TW_STANDARD_AT_ONCE, &stood, out, &then);
		if (st != TW_OK && !strstr(then.text, ": strategy.gate: "))
			said = then;
	}
	return st == TW_OK ? st : tw_fail(why, st, "%s", said.text);
}

enum tw_status tw_job_read_text(const char *name, const char *text, size_t bytes,
				const char *const *set, size_t n, const char *const *environ_,
				enum tw_world_kind world, struct tw_job **out, struct tw_error *why)
{
	const struct tw_job_text from = {
		.name = name,
		.text = text,
		.bytes = bytes,
		.set = set,
		.sets = n,
		.environ_ = environ_,
	};

	return tw_job_read_changed(&from, world, out, why);
}

void tw_job_free(struct tw_job *job)
{
	if (!job)
		return;
	tw_arena_release(&job->arena);
	tw_heap_system.put(&tw_heap_system, job);
}

/* All of a file, up to one byte more than a job may have. */
static enum tw_status read_all(int fd, char **text, size_t *bytes)
{
	const size_t room = TW_JOB_BYTES_MAX + 1;
	char *at = malloc(room);
	size_t n = 0;

	if (!at)
		return TW_NO_MEMORY;
	while (n < room) {
		const ssize_t got = read(fd, at + n, room - n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			free(at);
			return TW_IO;
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	*text = at;
	*bytes = n;
	return TW_OK;
}

enum tw_status tw_job_load(const char *path, char **text, size_t *bytes, struct tw_error *why)
{
	const bool standard = strcmp(path, "-") == 0;
	const int fd = standard ? STDIN_FILENO : tw_regular_input(path);
	char shown[200];
	enum tw_status st;

	tw_tree_show(path, shown, sizeof shown);
	if (fd < 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: cannot be opened: %s; name a job file, or - for standard input",
			       shown, tw_cause(errno));
	st = read_all(fd, text, bytes);
	if (st == TW_IO)
		st = tw_fail(why, TW_BAD_INPUT,
			     "%s: cannot be read: %s; name a job file, or - for standard input",
			     shown, strerror(errno));
	else if (st != TW_OK)
		tw_fail(why, st, "%s: no memory to read it", shown);
	if (!standard)
		close(fd);
	return st;
}

enum tw_status tw_job_read_file(const char *path, const struct tw_job_text *how,
				enum tw_world_kind world, struct tw_job **out, struct tw_error *why)
{
	struct tw_job_text from = *how;
	char *text = NULL;
	enum tw_status st = tw_job_load(path, &text, &from.bytes, why);

	from.name = strcmp(path, "-") == 0 ? "standard input" : path;
	from.text = text;
	if (st == TW_OK)
		st = tw_job_read_changed(&from, world, out, why);
	free(text);
	return st;
}

enum tw_status tw_job_read(const char *path, const char *const *set, size_t n,
			   const char *const *environ_, enum tw_world_kind world,
			   struct tw_job **out, struct tw_error *why)
{
	const struct tw_job_text how = { .set = set, .sets = n, .environ_ = environ_ };

	return tw_job_read_file(path, &how, world, out, why);
}
