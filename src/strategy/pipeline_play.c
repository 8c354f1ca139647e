/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_play.c - any lists of moves, checked and carried out in time without computing. */
#include "strategy/pipeline.h"

#include <math.h>

char tw_pipe_letter(enum tw_deed deed)
{
	static const char letter[TW_DEEDS] = { 'F', 'B', 'I', 'W', 'U' };

	return letter[deed];
}

static enum tw_status fail_at(struct tw_pipe_place *place, uint32_t cell, size_t move)
{
	if (place)
		*place = (struct tw_pipe_place){ cell, move };
	return TW_BAD_INPUT;
}

/* --- is it whole? ------------------------------------------------------------------------- */

#define NOBODY UINT32_MAX

enum { SEEN_FORWARD = 1, SEEN_INPUT = 2, SEEN_WEIGHT = 4, SEEN_ALL = 7 };

static unsigned bits_of(enum tw_deed deed)
{
	switch (deed) {
	case TW_FORWARD:
		return SEEN_FORWARD;
	case TW_BACKWARD:
		return SEEN_INPUT | SEEN_WEIGHT;
	case TW_BACKWARD_INPUT:
		return SEEN_INPUT;
	case TW_BACKWARD_WEIGHT:
		return SEEN_WEIGHT;
	default:
		return 0;
	}
}

static enum tw_status see(const struct tw_pipe_lists *l, uint32_t cell, size_t k, uint8_t *seen,
			  struct tw_error *why)
{
	const struct tw_pipe_move *m = &l->move[cell][k];
	uint8_t *at = &seen[m->stage * l->micros + m->micro];
	const unsigned bits = bits_of(m->deed);

	if (*at & bits)
		return tw_fail(why, TW_BAD_INPUT,
			       "%u%c%llu: stage %u makes this move for micro-batch %llu twice",
			       m->stage, tw_pipe_letter(m->deed), (unsigned long long)m->micro,
			       m->stage, (unsigned long long)m->micro);
	*at = (uint8_t)(*at | bits);
	return TW_OK;
}

/* A stage belongs to the cell that has its first move. */
static enum tw_status see_owner(uint32_t *owner, uint32_t stage, uint32_t cell,
				struct tw_error *why)
{
	if (owner[stage] == NOBODY)
		owner[stage] = cell;
	if (owner[stage] == cell)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "stage %u is in two rows, %u and %u, and a stage belongs to one", stage,
		       owner[stage], cell);
}

static enum tw_status see_all(const struct tw_pipe_lists *l, uint8_t *seen, uint32_t *owner,
			      struct tw_pipe_place *place, struct tw_error *why)
{
	for (uint32_t c = 0; c < l->cells; c++)
		for (size_t k = 0; k < l->count[c]; k++) {
			const struct tw_pipe_move *m = &l->move[c][k];

			if (m->deed == TW_UPDATE)
				continue;
			if (m->stage >= l->stages || m->micro >= l->micros) {
				tw_fail(why, TW_BAD_INPUT, "there is no such stage or micro-batch");
				return fail_at(place, c, k);
			}
			if (see_owner(owner, m->stage, c, why) != TW_OK ||
			    see(l, c, k, seen, why) != TW_OK)
				return fail_at(place, c, k);
		}
	return TW_OK;
}

static const char *lacks(unsigned seen)
{
	if (!(seen & SEEN_FORWARD))
		return "forward (F)";
	return !(seen & SEEN_INPUT) ? "backward (B, or I and W)" : "weights' backward (W)";
}

enum tw_status tw_pipeline_whole(const struct tw_pipe_lists *l, uint8_t *seen, uint32_t *owner,
				 struct tw_pipe_place *place, struct tw_error *why)
{
	enum tw_status st;

	for (uint32_t s = 0; s < l->stages; s++)
		owner[s] = NOBODY;
	for (uint64_t k = 0; k < l->stages * l->micros; k++)
		seen[k] = 0;
	st = see_all(l, seen, owner, place, why);
	for (uint64_t k = 0; st == TW_OK && k < l->stages * l->micros; k++) {
		const uint32_t stage = (uint32_t)(k / l->micros), cell = owner[stage];

		if (seen[k] == SEEN_ALL)
			continue;
		tw_fail(why, TW_BAD_INPUT, "stage %u has no %s of micro-batch %llu", stage,
			lacks(seen[k]), (unsigned long long)(k % l->micros));
		return fail_at(place, cell == NOBODY ? 0 : cell,
			       cell == NOBODY ? 0 : l->count[cell]);
	}
	return st;
}

/* --- carried out -------------------------------------------------------------------------- */

struct play {
	const struct tw_pipe_lists *l;
	const struct tw_pipe_times *times;
	double *done; /* by deed, stage and micro-batch; NAN: not yet */
};

static double *done_at(const struct play *p, enum tw_deed deed, uint32_t stage, uint64_t micro)
{
	return &p->done[(deed * (uint64_t)p->l->stages + stage) * p->l->micros + micro];
}

/* When the gradient of a stage's input is there. */
static double input_done(const struct play *p, uint32_t stage, uint64_t micro)
{
	const double whole = *done_at(p, TW_BACKWARD, stage, micro);

	return isnan(whole) ? *done_at(p, TW_BACKWARD_INPUT, stage, micro) : whole;
}

/* From the cell that has a micro-batch in a stage to the cell `to`. */
static double link(const struct play *p, uint32_t stage, uint64_t micro, uint32_t to, bool back)
{
	const struct tw_pipe_times *t = &p->times[stage];
	const struct tw_pipe_machines *m = p->l->machines;
	const double fixed = back ? t->backward_link : t->forward_link;
	size_t pair;

	if (!m)
		return fixed;
	pair = (size_t)m->by[stage * p->l->micros + micro] * p->l->cells + to;
	return fixed + m->latency[pair] +
	       m->per_byte[pair] * (back ? t->backward_bytes : t->forward_bytes);
}

/* When what the move needs is there; NAN: something is not.  *lack is what. */
static double ready(const struct play *p, uint32_t cell, const struct tw_pipe_move *m,
		    struct tw_pipe_move *lack)
{
	const uint32_t s = m->stage;
	double here, there = 0;

	switch (m->deed) {
	case TW_FORWARD:
		if (s == 0)
			return 0;
		*lack = (struct tw_pipe_move){ TW_FORWARD, s - 1, m->micro };
		here = *done_at(p, TW_FORWARD, s - 1, m->micro);
		return isnan(here) ? NAN : here + link(p, s - 1, m->micro, cell, false);
	case TW_BACKWARD:
	case TW_BACKWARD_INPUT:
		here = *done_at(p, TW_FORWARD, s, m->micro);
		*lack = (struct tw_pipe_move){ TW_FORWARD, s, m->micro };
		if (!isnan(here) && s + 1 < p->l->stages) {
			*lack = (struct tw_pipe_move){ TW_BACKWARD, s + 1, m->micro };
			there = input_done(p, s + 1, m->micro);
			if (!isnan(there))
				there += link(p, s + 1, m->micro, cell, true);
		}
		return isnan(here) || isnan(there) ? NAN : fmax(here, there);
	case TW_BACKWARD_WEIGHT:
		*lack = (struct tw_pipe_move){ TW_BACKWARD_INPUT, s, m->micro };
		return *done_at(p, TW_BACKWARD_INPUT, s, m->micro);
	default:
		return 0; /* what an update needs is before it in the list */
	}
}

/* When this cell has what all cells of its stage made of the group before this micro-batch. */
static double round_closed(const struct play *p, uint32_t cell, const struct tw_pipe_move *m,
			   struct tw_pipe_move *lack)
{
	const struct tw_pipe_machines *h = p->l->machines;
	const uint64_t end = m->micro / h->group * h->group;
	double closed = 0;

	for (uint64_t k = end - h->group; k < end; k++) {
		const double done = *done_at(p, TW_BACKWARD, m->stage, k);

		if (isnan(done)) {
			*lack = (struct tw_pipe_move){ TW_BACKWARD, m->stage, k };
			return NAN;
		}
		closed = fmax(closed, done + h->push[h->by[m->stage * p->l->micros + k]]);
	}
	return closed + h->answer[cell];
}

/* When updates let the next move of a cell begin. */
static double updated(const struct play *p, uint32_t c, const struct tw_pipe_cell *cell,
		      struct tw_pipe_move *lack)
{
	const struct tw_pipe_machines *h = p->l->machines;
	const struct tw_pipe_move *m = &p->l->move[c][cell->made];

	if (!h)
		return 0;
	if (m->deed == TW_FORWARD && h->group && m->micro >= h->group && cell->made &&
	    m[-1].deed == TW_UPDATE)
		return round_closed(p, c, m, lack);
	if (m->deed == TW_FORWARD && h->newest)
		return cell->answered;
	if (m->deed == TW_BACKWARD && cell->made + 1 < p->l->count[c] && m[1].deed == TW_UPDATE)
		return cell->answered;
	return 0;
}

static void make(const struct play *p, uint32_t c, struct tw_pipe_cell *cell, double from,
		 struct tw_pipe_when *when)
{
	const struct tw_pipe_machines *h = p->l->machines;
	const struct tw_pipe_move *m = &p->l->move[c][cell->made];
	double takes = p->times[m->stage].deed[m->deed];

	if (h)
		takes /= h->speed[c];
	cell->at = from + takes;
	cell->busy += takes;
	if (m->deed != TW_UPDATE)
		*done_at(p, m->deed, m->stage, m->micro) = cell->at;
	if (h && m->deed == TW_FORWARD)
		h->by[m->stage * p->l->micros + m->micro] = c;
	if (h && m->deed == TW_UPDATE)
		cell->answered = cell->at + h->push[c] + h->answer[c];
	if (when)
		when[cell->made] = (struct tw_pipe_when){ from, cell->at };
	cell->made++;
}

/* Make what this cell can make.  True: it made something. */
static bool go_on(const struct play *p, uint32_t c, struct tw_pipe_cell *cell,
		  struct tw_pipe_when *when)
{
	const size_t before = cell->made;

	while (cell->made < p->l->count[c]) {
		struct tw_pipe_move lack;
		const double can = ready(p, c, &p->l->move[c][cell->made], &lack);
		const double may = isnan(can) ? NAN : updated(p, c, cell, &lack);

		if (isnan(may))
			break;
		make(p, c, cell, fmax(cell->at, fmax(can, may)), when);
	}
	return cell->made > before;
}

static enum tw_status stuck(const struct play *p, const struct tw_pipe_cell *cell,
			    struct tw_pipe_place *place, struct tw_error *why)
{
	const struct tw_pipe_move *m;
	struct tw_pipe_move lack = { 0 };
	uint32_t c = 0;

	while (cell[c].made == p->l->count[c])
		c++;
	m = &p->l->move[c][cell[c].made];
	if (!isnan(ready(p, c, m, &lack)))
		updated(p, c, &cell[c], &lack);
	tw_fail(why, TW_BAD_INPUT,
		"%u%c%llu waits for %u%c%llu, which never comes: rows wait for each other in a "
		"circle",
		m->stage, tw_pipe_letter(m->deed), (unsigned long long)m->micro, lack.stage,
		tw_pipe_letter(lack.deed), (unsigned long long)lack.micro);
	return fail_at(place, c, cell[c].made);
}

enum tw_status tw_pipeline_play(const struct tw_pipe_lists *l, const struct tw_pipe_times *times,
				double *done, struct tw_pipe_cell *cell,
				struct tw_pipe_when *const *when, struct tw_pipe_played *out,
				struct tw_pipe_place *place, struct tw_error *why)
{
	const struct play p = { l, times, done };
	bool moved = true, all = true;
	double busy = 0;

	for (uint64_t k = 0; k < TW_DEEDS * l->stages * l->micros; k++)
		done[k] = NAN;
	for (uint32_t c = 0; c < l->cells; c++)
		cell[c] = (struct tw_pipe_cell){ 0 };
	while (moved) {
		moved = false;
		for (uint32_t c = 0; c < l->cells; c++)
			moved = go_on(&p, c, &cell[c], when ? when[c] : NULL) || moved;
		for (uint32_t c = l->cells; c-- > 0;) /* gradients come from behind */
			moved = go_on(&p, c, &cell[c], when ? when[c] : NULL) || moved;
	}
	*out = (struct tw_pipe_played){ 0 };
	for (uint32_t c = 0; c < l->cells; c++) {
		all = all && cell[c].made == l->count[c];
		out->makespan = fmax(out->makespan, cell[c].at);
		busy += cell[c].busy;
	}
	if (!all)
		return stuck(&p, cell, place, why);
	if (out->makespan > 0)
		out->bubble = 1 - busy / (l->cells * out->makespan);
	return TW_OK;
}
