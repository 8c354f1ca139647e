/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.h - a job against tables of refusals (base/facts.h): do its choices go together? */
#ifndef TW_SPEC_REFUSE_H
#define TW_SPEC_REFUSE_H

#include "spec/job.h"

/* Add what is true of the job and its plan, which has its values already; TW_NO_MEMORY. */
enum tw_status tw_job_find_facts(struct tw_job *job, struct tw_error *why); /* job_facts.c */

/* By the first row whose facts are true (`idle`: and whose field the user gave); the sentence has
 * place, field and what would work. */
enum tw_status tw_job_refuse_rows(const struct tw_job *job, const struct tw_refusal_row *rows,
				  bool idle, struct tw_error *why);
/* Fields of tw_idle_all whose facts are true are left out of the explained job. */
void tw_job_silence_idle(struct tw_job *job);

extern const struct tw_refusal_row tw_refusals_model[], tw_refusals_keep[], tw_refusals_online[],
	tw_idle_online[], tw_idle_data[], tw_idle_sim[]; /* job_refusals.c */
extern const struct tw_refusal_row *const tw_idle_all[]; /* NULL at the end */

/* What a job is checked for, in this order: by a function, or by a table. */
struct tw_job_check {
	enum tw_status (*check)(const struct tw_job *job, struct tw_error *why);
	const struct tw_refusal_row *refusals;
};
extern const struct tw_job_check tw_job_checks[]; /* check.c; empty at the end */

#endif
