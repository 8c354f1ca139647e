/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_tick.c - time passes: which connections are silent, stuck, or late? */
#include "world/tcp/tcp_inner.h"

#include <stdio.h>

static double seconds(int64_t ns)
{
	return (double)ns / (double)TW_SECOND;
}

/* Its node has been silent for the limit: give it up, and keep the connection if OVER would go. */
static void give_up(struct conn *c, const char *why)
{
	struct peer *p = c->pair ? NULL : c->peer; /* a pair's is given up by closing */

	if (!tw_conn_keep_silent(c, why))
		tw_conn_close(c, why);
	if (p)
		tw_peer_down(c->t, p, why);
}

static void tick_open(struct conn *c)
{
	struct tw_tcp *t = c->t;
	int64_t silent, stuck;
	char why[96];

	if (c->paused) { /* nobody else may tell us that there is room again */
		tw_conn_flush(c);
		if (c->state == CONN_DEAD)
			return;
		if (!c->paused)
			c->heard = t->loop.now;
	}
	silent = t->loop.now - c->heard;
	stuck = t->loop.now - c->wrote;
	if (c->held && silent >= NAMED_TIME) { /* if it is named later, it says all of it again */
		tw_tcp_refusal(
			t, c->name,
			"%s as worker %u is ignored: the master has not announced this worker",
			tw_type_name(c->held->h.type), c->held->h.from);
		tw_conn_close(c, "the master has not announced it");
		return;
	}
	if (!c->paused && silent >= t->beat.limit) {
		tw_conn_ready(c); /* if it was us who stood still, what it said lies there */
		if (c->state != CONN_OPEN || c->heard == t->loop.now)
			return;
		snprintf(why, sizeof why, "it was silent for %.1f s", seconds(silent));
		give_up(c, why);
		return;
	}
	if (tw_writer_busy(c->writer) && stuck >= t->beat.limit) {
		snprintf(why, sizeof why, "it has not read for %.1f s", seconds(stuck));
		tw_conn_close(c, why);
		return;
	}
	if (!c->paused && silent >= t->beat.suspect && !c->peer->suspect) {
		c->peer->suspect = true;
		tw_log_line(t->o.log, TW_WARNING, t->self.who,
			    "%s on %s has been silent for %.1f s", c->peer->name, c->peer->host,
			    seconds(silent));
	} else if (silent < t->beat.suspect) {
		c->peer->suspect = false;
	}
	if (t->loop.now - c->spoke >= t->beat.every && !tw_writer_busy(c->writer)) {
		tw_conn_ping(c);
		tw_conn_flush(c);
	}
}

void tw_conns_tick(struct tw_tcp *t)
{
	tw_tcp_refusals_tick(t);
	for (struct conn *c = t->conns.all; c; c = c->next) {
		const int64_t age = t->loop.now - c->since;

		switch (c->state) {
		case CONN_DEAD:
			break;
		case CONN_OPEN:
			tick_open(c);
			break;
		case CONN_SILENT:
			break;
		case CONN_ENDING:
			if (age > GREET_TIME)
				tw_conn_close(c, "refused");
			break;
		case CONN_ASKING:
			if (t->loop.now - c->heard > 6 * GREET_TIME ||
			    t->loop.now - c->wrote > 2 * t->beat.limit)
				tw_conn_close(c, "it asked for nothing else");
			break;
		default:
			if (c->held && age > NAMED_TIME) {
				tw_greet_too_late(c);
				break;
			}
			if (age <= GREET_TIME)
				break;
			if (!c->dialled)
				tw_tcp_refusal(t, c->name, "it sent no greeting for %.0f s",
					       seconds(GREET_TIME));
			tw_conn_close(c, c->state == CONN_DIALLING ? "no answer"
								   : "it did not answer in time");
		}
	}
}
