/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls.c - who is let in with a key or a certificate, who is not, and what is said to both. */
#include "base/refusing.h"
#include "kit/authority.h"
#include "wire/pairs.h"
#include "wire/tls_inner.h"
#include "kit/has.h"
#include "kit/scratch.h"

#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define DAY 86400

static const uint8_t one_key[TW_KEY_BYTES] = { 1 }, other_key[TW_KEY_BYTES] = { 2 };
static const struct tw_tls_options keyed = { .key = one_key };
static struct authority ours, theirs;

static int setup(void **state)
{
	if (scratch_make(state))
		return -1;
	authority_make(&ours, "our authority");
	authority_make(&theirs, "their authority");
	return 0;
}

static int teardown(void **state)
{
	authority_release(&ours);
	authority_release(&theirs);
	return scratch_remove(state);
}

static struct tw_tls *tls_of(const struct tw_tls_options *o)
{
	struct tw_error why = { .status = TW_OK };
	struct tw_tls *tls = NULL;

	if (tw_tls_new(&tw_heap_system, o, &tls, &why) != TW_OK)
		fail_msg("%s", why.text);
	return tls;
}

/* Shake hands, and for certificates hear the server's verdict; check what both sides say, where
 * NULL means that all is well. */
static void meet(const struct tw_tls_options *dialler, const struct tw_tls_options *server,
		 const char *name, const char *dialler_says, const char *server_says)
{
	struct tw_tls *tls[2] = { tls_of(dialler), tls_of(server) };
	const char *says[2] = { dialler_says, server_says };
	enum tw_flow flow[2];
	struct pair p;
	size_t n;
	int fd[2];

	pair_sockets(true, fd);
	p.side[0] = tw_stream_tls(&tw_heap_system, fd[0], tls[0], true, name);
	p.side[1] = tw_stream_tls(&tw_heap_system, fd[1], tls[1], false, "10.0.0.9:999");
	pair_shake(&p, flow);
	if (flow[0] == TW_FLOW_OK && flow[1] == TW_FLOW_BROKEN)
		flow[0] = pair_hear(p.side[0], &n);
	for (int k = 0; k < 2; k++) {
		if (says[k])
			has(tw_stream_why(p.side[k]), says[k]);
		assert_int_equal(flow[k], says[k] ? TW_FLOW_BROKEN : TW_FLOW_OK);
		assert_int_equal(tw_stream_shake(p.side[k]), flow[k]);
	}
	if (!dialler_says && !server_says)
		pair_exchange(&p, 100000, 1);
	pair_close(&p);
	tw_tls_free(tls[0]);
	tw_tls_free(tls[1]);
}

/* --- keys --- */

static void the_same_key_is_let_in(void **state)
{
	meet(&keyed, &keyed, "master:7433", NULL, NULL);
}

static void another_key_is_refused(void **state)
{
	const struct tw_tls_options other = { .key = other_key };

	meet(&other, &keyed, "master:7433", "it has another key, or none",
	     "it has another key, or none");
}

/* Somebody's TLS client or server beside one stream of ours with a key. */
static void meet_stranger(SSL_CTX *c, bool we_dial, const char *we_say)
{
	struct tw_tls *tls = tls_of(&keyed);
	SSL *ssl = SSL_new(c);
	enum tw_flow flow = TW_FLOW_WAIT;
	struct tw_stream *s;
	int fd[2];

	pair_sockets(true, fd);
	s = tw_stream_tls(&tw_heap_system, fd[0], tls, we_dial, "stranger:1");
	assert_int_equal(tw_stream_shake(s), TW_FLOW_WAIT); /* makes that socket non-blocking */
	SSL_set_fd(ssl, fd[1]);
	if (we_dial)
		SSL_set_accept_state(ssl);
	else
		SSL_set_connect_state(ssl);
	for (int i = 0; i < 1000 && flow == TW_FLOW_WAIT; i++) {
		const struct timeval soon = { .tv_usec = 1000 };

		setsockopt(fd[1], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
		SSL_do_handshake(ssl);
		flow = tw_stream_shake(s);
	}
	assert_int_equal(flow, TW_FLOW_BROKEN);
	assert_false(SSL_is_init_finished(ssl) && !we_dial);
	has(tw_stream_why(s), we_say);
	tw_stream_close(s);
	SSL_free(ssl);
	close(fd[1]);
	tw_tls_free(tls);
}

static void strangers_are_refused(void **state)
{
	SSL_CTX *c = SSL_CTX_new(TLS_method());
	struct papers papers;

	authority_write(&ours, &ours, scratch(), "stranger", "DNS:stranger", -DAY, DAY, &papers);
	meet_stranger(c, false, "it has another key, or none");
	assert_int_equal(SSL_CTX_use_certificate_file(c, papers.certificate, SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(c, papers.private_key, SSL_FILETYPE_PEM), 1);
	meet_stranger(c, false, "it has another key, or none");
	meet_stranger(c, true, "it has another key, or none");
	SSL_CTX_set_max_proto_version(c, TLS1_2_VERSION);
	meet_stranger(c, false, "it does not speak TLS 1.3");
	meet_stranger(c, true, "it does not speak TLS 1.3");
	SSL_CTX_free(c);
}

static void what_is_no_tls_is_said_so(void **state)
{
	static const char *const first[] = { "GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n",
					     "TWG1 some frame in the clear, long enough" };
	struct tw_tls *tls = tls_of(&keyed);

	for (size_t i = 0; i < 6; i++) {
		const char *text = first[i % 3];
		struct tw_stream *s;
		size_t n;
		int fd[2];

		pair_sockets(true, fd);
		s = tw_stream_tls(&tw_heap_system, fd[0], tls, i < 3, "plain:1");
		assert_true(send(fd[1], text, strlen(text), 0) > 0);
		assert_int_equal(pair_hear(s, &n), TW_FLOW_WAIT); /* not before the handshake */
		assert_int_equal(tw_stream_shake(s), TW_FLOW_BROKEN);
		assert_string_equal(tw_stream_why(s), "it does not speak TLS");
		assert_int_equal(pair_hear(s, &n), TW_FLOW_BROKEN);
		tw_stream_close(s);
		close(fd[1]);
	}
	tw_tls_free(tls);
}

static void who_closes_during_the_handshake_is_named(void **state)
{
	struct tw_tls *tls = tls_of(&keyed);
	struct tw_stream *s;
	int fd[2];

	pair_sockets(true, fd);
	s = tw_stream_tls(&tw_heap_system, fd[0], tls, true, "plain:1");
	assert_int_equal(tw_stream_shake(s), TW_FLOW_WAIT);
	shutdown(fd[1], SHUT_WR);
	usleep(1000);
	assert_int_equal(tw_stream_shake(s), TW_FLOW_BROKEN);
	has(tw_stream_why(s), "it closed the connection during the TLS handshake");
	tw_stream_close(s);
	close(fd[1]);
	tw_tls_free(tls);
}

/* Version, suite and way of agreeing are what tls.h says, for both ways of proof. */
static void look_at(const struct tw_tls_options *o, bool reused)
{
	struct tw_tls *tls = tls_of(o);
	struct tw_tls_socket socket[2] = { 0 };
	SSL *ssl[2];
	int fd[2], done[2] = { 0, 0 };

	pair_sockets(true, fd);
	for (int k = 0; k < 2; k++) {
		const struct timeval soon = { .tv_usec = 1000 };

		socket[k].fd = fd[k];
		setsockopt(fd[k], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
		ssl[k] = tw_tls_connection(tls, &socket[k], k == 0);
		assert_true(k || tw_tls_expect(tls, ssl[k], "127.0.0.1:7433"));
	}
	for (int i = 0; i < 1000 && !(done[0] && done[1]); i++)
		for (int k = 0; k < 2; k++)
			done[k] = SSL_do_handshake(ssl[k]) == 1;
	for (int k = 0; k < 2; k++) {
		assert_true(done[k] && tw_tls_proved(tls, ssl[k]));
		assert_string_equal(SSL_get_version(ssl[k]), "TLSv1.3");
		assert_string_equal(SSL_get_cipher_name(ssl[k]), "TLS_AES_128_GCM_SHA256");
		assert_int_equal(SSL_session_reused(ssl[k]), reused);
		assert_int_equal(SSL_get_negotiated_group(ssl[k]), NID_X25519); /* psk_dhe_ke */
		assert_int_equal(SSL_get_early_data_status(ssl[k]), SSL_EARLY_DATA_NOT_SENT);
		assert_false(SSL_SESSION_has_ticket(SSL_get_session(ssl[k])));
		SSL_free(ssl[k]);
		close(fd[k]);
	}
	tw_tls_free(tls);
}

static void what_is_negotiated(void **state)
{
	struct papers papers;
	struct tw_tls_options o;

	authority_write(&ours, &ours, scratch(), "look", "IP:127.0.0.1", -DAY, DAY, &papers);
	o = papers_options(&papers);
	look_at(&keyed, true);
	look_at(&o, false);
}

/* --- certificates --- */

static struct tw_tls_options paper(struct papers *p, const struct authority *signer,
				   const struct authority *trusted, const char *name,
				   const char *names, long from, long to)
{
	authority_write(signer, trusted, scratch(), name, names, from, to, p);
	return papers_options(p);
}

static void certificates_of_both_sides_are_checked(void **state)
{
	struct papers p[7];
	const struct tw_tls_options
		worker = paper(&p[0], &ours, &ours, "worker", "DNS:worker", -DAY, DAY),
		master = paper(&p[1], &ours, &ours, "master",
			       "DNS:master.example,IP:127.0.0.1,IP:::1", -DAY, DAY),
		alien = paper(&p[2], &theirs, &ours, "alien", "DNS:master.example", -DAY, DAY),
		naive = paper(&p[3], &ours, &theirs, "naive", "DNS:worker", -DAY, DAY),
		early = paper(&p[4], &ours, &ours, "early", "DNS:master.example", DAY, 2 * DAY);

	meet(&worker, &master, "master.example:7433", NULL, NULL);
	meet(&worker, &master, "127.0.0.1:7433", NULL, NULL);
	meet(&worker, &master, "[::1]:7433", NULL, NULL);
	meet(&worker, &master, "127.0.0.2:7433", "its certificate is for another name",
	     "does not accept our cert");
	meet(&worker, &master, "example:7433", "is for another name than the one dialled",
	     "it does not accept our certificate");
	meet(&worker, &alien, "master.example:7433", "is not trusted", "does not accept our cert");
	meet(&naive, &master, "master.example:7433", "is not trusted", "unknown ca");
	meet(&alien, &master, "master.example:7433", "it does not accept our certificate",
	     "its certificate is not trusted");
	meet(&worker, &early, "master.example:7433", "not valid yet", "does not accept our cert");
}

static void keys_and_certificates_do_not_mix(void **state)
{
	struct papers p;
	const struct tw_tls_options member =
		paper(&p, &ours, &ours, "member", "DNS:master", -DAY, DAY);

	meet(&keyed, &member, "master:7433", "it has another key, or none",
	     "it does not accept our certificate");
	meet(&member, &keyed, "master:7433", "does it use a key instead?",
	     "it has another key, or none");
}

static void a_client_without_certificate_is_refused(void **state)
{
	struct papers p;
	const struct tw_tls_options o = paper(&p, &ours, &ours, "alone", "DNS:alone", -DAY, DAY);
	struct tw_tls *tls[2] = { tls_of(&o), tls_of(&o) };
	enum tw_flow flow[2];
	struct pair pair;
	size_t n;
	int fd[2];

	SSL_CTX_free(tls[0]->context); /* one that trusts the authority and shows nothing */
	tls[0]->context = SSL_CTX_new(TLS_method());
	assert_int_equal(SSL_CTX_load_verify_file(tls[0]->context, p.authority), 1);
	pair_sockets(true, fd);
	for (int k = 0; k < 2; k++)
		pair.side[k] = tw_stream_tls(&tw_heap_system, fd[k], tls[k], k == 0, "alone:1");
	pair_shake(&pair, flow);
	assert_int_equal(flow[0], TW_FLOW_OK); /* it learns of it later */
	assert_int_equal(flow[1], TW_FLOW_BROKEN);
	assert_string_equal(tw_stream_why(pair.side[1]), "it shows no certificate");
	assert_int_equal(pair_hear(pair.side[0], &n), TW_FLOW_BROKEN);
	has(tw_stream_why(pair.side[0]), "it does not accept our certificate");
	pair_close(&pair);
	tw_tls_free(tls[0]);
	tw_tls_free(tls[1]);
}

/* --- files --- */

static void refuse(const struct tw_tls_options *o, const char *part)
{
	struct tw_error why = { .status = TW_OK };
	struct tw_tls *tls = NULL;

	assert_int_equal(tw_tls_new(&tw_heap_system, o, &tls, &why), TW_BAD_INPUT);
	assert_null(tls);
	has(why.text, part);
}

static void bad_files_are_refused(void **state)
{
	struct papers p, q;
	const struct tw_tls_options good = paper(&p, &ours, &ours, "good", "DNS:a", -DAY, DAY),
				    old = paper(&q, &ours, &ours, "old", "DNS:a", -DAY, -60);
	struct tw_tls_options o = good;

	refuse(&old, "old.crt: our certificate has expired");
	o.private_key = q.private_key;
	refuse(&o, "old.key: this private key does not belong to the certificate");
	o.private_key = p.certificate;
	assert_int_equal(chmod(p.certificate, 0600), 0);
	refuse(&o, "good.crt: cannot use this as our private key");
	assert_int_equal(chmod(p.private_key, 0640), 0);
	refuse(&good, "chmod 600 ");
	assert_int_equal(chmod(p.private_key, 0600), 0);
	o = good;
	o.authority = p.private_key;
	refuse(&o, "good.key: cannot use this as the authority");
	o.authority = "/nowhere/ca";
	refuse(&o, "No such file");
	o.authority = NULL;
	refuse(&o, "the authority is missing");
	o = good;
	o.certificate = "/nowhere/crt";
	refuse(&o, "/nowhere/crt: cannot use this as our certificate: No such file");
	o = good;
	o.key = one_key;
	refuse(&o, "not both");
	tw_tls_free(tls_of(&good));
}

static void memory_is_refused(void **state)
{
	struct refusing r = REFUSING(1);
	struct tw_error why = { .status = TW_OK };
	struct tw_tls *tls = NULL;

	assert_int_equal(tw_tls_new(&r.heap, &keyed, &tls, &why), TW_NO_MEMORY);
	assert_null(tls);
	assert_int_equal(r.live, 0);
	tw_tls_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_key_is_let_in),
		cmocka_unit_test(another_key_is_refused),
		cmocka_unit_test(strangers_are_refused),
		cmocka_unit_test(what_is_no_tls_is_said_so),
		cmocka_unit_test(who_closes_during_the_handshake_is_named),
		cmocka_unit_test(what_is_negotiated),
		cmocka_unit_test(certificates_of_both_sides_are_checked),
		cmocka_unit_test(keys_and_certificates_do_not_mix),
		cmocka_unit_test(a_client_without_certificate_is_refused),
		cmocka_unit_test(bad_files_are_refused),
		cmocka_unit_test(memory_is_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
