/* SPDX-License-Identifier: Apache-2.0 */
/* figures_state.h - what the master knows of cells, and of the throughput without the tail. */
#ifndef TW_NODE_DUTY_FIGURES_FIGURES_STATE_H
#define TW_NODE_DUTY_FIGURES_FIGURES_STATE_H

#include "node/master/master_state.h"

/* What a cell has told. */
struct cell_told {
	bool asked;         /* for its figures, and they have not come */
	bool doubted;       /* it has told what cannot be */
	uint32_t waits;     /* for this cell of its worker, as it says; UINT32_MAX: none */
	uint64_t pin, from; /* the last evaluation that it passed on, as it says */
};

struct shard_had {
	bool told;     /* how much was in when nothing was left to deal */
	uint64_t from; /* samples, when the first were dealt */
};

/* See (4) of README.md. */
struct steady {
	bool dealt, dry;       /* something was dealt; and a worker then found nothing left */
	int64_t began, end;    /* when */
	double from, samples;  /* sums over the shards, of whole numbers */
	uint64_t ask;          /* number of the count; 0: none was asked for */
	uint32_t left;         /* shards that have not answered */
	struct shard_had *had; /* by shard */
};

struct figures_master {
	struct cell_told *told; /* by place; NULL: workers have no cells */
	uint32_t untold;        /* cells that are asked */
	struct steady steady;
};

/* A shard says how much was in when nothing was left to deal. */
void tw_figures_steady_told(struct master *m, const struct tw_msg *msg);

#endif
