/* SPDX-License-Identifier: Apache-2.0 */
/* threads_common.c - what all files of the threads world ask and tell: who sleeps is woken, what an
 * actor is called, what was moved so far, what the storekeeper is to do, and that the run ends. */
#include "world/threads/threads_inner.h"

#include <stdio.h>

void tw_threads_wake(struct hand *h)
{
	if (!atomic_load(&h->asleep) || !atomic_exchange(&h->asleep, false))
		return;
	pthread_mutex_lock(&h->lock);
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
}

void tw_threads_name(const struct threads *w, struct tw_addr a, uint32_t slot, char *out,
		     size_t room)
{
	const struct tw_gateway *g = w->options.gateway;

	if (g) {
		g->name(g->arg, a, slot, out, room);
		return;
	}
	switch (a.role) {
	case TW_MASTER:
		snprintf(out, room, "master");
		break;
	case TW_SERVER:
		snprintf(out, room, "server %u", tw_server_number(a.node));
		break;
	case TW_SHARD:
		snprintf(out, room, "shard %u", a.index);
		break;
	default:
		if (w->cluster->cells > 1)
			snprintf(out, room, "worker %u.%u", slot, a.index);
		else
			snprintf(out, room, "worker %u", slot);
	}
}

void tw_threads_bytes(const struct threads *w, uint64_t *sent, uint64_t *received)
{
	*sent = *received = 0;
	if (w->options.gateway)
		w->options.gateway->bytes(w->options.gateway->arg, sent, received);
	for (size_t k = 0; k < w->hands; k++) {
		*sent += atomic_load_explicit(&w->hand[k].bytes_sent, memory_order_relaxed);
		*received += atomic_load_explicit(&w->hand[k].bytes_received, memory_order_relaxed);
	}
}

void tw_threads_job(struct threads *w, struct job *j)
{
	struct hand *keeper = &w->hand[STOREKEEPER];

	j->next = NULL;
	pthread_mutex_lock(&keeper->lock);
	*w->job_end = j;
	w->job_end = &j->next;
	pthread_cond_signal(&keeper->wake);
	pthread_mutex_unlock(&keeper->lock);
}

void tw_threads_job_free(struct threads *w, struct job *j)
{
	if (j->kind == JOB_SAVE || j->kind == JOB_PUT) {
		for (size_t k = 0; k < j->count; k++)
			tw_block_drop(j->parts[k].bytes);
		w->heap->put(w->heap, j->parts);
	} else if (j->parts) {
		w->cluster->store->loaded_free(w->cluster->store, j->parts, j->count);
	}
	w->heap->put(w->heap, j);
}

void tw_threads_end(struct threads *w, enum tw_status status, struct tw_totals *totals,
		    const char *who)
{
	struct tw_totals late = { 0 };
	bool first;

	pthread_mutex_lock(&w->end_lock);
	first = !atomic_load(&w->over);
	if (first) {
		if (totals)
			w->ran->totals = *totals;
		w->ran->totals.status = status;
		if (status != TW_OK)
			tw_fail(&w->ran->error, status, "%s%s%s", who ? who : "", who ? ": " : "",
				totals && totals->text[0] ? totals->text : tw_status_name(status));
		atomic_store(&w->over, true);
	} else if (totals) {
		late = *totals;
	}
	pthread_mutex_unlock(&w->end_lock);
	tw_totals_release(&late);
	if (!first)
		return;
	for (size_t k = 0; k < w->hands; k++) {
		atomic_store(&w->hand[k].stop, true);
		tw_threads_wake(&w->hand[k]);
	}
	pthread_mutex_lock(&w->hand[STOREKEEPER].lock);
	pthread_cond_signal(&w->hand[STOREKEEPER].wake);
	pthread_mutex_unlock(&w->hand[STOREKEEPER].lock);
}
