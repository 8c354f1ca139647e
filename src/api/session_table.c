/* SPDX-License-Identifier: Apache-2.0 */
/* session_table.c - the sessions of this process: which are open, and who is inside; (1) in
 * session.h.
 *
 * Nothing here takes a lock: thalweg_session_stop comes from signal handlers, and a child after a
 * fork finds locks as they were. */
#include "api/session.h"

#include <unistd.h>

#define SESSIONS 64

static struct place {
	struct thalweg_session *_Atomic session; /* NULL: free, or being closed */
	const struct thalweg_session *_Atomic whose;
	_Atomic int inside;
	_Atomic pid_t pid;
} table[SESSIONS];

enum tw_status tw_session_enlist(struct thalweg_session *s, struct tw_error *why)
{
	for (int k = 0; k < SESSIONS; k++) {
		const struct thalweg_session *none = NULL;

		if (!atomic_compare_exchange_strong(&table[k].whose, &none, s))
			continue;
		atomic_store(&table[k].pid, s->pid);
		atomic_store(&table[k].session, s);
		return TW_OK;
	}
	return tw_fail(why, TW_NO_ROOM, "this process has %d sessions already; close one",
		       SESSIONS);
}

/* The place that has it, entered; NULL: there is none. */
static struct place *find(const struct thalweg_session *s)
{
	for (int k = 0; k < SESSIONS; k++) {
		struct place *p = &table[k];

		if (atomic_load(&p->session) != s)
			continue;
		atomic_fetch_add(&p->inside, 1);
		if (atomic_load(&p->session) == s)
			return p;
		atomic_fetch_sub(&p->inside, 1); /* it was closed meanwhile */
	}
	return NULL;
}

static struct place *place_of(const struct thalweg_session *s)
{
	for (int k = 0; k < SESSIONS; k++)
		if (atomic_load(&table[k].whose) == s)
			return &table[k];
	return NULL;
}

enum tw_status tw_session_enter(struct thalweg_session *s, const char *function,
				struct tw_error *why)
{
	struct place *p = s ? find(s) : NULL;

	if (!s)
		return tw_fail(why, TW_BAD_INPUT, "%s: the session is NULL", function);
	if (!p)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: this is no open session: it was closed, or never opened",
			       function);
	if (atomic_load(&p->pid) == getpid())
		return TW_OK;
	atomic_fetch_sub(&p->inside, 1);
	return tw_fail(why, TW_REFUSED,
		       "%s: the session belongs to process %ld, and this is a child of it: use it "
		       "there, or open one here",
		       function, (long)atomic_load(&p->pid));
}

void tw_session_leave(const struct thalweg_session *s)
{
	atomic_fetch_sub(&place_of(s)->inside, 1);
}

bool tw_session_unlist(struct thalweg_session *s)
{
	struct thalweg_session *mine = s;

	return atomic_compare_exchange_strong(&place_of(s)->session, &mine, NULL);
}

void tw_session_await(const struct thalweg_session *s)
{
	struct place *p = place_of(s);

	while (atomic_load(&p->inside) > 1)
		usleep(100);
	atomic_store(&p->inside, 0);
	atomic_store(&p->whose, NULL);
}
