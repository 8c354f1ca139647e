/* SPDX-License-Identifier: Apache-2.0 */
/* meddler.h - a real worker whose words a test reads, changes or keeps back before they are sent.
 *
 * The test gives the seats of a run another class, which is that of workers but for what leaves
 * them.  It works in every world; hooks are called by the threads of the world. */
#ifndef TW_TEST_JOB_MEDDLER_H
#define TW_TEST_JOB_MEDDLER_H

#include "job/trial.h"

struct meddler {
	/* True: the message is the hook's, which has sent it by `meddler_send`, or has freed it.
	 * NULL: all words leave as they are. */
	bool (*send)(void *arg, struct tw_context *ctx, struct tw_msg *m);
	void *arg;
	bool mute; /* its notes are nobody's */
};

/* This cell of this worker is meddled with from now on; one meddler at a time. */
void meddle(struct trial *t, uint32_t slot, uint32_t cell, const struct meddler *how);
/* Within a hook: as if the worker had sent it. */
void meddler_send(struct tw_context *ctx, struct tw_msg *m);
/* The same message once more, with a payload of its own of so many bytes (0: none). */
struct tw_msg *meddler_copy(struct tw_context *ctx, const struct tw_msg *m, uint32_t payload);

#endif
