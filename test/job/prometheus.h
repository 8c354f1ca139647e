/* SPDX-License-Identifier: Apache-2.0 */
/* prometheus.h - a strict reader of Prometheus' text format, for what gauges say. */
#ifndef TW_TEST_JOB_PROMETHEUS_H
#define TW_TEST_JOB_PROMETHEUS_H

#include "metrics/gauges.h"

#define SAMPLES 4000

struct sample {
	char name[80], labels[400]; /* labels as they are between the braces */
	double value;
};

struct prometheus {
	struct sample sample[SAMPLES];
	size_t samples;
	char family[80], type[20];
};

/* What was read last. */
extern struct prometheus prometheus;

/* Read what the gauges, made with the system's heap, say now; anything that is not as the format
 * wants it fails the test. */
void prometheus_read(struct tw_gauges *g);
/* The value of the sample with these labels, as they are written; without one the test fails. */
double prometheus_of(const char *name, const char *with);
bool prometheus_has(const char *name);

#endif
