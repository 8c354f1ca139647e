/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - where a process listens: host and port as text, found, listened on, dialled. */
#ifndef TW_WIRE_ADDRESS_H
#define TW_WIRE_ADDRESS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_PORT         7433
#define TW_ADDRESS_TEXT 280 /* "host:port" or "[v6]:port" with its 0 */

struct tw_address {
	char host[256]; /* name or number, without brackets; "" any */
	uint16_t port;
};

/* "host", "host:port", ":port", "[2001:db8::1]:port", "2001:db8::1", "*:port".  Without a port it
 * is `port`.  TW_BAD_INPUT with a sentence that says what would be accepted. */
enum tw_status tw_address_parse(const char *text, uint16_t port, struct tw_address *out,
				struct tw_error *why);
/* As text that tw_address_parse reads. */
void tw_address_text(const struct tw_address *a, char out[TW_ADDRESS_TEXT]);
/* Is everything the name stands for on loopback? "" (any) is not.  TW_BAD_INPUT: unknown name. */
enum tw_status tw_address_is_loopback(const struct tw_address *a, bool *loopback,
				      struct tw_error *why);
/* A listening socket, non-blocking, close-on-exec, SO_REUSEADDR; port 0 takes a free one and
 * *bound says which.  TW_BAD_INPUT with a sentence where the address is in use, unknown or
 * another machine's. */
enum tw_status tw_address_listen(const struct tw_address *a, int *fd, struct tw_address *bound,
				 struct tw_error *why);
/* Begin to connect, non-blocking; *fd is a socket that becomes writable when it is decided (then
 * SO_ERROR tells), TCP_NODELAY and keep-alive set.  `attempt` counts tries: each takes the next of
 * the name's addresses.  TW_IO: the name is not known now, or the system refuses. */
enum tw_status tw_address_dial(const struct tw_address *a, unsigned attempt, int *fd,
			       struct tw_error *why);
/* Does what a connection carries stay on this machine, as far as its two addresses tell? */
bool tw_address_stays_here(int fd);
/* A socket pair's buffer: room for as much as one side writes at a time. */
void tw_address_widen_pair(int fd);
/* Whatever the system's congestion control is, do not pace what is sent by timers.  Best before the
 * connection is there: an algorithm that has begun to pace leaves its timers. */
void tw_address_unpace(int fd);
/* Options of a connection that was accepted.  What stays on this machine is not paced, whatever the
 * system does elsewhere; a listener on loopback and who dials loopback see to that from the first
 * byte on. */
void tw_address_tune(int fd);
/* "10.0.0.2:41234" of the other side of a socket; "local" for a socket pair. */
void tw_address_peer(int fd, char out[TW_ADDRESS_TEXT]);
/* This machine's name, never empty. */
void tw_address_hostname(char *out, size_t room);

#endif
