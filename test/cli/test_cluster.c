/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster.c - serve, join and train --processes as a user has them: real processes, real
 * sockets, signals, keys. */
/* labels: waits */
#include "cli/spawn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define PARTS_MOST 8

/* A run of bsp: the same bits in every world. */
static const char job_text[] = "model:    {name: mlp, hidden: [16]}\n"
			       "data:     {source: digits, count: 1000, tests: 200, batch: 50}\n"
			       "train:    {epochs: 2, seed: 1, evaluate: 0}\n"
			       "update:   {rate: 0.1}\n"
			       "cluster:  {workers: 2}\n"
			       "strategy: ssgd\n";

static char job[300], key[300], other_key[300], expected[64];

/* --- a cluster -------------------------------------------------------------------------------- */

static void serve(struct running *r, const char *run, const char *flags, char *join)
{
	char line[400];

	thalweg_begin(r, NULL, "serve %s --run %s/%s --listen 127.0.0.1:0 --http off --json %s",
		      job, scratch(), run, flags);
	await_line(r, "to join: thalweg ", line, sizeof line);
	strcpy(join, line);
}

static void digest_is(const struct said *s, const char *wanted)
{
	char *digest;

	expect(s, 0);
	digest = digest_of(s);
	assert_string_equal(digest, wanted);
	free(digest);
}

static void end_with(struct running *r, const char *wanted)
{
	struct said said;

	thalweg_end(r, &said);
	digest_is(&said, wanted);
	said_free(&said);
}

static void end_with_digest(struct running *r)
{
	end_with(r, expected);
}

/* serve, so many further servers and workers: all end with the same parameters. */
static void cluster_of(const char *run, const char *flags, int servers, int workers,
		       const char *wanted)
{
	struct running part[PARTS_MOST];
	char join[400], line[100];
	int n = 0;

	serve(&part[n++], run, flags, join);
	if (servers)
		await_line(&part[0], "2 more servers must join: thalweg join ", line, sizeof line);
	for (int k = 0; k < servers; k++)
		thalweg_begin(&part[n++], NULL, "%s --as server --json", join);
	for (int k = 0; k < workers; k++)
		thalweg_begin(&part[n++], NULL, "%s --json", join);
	for (int k = 0; k < n; k++)
		end_with(&part[k], wanted);
}

static void cluster(const char *run, const char *flags, int servers)
{
	cluster_of(run, flags, servers, 2, expected);
}

/* --- the same bits ---------------------------------------------------------------------------- */

static void on_one_machine_all_worlds_agree(void **state)
{
	digest_is(thalweg(NULL, "train %s --run %s/t --json", job, scratch()), expected);
	digest_is(thalweg(NULL, "train %s --run %s/p --processes --json", job, scratch()),
		  expected);
	digest_is(thalweg(NULL,
			  "train %s --run %s/p3 --processes --json --set cluster.servers=3 "
			  "--set cluster.shards=6",
			  job, scratch()),
		  expected);
}

static void without_servers_they_agree(void **state)
{
	char flags[400];

	digest_is(thalweg(NULL,
			  "train %s --run %s/pd --processes --json --set strategy.topology=direct",
			  job, scratch()),
		  expected);
	cluster("peers", "--set strategy.topology=direct", 0);
	snprintf(flags, sizeof flags, "--key %s --set strategy.topology=direct", key);
	cluster("peers-key", flags, 0);
}

/* In every world the bits of `like` in the simulator, with four workers. */
static void worlds_agree(const char *name, const char *more, const char *like)
{
	char wanted[64], label[40], flags[500], *digest;

	digest = digest_of(thalweg(NULL, "sim %s --json %s %s", job, more, like));
	snprintf(wanted, sizeof wanted, "%s", digest);
	free(digest);
	assert_string_not_equal(wanted, expected);
	digest_is(thalweg(NULL, "sim %s --json %s", job, more), wanted);
	digest_is(thalweg(NULL, "train %s --run %s/%st --json %s", job, scratch(), name, more),
		  wanted);
	digest_is(thalweg(NULL, "train %s --run %s/%sp --processes --json %s", job, scratch(), name,
			  more),
		  wanted);
	cluster_of(name, more, 0, 4, wanted);
	snprintf(flags, sizeof flags, "--key %s %s", key, more);
	snprintf(label, sizeof label, "%s-key", name);
	cluster_of(label, flags, 0, 4, wanted);
}

/* Means of neighbours are of rounds: the order in which they come does not matter. */
static void neighbours_agree(void **state)
{
	worlds_agree("neighbours",
		     "--set strategy=d-psgd --set cluster.workers=4 --set cluster.shards=2 "
		     "--set train.evaluate=1",
		     "");
}

/* A codec with a residual without servers: the bits of a server. */
static void encoded_contributions_agree(void **state)
{
	worlds_agree("gathered",
		     "--set strategy.topology=direct --set strategy.codec.up=topk "
		     "--set cluster.workers=4 --set cluster.shards=2",
		     "--set strategy.topology=server");
}

static void over_tcp_they_agree_in_the_clear(void **state)
{
	cluster("clear", "", 0);
	cluster("clear3", "--set cluster.servers=3 --set cluster.shards=6", 2);
}

static void over_tcp_they_agree_with_a_key(void **state)
{
	char flags[400];

	snprintf(flags, sizeof flags, "--key %s", key);
	cluster("key", flags, 0);
	snprintf(flags, sizeof flags, "--key %s --set cluster.servers=3 --set cluster.shards=6",
		 key);
	cluster("key3", flags, 2);
}

static void one_command_starts_several_workers(void **state)
{
	struct running master, workers;
	struct said said;
	char join[400];
	json_t *r;

	serve(&master, "many", "", join);
	thalweg_begin(&workers, NULL, "%s --workers 2 --json", join);
	thalweg_end(&workers, &said);
	digest_is(&said, expected);
	has(said.err, "worker 0 on "); /* each says that it joined */
	has(said.err, "worker 1 on ");
	has(strstr(said.err, ": joined\n") + 1, ": joined\n");
	r = object_of(&said);
	assert_int_equal(json_array_size(json_object_get(r, "processes")), 2);
	assert_int_equal(number_of(r, "own_samples"), 2000);
	json_decref(r);
	said_free(&said);
	end_with_digest(&master);
}

static uint16_t free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	close(fd);
	return ntohs(a.sin_port);
}

static void ranks_find_each_other(void **state)
{
	const unsigned port = free_port();
	struct running part[2];
	char environment[200];
	struct said said;

	for (int rank = 0; rank < 2; rank++) {
		snprintf(environment, sizeof environment,
			 "MASTER_ADDR=127.0.0.1 MASTER_PORT=%u RANK=%d WORLD_SIZE=2", port, rank);
		thalweg_begin(&part[rank], environment, "join --job %s --run %s/ranks --json", job,
			      scratch());
	}
	thalweg_end(&part[1], &said);
	has(said.err, "--job, --run, --set and a worker's --listen are for rank 0");
	digest_is(&said, expected);
	said_free(&said);
	end_with_digest(&part[0]);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void without_a_key_nobody_listens_for_other_machines(void **state)
{
	char line[800];

	snprintf(line, sizeof line, "serve %s --run %s/no --listen :0 --http off", job, scratch());
	thalweg_refuses(NULL, "(umask 077; thalweg key > cluster.key)", line);
	assert_false(exists("no"));
	snprintf(line, sizeof line,
		 "serve %s --run %s/no --listen :0 --http off --insecure --key %s", job, scratch(),
		 key);
	thalweg_refuses(NULL, "--insecure and --key cannot be combined", line);
	snprintf(line, sizeof line, "serve %s --run %s/no --listen :0 --insecure", job, scratch());
	thalweg_refuses("THALWEG_KEY=x", "--insecure and THALWEG_KEY cannot be combined", line);
	snprintf(line, sizeof line, "serve %s --run %s/no --key %s --authority ca.pem", job,
		 scratch(), key);
	thalweg_refuses(NULL, "a cluster uses one or the other", line);
	thalweg_refuses("MASTER_ADDR=192.0.2.1 RANK=0", "there is no key",
			"join --job examples/ssgd.yaml");
	thalweg_refuses(NULL, "there is no key", "join 127.0.0.1:1 --as server --listen :0");
}

static void requests_that_make_no_sense(void **state)
{
	thalweg_refuses(NULL, "the address of the master is missing", "join");
	thalweg_refuses("RANK=0 MASTER_ADDR=127.0.0.1", "rank 0 runs the master and needs the job",
			"join");
	thalweg_refuses("RANK=0 MASTER_ADDR=127.0.0.1", "which is a server already",
			"join --as server");
	thalweg_refuses(NULL, "--listen: 2 processes cannot have the same port",
			"join localhost --workers 2 --listen :7000");
	thalweg_refuses(NULL, "with ADDRESS the job comes from the master",
			"join localhost --job a.yaml");
	thalweg_refuses(NULL, "leave out --as server", "join localhost --workers 2 --as server");
	thalweg_refuses(NULL, "cannot have the same port",
			"join localhost --workers 2 --http 8080");
	thalweg_refuses(NULL, "needs a port from 0", "join localhost --http x");
	thalweg_refuses(NULL, "needs a port from 0", "join localhost --http :8080");
	thalweg_refuses(NULL, "0.0.0.0 can be reached from other machines",
			"join localhost --http 0.0.0.0:0");
	thalweg_refuses(NULL, "\"node1\" is not an address; use 127.0.0.1, ::1 or localhost",
			"join localhost --http node1:8080");
	thalweg_refuses(NULL, "all three of", "join localhost --certificate a.pem");
	thalweg_refuses("THALWEG_KEY=nonsense", "THALWEG_KEY: ", "join localhost");
}

/* Whether a worker listens depends on the job: that must be known first. */
static void where_there_are_servers_a_worker_does_not_listen(void **state)
{
	static const char *const flags[] = { "--listen 127.0.0.1:0", "--insecure",
					     "--workers 2 --listen 127.0.0.1:0" };
	struct running master;
	struct said said;
	char join[400];

	serve(&master, "listens", "", join);
	for (size_t k = 0; k < 3; k++) {
		struct running worker;

		thalweg_begin(&worker, NULL, "%s %s", join, flags[k]);
		thalweg_end(&worker, &said);
		expect(&said, 2);
		has(said.err, "this job has servers, and a worker does not listen on a port");
		said_free(&said);
	}
	kill(master.pid, SIGKILL);
	thalweg_end(&master, &said);
	said_free(&said);
}

static void without_servers_a_worker_must_be_reachable(void **state)
{
	static const char *const flags[][2] = {
		{ "--listen 192.0.2.1:0", "every worker must be reachable by the others; " },
		{ "--listen :0", "there is no key" },
		{ "--as server", "this job has no servers: each worker has all parameters" },
	};
	struct running master;
	struct said said;
	char join[400];

	serve(&master, "unreachable", "--set strategy.topology=direct", join);
	for (size_t k = 0; k < 3; k++) {
		struct running worker;

		thalweg_begin(&worker, NULL, "%s %s", join, flags[k][0]);
		thalweg_end(&worker, &said);
		expect(&said, 2);
		has(said.err, "this job has no servers: ");
		has(said.err, flags[k][1]);
		said_free(&said);
	}
	kill(master.pid, SIGKILL);
	thalweg_end(&master, &said);
	said_free(&said);
}

/* No line says an address twice, such as "127.0.0.1:7433: the connection to 127.0.0.1:7433 ...". */
static void address_once(const char *text, const char *where)
{
	has(text, where);
	for (const char *line = text, *end; *line; line = end + (*end != 0)) {
		const char *at = strstr(line, where);

		end = line + strcspn(line, "\n");
		if (at && at < end) {
			const char *again = strstr(at + 1, where);

			if (again && again < end)
				fail_msg("an address twice: %.*s", (int)(end - line), line);
		}
	}
}

static void who_has_another_key_is_not_let_in(void **state)
{
	struct running master, worker;
	struct said said;
	char join[400], where[100], flags[400];

	snprintf(flags, sizeof flags, "--key %s", key);
	serve(&master, "keys", flags, join);
	assert_int_equal(sscanf(join, "join %99s", where), 1);
	thalweg_begin(&worker, NULL, "join %s --key %s --patience 3s", where, other_key);
	thalweg_end(&worker, &said);
	expect(&said, 1);
	has(said.err, "another key");
	address_once(said.err, where);
	said_free(&said);
	thalweg_begin(&worker, NULL, "join %s --patience 1s", where);
	thalweg_end(&worker, &said);
	expect(&said, 1);
	address_once(said.err, where);
	said_free(&said);
	thalweg_begin(&worker, NULL, "join 127.0.0.1:1 --key %s --patience 1s", key);
	thalweg_end(&worker, &said);
	expect(&said, 1);
	address_once(said.err, "127.0.0.1:1");
	said_free(&said);
	/* the key from the environment is as good */
	snprintf(flags, sizeof flags, "THALWEG_KEY_FILE=%s", key);
	thalweg_begin(&worker, flags, "join %s --workers 2", where);
	thalweg_end(&worker, &said);
	expect(&said, 0);
	said_free(&said);
	end_with_digest(&master);
}

/* --- while it runs ---------------------------------------------------------------------------- */

/* GET a page of this machine; the answer is the caller's. */
static char *get(unsigned port, const char *page)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const size_t room = 1 << 20;
	char request[200], *text = malloc(room);
	size_t n = 0;
	ssize_t got;

	assert_non_null(text);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	snprintf(request, sizeof request,
		 "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", page);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	while (n + 1 < room && (got = read(fd, text + n, room - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = 0;
	close(fd);
	return text;
}

static void pages_and_signals(void **state)
{
	struct running master, worker[2];
	struct said said;
	char line[400], join[200], *page;
	unsigned port;
	json_t *r;

	thalweg_begin(
		&master, NULL,
		"serve %s --run %s/pages --listen 127.0.0.1:0 --http 127.0.0.1:0 --json --set "
		"train.epochs=1e6 --set checkpoint.every=1h",
		job, scratch());
	await_line(&master, "thalweg: http://127.0.0.1:", line, sizeof line);
	assert_int_equal(sscanf(line, "%u has /metrics", &port), 1);
	await_line(&master, "to join: thalweg ", join, sizeof join);
	page = get(port, "/health");
	has(page, " 200 ");
	has(page, "\"role\"");
	free(page);
	/* a port that is given must be free */
	snprintf(line, sizeof line, "%s --http %u", join, port);
	thalweg_refuses(NULL, "is in use", line);
	for (int k = 0; k < 2; k++)
		thalweg_begin(&worker[k], NULL, "%s --json", join);
	for (int left = 500; left; left--) {
		const char *steps;

		page = get(port, "/metrics");
		has(page, " 200 ");
		steps = strstr(page, "\nthalweg_samples_total");
		if (steps && strtod(strrchr(strtok((char *)steps, "\n"), ' '), NULL) > 0) {
			free(page);
			break;
		}
		free(page);
		assert_int_not_equal(left, 1);
		pause_ms(20);
	}
	/* one leaves, and the other goes on */
	kill(worker[0].pid, SIGHUP);
	thalweg_end(&worker[0], &said);
	expect(&said, 0);
	r = object_of(&said);
	assert_true(json_is_true(json_object_get(r, "left")));
	assert_true(number_of(r, "own_steps") > 0);
	json_decref(r);
	said_free(&said);
	kill(master.pid, SIGHUP);
	thalweg_end(&master, &said);
	expect(&said, 75);
	said_free(&said);
	/* there is no master any more: it waits, and may leave all the same */
	kill(worker[1].pid, SIGTERM);
	thalweg_end(&worker[1], &said);
	expect(&said, 0);
	said_free(&said);
}

/* `serve` is stopped in the middle and run again: the others come back by themselves. */
static void stopped_and_run_again_it_ends_the_same(void **state)
{
	static const char more[] = "--set train.epochs=200 --set train.evaluate=10";
	char join[400], line[100], wanted[64], *digest;
	struct running part[3];
	struct said said;

	digest = digest_of(thalweg(NULL, "sim %s --json %s", job, more));
	snprintf(wanted, sizeof wanted, "%s", digest);
	free(digest);
	serve(&part[0], "again", more, join);
	for (int k = 1; k < 3; k++)
		thalweg_begin(&part[k], NULL, "%s --json", join);
	await_line(&part[0], "run: epoch ", line, sizeof line);
	kill(part[0].pid, SIGTERM);
	thalweg_end(&part[0], &said);
	expect(&said, 75);
	has(said.out, "\"interrupted\": true");
	said_free(&said);
	thalweg_begin(&part[0], NULL, "serve %s --run %s/again --listen %s --http off --json %s",
		      job, scratch(), join + strlen("join "), more);
	for (int k = 0; k < 3; k++) {
		thalweg_end(&part[k], &said);
		digest_is(&said, wanted);
		said_free(&said);
	}
}

/* The first child of a process; 0: none. */
static pid_t child_of(pid_t parent)
{
	char path[80];
	int child = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
	f = fopen(path, "r");
	assert_non_null(f);
	if (fscanf(f, "%d", &child) != 1)
		child = 0;
	fclose(f);
	return child;
}

/* Everybody calls a server by the same name, and says a thing once. */
static void one_name_for_a_server(void **state)
{
	static const char more[] = "--set train.epochs=100000 --set cluster.servers=2 "
				   "--set cluster.shards=4 --set train.evaluate=10 "
				   "--set cluster.limit=4s --set cluster.suspect=2s";
	char join[400], line[200];
	struct running part[4];
	struct said said;

	serve(&part[0], "name", more, join);
	thalweg_begin(&part[1], NULL, "%s --as server", join);
	await_line(&part[0], "server 1 on 127.0.0.1 joined", line, sizeof line);
	await_line(&part[1], "server 1 on ", line, sizeof line);
	has(line, ": joined");
	for (int k = 2; k < 4; k++)
		thalweg_begin(&part[k], NULL, "%s --json", join);
	await_line(&part[0], "worker 0 on 127.0.0.1 joined", line, sizeof line);
	await_line(&part[0], "worker 1 on 127.0.0.1 joined", line, sizeof line);
	await_line(&part[0], "run: epoch ", line, sizeof line);
	kill(part[1].pid, SIGKILL);
	await_line(&part[0], "lost the connection to server 1 on 127.0.0.1: ", line, sizeof line);
	await_line(&part[0], "server 1 is gone, and its shards with it", line, sizeof line);
	await_line(&part[2], "lost the connection to server 1 on 127.0.0.1: ", line, sizeof line);
	thalweg_end(&part[1], &said);
	said_free(&said);
	kill(part[0].pid, SIGTERM);
	thalweg_end(&part[0], &said);
	expect(&said, 75);
	assert_null(strstr(said.err, "given up"));
	assert_null(strstr(said.err, "(node "));
	assert_null(strstr(said.err, "server 2"));
	said_free(&said);
	for (int k = 2; k < 4; k++) {
		kill(part[k].pid, SIGTERM);
		thalweg_end(&part[k], &said);
		expect(&said, 0);
		assert_null(strstr(said.err, "server 2"));
		said_free(&said);
	}
}

/* There is nothing to go on from, and it does not say so. */
static void stopped_before_anybody_came(void **state)
{
	struct running master;
	char join[400];
	struct said said;

	serve(&master, "nobody", "", join);
	kill(master.pid, SIGTERM);
	thalweg_end(&master, &said);
	expect(&said, 75);
	has(said.err, "interrupted before the first checkpoint; run the same command again");
	has(said.out, "\"loss\": null");
	said_free(&said);
	/* a second time, those who were there are waited for, and no longer */
	serve(&master, "nobody", "--set cluster.wait=1s", join);
	thalweg_end(&master, &said);
	expect(&said, 75);
	has(said.err, "only 0 of at least 1 workers joined in 1 s: stopping; use a longer");
	said_free(&said);
}

static void a_process_that_dies_is_named_and_the_others_go_on(void **state)
{
	struct running r;
	struct said said;
	char line[200];
	pid_t child, next;

	thalweg_begin(&r, NULL,
		      "train %s --run %s/dies --processes --json --set train.epochs=1e6 --set "
		      "train.evaluate=1",
		      job, scratch());
	await_line(&r, "run: epoch ", line, sizeof line);
	child = child_of(r.pid);
	assert_true(child > 0);
	kill(child, SIGKILL);
	await_line(&r, "worker process 1: process ", line, sizeof line);
	has(line, "was killed by signal 9");
	next = child_of(r.pid);
	assert_true(next > 0 && next != child);
	kill(r.pid, SIGINT);
	thalweg_end(&r, &said);
	expect(&said, 75);
	said_free(&said);
	assert_int_equal(kill(next, 0), -1);
	assert_int_equal(errno, ESRCH);
}

static void nothing_is_left_of_a_run_that_fails(void **state)
{
	const struct said *s;

	expect(thalweg(NULL, "train %s --run %s/twice --processes -q", job, scratch()), 0);
	s = thalweg(NULL, "train %s --run %s/twice --processes", job, scratch());
	expect(s, 2);
	has(s->err, "--again");
	/* one line: those who were started for nothing say nothing */
	assert_ptr_equal(strchr(s->err, '\n'), s->err + strlen(s->err) - 1);
}

/* Joiners hear what went wrong, and the same directory goes on with what the master advised. */
static void joiners_hear_why_a_run_failed(void **state)
{
	struct running part[3];
	struct said said;
	char join[400];

	serve(&part[0], "wild", "--set update.rate=1e6", join);
	for (int k = 1; k < 3; k++)
		thalweg_begin(&part[k], NULL, "%s --json", join);
	for (int k = 0; k < 3; k++) {
		thalweg_end(&part[k], &said);
		expect(&said, 1);
		if (k)
			has(said.err, "the run has failed on the master: training diverged after ");
		has(said.err, "update.rate=0.1 (it is 1e+06)");
		said_free(&said);
	}
	serve(&part[0], "wild", "--set update.rate=0.1", join);
	for (int k = 1; k < 3; k++)
		thalweg_begin(&part[k], NULL, "%s --json", join);
	for (int k = 0; k < 3; k++)
		end_with_digest(&part[k]); /* it started over: as if nothing had been */
}

static int prepare(void **state)
{
	const struct said *s;
	char *digest;

	if (scratch_make(state))
		return -1;
	snprintf(job, sizeof job, "%s", put_job(job_text));
	snprintf(key, sizeof key, "%s", path_of("a.key"));
	snprintf(other_key, sizeof other_key, "%s", path_of("b.key"));
	for (int k = 0; k < 2; k++) {
		s = thalweg(NULL, "key");
		put_text(k ? "b.key" : "a.key", s->out);
		chmod(k ? other_key : key, 0600);
	}
	digest = digest_of(thalweg(NULL, "sim %s --json", job));
	snprintf(expected, sizeof expected, "%s", digest);
	free(digest);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_one_machine_all_worlds_agree),
		cmocka_unit_test(without_servers_they_agree),
		cmocka_unit_test(neighbours_agree),
		cmocka_unit_test(encoded_contributions_agree),
		cmocka_unit_test(over_tcp_they_agree_in_the_clear),
		cmocka_unit_test(over_tcp_they_agree_with_a_key),
		cmocka_unit_test(one_command_starts_several_workers),
		cmocka_unit_test(ranks_find_each_other),
		cmocka_unit_test(without_a_key_nobody_listens_for_other_machines),
		cmocka_unit_test(requests_that_make_no_sense),
		cmocka_unit_test(where_there_are_servers_a_worker_does_not_listen),
		cmocka_unit_test(without_servers_a_worker_must_be_reachable),
		cmocka_unit_test(who_has_another_key_is_not_let_in),
		cmocka_unit_test(pages_and_signals),
		cmocka_unit_test(stopped_and_run_again_it_ends_the_same),
		cmocka_unit_test(one_name_for_a_server),
		cmocka_unit_test(stopped_before_anybody_came),
		cmocka_unit_test(a_process_that_dies_is_named_and_the_others_go_on),
		cmocka_unit_test(nothing_is_left_of_a_run_that_fails),
		cmocka_unit_test(joiners_hear_why_a_run_failed),
	};

	/* nothing of where this runs */
	for (const char *const *name =
		     (const char *const[]){ "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
					    "THALWEG_KEY", "THALWEG_KEY_FILE", "SLURM_JOB_NODELIST",
					    "SLURM_NODELIST", "SLURM_PROCID", NULL };
	     *name; name++)
		unsetenv(*name);
	return cmocka_run_group_tests(tests, prepare, scratch_remove);
}
