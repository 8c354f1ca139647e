/* SPDX-License-Identifier: Apache-2.0 */
/* last_good_checkpoint.c - the checkpoint from which a diverged run can resume.
 *
 * Parameters of a run that diverges are finite for a while, and useless: they grow until gradients
 * are no numbers any more.  On its way there the loss passes that of the initial weights, so that
 * a checkpoint beyond is known by its loss, whatever was evaluated while the run went on. */
#include "checkpoint/last_good_checkpoint.h"

#include "base/machine/regular_file.h"
#include "engine/score.h"
#include "checkpoint/checkpoint_read.h"
#include "checkpoint/checkpoint_remove.h"
#include "checkpoint/files.h"
#include "checkpoint/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct judge {
	const struct tw_engine *engine;
	float *vector;
	void *scratch;
	double first; /* loss of the initial weights */
};

/* The mean loss on the test set; NAN where the engine says no. */
static double loss_of(const struct judge *j, const float *vector)
{
	struct tw_score sum;

	if (tw_score_all(j->engine, vector, j->scratch, &sum) != TW_OK)
		return NAN;
	return sum.loss / (double)sum.samples;
}

static enum tw_status open_judge(struct judge *j, const struct tw_engine *e)
{
	const size_t all = tw_engine_floats(e);
	struct tw_heap *heap = &tw_heap_system;

	*j = (struct judge){ .engine = e, .first = NAN };
	j->vector = heap->get(heap, all * sizeof *j->vector);
	j->scratch = heap->get(heap, e->scratch_bytes ? e->scratch_bytes : 1);
	if (!j->vector || !j->scratch)
		return TW_NO_MEMORY;
	if (e->class->init(e, 0, tw_engine_moving(e), j->vector) == TW_OK)
		j->first = loss_of(j, j->vector);
	return TW_OK;
}

static void close_judge(struct judge *j)
{
	tw_heap_system.put(&tw_heap_system, j->vector);
	tw_heap_system.put(&tw_heap_system, j->scratch);
}

/* One that cannot be read now, for want of memory or descriptors, is not judged. */
static enum tw_status is_good(const struct judge *j, const char *path, const struct tw_log *log,
			      bool *good)
{
	const size_t all = tw_engine_floats(j->engine);
	struct tw_error why = { .status = TW_OK };
	struct tw_snapshot *s = NULL;
	double loss = NAN;
	const enum tw_status status = tw_snapshot_open(path, log, &s, &why);

	if (status == TW_OK && s->count == all &&
	    tw_snapshot_floats(s, 0, all, j->vector, &why) == TW_OK) {
		tw_constants_leave_out(&j->engine->constants, j->vector, all, j->vector);
		loss = loss_of(j, j->vector);
	}
	tw_snapshot_close(s);
	*good = isfinite(loss) && loss <= j->first;
	return status == TW_NO_MEMORY || status == TW_IO ? status : TW_OK;
}

/* Links are not followed. */
static bool is_no_link(int at, const char *name)
{
	const int fd = tw_folder_at(at, name);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || !tw_is_link(errno);
}

enum tw_status tw_last_good_checkpoint(const char *dir, const struct tw_engine *engine,
				       const struct tw_log *log, uint64_t *cut)
{
	const int at = tw_folder_at(AT_FDCWD, dir);
	enum tw_status status = TW_IO;
	uint64_t *list = NULL;
	size_t count = 0;
	struct judge j;

	*cut = 0;
	if (at >= 0)
		status = tw_cut_list(at, &list, &count);
	if (status == TW_OK && count) {
		status = open_judge(&j, engine);
		for (size_t k = 0; k < count && status == TW_OK && !*cut; k++) {
			char name[40], away[52], path[4400];
			bool good;

			snprintf(name, sizeof name, "ckpt-%" PRIu64, list[k]);
			snprintf(away, sizeof away, "%s.refused", name);
			snprintf(path, sizeof path, "%s/%s", dir, name);
			good = false;
			if (is_no_link(at, name))
				status = is_good(&j, path, log, &good);
			if (status == TW_OK && good) {
				*cut = list[k];
			} else if (status == TW_OK) {
				if (tw_cut_make_way(at, away, log) != TW_OK ||
				    renameat(at, name, at, away))
					status = TW_IO;
			}
		}
		close_judge(&j);
	}
	if (at >= 0)
		close(at);
	free(list);
	return status;
}
