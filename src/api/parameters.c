/* SPDX-License-Identifier: Apache-2.0 */
/* parameters.c - what was trained: loaded, saved, evaluated, handed out. */
#include "api/handle.h"

#include "base/machine/regular_file.h"
#include "engine/score.h"
#include "checkpoint/model_card.h"
#include "checkpoint/files.h"
#include "checkpoint/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t elements(const struct thalweg_job *h)
{
	return tw_engine_floats(h->engine);
}

const float *thalweg_parameters(const struct thalweg_job *job, size_t *count)
{
	const float *vector = job ? job->vector : NULL;

	if (count)
		*count = vector ? elements(job) : 0;
	return vector;
}

static enum tw_status absent(struct tw_error *why)
{
	return tw_fail(why, TW_ABSENT,
		       "there are no parameters yet: train the job to its end, or load some");
}

/* --- from and to disk ------------------------------------------------------------------------- */

enum thalweg_status thalweg_load(struct thalweg_job *h, const char *path, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	struct tw_snapshot *s = NULL;
	float *vector = NULL;
	enum tw_status st;

	if (!h || !path)
		return tw_api_null(why, "thalweg_load", h ? "path" : "job");
	st = tw_snapshot_open(path, &h->log, &s, &said);
	if (st == TW_OK)
		st = tw_snapshot_fit(s, &h->layout, h->heap, &vector, &said);
	tw_snapshot_close(s);
	if (st != TW_OK)
		return tw_api_fail(why, &said);
	h->heap->put(h->heap, h->vector);
	h->vector = vector;
	return tw_api_done(why);
}

/* The model card, so that the file alone is enough to predict; for free(). */
static char *metadata(const struct thalweg_job *h)
{
	struct tw_error why = { 0 };
	struct tw_card *card = NULL;
	json_t *o = NULL, *m = NULL;
	char *text = NULL, *out = NULL;

	if (tw_card_make(h->job, h->engine, &card, &why) == TW_OK && (o = tw_card_json(card)))
		text = json_dumps(o, JSON_COMPACT);
	if (text)
		m = json_pack("{s:s, s:s, s:s}", "format", "pt", "thalweg", TW_VERSION,
			      TW_CARD_METADATA, text);
	if (m)
		out = json_dumps(m, JSON_COMPACT);
	free(text);
	json_decref(m);
	json_decref(o);
	tw_card_free(card);
	return out;
}

static enum tw_status pack(const struct thalweg_job *h, struct tw_block **out)
{
	const struct tw_tensors *l = &h->layout;
	struct tw_safe_tensor *t = tw_heap_zeros(h->heap, l->tensors * sizeof *t);
	enum tw_status st;
	char *facts;

	if (!t)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < l->tensors; k++) {
		t[k] = (struct tw_safe_tensor){
			.name = l->tensor[k].name,
			.type = TW_SAFE_F32,
			.rank = l->tensor[k].rank,
			.count = l->tensor[k].n,
			.data = (const uint8_t *)(h->vector + l->tensor[k].from),
			.bytes = l->tensor[k].n * sizeof(float),
		};
		memcpy(t[k].d, l->tensor[k].d, sizeof t[k].d);
	}
	facts = metadata(h);
	st = facts ? tw_safe_write(h->heap, t, l->tensors, facts, out) : TW_NO_MEMORY;
	h->heap->put(h->heap, t);
	free(facts);
	return st;
}

/* Beside the file itself, so that a rename is enough. */
static enum tw_status replace(const char *path, const struct tw_block *bytes)
{
	const char *slash = strrchr(path, '/');
	char folder[4096];
	enum tw_status st;
	int at;

	if (slash && (size_t)(slash - path) + 2 > sizeof folder) {
		errno = ENAMETOOLONG;
		return TW_IO;
	}
	snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
		 slash ? path : ".");
	at = tw_folder_at(AT_FDCWD, folder);
	if (at < 0)
		return TW_IO;
	st = tw_regular_check(AT_FDCWD, path, true) ? tw_not_regular(errno) ? TW_BAD_INPUT : TW_IO
						    : TW_OK;
	if (st == TW_OK)
		st = tw_file_replace(at, slash ? slash + 1 : path, bytes->data, bytes->bytes);
	if (st != TW_OK) {
		const int kept = errno;

		close(at);
		errno = kept;
		return st;
	}
	close(at);
	return TW_OK;
}

enum tw_status tw_api_write(const char *path, const struct tw_block *bytes, struct tw_error *why)
{
	enum tw_status st;

	if (!*path || path[strlen(path) - 1] == '/')
		return tw_fail(why, TW_BAD_INPUT, "'%.200s' names no file to save to", path);
	st = replace(path, bytes);
	if (st != TW_OK)
		tw_fail(why, st, "%.200s cannot be written: %s", path,
			st == TW_IO || st == TW_BAD_INPUT ? tw_cause(errno) : tw_status_name(st));
	return st;
}

enum tw_status tw_api_save(const struct thalweg_job *h, const char *path, struct tw_error *why)
{
	struct tw_block *bytes = NULL;
	enum tw_status st;

	if (!h->vector)
		return absent(why);
	st = pack(h, &bytes);
	if (st != TW_OK)
		return tw_fail(why, st, "%.200s: the parameters cannot be encoded: %s", path,
			       tw_status_name(st));
	st = tw_api_write(path, bytes, why);
	tw_block_drop(bytes);
	return st;
}

enum thalweg_status thalweg_save(struct thalweg_job *h, const char *path, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };

	if (!h || !path)
		return tw_api_null(why, "thalweg_save", h ? "path" : "job");
	return tw_api_save(h, path, &said) == TW_OK ? tw_api_done(why) : tw_api_fail(why, &said);
}

/* --- evaluation ------------------------------------------------------------------------------- */

static enum tw_status evaluate(const struct thalweg_job *h, struct tw_score *sum,
			       struct tw_error *why)
{
	const size_t bytes = h->engine->scratch_bytes;
	const struct tw_constants *c = &h->engine->constants;
	const char *function = "";
	enum tw_status st;
	float *moving = NULL;
	void *scratch;
	int code;

	if (!h->vector)
		return absent(why);
	scratch = h->heap->get(h->heap, bytes ? bytes : 1);
	if (c->floats)
		moving = h->heap->get(h->heap, elements(h) * sizeof *moving);
	if (!scratch || (c->floats && !moving)) {
		h->heap->put(h->heap, scratch);
		h->heap->put(h->heap, moving);
		return tw_fail(why, TW_NO_MEMORY, "no memory to evaluate");
	}
	if (moving)
		tw_constants_leave_out(c, h->vector, elements(h), moving);
	st = tw_score_all(h->engine, moving ? moving : h->vector, scratch, sum);
	h->heap->put(h->heap, moving);
	h->heap->put(h->heap, scratch);
	code = tw_outer_failure(h->outer, &function);
	if (st != TW_OK && code)
		return tw_fail(why, st, "the engine's function %s returned %d", function, code);
	return st == TW_OK ? TW_OK
			   : tw_fail(why, st, "the evaluation failed: %s", tw_status_name(st));
}

enum thalweg_status thalweg_evaluate(struct thalweg_job *h, struct thalweg_score *score,
				     struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	struct tw_score sum = { 0 };

	if (!h || !score)
		return tw_api_null(why, "thalweg_evaluate", h ? "score" : "job");
	if (evaluate(h, &sum, &said) != TW_OK)
		return tw_api_fail(why, &said);
	*score = (struct thalweg_score){
		.loss = sum.loss / (double)sum.samples,
		.accuracy = sum.correct < 0 ? NAN : sum.correct / (double)sum.samples,
		.samples = sum.samples,
	};
	return tw_api_done(why);
}
