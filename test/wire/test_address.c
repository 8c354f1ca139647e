/* SPDX-License-Identifier: Apache-2.0 */
/* test_address.c - addresses as text, listeners and connections of both families on loopback. */
#include "base/printable.h"
#include "wire/address.h"
#include "kit/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static int files_before;

static int note_files(void **state)
{
	files_before = open_files();
	return 0;
}

static int same_files(void **state)
{
	return open_files() == files_before ? 0 : -1;
}

static struct tw_address address(const char *host, uint16_t port)
{
	struct tw_address a = { .port = port };

	snprintf(a.host, sizeof a.host, "%s", host);
	return a;
}

static void good_texts(void **state)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		const char *back;
	} rows[] = {
		{ "node7", "node7", 7433, "node7:7433" },
		{ "node7:1", "node7", 1, "node7:1" },
		{ "a-b_c.example.org:65535", "a-b_c.example.org", 65535,
		  "a-b_c.example.org:65535" },
		{ "example.org.:80", "example.org.", 80, "example.org.:80" },
		{ "3com.com", "3com.com", 7433, "3com.com:7433" },
		{ "10.0.0.2", "10.0.0.2", 7433, "10.0.0.2:7433" },
		{ "10.0.0.2:0", "10.0.0.2", 0, "10.0.0.2:0" },
		{ "127.0.0.1:00080", "127.0.0.1", 80, "127.0.0.1:80" },
		{ ":9000", "", 9000, "*:9000" },
		{ "*:9000", "", 9000, "*:9000" },
		{ "*", "", 7433, "*:7433" },
		{ "::1", "::1", 7433, "[::1]:7433" },
		{ "::", "::", 7433, "[::]:7433" },
		{ "2001:db8::1", "2001:db8::1", 7433, "[2001:db8::1]:7433" },
		{ "[2001:db8::1]", "2001:db8::1", 7433, "[2001:db8::1]:7433" },
		{ "[2001:db8::1]:443", "2001:db8::1", 443, "[2001:db8::1]:443" },
		{ "[fe80::1%eth0]:5", "fe80::1%eth0", 5, "[fe80::1%eth0]:5" },
		{ "::ffff:10.0.0.1", "::ffff:10.0.0.1", 7433, "[::ffff:10.0.0.1]:7433" },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct tw_error why = { 0 };
		struct tw_address a, again;
		char text[TW_ADDRESS_TEXT];

		assert_int_equal(tw_address_parse(rows[i].text, TW_PORT, &a, &why), TW_OK);
		assert_string_equal(why.text, "");
		assert_string_equal(a.host, rows[i].host);
		assert_int_equal(a.port, rows[i].port);
		tw_address_text(&a, text);
		assert_string_equal(text, rows[i].back);
		assert_int_equal(tw_address_parse(text, 1, &again, &why), TW_OK);
		assert_memory_equal(&a, &again, sizeof a);
	}
}

static void refuse(const char *text)
{
	const struct tw_address before = address("untouched", 3);
	struct tw_address a = before;
	struct tw_error why = { 0 };

	if (tw_address_parse(text, TW_PORT, &a, &why) != TW_BAD_INPUT)
		fail_msg("\"%s\" was read as host \"%s\" port %u", text, a.host, a.port);
	assert_int_equal(why.status, TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "accepted are HOST, HOST:PORT"));
	assert_memory_equal(&a, &before, sizeof a);
	assert_true(tw_is_printable(why.text));
}

static void bad_texts(void **state)
{
	static const char *const texts[] = {
		"",
		":",
		"host:",
		"host:x",
		"host:65536",
		"host:100000",
		"host:4294967376",
		"host:-1",
		"host:+1",
		"host: 1",
		"host:1 ",
		"host:0x10",
		"ho st",
		" host",
		"host\n",
		"h\x1b[31m",
		"h\xc3\xa9te",
		"-host",
		".host",
		"a..b",
		"host/8",
		"user@host",
		"7433",
		"1.2.3",
		"1.2.3.4.5",
		"256.0.0.1",
		"10.0.0.1.",
		"node.7",
		"[::1",
		"::1]",
		"[]",
		"[]:1",
		"[*]:1",
		"[10.0.0.1]:1",
		"[host]:1",
		"[::1]1",
		"[::1]:",
		"[::1]:x",
		"[::1]:70000",
		"[::1%]:1",
		"[::1%e/h]:1",
		"[::1%a-very-long-interface]:1",
		"1:2:3",
		":::1",
		"::g",
		"a:b:c",
		"10.0.0.1:1:2",
		"::1%",
		"http://host:1",
	};
	char much[600];

	for (size_t i = 0; i < COUNT(texts); i++)
		refuse(texts[i]);
	for (size_t n = 254; n < sizeof much; n += 23) {
		memset(much, 'a', n);
		for (size_t k = 50; k < n; k += 50)
			much[k] = '.';
		much[n] = 0;
		refuse(much);
	}
	memset(much, 'a', 64); /* a label too long */
	much[64] = 0;
	refuse(much);
}

static void longest_text_has_room(void **state)
{
	struct tw_address a = { .port = 65535 }, again;
	struct tw_error why = { 0 };
	char text[TW_ADDRESS_TEXT];

	memset(a.host, 'a', 253);
	for (size_t k = 50; k < 253; k += 50)
		a.host[k] = '.';
	tw_address_text(&a, text);
	assert_int_equal(strlen(text), 253 + strlen(":65535"));
	assert_int_equal(tw_address_parse(text, 1, &again, &why), TW_OK);
	assert_memory_equal(&a, &again, sizeof a);
}

/* Whatever the bytes, the parser ends, and what it takes reads back as itself. */
static void any_bytes(void **state)
{
	static const char letters[] = ":[]*%.-0159afg\x01\xff";
	uint32_t x = 1;
	unsigned taken = 0;

	for (int k = 0; k < 200000; k++) {
		char in[24], text[TW_ADDRESS_TEXT];
		struct tw_error why = { 0 };
		struct tw_address a, again;
		size_t n;

		x = x * 1664525u + 1013904223u;
		n = (x >> 16) % (sizeof in - 1);
		for (size_t i = 0; i < n; i++) {
			x = x * 1664525u + 1013904223u;
			in[i] = letters[(x >> 16) % (sizeof letters - 1)];
		}
		in[n] = 0;
		if (tw_address_parse(in, TW_PORT, &a, &why) != TW_OK)
			continue;
		taken++;
		tw_address_text(&a, text);
		assert_int_equal(tw_address_parse(text, 1, &again, &why), TW_OK);
		assert_memory_equal(&a, &again, sizeof a);
	}
	assert_true(taken > 1000);
}

static bool have_v6(void)
{
	const struct sockaddr_in6 one = { .sin6_family = AF_INET6,
					  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&one, sizeof one) == 0;

	if (fd >= 0)
		close(fd);
	return has;
}

static int listen_on(const char *host, uint16_t port, struct tw_address *bound)
{
	const struct tw_address a = address(host, port);
	struct tw_error why = { 0 };
	int fd = -1;

	if (tw_address_listen(&a, &fd, bound, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_string_equal(bound->host, host);
	assert_int_not_equal(bound->port, 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	return fd;
}

static int option_of(int fd, int level, int name)
{
	int value = -1;
	socklen_t bytes = sizeof value;

	assert_int_equal(getsockopt(fd, level, name, &value, &bytes), 0);
	return value;
}

static void check_tuned(int fd)
{
	assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option_of(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_in_range(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1, 15);
	assert_in_range(option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL), 1, 15);
	assert_in_range(option_of(fd, IPPROTO_TCP, TCP_KEEPCNT), 1, 6);
	assert_int_equal(option_of(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 30000);
}

/* SO_ERROR once the connection is decided. */
static int decided(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	assert_int_equal(poll(&p, 1, 10000), 1);
	return option_of(fd, SOL_SOCKET, SO_ERROR);
}

/* What would pace bytes that stay on this machine. */
static void check_pace(int fd, bool here)
{
	const int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char name[32] = "", usual[32] = "";
	socklen_t bytes = sizeof name, more = sizeof usual;

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes), 0);
	assert_int_equal(getsockopt(fresh, IPPROTO_TCP, TCP_CONGESTION, usual, &more), 0);
	assert_string_equal(name, here ? "reno" : usual);
	close(fresh);
}

static int take(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int fd;

	assert_int_equal(poll(&p, 1, 10000), 1);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	tw_address_tune(fd);
	check_tuned(fd);
	return fd;
}

/* Dial until one of the name's addresses answers. */
static int dial(const struct tw_address *a)
{
	for (unsigned attempt = 0; attempt < 4; attempt++) {
		struct tw_error why = { 0 };
		int fd = -1;

		if (tw_address_dial(a, attempt, &fd, &why) != TW_OK)
			continue;
		assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		if (decided(fd) == 0)
			return fd;
		close(fd);
	}
	fail_msg("nobody answers at %s:%u", a->host, a->port);
	return -1;
}

static void meet(const char *listens, const char *dials, const char *number)
{
	struct tw_address bound;
	const int listener = listen_on(listens, 0, &bound);
	const struct tw_address to = address(dials, bound.port);
	const int out = dial(&to), in = take(listener);
	char text[TW_ADDRESS_TEXT], peer[TW_ADDRESS_TEXT];
	struct tw_address theirs;

	check_tuned(out);
	assert_int_equal(write(out, "x", 1), 1);
	assert_int_equal(read(in, text, sizeof text), 1);

	/* each side sees the other by number, IPv4 as IPv4 even through an IPv6 listener */
	theirs = address(number, bound.port);
	tw_address_text(&theirs, text);
	tw_address_peer(out, peer);
	assert_string_equal(peer, text);
	tw_address_peer(in, peer);
	assert_int_equal(strncmp(peer, number[0] == ':' ? "[::1]:" : "127.0.0.1:", 6), 0);
	assert_true(tw_address_stays_here(in) && tw_address_stays_here(out));
	check_pace(in, true);
	check_pace(out, true);
	check_pace(listener, strcmp(listens, number) == 0);
	close(in);
	close(out);
	close(listener);
}

static void listener_and_dialler_meet(void **state)
{
	meet("127.0.0.1", "127.0.0.1", "127.0.0.1");
	meet("", "127.0.0.1", "127.0.0.1");
	meet("0.0.0.0", "127.0.0.1", "127.0.0.1");
	if (have_v6()) {
		meet("::1", "::1", "::1");
		meet("", "::1", "::1");
		meet("", "::ffff:127.0.0.1", "127.0.0.1");
		meet("::", "127.0.0.1", "127.0.0.1");
	}
}

/* Dialling "any" and a name reach a listener on this machine, whichever family it has. */
static void attempts_walk_the_addresses(void **state)
{
	static const char *const listens[] = { "127.0.0.1", "::1" };
	const size_t families = have_v6() ? 2 : 1;

	for (size_t f = 0; f < families; f++) {
		struct tw_address bound;
		const int listener = listen_on(listens[f], 0, &bound);
		const struct tw_address any = address("", bound.port);
		const int out = dial(&any), in = take(listener);
		char peer[TW_ADDRESS_TEXT];

		tw_address_peer(out, peer);
		assert_int_equal(strncmp(peer, f ? "[::1]:" : "127.0.0.1:", 6), 0);
		close(in);
		close(out);
		close(listener);
	}
}

static void a_name_is_listened_on_and_dialled(void **state)
{
	struct tw_address bound;
	const int listener = listen_on("localhost", 0, &bound);
	const int out = dial(&bound), in = take(listener);

	close(in);
	close(out);
	close(listener);
}

static void no_listener(const char *host, uint16_t port, const char *says)
{
	const struct tw_address a = address(host, port), before = address("untouched", 3);
	struct tw_address bound = before;
	struct tw_error why = { 0 };
	int fd = -7;

	assert_int_equal(tw_address_listen(&a, &fd, &bound, &why), TW_BAD_INPUT);
	assert_int_equal(fd, -7);
	assert_memory_equal(&bound, &before, sizeof before);
	if (!strstr(why.text, says) || !strstr(why.text, *host ? host : "*:"))
		fail_msg("\"%s\" does not say \"%s\"", why.text, says);
}

static void an_address_in_use_is_said(void **state)
{
	struct tw_address bound, four;
	const int all = listen_on("", 0, &bound), one = listen_on("127.0.0.1", 0, &four);

	no_listener("", bound.port, "another process listens there");
	no_listener("127.0.0.1", bound.port, "another process listens there");
	no_listener("127.0.0.1", four.port, "another process listens there");
	no_listener("", four.port, "another process listens there"); /* IPv4 must not be left out */
	close(all);
	close(one);
}

static void a_strange_address_is_said(void **state)
{
	no_listener("192.0.2.77", 0, "this machine does not have this address");
	no_listener("2001:db8::77", 0, "this machine does not have this address");
	no_listener("name.invalid", 0, "is not known here");
}

static void an_unknown_name_may_be_known_later(void **state)
{
	const struct tw_address a = address("name.invalid", 1);
	struct tw_error why = { 0 }, again = { 0 };
	bool loopback = true;
	int fd = -7;

	assert_int_equal(tw_address_dial(&a, 0, &fd, &why), TW_IO);
	assert_int_equal(fd, -7);
	assert_non_null(strstr(why.text, "host \"name.invalid\" is not known here"));
	assert_int_equal(tw_address_is_loopback(&a, &loopback, &again), TW_BAD_INPUT);
	assert_true(loopback);
	assert_non_null(strstr(again.text, "host \"name.invalid\" is not known here"));
}

static void nobody_there_is_a_refusal(void **state)
{
	struct tw_address bound;
	struct tw_error why = { 0 };
	int fd = listen_on("127.0.0.1", 0, &bound), error = -1;

	close(fd);
	if (tw_address_dial(&bound, 0, &fd, &why) == TW_OK) {
		error = decided(fd);
		close(fd);
		assert_int_equal(error, ECONNREFUSED);
	} else {
		assert_non_null(strstr(why.text, "cannot connect to 127.0.0.1:"));
	}
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in here = { 0 };
	socklen_t bytes = sizeof here;

	assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &bytes), 0);
	return ntohs(here.sin_port);
}

/* Somewhere in the walk through the free ports our side gets the port that it dials. */
static void a_dialler_never_meets_itself(void **state)
{
	struct tw_address bound, a;
	int fd, echoes = 0;

	fd = listen_on("127.0.0.1", 0, &bound);
	close(fd);
	/* the system gives even ports to those who connect */
	a = address("127.0.0.1", (uint16_t)(bound.port & ~1u));
	for (int k = 0; k < 40000; k++) {
		struct tw_error why = { 0 };

		if (tw_address_dial(&a, 0, &fd, &why) != TW_OK) {
			echoes++;
			assert_non_null(strstr(why.text, "Connection refused"));
			continue;
		}
		assert_int_not_equal(port_of(fd), a.port);
		close(fd);
	}
	print_message("%d of 40000 would have met themselves\n", echoes);
}

static void loopback_is_seen(void **state)
{
	static const struct {
		const char *host;
		bool loopback;
	} rows[] = {
		{ "127.0.0.1", true },
		{ "127.9.8.7", true },
		{ "::1", true },
		{ "::ffff:127.0.0.1", true },
		{ "localhost", true },
		{ "", false },
		{ "0.0.0.0", false },
		{ "::", false },
		{ "128.0.0.1", false },
		{ "10.0.0.1", false },
		{ "::ffff:10.0.0.1", false },
		{ "::2", false },
		{ "2001:db8::1", false },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct tw_address a = address(rows[i].host, 1);
		bool loopback = !rows[i].loopback;
		struct tw_error why = { 0 };

		assert_int_equal(tw_address_is_loopback(&a, &loopback, &why), TW_OK);
		assert_int_equal(loopback, rows[i].loopback);
	}
}

static void a_pair_is_local(void **state)
{
	char text[TW_ADDRESS_TEXT];
	int pair[2], idle;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	tw_address_tune(pair[0]);
	tw_address_peer(pair[0], text);
	assert_string_equal(text, "local");
	assert_false(tw_address_stays_here(pair[0])); /* no addresses tell */
	tw_address_widen_pair(pair[0]);
	close(pair[0]);
	close(pair[1]);

	idle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	tw_address_peer(idle, text);
	assert_string_equal(text, "unknown");
	assert_false(tw_address_stays_here(idle));
	close(idle);
}

static void this_machine_has_a_name(void **state)
{
	char name[256] = "", system_name[256] = "", small[3] = { 'x', 'x', 'x' };

	assert_int_equal(gethostname(system_name, sizeof system_name - 1), 0);
	tw_address_hostname(name, sizeof name);
	assert_true(name[0]);
	if (system_name[0])
		assert_string_equal(name, system_name);
	tw_address_hostname(small, sizeof small);
	assert_int_equal(strncmp(small, name, 2), 0);
	assert_int_equal(small[2], 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, note_files, same_files)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(good_texts),
		CASE(bad_texts),
		CASE(longest_text_has_room),
		CASE(any_bytes),
		CASE(listener_and_dialler_meet),
		CASE(attempts_walk_the_addresses),
		CASE(a_name_is_listened_on_and_dialled),
		CASE(an_address_in_use_is_said),
		CASE(a_strange_address_is_said),
		CASE(an_unknown_name_may_be_known_later),
		CASE(nobody_there_is_a_refusal),
		CASE(a_dialler_never_meets_itself),
		CASE(loopback_is_seen),
		CASE(a_pair_is_local),
		CASE(this_machine_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
