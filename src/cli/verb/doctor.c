/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c - thalweg doctor: what this machine has, and what is missing. */
#include "base/json.h"
#include "base/machine/cores.h"
#include "base/machine/isa.h"
#include "bench/baseline/torch.h"
#include "cli/summary.h"
#include "cli/verb.h"
#include "query/query.h"
#include "run/launcher.h"
#include "run/run.h"

#include <microhttpd.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>
#include <yaml.h>

struct doctor_flags {
	bool json;
};

/* --- the machine --- */

static json_t *libraries(void)
{
	char xxhash[32];
	const unsigned v = XXH_versionNumber();
	json_t *networks = tw_query_libraries(), *all;

	snprintf(xxhash, sizeof xxhash, "%u.%u.%u", v / 10000, v / 100 % 100, v % 100);
	all = json_pack("{s:s, s:s, s:s, s:s, s:s}", "libyaml", yaml_get_version_string(),
			"jansson", jansson_version_str(), "xxhash", xxhash, "openssl",
			OpenSSL_version(OPENSSL_VERSION_STRING), "microhttpd", MHD_get_version());
	json_object_update(all, networks);
	json_decref(networks);
	return all;
}

static json_t *machine(void)
{
	const double page = (double)sysconf(_SC_PAGESIZE);
	struct utsname system;
	char cpu[200], cache[1024];

	tw_cpu_name(cpu, sizeof cpu);
	if (!tw_data_cache(cache, sizeof cache))
		cache[0] = '\0';
	if (uname(&system))
		return NULL;
	return json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:I, s:f, s:f, s:s, s:o}", "version", TW_VERSION,
		"system", system.sysname, "cpu", cpu, "isa", tw_isa_name(tw_isa()), "machine_isa",
		tw_isa_name(tw_isa_machine()), "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
		"memory_bytes", page * (double)sysconf(_SC_PHYS_PAGES), "memory_free_bytes",
		page * (double)sysconf(_SC_AVPHYS_PAGES), "cache", cache, "libraries", libraries());
}

/* --- what is good to have --- */

static bool in_path(const char *program)
{
	const char *path = getenv("PATH");

	for (const char *at = path ? path : ""; *at;) {
		const size_t n = strcspn(at, ":");
		char file[4096];

		if (n &&
		    (size_t)snprintf(file, sizeof file, "%.*s/%s", (int)n, at, program) <
			    sizeof file &&
		    access(file, X_OK) == 0)
			return true;
		at += n + (at[n] == ':');
	}
	return false;
}

/* Nothing here is needed to train; each line says what it is good for. */
static json_t *extras(const char *cache)
{
	json_t *sources = tw_query_sources(cache), *o = json_object(), *hello = NULL;
	struct tw_error why = { .status = TW_OK };
	const json_t *row;
	struct tw_torch torch = { 0 };
	size_t k;

	json_array_foreach(json_object_get(sources, "fetchable"), k, row)
	{
		const char *name = tw_text_at(row, "name");
		const char *state = tw_text_at(row, "state");

		json_object_set_new(o, name,
				    strcmp(state, "whole") == 0
					    ? json_string("in the cache, complete")
					    : json_sprintf("%s; get it with `thalweg data "
							   "fetch %s`",
							   strcmp(state, "damaged") == 0
								   ? "damaged in the cache"
								   : "not in the cache",
							   name));
	}
	json_object_set_new(
		o, "npm",
		json_string(in_path("npm") ? "there" : "not found; `thalweg data fetch` needs it"));
	if (tw_torch_open(&torch, NULL, &hello, &why) == TW_OK) {
		json_object_set_new(o, "pytorch", json_incref(json_object_get(hello, "torch")));
		tw_torch_stop(&torch);
	} else {
		json_object_set_new(o, "pytorch",
				    json_string("not found; `thalweg bench` has nothing to "
						"compare with"));
	}
	json_decref(hello);
	json_decref(sources);
	return o;
}

/* What ranks can be started with; true: with something. */
static bool add_mpi(json_t *o)
{
	struct tw_launcher l;
	char text[400];
	bool any = false;

	for (int k = 0; k < TW_MPI_KINDS; k++) {
		any = tw_launcher_describe((enum tw_mpi_kind)k, text, sizeof text) || any;
		json_object_set_new(o, tw_mpi_kind_name((enum tw_mpi_kind)k), json_string(text));
	}
	json_object_set_new(o, "slurm",
			    json_string(in_path("srun") ? "srun is there; without MPI: srun "
							  "--mpi=none with train --world tcp"
							: "not found; only clusters need it"));
	tw_launcher_find((const char *const *)environ, &l);
	if (l.name)
		json_object_set_new(
			o, "launcher",
			json_sprintf("this process is one of %u, started by %s", l.tasks, l.name));
	return any;
}

/* --- checks --- */

static bool check(json_t *checks, const char *name, bool ok, const char *remedy)
{
	json_array_append_new(checks, json_pack("{s:s, s:b, s:s}", "name", name, "ok", ok, "remedy",
						ok ? "" : remedy));
	return ok;
}

/* A small run, and the same again: it must end, learn and give the same bits. */
static bool trains(enum tw_world_kind world, const char *strategy, char digest[40],
		   struct tw_error *why)
{
	static const struct tw_log silence = { .sink = NULL };
	const struct tw_run_request request = { .log = &silence };
	struct tw_job *job = NULL;
	json_t *r = NULL;
	char text[300];
	bool ok;

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: 100, start: 1}}\n"
		 "data: {source: none, samples: 256, batch: 1}\n"
		 "train: {epochs: 1}\nupdate: {rate: 0.05}\n"
		 "cluster: {workers: 2}\nstrategy: %s\n",
		 strategy);
	ok = tw_job_read_text("doctor", text, strlen(text), NULL, 0, NULL, world, &job, why) ==
		     TW_OK &&
	     tw_run(&request, job, &r, why) == TW_OK &&
	     json_is_string(json_object_get(r, "parameters_digest"));
	if (ok)
		snprintf(digest, 40, "%s", tw_text_at(r, "parameters_digest"));
	json_decref(r);
	tw_job_free(job);
	return ok;
}

static bool self_test(json_t *checks)
{
	struct tw_error why = { .status = TW_OK };
	char a[40] = "", b[40] = "", c[40] = "", d[40] = "";
	bool all;

	all = check(checks, "simulator runs, twice with the same bits",
		    trains(TW_WORLD_SIM, "asgd", a, &why) &&
			    trains(TW_WORLD_SIM, "asgd", b, &why) && strcmp(a, b) == 0,
		    *why.text ? why.text : "two runs of the same seed differ: please report this");
	all &= check(checks, "threads run, with the bits of the simulator under bsp",
		     trains(TW_WORLD_THREADS, "ssgd", c, &why) &&
			     trains(TW_WORLD_SIM, "ssgd", d, &why) && strcmp(c, d) == 0,
		     *why.text ? why.text : "threads and simulator differ: please report this");
	return all;
}

static bool folder_writable(void)
{
	return access(access("runs", F_OK) == 0 ? "runs" : ".", W_OK | X_OK) == 0;
}

/* --- saying it --- */

static void line(const char *label, const char *text)
{
	printf("%-12s %s\n", label, text);
}

static void print(const json_t *r)
{
	const char *isa = tw_text_at(r, "isa");
	const char *machine_isa = tw_text_at(r, "machine_isa");
	const json_t *c, *v;
	const char *name;
	size_t i;

	line("thalweg", TW_VERSION);
	printf("%-12s %s, %lld cores, %s\n", "cpu", tw_text_at(r, "cpu"), tw_whole_at(r, "cores"),
	       machine_isa);
	if (strcmp(isa, machine_isa) != 0)
		printf("%-12s %s; THALWEG_ISA sets this limit\n", "uses", isa);
	printf("%-12s %.1f GiB, %.1f GiB free\n", "memory",
	       tw_number_at(r, "memory_bytes") / 1073741824.0,
	       tw_number_at(r, "memory_free_bytes") / 1073741824.0);
	line("cache",
	     *tw_text_at(r, "cache") ? tw_text_at(r, "cache") : "none: set HOME or XDG_CACHE_HOME");
	json_object_foreach(json_object_get(r, "libraries"), name, v)
		line(name, json_string_value(v));
	json_object_foreach(json_object_get(r, "extras"), name, v) line(name, json_string_value(v));
	json_object_foreach(json_object_get(r, "worlds"), name, v)
		line(name, json_is_true(v) ? "in this version" : "not in this build");
	json_array_foreach(json_object_get(r, "checks"), i, c)
	{
		const bool ok = json_is_true(json_object_get(c, "ok"));

		printf("%-12s %s%s%s\n", ok ? "ok" : "WRONG", tw_text_at(c, "name"), ok ? "" : ": ",
		       tw_text_at(c, "remedy"));
	}
}

static int doctor(const struct tw_call *call)
{
	const struct doctor_flags *f = call->flags;
	json_t *r = machine(), *checks = json_array();
	bool well;

	if (!r || !checks) {
		json_decref(r);
		json_decref(checks);
		tw_log_line(call->log, TW_ERROR, "", "no memory");
		return TW_EXIT_FAILED;
	}
	json_object_set_new(r, "extras", extras(tw_text_at(r, "cache")));
	json_object_set_new(r, "worlds",
			    json_pack("{s:b, s:b, s:b, s:b, s:b}", "sim", 1, "threads", 1, "tcp", 1,
				      "tls", 1, "mpi", add_mpi(json_object_get(r, "extras"))));
	well = check(checks, "run directories can be created here", folder_writable(),
		     "train needs --run DIR with a writable directory");
	well &= self_test(checks);
	json_object_set_new(r, "checks", checks);
	json_object_set_new(r, "well", json_boolean(well));
	if (f->json)
		tw_print_json(r);
	else
		print(r);
	json_decref(r);
	return well ? TW_EXIT_DONE : TW_EXIT_FAILED;
}

static const struct tw_flag flags[] = {
	TW_SWITCH(struct doctor_flags, json, "json", "print it as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg doctor", "check this machine before the first run" },
	{ 0 },
};

const struct tw_verb tw_verb_doctor = {
	.name = "doctor",
	.words = "",
	.help = "show what this machine has and what is missing",
	.about = "Shows what this machine has (processor, instruction set, memory, libraries),\n"
		 "what this version can do and which optional tools are there (data sets, npm,\n"
		 "PyTorch, MPI with the launcher that fits), and runs a small job in each world.  "
		 "The exit code is 1 if something\n"
		 "necessary does not work.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct doctor_flags),
	.run = doctor,
};
