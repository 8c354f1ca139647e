/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - listens to a run: how far it is, for people, and log.jsonl, for programs. */
#ifndef TW_METRICS_PROGRESS_H
#define TW_METRICS_PROGRESS_H

#include "base/machine/clock.h"
#include "spec/job.h"
#include "base/json_lines.h"
#include "checkpoint/run_directory.h"

/* How far a run is. */
struct tw_progress {
	double seconds;     /* of the wall clock since this process began to train */
	double world;       /* seconds of the world's clock */
	uint64_t dealt;     /* positions given out */
	uint64_t positions; /* of so many; 0 unknown */
	double samples;     /* whose contributions the master knows to be in */
	double epochs;      /* samples / samples of an epoch */
	double rate;        /* samples per second of the wall clock */
	double left;        /* seconds of the wall clock until all is dealt, a guess; negative:
			       unknown */
	double loss;        /* of the last evaluation, else mean of recent samples; NAN: unknown */
	double accuracy;    /* of the last evaluation; negative: none */
	double staleness;   /* mean so far */
	double drift;       /* send: delta: mean norm of own less shared parameters; NAN: none */
	uint32_t live;      /* workers */
	struct tw_optimised optimised; /* 0 evaluations: there is no optimiser */
};

/* What is known of predictions of an online run, as an object of JSON. */
json_t *tw_progressive_json(const struct tw_progressive *s);

/* Shows progress to somebody.  Called by one thread at a time, and often: the receiver decides
 * how often it speaks. */
typedef void (*tw_progress_show)(void *arg, const struct tw_progress *p);

/* What earlier parts of a resumed run came to, up to the checkpoint it resumes from. */
struct tw_earlier {
	double time;    /* seconds of the world's clock; 0 where the clock itself resumes (sim) */
	double seconds; /* of the wall clock */
	uint64_t bytes; /* sent */
};

struct tw_watch {
	const struct tw_plan *plan;
	struct tw_run_directory *dir; /* may be NULL */
	tw_progress_show show;        /* may be NULL */
	void *show_arg;
	struct tw_progress now;
	struct tw_earlier earlier;
	struct {
		int64_t at, clock; /* of the world, of the wall */
		uint64_t bytes;
	} pinned;             /* when the views were kept that the next evaluation is of */
	double first;         /* samples that were in when this process began */
	uint64_t first_dealt; /* positions */
	bool seen;            /* both are known */
	bool dealt;           /* training has begun, and `began` says when */
	bool evaluated;       /* loss is of an evaluation */
	int64_t began, shown; /* CLOCK_MONOTONIC, ns */
	uint64_t tau_sum, tau_count;
	double rate, updates;     /* of the shard here that made the last update; NAN: none */
	const struct tw_log *log; /* may be NULL */
	int64_t from;             /* world's clock before which nothing is logged (a resumed sim) */
	uint64_t refused;         /* contributions */
	uint64_t scores;          /* online: said at counts from here on */
	uint64_t row;             /* of these on row_shard, since it last applied one */
	uint32_t row_shard;       /* the one that refused first */
	double drift;             /* send: delta: sum over `drifts` contributions */
	uint64_t drifts;
	uint32_t skip_shard; /* the first that told of one */
	uint64_t skips;      /* gradients that workers skipped, since any of them made a step */
	bool skipped;        /* one was skipped, and it was said */
	bool diverged;       /* so many in a row, or such a loss, that the run was stopped */
	bool network;        /* say every evaluation on the log; stop when it diverges */
	struct tw_json_lines metrics; /* --log: every line, and progress once a second */
	int64_t measured;             /* when progress was last written there */
};

void tw_watch_init(struct tw_watch *w, const struct tw_plan *plan, struct tw_run_directory *dir,
		   tw_progress_show show, void *show_arg);
/* A tw_observer; arg is the watch.  Interrupts the run when a shard has nothing but refusals, or
 * an evaluation a loss that is not finite: then `diverged` is true. */
bool tw_watch_note(void *arg, const struct tw_note *note);
/* Write one line to log.jsonl and to --log; takes the reference. */
void tw_watch_line(struct tw_watch *w, json_t *line);

#endif
