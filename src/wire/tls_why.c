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

static void distrust(const struct tw_tls *tls, const SSL *ssl, const char *peer, char *why,
		     size_t room)
{
	const long result = SSL_get_verify_result(ssl);

	switch (result) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		snprintf(why, room,
			 "the certificate of %s is for another name than the one dialled", peer);
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		snprintf(why, room,
			 "the certificate of %s, or of an authority that signed it, "
			 "has expired",
			 peer);
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		snprintf(why, room,
			 "the certificate of %s is not valid yet; do the clocks of both machines "
			 "agree?",
			 peer);
		break;
	default:
		snprintf(why, room, "the certificate of %s is not trusted: %s (authority %s)", peer,
			 X509_verify_cert_error_string(result), tls->authority);
	}
}

static void refused(const struct tw_tls *tls, const SSL *ssl, unsigned long cause, const char *peer,
		    char *why, size_t room)
{
	const int reason = ERR_GET_REASON(cause);
	const char *text = ERR_reason_error_string(cause);

	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		distrust(tls, ssl, peer, why, room);
	else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
		snprintf(why, room, "%s shows no certificate", peer);
	else if (!tls->keyed && reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
		snprintf(why, room, "%s does not accept certificates; does it use a key instead?",
			 peer);
	else if (!tls->keyed && alert(reason))
		snprintf(why, room, "%s does not accept our certificate: %s", peer,
			 text ? text : "unknown reason");
	else
		snprintf(why, room, "%s broke the TLS connection: %s", peer,
			 text ? text : "unknown reason");
}

static void left(const struct tw_tls_socket *s, const char *peer, char *why, size_t room)
{
	if (s->error)
		snprintf(why, room, "the connection to %s broke%s: %s", peer,
			 s->shaken ? "" : " during the TLS handshake", strerror(s->error));
	else if (s->shaken)
		snprintf(why, room, "%s went away without closing the connection", peer);
	else
		snprintf(why, room,
			 "%s closed the connection during the TLS handshake; does it use TLS, with "
			 "the same key or authority?",
			 peer);
}

void tw_tls_why(const struct tw_tls *tls, const SSL *ssl, const struct tw_tls_socket *socket,
		const char *peer, char *why, size_t room)
{
	const unsigned long cause = first_cause();
	const int reason = ERR_GET_REASON(cause);
	const bool shaken = socket->shaken;

	if (!cause || ERR_GET_LIB(cause) != ERR_LIB_SSL ||
	    reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		left(socket, peer, why, room);
	else if (!shaken && not_tls(reason))
		snprintf(why, room, "%s does not speak TLS", peer);
	else if (!shaken && old_tls(reason))
		snprintf(why, room, "%s does not speak TLS 1.3", peer);
	else if (!shaken && tls->keyed && another_key(reason))
		snprintf(why, room, "%s has another key, or none", peer);
	else
		refused(tls, ssl, cause, peer, why, room);
}
