/* SPDX-License-Identifier: Apache-2.0 */
/* key.c - thalweg key: a new key for a cluster, on stdout. */
#include "wire/key.h"

#include "checkpoint/files.h"
#include "cli/verb.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A shell makes the file of `> cluster.key` readable by all, and no member would take such a key:
 * close it before there is anything in it to read. */
static enum tw_status close_to_others(const struct tw_call *call, struct tw_error *why)
{
	struct stat st;

	if (isatty(STDOUT_FILENO)) {
		tw_log_line(call->log, TW_INFO, "",
			    "this key is not stored anywhere; to store one in a file: (umask "
			    "077; thalweg key > cluster.key), or chmod 600 afterwards");
		return TW_OK;
	}
	if (fstat(STDOUT_FILENO, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 077))
		return TW_OK;
	if (fchmod(STDOUT_FILENO, st.st_mode & 0600))
		return tw_fail(why, TW_IO,
			       "other users can read the file for the key, and its mode cannot "
			       "be changed (%s); write it elsewhere, with umask 077",
			       strerror(errno));
	return TW_OK;
}

static int key(const struct tw_call *call)
{
	struct tw_error why = { .status = TW_OK };
	char text[TW_KEY_TEXT];
	enum tw_status status;

	status = close_to_others(call, &why);
	if (status == TW_OK)
		status = tw_key_make(text, &why);
	/* not through stdio, whose buffer would keep the key */
	if (status == TW_OK && tw_file_add(STDOUT_FILENO, text, strlen(text)) != TW_OK)
		status = tw_fail(&why, TW_IO, "cannot write the key: %s", strerror(errno));
	OPENSSL_cleanse(text, sizeof text);
	return status == TW_OK ? TW_EXIT_DONE : tw_exit_for(call, &why);
}

static const struct tw_example examples[] = {
	{ "thalweg key > cluster.key", "a key in a file that only you can read" },
	{ 0 },
};

const struct tw_verb tw_verb_key = {
	.name = "key",
	.words = "",
	.help = "make a key that the processes of a cluster share",
	.about = "Prints a new random key.  Every process of a cluster gets the same key;\n"
		 "connections between them are then encrypted, and a process with another key or\n"
		 "none is refused.  Anyone who has the key is a member: keep it in a file that\n"
		 "only its owner can read (mode 600; other modes are refused).  If stdout is a\n"
		 "file, thalweg gives it that mode.\n",
	.example = examples,
	.run = key,
};
