/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - trained parameters as files that others read: safetensors, one .npy each, or C.
 *
 * Names are those of PyTorch's nn.Sequential, so that load_state_dict takes them. */
#include "checkpoint/export.h"

#include "base/machine/regular_file.h"
#include "data/format/npy.h"
#include "checkpoint/model_card.h"
#include "checkpoint/export_c.h"
#include "checkpoint/files.h"
#include "checkpoint/tensors.h"
#include "model/torch_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const tw_export_formats[] = {
	[TW_EXPORT_SAFETENSORS] = "safetensors",
	[TW_EXPORT_NPY] = "npy",
	[TW_EXPORT_C] = "c",
	NULL,
};

#define PIECE     ((size_t)1 << 20) /* of a file that is written */
#define NAME_ROOM 300               /* of a tensor's name with another number */

/* What goes out, from a checkpoint or a file. */
struct goods {
	struct tw_safe_tensor *tensor;
	size_t tensors;
	struct tw_tensors names;   /* of a checkpoint */
	struct tw_card *card;      /* NULL: it has none */
	char (*number)[NAME_ROOM]; /* names of tensors that got another number */
	char *torch;               /* source of the network; NULL: none */
	uint64_t bytes;            /* written so far */
};

static enum tw_status from_cut(const struct tw_snapshot *s, struct goods *g)
{
	enum tw_status st = tw_snapshot_tensors(s, &tw_heap_system, &g->names);

	if (st != TW_OK)
		return st;
	g->tensors = g->names.tensors;
	g->tensor = tw_heap_zeros(&tw_heap_system, (g->tensors + 1) * sizeof *g->tensor);
	if (!g->tensor)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < g->tensors; k++) {
		const struct tw_tensor *t = &g->names.tensor[k];

		g->tensor[k] = (struct tw_safe_tensor){
			.name = t->name,
			.type = TW_SAFE_F32,
			.rank = t->rank,
			.count = t->n,
			.data = NULL, /* read when it is written */
			.bytes = t->n * sizeof(float),
		};
		memcpy(g->tensor[k].d, t->d, sizeof g->tensor[k].d);
	}
	return TW_OK;
}

static enum tw_status from_file(const struct tw_snapshot *s, struct goods *g)
{
	g->tensors = s->safe.tensors;
	g->tensor = tw_heap_zeros(&tw_heap_system, (g->tensors + 1) * sizeof *g->tensor);
	if (!g->tensor)
		return TW_NO_MEMORY;
	memcpy(g->tensor, s->safe.tensor, g->tensors * sizeof *g->tensor);
	return TW_OK;
}

/* --- what goes along --- */

/* The network as PyTorch would write it; without it the tensors are good all the same. */
static enum tw_status find_torch(struct goods *g, const char *path, struct tw_error *why)
{
	struct tw_graph *graph = NULL;
	struct tw_error said = { 0 };
	enum tw_status st = tw_card_graph(g->card, &tw_heap_system, &graph, &said);

	if (st != TW_OK)
		return tw_fail(why, st, "%.300s: %s", path, said.text);
	st = tw_torch_text(graph, g->card->layer, g->card->layers, &g->torch);
	tw_graph_free(graph);
	return st == TW_NO_MEMORY ? st : TW_OK;
}

static enum tw_status find_card(const struct tw_snapshot *s, struct goods *g, struct tw_error *why)
{
	enum tw_status st = tw_snapshot_card(s, &g->card, why);

	if (st == TW_ABSENT)
		return TW_OK;
	if (st == TW_OK && g->card->layers)
		st = find_torch(g, s->path, why);
	return st;
}

/* The tensors of the network are really those that its layers have. */
static enum tw_status check_tensors(const struct tw_snapshot *s, const struct goods *g,
				    struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_graph *graph = NULL;
	enum tw_status st = tw_card_graph(g->card, heap, &graph, why);

	if (st == TW_OK)
		st = tw_snapshot_is_of(s, graph, why);
	tw_graph_free(graph);
	return st;
}

/* Tensor "4.body.0.weight" of a layer that moves back by one is "5.body.0.weight". */
static enum tw_status renumber(struct goods *g, struct tw_error *why)
{
	g->number = tw_heap_zeros(&tw_heap_system, (g->tensors + 1) * sizeof *g->number);
	if (!g->number)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < g->tensors; k++) {
		char *end;
		const unsigned long layer = strtoul(g->tensor[k].name, &end, 10);

		if (snprintf(g->number[k], sizeof g->number[k], "%lu%s", layer + 1, end) >=
		    (int)sizeof g->number[k])
			return tw_fail(why, TW_BAD_INPUT, "tensor %.80s has too long a name",
				       g->tensor[k].name);
		g->tensor[k].name = g->number[k];
	}
	return TW_OK;
}

static struct tw_safe_tensor first_tensor(const struct tw_data *d, const char *name, const float *v,
					  size_t n)
{
	const bool shared = d->rank == 3 && n < d->features;
	struct tw_safe_tensor t = {
		.name = name,
		.type = TW_SAFE_F32,
		.rank = d->rank,
		.count = n,
		.data = (const uint8_t *)v,
		.bytes = n * sizeof *v,
	};

	for (uint32_t k = 0; k < d->rank; k++)
		t.d[k] = k && shared ? 1 : d->shape[k];
	return t;
}

/* The normalisation becomes layer 0, and every other layer moves back by one. */
static enum tw_status stand_alone(const struct tw_snapshot *s, struct goods *g,
				  struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_safe_tensor *more;
	const float *scale = NULL, *shift = NULL;
	enum tw_status st;
	size_t n = 0;

	if (!g->card)
		return tw_fail(why, TW_BAD_INPUT,
			       "--standalone: %.300s has no model card, so its normalisation is "
			       "not known",
			       s->path);
	st = tw_card_computes(g->card, s->path, why);
	if (st == TW_OK && g->card->standalone)
		return tw_fail(why, TW_BAD_INPUT,
			       "--standalone: %.300s already contains its normalisation", s->path);
	if (st == TW_OK)
		st = check_tensors(s, g, why);
	if (st == TW_OK && g->card->data.tokens) { /* there is nothing to normalise */
		g->card->standalone = true;
		return TW_OK;
	}
	if (st == TW_OK)
		st = renumber(g, why);
	if (st == TW_OK)
		st = tw_card_stand_alone(g->card, &scale, &shift, &n, why);
	more = st == TW_OK ? heap->get(heap, (g->tensors + 3) * sizeof *more) : NULL;
	if (!more)
		return st == TW_OK ? TW_NO_MEMORY : st;
	more[0] = first_tensor(&g->card->data, "0.weight", scale, n);
	more[1] = first_tensor(&g->card->data, "0.bias", shift, n);
	memcpy(more + 2, g->tensor, g->tensors * sizeof *more);
	heap->put(heap, g->tensor);
	g->tensor = more;
	g->tensors += 2;
	free(g->torch);
	g->torch = NULL;
	return find_torch(g, s->path, why);
}

static enum tw_status gather(const struct tw_snapshot *s, bool standalone, struct goods *g,
			     struct tw_error *why)
{
	enum tw_status st = s->files ? from_cut(s, g) : from_file(s, g);

	if (st == TW_OK)
		st = find_card(s, g, why);
	if (st == TW_OK && standalone)
		st = stand_alone(s, g, why);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "no memory to export %.300s", s->path);
}

static void release(struct goods *g)
{
	tw_heap_system.put(&tw_heap_system, g->tensor);
	tw_heap_system.put(&tw_heap_system, g->number);
	tw_tensors_release(&g->names);
	tw_card_free(g->card);
	free(g->torch);
}

/* --- safetensors --- */

static bool add_text(json_t *o, const char *name, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
	const bool added = text && json_object_set_new(o, name, json_string(text)) == 0;

	free(text);
	json_decref(value);
	return added;
}

/* {"format": "pt", ...}: what PyTorch's reader expects, where the values come from, the card, and
 * how PyTorch makes the network. */
static char *metadata(const struct tw_snapshot *s, const struct goods *g)
{
	json_t *m = json_pack("{s:s, s:s}", "format", "pt", "thalweg", TW_VERSION);
	char text[40];
	char *out;

	if (m && s->job) {
		json_object_set_new(m, "strategy", json_string(s->job->title));
		if (isfinite(tw_snapshot_epochs(s))) {
			snprintf(text, sizeof text, "%.17g", tw_snapshot_epochs(s));
			json_object_set_new(m, "epochs", json_string(text));
		}
		snprintf(text, sizeof text, "%" PRIu64, s->cut);
		json_object_set_new(m, "checkpoint", json_string(text));
	}
	if (m && g->torch)
		json_object_set_new(m, "pytorch", json_string(g->torch));
	out = m && (!g->card || add_text(m, TW_CARD_METADATA, tw_card_json(g->card)))
		      ? json_dumps(m, JSON_COMPACT)
		      : NULL;
	json_decref(m);
	return out;
}

/* Bytes at..at+bytes of a tensor's data, from memory or from the checkpoint. */
static enum tw_status read_data(const struct tw_snapshot *s, const struct goods *g, size_t k,
				uint64_t at, size_t bytes, void *out, struct tw_error *why)
{
	const size_t added = g->tensors - g->names.tensors; /* in front, by stand_alone */

	if (g->tensor[k].data || !bytes) {
		if (bytes)
			memcpy(out, g->tensor[k].data + at, bytes);
		return TW_OK;
	}
	return tw_snapshot_floats(s, g->names.tensor[k - added].from + at / sizeof(float),
				  bytes / sizeof(float), out, why);
}

static enum tw_status no_image(const struct tw_snapshot *s, size_t letters, enum tw_status st,
			       struct tw_error *why)
{
	return tw_fail(why, st, "a safetensors file of %.300s cannot be made: %s", s->path,
		       st == TW_NO_MEMORY             ? "no memory"
		       : letters > TW_SAFE_HEADER / 2 ? "its names and its normalisation are "
							"larger than a header may be"
						      : "a tensor is of a type that is not known");
}

/* What comes before the data. */
static enum tw_status make_head(const struct tw_snapshot *s, const struct goods *g,
				struct tw_block **out, struct tw_error *why)
{
	char *facts = metadata(s, g);
	const size_t letters = facts ? strlen(facts) : 0;
	enum tw_status st =
		facts ? tw_safe_write_head(&tw_heap_system, g->tensor, g->tensors, facts, out)
		      : TW_NO_MEMORY;

	free(facts);
	return st == TW_OK ? TW_OK : no_image(s, letters, st, why);
}

static uint64_t data_bytes(const struct goods *g)
{
	uint64_t sum = 0;

	for (size_t k = 0; k < g->tensors; k++)
		sum += g->tensor[k].bytes;
	return sum;
}

/* The file as one block. */
static enum tw_status image(const struct tw_snapshot *s, const struct goods *g,
			    struct tw_block **out, struct tw_error *why)
{
	struct tw_block *head = NULL, *all = NULL;
	enum tw_status st = make_head(s, g, &head, why);
	uint64_t at = 0;

	if (st == TW_OK && !(all = tw_block_new(&tw_heap_system, head->bytes + data_bytes(g))))
		st = no_image(s, 0, TW_NO_MEMORY, why);
	if (st == TW_OK) {
		memcpy(all->data, head->data, head->bytes);
		at = head->bytes;
	}
	for (size_t k = 0; k < g->tensors && st == TW_OK; k++) {
		st = read_data(s, g, k, 0, g->tensor[k].bytes, all->data + at, why);
		at += g->tensor[k].bytes;
	}
	tw_block_drop(head);
	if (st == TW_OK)
		*out = all;
	else
		tw_block_drop(all);
	return st;
}

/* The file, piece by piece: no more of it is in memory. */
struct writing {
	const struct tw_snapshot *s;
	const struct goods *g;
	const struct tw_block *head;
	uint8_t *piece; /* PIECE bytes */
	struct tw_error *why;
};

static enum tw_status write_pieces(void *arg, int fd)
{
	const struct writing *w = arg;
	enum tw_status st = tw_file_add(fd, w->head->data, w->head->bytes);

	for (size_t k = 0; k < w->g->tensors && st == TW_OK; k++)
		for (uint64_t at = 0; at < w->g->tensor[k].bytes && st == TW_OK;) {
			const uint64_t left = w->g->tensor[k].bytes - at;
			const size_t n = left < PIECE ? (size_t)left : PIECE;

			st = read_data(w->s, w->g, k, at, n, w->piece, w->why);
			if (st == TW_OK)
				st = tw_file_add(fd, w->piece, n);
			at += n;
		}
	return st;
}

/* The folder of `path` as a descriptor, and the name in it. */
static int folder_of(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char folder[4096];

	*name = slash ? slash + 1 : path;
	snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
		 slash ? path : ".");
	return tw_folder_at(AT_FDCWD, folder);
}

static enum tw_status cannot_write(const char *to, struct tw_error *why)
{
	return tw_fail(why, tw_not_regular(errno) ? TW_BAD_INPUT : TW_IO,
		       "%.300s cannot be written: %s", to, tw_cause(errno));
}

static enum tw_status write_file(const void *data, size_t bytes, const char *to,
				 struct tw_error *why)
{
	const char *name;
	const int at = folder_of(to, &name);
	enum tw_status st = TW_OK;

	if (at < 0 || tw_regular_check(AT_FDCWD, to, true) ||
	    tw_file_replace(at, name, data, bytes) != TW_OK)
		st = cannot_write(to, why);
	if (at >= 0)
		close(at);
	return st;
}

static enum tw_status to_safetensors(const struct tw_snapshot *s, const char *to, struct goods *g,
				     struct tw_error *why)
{
	struct writing w = { .s = s, .g = g, .why = why, .piece = malloc(PIECE) };
	struct tw_block *head = NULL;
	const char *name;
	const int at = folder_of(to, &name);
	enum tw_status st = make_head(s, g, &head, why);

	if (st == TW_OK && !w.piece)
		st = no_image(s, 0, TW_NO_MEMORY, why);
	if (st == TW_OK) {
		w.head = head;
		g->bytes = head->bytes + data_bytes(g);
		st = at < 0 || tw_regular_check(AT_FDCWD, to, true)
			     ? TW_IO
			     : tw_file_replace_by(at, name, write_pieces, &w);
		if (st != TW_OK && why->status == TW_OK)
			st = cannot_write(to, why);
	}
	if (at >= 0)
		close(at);
	tw_block_drop(head);
	free(w.piece);
	return st;
}

/* --- npy --- */

static const char *npy_type(enum tw_safe_type type)
{
	switch (type) {
	case TW_SAFE_F32:
	case TW_SAFE_BF16: /* NumPy has none: as floats, which hold it exactly */
		return "<f4";
	case TW_SAFE_F64:
		return "<f8";
	case TW_SAFE_F16:
		return "<f2";
	case TW_SAFE_I64:
		return "<i8";
	case TW_SAFE_I32:
		return "<i4";
	case TW_SAFE_U8:
		return "|u1";
	default:
		return NULL;
	}
}

static enum tw_status npy_image(const struct tw_snapshot *s, const struct goods *g, size_t k,
				struct tw_block **out, struct tw_error *why)
{
	const struct tw_safe_tensor *t = &g->tensor[k];
	const size_t bytes = t->type == TW_SAFE_BF16 ? t->count * sizeof(float) : t->bytes;
	const char *type = npy_type(t->type);
	struct tw_block *b;
	char head[TW_NPY_HEAD];
	size_t n;

	if (!type)
		return TW_BAD_INPUT;
	n = tw_npy_head(type, t->rank, t->d, head);
	b = tw_block_new(&tw_heap_system, n + bytes);
	if (!b)
		return TW_NO_MEMORY;
	memcpy(b->data, head, n);
	if (t->type == TW_SAFE_BF16) {
		tw_safe_floats(t, (float *)(b->data + n));
	} else if (read_data(s, g, k, 0, bytes, b->data + n, why) != TW_OK) {
		tw_block_drop(b);
		return why->status;
	}
	*out = b;
	return TW_OK;
}

static enum tw_status npy_file(const struct tw_snapshot *s, int at, const char *to, size_t k,
			       struct goods *g, struct tw_error *why)
{
	const struct tw_safe_tensor *t = &g->tensor[k];
	struct tw_block *b = NULL;
	enum tw_status st;
	char name[260];

	if (strchr(t->name, '/') || t->name[0] == '.' || !t->name[0] || strlen(t->name) > 240)
		return tw_fail(why, TW_BAD_INPUT, "tensor '%.80s' has a name that no file can have",
			       t->name);
	st = npy_image(s, g, k, &b, why);
	if (st != TW_OK && why->status != TW_OK)
		return why->status;
	if (st != TW_OK)
		return tw_fail(why, st, "tensor %.80s cannot be written as npy: %s", t->name,
			       st == TW_NO_MEMORY ? "no memory" : "NumPy has no such type");
	snprintf(name, sizeof name, "%s.npy", t->name);
	st = tw_file_replace(at, name, b->data, b->bytes);
	if (st != TW_OK)
		cannot_write(to, why);
	g->bytes += b->bytes;
	tw_block_drop(b);
	return st;
}

static enum tw_status npy_files(const struct tw_snapshot *s, const char *folder, const char *to,
				struct goods *g, struct tw_error *why)
{
	const int at = tw_folder_at(AT_FDCWD, folder);
	enum tw_status st = at < 0 ? cannot_write(to, why) : TW_OK;

	for (size_t k = 0; k < g->tensors && st == TW_OK; k++)
		st = npy_file(s, at, to, k, g, why);
	if (at >= 0)
		close(at);
	return st;
}

static bool is_npy(const char *name, unsigned depth)
{
	const char *end = strrchr(name, '.');

	return depth == 0 && end && strcmp(end, ".npy") == 0;
}

/* A new directory gets its name when it is whole; in one that is there files are replaced. */
static enum tw_status to_npy(const struct tw_snapshot *s, const char *to, struct goods *g,
			     struct tw_error *why)
{
	char name[4100], fresh[4200], odd[TW_ODD];
	enum tw_status st;
	struct stat there;
	size_t n;

	if (stat(to, &there) == 0)
		return npy_files(s, to, to, g, why);
	n = (size_t)snprintf(name, sizeof name, "%.4000s", to);
	while (n > 1 && name[n - 1] == '/')
		name[--n] = '\0';
	if (!tw_file_beside(name, fresh, sizeof fresh) || mkdir(fresh, 0777))
		return cannot_write(to, why);
	st = npy_files(s, fresh, to, g, why);
	if (st == TW_OK && rename(fresh, to))
		st = cannot_write(to, why);
	if (st != TW_OK)
		tw_folder_remove(AT_FDCWD, fresh, is_npy, odd);
	return st;
}

/* --- C --- */

static enum tw_status to_c(const struct tw_snapshot *s, const char *to, struct goods *g,
			   struct tw_error *why)
{
	char *source = NULL;
	size_t bytes = 0;
	enum tw_status st = tw_export_c(s, g->card, &source, &bytes, why);

	if (st == TW_OK)
		st = write_file(source, bytes, to, why);
	g->bytes = bytes;
	free(source);
	return st;
}

/* --- either --- */

/* A name that promises another format would mislead whoever opens the file. */
static const char *other_format(const char *to)
{
	static const char *const of[][2] = {
		{ ".pt", "PyTorch's pickle" }, { ".pth", "PyTorch's pickle" },
		{ ".ckpt", "a pickle" },       { ".pkl", "a pickle" },
		{ ".onnx", "ONNX" },           { ".h5", "HDF5" },
		{ ".npz", "NumPy's archive" }, { ".npy", "one NumPy array" },
	};
	const char *end = strrchr(to, '.');

	for (size_t k = 0; end && k < sizeof of / sizeof of[0]; k++)
		if (strcmp(end, of[k][0]) == 0)
			return of[k][1];
	return NULL;
}

static enum tw_status check_target(const struct tw_export_request *r, struct tw_error *why)
{
	const bool folder = r->format == TW_EXPORT_NPY;
	const char *other = folder ? NULL : other_format(r->to);
	struct stat there;

	if (r->format == TW_EXPORT_C && r->standalone)
		return tw_fail(why, TW_BAD_INPUT,
			       "--standalone: a C file always contains the normalisation; leave "
			       "--standalone out");
	if (other)
		return tw_fail(why, TW_BAD_INPUT,
			       "--to: %.300s would be %s, and safetensors is written; let the name "
			       "end with .safetensors, or add --format npy and name a directory",
			       r->to, other);
	if (stat(r->to, &there))
		return TW_OK;
	if (folder && !S_ISDIR(there.st_mode))
		return tw_fail(why, TW_BAD_INPUT,
			       "--to: %.300s is a file; npy needs a directory, one file per tensor",
			       r->to);
	if (!folder && S_ISDIR(there.st_mode))
		return tw_fail(why, TW_BAD_INPUT,
			       "--to: %.300s is a directory; name a file in it, such as "
			       "model.safetensors, or add --format npy",
			       r->to);
	if (!r->force)
		return tw_fail(why, TW_BAD_INPUT,
			       "--to: %.300s exists already; --force overwrites it", r->to);
	return TW_OK;
}

enum tw_status tw_export(const struct tw_export_request *r, json_t **out, struct tw_error *why)
{
	struct tw_snapshot *s = NULL;
	struct goods g = { .tensor = NULL };
	enum tw_status st = check_target(r, why);

	if (st == TW_OK)
		st = tw_snapshot_open(r->path, r->log, &s, why);
	if (st == TW_OK)
		st = gather(s, r->standalone, &g, why);
	if (st == TW_OK)
		st = r->format == TW_EXPORT_NPY ? to_npy(s, r->to, &g, why)
		     : r->format == TW_EXPORT_C ? to_c(s, r->to, &g, why)
						: to_safetensors(s, r->to, &g, why);
	if (st == TW_OK) {
		*out = json_pack("{s:s, s:s, s:s, s:I, s:I, s:b, s:s?}", "checkpoint", s->path,
				 "to", r->to, "format", tw_export_formats[r->format], "tensors",
				 (json_int_t)g.tensors, "bytes", (json_int_t)g.bytes, "standalone",
				 (int)r->standalone, "pytorch", g.torch);
		if (!*out)
			st = tw_fail(why, TW_NO_MEMORY, "no memory for the result");
	}
	release(&g);
	tw_snapshot_close(s);
	return st;
}

/* --- for those who are elsewhere --- */

enum tw_status tw_export_bytes(const char *path, const struct tw_log *log, struct tw_block **out,
			       struct tw_error *why)
{
	struct tw_snapshot *s = NULL;
	struct goods g = { .tensor = NULL };
	enum tw_status st = tw_snapshot_open(path, log, &s, why);

	if (st == TW_OK)
		st = gather(s, false, &g, why);
	if (st == TW_OK)
		st = image(s, &g, out, why);
	release(&g);
	tw_snapshot_close(s);
	return st;
}

/* --- for those who are elsewhere --- */

enum tw_status tw_save_check(const char *to, struct tw_error *why)
{
	const char *name;
	struct stat there;
	int at;

	if (lstat(to, &there) == 0)
		return tw_fail(why, TW_BAD_INPUT, "--save: %.300s is %s; name a new file", to,
			       S_ISDIR(there.st_mode) ? "a directory" : "there already");
	at = folder_of(to, &name);
	if (at < 0 || !*name)
		tw_fail(why, TW_BAD_INPUT,
			"--save: %.300s cannot be written: %s; name a file in a directory that is "
			"there",
			to, at < 0 ? strerror(errno) : "it names no file");
	else if (faccessat(at, ".", W_OK, AT_EACCESS))
		tw_fail(why, TW_BAD_INPUT,
			"--save: %.300s cannot be written: %s; name a file where you may write", to,
			strerror(errno));
	if (at >= 0)
		close(at);
	return why->status;
}

enum tw_status tw_save(const struct tw_block *b, const char *to, struct tw_error *why)
{
	struct tw_error said = { 0 };
	struct tw_safe safe;

	if (tw_safe_read(&tw_heap_system, b->data, b->bytes, &safe, &said) != TW_OK)
		return tw_fail(why, TW_BAD_BYTES, "the model that was received cannot be read: %s",
			       said.text);
	tw_safe_release(&safe);
	if (tw_save_check(to, why) != TW_OK) /* it may have appeared since */
		return why->status;
	return write_file(b->data, b->bytes, to, why);
}
