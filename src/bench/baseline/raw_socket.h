/* SPDX-License-Identifier: Apache-2.0 */
/* raw_socket.h - the floor of an exchange between processes: the bytes and the pass, and nothing
 * else. */
#ifndef TW_BENCH_RAW_SOCKET_H
#define TW_BENCH_RAW_SOCKET_H

#include "base/status.h"

#include <stddef.h>

enum tw_raw_kind {
	TW_RAW_PAIR, /* a socket pair */
	TW_RAW_TCP,  /* a connection over loopback */
	TW_RAW_TLS,  /* that with OpenSSL's TLS 1.3 on it, TLS_AES_128_GCM_SHA256 */
};

/* Two ends of a connection, in this process; TW_RAW_TLS is a connection over loopback. */
enum tw_status tw_raw_connect(enum tw_raw_kind kind, int fd[2], struct tw_error *why);

/* Seconds of one exchange, the median of `times`: a process sends n gradients, another makes the
 * SGD pass and sends n parameters back.  `block`: so many values at a time are passed over and sent
 * back while the next ones come; n: everything has come before anything goes back. */
enum tw_status tw_raw_exchange(enum tw_raw_kind kind, size_t n, size_t block, unsigned times,
			       double *out, struct tw_error *why);

#endif
