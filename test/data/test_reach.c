/* SPDX-License-Identifier: Apache-2.0 */
/* test_reach.c - paths that somebody else named open what the user allowed, and nothing else. */
#include "data/kit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

static char inside[600];

static const char *below(const char *name)
{
	static char path[4][700];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof path[turn], "%s/%s", scratch(), name);
	return path[turn];
}

static int setup(void **state)
{
	if (scratch_make(state))
		return -1;
	snprintf(inside, sizeof inside, "%s/inside", scratch());
	if (mkdir(inside, 0700) || mkdir(below("elsewhere"), 0700))
		return -1;
	put_text("inside/rows.csv", "a,b\n1,x\n2,y\n");
	put_text("elsewhere/secret.csv", "a,b\n1,x\n2,y\n");
	put_text("secret.csv", "a,b\n1,x\n2,y\n");
	return symlink("rows.csv", below("inside/near.csv")) ||
			       symlink("../secret.csv", below("inside/far.csv")) ||
			       symlink(below("secret.csv"), below("inside/farther.csv")) ||
			       symlink("../elsewhere", below("inside/door")) ||
			       mkdir(below("inside/folder.csv"), 0700) ||
			       mkfifo(below("inside/pipe.csv"), 0600)
		       ? -1
		       : 0;
}

static enum tw_status open_at(enum tw_reach_how how, const char *name, struct tw_error *why)
{
	const struct tw_reach r = { how, inside };
	struct tw_input *in = NULL;
	enum tw_status st;

	*why = (struct tw_error){ 0 };
	st = tw_input_open(&tw_heap_system, &r, name, &in, why);
	assert_true((st == TW_OK) == (in != NULL));
	tw_input_close(in);
	return st;
}

static void the_last_part_counts(void **state)
{
	static const char *const good[] = { "rows.csv",      "/rows.csv",         "/etc/rows.csv",
					    "../x/rows.csv", "../../../rows.csv", "a/b/../rows.csv",
					    "rows.csv/",     "near.csv" };
	struct tw_error why;

	for (size_t k = 0; k < sizeof good / sizeof good[0]; k++)
		if (open_at(TW_REACH_WITHIN, good[k], &why) != TW_OK)
			fail_msg("%s: %s", good[k], why.text);
}

static void nothing_leads_out(void **state)
{
	static const struct {
		const char *name, *says;
	} cases[] = {
		{ "", "does not end in a file's name" },
		{ "/", "does not end in a file's name" },
		{ ".", "does not end in a file's name" },
		{ "..", "does not end in a file's name" },
		{ "a/..", "does not end in a file's name" },
		{ "../", "does not end in a file's name" },
		{ "far.csv", "leads out of its folder" },
		{ "farther.csv", "leads out of its folder" },
		{ "secret.csv", "cannot be opened" },
		{ "../secret.csv", "cannot be opened" },
		{ "door/secret.csv", "cannot be opened" },
		{ "/etc/passwd", "cannot be opened" },
		{ "folder.csv", "it is a directory" },
		{ "pipe.csv", "FIFO" },
	};
	struct tw_error why;

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		if (open_at(TW_REACH_WITHIN, cases[k].name, &why) != TW_BAD_INPUT)
			fail_msg("'%s' was opened", cases[k].name);
		if (!strstr(why.text, cases[k].says))
			fail_msg("'%s' does not say '%s'", why.text, cases[k].says);
	}
}

static void none_is_none(void **state)
{
	static const char *const names[] = { "rows.csv", "/etc/passwd", "", ".." };
	struct tw_error why;

	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
		assert_int_equal(open_at(TW_REACH_NONE, names[k], &why), TW_REFUSED);
		assert_non_null(strstr(why.text, "named by the master, and not opened here"));
	}
}

static void folders_are_really_inside(void **state)
{
	const struct tw_reach within = { TW_REACH_WITHIN, inside }, none = { TW_REACH_NONE, "" };
	const struct tw_reach all = { TW_REACH_ALL, inside };
	char path[TW_REACH_PATH];

	assert_true(tw_reach_folder(&within, "/data/folder.csv", path));
	assert_true(strlen(path) > 11 && !strcmp(path + strlen(path) - 11, "/folder.csv"));
	assert_false(tw_reach_folder(&within, "door", path));
	assert_false(tw_reach_folder(&within, "/elsewhere", path));
	assert_false(tw_reach_folder(&within, "..", path));
	assert_false(tw_reach_folder(&within, "inside", path));
	assert_false(tw_reach_folder(&none, "folder.csv", path));
	assert_true(tw_reach_folder(&all, "/etc", path));
	assert_string_equal(path, "/etc");
	assert_true(tw_reach_folder(NULL, "some/where", path));
	assert_string_equal(path, "some/where");
}

/* Every source keeps to it: a watch on the folder sees who opens what. */
static void sources_open_nothing_without_leave(void **state)
{
	static const struct {
		const char *source;
		const char *sets[6];
	} cases[] = {
		{ "csv", { "file=train.csv", "test_file=test.csv" } },
		{ "npy", { "x=x.npy", "y=y.npy" } },
		{ "idx", { "images=images", "labels=labels" } },
		{ "mnist", { "path=mnist" } },
	};
	const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char events[8192];

	kit_put_csv_set();
	kit_put_npy_set();
	kit_put_idx_set();
	assert_int_equal(mkdir(below("mnist"), 0700), 0);
	for (int k = 0; k < 4; k++) {
		static const char *const from[] = { "images", "labels", "test-images.gz",
						    "test-labels" };
		static const char *const to[] = { "train-images-idx3-ubyte",
						  "train-labels-idx1-ubyte",
						  "t10k-images-idx3-ubyte.gz",
						  "t10k-labels-idx1-ubyte" };
		char name[100];
		size_t n;
		uint8_t *bytes = kit_get(from[k], &n);

		snprintf(name, sizeof name, "mnist/%s", to[k]);
		put(name, bytes, n);
		free(bytes);
	}
	assert_true(watch >= 0);
	assert_true(inotify_add_watch(watch, scratch(), IN_OPEN | IN_ACCESS) >= 0);
	assert_true(inotify_add_watch(watch, below("mnist"), IN_OPEN | IN_ACCESS) >= 0);
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
		for (int how = TW_REACH_NONE; how >= TW_REACH_ALL; how--) {
			const struct tw_reach r = { (enum tw_reach_how)how, scratch() };
			struct tw_data *d = NULL;
			struct tw_error why = { 0 };
			const enum tw_status st =
				kit_open_at(&r, NULL, cases[k].source, cases[k].sets, &d, &why);
			const bool seen = read(watch, events, sizeof events) > 0;

			while (read(watch, events, sizeof events) > 0)
				;
			if (st != (how == TW_REACH_NONE ? TW_REFUSED : TW_OK))
				fail_msg("%s %d: %s", cases[k].source, how, why.text);
			assert_true(seen == (how != TW_REACH_NONE));
			tw_data_close(d);
		}
	/* a link in the folder of MNIST leads out, too */
	{
		const struct tw_reach r = { TW_REACH_WITHIN, scratch() };
		struct tw_data *d = NULL;
		struct tw_error why = { 0 };

		assert_int_equal(unlink(below("mnist/t10k-labels-idx1-ubyte")), 0);
		assert_int_equal(symlink("../test-labels", below("mnist/t10k-labels-idx1-ubyte")),
				 0);
		assert_int_equal(kit_open_at(&r, NULL, "mnist", SETS("path=/data/mnist"), &d, &why),
				 TW_BAD_INPUT);
		assert_non_null(strstr(why.text, "leads out of its folder"));
		why = (struct tw_error){ 0 };
		assert_int_equal(kit_open_at(&r, NULL, "mnist", SETS("path=nowhere"), &d, &why),
				 TW_BAD_INPUT);
		assert_non_null(strstr(why.text, "has no folder such as nowhere"));
	}
	close(watch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_part_counts),
		cmocka_unit_test(nothing_leads_out),
		cmocka_unit_test(none_is_none),
		cmocka_unit_test(folders_are_really_inside),
		cmocka_unit_test(sources_open_nothing_without_leave),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
