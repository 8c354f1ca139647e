/* SPDX-License-Identifier: Apache-2.0 */
/* test_processes.c - the world tcp over inherited pairs: the same bits as in the other worlds. */
/* labels: threads */
#include "base/machine/child.h"
#include "run/join.h"
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WORKERS      3
#define SERVERS_MOST 3

static const char text[] = "data: {source: none, samples: 480, batch: 4}\n"
			   "model: {quadratic: {dimension: 100, curvature: [0.1, 1], noise: 0.1}}\n"
			   "train: {epochs: 3, seed: 5}\n"
			   "update: {rule: momentum, rate: 0.05}\n"
			   "cluster: {workers: 3, shards: 4, wait: 20s}\n"
			   "checkpoint: {cut: running, every: 0s}\n"
			   "strategy: {gate: bsp}\n";

/* Further fields of the next jobs: where workers step by themselves, and average their state. */
static const char *const averages[] = { "strategy.name=averaging", "strategy.push=4",
					"strategy.average_state=true" };
static size_t further;

static struct tw_job *read_job(enum tw_world_kind world, uint32_t servers, const char *gate)
{
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	char count[40], named[40];
	const char *set[] = { count, named, averages[0], averages[1], averages[2] };

	snprintf(count, sizeof count, "cluster.servers=%u", servers);
	snprintf(named, sizeof named, "strategy.gate=%s", gate);
	if (tw_job_read_text("test", text, strlen(text), set, 2 + further, NULL, world, &job,
			     &why) != TW_OK)
		fail_msg("%s", why.text);
	return job;
}

static json_t *run_in(enum tw_world_kind world, const char *gate)
{
	struct tw_job *job = read_job(world, 1, gate);
	struct tw_error why = { 0 };
	json_t *result = NULL;

	if (tw_run(&(struct tw_run_request){ 0 }, job, &result, &why) != TW_OK)
		fail_msg("%s", why.text);
	tw_job_free(job);
	return result;
}

static const struct tw_log *loud(void)
{
	static const struct tw_log log = { tw_log_stderr, NULL, TW_INFO };

	return getenv("TW_LOUD") ? &log : NULL;
}

/* A joiner in a child: ends with its status. */
static struct tw_child child(struct tw_job *job, bool server, uint32_t wish, int master_fd,
			     const struct tw_tcp_route *route, size_t routes, const int *accepted,
			     size_t accepts)
{
	struct tw_child one;
	const pid_t pid = tw_child_fork(&one, &(struct tw_child_how){ .death = SIGKILL });
	struct tw_error why = { 0 };
	json_t *result = NULL;
	struct tw_tcp_setup net;
	enum tw_status status;

	if (pid)
		return one;
	tw_tcp_setup_init(&net);
	net.accepted = accepted;
	net.accepts = accepts;
	status = tw_join(&(struct tw_join_request){ .server = server,
						    .net = &net,
						    .log = loud(),
						    .job = job,
						    .master_fd = master_fd,
						    .route = route,
						    .routes = routes,
						    .wish = wish },
			 &result, &why);
	if (status != TW_OK)
		fprintf(stderr, "child: %s\n", why.text);
	json_decref(result);
	_exit(status == TW_OK ? 0 : 1);
}

static json_t *run_in_processes(uint32_t servers, const char *gate)
{
	struct tw_job *job = read_job(TW_WORLD_TCP, servers, gate);
	int up[SERVERS_MOST + WORKERS][2], link[WORKERS][SERVERS_MOST][2];
	struct tw_child joiner[SERVERS_MOST + WORKERS];
	struct tw_error why = { 0 };
	json_t *result = NULL;
	int accepted[SERVERS_MOST + WORKERS];
	const uint32_t joiners = servers - 1 + WORKERS;
	struct tw_tcp_setup net;
	enum tw_status status;

	for (uint32_t k = 0; k < joiners; k++)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, up[k]), 0);
	for (uint32_t w = 0; w < WORKERS; w++)
		for (uint32_t s = 0; s + 1 < servers; s++)
			assert_int_equal(
				socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link[w][s]), 0);
	for (uint32_t s = 0; s + 1 < servers; s++) {
		int in[WORKERS];

		for (uint32_t w = 0; w < WORKERS; w++)
			in[w] = link[w][s][1];
		joiner[s] = child(job, true, s + 2, up[s][1], NULL, 0, in, WORKERS);
	}
	for (uint32_t w = 0; w < WORKERS; w++) {
		struct tw_tcp_route route[SERVERS_MOST];

		for (uint32_t s = 0; s + 1 < servers; s++)
			route[s] = (struct tw_tcp_route){ TW_SERVER, s + 2, link[w][s][0] };
		joiner[servers - 1 + w] = child(job, false, TW_NODE_NEW, up[servers - 1 + w][1],
						route, servers - 1, NULL, 0);
	}
	for (uint32_t w = 0; w < WORKERS; w++)
		for (uint32_t s = 0; s + 1 < servers; s++) {
			close(link[w][s][0]);
			close(link[w][s][1]);
		}
	for (uint32_t k = 0; k < joiners; k++) {
		close(up[k][1]);
		accepted[k] = up[k][0];
	}
	tw_tcp_setup_init(&net);
	net.accepted = accepted;
	net.accepts = joiners;
	status = tw_run(&(struct tw_run_request){ .net = &net, .log = loud() }, job, &result, &why);
	for (uint32_t k = 0; k < joiners; k++) {
		assert_true(tw_child_wait(&joiner[k], INFINITY));
		assert_int_equal(joiner[k].code, 0);
	}
	if (status != TW_OK)
		fail_msg("%s", why.text);
	tw_tcp_setup_release(&net);
	tw_job_free(job);
	return result;
}

static const char *digest(const json_t *result)
{
	return json_string_value(json_object_get(result, "parameters_digest"));
}

static void bsp_gives_the_same_bits_everywhere(void **state)
{
	json_t *sim = run_in(TW_WORLD_SIM, "bsp");
	json_t *threads = run_in(TW_WORLD_THREADS, "bsp");

	(void)state;
	assert_string_equal(digest(sim), digest(threads));
	for (uint32_t servers = 1; servers <= SERVERS_MOST; servers += 2) {
		json_t *here = run_in_processes(servers, "bsp");

		assert_string_equal(digest(here), digest(sim));
		assert_int_equal(json_integer_value(json_object_get(here, "samples")), 1440);
		json_decref(here);
	}
	json_decref(sim);
	json_decref(threads);
}

static void averaged_states_give_the_same_bits_everywhere(void **state)
{
	json_t *without = run_in(TW_WORLD_SIM, "bsp");
	json_t *with;

	further = 3;
	bsp_gives_the_same_bits_everywhere(state);
	with = run_in(TW_WORLD_SIM, "bsp");
	further = 0;
	assert_string_not_equal(digest(with), digest(without));
	json_decref(without);
	json_decref(with);
}

static void async_takes_every_sample_once(void **state)
{
	json_t *here = run_in_processes(3, "async");

	(void)state;
	assert_int_equal(json_integer_value(json_object_get(here, "samples")), 1440);
	assert_int_equal(json_integer_value(json_object_get(here, "repeated")), 0);
	assert_int_equal(json_integer_value(json_object_get(here, "dropped")), 0);
	json_decref(here);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bsp_gives_the_same_bits_everywhere),
		cmocka_unit_test(averaged_states_give_the_same_bits_everywhere),
		cmocka_unit_test(async_takes_every_sample_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
