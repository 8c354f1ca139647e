/* SPDX-License-Identifier: Apache-2.0 */
/* gauges.h - what is known of a run while it runs, for /metrics, /health and other callers.
 *
 * A process fills it from the notes of its own actors and from what its world knows about peers;
 * so a server's figures come from shards, a worker's from its steps, and what this process cannot
 * know is not there.  Counters never fall: work that a rollback lost was done all the same.
 *
 * Everything may be called from any thread.  Notes never allocate, and wait at most for somebody
 * who copies the figures. */
#ifndef TW_METRICS_GAUGES_H
#define TW_METRICS_GAUGES_H

#include "base/status.h"
#include "node/plan.h"

#define TW_GAUGES_TYPE "text/plain; version=0.0.4; charset=utf-8" /* of tw_gauges_text */
#define TW_GAUGES_LONG 5.0 /* seconds after which a wait is shown */

struct tw_gauges;

/* Another process, or this one, as the world sees it. */
struct tw_gauge_peer {
	char name[48], host[64];
	enum tw_role role;
	uint32_t slot; /* of a worker; UINT32_MAX: none (yet) */
	uint32_t node; /* no two of a list have the same */
	bool connected;
	bool suspect;     /* silent for long, but not given up */
	double heard_ago; /* seconds */
	uint64_t bytes_sent, bytes_received;
};

enum tw_gauge_direction { TW_GAUGE_PUSH, TW_GAUGE_PARAMS, TW_GAUGE_DIRECTIONS };

/* `role` ("master", "server", "worker") and `host` label this process; they are copied.  The plan
 * may be NULL until it is known, and must outlive the gauges.  NULL without memory. */
struct tw_gauges *tw_gauges_new(struct tw_heap *heap, const struct tw_plan *plan, const char *role,
				const char *host);
void tw_gauges_free(struct tw_gauges *g);
/* Say the plan of one that was made without; notes before that are passed over.  Once only. */
enum tw_status tw_gauges_plan(struct tw_gauges *g, const struct tw_plan *plan);

void tw_gauges_note(struct tw_gauges *g, const struct tw_note *note);
/* All peers there are now, instead of those before.  TW_NO_MEMORY: the old list stays. */
enum tw_status tw_gauges_peers(struct tw_gauges *g, const struct tw_gauge_peer *list, size_t n);
/* `who` (one of this process) waits for `whom`, for so many seconds already.  Said again it is the
 * same wait, unless whom or why has changed; it is shown, and counted once, when it is a long
 * one. */
enum tw_status tw_gauges_wait(struct tw_gauges *g, const char *who, const char *whom,
			      const char *why, double seconds);
void tw_gauges_wait_over(struct tw_gauges *g, const char *who);
/* Bytes on the wire so far, in all. */
void tw_gauges_bytes(struct tw_gauges *g, uint64_t sent, uint64_t received);
/* One vector went through the codec: bytes of its floats, and as encoded.  Takes no lock. */
void tw_gauges_codec(struct tw_gauges *g, enum tw_gauge_direction direction, uint64_t raw,
		     uint64_t encoded);
/* The run has ended; it will make no further progress, and nobody is waited for. */
void tw_gauges_over(struct tw_gauges *g);

/* Prometheus' text format, version 0.0.4.  *out is from the heap given at the start, `*len` bytes
 * and a 0 after them; the caller puts it back.  Fails without memory only. */
enum tw_status tw_gauges_text(struct tw_gauges *g, char **out, size_t *len);
/* One JSON object: status ("starting", "ok", "waiting", "over"), role, host, workers, epochs,
 * steps, loss, seconds_since_progress, waits, checkpoint, cells (of workers with stages, at the
 * master: who has which place); null where it is not known.  *status is that of HTTP: 200, or 503
 * while somebody has been waited for for long. */
enum tw_status tw_gauges_health(struct tw_gauges *g, char **out, size_t *len, int *status);

#endif
