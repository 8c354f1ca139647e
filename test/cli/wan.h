/* SPDX-License-Identifier: Apache-2.0 */
/* wan.h - the virtual time that examples/wan-mnist.yaml needs, against that of ssgd. */
#ifndef TW_TEST_CLI_WAN_H
#define TW_TEST_CLI_WAN_H

/* the best of examples/fewer_bytes.py */
#define WAN_SSGD "--set strategy=ssgd --set update.rate=0.4"

/* Virtual seconds until the example's accuracy; 0: there is no data. */
double wan_seconds(const char *data, const char *strategy);
/* The test fails if it is more, and is skipped if there was no data. */
void wan_a_tenth(double slow, double quick);

#endif
