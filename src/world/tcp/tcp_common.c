/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_common.c - what all files of the tcp world do: make messages, count, refuse aloud, wake the
 * loop, end. */
#include "world/tcp/tcp_inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* --- messages --------------------------------------------------------------------------------- */

struct tw_msg *tw_tcp_msg(struct tw_tcp *t, enum tw_type type)
{
	struct tw_msg *m = tw_msg_pool_take(&t->messages);

	if (!m)
		return NULL;
	m->h.magic = TW_WIRE_MAGIC;
	m->h.major = TW_WIRE_MAJOR;
	m->h.minor = TW_WIRE_MINOR;
	m->h.type = (uint16_t)type;
	return m;
}

void tw_tcp_msg_free(struct tw_tcp *t, struct tw_msg *m)
{
	tw_msg_pool_give(&t->messages, m);
}

void tw_tcp_bytes(struct tw_tcp *t, uint64_t *sent, uint64_t *received)
{
	*sent = atomic_load_explicit(&t->counts.sent, memory_order_relaxed);
	*received = atomic_load_explicit(&t->counts.received, memory_order_relaxed);
}

void tw_tcp_codec(struct tw_tcp *t, uint64_t out[4])
{
	for (int k = 0; k < 4; k++)
		out[k] = atomic_load_explicit(&t->counts.codec[k], memory_order_relaxed);
}

void tw_tcp_count(struct tw_tcp *t, const struct tw_msg *m)
{
	const int k = m->to.role == TW_SHARD ? 0 : 2;
	const uint32_t s = m->h.shard;

	if (m->from.role == m->to.role) /* replicas among each other: pieces of a slice */
		return;
	if (tw_kind_of(m->h.type)->payload != TW_PAYLOAD_SLICE || !m->h.payload || s >= t->o.shards)
		return;
	atomic_fetch_add_explicit(&t->counts.codec[k],
				  (t->o.border[s + 1] - t->o.border[s]) * t->o.width *
					  sizeof(float),
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&t->counts.codec[k + 1], m->h.payload, memory_order_relaxed);
}

/* --- saying ----------------------------------------------------------------------------------- */

void tw_tcp_refusals_tick(struct tw_tcp *t)
{
	if (t->loop.now - t->refusals.since < TW_SECOND)
		return;
	if (t->refusals.unsaid)
		tw_log_line(t->o.log, TW_WARNING, t->self.who, "%u more connections were refused",
			    t->refusals.unsaid);
	t->refusals.since = t->loop.now;
	t->refusals.said = t->refusals.unsaid = 0;
}

void tw_tcp_refusal(struct tw_tcp *t, const char *who, const char *format, ...)
{
	char line[500];
	va_list list;

	tw_tcp_refusals_tick(t);
	if (t->refusals.said >= 5) {
		t->refusals.unsaid++;
		return;
	}
	t->refusals.said++;
	va_start(list, format);
	vsnprintf(line, sizeof line, format, list);
	va_end(list);
	tw_log_line(t->o.log, TW_WARNING, t->self.who, "%s: %s", who, line);
}

void tw_tcp_end(struct tw_tcp *t, enum tw_status status, const char *format, ...)
{
	char text[sizeof t->end.denied.text];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (status != TW_OK)
		tw_fail(&t->end.denied, status, "%s", text);
	pthread_mutex_lock(&t->port_lock);
	if (t->port)
		tw_port_end(t->port, status, text);
	pthread_mutex_unlock(&t->port_lock);
}

void tw_loop_ring(struct tw_tcp *t)
{
	const uint64_t one = 1;

	if (write(t->loop.bell, &one, sizeof one) < 0)
		return; /* it is ringing already */
}
