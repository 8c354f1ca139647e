/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_loop.c - the main thread of a rank: messages, heartbeats, signals, the end. */
#include "world/mpi_inner.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TICK      (10 * MS)          /* how often timers are looked at */
#define SLEEP     MS                 /* at most, while nothing is under way */
#define SPIN      (TW_SECOND / 5000) /* after something happened, an answer may be near */
#define LAST_WORD (200 * MS)         /* for QUIT to get away */
#define ABORTING  5                  /* seconds until a rank ends without MPI's help */
#define STAGGER   (50 * MS)          /* between ranks that miss rank 0 */
#define IMPATIENT (5 * TW_SECOND)    /* a second signal while nothing runs */

/* --- the end of all --------------------------------------------------------------------------- */

/* The newest watchdog of the process, which it ends: there is one at a time. */
static struct watchdog {
	_Atomic unsigned number; /* grows when another one, or none, takes its place */
	int seconds, code;
	const struct tw_log *log;
	const char *why;
} watchdog;

static void *watch(void *arg)
{
	const unsigned mine = watchdog.number;

	(void)arg;
	for (int k = 0; k < watchdog.seconds * 10; k++) {
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
		if (watchdog.number != mine)
			return NULL;
	}
	if (watchdog.why)
		tw_log_line(watchdog.log, TW_ERROR, "", "%s", watchdog.why);
	_exit(watchdog.code);
}

void tw_mpi_watchdog(int seconds, int code, const struct tw_log *log, const char *why)
{
	pthread_t thread;

	watchdog.number++;
	if (!seconds)
		return;
	watchdog.seconds = seconds;
	watchdog.code = code;
	watchdog.log = log;
	watchdog.why = why;
	if (pthread_create(&thread, NULL, watch, NULL) == 0)
		pthread_detach(thread);
	else
		alarm((unsigned)seconds); /* its default ends the process as well */
}

static _Noreturn void quit(struct tw_mpi *m, int code)
{
	const int64_t until = tw_clock() + LAST_WORD;
	const struct tw_mpi_done *done;

	tw_mpi_watchdog(ABORTING, code, NULL, NULL);
	for (uint32_t k = 0; k < m->size; k++)
		if (k != m->rank)
			tw_mpi_say(m, k, WORD_QUIT, TW_IO, 0, NULL);
	tw_mpi_collect(m);
	while (tw_clock() < until) {
		m->plugin->testsome(&done);
		sched_yield();
	}
	m->plugin->abort(code);
	_exit(code);
}

void tw_mpi_give_up(struct tw_mpi *m, const char *format, ...)
{
	char text[600];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	tw_log_line(m->o.log, TW_ERROR, m->who,
		    "%s; all ranks end; run the same command again to resume from the last "
		    "checkpoint",
		    text);
	quit(m, 1);
}

/* --- words ------------------------------------------------------------------------------------ */

static void give(struct tw_mpi *m, uint32_t rank, const struct tw_body_data *asked)
{
	struct tw_block *b =
		asked->bytes < PIECE * 64u ? tw_block_new(m->heap, (size_t)asked->bytes) : NULL;
	enum tw_status st = b ? TW_OK : TW_NO_MEMORY;

	pthread_mutex_lock(&m->lock);
	if (b)
		st = m->part.read ? m->part.read(m->part.read_arg, asked->from, b->data,
						 (size_t)asked->bytes)
				  : TW_ABSENT;
	pthread_mutex_unlock(&m->lock);
	if (st != TW_OK) {
		tw_block_drop(b);
		b = NULL;
	}
	if (!tw_mpi_say(m, rank, WORD_GIVE, st, 0, b))
		tw_mpi_give_up(m, "no memory for data that rank %u asked for", rank);
}

static void sentence_of(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg,
			struct tw_error *out)
{
	tw_fail(out, msg->b.data.pad ? (enum tw_status)msg->b.data.pad : TW_IO,
		"rank %u on %s: %.*s", rank, m->at[rank].host, (int)msg->h.payload,
		msg->payload ? (const char *)tw_msg_payload(msg) : "");
}

/* A rank cannot go on: the part ends here, and so everywhere. */
static void failed(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg)
{
	struct tw_error why = { .status = TW_OK };

	sentence_of(m, rank, msg, &why);
	pthread_mutex_lock(&m->lock);
	if (m->sides.failed.status == TW_OK)
		m->sides.failed = why;
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_lock(&m->port_lock);
	if (m->port)
		tw_port_end(m->port, why.status, why.text);
	pthread_mutex_unlock(&m->port_lock);
}

static void ready(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg)
{
	if (msg->b.data.pad != TW_OK) {
		failed(m, rank, msg);
		return;
	}
	pthread_mutex_lock(&m->lock);
	if (!m->at[rank].ready) {
		m->at[rank].ready = true;
		m->sides.unready--;
	}
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
}

static void ordered(struct tw_mpi *m, const struct tw_msg *msg)
{
	struct tw_block *order = tw_block_new(m->heap, msg->h.payload - sizeof m->beat);

	if (!order)
		tw_mpi_give_up(m, "no memory for the job");
	memcpy(&m->beat, tw_msg_payload(msg), sizeof m->beat);
	memcpy(order->data, tw_msg_payload(msg) + sizeof m->beat, order->bytes);
	pthread_mutex_lock(&m->lock);
	tw_block_drop(m->sides.order);
	m->sides.order = order;
	m->sides.number = (uint32_t)msg->b.data.from;
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
}

static void answered(struct tw_mpi *m, const struct tw_msg *msg)
{
	pthread_mutex_lock(&m->lock);
	tw_block_drop(m->sides.given);
	m->sides.given = tw_block_keep(msg->payload);
	m->sides.answer = (enum tw_status)msg->b.data.pad;
	m->sides.answered = true;
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
}

static void heard_here(struct tw_mpi *m, uint32_t rank, uint64_t call)
{
	struct rank *r = &m->at[rank];

	if (call != m->stopping.call || r->here || !m->stopping.missing)
		return;
	r->here = true;
	if (--m->stopping.missing == 0)
		atomic_store(&m->stopping.passed, m->stopping.called);
}

void tw_mpi_hear(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg)
{
	const struct tw_body_data *b = &msg->b.data;

	switch ((enum word)b->what) {
	case WORD_BEAT:
		break;
	case WORD_CALL:
		tw_mpi_say(m, rank, WORD_HERE, TW_OK, b->from, NULL);
		break;
	case WORD_HERE:
		heard_here(m, rank, b->from);
		break;
	case WORD_STOP:
		m->at[rank].signals = (int)b->from;
		break;
	case WORD_ORDER:
		ordered(m, msg);
		break;
	case WORD_READY:
		ready(m, rank, msg);
		break;
	case WORD_ASK:
		give(m, rank, b);
		break;
	case WORD_GIVE:
		answered(m, msg);
		break;
	case WORD_OVER:
		atomic_store(&m->part.over, (uint32_t)b->from);
		break;
	case WORD_FAIL:
		failed(m, rank, msg);
		break;
	case WORD_END:
		pthread_mutex_lock(&m->lock);
		m->sides.ended = true;
		pthread_cond_broadcast(&m->sides.program);
		pthread_mutex_unlock(&m->lock);
		break;
	case WORD_SUM:
		tw_mpi_sum_asked(m, b->pad, (uint32_t)b->bytes, b->from);
		break;
	case WORD_GO:
		tw_mpi_sum_go(m, b->pad, (uint32_t)b->bytes, b->from);
		break;
	case WORD_QUIT:
		_exit(1);
	}
}

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
		quit(m, 75);
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
