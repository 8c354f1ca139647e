/* SPDX-License-Identifier: Apache-2.0 */
/* tls_why.c - one sentence for each way in which a TLS connection fails. */
#include "wire/tls_inner.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

/* The first thing that TLS itself refused, else the first thing of all; 0 for nothing. */
static unsigned long first_cause(void)
{
	unsigned long first = 0, e;

	while ((e = ERR_get_error()))
		if (!first || (ERR_GET_LIB(first) != ERR_LIB_SSL && ERR_GET_LIB(e) == ERR_LIB_SSL))
			first = e;
	return first;
}

/* What the first bytes of something else than TLS look like to OpenSSL. */
static bool not_tls(int reason)
{
	static const int reasons[] = {
		SSL_R_WRONG_VERSION_NUMBER,      SSL_R_HTTP_REQUEST,
		SSL_R_HTTPS_PROXY_REQUEST,       SSL_R_PACKET_LENGTH_TOO_LONG,
		SSL_R_ENCRYPTED_LENGTH_TOO_LONG, SSL_R_DATA_LENGTH_TOO_LONG,
		SSL_R_BAD_RECORD_TYPE,           SSL_R_RECORD_LENGTH_MISMATCH,
		SSL_R_LENGTH_TOO_SHORT,          SSL_R_UNKNOWN_PROTOCOL,
		SSL_R_UNEXPECTED_MESSAGE,
	};

	for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
		if (reason == reasons[i])
			return true;
	return false;
}

static bool old_tls(int reason)
{
	return reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_VERSION_TOO_LOW ||
	       reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION;
}

/* Reasons from here on are what the other side says of us. */
static bool alert(int reason)
{
	return reason >= SSL_AD_REASON_OFFSET;
}

static bool another_key(int reason)
{
	return alert(reason) || reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
	       reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM ||
	       reason == SSL_R_NO_SHARED_CIPHER || reason == SSL_R_MISSING_SIGALGS_EXTENSION ||
	       reason == SSL_R_CERTIFICATE_VERIFY_FAILED ||
	       reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC;
}

static void distrust(const struct tw_tls *tls, const SSL *ssl, char *why, size_t room)
{
	const long result = SSL_get_verify_result(ssl);

	switch (result) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		snprintf(why, room, "its certificate is for another name than the one dialled");
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		snprintf(why, room,
			 "its certificate, or that of an authority that signed it, has expired");
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		snprintf(why, room,
			 "its certificate is not valid yet; do the clocks of both machines agree?");
		break;
	default:
		snprintf(why, room, "its certificate is not trusted: %s (authority %s)",
			 X509_verify_cert_error_string(result), tls->authority);
	}
}

static void refused(const struct tw_tls *tls, const SSL *ssl, unsigned long cause, char *why,
		    size_t room)
{
	const int reason = ERR_GET_REASON(cause);
	const char *text = ERR_reason_error_string(cause);

	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		distrust(tls, ssl, why, room);
	else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
		snprintf(why, room, "it shows no certificate");
	else if (!tls->keyed && reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
		snprintf(why, room, "it does not accept certificates; does it use a key instead?");
	else if (!tls->keyed && alert(reason))
		snprintf(why, room, "it does not accept our certificate: %s",
			 text ? text : "unknown reason");
	else
		snprintf(why, room, "it broke the TLS connection: %s",
			 text ? text : "unknown reason");
}

static void left(const struct tw_tls_socket *s, char *why, size_t room)
{
	if (s->error)
		snprintf(why, room, "the connection broke%s: %s",
			 s->shaken ? "" : " during the TLS handshake", strerror(s->error));
	else if (s->shaken)
		snprintf(why, room, "it went away without closing the connection");
	else
		snprintf(why, room,
			 "it closed the connection during the TLS handshake; does it use TLS, with "
			 "the same key or authority?");
}

void tw_tls_why(const struct tw_tls *tls, const SSL *ssl, const struct tw_tls_socket *socket,
		char *why, size_t room)
{
	const unsigned long cause = first_cause();
	const int reason = ERR_GET_REASON(cause);
	const bool shaken = socket->shaken;

	if (!cause || ERR_GET_LIB(cause) != ERR_LIB_SSL ||
	    reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		left(socket, why, room);
	else if (!shaken && not_tls(reason))
		snprintf(why, room, "it does not speak TLS");
	else if (!shaken && old_tls(reason))
		snprintf(why, room, "it does not speak TLS 1.3");
	else if (!shaken && tls->keyed && another_key(reason))
		snprintf(why, room, "it has another key, or none");
	else
		refused(tls, ssl, cause, why, room);
}
