/* SPDX-License-Identifier: Apache-2.0 */
/* test_links.c - symbolic and hard links wherever a run directory has a name: nothing outside of it
 * is written, removed or made, and the program ends with 0 or 2.
 *
 * The names are those of directories that real runs made, so that new ones are tried unasked. */
#include "cli/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define NAMES 100

static const char job[] =
	"model: {quadratic: {dimension: 50, curvature: [0.1, 1], noise: 0.1, start: 1}}\n"
	"data: {source: none, samples: 64, batch: 1}\n"
	"train: {epochs: 2, seed: 3}\n"
	"update: {rate: 0.05}\n"
	"cluster: {workers: 2}\n"
	"strategy: dana-slim\n"
	"checkpoint: {every: 3s, keep: 2}\n";

/* --- trees --- */

/* Everything below a folder, with contents, as a text. */
static void describe(const char *path, const char *name, FILE *out)
{
	struct dirent **list = NULL;
	char sub[2000], bytes[4096];
	const int n = scandir(path, &list, NULL, alphasort);
	struct stat st;

	assert_true(n >= 0);
	for (int k = 0; k < n; k++) {
		const char *e = list[k]->d_name;
		FILE *f;
		size_t got;

		snprintf(sub, sizeof sub, "%s/%s", path, e);
		assert_int_equal(lstat(sub, &st), 0);
		if (strcmp(e, ".") != 0 && strcmp(e, "..") != 0) {
			fprintf(out, "%s/%s %o %lld\n", name, e, st.st_mode, (long long)st.st_size);
			if (S_ISDIR(st.st_mode))
				describe(sub, e, out);
			if (S_ISREG(st.st_mode) && (f = fopen(sub, "rb"))) {
				while ((got = fread(bytes, 1, sizeof bytes, f)) > 0)
					fwrite(bytes, 1, got, out);
				fclose(f);
			}
		}
		free(list[k]);
	}
	free(list);
}

static char *described(const char *path)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	describe(path, "", f);
	fclose(f);
	return text;
}

static void copy_file(const char *from, const char *to)
{
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	char bytes[4096];
	size_t n;

	assert_true(in && out);
	while ((n = fread(bytes, 1, sizeof bytes, in)) > 0)
		fwrite(bytes, 1, n, out);
	fclose(in);
	fclose(out);
}

static void copy_tree(const char *from, const char *to)
{
	DIR *d = opendir(from);
	const struct dirent *e;
	struct stat st;

	assert_non_null(d);
	assert_int_equal(mkdir(to, 0700), 0);
	while ((e = readdir(d))) {
		char a[1000], b[1000];

		snprintf(a, sizeof a, "%s/%s", from, e->d_name);
		snprintf(b, sizeof b, "%s/%s", to, e->d_name);
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		assert_int_equal(lstat(a, &st), 0);
		if (S_ISDIR(st.st_mode))
			copy_tree(a, b);
		else
			copy_file(a, b);
	}
	closedir(d);
}

/* The names of a tree, such as "ckpt-1/DONE", that are not in the list yet. */
struct names {
	char at[NAMES][120];
	size_t n;
};

static void add_name(struct names *l, const char *name)
{
	for (size_t k = 0; k < l->n; k++)
		if (strcmp(l->at[k], name) == 0)
			return;
	assert_true(l->n < NAMES);
	snprintf(l->at[l->n++], sizeof l->at[0], "%s", name);
}

static void add_names(struct names *l, const char *path, const char *before)
{
	DIR *d = opendir(path);
	const struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d))) {
		char name[300], sub[1000];
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(name, sizeof name, "%s%s", before, e->d_name);
		snprintf(sub, sizeof sub, "%s/%s", path, e->d_name);
		add_name(l, name);
		assert_int_equal(lstat(sub, &st), 0);
		strcat(name, "/");
		if (S_ISDIR(st.st_mode))
			add_names(l, sub, name);
	}
	closedir(d);
}

/* --- what is outside --- */

static const struct kind {
	const char *what, *target; /* below the scratch folder, or anywhere */
	bool hard;
} kinds[] = {
	{ "a link to a file", "outside/thesis.tex", false },
	{ "a link to a folder", "outside", false },
	{ "a link to nothing", "outside/new", false },
	{ "a link to itself", NULL, false },
	{ "a link to a FIFO", "outside/fifo", false },
	{ "a link to a device", "/dev/zero", false },
	{ "a hard link to a file", "outside/thesis.tex", true },
};
#define KINDS (sizeof kinds / sizeof *kinds)

static void make_outside(void)
{
	static const char *const files[] = { "thesis.tex", "DONE",        "manifest.json",
					     "job.yaml",   "result.json", "log.jsonl",
					     "lock",       "cells/x",     "master.safetensors" };

	mkdir(path_of("outside"), 0700);
	mkdir(path_of("outside/cells"), 0700);
	mkfifo(path_of("outside/fifo"), 0600);
	for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
		char name[60];

		snprintf(name, sizeof name, "outside/%s", files[k]);
		put_text(name, "years of work\n");
	}
}

static void place(const struct kind *k, const char *name)
{
	const char *path = path_of(name);
	const char *to = !k->target ? path : k->target[0] == '/' ? k->target : path_of(k->target);

	folder_remove(path);
	if (k->hard)
		assert_int_equal(link(to, path), 0);
	else
		assert_int_equal(symlink(to, path), 0);
}

/* The command must end with 0 or 2 and leave alone what is outside. */
static void harmless(const char *before, const char *about, const char *line)
{
	const struct said *s = thalweg(NULL, "%s", line);
	char *after = described(path_of("outside"));

	if (s->code != 0 && s->code != 2)
		fail_msg("%s, `%s`: %d, %s", about, line, s->code, s->err);
	if (s->code == 2 && strlen(s->err) < 20)
		fail_msg("%s, `%s`: no sentence", about, line);
	if (strcmp(before, after) != 0)
		fail_msg("%s, `%s`: changed what is outside:\n%s", about, line, after);
	free(after);
}

/* "@" is the copy, "%" the scratch folder. */
static void spell_out(const char *line, char *out, size_t room)
{
	size_t at = 0;

	for (; *line; line++)
		at += (size_t)snprintf(out + at, room - at, "%s",
				       *line == '@'   ? path_of("copy")
				       : *line == '%' ? scratch()
						      : (char[]){ *line, '\0' });
}

/* Every kind of link in place of every name, in a copy of `from` (NULL: in an empty directory), for
 * one of the commands, which take turns. */
static void every_link(const char *from, const struct names *names, const char *const *lines,
		       size_t count)
{
	char *before = described(path_of("outside"));

	for (size_t n = 0; n < names->n; n++)
		for (size_t k = 0; k < KINDS; k++) {
			char about[300], text[2000], name[200];

			folder_remove(path_of("copy"));
			if (from)
				copy_tree(path_of(from), path_of("copy"));
			else
				mkdir(path_of("copy"), 0700);
			snprintf(name, sizeof name, "copy/%s", names->at[n]);
			place(&kinds[k], name);
			snprintf(about, sizeof about, "%s at %s", kinds[k].what, names->at[n]);
			spell_out(lines[(n + k) % count], text, sizeof text);
			harmless(before, about, text);
		}
	free(before);
}

/* --- tests --- */

/* The finding: a run removed every file of a folder that a link in its directory named. */
static void a_link_deletes_nothing(void **state)
{
	char *before = described(path_of("outside")), *after;
	char line[600];

	put_job(job);
	mkdir(path_of("first"), 0700);
	assert_int_equal(symlink(path_of("outside"), path_of("first/ckpt-1")), 0);
	snprintf(line, sizeof line, "train %s --run %s --set checkpoint.every=1ms",
		 path_of("job.yaml"), path_of("first"));
	expect(thalweg(NULL, "%s", line), 0);
	after = described(path_of("outside"));
	assert_string_equal(before, after);
	assert_true(exists("first/ckpt-1/DONE") && exists("first/ckpt-1.kept/thesis.tex"));
	free(after);
	free(before);
}

/* Directories of real runs: interrupted, finished, of processes. */
static void links_in_real_runs(void **state)
{
	static const char *const lines[] = { "sim %/job.yaml --run @",
					     "sim %/job.yaml --run @ --again",
					     "export @ --to %/x.safetensors --force" };
	static const char *const short_lived[] = { "ckpt-1.new",     "ckpt-2.new",  "ckpt-1.old",
						   "ckpt-2.refused", "result.json", "diverged",
						   "restarts",       ".cluster",    "cluster" };
	static struct names names;

	put_job(job);
	expect(thalweg(NULL, "sim %s --run %s --checkpoints 2", path_of("job.yaml"),
		       path_of("real")),
	       75);
	add_names(&names, path_of("real"), "");
	assert_true(names.n >= 10);
	for (size_t k = 0; k < sizeof short_lived / sizeof *short_lived; k++)
		add_name(&names, short_lived[k]);
	every_link("real", &names, lines, 3);
}

/* The same in a directory that has nothing else. */
static void links_in_new_runs(void **state)
{
	static const char *const lines[] = { "sim %/job.yaml --run @" };
	static struct names names;

	put_job(job);
	expect(thalweg(NULL, "sim %s --run %s", path_of("job.yaml"), path_of("whole")), 0);
	add_names(&names, path_of("whole"), "");
	for (size_t k = 0; k < names.n; k++)
		if (strchr(names.at[k], '/'))
			snprintf(names.at[k], sizeof names.at[k], "%s", "ckpt-7.new");
	every_link(NULL, &names, lines, 1);
}

/* What processes share, and what each of them writes. */
static void links_in_runs_of_processes(void **state)
{
	static const char *const lines[] = {
		"train %/job.yaml --processes --run @ --set train.epochs=3",
		"train %/job.yaml --processes --run @ --again",
	};
	static struct names names = { .at = { "cluster", ".cluster" }, .n = 2 };

	put_job(job);
	expect(thalweg(NULL, "train %s --processes --run %s", path_of("job.yaml"),
		       path_of("several")),
	       0);
	assert_true(exists("several/cluster"));
	every_link("several", &names, lines, 2);
}

static void links_in_comparisons(void **state)
{
	static const char *const lines[] = {
		"compare %/job.yaml --vary strategy=ssgd --seeds 1 --set compare.baseline=false "
		"--run @"
	};
	static struct names names;
	char from[400], to[400];
	size_t cells = 0;

	put_job(job);
	expect(thalweg(NULL,
		       "compare %s --vary strategy=ssgd --seeds 1 --set compare.baseline=false "
		       "--run %s",
		       path_of("job.yaml"), path_of("compared")),
	       0);
	add_names(&names, path_of("compared"), "");
	for (size_t k = 0, n = names.n; k < n; k++) {
		if (strncmp(names.at[k], "cells/", 6) != 0 || strchr(names.at[k] + 6, '/'))
			continue;
		cells++;
		snprintf(from, sizeof from, "cells/.%s", names.at[k] + 6); /* a draft */
		add_name(&names, from);
	}
	assert_int_equal(cells, 1);
	every_link("compared", &names, lines, 1);
	/* A draft that was made by others is not removed. */
	for (size_t k = 0; k < names.n; k++)
		if (strncmp(names.at[k], "cells/.", 7) == 0) {
			snprintf(to, sizeof to, "compared/%s", names.at[k]);
			mkdir(path_of(to), 0700);
			strcat(to, "/notes.txt");
			put_text(to, "mine\n");
			snprintf(from, sizeof from, "compared/cells/%s", names.at[k] + 7);
			folder_remove(path_of(from));
			snprintf(to, sizeof to, "compared/%s.kept/notes.txt", names.at[k]);
		}
	expect(thalweg(NULL,
		       "compare %s --vary strategy=ssgd --seeds 1 --set compare.baseline=false "
		       "--run %s",
		       path_of("job.yaml"), path_of("compared")),
	       0);
	assert_true(exists(to));
}

/* An unknown file keeps its checkpoint, is said once, and the run goes on. */
static void unknown_files_are_kept(void **state)
{
	const struct said *s;
	const char *at;

	put_job(job);
	expect(thalweg(NULL, "sim %s --run %s --set checkpoint.every=1s --checkpoints 1",
		       path_of("job.yaml"), path_of("noted")),
	       75);
	put_text("noted/ckpt-1/notes.txt", "mine\n");
	s = thalweg(NULL, "sim %s --run %s --set checkpoint.every=1s", path_of("job.yaml"),
		    path_of("noted"));
	expect(s, 0);
	at = strstr(s->err, "ckpt-1 is kept: notes.txt in it is not a file of ours");
	if (!at || strstr(at + 10, "is kept"))
		fail_msg("%s", s->err);
	assert_true(exists("noted/ckpt-1/notes.txt") && exists("noted/ckpt-1/DONE"));
	assert_false(exists("noted/ckpt-2")); /* one that is ours */
	/* Starting over, it must not be taken for a checkpoint of the new run. */
	expect(thalweg(NULL, "sim %s --run %s --again", path_of("job.yaml"), path_of("noted")), 0);
	assert_true(exists("noted/ckpt-1.kept/notes.txt"));
}

/* The directory itself may be a link. */
static void the_directory_may_be_a_link(void **state)
{
	put_job(job);
	mkdir(path_of("large-disk"), 0700);
	assert_int_equal(symlink(path_of("large-disk"), path_of("linked")), 0);
	expect(thalweg(NULL, "sim %s --run %s --checkpoints 1", path_of("job.yaml"),
		       path_of("linked")),
	       75);
	expect(thalweg(NULL, "sim %s --run %s", path_of("job.yaml"), path_of("linked")), 0);
	assert_true(exists("large-disk/result.json"));
	expect(thalweg(NULL, "export %s --to %s", path_of("linked"), path_of("y.safetensors")), 0);
}

/* What is not the directory of a run does not become one. */
static void other_directories_are_refused(void **state)
{
	static const char *const lines[] = { "sim %s --run %s", "train %s --run %s",
					     "sim %s --run %s --again",
					     "compare %s --vary strategy=ssgd,asgd --run %s",
					     NULL };
	char *before = described(path_of("outside")), *after;

	put_job(job);
	mkdir(path_of("home"), 0700);
	put_text("home/thesis.tex", "years of work\n");
	for (const char *const *l = lines; *l; l++)
		for (int k = 0; k < 2; k++) {
			const char *dir = k ? "/" : path_of("home");
			char line[600];
			const struct said *s;

			snprintf(line, sizeof line, *l, path_of("job.yaml"), dir);
			s = thalweg(NULL, "%s", line);
			if (s->code != 2 ||
			    !strstr(s->err, "is neither empty nor the directory of") ||
			    !strstr(s->err, "give a new or an empty directory"))
				fail_msg("`%s`: %d, %s", line, s->code, s->err);
			assert_false(exists("home/lock"));
		}
	/* The folder of one's own jobs is none either, and gets no file. */
	put_text("home/job.yaml", job);
	expect(thalweg(NULL, "sim %s --run %s", path_of("home/job.yaml"), path_of("home")), 2);
	assert_false(exists("home/lock"));
	after = described(path_of("outside"));
	assert_string_equal(before, after);
	free(after);
	free(before);
	/* --log may put its file into a new one. */
	mkdir(path_of("empty"), 0700);
	expect(thalweg(NULL, "sim %s --run %s --log %s", path_of("job.yaml"), path_of("empty"),
		       path_of("empty/all.jsonl")),
	       0);
}

static int set_up(void **state)
{
	if (scratch_make(state))
		return -1;
	make_outside();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_link_deletes_nothing),
		cmocka_unit_test(links_in_real_runs),
		cmocka_unit_test(links_in_new_runs),
		cmocka_unit_test(links_in_runs_of_processes),
		cmocka_unit_test(links_in_comparisons),
		cmocka_unit_test(unknown_files_are_kept),
		cmocka_unit_test(the_directory_may_be_a_link),
		cmocka_unit_test(other_directories_are_refused),
	};

	return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
