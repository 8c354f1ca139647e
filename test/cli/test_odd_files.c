/* SPDX-License-Identifier: Apache-2.0 */
/* test_odd_files.c - a FIFO, a directory, a socket and a device wherever a regular file is meant:
 * refused with a sentence and exit code 2, at once. */
#include "cli/spawn.h"
#include "kit/authority.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define SECONDS 5.0 /* the longest that a refusal may take; a hang ends after 120 */

static const char job[] =
	"model: {quadratic: {dimension: 50, curvature: [0.1, 1], noise: 0.1, start: 1}}\n"
	"data: {source: none, samples: 64, batch: 1}\n"
	"train: {epochs: 1, seed: 3}\n"
	"update: {rate: 0.05}\n"
	"cluster: {workers: 2}\n"
	"strategy: asgd\n"
	"checkpoint: {every: 1s}\n";
static const char table[] = "model: {layers: [linear 2]}\nloss: cross-entropy\n"
			    "data: {source: csv, file: odd.csv, batch: 2}\n"
			    "train: {epochs: 1}\n"
			    "update: {rate: 0.05}\n"
			    "cluster: {workers: 1}\n"
			    "strategy: asgd\n";

/* --- things that are not regular files --- */

static void make_fifo(const char *path)
{
	assert_int_equal(mkfifo(path, 0600), 0);
}

static void make_folder(const char *path)
{
	assert_int_equal(mkdir(path, 0700), 0);
}

static void make_socket(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
	close(fd);
}

static void make_device(const char *path)
{
	assert_int_equal(symlink("/dev/zero", path), 0);
}

static const struct thing {
	const char *says;
	void (*make)(const char *path);
	const char *below; /* what is said of it in a run directory, if that differs */
} things[] = {
	{ "it is a FIFO, not a regular file", make_fifo, NULL },
	{ "it is a directory, not a regular file", make_folder, NULL },
	{ "it is a socket, not a regular file", make_socket, NULL },
	{ "it is a device, not a regular file", make_device,
	  "it is a symbolic link, which is not followed" },
};

static const char *says(const struct thing *t, const char *name)
{
	return t->below && strchr(name, '/') ? t->below : t->says;
}

/* --- places --- */

static void clear(const char *name)
{
	remove(path_of(name));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `line`, in which %s stands for the path, with each of the things at `name`. */
static void refused(const char *name, const char *line)
{
	for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
		const double began = now();
		const struct said *s;
		char text[1000];

		clear(name);
		things[i].make(path_of(name));
		snprintf(text, sizeof text, "%s", line);
		s = thalweg(NULL, text, path_of(name));
		if (s->code != 2 || !strstr(s->err, says(&things[i], name)))
			fail_msg("`%s`, %s: %d, %s", line, things[i].says, s->code, s->err);
		assert_true(now() - began < SECONDS);
		clear(name);
	}
}

static void logs_and_traces(void **state)
{
	char line[300];

	put_job(job);
	snprintf(line, sizeof line, "sim %s --log %%s", path_of("job.yaml"));
	refused("odd", line);
	snprintf(line, sizeof line, "train %s --run %s --log %%s", path_of("job.yaml"),
		 path_of("run"));
	refused("odd", line);
	snprintf(line, sizeof line, "sim %s --trace %%s", path_of("job.yaml"));
	refused("odd", line);
	refused("odd", "join 127.0.0.1:1 --log %s");
}

/* What people write to: these are taken on purpose. */
static void standard_streams_take_a_log(void **state)
{
	const struct said *s;

	put_job(job);
	s = thalweg(NULL, "sim %s --log /dev/stdout", path_of("job.yaml"));
	expect(s, 0);
	has(s->out, "\"event\":\"result\"");
	s = thalweg(NULL, "sim %s --log /dev/stderr", path_of("job.yaml"));
	expect(s, 0);
	has(s->err, "\"event\":\"result\"");
	expect(thalweg(NULL, "sim %s --log /dev/null --trace /dev/null", path_of("job.yaml")), 0);
	s = thalweg(NULL, "sim %s --quiet --trace /dev/stdout", path_of("job.yaml"));
	expect(s, 0);
	has(s->out, "\"traceEvents\"");
	s = thalweg(job, "sim /dev/stdin --log /dev/fd/1");
	expect(s, 0);
	has(s->out, "\"event\":\"result\"");
}

static void job_files(void **state)
{
	refused("odd", "sim %s");
	refused("odd", "train %s");
	refused("odd", "serve %s");
	expect(thalweg(job, "sim /dev/stdin"), 0);
	expect(thalweg(job, "sim /dev/fd/0"), 0);
}

static void keys_and_certificates(void **state)
{
	char line[400];

	put_job(job);
	snprintf(line, sizeof line, "serve %s --run %s --key %%s", path_of("job.yaml"),
		 path_of("run"));
	refused("odd", line);
	snprintf(line, sizeof line,
		 "serve %s --run %s --certificate %%s --certificate-key x --authority x",
		 path_of("job.yaml"), path_of("run"));
	refused("odd", line);
	refused("odd", "join 127.0.0.1:1 --key %s");
}

/* With certificates of our own, the two other files. */
static void private_keys_and_authorities(void **state)
{
	char line[600];
	struct authority own;
	struct papers paper;

	put_job(job);
	authority_make(&own, "own");
	authority_write(&own, &own, scratch(), "member", "DNS:localhost", -60, 600, &paper);
	authority_release(&own);
	snprintf(line, sizeof line,
		 "serve %s --run %s --certificate %s --certificate-key %%s --authority %s",
		 path_of("job.yaml"), path_of("run"), paper.certificate, paper.authority);
	refused("odd", line);
	snprintf(line, sizeof line,
		 "serve %s --run %s --certificate %s --certificate-key %s --authority %%s",
		 path_of("job.yaml"), path_of("run"), paper.certificate, paper.private_key);
	refused("odd", line);
}

static void files_of_a_run(void **state)
{
	char line[300];

	put_job(job);
	snprintf(line, sizeof line, "sim %s --run %s", path_of("job.yaml"), path_of("odd-run"));
	expect(thalweg(NULL, "%s --checkpoints 1", line), 75);
	clear("odd-run/lock");
	refused("odd-run/lock", line);
	clear("odd-run/log.jsonl");
	refused("odd-run/log.jsonl", line);
	clear("odd-run/job.yaml");
	refused("odd-run/job.yaml", line);
	snprintf(line, sizeof line, "sim %s --run %%s", path_of("job.yaml"));
	clear("odd");
	make_fifo(path_of("odd"));
	expect(thalweg(NULL, line, path_of("odd")), 2);
	clear("odd");
}

/* A checkpoint whose files are odd is passed over like any damaged one. */
static void files_of_a_checkpoint(void **state)
{
	static const char *const names[] = { "DONE", "manifest.json" };

	put_job(job);
	expect(thalweg(NULL, "sim %s --run %s --set checkpoint.every=100h", path_of("job.yaml"),
		       path_of("cut-run")),
	       0);
	for (size_t k = 0; k < 2; k++) {
		char from[200], to[200], name[100];

		snprintf(name, sizeof name, "cut-run/ckpt-1/%s", names[k]);
		snprintf(from, sizeof from, "%s", path_of(name));
		snprintf(to, sizeof to, "%s", path_of("kept"));
		assert_int_equal(rename(from, to), 0);
		for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
			const double began = now();
			const struct said *s;

			things[i].make(from);
			s = thalweg(NULL, "export %s --to %s", path_of("cut-run"),
				    path_of("x.safetensors"));
			if (s->code == 0 || !strstr(s->err, says(&things[i], name)))
				fail_msg("%s: %d, %s", things[i].says, s->code, s->err);
			assert_true(now() - began < SECONDS);
			remove(from);
		}
		assert_int_equal(rename(to, from), 0);
	}
	expect(thalweg(NULL, "export %s --to %s", path_of("cut-run"), path_of("x.safetensors")), 0);
}

static void data_and_weights(void **state)
{
	char line[300];

	put("table.yaml", table, sizeof table - 1);
	snprintf(line, sizeof line, "sim %s", path_of("table.yaml"));
	refused("odd.csv", line);
	put_text("odd.csv", "a,b\n1,0\n2,1\n3,0\n4,1\n");
	for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
		clear("odd");
		things[i].make(path_of("odd"));
		expect(thalweg(NULL, "sim %s --set model.weights=%s", path_of("table.yaml"),
			       path_of("odd")),
		       2);
		clear("odd");
	}
}

/* Renaming over a device would put an end to it. */
static void results_do_not_replace_devices(void **state)
{
	char line[300];

	put_job(job);
	expect(thalweg(NULL, "sim %s --run %s", path_of("job.yaml"), path_of("kept-run")), 0);
	snprintf(line, sizeof line, "export %s --force --to %%s.safetensors", path_of("kept-run"));
	for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
		const struct said *s;

		if (things[i].make == make_folder)
			continue; /* has a sentence of its own */
		things[i].make(path_of("odd.safetensors"));
		s = thalweg(NULL, line, path_of("odd"));
		if (s->code != 2 || !strstr(s->err, things[i].says))
			fail_msg("%s: %d, %s", things[i].says, s->code, s->err);
		clear("odd.safetensors");
	}
}

static void models_to_look_at(void **state)
{
	static const char *const lines[] = { "eval %s", "inspect %s", "export %s --to %s" };

	for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
		for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
			const double began = now();
			const struct said *s;

			clear("odd");
			things[i].make(path_of("odd"));
			s = thalweg(NULL, lines[k], path_of("odd"), path_of("x.safetensors"));
			if (s->code != 2)
				fail_msg("`%s`, %s: %d, %s", lines[k], things[i].says, s->code,
					 s->err);
			assert_true(strlen(s->err) > 20 && now() - began < SECONDS);
			clear("odd");
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logs_and_traces),
		cmocka_unit_test(standard_streams_take_a_log),
		cmocka_unit_test(job_files),
		cmocka_unit_test(keys_and_certificates),
		cmocka_unit_test(private_keys_and_authorities),
		cmocka_unit_test(files_of_a_run),
		cmocka_unit_test(files_of_a_checkpoint),
		cmocka_unit_test(data_and_weights),
		cmocka_unit_test(results_do_not_replace_devices),
		cmocka_unit_test(models_to_look_at),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
