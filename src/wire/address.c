/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - text to addresses and back, listeners and connections over IPv4 and IPv6.
 *
 * A numeric host never waits for anybody.  A name goes through getaddrinfo, which may ask a name
 * server and so may block its caller for as long as resolv.conf says; whoever cannot afford that
 * dials numbers. */
#include "wire/address.h"

#include "base/printable.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME_MOST  253 /* of a host name in the DNS */
#define LABEL_MOST 63

/* A dead peer is noticed after 10 + 4 x 5 s of silence, and after 30 s of unanswered bytes. */
#define KEEP_IDLE_S     10
#define KEEP_EVERY_S    5
#define KEEP_TRIES      4
#define USER_TIMEOUT_MS 30000

/* What stays on this machine is not lost, and shares no line: whatever paces it (as BBR does, by
 * timers) only makes it slower.  Every Linux has this algorithm, and anybody may choose it. */
#define UNPACED "reno"

#define PAIR_BUFFER (1 << 20)

#define ACCEPTED                                                                                   \
	"accepted are HOST, HOST:PORT, :PORT, *:PORT, [IPV6]:PORT and IPV6, with a port from 0 "   \
	"to 65535"

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool port_fits(const char *text, uint16_t *port)
{
	uint32_t n = 0;
	size_t k = 0;

	for (; k < 5 && digit(text[k]); k++)
		n = n * 10 + (uint32_t)(text[k] - '0');
	if (k == 0 || text[k] || n > UINT16_MAX)
		return false;
	*port = (uint16_t)n;
	return true;
}

/* "2001:db8::1", "fe80::1%eth0". */
static bool v6_fits(const char *host)
{
	const size_t n = strcspn(host, "%");
	char number[INET6_ADDRSTRLEN];
	struct in6_addr a;

	if (n >= sizeof number)
		return false;
	memcpy(number, host, n);
	number[n] = 0;
	if (inet_pton(AF_INET6, number, &a) != 1)
		return false;
	if (!host[n])
		return true;
	for (const char *z = host + n + 1; *z; z++)
		if (!letter(*z) && !digit(*z) && !strchr("-_.", *z))
			return false;
	return host[n + 1] && strlen(host + n + 1) < IF_NAMESIZE;
}

/* A name, or four numbers.  A name never ends in a label of digits only: old functions would take
 * "7433" for 0.0.29.9, which nobody means. */
static bool name_fits(const char *host)
{
	size_t label = 0, digits = 0;
	struct in_addr a;

	if (inet_pton(AF_INET, host, &a) == 1)
		return true;
	if (strlen(host) > NAME_MOST || *host == '-')
		return false;
	for (const char *p = host; *p; p++) {
		if (*p == '.') {
			if (label == 0)
				return false;
			if (p[1])
				label = digits = 0;
			continue;
		}
		if (!letter(*p) && !digit(*p) && *p != '-' && *p != '_')
			return false;
		digits += digit(*p);
		if (++label > LABEL_MOST)
			return false;
	}
	return label > digits;
}

/* Where the host ends and where its port begins (NULL: none); false: no such form. */
static bool cut(const char *text, const char **host, size_t *bytes, const char **port, bool *v6)
{
	const char *colon = strchr(text, ':');

	*host = text;
	*port = NULL;
	*v6 = false;
	if (*text == '[') {
		const char *close = strchr(text, ']');

		if (!close || (close[1] && close[1] != ':'))
			return false;
		*v6 = true;
		*host = text + 1;
		*bytes = (size_t)(close - *host);
		*port = close[1] ? close + 2 : NULL;
	} else if (colon && strchr(colon + 1, ':')) {
		*v6 = true;
		*bytes = strlen(text);
	} else {
		*bytes = colon ? (size_t)(colon - text) : strlen(text);
		*port = colon ? colon + 1 : NULL;
	}
	return true;
}

enum tw_status tw_address_parse(const char *text, uint16_t port, struct tw_address *out,
				struct tw_error *why)
{
	const struct tw_printable shown = tw_show(text);
	struct tw_address a = { .port = port };
	const char *host, *port_text;
	size_t bytes;
	bool v6;

	if (!cut(text, &host, &bytes, &port_text, &v6) || bytes >= sizeof a.host || !*text)
		return tw_fail(why, TW_BAD_INPUT, "\"%s\" is not an address: %s", shown.text,
			       ACCEPTED);
	memcpy(a.host, host, bytes);
	if (port_text && !port_fits(port_text, &a.port))
		return tw_fail(why, TW_BAD_INPUT, "the port of address \"%s\" is wrong: %s",
			       shown.text, ACCEPTED);
	if (v6 && !v6_fits(a.host))
		return tw_fail(why, TW_BAD_INPUT, "\"%s\" is not an IPv6 address: %s", shown.text,
			       ACCEPTED);
	if (!v6 && strcmp(a.host, "*") == 0)
		a.host[0] = 0;
	if (!v6 && a.host[0] && !name_fits(a.host))
		return tw_fail(why, TW_BAD_INPUT,
			       "the host of address \"%s\" is neither a name nor an IP "
			       "address: %s",
			       shown.text, ACCEPTED);
	*out = a;
	return TW_OK;
}

void tw_address_text(const struct tw_address *a, char out[TW_ADDRESS_TEXT])
{
	const bool v6 = strchr(a->host, ':') != NULL;

	snprintf(out, TW_ADDRESS_TEXT, v6 ? "[%s]:%u" : "%s:%u", a->host[0] ? a->host : "*",
		 a->port);
}

/* What the host stands for, numbers without asking anybody; 0 or an EAI_ number. */
static int resolve(const struct tw_address *a, struct addrinfo **list)
{
	struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_protocol = IPPROTO_TCP,
		.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST,
	};
	const char *host = a->host[0] ? a->host : NULL;
	char port[8];
	int rc;

	snprintf(port, sizeof port, "%u", a->port);
	rc = getaddrinfo(host, port, &hints, list);
	if (rc != EAI_NONAME)
		return rc;
	hints.ai_flags = AI_NUMERICSERV;
	return getaddrinfo(host, port, &hints, list);
}

/* A machine without a name server says "try again" of every name it does not know, so both are
 * `status`: for a listener the user's mistake, for a dialler a thing that may pass. */
static enum tw_status unresolved(const struct tw_address *a, int rc, enum tw_status status,
				 struct tw_error *why)
{
	const struct tw_printable host = tw_show(a->host);

	if (rc == EAI_MEMORY)
		return tw_fail(why, TW_NO_MEMORY, "no memory to look up host \"%s\"", host.text);
	if (rc == EAI_SYSTEM)
		return tw_fail(why, TW_IO, "host \"%s\" cannot be looked up: %s", host.text,
			       strerror(errno));
	return tw_fail(why, status,
		       "host \"%s\" is not known here: %s; give a name that this machine can "
		       "look up, or the host's IP address",
		       host.text, gai_strerror(rc));
}

static bool v4_loopback(uint32_t big_endian)
{
	return ntohl(big_endian) >> 24 == 127;
}

static bool loopback(const struct sockaddr *sa)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)sa)->sin6_addr;
	uint32_t last;

	if (sa->sa_family == AF_INET)
		return v4_loopback(((const struct sockaddr_in *)sa)->sin_addr.s_addr);
	memcpy(&last, six->s6_addr + 12, sizeof last);
	return IN6_IS_ADDR_LOOPBACK(six) || (IN6_IS_ADDR_V4MAPPED(six) && v4_loopback(last));
}

enum tw_status tw_address_is_loopback(const struct tw_address *a, bool *out, struct tw_error *why)
{
	struct addrinfo *list;
	bool all = true;
	int rc;

	if (!a->host[0]) {
		*out = false;
		return TW_OK;
	}
	rc = resolve(a, &list);
	if (rc)
		return unresolved(a, rc, TW_BAD_INPUT, why);
	for (const struct addrinfo *i = list; i; i = i->ai_next)
		all = all && loopback(i->ai_addr);
	freeaddrinfo(list);
	*out = all;
	return TW_OK;
}

/* Host and port in numbers; an IPv4 address that came through an IPv6 socket is an IPv4 one. */
static bool numbers_of(const struct sockaddr_storage *sa, socklen_t bytes, struct tw_address *out)
{
	struct tw_address a = { .port = 0 };
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)sa;

	if (sa->ss_family == AF_INET) {
		const struct sockaddr_in *four = (const struct sockaddr_in *)sa;

		a.port = ntohs(four->sin_port);
		inet_ntop(AF_INET, &four->sin_addr, a.host, sizeof a.host);
	} else if (sa->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		a.port = ntohs(six->sin6_port);
		inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, a.host, sizeof a.host);
	} else if (sa->ss_family == AF_INET6) {
		a.port = ntohs(six->sin6_port);
		/* not inet_ntop: a link-local address is one only with its interface */
		if (getnameinfo((const struct sockaddr *)sa, bytes, a.host, sizeof a.host, NULL, 0,
				NI_NUMERICHOST))
			return false;
	} else {
		return false;
	}
	*out = a;
	return true;
}

void tw_address_unpace(int fd)
{
	/* where that is not allowed, it is slower */
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, UNPACED, sizeof UNPACED - 1);
}

/* A listener, or -1 with errno. */
static int listen_at(const struct sockaddr *sa, socklen_t bytes)
{
	const int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int on = 1, off = 0;
	int problem;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (sa->sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
	if (loopback(sa))
		tw_address_unpace(fd);
	if (bind(fd, sa, bytes) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	problem = errno;
	close(fd);
	errno = problem;
	return -1;
}

/* Both families on one socket; IPv4 alone where the machine has no IPv6. */
static int listen_any(uint16_t port)
{
	const struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
	const int fd = listen_at((const struct sockaddr *)&six, sizeof six);

	if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL && errno != EPERM))
		return fd;
	return listen_at((const struct sockaddr *)&four, sizeof four);
}

/* The first of a name's addresses that is ours and free. */
static int listen_first(const struct addrinfo *list)
{
	int fd = -1, first = 0;

	for (const struct addrinfo *i = list; i && fd < 0; i = i->ai_next) {
		fd = listen_at(i->ai_addr, i->ai_addrlen);
		if (fd < 0 && !first)
			first = errno;
	}
	if (fd < 0)
		errno = first;
	return fd;
}

static enum tw_status no_listener(const struct tw_address *a, int problem, struct tw_error *why)
{
	char text[TW_ADDRESS_TEXT];

	tw_address_text(a, text);
	switch (problem) {
	case EADDRINUSE:
		return tw_fail(why, TW_BAD_INPUT,
			       "cannot listen on %s: another process listens there; stop it, "
			       "or choose another port (port 0 takes a free one)",
			       text);
	case EADDRNOTAVAIL:
	case EAFNOSUPPORT:
		return tw_fail(why, TW_BAD_INPUT,
			       "cannot listen on %s: this machine does not have this address; "
			       "choose one that it has, or *:%u for all of them",
			       text, a->port);
	case EACCES:
		return tw_fail(why, TW_BAD_INPUT,
			       "cannot listen on %s: the system reserves this port; choose one "
			       "from 1024 to 65535",
			       text);
	default:
		return tw_fail(why, TW_IO, "cannot listen on %s: %s", text, strerror(problem));
	}
}

enum tw_status tw_address_listen(const struct tw_address *a, int *fd, struct tw_address *bound,
				 struct tw_error *why)
{
	struct sockaddr_storage sa;
	socklen_t bytes = sizeof sa;
	struct tw_address ours;
	int s, problem;

	if (a->host[0]) {
		struct addrinfo *list;
		const int rc = resolve(a, &list);

		if (rc)
			return unresolved(a, rc, TW_BAD_INPUT, why);
		s = listen_first(list);
		problem = errno;
		freeaddrinfo(list);
	} else {
		s = listen_any(a->port);
		problem = errno;
	}
	if (s < 0)
		return no_listener(a, problem, why);
	if (getsockname(s, (struct sockaddr *)&sa, &bytes) || !numbers_of(&sa, bytes, &ours)) {
		close(s);
		return tw_fail(why, TW_IO, "the system does not tell which port it assigned");
	}
	*bound = *a; /* the name the user chose is the one that others will be told */
	bound->port = ours.port;
	*fd = s;
	return TW_OK;
}

/* Two free ports of one machine may meet: a connection to a local port that nobody listens on can
 * get the same port for its own side and be connected to itself, and then it keeps the listener
 * from coming back. */
static bool own_echo(int fd, const struct sockaddr *to, socklen_t bytes)
{
	struct sockaddr_storage from;
	struct tw_address here, there;
	socklen_t room = sizeof from;
	struct sockaddr_storage target = { 0 };

	memcpy(&target, to, bytes);
	return getsockname(fd, (struct sockaddr *)&from, &room) == 0 &&
	       numbers_of(&from, room, &here) && numbers_of(&target, bytes, &there) &&
	       here.port == there.port && strcmp(here.host, there.host) == 0;
}

/* Begin to connect: the socket, or -1 with errno. */
static int dial_at(const struct sockaddr *sa, socklen_t bytes)
{
	const int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int problem = 0;

	if (fd < 0)
		return -1;
	tw_address_tune(fd);
	if (loopback(sa))
		tw_address_unpace(fd);
	if (connect(fd, sa, bytes) && errno != EINPROGRESS && errno != EINTR)
		problem = errno;
	else if (own_echo(fd, sa, bytes))
		problem = ECONNREFUSED;
	if (!problem)
		return fd;
	close(fd);
	errno = problem;
	return -1;
}

enum tw_status tw_address_dial(const struct tw_address *a, unsigned attempt, int *fd,
			       struct tw_error *why)
{
	struct addrinfo *list, *i;
	char text[TW_ADDRESS_TEXT];
	unsigned count = 0;
	int s, problem;
	const int rc = resolve(a, &list);

	if (rc)
		return unresolved(a, rc, TW_IO, why);
	for (i = list; i; i = i->ai_next)
		count++;
	i = list;
	for (unsigned skip = attempt % count; skip > 0; skip--)
		i = i->ai_next;
	s = dial_at(i->ai_addr, i->ai_addrlen);
	problem = errno;
	freeaddrinfo(list);
	tw_address_text(a, text);
	if (s < 0)
		return tw_fail(why, TW_IO, "cannot connect to %s: %s", text, strerror(problem));
	*fd = s;
	return TW_OK;
}

void tw_address_tune(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S },
		{ IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S },
		{ IPPROTO_TCP, TCP_KEEPCNT, KEEP_TRIES },
		{ IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS },
	};

	/* a socket pair refuses all of them, and needs none */
	for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			   sizeof options[i].value);
	if (tw_address_stays_here(fd))
		tw_address_unpace(fd);
}

void tw_address_widen_pair(int fd)
{
	const int bytes = PAIR_BUFFER;

	/* where that is not allowed, it is slower */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

bool tw_address_stays_here(int fd)
{
	struct sockaddr_storage own = { 0 }, peer = { 0 };
	socklen_t bytes = sizeof own, more = sizeof peer;

	if (getsockname(fd, (struct sockaddr *)&own, &bytes) ||
	    getpeername(fd, (struct sockaddr *)&peer, &more))
		return false;
	if (own.ss_family != AF_INET && own.ss_family != AF_INET6)
		return false;
	return loopback((const struct sockaddr *)&own) && loopback((const struct sockaddr *)&peer);
}

void tw_address_peer(int fd, char out[TW_ADDRESS_TEXT])
{
	struct sockaddr_storage sa = { 0 };
	socklen_t bytes = sizeof sa;
	struct tw_address a;

	if (getpeername(fd, (struct sockaddr *)&sa, &bytes) == 0 && numbers_of(&sa, bytes, &a))
		tw_address_text(&a, out);
	else
		snprintf(out, TW_ADDRESS_TEXT, sa.ss_family == AF_UNIX ? "local" : "unknown");
}

void tw_address_hostname(char *out, size_t room)
{
	char name[256] = "";

	if (gethostname(name, sizeof name - 1) || !name[0])
		snprintf(name, sizeof name, "localhost");
	tw_show_in(name, strlen(name), out, room);
}
