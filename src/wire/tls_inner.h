/* SPDX-License-Identifier: Apache-2.0 */
/* tls_inner.h - what the streams know of tls.c and key.c; for nobody outside this folder. */
#ifndef TW_WIRE_TLS_INNER_H
#define TW_WIRE_TLS_INNER_H

#include "wire/tls.h"

#include <openssl/ssl.h>

/* AES-GCM keys wear out after about 2^24.5 records (RFC 8446, 5.5), and OpenSSL does not count.  A
 * connection that moves a model every second is there in hours, so streams take new keys. */
#define TW_TLS_RECORDS (1u << 22)

struct tw_tls {
	struct tw_heap *heap;
	SSL_CTX *context;
	BIO_METHOD *method;
	unsigned records; /* written under one key; TW_TLS_RECORDS */
	bool keyed;
	uint8_t key[TW_KEY_BYTES];
	char authority[200]; /* its file, for sentences */
};

/* The socket of one stream, as OpenSSL's BIO sees it. */
struct tw_tls_socket {
	int fd;
	int error; /* errno of what failed last */
	bool eof;
	bool more;   /* what is written now is followed by more, at once */
	bool shaken; /* the handshake is over; OpenSSL forgets that when it fails later */
};

/* A connection over `socket`, which must stay where it is; NULL without memory. */
SSL *tw_tls_connection(struct tw_tls *tls, struct tw_tls_socket *socket, bool dials);
/* Certificates: only who has the name or number dialled ("host:port") may answer.  False where no
 * certificate can be for it. */
bool tw_tls_expect(const struct tw_tls *tls, SSL *ssl, const char *peer);
/* After the handshake: was it the key or a certificate that let the other side in? */
bool tw_tls_proved(const struct tw_tls *tls, const SSL *ssl);
/* One sentence for what OpenSSL has just refused, which calls the other side "it"; empties its
 * queue of errors. */
void tw_tls_why(const struct tw_tls *tls, const SSL *ssl, const struct tw_tls_socket *socket,
		char *why, size_t room);

/* Open a file that nobody but its owner may read; `what` it is, and at most `most` bytes long.
 * TW_BAD_INPUT with a sentence.  The caller closes *fd. */
enum tw_status tw_key_open(const char *path, const char *what, size_t most, int *fd,
			   struct tw_error *why);

#endif
