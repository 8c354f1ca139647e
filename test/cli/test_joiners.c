/* SPDX-License-Identifier: Apache-2.0 */
/* test_joiners.c - what a process that joins opens, what it is given and what it keeps: real
 * processes with a home of their own. */
/* labels: waits */
#include "cli/spawn.h"
#include "kit/watch.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static char here[4096], key[300];

/* --- tools ------------------------------------------------------------------------------------ */

static uint8_t *bytes_of(const char *name, size_t *n)
{
	FILE *f = fopen(path_of(name), "rb");
	uint8_t *bytes = malloc(1 << 20);

	assert_true(f && bytes);
	*n = fread(bytes, 1, 1 << 20, f);
	fclose(f);
	return bytes;
}

static void same_files(const char *a, const char *b)
{
	size_t n, m;
	uint8_t *one = bytes_of(a, &n), *other = bytes_of(b, &m);

	assert_true(n > 100);
	assert_int_equal(n, m);
	assert_memory_equal(one, other, n);
	free(one);
	free(other);
}

/* A folder of a user who has nothing yet; further processes are started in it. */
static void enter_home(const char *name, char *environment, size_t room)
{
	const char *path = path_of(name);

	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chdir(path), 0);
	snprintf(environment, room, "HOME=%s XDG_CACHE_HOME=%s/cache", path, path);
}

static void go_back(void)
{
	assert_int_equal(chdir(here), 0);
}

static void serve(struct running *r, const char *job, const char *run, const char *more, char *join)
{
	thalweg_begin(r, NULL,
		      "serve %s/%s --run %s/%s --listen 127.0.0.1:0 --http off --json --key %s %s",
		      scratch(), job, scratch(), run, key, more);
	await_line(r, "to join: thalweg ", join, 400);
}

/* --- nothing but the key ---------------------------------------------------------------------- */

#define DATA "data:    {source: csv, file: points.csv, label: side, batch: 8}\n"
#define REST                                                                                       \
	"train:   {epochs: 3, seed: 1}\n"                                                          \
	"update:  {rate: 0.05}\n"

/* A worker and a server that have no file of the run: data, names, first values and at last the
 * model come from the master, and the file is what `export` writes, byte for byte. */
static void nothing_but_the_key(void **state)
{
	struct running part[3];
	struct said said;
	char join[400], environment[3][700], *digest[3];
	static const char *const name[] = { "", "worker-home", "server-home" };

	serve(&part[0], "points/job.yaml", "bare", "--set cluster.servers=2", join);
	for (int k = 1; k < 3; k++) {
		enter_home(name[k], environment[k], sizeof environment[k]);
		thalweg_begin(&part[k], environment[k], "%s --json --save kept.safetensors%s", join,
			      k == 2 ? " --as server" : "");
		go_back();
	}
	for (int k = 0; k < 3; k++) {
		thalweg_end(&part[k], &said);
		expect(&said, 0);
		digest[k] = digest_of(&said);
		if (k > 0) {
			has(said.err, "the data set was received");
			has(said.err, "the model was saved: kept.safetensors");
			has(said.out, "\"saved\": \"kept.safetensors\"");
		}
		said_free(&said);
	}
	assert_string_equal(digest[0], digest[1]);
	assert_string_equal(digest[0], digest[2]);
	expect(thalweg(NULL, "export %s/bare --to %s/bare.safetensors", scratch(), scratch()), 0);
	same_files("bare.safetensors", "worker-home/kept.safetensors");
	same_files("bare.safetensors", "server-home/kept.safetensors");
	/* and predicts the same bits, without any file of the training */
	put_text("rows.csv", "y,x\n1,2\n3.5,16\n12,29.25\n0,0\n");
	expect(thalweg(NULL, "predict %s/bare --data %s/rows.csv --to %s/master.csv", scratch(),
		       scratch(), scratch()),
	       0);
	expect(thalweg(NULL,
		       "predict %s/worker-home/kept.safetensors --data %s/rows.csv --to "
		       "%s/worker.csv",
		       scratch(), scratch(), scratch()),
	       0);
	same_files("master.csv", "worker.csv");
	{
		size_t n;
		char *text = (char *)bytes_of("worker.csv", &n);

		text[n] = 0;
		has(text, "right");
		has(text, "left");
		free(text);
	}
	for (int k = 0; k < 3; k++)
		free(digest[k]);
}

/* --- paths ------------------------------------------------------------------------------------ */

/* The job's paths name files that a joiner has, too: a relative path begins where it stands. */
static void what_the_master_names_stays_closed(void **state)
{
	static const struct {
		const char *flags, *says;
		bool opened;
	} cases[] = {
		{ "", "the data set was received", false },
		{ "", "the data set is in the cache", false },
		{ "--data away", "the data set that the job names is on this machine", false },
		{ "--data sets", "the data set is in the cache", true }, /* others: not used */
		{ "--allow-path", "the data set is in the cache", true },
	};
	char environment[700], path[400], join[400], run[40];
	int watch, sets;

	enter_home("victim", environment, sizeof environment);
	snprintf(path, sizeof path, "%s", path_of("victim/away"));
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof path, "%s", path_of("victim/sets"));
	assert_int_equal(mkdir(path, 0700), 0);
	sets = watch_on(path, READING);
	put_text("victim/points.csv", "x,y,side\n1,2,secret\n3,4,open\n5,6,open\n7,8,secret\n");
	put_text("victim/sets/points.csv", "x,y,side\n1,2,secret\n3,4,open\n5,6,open\n");
	{
		size_t n;
		uint8_t *bytes = bytes_of("points/points.csv", &n);

		put("victim/away/points.csv", bytes, n);
		free(bytes);
	}
	was_touched(sets);
	snprintf(path, sizeof path, "%s", path_of("victim"));
	watch = watch_on(path, READING);
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct running master, worker;
		struct said said;
		bool touched;

		snprintf(run, sizeof run, "named-%zu", k);
		serve(&master, "points/job.yaml", run, "", join);
		was_touched(watch);
		thalweg_begin(&worker, environment, "%s %s", join, cases[k].flags);
		thalweg_end(&worker, &said);
		expect(&said, 0);
		has(said.err, cases[k].says);
		said_free(&said);
		thalweg_end(&master, &said);
		expect(&said, 0);
		said_free(&said);
		touched = was_touched(watch);
		if (strstr(cases[k].flags, "sets"))
			touched = was_touched(sets);
		else if (strstr(cases[k].flags, "away"))
			touched = false; /* its folder was opened, as it should be */
		if (touched != cases[k].opened)
			fail_msg("%zu: %s", k, cases[k].flags);
	}
	close(watch);
	close(sets);
	go_back();
}

/* --- what is not saved ------------------------------------------------------------------------ */

/* Who leaves before the end, and whose run fails, has nothing to save and is told so. */
static void what_is_not_over_is_not_saved(void **state)
{
	struct running master, worker;
	struct said said;
	char join[400], environment[700], line[200];

	enter_home("leaver", environment, sizeof environment);
	serve(&master, "points/job.yaml", "left", "--set train.epochs=1000000", join);
	thalweg_begin(&worker, environment, "%s --save kept.safetensors", join);
	await_line(&worker, ": joined", line, sizeof line);
	pause_ms(200);
	kill(worker.pid, SIGTERM);
	thalweg_end(&worker, &said);
	expect(&said, 0);
	has(said.err,
	    "--save: there is nothing to save: this process left before the run was over");
	has(said.err, "thalweg export");
	said_free(&said);
	kill(master.pid, SIGTERM);
	thalweg_end(&master, &said);
	expect(&said, 75);
	said_free(&said);
	assert_false(exists("leaver/kept.safetensors"));

	serve(&master, "points/job.yaml", "failed", "--set update.rate=1e6", join);
	thalweg_begin(&worker, environment, "%s --save kept.safetensors", join);
	thalweg_end(&worker, &said);
	assert_int_equal(said.code, 1);
	has(said.err, "--save: there is nothing to save: the run did not finish here");
	said_free(&said);
	thalweg_end(&master, &said);
	assert_int_equal(said.code, 1);
	said_free(&said);
	assert_false(exists("leaver/kept.safetensors"));
	go_back();
}

/* --- refusals --------------------------------------------------------------------------------- */

/* Before anybody is dialled: there is no master at port 1. */
static void bad_paths_are_refused_at_once(void **state)
{
	const char *s = scratch();
	char line[800];

	snprintf(line, sizeof line, "join 127.0.0.1:1 --save %s/points/job.yaml", s);
	thalweg_refuses(NULL, "is there already; name a new file", line);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --save %s/points", s);
	thalweg_refuses(NULL, "is a directory; name a new file", line);
	assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --save %s/pipe", s);
	thalweg_refuses(NULL, "is there already; name a new file", line);
	assert_int_equal(symlink("/nowhere/at/all", path_of("dangling")), 0);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --save %s/dangling", s);
	thalweg_refuses(NULL, "is there already; name a new file", line);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --save %s/no/such/place", s);
	thalweg_refuses(NULL, "name a file in a directory that is there", line);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --save %s/fresh/", s);
	thalweg_refuses(NULL, "name a file in a directory that is there", line);
	if (geteuid() != 0) {
		assert_int_equal(mkdir(path_of("closed"), 0500), 0);
		snprintf(line, sizeof line, "join 127.0.0.1:1 --save %s/closed/x", s);
		thalweg_refuses(NULL, "name a file where you may write", line);
	}
	snprintf(line, sizeof line, "join 127.0.0.1:1 --workers 2 --save %s/fresh", s);
	thalweg_refuses(NULL, "2 processes cannot write one file", line);
	snprintf(line, sizeof line, "join --save %s/fresh", s);
	thalweg_refuses("RANK=1 MASTER_ADDR=127.0.0.1", "--save needs ADDRESS", line);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --data %s/points/job.yaml", s);
	thalweg_refuses(NULL, "is not a directory; name one that has", line);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --data %s/nowhere", s);
	thalweg_refuses(NULL, "--data: ", line);
	snprintf(line, sizeof line, "join 127.0.0.1:1 --data %s --allow-path", s);
	thalweg_refuses(NULL, "--data and --allow-path cannot be combined", line);
	assert_false(exists("fresh"));
}

static int prepare(void **state)
{
	char rows[8000] = "x,y,side\n";
	size_t at = strlen(rows);
	const struct said *s;

	if (scratch_make(state) || !getcwd(here, sizeof here))
		return -1;
	for (int k = 0; k < 200; k++)
		at += (size_t)snprintf(rows + at, sizeof rows - at, "%d.5,%d,%s\n", k * 7 % 31,
				       k * 5 % 17, k * 7 % 31 + k * 5 % 17 > 23 ? "right" : "left");
	mkdir(path_of("points"), 0700);
	put("points/points.csv", rows, at);
	put_text("points/first.yaml", DATA "model: {layers: [linear 6, relu, linear 2]}\n" REST);
	put_text("points/job.yaml", DATA
		 "model: {layers: [linear 6, relu, linear 2], weights: first.safetensors}\n" REST
		 "cluster: {workers: 1}\n");
	expect(thalweg(NULL, "train %s/points/first.yaml --run %s/first", scratch(), scratch()), 0);
	expect(thalweg(NULL, "export %s/first --to %s/points/first.safetensors", scratch(),
		       scratch()),
	       0);
	s = thalweg(NULL, "key");
	put_text("a.key", s->out);
	snprintf(key, sizeof key, "%s", path_of("a.key"));
	return chmod(key, 0600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_but_the_key),
		cmocka_unit_test(what_the_master_names_stays_closed),
		cmocka_unit_test(what_is_not_over_is_not_saved),
		cmocka_unit_test(bad_paths_are_refused_at_once),
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
