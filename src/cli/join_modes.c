/* SPDX-License-Identifier: Apache-2.0 */
/* join_modes.c - the ways into a cluster: one process, several, or rank 0 with the master. */
#include "cli/join_modes.h"

#include "cli/processes.h"
#include "cli/signals.h"
#include "cli/summary.h"
#include "cli/terminal.h"
#include "spec/oversubscription.h"
#include "run/join.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define END_SECONDS 10.0

/* --- one ------------------------------------------------------------------------------------- */

/* Where it listens, unless the user says: as far as its master, and no farther.  A worker that may
 * be reached from other machines listens there in any case: others may join its master from
 * them. */
static enum tw_status own_address(const struct tw_link *l, const struct tw_join_flags *flags,
				  const struct tw_address *master, struct tw_address *out,
				  struct tw_error *why)
{
	const struct tw_link_flags *f = &flags->link;
	const bool open = flags->as == TW_JOIN_WORKER && (l->tls || f->insecure);
	bool loopback = false;
	enum tw_status status;

	if (*f->listen)
		return tw_address_parse(f->listen, 0, out, why);
	*out = (struct tw_address){ .host = "" };
	status = tw_address_is_loopback(master, &loopback, why);
	if (loopback && !open)
		strcpy(out->host, strchr(master->host, ':') ? "::1" : "127.0.0.1");
	return status;
}

struct listening {
	struct tw_link *link;
	const struct tw_join_flags *flags;
	const struct tw_address *master;
};

static enum tw_status listen_here(void *arg, struct tw_error *why)
{
	const struct listening *w = arg;
	struct tw_address address;
	enum tw_status status = own_address(w->link, w->flags, w->master, &address, why);

	return status == TW_OK ? tw_link_listen(w->link, &address, why) : status;
}

static void has_prepared(void)
{
	tw_signals_hurry(false);
}

static enum tw_status enter(const struct tw_call *call, struct tw_link *l,
			    const struct tw_address *master, const _Atomic int *interrupted,
			    json_t **result, struct tw_error *why)
{
	const struct tw_join_flags *f = call->flags;
	struct listening here = { l, f, master };
	const struct tw_join_request q = {
		.server = f->as == TW_JOIN_SERVER,
		.master = master,
		.net = &l->net,
		.patience = f->patience,
		.log = call->log,
		.interrupted = interrupted,
		.prepared = has_prepared,
		.metrics = *f->work.log ? f->work.log : NULL,
		.trace = *f->work.trace ? f->work.trace : NULL,
		.save = *f->save ? f->save : NULL,
		.paths = { .all = f->allow_path,
			   .data = *f->data ? f->data : NULL,
			   .copy = *f->copy ? f->copy : NULL },
		.listen = listen_here,
		.listen_arg = &here,
		.listens = !f->ranked && (*f->link.listen || f->link.insecure),
		.master_fd = -1,
		.wish = TW_NODE_NEW,
	};
	enum tw_status status = TW_OK;

	if (q.server)
		status = listen_here(&here, why);
	if (status == TW_OK)
		status = tw_link_pages(l, q.server ? "server" : "worker", UINT32_MAX, why);
	if (status != TW_OK)
		return status;
	tw_signals_hurry(true);
	return tw_join(&q, result, why);
}

static void print(const struct tw_call *call, const json_t *result)
{
	const struct tw_work_flags *f = call->flags;

	tw_terminal_clear(call->terminal);
	if (f->json)
		tw_print_json(result);
	else
		tw_print_joined(result);
}

int tw_join_alone(const struct tw_call *call, struct tw_link *l, const struct tw_address *master)
{
	struct tw_error why = { .status = TW_OK };
	json_t *result = NULL;
	enum tw_status status;

	status = enter(call, l, master, tw_signals_count(true), &result, &why);
	if (result && !((const struct tw_join_flags *)call->flags)->silent)
		print(call, result);
	json_decref(result);
	return status == TW_OK ? TW_EXIT_DONE : tw_exit_for(call, &why);
}

/* --- several ---------------------------------------------------------------------------------- */

/* In a child: join, leave the result in `out`, and end. */
static _Noreturn void child_main(const struct tw_call *call, struct tw_link *l,
				 const struct tw_address *master, int out)
{
	struct tw_error why = { .status = TW_OK };
	json_t *result = NULL;
	enum tw_status status;
	int code = TW_EXIT_DONE;

	l->net.listen = NULL; /* rank 0's, which is the master's */
	status = enter(call, l, master, tw_signals_count_term(), &result, &why);
	if (result && out >= 0 && json_dumpfd(result, out, JSON_COMPACT))
		status = tw_fail(&why, TW_IO, "the result cannot be kept: %s", strerror(errno));
	if (status != TW_OK)
		code = tw_exit_for(call, &why);
	tw_link_close(l);
	_exit(code);
}

/* Start the workers.  out[k]: where worker k leaves its result; NULL: nobody asks. */
static enum tw_status start(const struct tw_call *call, struct tw_link *l,
			    const struct tw_address *master, struct tw_processes *p, int *out,
			    struct tw_error *why)
{
	for (size_t k = 0; k < p->room; k++) {
		pid_t pid;

		if (out && (out[k] = memfd_create("result", MFD_CLOEXEC)) < 0)
			return tw_fail(why, TW_IO, "no memory for a result: %s", strerror(errno));
		pid = tw_processes_fork(p, SIGTERM, why, "worker process %zu", k + 1);
		if (pid == 0) {
			if (!out)
				tw_terminal_child(call->terminal);
			child_main(call, l, master, out ? out[k] : -1);
		}
		if (pid < 0)
			return why->status;
	}
	return TW_OK;
}

/* Every signal we get is theirs; returns when all have ended. */
static void await(struct tw_processes *p, const _Atomic int *signals)
{
	int passed = 0;

	while (!tw_processes_look(p)) {
		while (passed < *signals) {
			p->ending = true;
			tw_processes_signal(p, SIGTERM);
			passed++;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
}

/* What the run came to, from any who heard it; what they did themselves, all together. */
static json_t *gather(const struct tw_processes *p, const int *out)
{
	json_t *whole = NULL, *each = json_array();
	json_int_t steps = 0, samples = 0;
	bool left = true;

	for (size_t k = 0; k < p->count; k++) {
		json_error_t bad;
		json_t *one = lseek(out[k], 0, SEEK_SET) == 0 ? json_loadfd(out[k], 0, &bad) : NULL;
		const bool stayed = json_is_false(json_object_get(one, "left"));

		steps += json_integer_value(json_object_get(one, "own_steps"));
		samples += json_integer_value(json_object_get(one, "own_samples"));
		json_array_append_new(each,
				      json_pack("{s:i, s:O*, s:O*, s:O*}", "exit_code",
						p->list[k].child.code, "own_steps",
						json_object_get(one, "own_steps"), "own_samples",
						json_object_get(one, "own_samples"), "left",
						json_object_get(one, "left")));
		if (one && (!whole || (left && stayed))) {
			json_decref(whole);
			whole = json_incref(one);
		}
		left = left && !stayed;
		json_decref(one);
	}
	if (whole) {
		json_object_set_new(whole, "own_steps", json_integer(steps));
		json_object_set_new(whole, "own_samples", json_integer(samples));
		json_object_set(whole, "processes", each);
	}
	json_decref(each);
	return whole;
}

static enum tw_status check_many(const struct tw_join_flags *f, struct tw_error *why)
{
	const char *http = f->link.http;

	if (f->as == TW_JOIN_SERVER)
		return tw_fail(why, TW_BAD_INPUT,
			       "--workers starts workers: leave out --as server, and start "
			       "each server separately");
	if (*http && strcmp(http, "off") != 0 && strcmp(http, "0") != 0)
		return tw_fail(
			why, TW_BAD_INPUT,
			"--http: %u processes cannot have the same port; 0 gives each a free "
			"one",
			f->workers);
	if (*f->link.listen && !f->ranked) {
		struct tw_address address;
		const enum tw_status status = tw_address_parse(f->link.listen, 0, &address, why);

		if (status != TW_OK)
			return status;
		if (address.port)
			return tw_fail(why, TW_BAD_INPUT,
				       "--listen: %u processes cannot have the same port; without "
				       "one each has a free one",
				       f->workers);
	}
	if (*f->save)
		return tw_fail(why, TW_BAD_INPUT,
			       "--save: %u processes cannot write one file; start one with --save, "
			       "and the others without it",
			       f->workers);
	if (*f->work.log)
		return tw_fail(
			why, TW_BAD_INPUT,
			"--log: %u processes cannot write one file; start each separately, or "
			"see the master's log",
			f->workers);
	return TW_OK;
}

/* The worst of what happened to them, and a sentence if it is bad. */
static int judge(const struct tw_call *call, const struct tw_processes *p)
{
	const int code = tw_processes_code(p);
	size_t bad = 0;

	for (size_t k = 0; k < p->count; k++)
		bad += p->list[k].child.code != TW_EXIT_DONE;
	if (bad)
		tw_log_line(call->log, code == TW_EXIT_INTERRUPTED ? TW_INFO : TW_ERROR, "",
			    "%zu of %zu workers ended with an error", bad, p->count);
	return code;
}

int tw_join_many(const struct tw_call *call, struct tw_link *l, const struct tw_address *master)
{
	const struct tw_join_flags *f = call->flags;
	struct tw_processes p = { .count = 0 };
	struct tw_error why = { .status = TW_OK };
	int *out = tw_heap_zeros(&tw_heap_system, f->workers * sizeof *out);
	json_t *result = NULL;
	char crowd[250];
	enum tw_status status = check_many(f, &why);

	if (status == TW_OK && !out)
		status = tw_fail(&why, TW_NO_MEMORY, "no memory for %u workers", f->workers);
	for (uint32_t k = 0; out && k < f->workers; k++)
		out[k] = -1;
	if (status == TW_OK)
		status = tw_processes_init(&p, call->log, f->workers, &why);
	if (status == TW_OK && tw_oversubscribed(f->workers, "processes", crowd, sizeof crowd))
		tw_log_line(call->log, TW_WARNING, "", "--workers: %s", crowd);
	if (status == TW_OK)
		status = start(call, l, master, &p, out, &why);
	if (status == TW_OK) {
		await(&p, tw_signals_count_all());
		result = gather(&p, out);
	}
	tw_processes_end(&p, 0);
	if (result)
		print(call, result);
	json_decref(result);
	for (uint32_t k = 0; out && k < f->workers; k++)
		if (out[k] >= 0)
			close(out[k]);
	tw_heap_system.put(&tw_heap_system, out);
	const int code = status == TW_OK ? judge(call, &p) : tw_exit_for(call, &why);

	tw_processes_release(&p);
	return code;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

/* Where the others will look for it: on all addresses, unless they are told loopback. */
static enum tw_status lead_address(const struct tw_link_flags *f, const struct tw_rendezvous *where,
				   struct tw_address *listen, struct tw_address *dial,
				   struct tw_error *why)
{
	bool loopback = false;
	enum tw_status status = TW_OK;

	*dial = where->master;
	if (!where->have_master)
		strcpy(dial->host, "127.0.0.1");
	if (*f->listen)
		return tw_address_parse(f->listen, where->master.port, listen, why);
	if (where->have_master)
		status = tw_address_is_loopback(&where->master, &loopback, why);
	*listen = where->master;
	if (!loopback)
		listen->host[0] = 0;
	return status;
}

static enum tw_status check_lead(const struct tw_join_flags *f, struct tw_error *why)
{
	if (f->as == TW_JOIN_SERVER)
		return tw_fail(why, TW_BAD_INPUT,
			       "rank 0 runs the master, which is a server already: --as server is "
			       "for other ranks");
	if (!*f->job)
		return tw_fail(why, TW_BAD_INPUT,
			       "rank 0 runs the master and needs the job: thalweg join --job "
			       "job.yaml; or name a running master: thalweg join HOST");
	return TW_OK;
}

static enum tw_status lead(const struct tw_call *call, struct tw_link *l,
			   const struct tw_rendezvous *where, struct tw_processes *p,
			   struct tw_error *why)
{
	const struct tw_join_flags *f = call->flags;
	struct tw_address listen, dial;
	struct tw_job *job = NULL;
	char standard[4096];
	const char *dir = *f->work.run ? f->work.run : standard;
	enum tw_status status = check_lead(f, why);

	tw_work_dir(f->job, standard, sizeof standard);
	if (status == TW_OK)
		status = tw_work_read_ranks(call, f->job, TW_WORLD_TCP, dir, f->tasks, &job, why);
	if (status == TW_OK)
		status = lead_address(&f->link, where, &listen, &dial, why);
	if (status == TW_OK)
		status = tw_link_listen(l, &listen, why);
	if (status == TW_OK)
		status = tw_processes_init(p, call->log, f->workers, why);
	if (status == TW_OK) {
		struct tw_join_flags quiet = *f; /* the pages and the log are the master's */
		struct tw_call theirs = *call;

		quiet.allow_path = true; /* the job is this user's own */
		quiet.data = quiet.copy = "";
		quiet.link.http = "off";
		quiet.link.listen = *listen.host ? "" : ":0"; /* as far as the master */
		quiet.work.log = "";
		theirs.flags = &quiet;
		l->flags = &quiet.link;
		status = start(&theirs, l, &dial, p, NULL, why);
		l->flags = &f->link;
	}
	if (status == TW_OK)
		status = tw_processes_watch(p, why);
	if (status == TW_OK)
		status = tw_link_serve(l, call, job, dir, UINT32_MAX, why);
	/* the pages may ask for the plan until the link is closed */
	l->net.kept = job;
	return status;
}

int tw_join_lead(const struct tw_call *call, struct tw_link *l, const struct tw_rendezvous *where)
{
	struct tw_processes p = { .count = 0 };
	struct tw_error why = { .status = TW_OK };
	const enum tw_status status = lead(call, l, where, &p, &why);

	p.ending = status != TW_OK;
	if (status != TW_OK)
		tw_processes_signal(&p, SIGTERM);
	tw_processes_end(&p, END_SECONDS);
	tw_processes_release(&p);
	return status == TW_OK ? TW_EXIT_DONE : tw_exit_for(call, &why);
}
