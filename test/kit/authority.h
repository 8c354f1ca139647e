/* SPDX-License-Identifier: Apache-2.0 */
/* authority.h - certificates made for a test, and the files that hold them. */
#ifndef TW_TEST_KIT_AUTHORITY_H
#define TW_TEST_KIT_AUTHORITY_H

#include "wire/tls.h"

#include <openssl/x509.h>

struct authority {
	EVP_PKEY *key;
	X509 *certificate;
};

/* Paths of one member's files, and of the authority that it trusts. */
struct papers {
	char certificate[100], private_key[100], authority[100];
};

void authority_make(struct authority *a, const char *name);
void authority_release(struct authority *a);
/* Write DIR/NAME.crt, .key (0600) and .ca: a certificate for `names` ("DNS:a,IP:::1"), valid from
 * now + `from` to now + `to` seconds, signed by `signer`; who trusts `trusted`. */
void authority_write(const struct authority *signer, const struct authority *trusted,
		     const char *dir, const char *name, const char *names, long from, long to,
		     struct papers *out);
/* The same in full.  `usage` is the extended key usage ("clientAuth"; NULL: any); without a signer
 * the certificate signs itself; *member, unless NULL, gets the certificate and its key. */
struct paper_facts {
	const struct authority *signer, *trusted;
	const char *names, *usage;
	long from, to;
};
void authority_write_fully(const struct paper_facts *f, const char *dir, const char *name,
			   struct papers *out, struct authority *member);
/* Options with these papers. */
struct tw_tls_options papers_options(const struct papers *p);

#endif
