/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - TLS 1.3 for the cluster: contexts, and who is let in. */
#include "wire/tls.h"

#include "base/machine/regular_file.h"
#include "wire/address.h"
#include "wire/tls_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define IDENTITY "thalweg" /* one key per cluster: it needs no name of its own */
#define AHEAD    (64u << 10)
#define KEY_MOST (64u << 10) /* bytes of a private key's file */

/* --- the socket --- */

/* OpenSSL's own BIO of a socket writes without MSG_NOSIGNAL: a peer that leaves would end us.  A
 * record is smaller than a segment may be, so the system waits for those that follow at once. */
static int socket_write(BIO *bio, const char *from, int n)
{
	struct tw_tls_socket *s = BIO_get_data(bio);
	const int flags = MSG_NOSIGNAL | (s->more ? MSG_MORE : 0);
	ssize_t put;

	BIO_clear_retry_flags(bio);
	do
		put = send(s->fd, from, (size_t)n, flags);
	while (put < 0 && errno == EINTR);
	if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_write(bio);
	else if (put < 0)
		s->error = errno;
	return (int)put;
}

static int socket_read(BIO *bio, char *to, int room)
{
	struct tw_tls_socket *s = BIO_get_data(bio);
	ssize_t got;

	BIO_clear_retry_flags(bio);
	do
		got = recv(s->fd, to, (size_t)room, 0);
	while (got < 0 && errno == EINTR);
	if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		BIO_set_retry_read(bio);
	else if (got < 0)
		s->error = errno;
	s->eof = got == 0;
	return (int)got;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
	const struct tw_tls_socket *s = BIO_get_data(bio);

	if (command == BIO_CTRL_EOF)
		return s->eof;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *socket_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "thalweg socket");

	if (m) {
		BIO_meth_set_write(m, socket_write);
		BIO_meth_set_read(m, socket_read);
		BIO_meth_set_ctrl(m, socket_control);
	}
	return m;
}

/* --- a key --- */

#define SESSION_SECONDS (50L * 365 * 86400)

/* Each handshake gets a session of its own: OpenSSL writes into it.  A key does not expire, so
 * neither does the session, even if the clock is set between two looks at it. */
static SSL_SESSION *session_of_key(SSL *ssl, const uint8_t key[TW_KEY_BYTES])
{
	static const unsigned char aes_128_gcm_sha256[] = { 0x13, 0x01 };
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher && SSL_SESSION_set1_master_key(session, key, TW_KEY_BYTES) &&
	    SSL_SESSION_set_cipher(session, cipher) &&
	    SSL_SESSION_set_timeout(session, SESSION_SECONDS) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static const struct tw_tls *tls_of(SSL *ssl)
{
	return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

static int find_session(SSL *ssl, const unsigned char *identity, size_t n, SSL_SESSION **session)
{
	*session = NULL;
	if (n != strlen(IDENTITY) || memcmp(identity, IDENTITY, n) != 0)
		return 1; /* goes on without a key, and fails: there is no certificate */
	*session = session_of_key(ssl, tls_of(ssl)->key);
	return *session != NULL;
}

static int use_session(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *n,
		       SSL_SESSION **session)
{
	*session = NULL;
	*identity = (const unsigned char *)IDENTITY;
	*n = strlen(IDENTITY);
	if (md && !EVP_MD_is_a(md, "SHA256"))
		return 1; /* the server wants a hash that our key is not for */
	*session = session_of_key(ssl, tls_of(ssl)->key);
	return *session != NULL;
}

static void take_key(struct tw_tls *tls, const uint8_t *key)
{
	memcpy(tls->key, key, TW_KEY_BYTES);
	tls->keyed = true;
	SSL_CTX_set_psk_find_session_callback(tls->context, find_session);
	SSL_CTX_set_psk_use_session_callback(tls->context, use_session);
}

/* --- certificates --- */

/* The first reason that OpenSSL gives for a failure, as text of static storage. */
static const char *reason(void)
{
	const unsigned long e = ERR_peek_error();
	const char *text = e ? ERR_reason_error_string(e) : NULL;

	if (e && ERR_SYSTEM_ERROR(e))
		text = strerror(ERR_GET_REASON(e));
	return text ? text : "unknown reason";
}

static int no_password(char *to, int room, int writing, void *arg)
{
	return -1; /* instead of asking on the terminal */
}

static enum tw_status take_certificate(struct tw_tls *tls, const char *path, struct tw_error *why)
{
	const X509 *own;

	if (tw_regular_check(AT_FDCWD, path, false))
		return tw_fail(why, TW_BAD_INPUT, "%s: cannot use this as our certificate: %s",
			       path, tw_cause(errno));
	if (SSL_CTX_use_certificate_chain_file(tls->context, path) != 1)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: cannot use this as our certificate: %s; a PEM file with "
			       "the certificate first is accepted",
			       path, reason());
	own = SSL_CTX_get0_certificate(tls->context);
	if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0)
		return tw_fail(why, TW_BAD_INPUT, "%s: our certificate has expired", path);
	return TW_OK;
}

static enum tw_status take_private_key(struct tw_tls *tls, const char *path,
				       const char *certificate, struct tw_error *why)
{
	EVP_PKEY *key = NULL;
	enum tw_status status;
	BIO *file;
	int fd;

	status = tw_key_open(path, "the private key", KEY_MOST, &fd, why);
	if (status != TW_OK)
		return status;
	file = BIO_new_fd(fd, BIO_CLOSE);
	if (file)
		key = PEM_read_bio_PrivateKey(file, NULL, no_password, NULL);
	else
		close(fd);
	if (!key)
		status = tw_fail(why, TW_BAD_INPUT,
				 "%s: cannot use this as our private key: %s; a PEM file "
				 "without a password is accepted",
				 path, reason());
	else if (SSL_CTX_use_PrivateKey(tls->context, key) != 1)
		status = tw_fail(why, TW_BAD_INPUT,
				 "%s: this private key does not belong to the certificate %s", path,
				 certificate);
	EVP_PKEY_free(key);
	BIO_free(file);
	return status;
}

static enum tw_status take_authority(struct tw_tls *tls, const char *path, struct tw_error *why)
{
	snprintf(tls->authority, sizeof tls->authority, "%s", path);
	if (tw_regular_check(AT_FDCWD, path, false))
		return tw_fail(why, TW_BAD_INPUT, "%s: cannot use this as the authority: %s", path,
			       tw_cause(errno));
	if (SSL_CTX_load_verify_file(tls->context, path) == 1)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: cannot use this as the authority: %s; a PEM file with its "
		       "certificate is accepted",
		       path, reason());
}

static enum tw_status take_certificates(struct tw_tls *tls, const struct tw_tls_options *o,
					struct tw_error *why)
{
	enum tw_status status;

	if (!o->certificate || !o->private_key || !o->authority)
		return tw_fail(why, TW_BAD_INPUT,
			       "TLS needs the cluster's key, or a certificate, its private key and "
			       "the authority that signs the others'; %s is missing",
			       !o->certificate   ? "the certificate"
			       : !o->private_key ? "the private key"
						 : "the authority");
	status = take_certificate(tls, o->certificate, why);
	if (status == TW_OK)
		status = take_private_key(tls, o->private_key, o->certificate, why);
	if (status == TW_OK)
		status = take_authority(tls, o->authority, why);
	return status;
}

/* --- contexts --- */

static bool settle(SSL_CTX *c)
{
	SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
	SSL_CTX_clear_options(c, SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX);
	SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
				    SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(c, 1);
	SSL_CTX_set_default_read_buffer_len(c, AHEAD);
	/* 3.0's own order of suites passes over a key for SHA-256, and its large groups are work
	 * that anyone who connects could have us do. */
	return SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) == 1 &&
	       SSL_CTX_set_max_proto_version(c, TLS1_3_VERSION) == 1 &&
	       SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") == 1 &&
	       SSL_CTX_set1_groups_list(c, "X25519:P-256") == 1 &&
	       SSL_CTX_set_num_tickets(c, 0) == 1 && SSL_CTX_set_max_early_data(c, 0) == 1;
}

static enum tw_status fill(struct tw_tls *tls, const struct tw_tls_options *o, struct tw_error *why)
{
	if (o->key && (o->certificate || o->private_key || o->authority))
		return tw_fail(why, TW_BAD_INPUT,
			       "TLS takes the cluster's key or certificates, not both");
	tls->context = SSL_CTX_new(TLS_method());
	tls->method = socket_method();
	if (!tls->context || !tls->method || !settle(tls->context))
		return tw_fail(why, TW_NO_MEMORY, "no memory for TLS");
	SSL_CTX_set_app_data(tls->context, tls);
	if (!o->key)
		return take_certificates(tls, o, why);
	take_key(tls, o->key);
	return TW_OK;
}

enum tw_status tw_tls_new(struct tw_heap *heap, const struct tw_tls_options *o, struct tw_tls **out,
			  struct tw_error *why)
{
	struct tw_tls *tls = tw_heap_zeros(heap, sizeof *tls);
	enum tw_status status;

	if (!tls)
		return tw_fail(why, TW_NO_MEMORY, "no memory for TLS");
	tls->heap = heap;
	tls->records = TW_TLS_RECORDS;
	ERR_clear_error();
	status = fill(tls, o, why);
	ERR_clear_error();
	if (status == TW_OK)
		*out = tls;
	else
		tw_tls_free(tls);
	return status;
}

void tw_tls_free(struct tw_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	BIO_meth_free(tls->method);
	OPENSSL_cleanse(tls->key, sizeof tls->key);
	tls->heap->put(tls->heap, tls);
}

/* --- connections --- */

bool tw_tls_expect(const struct tw_tls *tls, SSL *ssl, const char *peer)
{
	X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
	struct tw_address a;

	if (tls->keyed)
		return true;
	if (tw_address_parse(peer, TW_PORT, &a, NULL) != TW_OK || !*a.host)
		return false;
	X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return X509_VERIFY_PARAM_set1_ip_asc(p, a.host) == 1 ||
	       X509_VERIFY_PARAM_set1_host(p, a.host, 0) == 1;
}

SSL *tw_tls_connection(struct tw_tls *tls, struct tw_tls_socket *socket, bool dials)
{
	SSL *ssl = SSL_new(tls->context);
	BIO *bio = ssl ? BIO_new(tls->method) : NULL;

	if (!bio) {
		ERR_clear_error();
		SSL_free(ssl);
		return NULL;
	}
	BIO_set_data(bio, socket);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	if (dials)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	/* With a key a dialler takes no certificate: it trusts no authority then. */
	if (dials || !tls->keyed)
		SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return ssl;
}

bool tw_tls_proved(const struct tw_tls *tls, const SSL *ssl)
{
	if (SSL_version(ssl) != TLS1_3_VERSION)
		return false;
	if (tls->keyed)
		return SSL_session_reused(ssl) == 1;
	return SSL_get0_peer_certificate(ssl) && SSL_get_verify_result(ssl) == X509_V_OK;
}
