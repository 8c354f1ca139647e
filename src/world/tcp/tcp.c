/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.c - the world of many processes: opening, running, ending; invariants: tcp_inner.h. */
#include "world/tcp/tcp_inner.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define SPARES     512 /* messages kept for the next ones */
#define FAREWELL   (5 * TW_SECOND)
#define MODEL_TIME (60 * TW_SECOND)
#define MODEL_RATE (4u << 20) /* bytes a second that everybody is thought to take */

/* --- the gateway ------------------------------------------------------------------------------ */

static void *loop(void *arg)
{
	struct tw_tcp *t = arg;

	pthread_setname_np(pthread_self(), "tcp");
	while (!atomic_load(&t->stop))
		tw_loop_turn(t, INT64_MAX);
	return NULL;
}

static enum tw_status gateway_opened(void *arg, struct tw_port *port, struct tw_error *why)
{
	struct tw_tcp *t = arg;
	int failed;

	pthread_mutex_lock(&t->port_lock);
	t->port = port;
	pthread_mutex_unlock(&t->port_lock);
	failed = pthread_create(&t->thread, NULL, loop, t);
	if (!failed) {
		t->threaded = true;
		return TW_OK;
	}
	t->port = NULL;
	return tw_fail(why, TW_NO_MEMORY, "%s: %s", TW_NO_THREAD, strerror(failed));
}

static void gateway_send(void *arg, struct tw_msg *m)
{
	struct tw_tcp *t = arg;
	bool taken = false;
	struct peer *p;

	tw_tcp_count(t, m);
	pthread_mutex_lock(&t->lock);
	p = tw_peer_of(t, m->to.node);
	if (p && p->open) {
		tw_peer_post(t, p, m);
		taken = true;
	}
	pthread_mutex_unlock(&t->lock);
	if (!taken) /* who is not there hears nothing; it is said again when it comes back */
		tw_msg_discard(t->heap, 0, m);
}

/* Once for all that a handler sent: whoever wakes for the first message finds the others. */
static void gateway_sent(void *arg)
{
	struct tw_tcp *t = arg;
	bool ring;

	if (pthread_equal(pthread_self(), t->thread))
		return; /* it looks before it waits */
	pthread_mutex_lock(&t->lock);
	ring = t->peers.work && !t->loop.rung;
	t->loop.rung = t->loop.rung || ring;
	pthread_mutex_unlock(&t->lock);
	if (ring)
		tw_loop_ring(t);
}

static void gateway_gone(void *arg, struct tw_addr who)
{
	struct tw_tcp *t = arg;

	/* with a replica beside it, it is the worker whose leaving counts */
	if (who.role == TW_MASTER || (tw_tcp_workers_hold(t) && who.role != TW_WORKER))
		return;
	atomic_store(&t->end.gone, true);
	tw_loop_ring(t);
}

/* Of the whole run: the others say what they have sent. */
static void gateway_bytes(void *arg, uint64_t *sent, uint64_t *received)
{
	struct tw_tcp *t = arg;

	tw_tcp_bytes(t, sent, received);
	if (t->o.role == TW_TCP_SERVE)
		*sent += atomic_load_explicit(&t->counts.said, memory_order_relaxed);
}

/* Whose server and shards are on a node; replicas are called after their workers.  Guarded by
 * lock. */
static void name_holder(struct tw_tcp *t, uint32_t node, char *out, size_t room)
{
	const bool ours = node == t->self.node;
	const struct peer *p = ours ? NULL : tw_peer_of(t, node);
	uint32_t slot = p ? p->slot : UINT32_MAX, cell = p ? p->cell : UINT32_MAX;

	if (!tw_tcp_workers_hold(t)) {
		snprintf(out, room, "server %u", tw_server_number(node));
		return;
	}
	if (ours && t->members.news.incarnation) {
		slot = t->members.news.slot;
		cell = t->members.news.cell;
	}
	if (slot == UINT32_MAX)
		snprintf(out, room, "new worker");
	else
		tw_peer_text(slot, tw_tcp_cells(t) > 1 ? cell : UINT32_MAX, out, room);
}

static void gateway_name(void *arg, struct tw_addr who, uint32_t slot, char *out, size_t room)
{
	struct tw_tcp *t = arg;
	const bool ours = who.node == t->self.node || (who.node == 0 && t->o.role == TW_TCP_SERVE);
	char host[64], holder[48];
	struct peer *p;
	uint32_t cell;

	pthread_mutex_lock(&t->lock);
	p = ours ? NULL : tw_peer_of(t, who.node);
	cell = ours ? t->members.news.cell : p && p->cell != UINT32_MAX ? p->cell : who.index;
	snprintf(host, sizeof host, "%s", ours ? t->self.host : p ? p->host : "");
	name_holder(t, who.node, holder, sizeof holder);
	pthread_mutex_unlock(&t->lock);
	switch (who.role) {
	case TW_MASTER:
		snprintf(out, room, "master%s%s", *host ? " on " : "", host);
		break;
	case TW_SERVER:
		snprintf(out, room, "%s%s%s", holder, *host ? " on " : "", host);
		break;
	case TW_SHARD:
		if (who.node == UINT32_MAX) /* nobody has it */
			snprintf(out, room, "shard %u", who.index);
		else
			snprintf(out, room, "shard %u of %s%s%s", who.index, holder,
				 *host ? " on " : "", host);
		break;
	default:
		/* a cell that is waited for may be nobody yet: then its number is the index */
		if (slot == UINT32_MAX)
			snprintf(holder, sizeof holder, "worker");
		else
			tw_peer_text(slot, tw_tcp_cells(t) > 1 ? cell : UINT32_MAX, holder,
				     sizeof holder);
		snprintf(out, room, "%s%s%s", holder, *host ? " on " : "", host);
	}
}

static void gateway_waits(void *arg, const char *who, const char *whom, const char *why,
			  double seconds)
{
	struct tw_tcp *t = arg;

	if (t->o.waits)
		t->o.waits(t->o.waits_arg, who, whom, why, seconds);
}

static void gateway_closing(void *arg)
{
	struct tw_tcp *t = arg;

	pthread_mutex_lock(&t->port_lock);
	t->port = NULL;
	pthread_mutex_unlock(&t->port_lock);
}

/* --- opening ---------------------------------------------------------------------------------- */

static struct tw_tcp *make(const struct tw_tcp_options *o)
{
	struct tw_tcp *t = tw_heap_zeros(o->heap, sizeof *t);

	if (!t)
		return NULL;
	t->farewell.last = tw_heap_zeros(o->heap, tw_port_msg_bytes());
	if (!t->farewell.last) {
		o->heap->put(o->heap, t);
		return NULL;
	}
	t->o = *o;
	t->ears = &tw_handshake;
	t->heap = t->blocks.heap = o->heap;
	tw_msg_pool_init(&t->messages, o->heap, tw_port_msg_bytes(), 0, SPARES);
	t->loop.epoll = t->loop.bell = t->door.listener = -1;
	t->beat.every = o->every ? o->every : TW_SECOND;
	t->beat.suspect = o->suspect ? o->suspect : 5 * TW_SECOND;
	t->beat.limit = o->limit ? o->limit : 15 * TW_SECOND;
	t->loop.now = tw_clock();
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->port_lock, NULL);
	t->thread = pthread_self();
	tw_address_hostname(t->self.host, sizeof t->self.host);
	snprintf(t->self.who, sizeof t->self.who, "%s on %s",
		 o->role == TW_TCP_SERVE    ? "master"
		 : o->role == TW_TCP_SERVER ? "server"
					    : "worker",
		 t->self.host);
	if (getrandom(&t->self.process, sizeof t->self.process, 0) != sizeof t->self.process)
		t->self.process = (uint64_t)t->loop.now ^ (uint64_t)getpid() << 32;
	if (o->role == TW_TCP_SERVE) {
		t->self.id = o->identity;
		t->self.node = tw_tcp_workers_hold(t) ? 0 : 1;
		t->self.boot = o->identity.boot;
		t->peers.number = 1;
	}
	return t;
}

static enum tw_status await_master(struct tw_tcp *t, struct tw_error *why)
{
	const int64_t began = tw_clock();

	while (!t->peers.master->open) {
		tw_loop_turn(t, tw_clock() + 100 * MS);
		if (t->end.denied.status != TW_OK)
			return tw_fail(why, t->end.denied.status, "%s", t->end.denied.text);
		if (t->o.interrupted && *t->o.interrupted)
			return tw_fail(why, TW_INTERRUPTED,
				       "interrupted before the master answered");
		if (t->o.patience && tw_clock() - began > t->o.patience) {
			char where[TW_ADDRESS_TEXT];

			tw_address_text(&t->peers.master->address, where);
			return tw_fail(why, TW_IO, "no master answered at %s for %.0f s", where,
				       (double)t->o.patience / (double)TW_SECOND);
		}
	}
	return TW_OK;
}

static enum tw_status open_master(struct tw_tcp *t, struct tw_error *why)
{
	struct peer *p = tw_peer_new(t, TW_MASTER, 0);

	if (!p)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a connection");
	p->dial.wanted = true;
	p->dial.fd = t->o.master_fd;
	p->paired = p->dial.fd >= 0;
	if (t->o.master)
		p->address = *t->o.master;
	snprintf(p->host, sizeof p->host, "%.63s", p->paired ? t->self.host : p->address.host);
	t->peers.master = p;
	return await_master(t, why);
}

/* Others find a peer by where it listens, or by a pair. */
static enum tw_status open_door(struct tw_tcp *t, struct tw_error *why)
{
	struct tw_error cause = { .status = TW_OK };
	enum tw_status status = TW_OK;

	if (t->o.listen)
		status = tw_address_listen(t->o.listen, &t->door.listener, &t->door.bound, &cause);
	if (t->o.listen && status == TW_OK)
		status = tw_address_is_loopback(&t->door.bound, &t->door.near, &cause);
	else if (tw_tcp_workers_meet(t) && t->o.role == TW_TCP_WORKER && t->o.master_fd < 0)
		status = tw_fail(&cause, TW_BAD_INPUT, "this one listens nowhere");
	if (status == TW_OK)
		return TW_OK;
	if (tw_tcp_workers_meet(t) && t->o.role == TW_TCP_WORKER)
		return tw_fail(why, status, "%s%s", tw_tcp_must_listen(t), cause.text);
	return tw_fail(why, status, "%s", cause.text);
}

enum tw_status tw_tcp_open(const struct tw_tcp_options *o, struct tw_tcp **out,
			   struct tw_error *why)
{
	struct tw_tcp *t = make(o);
	enum tw_status status = TW_OK;

	*out = NULL;
	if (!t)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the network");
	if (!tw_loop_open(t, why))
		status = TW_IO;
	if (status == TW_OK)
		status = open_door(t, why);
	if (status == TW_OK && o->role != TW_TCP_SERVE)
		status = open_master(t, why);
	if (status == TW_OK)
		*out = t;
	else
		tw_tcp_close(t);
	return status;
}

uint32_t tw_tcp_node(const struct tw_tcp *t)
{
	return t->self.node;
}

const struct tw_address *tw_tcp_bound(const struct tw_tcp *t)
{
	return &t->door.bound;
}

/* --- running and ending ----------------------------------------------------------------------- */

enum tw_status tw_tcp_run(struct tw_tcp *t, const struct tw_cluster *cluster, struct tw_ran *ran)
{
	const struct tw_gateway gateway = {
		.arg = t,
		.opened = gateway_opened,
		.send = gateway_send,
		.sent = gateway_sent,
		.gone = gateway_gone,
		.named = tw_identity_named,
		.members = tw_identity_members,
		.bytes = gateway_bytes,
		.name = gateway_name,
		.waits = gateway_waits,
		.closing = gateway_closing,
	};
	const struct tw_threads_options options = { .gateway = &gateway, .helpers = t->o.helpers };
	struct tw_cluster mine = *cluster;

	mine.boot = t->self.boot;
	mine.nodes = UINT32_MAX;
	return tw_threads_run(&mine, &options, ran);
}

size_t tw_tcp_keepers(struct tw_tcp *t)
{
	size_t count = 0;

	pthread_mutex_lock(&t->lock);
	for (const struct peer *p = t->peers.all; p; p = p->next)
		count += p->open && p->keeps;
	pthread_mutex_unlock(&t->lock);
	return count;
}

/* Those who wait for a master that was stopped keep their connection; those who take the model are
 * waited for as long as they take some. */
static bool may_wait(struct tw_tcp *t, int64_t began, enum tw_status status, int64_t most)
{
	const int64_t now = tw_clock(), gave = atomic_load(&t->farewell.gave);

	if (status == TW_INTERRUPTED)
		return now - began < TW_SECOND / 4;
	return now - began < FAREWELL || (gave && now - gave < FAREWELL && now - began < most);
}

void tw_tcp_farewell(struct tw_tcp *t, enum tw_status status, uint64_t cut, const char *result,
		     struct tw_block *model)
{
	const int64_t began = tw_clock();
	struct tw_body_over over = { .status = (uint32_t)status, .cut = cut };
	int64_t most = MODEL_TIME;
	struct tw_msg *m;

	if (!t->threaded)
		return;
	m = t->farewell.last;
	if (!m)
		return;
	t->farewell.last = NULL;
	if (model && model->bytes && tw_sha_of(model->data, model->bytes, &over.model) == TW_OK) {
		over.model_bytes = model->bytes;
		most += (int64_t)(tw_tcp_keepers(t) * (model->bytes / MODEL_RATE)) * TW_SECOND;
	}
	m->b.over = over;
	if (result && (m->payload = tw_block_new(t->heap, strlen(result) + 1)) != NULL) {
		memcpy(m->payload->data, result, strlen(result));
		m->h.payload = (uint32_t)strlen(result);
	}
	atomic_store(&t->farewell.flushed, false);
	pthread_mutex_lock(&t->lock);
	t->farewell.over = m;
	t->farewell.model = over.model_bytes ? tw_block_keep(model) : NULL;
	pthread_mutex_unlock(&t->lock);
	tw_loop_ring(t);
	while (!atomic_load(&t->farewell.flushed) && may_wait(t, began, status, most))
		nanosleep(&(struct timespec){ .tv_nsec = 2 * MS }, NULL);
}

uint64_t tw_tcp_given(const struct tw_tcp *t, struct tw_sha *hash)
{
	*hash = t->end.given_hash;
	return t->end.given;
}

const char *tw_tcp_heard(const struct tw_tcp *t)
{
	return t->end.heard;
}

bool tw_tcp_replaced(const struct tw_tcp *t)
{
	return t->end.replaced;
}

bool tw_tcp_again(const struct tw_tcp *t)
{
	return t->end.again;
}

size_t tw_tcp_peers(struct tw_tcp *t, struct tw_tcp_peer_info *out, size_t room)
{
	const int64_t now = tw_clock();
	size_t count = 0;

	pthread_mutex_lock(&t->lock);
	for (const struct peer *p = t->peers.all; p && count < room; p = p->next) {
		struct tw_tcp_peer_info *i = &out[count];

		if (p->forgotten)
			continue;
		count++;
		*i = (struct tw_tcp_peer_info){
			.node = p->node,
			.role = p->role,
			.slot = p->slot,
			.connected = p->open,
			.suspect = p->suspect,
			.heard = p->heard ? (double)(now - p->heard) / (double)TW_SECOND : -1,
			.bytes_sent = atomic_load(&p->bytes_sent),
			.bytes_received = atomic_load(&p->bytes_received),
		};
		snprintf(i->name, sizeof i->name, "%s", p->name);
		snprintf(i->host, sizeof i->host, "%s", p->host);
	}
	pthread_mutex_unlock(&t->lock);
	return count;
}

static bool has_workers(struct tw_tcp *t)
{
	bool any = false;

	pthread_mutex_lock(&t->lock);
	for (const struct peer *p = t->peers.all; p && !any; p = p->next)
		any = p->open && p->role == TW_WORKER;
	pthread_mutex_unlock(&t->lock);
	return any;
}

/* All hear of the end from the master, one after the other: a worker that had not yet would take a
 * server that is gone for a dead one.  So servers go last. */
static void let_workers_go(struct tw_tcp *t)
{
	const int64_t until = tw_clock() + TW_SECOND;

	while (t->end.over && has_workers(t) && tw_clock() < until)
		nanosleep(&(struct timespec){ .tv_nsec = 2 * MS }, NULL);
}

void tw_tcp_close(struct tw_tcp *t)
{
	if (!t)
		return;
	if (t->threaded && t->o.role == TW_TCP_SERVER)
		let_workers_go(t);
	if (t->threaded) {
		atomic_store(&t->stop, true);
		tw_loop_ring(t);
		pthread_join(t->thread, NULL);
	}
	t->farewell.ending = true;
	tw_loop_close(t);
	for (struct peer *p = t->peers.all; p; p = p->next)
		tw_peer_forget(t, p);
	tw_peers_bury(t);
	if (t->farewell.over)
		tw_tcp_msg_free(t, t->farewell.over);
	tw_block_drop(t->farewell.model);
	t->heap->put(t->heap, t->farewell.last);
	tw_msg_pool_release(&t->messages);
	tw_payload_blocks_release(&t->blocks);
	t->heap->put(t->heap, t->end.heard);
	t->heap->put(t->heap, t->members.seat);
	tw_ticket_close(t);
	pthread_mutex_destroy(&t->lock);
	pthread_mutex_destroy(&t->port_lock);
	OPENSSL_cleanse(&t->self.id, sizeof t->self.id);
	t->heap->put(t->heap, t);
}
