/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostile_checkpoints.c - checkpoints and safetensors files that somebody made on purpose: all
 * hashes are right, and the rest is not.  Each is refused with a sentence and exit code 2, or the
 * checkpoint before it is used; nothing crashes, waits or takes much memory. */
#include "base/digest.h"
#include "cli/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define MEMORY_MOST ((size_t)1 << 30) /* of any process that is started here */

static const char job[] = "model: {layers: [linear 2]}\n"
			  "loss: cross-entropy\n"
			  "data: {source: csv, file: few.csv, batch: 2}\n"
			  "train: {epochs: 2}\n"
			  "update: {rate: 0.05}\n"
			  "cluster: {workers: 1}\n"
			  "strategy: asgd\n"
			  "checkpoint: {every: 1ms, keep: 100}\n";

/* --- text that would be long in a table --- */

static char *repeat(const char *before, const char *text, size_t times, const char *after)
{
	const size_t n = strlen(text);
	char *out = malloc(strlen(before) + n * times + strlen(after) + 1), *at;

	assert_non_null(out);
	at = stpcpy(out, before);
	for (size_t k = 0; k < times; k++, at += n)
		memcpy(at, text, n);
	strcpy(at, after);
	return out;
}

/* --- safetensors files --- */

static void put_safe(const char *name, uint64_t length, const char *header, size_t data)
{
	const size_t n = strlen(header);
	uint8_t *bytes = calloc(1, 8 + n + data);

	assert_non_null(bytes);
	memcpy(bytes, &length, 8);
	memcpy(bytes + 8, header, n);
	put(name, bytes, 8 + n + data);
	free(bytes);
}

#define ROW(shape, offsets) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const struct {
	const char *what, *header;
	size_t data;
	const char *says;
} files[] = {
	{ "beyond the end", "{\"w\":" ROW("[4]", "[0,16]") "}", 8, "ends at byte 16" },
	{ "negative offset", "{\"w\":" ROW("[4]", "[-16,0]") "}", 16, "data_offsets must be" },
	{ "offsets in reverse", "{\"w\":" ROW("[4]", "[16,0]") "}", 16, "data_offsets must be" },
	{ "huge offset", "{\"w\":" ROW("[4]", "[9223372036854775807,9223372036854775807]") "}", 16,
	  "ends at byte 9223372036854775807" },
	{ "offset that is no integer", "{\"w\":" ROW("[4]", "[0,1e300]") "}", 16,
	  "data_offsets must be" },
	{ "offset above 64 bits", "{\"w\":" ROW("[4]", "[0,99999999999999999999]") "}", 16,
	  "not JSON" },
	{ "overlap", "{\"a\":" ROW("[2]", "[0,8]") ",\"b\":" ROW("[2]", "[4,12]") "}", 12,
	  "inside another tensor" },
	{ "hole", "{\"a\":" ROW("[1]", "[0,4]") ",\"b\":" ROW("[1]", "[8,12]") "}", 12,
	  "after a gap" },
	{ "bytes after the end", "{\"a\":" ROW("[1]", "[0,4]") "}", 12, "belong to no tensor" },
	{ "product that overflows", "{\"w\":" ROW("[4294967296,4294967296,4]", "[0,16]") "}", 16,
	  "more elements than can be counted" },
	{ "bytes that overflow", "{\"w\":" ROW("[4611686018427387904]", "[0,0]") "}", 0,
	  "more elements than can be counted" },
	{ "negative shape", "{\"w\":" ROW("[-4]", "[0,16]") "}", 16, "whole numbers from 0" },
	{ "shape that is too large", "{\"w\":" ROW("[5]", "[0,16]") "}", 16, "needs 20 bytes" },
	{ "rank", "{\"w\":" ROW("[1,1,1,1,1,1,1,1,4]", "[0,16]") "}", 16, "at most 8" },
	{ "name with control characters", "{\"a\\u001b[2J\":" ROW("[4]", "[0,16]") "}", 16,
	  "control" },
	{ "name with a NUL", "{\"a\\u0000b\":" ROW("[4]", "[0,16]") "}", 16, "not JSON" },
	{ "duplicates", "{\"a\":" ROW("[1]", "[0,4]") ",\"a\":" ROW("[1]", "[4,8]") "}", 8,
	  "not JSON" },
	{ "no object", "[1,2,3]", 16, "begin with '{'" },
	{ "metadata", "{\"__metadata__\":{\"a\":{}},\"w\":" ROW("[4]", "[0,16]") "}", 16,
	  "strings" },
};

/* A file must be refused by whoever reads one; `says` may be NULL. */
static void refuse_file(const char *what, const char *says)
{
	static const char *const lines[] = {
		"inspect %s/x.safetensors", "eval %s/x.safetensors",
		"predict %s/x.safetensors --data %s/few.csv",
		"export %s/x.safetensors --to %s/y.safetensors --force",
		"sim %s/job.yaml --set model.weights=%s/x.safetensors"
	};

	static size_t turn;

	for (size_t k = turn++ % 2; k < sizeof lines / sizeof *lines; k += 2) { /* by turns */
		const struct said *s;
		char line[600];

		snprintf(line, sizeof line, lines[k], scratch(), scratch());
		s = thalweg(NULL, "%s", line);
		if (s->code != 2 || !strstr(s->err, "x.safetensors") ||
		    (says && !strstr(s->err, says)))
			fail_msg("%s, `%s`: %d, %s", what, line, s->code, s->err);
	}
}

static void files_are_refused(void **state)
{
	for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
		put_safe("x.safetensors", strlen(files[k].header), files[k].header, files[k].data);
		refuse_file(files[k].what, files[k].says);
	}
}

static void headers_are_refused(void **state)
{
	static const uint64_t lengths[] = { 0, 1, 1000, 1u << 31, (uint64_t)1 << 63, UINT64_MAX };
	char *deep = repeat("{\"w\":", "[", 1000000, "");
	char *wide = repeat("{\"w\":[", "[],", 1000000, "0]}");
	char *long_ = repeat("{\"", "n", 100000, "\":" ROW("[4]", "[0,16]") "}");

	for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
		put_safe("x.safetensors", lengths[k], "{}", 0);
		refuse_file("length of the header", NULL);
	}
	put_safe("x.safetensors", strlen(deep), deep, 16);
	refuse_file("a deep header", "not JSON");
	put_safe("x.safetensors", strlen(wide), wide, 16);
	refuse_file("a wide header", NULL);
	put_safe("x.safetensors", strlen(long_), long_, 16);
	refuse_file("a long name", "at most 512");
	free(deep);
	free(wide);
	free(long_);
}

/* Nothing is read of a file that is large and not what it says. */
static void large_files_are_not_read(void **state)
{
	put_safe("x.safetensors", 5, "{\"w\":", 0);
	assert_int_equal(truncate(path_of("x.safetensors"), (off_t)64 << 30), 0);
	refuse_file("64 GiB of nothing", "not JSON");
	put_text("x.safetensors", "");
}

/* Names of tensors that would be files elsewhere. */
static void names_stay_in_their_folder(void **state)
{
	static const char *const names[] = { "../x", "/tmp/x", "a/b", "", ".", "..", ".hidden" };

	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		const struct said *s;
		char header[200];

		snprintf(header, sizeof header, "{\"%s\":" ROW("[4]", "[0,16]") "}", names[k]);
		put_safe("x.safetensors", strlen(header), header, 16);
		s = thalweg(NULL, "export %s --format npy --to %s", path_of("x.safetensors"),
			    path_of("arrays/in"));
		if (s->code != 2 || !strstr(s->err, "that no file can have"))
			fail_msg("'%s': %d, %s", names[k], s->code, s->err);
		assert_false(exists("arrays/in") || exists("arrays/x.npy") || exists("x.npy"));
	}
}

/* --- checkpoints --- */

static size_t last_cut; /* of the run in good/ */

static const char *cut_file(const char *file)
{
	static char name[6000];

	snprintf(name, sizeof name, "copy/ckpt-%zu/%s", last_cut, file);
	return name;
}

static char *read_all(const char *name, size_t *n)
{
	FILE *f = fopen(path_of(name), "rb");
	char *bytes = calloc(1, (size_t)1 << 20);

	assert_true(f && bytes);
	*n = fread(bytes, 1, ((size_t)1 << 20) - 1, f);
	fclose(f);
	return bytes;
}

static void put_manifest(const char *text)
{
	char done[TW_DIGEST_TEXT + 1];

	put_text(cut_file("manifest.json"), text);
	tw_digest_bytes(text, strlen(text), done);
	strcat(done, "\n");
	put_text(cut_file("DONE"), done);
}

static json_t *manifest(void)
{
	size_t n;
	char *text = read_all(cut_file("manifest.json"), &n);
	json_t *m = json_loads(text, 0, NULL);

	free(text);
	assert_non_null(m);
	return m;
}

static void put_back(json_t *m)
{
	char *text = json_dumps(m, JSON_INDENT(1));

	put_manifest(text);
	free(text);
	json_decref(m);
}

/* The row of the parameters, which is the last: the other is the master's. */
static json_t *row_of(json_t *m)
{
	json_t *parts = json_object_get(m, "parts");

	return json_array_get(parts, json_array_size(parts) - 1);
}

/* JSON in place of a field of the manifest, or of the row of the parameters ("parts.bytes"). */
static void set_field(const char *field, const char *value)
{
	json_t *m = manifest(), *at = m, *v = json_loads(value, JSON_DECODE_ANY, NULL);

	assert_non_null(v);
	if (strncmp(field, "parts.", 6) == 0) {
		at = row_of(m);
		field += 6;
	}
	json_object_set_new(at, field, v);
	put_back(m);
}

/* Named, the checkpoint is refused.  In its run, the one before it is used, or it is refused by
 * name (FITS: what is wrong with it is not what a run reads). */
enum resuming { EARLIER, REFUSED, FITS };

static const struct {
	const char *field, *value;
	enum resuming resuming;
} fields[] = {
	{ "parts.bytes", "9223372036854775807", EARLIER },
	{ "parts.bytes", "-1", EARLIER },
	{ "parts.bytes", "0", EARLIER },
	{ "parts.bytes", "1e99", EARLIER },
	{ "parts.bytes", "\"12\"", EARLIER },
	{ "parts.from", "-1", EARLIER },
	{ "parts.from", "\"0\"", EARLIER },
	{ "parts.to", "-9223372036854775808", EARLIER },
	{ "parts.file", "\"../../job.yaml\"", EARLIER },
	{ "parts.file", "\"/etc/passwd\"", EARLIER },
	{ "parts.file", "\"/dev/zero\"", EARLIER },
	{ "parts.file", "\"\"", EARLIER },
	{ "parts.file", "\".\"", EARLIER },
	{ "parts.file", "\"..\"", EARLIER },
	{ "parts.file", "\"manifest.json\"", EARLIER },
	{ "parts.file", "\"a\\u001b[2Jb\\n\"", EARLIER },
	{ "parts.file", "7", EARLIER },
	{ "parts.name", "\"\"", REFUSED },
	{ "parts.name", "\"nobody knows this\"", REFUSED },
	{ "parts.name", "\"a name that is longer than the forty-eight bytes that a name may have\"",
	  EARLIER },
	{ "parts.encoding", "\"pickle\"", EARLIER },
	{ "parts.encoding", "\"raw\"", REFUSED },
	{ "parts.xxh3_128", "\"\"", EARLIER },
	{ "parts.xxh3_128", "null", EARLIER },
	{ "parts", "{}", EARLIER },
	{ "parts", "[]", REFUSED },
	{ "parts", "[1,2,3]", EARLIER },
	{ "parts", "null", EARLIER },
	{ "cut", "-1", EARLIER },
	{ "cut", "9223372036854775807", EARLIER },
	{ "cut", "\"1\"", EARLIER },
	{ "format", "0", EARLIER },
	{ "format", "9223372036854775807", EARLIER },
	{ "layout", "[{\"name\":\"a\",\"shape\":[4611686018427387904,4],\"buffer\":false}]", FITS },
	{ "layout", "[{\"name\":\"a\",\"shape\":[4294967296,4294967296],\"buffer\":false}]", FITS },
	{ "layout", "[{\"name\":\"a\",\"shape\":[1000000000000],\"buffer\":false}]", FITS },
	{ "layout", "[{\"name\":\"a\",\"shape\":[0],\"buffer\":false}]", FITS },
	{ "layout", "[{\"name\":\"a\",\"shape\":[-4],\"buffer\":false}]", FITS },
	{ "layout", "[{\"name\":7,\"shape\":[4],\"buffer\":false}]", FITS },
	{ "layout", "{}", FITS },
};

static void fresh_copy(void)
{
	char command[400];

	snprintf(command, sizeof command, "rm -rf %s && cp -r %s %s", path_of("copy"),
		 path_of("good"), path_of("copy"));
	assert_int_equal(system(command), 0);
}

static void refuse_cut(const char *what, enum resuming resuming)
{
	static const char *const lines[] = { "inspect", "eval", "predict --data %s/few.csv",
					     "export --to %s/y.safetensors --force" };
	static size_t turn;
	const struct said *s;

	for (size_t k = turn++ % 2; k < sizeof lines / sizeof *lines; k += 2) { /* by turns */
		char rest[300], word[20];

		snprintf(rest, sizeof rest, lines[k], scratch());
		sscanf(rest, "%19s", word);
		s = thalweg(NULL, "%s %s/copy/ckpt-%zu%s", word, scratch(), last_cut,
			    rest + strlen(word));
		if (s->code != 2 || strlen(s->err) < 20)
			fail_msg("%s, %s: %d, %s", what, word, s->code, s->err);
	}
	s = thalweg(NULL, "sim %s --run %s", path_of("job.yaml"), path_of("copy"));
	if (s->code != (resuming == REFUSED ? 2 : 0) ||
	    (resuming == EARLIER && !strstr(s->err, "using the one before it")) ||
	    (resuming == REFUSED && !strstr(s->err, "cannot be used: its parts are not")))
		fail_msg("%s, resumed: %d, %s", what, s->code, s->err);
}

static void manifests_are_refused(void **state)
{
	for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
		char what[300];
		fresh_copy();
		set_field(fields[k].field, fields[k].value);
		snprintf(what, sizeof what, "%s: %s", fields[k].field, fields[k].value);
		refuse_cut(what, fields[k].resuming);
	}
}

static void shapeless_manifests_are_refused(void **state)
{
	char *deep = repeat("", "[", 1000000, ""), *name = repeat("\"", "n", 5000, "\"");
	char *wide = repeat("{\"format\":4,\"cut\":1,\"parts\":[", "[],", 1000000, "0]}");

	for (int k = 0; k < 3; k++) {
		fresh_copy();
		if (k == 1)
			set_field("parts.file", name);
		else
			put_manifest(k ? wide : deep);
		refuse_cut(k == 1 ? "a long name"
			   : k    ? "a wide manifest"
				  : "a deep manifest",
			   EARLIER);
	}
	free(deep);
	free(wide);
	free(name);
}

/* The same part again and again would take as much memory each time. */
static void duplicates_are_refused(void **state)
{
	for (int k = 0; k < 2; k++) {
		json_t *m, *row;

		fresh_copy();
		m = manifest();
		row = json_deep_copy(row_of(m));
		if (k)
			json_object_set_new(row, "name", json_string("shard 7"));
		json_array_append_new(json_object_get(m, "parts"), row);
		put_back(m);
		refuse_cut(k ? "a file twice" : "a part twice", EARLIER);
	}
}

/* A part of the right hash, whose header is one of `files`. */
static void put_part(const char *header, uint64_t length, size_t data)
{
	json_t *m = manifest(), *row = row_of(m);
	const char *file = json_string_value(json_object_get(row, "file"));
	char hash[TW_DIGEST_TEXT], *bytes;
	size_t n;

	put_safe(cut_file(file), length, header, data);
	bytes = read_all(cut_file(file), &n);
	tw_digest_bytes(bytes, n, hash);
	free(bytes);
	json_object_set_new(row, "bytes", json_integer((json_int_t)n));
	json_object_set_new(row, "xxh3_128", json_string(hash));
	put_back(m);
}

static void parts_are_refused(void **state)
{
	static const struct {
		const char *header;
		enum resuming resuming;
	} headers[] = {
		{ "{\"parameters[0:18446744073709551615]\":" ROW("[4]", "[0,16]") "}", EARLIER },
		{ "{\"parameters[18446744073709551612:18446744073709551616]\":" ROW("[4]",
										    "[0,16]") "}",
		  EARLIER },
		{ "{\"parameters[4:0]\":" ROW("[4]", "[0,16]") "}", EARLIER },
		{ "{\"parameters[-4:0]\":" ROW("[4]", "[0,16]") "}", EARLIER },
		{ "{\"parameters[4:8]\":" ROW("[4]", "[0,16]") "}", REFUSED },
		{ "{\"parameters[0:3]\":" ROW("[4]", "[0,16]") "}", EARLIER },
		{ "{\"parameters[0:4]x\":" ROW("[4]", "[0,16]") "}", EARLIER },
		{ "{\"parameters\":" ROW("[4]", "[0,16]") "}", EARLIER },
		{ "{\"else[0:4]\":" ROW("[4]", "[0,16]") "}", REFUSED },
	};
	char *deep = repeat("{\"w\":", "[", 100000, "");

	for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
		fresh_copy();
		put_part(files[k].header, strlen(files[k].header), files[k].data);
		refuse_cut(files[k].what, EARLIER);
	}
	for (size_t k = 0; k < sizeof headers / sizeof *headers; k++) {
		fresh_copy();
		put_part(headers[k].header, strlen(headers[k].header), 16);
		refuse_cut(headers[k].header, headers[k].resuming);
	}
	fresh_copy();
	put_part("{}", UINT64_MAX, 0);
	refuse_cut("length of a header", EARLIER);
	fresh_copy();
	put_part(deep, strlen(deep), 0);
	refuse_cut("a deep header", EARLIER);
	free(deep);
}

/* Hashes protect from accidents, not from whoever can write to the directory. */
static void forged_parameters_are_believed(void **state)
{
	static const char header[] = "{\"parameters[0:4]\":" ROW("[4]", "[0,16]") "}";

	fresh_copy();
	put_part(header, strlen(header), 16);
	expect(thalweg(NULL, "eval %s/copy/ckpt-%zu", scratch(), last_cut), 0);
}

/* --- parts that are no files --- */

static void odd_parts_are_refused(void **state)
{
	json_t *m;
	char file[200], path[400];

	fresh_copy();
	m = manifest();
	snprintf(file, sizeof file, "%s", json_string_value(json_object_get(row_of(m), "file")));
	json_decref(m);
	for (int k = 0; k < 5; k++) {
		static const char *const what[] = { "a FIFO", "a directory", "a link to a device",
						    "a link to a file", "a link to itself" };

		fresh_copy();
		snprintf(path, sizeof path, "%s", path_of(cut_file(file)));
		if (k == 3)
			assert_int_equal(rename(path, path_of("elsewhere")), 0);
		else
			unlink(path);
		assert_int_equal(k == 0   ? mkfifo(path, 0600)
				 : k == 1 ? mkdir(path, 0700)
				 : k == 2 ? symlink("/dev/zero", path)
				 : k == 3 ? symlink(path_of("elsewhere"), path)
					  : symlink(path, path),
				 0);
		refuse_cut(what[k], EARLIER);
	}
}

/* A job in a manifest is read like any other. */
static void jobs_are_refused(void **state)
{
	char *deep = repeat("model: ", "[", 100000, "");
	json_t *m;

	for (int k = 0; k < 4; k++) {
		fresh_copy();
		m = manifest();
		json_object_set_new(m, "job",
				    k == 0   ? json_null()
				    : k == 1 ? json_string(deep)
				    : k == 2 ? json_string("a: &a [1,1,1,1,1,1,1,1,1]\n"
							   "b: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n"
							   "c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
							   "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n"
							   "e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\n"
							   "f: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n"
							   "g: &g [*f,*f,*f,*f,*f,*f,*f,*f]\n"
							   "h: &h [*g,*g,*g,*g,*g,*g,*g,*g]\n")
					     : json_string("model: {layers: [linear "
							   "4000000000]}\n"));
		put_back(m);
		refuse_cut("a job", FITS);
	}
	free(deep);
}

static void memory_was_bounded(void **state)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_CHILDREN, &u), 0);
	if ((size_t)u.ru_maxrss * 1024 > MEMORY_MOST)
		fail_msg("a process took %ld MiB", u.ru_maxrss / 1024);
}

static int set_up(void **state)
{
	if (scratch_make(state))
		return -1;
	put_text("few.csv", "a,b\n1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n7,0\n8,1\n");
	put_text("job.yaml", job);
	mkdir(path_of("arrays"), 0700);
	expect(thalweg(NULL, "sim %s --run %s --checkpoints 2", path_of("job.yaml"),
		       path_of("good")),
	       75);
	for (last_cut = 1; last_cut < 100; last_cut++) {
		char name[40];

		snprintf(name, sizeof name, "good/ckpt-%zu", last_cut + 1);
		if (!exists(name))
			break;
	}
	return last_cut >= 2 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_refused),
		cmocka_unit_test(headers_are_refused),
		cmocka_unit_test(large_files_are_not_read),
		cmocka_unit_test(names_stay_in_their_folder),
		cmocka_unit_test(manifests_are_refused),
		cmocka_unit_test(shapeless_manifests_are_refused),
		cmocka_unit_test(duplicates_are_refused),
		cmocka_unit_test(parts_are_refused),
		cmocka_unit_test(forged_parameters_are_believed),
		cmocka_unit_test(odd_parts_are_refused),
		cmocka_unit_test(jobs_are_refused),
		cmocka_unit_test(memory_was_bounded),
	};

	return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
