/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.c - trained parameters, wherever they are: a run directory, a checkpoint, or a
 * safetensors file.
 *
 * Shards keep what is evaluated (w; theta of nag, dana, multi) as "parameters".  They are read when
 * they are asked for, so that no more of a model is in memory than somebody needs at once. */
#include "checkpoint/snapshot.h"

#include "base/machine/regular_file.h"
#include "checkpoint/model_card.h"
#include "checkpoint/checkpoint_read.h"
#include "checkpoint/files.h"
#include "checkpoint/tensors.h"
#include "node/checkpoint_part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES      5 /* a running job may remove a checkpoint while we read it */
#define FILE_MOST  ((size_t)1 << 40)
#define HEAD_MOST  ((size_t)TW_SAFE_HEADER + 8)
#define PATH_SHOWN 300 /* bytes of a path in a sentence */

static enum tw_status no_memory(struct tw_error *why, const char *path)
{
	return tw_fail(why, TW_NO_MEMORY, "no memory to read %.*s", PATH_SHOWN, path);
}

/* --- a cut --- */

/* What a world does not read is not in the text: only a simulated job has `sim:`, and only one of
 * processes has cluster.heartbeat. */
static enum tw_world_kind world_of(const char *text)
{
	if (strncmp(text, "sim:", 4) == 0 || strstr(text, "\nsim:"))
		return TW_WORLD_SIM;
	return strstr(text, "\n  heartbeat:") ? TW_WORLD_TCP : TW_WORLD_THREADS;
}

enum tw_status tw_snapshot_job(const struct tw_snapshot *s, const char *const *set, size_t n,
			       struct tw_job **out, struct tw_error *why)
{
	const char *text = json_string_value(json_object_get(s->manifest, "job"));
	const char *file = json_string_value(json_object_get(s->manifest, "job_file"));
	const char *slash = file ? strrchr(file, '/') : NULL;
	struct tw_error said = { 0 };
	char name[4200];

	if (!text)
		return tw_fail(why, TW_BAD_BYTES, "%.*s/manifest.json has no job", PATH_SHOWN,
			       s->path);
	/* its relative paths begin where the job file was */
	snprintf(name, sizeof name, "%.*sthe job in ckpt-%" PRIu64,
		 slash && slash - file < 4000 ? (int)(slash - file + 1) : 0, file ? file : "",
		 s->cut);
	if (tw_job_read_text(name, text, strlen(text), set, n, NULL, world_of(text), out, &said) ==
	    TW_OK)
		return TW_OK;
	return tw_fail(why, said.status, "%s", said.text);
}

enum tw_status tw_snapshot_card(const struct tw_snapshot *s, struct tw_card **out,
				struct tw_error *why)
{
	const json_t *card = json_object_get(s->manifest, "card");
	struct tw_error said = { 0 };
	enum tw_status st = TW_ABSENT;

	if (s->manifest && card)
		st = tw_card_read(&tw_heap_system, card, out, &said);
	else if (!s->manifest)
		st = tw_card_of_metadata(&tw_heap_system, s->safe.metadata, out, &said);
	if (st == TW_OK || st == TW_ABSENT)
		return st;
	return tw_fail(why, st, "%.*s: %s", PATH_SHOWN, s->path, said.text);
}

double tw_snapshot_epochs(const struct tw_snapshot *s)
{
	const json_t *samples = json_object_get(s->manifest, "applied_samples");
	const json_int_t epoch = json_integer_value(json_object_get(s->manifest, "epoch_samples"));

	return samples && epoch > 0 ? json_number_value(samples) / (double)epoch : NAN;
}

static void forget_tensors(struct tw_tensors *t)
{
	if (t)
		tw_tensors_release(t);
	free(t);
}

/* What the manifest says of tensors must be of this vector. */
static enum tw_status check_tensors(struct tw_cut_files *c, struct tw_snapshot *s)
{
	const json_t *list = json_object_get(c->manifest, "layout");
	struct tw_tensors t;
	enum tw_status st;

	if (!list)
		return TW_OK;
	st = tw_tensors_read(c->heap, list, &t);
	if (st == TW_BAD_BYTES || (st == TW_OK && t.trainable + t.buffers != s->count))
		st = tw_cut_bad(c, "manifest.json", "names tensors that do not fit its parameters");
	if (st == TW_OK && t.frozen) {
		s->stored = malloc(sizeof *s->stored);
		if (s->stored) {
			*s->stored = t;
			return TW_OK;
		}
		st = TW_NO_MEMORY;
	}
	tw_tensors_release(&t);
	return st;
}

/* The same elements, tensor by tensor, from where they are kept. */
static enum tw_status mingled_floats(const struct tw_snapshot *s, size_t from, size_t n, float *out)
{
	const struct tw_tensors *l = s->stored;
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < l->tensors && st == TW_OK; k++) {
		const struct tw_tensor *t = &l->tensor[k];
		const size_t a = t->from > from ? t->from : from;
		const size_t b = t->from + t->n < from + n ? t->from + t->n : from + n;

		if (a < b)
			st = tw_cut_floats(s->files, s->range, s->ranges, t->stored + (a - t->from),
					   b - a, out + (a - from));
	}
	return st;
}

enum tw_status tw_snapshot_floats(const struct tw_snapshot *s, size_t from, size_t n, float *out,
				  struct tw_error *why)
{
	const enum tw_status st =
		from > s->count || n > s->count - from ? TW_BAD_INPUT
		: s->stored                            ? mingled_floats(s, from, n, out)
			    : tw_cut_floats(s->files, s->range, s->ranges, from, n, out);

	return st == TW_OK ? TW_OK
			   : tw_fail(why, st, "%.*s cannot be read any more: %s", PATH_SHOWN,
				     s->path, s->files->why);
}

static enum tw_status read_cut(struct tw_cut_files *c, int at, const char *name,
			       struct tw_snapshot *s)
{
	const char *slash = strrchr(name, '/');
	const uint64_t number = tw_cut_number(slash ? slash + 1 : name);
	enum tw_status st = tw_cut_open(&tw_heap_system, at, name, c);

	if (st == TW_OK && number && c->number != number)
		st = tw_cut_bad(c, "manifest.json", "is of another checkpoint");
	if (st == TW_OK)
		st = tw_cut_ranges(c, &s->range, &s->ranges);
	if (st == TW_OK) {
		s->count = s->range[s->ranges - 1].to;
		st = check_tensors(c, s);
	}
	s->manifest = json_incref(c->manifest);
	s->cut = c->number;
	return st;
}

static void clear(struct tw_snapshot *s)
{
	free(s->path);
	json_decref(s->manifest);
	tw_job_free(s->job);
	if (s->files) {
		tw_cut_ranges_free(&tw_heap_system, s->range, s->ranges);
		tw_cut_release(s->files);
		free(s->files);
	}
	forget_tensors(s->stored);
	tw_safe_release(&s->safe);
	tw_block_drop(s->bytes);
	*s = (struct tw_snapshot){ .path = NULL };
}

/* The cut `name` under `at`, which people call `path`.  Damage is TW_BAD_BYTES with what is wrong
 * in damage[200] and no sentence. */
static enum tw_status open_cut(int at, const char *name, const char *path, struct tw_snapshot *s,
			       char damage[200], struct tw_error *why)
{
	enum tw_status st = TW_NO_MEMORY;

	damage[0] = '\0';
	s->files = calloc(1, sizeof *s->files);
	if (s->files) {
		st = read_cut(s->files, at, name, s);
		snprintf(damage, 200, "%s", s->files->why);
	}
	if (st == TW_OK && !(s->path = strdup(path)))
		st = TW_NO_MEMORY;
	if (st == TW_NO_MEMORY)
		no_memory(why, path);
	if (st == TW_IO)
		tw_fail(why, st, "%.*s cannot be read: %s", PATH_SHOWN, path, damage);
	if (st == TW_OK)
		st = tw_snapshot_job(s, NULL, 0, &s->job, why);
	if (st != TW_OK)
		clear(s);
	return st;
}

/* --- a run directory --- */

/* Go through the cuts, newest first.  TW_ABSENT without a sentence: they went while we looked. */
static enum tw_status open_newest(int at, const char *dir, const struct tw_log *log,
				  struct tw_snapshot *s, struct tw_error *why)
{
	enum tw_status st = TW_ABSENT;
	uint64_t *list = NULL;
	size_t count = 0;

	if (tw_cut_list(at, &list, &count) != TW_OK)
		return tw_fail(why, TW_IO, "%.*s cannot be read: %s", PATH_SHOWN, dir,
			       strerror(errno));
	if (!count && faccessat(at, "diverged", F_OK, 0) == 0)
		tw_fail(why, TW_ABSENT,
			"the run in %.*s diverged and has no usable checkpoint; run it again with "
			"a lower update.rate",
			PATH_SHOWN, dir);
	else if (!count && faccessat(at, "job.yaml", F_OK, 0) == 0)
		tw_fail(why, TW_ABSENT, "the run in %.*s has no checkpoint yet", PATH_SHOWN, dir);
	else if (!count)
		st = tw_fail(why, TW_BAD_INPUT,
			     "%.*s is neither a run directory nor a checkpoint: it has no ckpt-<n> "
			     "and no manifest.json; give the directory that `thalweg train` made, "
			     "such as runs/NAME",
			     PATH_SHOWN, dir);
	for (size_t k = 0; k < count; k++) {
		char name[40], path[4400], damage[200];

		snprintf(name, sizeof name, "ckpt-%" PRIu64, list[k]);
		snprintf(path, sizeof path, "%s/%s", dir, name);
		st = open_cut(at, name, path, s, damage, why);
		if (st != TW_BAD_BYTES || why->text[0])
			break;
		if (faccessat(at, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
			st = TW_ABSENT;
			break;
		}
		if (k + 1 < count)
			tw_log_line(log, TW_WARNING, "checkpoint",
				    "%s is refused: %s; using the one before it", path, damage);
		else
			tw_fail(why, TW_BAD_BYTES,
				"%.*s is damaged: %s; there is no checkpoint before it", PATH_SHOWN,
				path, damage);
	}
	free(list);
	return st;
}

static enum tw_status open_run(int at, const char *dir, const struct tw_log *log,
			       struct tw_snapshot *s, struct tw_error *why)
{
	enum tw_status st = TW_ABSENT;

	for (int k = 0; k < TRIES && st == TW_ABSENT && !why->text[0]; k++)
		st = open_newest(at, dir, log, s, why);
	if (st == TW_ABSENT)
		tw_fail(why, st,
			"the checkpoints of %.*s are replaced faster than they can be "
			"read",
			PATH_SHOWN, dir);
	return st;
}

/* --- anything --- */

#define TO_SAFETENSORS                                                                             \
	"in Python: safetensors.torch.save_file(net.state_dict(), \"net.safetensors\")"

/* What other files begin with. */
static const struct {
	const char *begin;
	size_t bytes;
	const char *what, *remedy;
} others[] = {
	{ "PK\x03\x04", 4, "a zip file, such as torch.save writes (.pt)",
	  "make a safetensors file of it, " TO_SAFETENSORS },
	{ "\x80\x02", 2, "a pickle of Python", "make a safetensors file of it, " TO_SAFETENSORS },
	{ "\x80\x03", 2, "a pickle of Python", "make a safetensors file of it, " TO_SAFETENSORS },
	{ "\x80\x04", 2, "a pickle of Python", "make a safetensors file of it, " TO_SAFETENSORS },
	{ "\x80\x05", 2, "a pickle of Python", "make a safetensors file of it, " TO_SAFETENSORS },
	{ "\x89HDF", 4, "an HDF5 file, such as Keras writes", "make a safetensors file of it" },
	{ "\x93NUMPY", 6, "a NumPy array", "give rows to predict with --data" },
	{ "\x89PNG", 4, "an image", "give what to predict with --data" },
	{ "\xff\xd8\xff", 3, "an image", "give what to predict with --data" },
	{ "\x1f\x8b", 2, "a gzip file", "unpack it first" },
};

static bool ends(const char *path, const char *tail)
{
	const size_t n = strlen(path), m = strlen(tail);

	return n >= m && strcmp(path + n - m, tail) == 0;
}

static bool printable(const uint8_t *bytes, size_t n)
{
	for (size_t k = 0; k < n && k < 512; k++)
		if (bytes[k] < 0x20 && !memchr("\t\r\n", bytes[k], 3))
			return false;
	return n > 0;
}

/* Something else, perhaps: say what it is, and what would help.  *why stays empty if it is not. */
static void say_what_it_is(const char *path, const struct tw_block *b, struct tw_error *why)
{
	static const char where[] = "trained parameters are in a run directory, a checkpoint or a "
				    "safetensors file";

	for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
		if (b->bytes >= others[k].bytes &&
		    memcmp(b->data, others[k].begin, others[k].bytes) == 0) {
			tw_fail(why, TW_BAD_INPUT, "%.*s is %s; %s", PATH_SHOWN, path,
				others[k].what, others[k].remedy);
			return;
		}
	if (b->bytes == 0)
		tw_fail(why, TW_BAD_BYTES, "%.*s is not a safetensors file: it is empty; %s",
			PATH_SHOWN, path, where);
	else if (ends(path, ".yaml") || ends(path, ".yml"))
		tw_fail(why, TW_BAD_INPUT,
			"%.*s is a job file, not what was trained; give the run directory that "
			"`thalweg train` made of it, such as runs/NAME",
			PATH_SHOWN, path);
	else if (printable(b->data, b->bytes))
		tw_fail(why, TW_BAD_BYTES, "%.*s is not a safetensors file: it is text; %s",
			PATH_SHOWN, path, where);
}

/* All of the file, once its header is right: whatever is not what it says is not read. */
static enum tw_status read_safe(const char *path, struct tw_snapshot *s, struct tw_error *said)
{
	struct tw_heap *heap = &tw_heap_system;
	uint64_t whole = 0;
	enum tw_status st = tw_file_begin(AT_FDCWD, path, HEAD_MOST, heap, &s->bytes, &whole);

	if (st != TW_OK || whole <= HEAD_MOST ||
	    tw_safe_read_head(heap, s->bytes->data, s->bytes->bytes, whole, &s->safe, said) !=
		    TW_OK)
		return st;
	tw_safe_release(&s->safe);
	tw_block_drop(s->bytes);
	s->bytes = NULL;
	return tw_file_read(AT_FDCWD, path, FILE_MOST, heap, &s->bytes);
}

static enum tw_status open_file(const char *path, struct tw_snapshot *s, struct tw_error *why)
{
	struct tw_error said = { 0 };
	enum tw_status st = read_safe(path, s, &said);

	if (st == TW_NO_MEMORY || (st == TW_OK && !(s->path = strdup(path))))
		st = no_memory(why, path);
	else if (st != TW_OK)
		st = tw_fail(why, st == TW_BAD_BYTES ? TW_IO : st, "%.*s cannot be read: %s",
			     PATH_SHOWN, path, tw_cause(errno));
	if (st == TW_OK) {
		st = said.status != TW_OK ? said.status
					  : tw_safe_read(&tw_heap_system, s->bytes->data,
							 s->bytes->bytes, &s->safe, &said);
		if (st == TW_BAD_BYTES)
			say_what_it_is(path, s->bytes, why);
		if (st != TW_OK)
			st = tw_fail(why, why->text[0] ? why->status : st,
				     "%.*s is not a safetensors file: %s", PATH_SHOWN, path,
				     said.text);
	}
	if (st != TW_OK)
		clear(s);
	return st;
}

static bool is_cut(int at, const char *dir)
{
	const char *slash = strrchr(dir, '/');

	return tw_cut_number(slash ? slash + 1 : dir) ||
	       faccessat(at, "manifest.json", F_OK, 0) == 0;
}

static enum tw_status open_folder(const char *dir, const struct tw_log *log, struct tw_snapshot *s,
				  struct tw_error *why)
{
	const int at = tw_folder_at(AT_FDCWD, dir);
	char damage[200] = "";
	enum tw_status st;

	if (at < 0)
		return tw_fail(why, TW_IO, "%.*s cannot be read: %s", PATH_SHOWN, dir,
			       strerror(errno));
	if (is_cut(at, dir)) {
		st = open_cut(AT_FDCWD, dir, dir, s, damage, why);
		if (st == TW_BAD_BYTES)
			tw_fail(why, st, "%.*s is damaged: %s", PATH_SHOWN, dir, damage);
	} else {
		st = open_run(at, dir, log, s, why);
	}
	close(at);
	return st;
}

enum tw_status tw_snapshot_open(const char *path, const struct tw_log *log,
				struct tw_snapshot **out, struct tw_error *why)
{
	struct tw_snapshot *s = calloc(1, sizeof *s);
	char *plain = strdup(path);
	size_t n = strlen(path);
	enum tw_status st;
	struct stat kind;

	while (plain && n > 1 && plain[n - 1] == '/')
		plain[--n] = '\0';
	if (!s || !plain)
		st = no_memory(why, path);
	else if (stat(path, &kind))
		st = tw_fail(why, errno == ENOENT || errno == ENOTDIR ? TW_ABSENT : TW_IO,
			     "%.*s cannot be read: %s; give a run directory, a checkpoint or a "
			     "safetensors file",
			     PATH_SHOWN, path, strerror(errno));
	else if (S_ISDIR(kind.st_mode))
		st = open_folder(plain, log, s, why);
	else if (S_ISREG(kind.st_mode))
		st = open_file(plain, s, why);
	else
		st = tw_fail(why, TW_BAD_INPUT,
			     "%.*s is neither a run directory nor a checkpoint nor a "
			     "safetensors file",
			     PATH_SHOWN, path);
	free(plain);
	if (st == TW_OK)
		*out = s;
	else
		free(s);
	return st;
}

void tw_snapshot_close(struct tw_snapshot *s)
{
	if (!s)
		return;
	clear(s);
	free(s);
}
