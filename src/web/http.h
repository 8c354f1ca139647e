/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - a small server of pages: one thread, few connections, GET and HEAD only.
 *
 * It is there for people and programs on the same machine.  Whoever connects and says nothing, or
 * speaks slowly, makes way for those who come later.
 *
 * A request is answered when its Host is an address, localhost, the name of this machine or one of
 * `names`.  So no page of another site can have a browser read from here under its own name. */
#ifndef TW_WEB_HTTP_H
#define TW_WEB_HTTP_H

#include "base/heap.h"
#include "base/machine/log.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TW_HTTP_CONNECTIONS 16
#define TW_HTTP_TIMEOUT     5    /* seconds without a byte */
#define TW_HTTP_REQUEST     8192 /* bytes of a connection: request line, headers, the reply's */

struct tw_http;

/* What a page says now. */
struct tw_http_body {
	char *bytes; /* from the heap that the page is given; the server puts it back.  May be
			NULL where len is 0 */
	size_t len;
	int status;       /* 200 unless the page says otherwise */
	const char *type; /* the page's own unless it says otherwise; static text */
};

struct tw_http_page {
	const char *path; /* "/metrics"; NULL after the last page of a list */
	const char *type; /* of its content, for the header */
	/* Make the body.  Called by the server's thread, one at a time; must not wait long.  Other
	 * than TW_OK: the client gets 500 and nothing else. */
	enum tw_status (*make)(void *arg, struct tw_heap *heap, struct tw_http_body *out);
	void *arg;
};

struct tw_http_options {
	const char *address; /* numbers or "localhost"; NULL: 127.0.0.1 */
	uint16_t port;       /* 0: a free one */
	bool everywhere;     /* addresses that other machines reach are allowed */
	const char *names;   /* "a,b": further names of this machine in requests; may be NULL */
	const struct tw_http_page *pages; /* must stay until the stop */
	const struct tw_log *log;         /* may be NULL */
};

/* TW_BAD_INPUT: the address is not one of this machine's or not allowed, or the port is in use. */
enum tw_status tw_http_start(struct tw_heap *heap, const struct tw_http_options *o,
			     struct tw_http **out, struct tw_error *why);
/* Where it listens. */
uint16_t tw_http_port(const struct tw_http *h);
const char *tw_http_address(const struct tw_http *h); /* "127.0.0.1", "[::1]": as in a URL */
/* Waits for the thread; connections are cut.  NULL is allowed. */
void tw_http_stop(struct tw_http *h);

#endif
