/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.h - lines of Prometheus' text format in a text that grows. */
#ifndef TW_METRICS_PROMETHEUS_H
#define TW_METRICS_PROMETHEUS_H

#include "base/heap.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts as { .heap = ... }.  Whoever writes need not look: `failed` says at the end whether there
 * was memory, and `text` goes back to the heap in any case. */
struct tw_page {
	struct tw_heap *heap;
	char *text;
	size_t len, room;
	bool failed;
};

struct tw_label {
	const char *name, *value;
};

#define TW_LABELS(...)                                                                             \
	(const struct tw_label[])                                                                  \
	{                                                                                          \
		__VA_ARGS__,                                                                       \
		{                                                                                  \
			NULL, NULL                                                                 \
		}                                                                                  \
	}

void tw_page_put(struct tw_page *p, const char *text);
void tw_page_put_count(struct tw_page *p, uint64_t n);
void tw_page_put_number(struct tw_page *p, double x);
/* HELP and TYPE. */
void tw_page_head(struct tw_page *p, const char *name, const char *type, const char *help);
void tw_page_counter(struct tw_page *p, const char *name, const char *help, uint64_t n);
/* A figure that is not known has no sample. */
void tw_page_gauge(struct tw_page *p, const char *name, const char *help, bool known, double x);
/* The name and the labels, up to the first without a name, and the value. */
void tw_page_labelled_number(struct tw_page *p, const char *name, const struct tw_label *label,
			     double x);
void tw_page_labelled_count(struct tw_page *p, const char *name, const struct tw_label *label,
			    uint64_t n);

#endif
