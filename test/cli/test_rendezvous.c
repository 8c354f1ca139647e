/* SPDX-License-Identifier: Apache-2.0 */
/* test_rendezvous.c - who and where, over tables of environments. */
#include "cli/rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define VARS     8

struct row {
	const char *address;
	const char *environment[VARS];
	const char *master; /* NULL: none, and `port` is the one to listen on */
	enum tw_rendezvous_source source;
	int64_t rank, world; /* -1: not known */
	uint16_t port;
};

static void check_row(const struct row *row)
{
	struct tw_error why = { 0 };
	char text[TW_ADDRESS_TEXT];
	struct tw_rendezvous w;

	if (tw_rendezvous_find(row->address, row->environment, &w, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(w.have_master, row->master != NULL);
	tw_address_text(&w.master, text);
	if (row->master) {
		assert_string_equal(text, row->master);
	} else {
		assert_string_equal(w.master.host, "");
		assert_int_equal(w.master.port, row->port);
	}
	assert_int_equal(w.source, row->source);
	assert_int_equal(w.have_rank ? (int64_t)w.rank : -1, row->rank);
	assert_int_equal(w.have_world ? (int64_t)w.world : -1, row->world);
	assert_int_equal(tw_rendezvous_leads(&w), row->rank == 0);
	assert_int_equal(tw_rendezvous_need(&w, &why), row->master ? TW_OK : TW_BAD_INPUT);
}

static void precedence(void **state)
{
	static const struct row rows[] = {
		{ NULL, { NULL }, NULL, TW_WHERE_NOWHERE, -1, -1, 7433 },
		{ NULL, { "MASTER_PORT=29500" }, NULL, TW_WHERE_NOWHERE, -1, -1, 29500 },
		{ NULL, { "MASTER_ADDR=m" }, "m:7433", TW_WHERE_MASTER_ADDR, -1, -1 },
		{ NULL,
		  { "MASTER_ADDR=m", "MASTER_PORT=29500", "RANK=0", "WORLD_SIZE=4" },
		  "m:29500",
		  TW_WHERE_MASTER_ADDR,
		  0,
		  4 },
		{ NULL, { "MASTER_ADDR=m:9" }, "m:9", TW_WHERE_MASTER_ADDR, -1, -1 },
		{ NULL,
		  { "MASTER_ADDR=m:9", "MASTER_PORT=9" },
		  "m:9",
		  TW_WHERE_MASTER_ADDR,
		  -1,
		  -1 },
		{ NULL,
		  { "MASTER_ADDR=2001:db8::1", "MASTER_PORT=9" },
		  "[2001:db8::1]:9",
		  TW_WHERE_MASTER_ADDR,
		  -1,
		  -1 },
		/* Slurm's list goes before MASTER_ADDR, its new name before its old one */
		{ NULL,
		  { "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[07-09],g1", "SLURM_PROCID=3",
		    "SLURM_NTASKS=8" },
		  "n07:7433",
		  TW_WHERE_NODELIST,
		  3,
		  8 },
		{ NULL,
		  { "MASTER_ADDR=m", "SLURM_NODELIST=old", "SLURM_JOB_NODELIST=new[1-2]",
		    "MASTER_PORT=5" },
		  "new1:5",
		  TW_WHERE_NODELIST,
		  -1,
		  -1 },
		{ NULL, { "SLURM_NODELIST=old[2-3]" }, "old2:7433", TW_WHERE_NODELIST, -1, -1 },
		{ NULL,
		  { "SLURM_JOB_ID=7", "MASTER_ADDR=m" },
		  "m:7433",
		  TW_WHERE_MASTER_ADDR,
		  -1,
		  -1 },
		/* the argument goes before everything, and what it replaces is not looked at */
		{ "h",
		  { "MASTER_ADDR=m", "MASTER_PORT=x", "SLURM_JOB_NODELIST=[", "RANK=1" },
		  "h:7433",
		  TW_WHERE_ARGUMENT,
		  1,
		  -1 },
		{ "[::1]:1", { "MASTER_PORT=5" }, "[::1]:1", TW_WHERE_ARGUMENT, -1, -1 },
		{ ":80", { NULL }, "*:80", TW_WHERE_ARGUMENT, -1, -1 },
		/* ranks: RANK before SLURM_PROCID, and Slurm's count only for Slurm's ranks */
		{ NULL,
		  { "RANK=5", "SLURM_PROCID=0", "SLURM_NTASKS=2", "WORLD_SIZE=6" },
		  NULL,
		  TW_WHERE_NOWHERE,
		  5,
		  6,
		  7433 },
		{ NULL,
		  { "RANK=5", "SLURM_PROCID=0", "SLURM_NTASKS=2" },
		  NULL,
		  TW_WHERE_NOWHERE,
		  5,
		  -1,
		  7433 },
		{ NULL,
		  { "SLURM_PROCID=0", "SLURM_NPROCS=2" },
		  NULL,
		  TW_WHERE_NOWHERE,
		  0,
		  2,
		  7433 },
		{ NULL,
		  { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_NPROCS=3", "WORLD_SIZE=4" },
		  NULL,
		  TW_WHERE_NOWHERE,
		  0,
		  4,
		  7433 },
		{ NULL, { "WORLD_SIZE=4294967295" }, NULL, TW_WHERE_NOWHERE, -1, 4294967295, 7433 },
		/* set to nothing is not set; the first of two wins; names match whole */
		{ NULL,
		  { "RANK=", "SLURM_PROCID=2",
		    "MASTER_ADDR=", "SLURM_JOB_NODELIST=", "MASTER_PORT=" },
		  NULL,
		  TW_WHERE_NOWHERE,
		  2,
		  -1,
		  7433 },
		{ NULL,
		  { "XRANK=1", "RANKS=2", "RANK", "RANK=3", "RANK=4" },
		  NULL,
		  TW_WHERE_NOWHERE,
		  3,
		  -1,
		  7433 },
	};

	for (size_t i = 0; i < COUNT(rows); i++)
		check_row(&rows[i]);
}

static void bad_variables_are_said(void **state)
{
	static const struct {
		const char *address;
		const char *environment[VARS];
		const char *says;
	} rows[] = {
		{ NULL, { "MASTER_PORT=x" }, "MASTER_PORT is \"x\": accepted is a whole number" },
		{ NULL, { "MASTER_PORT=0" }, "MASTER_PORT is \"0\": accepted is a whole number" },
		{ NULL, { "MASTER_PORT=65536" }, "from 1 to 65535" },
		{ NULL, { "MASTER_PORT=-1" }, "MASTER_PORT is \"-1\"" },
		{ NULL, { "MASTER_PORT=80 " }, "MASTER_PORT is \"80 \"" },
		{ NULL, { "MASTER_PORT=99999999999999999999999" }, "from 1 to 65535" },
		{ NULL, { "MASTER_PORT=x", "SLURM_JOB_NODELIST=n1" }, "MASTER_PORT is \"x\"" },
		{ NULL, { "MASTER_ADDR=a b" }, "MASTER_ADDR is \"a b\": accepted are HOST," },
		{ NULL, { "MASTER_ADDR=*" }, "MASTER_ADDR is \"*\": accepted are HOST," },
		{ NULL, { "MASTER_ADDR=:80" }, "MASTER_ADDR is \":80\"" },
		{ NULL, { "MASTER_ADDR=h:0" }, "MASTER_ADDR is \"h:0\"" },
		{ NULL, { "MASTER_ADDR=h\n" }, "MASTER_ADDR is \"h?\"" },
		{ NULL,
		  { "MASTER_ADDR=h:1", "MASTER_PORT=2" },
		  "MASTER_ADDR is \"h:1\" and MASTER_PORT is \"2\": accepted is" },
		{ NULL,
		  { "SLURM_JOB_NODELIST=n[3-1]" },
		  "SLURM_JOB_NODELIST is \"n[3-1]\": a range of descending numbers ends" },
		{ NULL,
		  { "SLURM_JOB_NODELIST=n[", "MASTER_ADDR=m" },
		  "SLURM_JOB_NODELIST is \"n[\"" },
		{ NULL, { "SLURM_NODELIST=n[1-99999999]" }, "SLURM_NODELIST is" },
		{ NULL, { "SLURM_JOB_NODELIST=[1-3]" }, "its first host \"1\" is not a host name" },
		{ NULL, { "RANK=-1" }, "RANK is \"-1\": accepted is a whole number from 0" },
		{ NULL, { "RANK=1.5" }, "RANK is \"1.5\"" },
		{ NULL, { "RANK=4294967296" }, "RANK is \"4294967296\"" },
		{ NULL, { "RANK=x", "SLURM_PROCID=1" }, "RANK is \"x\"" },
		{ NULL, { "SLURM_PROCID=x" }, "SLURM_PROCID is \"x\"" },
		{ NULL, { "WORLD_SIZE=0" }, "WORLD_SIZE is \"0\": accepted is a whole number" },
		{ NULL, { "SLURM_NTASKS=2(x3)" }, "SLURM_NTASKS is \"2(x3)\"" },
		{ NULL,
		  { "RANK=4", "WORLD_SIZE=4" },
		  "RANK is \"4\" and WORLD_SIZE is \"4\": accepted is a rank from 0" },
		{ NULL,
		  { "SLURM_PROCID=2", "SLURM_NTASKS=1" },
		  "SLURM_PROCID is \"2\" and SLURM_NTASKS is \"1\"" },
		{ "h:x", { "MASTER_ADDR=m" }, "address \"h:x\"" },
		{ "h", { "RANK=x" }, "RANK is \"x\"" },
		{ "", { "MASTER_ADDR=m" }, "\"\" is not an address" },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct tw_rendezvous before = { .rank = 77 };
		struct tw_rendezvous w = before;
		struct tw_error why = { 0 };

		assert_int_equal(tw_rendezvous_find(rows[i].address, rows[i].environment, &w, &why),
				 TW_BAD_INPUT);
		if (!strstr(why.text, rows[i].says))
			fail_msg("\"%s\" does not say \"%s\"", why.text, rows[i].says);
		assert_non_null(strstr(why.text, "accepted"));
		assert_memory_equal(&w, &before, sizeof w);
	}
}

static void nowhere_says_what_would_do(void **state)
{
	static const char *const words[] = { "thalweg join HOST", "SLURM_JOB_NODELIST",
					     "MASTER_ADDR", "MASTER_PORT", "7433" };
	const struct tw_rendezvous w = { 0 };
	struct tw_error why = { 0 };

	assert_int_equal(tw_rendezvous_need(&w, &why), TW_BAD_INPUT);
	for (size_t i = 0; i < COUNT(words); i++)
		assert_non_null(strstr(why.text, words[i]));
	assert_false(tw_rendezvous_leads(&w));
}

static void the_line_to_paste(void **state)
{
	static const struct {
		const char *bound, *hostname, *text;
	} rows[] = {
		{ "*:7433", "node7", "node7:7433" },
		{ ":1", "node7.example.org", "node7.example.org:1" },
		{ "0.0.0.0:2", "node7", "node7:2" },
		{ "[::]:3", "node7", "node7:3" },
		{ "[0:0::0]:3", "node7", "node7:3" },
		{ "10.0.0.2:4", "node7", "10.0.0.2:4" },
		{ "[2001:db8::1]:5", "node7", "[2001:db8::1]:5" },
		{ "master:6", "node7", "master:6" },
		{ "127.0.0.1:7", "node7", "127.0.0.1:7" },
		{ "*:8", "", "localhost:8" },
		{ "*:8", "*", "localhost:8" },
		{ "*:8", "a b", "localhost:8" },
		{ "*:8", "a:9", "localhost:8" },
		{ "*:8", "12", "localhost:8" },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct tw_error why = { 0 };
		struct tw_address bound;
		char text[TW_ADDRESS_TEXT];

		assert_int_equal(tw_address_parse(rows[i].bound, 0, &bound, &why), TW_OK);
		tw_rendezvous_join_text(&bound, rows[i].hostname, text);
		assert_string_equal(text, rows[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(precedence),
		cmocka_unit_test(bad_variables_are_said),
		cmocka_unit_test(nowhere_says_what_would_do),
		cmocka_unit_test(the_line_to_paste),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
