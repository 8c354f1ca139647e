/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_loop.c - the main thread of a rank: messages, heartbeats, signals, the end. */
#include "world/mpi/mpi_inner.h"

#include <sched.h>
#include <time.h>

#define TICK      (10 * MS)          /* how often timers are looked at */
#define SLEEP     MS                 /* at most, while nothing is under way */
#define SPIN      (TW_SECOND / 5000) /* after something happened, an answer may be near */
#define STAGGER   (50 * MS)          /* between ranks that miss rank 0 */
#define IMPATIENT (5 * TW_SECOND)    /* a second signal while nothing runs */

/* --- heartbeats ------------------------------------------------------------------------------- */

static double seconds(int64_t ns)
{
	return (double)ns / (double)TW_SECOND;
}

/* Rank 0 looks after all, the others after rank 0.  Those who miss rank 0 do not all say so. */
static void look_after(struct tw_mpi *m, uint32_t rank)
{
	struct rank *r = &m->at[rank];
	const int64_t silent = m->now - r->heard;
	const int64_t turn = rank ? 0 : STAGGER * (m->rank < 40 ? m->rank - 1 : 40);

	if (silent >= m->beat.limit + turn)
		tw_mpi_give_up(m,
			       "rank %u on %s has been silent for %.1f s (cluster.limit): it is "
			       "dead or stuck",
			       rank, r->host, seconds(silent));
	if (silent >= m->beat.suspect + turn && !r->suspect)
		tw_log_line(m->o.log, TW_WARNING, m->who,
			    "rank %u on %s has been silent for %.1f s", rank, r->host,
			    seconds(silent));
	r->suspect = silent >= m->beat.suspect;
	if (m->now - r->spoke >= m->beat.every) {
		r->spoke = m->now;
		tw_mpi_say(m, rank, WORD_BEAT, TW_OK, 0, NULL);
	}
}

/* If it was us who stood still, what the others said lies there. */
static void forgive(struct tw_mpi *m)
{
	for (uint32_t k = 0; k < m->size; k++)
		m->at[k].heard = m->now;
}

static void beats(struct tw_mpi *m)
{
	for (uint32_t k = m->rank ? 0 : 1; k < (m->rank ? 1 : m->size); k++)
		look_after(m, k);
}

/* --- signals ---------------------------------------------------------------------------------- */

static int signals_of_all(const struct tw_mpi *m)
{
	int most = *m->o.signals;

	for (uint32_t k = 1; k < m->size; k++)
		most = m->at[k].signals > most ? m->at[k].signals : most;
	return most;
}

static void call_the_roll(struct tw_mpi *m, int signals)
{
	struct stopping *s = &m->stopping;

	s->called = signals;
	s->call++;
	s->missing = m->size - 1;
	if (!s->since)
		s->since = m->now;
	for (uint32_t k = 1; k < m->size; k++) {
		m->at[k].here = false;
		tw_mpi_say(m, k, WORD_CALL, TW_OK, s->call, NULL);
	}
	if (!s->missing)
		atomic_store(&s->passed, signals);
}

/* There is nothing to be kept: no part goes on, or it does not end although asked twice. */
static bool stops_at_once(struct tw_mpi *m)
{
	const struct stopping *s = &m->stopping;
	bool idle, returned;

	pthread_mutex_lock(&m->lock);
	idle = m->part.number == 0 || m->sides.unready;
	returned = m->sides.returned;
	pthread_mutex_unlock(&m->lock);
	if (returned || !s->since)
		return false;
	return (idle && m->now - s->since > TW_SECOND) ||
	       (s->called > 1 && m->now - s->since > IMPATIENT);
}

static void heed_signals(struct tw_mpi *m)
{
	const int mine = m->rank ? *m->o.signals : signals_of_all(m);

	if (m->rank && mine > m->stopping.told) {
		m->stopping.told = mine;
		tw_mpi_say(m, 0, WORD_STOP, TW_OK, (uint64_t)mine, NULL);
	}
	if (!m->rank && mine > m->stopping.called)
		call_the_roll(m, mine);
	if (!m->rank && stops_at_once(m)) {
		tw_log_line(m->o.log, TW_WARNING, m->who, "interrupted before training began");
		tw_mpi_quit(m, 75);
	}
}

/* --- turns ------------------------------------------------------------------------------------ */

static void take_beat(struct tw_mpi *m)
{
	pthread_mutex_lock(&m->lock);
	if (m->sides.beats)
		m->beat = m->sides.beat;
	m->sides.beats = false;
	pthread_mutex_unlock(&m->lock);
}

static void tick(struct tw_mpi *m)
{
	if (m->now - m->turned > m->beat.suspect / 2)
		forgive(m);
	take_beat(m);
	m->ticked = m->now;
	if (m->silent)
		return;
	beats(m);
	heed_signals(m);
	/* the part is over, and its actors do not know */
	pthread_mutex_lock(&m->port_lock);
	if (m->port && m->rank && m->part.number <= atomic_load(&m->part.over))
		tw_port_end(m->port, TW_OK, "");
	pthread_mutex_unlock(&m->port_lock);
}

static void nap(struct tw_mpi *m)
{
	const int64_t until = tw_clock() + SLEEP;
	const struct timespec at = { .tv_sec = until / TW_SECOND, .tv_nsec = until % TW_SECOND };

	pthread_mutex_lock(&m->lock);
	m->sides.asleep = true;
	if (!m->sides.rung)
		pthread_cond_timedwait(&m->sides.bell, &m->lock, &at);
	m->sides.asleep = m->sides.rung = false;
	pthread_mutex_unlock(&m->lock);
}

/* What the program wants to be called here; not under the lock, for it takes long. */
static void make_call(struct tw_mpi *m)
{
	void (*call)(const struct tw_mpi_plugin *p, void *arg);

	pthread_mutex_lock(&m->lock);
	call = m->work ? NULL : m->sides.call; /* what was said before it goes first */
	pthread_mutex_unlock(&m->lock);
	if (!call || m->sending || m->receiving)
		return;
	call(m->plugin, m->sides.call_arg);
	pthread_mutex_lock(&m->lock);
	m->sides.call = NULL;
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
	m->now = tw_clock();
	forgive(m);
}

void tw_mpi_turn(struct tw_mpi *m)
{
	bool stirred;

	m->turned = m->now;
	m->now = tw_clock();
	stirred = tw_mpi_sums_collect(m);
	stirred = tw_mpi_collect(m) || stirred;
	stirred = tw_mpi_progress(m) || stirred;
	if (m->now - m->ticked >= TICK) {
		tick(m);
		tw_mpi_deliver(m);
		make_call(m);
	}
	if (stirred)
		m->stirred = m->now;
	else if (tw_mpi_active(m) || m->now - m->stirred < SPIN)
		sched_yield();
	else
		nap(m);
}
