/* SPDX-License-Identifier: Apache-2.0 */
/* authority.c - certificates made for a test, and the files that hold them. */
#include "kit/authority.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <cmocka.h>

#define DAY 86400

static void extend(X509 *x, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	assert_non_null(e);
	assert_int_equal(X509_add_ext(x, e, -1), 1);
	X509_EXTENSION_free(e);
}

static X509 *certificate(EVP_PKEY *key, const char *name, long from, long to)
{
	static long serial = 1;
	X509 *x = X509_new();
	X509_NAME *subject = X509_get_subject_name(x);

	X509_set_version(x, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
	X509_gmtime_adj(X509_getm_notBefore(x), from);
	X509_gmtime_adj(X509_getm_notAfter(x), to);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1,
				   0);
	assert_int_equal(X509_set_pubkey(x, key), 1);
	return x;
}

static void sign(X509 *x, const struct authority *a)
{
	X509_set_issuer_name(x, X509_get_subject_name(a->certificate));
	assert_true(X509_sign(x, a->key, EVP_sha256()) > 0);
}

void authority_make(struct authority *a, const char *name)
{
	a->key = EVP_EC_gen("P-256");
	assert_non_null(a->key);
	a->certificate = certificate(a->key, name, -DAY, 10 * DAY);
	extend(a->certificate, NID_basic_constraints, "critical,CA:TRUE");
	extend(a->certificate, NID_key_usage, "critical,keyCertSign");
	sign(a->certificate, a);
}

void authority_release(struct authority *a)
{
	EVP_PKEY_free(a->key);
	X509_free(a->certificate);
}

static void write_certificate(const char *path, X509 *x)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(PEM_write_X509(f, x), 1);
	assert_int_equal(fclose(f), 0);
}

static void write_key(const char *path, EVP_PKEY *key)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, 0600), 0);
}

void authority_write_fully(const struct paper_facts *f, const char *dir, const char *name,
			   struct papers *out, struct authority *member)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = certificate(key, name, f->from, f->to);
	const struct authority self = { key, x };

	extend(x, NID_subject_alt_name, f->names);
	if (f->usage)
		extend(x, NID_ext_key_usage, f->usage);
	sign(x, f->signer ? f->signer : &self);
	snprintf(out->certificate, sizeof out->certificate, "%s/%s.crt", dir, name);
	snprintf(out->private_key, sizeof out->private_key, "%s/%s.key", dir, name);
	snprintf(out->authority, sizeof out->authority, "%s/%s.ca", dir, name);
	write_certificate(out->certificate, x);
	write_key(out->private_key, key);
	write_certificate(out->authority, f->trusted->certificate);
	if (member)
		*member = self;
	else
		authority_release(&(struct authority){ key, x });
}

void authority_write(const struct authority *signer, const struct authority *trusted,
		     const char *dir, const char *name, const char *names, long from, long to,
		     struct papers *out)
{
	const struct paper_facts f = {
		.signer = signer, .trusted = trusted, .names = names, .from = from, .to = to
	};

	authority_write_fully(&f, dir, name, out, NULL);
}

struct tw_tls_options papers_options(const struct papers *p)
{
	return (struct tw_tls_options){ .certificate = p->certificate,
					.private_key = p->private_key,
					.authority = p->authority };
}
