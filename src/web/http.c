/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - a small server of pages: one thread, few connections, GET and HEAD only. */
#include "web/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <microhttpd.h>

#if defined MHD_VERSION && MHD_VERSION < 0x00097302
#error "libmicrohttpd 0.9.74 or later is needed"
#endif

/* With more than this open the one that came first is closed.  Below the limit, so that there is
 * always room to accept those who wait: they may have something to say. */
#define CROWDED (TW_HTTP_CONNECTIONS - 4)

struct tw_http {
	struct tw_heap *heap;
	const struct tw_http_page *pages;
	const struct tw_log *log;
	struct MHD_Daemon *daemon;
	char address[INET6_ADDRSTRLEN + 2];
	char own[256]; /* the name of this machine */
	const char *names;
	uint16_t port;
	/* the server's thread only */
	int open[TW_HTTP_CONNECTIONS]; /* sockets in the order in which they came */
	size_t opened;
};

/* --- answers --------------------------------------------------------------------------------- */

struct body {
	struct tw_heap *heap;
	char *bytes;
};

static void body_free(void *arg)
{
	struct body *b = arg;

	b->heap->put(b->heap, b->bytes);
	b->heap->put(b->heap, b);
}

/* A response that owns the bytes, or NULL; they are put back in any case. */
static struct MHD_Response *response(struct tw_http *h, char *bytes, size_t len)
{
	struct body *b = h->heap->get(h->heap, sizeof *b);
	struct MHD_Response *r;

	if (!b) {
		h->heap->put(h->heap, bytes);
		return NULL;
	}
	*b = (struct body){ h->heap, bytes };
	r = MHD_create_response_from_buffer_with_free_callback_cls(len, bytes, body_free, b);
	if (!r)
		body_free(b);
	return r;
}

/* MHD_NO ends the connection: where there is no memory for an answer there is none. */
static enum MHD_Result answer(struct MHD_Connection *c, struct MHD_Response *r, int status,
			      const char *type, const char *allow)
{
	enum MHD_Result done = MHD_NO;

	if (!r)
		return MHD_NO;
	if (MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
	    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
	    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") == MHD_YES &&
	    (!allow || MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, allow) == MHD_YES))
		done = MHD_queue_response(c, (unsigned)status, r);
	MHD_destroy_response(r);
	return done;
}

static enum MHD_Result sentence(struct MHD_Connection *c, int status, const char *text,
				const char *allow)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);

	return answer(c, r, status, "text/plain; charset=utf-8", allow);
}

/* Nothing is there: say what is. */
static enum MHD_Result absent(struct tw_http *h, struct MHD_Connection *c)
{
	static const char start[] = "There is no such page. The pages are:\n";
	size_t len = sizeof start;
	char *text, *at;

	for (const struct tw_http_page *p = h->pages; p->path; p++)
		len += strlen(p->path) + 1;
	text = h->heap->get(h->heap, len);
	if (!text)
		return MHD_NO;
	at = stpcpy(text, start);
	for (const struct tw_http_page *p = h->pages; p->path; p++)
		at = stpcpy(stpcpy(at, p->path), "\n");
	return answer(c, response(h, text, (size_t)(at - text)), MHD_HTTP_NOT_FOUND,
		      "text/plain; charset=utf-8", NULL);
}

static enum MHD_Result show(struct tw_http *h, struct MHD_Connection *c,
			    const struct tw_http_page *page)
{
	struct tw_http_body body = { .status = MHD_HTTP_OK, .type = page->type };
	const enum tw_status st = page->make(page->arg, h->heap, &body);

	if (st != TW_OK) {
		tw_log_line(h->log, TW_WARNING, "http", "%s cannot be shown: %s", page->path,
			    tw_status_name(st));
		return sentence(c, MHD_HTTP_INTERNAL_SERVER_ERROR,
				"This page cannot be shown now.\n", NULL);
	}
	return answer(c, response(h, body.bytes, body.len), body.status, body.type, NULL);
}

/* --- whom a request is for -------------------------------------------------------------------- */

/* The host without its port: "[::1]:80" is "::1".  False: it is no host. */
static bool split_host(const char *text, char out[256])
{
	const bool six = text[0] == '[';
	const char *from = text + six, *end = from + strcspn(from, six ? "]" : ":"), *port;
	size_t n = (size_t)(end - from);

	port = six && *end ? end + 1 : end;
	if (!n || n >= 256 || (six && !*end) || (*port && *port != ':') ||
	    (*port && port[1 + strspn(port + 1, "0123456789")]))
		return false;
	memcpy(out, from, n);
	n -= !six && n > 1 && out[n - 1] == '.'; /* a name may end in a dot */
	out[n] = 0;
	return true;
}

static bool is_address(const char *host)
{
	struct in6_addr any;

	return inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

static bool is_listed(const char *names, const char *host)
{
	const size_t n = strlen(host);

	for (const char *at = names; at && *at; at += *at == ',') {
		const size_t len = strcspn(at, ",");

		if (len == n && strncasecmp(at, host, n) == 0)
			return true;
		at += len;
	}
	return false;
}

/* The machine's name with or without its domain. */
static bool is_own(const char *own, const char *host)
{
	const size_t first = strcspn(own, ".");

	return *own && (strcasecmp(own, host) == 0 ||
			(strlen(host) == first && strncasecmp(own, host, first) == 0));
}

static enum MHD_Result count_hosts(void *arg, enum MHD_ValueKind kind, const char *name,
				   const char *value)
{
	unsigned *count = arg;

	(void)kind;
	(void)value;
	*count += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
	return MHD_YES;
}

/* NULL: answer it; else what is wrong, and the status.  Who names no host speaks HTTP/1.0: that is
 * no browser. */
static const char *misdirected(const struct tw_http *h, struct MHD_Connection *c,
			       const char *version, int *status)
{
	const char *text = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	unsigned count = 0;
	char host[256];

	MHD_get_connection_values(c, MHD_HEADER_KIND, count_hosts, &count);
	*status = MHD_HTTP_BAD_REQUEST;
	if (!text && strcmp(version, MHD_HTTP_VERSION_1_0) == 0)
		return NULL;
	if (!text || count != 1 || !split_host(text, host))
		return "A request needs one Host: the name or address that it is sent to.\n";
	*status = MHD_HTTP_MISDIRECTED_REQUEST;
	if (is_address(host) || strcasecmp(host, "localhost") == 0 || is_own(h->own, host) ||
	    is_listed(h->names, host))
		return NULL;
	return "This server does not have the name in Host. Use its address, localhost or the "
	       "machine's name, or name the host with --http-host.\n";
}

/* Called when the headers are there, then for what a client sends after them, then at the end. */
static enum MHD_Result handle(void *arg, struct MHD_Connection *c, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *bytes, void **seen)
{
	struct tw_http *h = arg;
	const char *wrong;
	int status;

	(void)upload;
	wrong = misdirected(h, c, version, &status);
	if (wrong)
		return sentence(c, status, wrong, NULL);
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return sentence(c, MHD_HTTP_METHOD_NOT_ALLOWED,
				"Only GET and HEAD are understood here.\n", "GET, HEAD");
	if (!*seen) {
		*seen = h;
		return MHD_YES;
	}
	if (*bytes) {
		*bytes = 0; /* nobody reads it */
		return MHD_YES;
	}
	for (const struct tw_http_page *p = h->pages; p->path; p++)
		if (strcmp(p->path, url) == 0)
			return show(h, c, p);
	return absent(h, c);
}

/* --- connections ----------------------------------------------------------------------------- */

static void forget(struct tw_http *h, int fd)
{
	for (size_t k = 0; k < h->opened; k++)
		if (h->open[k] == fd) {
			h->opened--;
			memmove(h->open + k, h->open + k + 1, (h->opened - k) * sizeof h->open[0]);
			return;
		}
}

/* The one that was shut down is closed when the thread next looks at it; until then it is none of
 * those that are open here. */
static void came_or_went(void *arg, struct MHD_Connection *c, void **context,
			 enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct tw_http *h = arg;

	(void)context;
	if (!info)
		return;
	forget(h, info->connect_fd);
	if (what != MHD_CONNECTION_NOTIFY_STARTED)
		return;
	if (h->opened == CROWDED) {
		shutdown(h->open[0], SHUT_RDWR);
		forget(h, h->open[0]);
	}
	h->open[h->opened++] = info->connect_fd;
}

/* What a client did wrong is its own affair. */
__attribute__((format(printf, 2, 0))) static void complain(void *arg, const char *format,
							   va_list args)
{
	const struct tw_http *h = arg;
	char line[300];
	size_t n;

	if (!h->log || h->log->level < TW_DEBUG)
		return;
	vsnprintf(line, sizeof line, format, args);
	for (n = strlen(line); n && line[n - 1] == '\n'; n--)
		line[n - 1] = 0;
	tw_log_line(h->log, TW_DEBUG, "http", "%s", line);
}

/* --- start and stop -------------------------------------------------------------------------- */

static bool loopback(const struct sockaddr *a)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;

	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
}

static enum tw_status resolve(const struct tw_http_options *o, struct sockaddr_storage *out,
			      socklen_t *len, struct tw_error *why)
{
	const char *address = o->address ? o->address : "127.0.0.1";
	const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char port[8];

	if (strcmp(address, "localhost") == 0)
		address = "127.0.0.1";
	snprintf(port, sizeof port, "%u", o->port);
	if (getaddrinfo(address, port, &hints, &found) != 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "http: \"%.80s\" is not an address; use 127.0.0.1, ::1 or "
			       "localhost",
			       address);
	memcpy(out, found->ai_addr, found->ai_addrlen);
	*len = found->ai_addrlen;
	freeaddrinfo(found);
	if (o->everywhere || loopback((const struct sockaddr *)out))
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "http: %.80s can be reached from other machines, and anyone who can "
		       "reach it can read everything there; use 127.0.0.1, ::1 or localhost",
		       address);
}

static enum tw_status bound(struct tw_http *h, int fd, struct tw_error *why)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof at;
	const struct sockaddr_in6 *six = (const void *)&at;
	const struct sockaddr_in *four = (const void *)&at;
	char text[INET6_ADDRSTRLEN] = "";

	if (getsockname(fd, (struct sockaddr *)&at, &len))
		return tw_fail(why, TW_IO, "http: no port: %s", strerror(errno));
	if (at.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
		snprintf(h->address, sizeof h->address, "[%s]", text);
		h->port = ntohs(six->sin6_port);
	} else {
		inet_ntop(AF_INET, &four->sin_addr, h->address, sizeof h->address);
		h->port = ntohs(four->sin_port);
	}
	return TW_OK;
}

static enum tw_status cannot_listen(const struct tw_http_options *o, struct tw_error *why)
{
	const char *address = o->address ? o->address : "127.0.0.1";

	switch (errno) {
	case EADDRINUSE:
		return tw_fail(why, TW_BAD_INPUT,
			       "http: port %u of %.80s is in use; choose another, or 0 for any "
			       "that is free",
			       o->port, address);
	case EACCES:
		return tw_fail(why, TW_BAD_INPUT,
			       "http: port %u is not allowed for this user; choose one above 1023",
			       o->port);
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return tw_fail(why, TW_BAD_INPUT, "http: %.80s is not an address of this machine",
			       address);
	default:
		return tw_fail(why, TW_IO, "http: cannot listen on %.80s, port %u: %s", address,
			       o->port, strerror(errno));
	}
}

static enum tw_status listener(const struct tw_http_options *o, int *out, struct tw_error *why)
{
	struct sockaddr_storage at;
	socklen_t len = 0;
	enum tw_status st = resolve(o, &at, &len, why);
	const int on = 1;
	int fd = -1;

	if (st != TW_OK)
		return st;
	fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return cannot_listen(o, why);
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
	    bind(fd, (struct sockaddr *)&at, len) || listen(fd, 128)) {
		st = cannot_listen(o, why);
		close(fd);
		return st;
	}
	*out = fd;
	return TW_OK;
}

/* The thread leaves signals to those who wait for them.  With so few connections poll is as good
 * as epoll, which the library uses in a way that overlooks an end that comes with the last bytes:
 * then a client that has hung up is kept until the timeout. */
static struct MHD_Daemon *begin(struct tw_http *h, int fd)
{
	const bool poll = MHD_is_feature_supported(MHD_FEATURE_POLL) == MHD_YES;
	const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ERROR_LOG |
			       (poll ? MHD_USE_POLL : MHD_USE_AUTO);
	struct MHD_Daemon *d;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	d = MHD_start_daemon(flags, 0, NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, complain,
			     h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
			     (unsigned)TW_HTTP_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
			     (unsigned)TW_HTTP_TIMEOUT, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
			     (size_t)TW_HTTP_REQUEST, MHD_OPTION_STRICT_FOR_CLIENT, 1,
			     MHD_OPTION_NOTIFY_CONNECTION, came_or_went, h, MHD_OPTION_END);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return d;
}

/* A server that does not start closes the socket, or not: only what is still ours is closed. */
static enum tw_status serve(struct tw_http *h, int fd, struct tw_error *why)
{
	struct stat before, after;
	enum tw_status st = bound(h, fd, why);

	if (st != TW_OK || fstat(fd, &before)) {
		close(fd);
		return st != TW_OK ? st : tw_fail(why, TW_IO, "http: %s", strerror(errno));
	}
	h->daemon = begin(h, fd);
	if (h->daemon)
		return TW_OK;
	if (fstat(fd, &after) == 0 && after.st_dev == before.st_dev &&
	    after.st_ino == before.st_ino)
		close(fd);
	return tw_fail(why, TW_IO,
		       "http: the server cannot be started: no thread, or too many "
		       "open files");
}

enum tw_status tw_http_start(struct tw_heap *heap, const struct tw_http_options *o,
			     struct tw_http **out, struct tw_error *why)
{
	struct tw_http *h = tw_heap_zeros(heap, sizeof *h);
	enum tw_status st;
	int fd = -1;

	if (!h)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the http server");
	h->heap = heap;
	h->pages = o->pages;
	h->log = o->log;
	h->names = o->names;
	if (gethostname(h->own, sizeof h->own - 1))
		h->own[0] = 0;
	st = listener(o, &fd, why);
	if (st == TW_OK)
		st = serve(h, fd, why);
	if (st != TW_OK) {
		heap->put(heap, h);
		return st;
	}
	*out = h;
	return TW_OK;
}

uint16_t tw_http_port(const struct tw_http *h)
{
	return h->port;
}

const char *tw_http_address(const struct tw_http *h)
{
	return h->address;
}

void tw_http_stop(struct tw_http *h)
{
	if (!h)
		return;
	MHD_stop_daemon(h->daemon);
	h->heap->put(h->heap, h);
}
