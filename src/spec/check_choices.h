/* SPDX-License-Identifier: Apache-2.0 */
/* check_choices.h - do the variants that a job chooses go together? */
#ifndef TW_SPEC_CHECK_CHOICES_H
#define TW_SPEC_CHECK_CHOICES_H

#include "spec/job.h"

/* Refuse, with place, field and what would work, choices that make no sense together.  The job's
 * plan has its values already. */
enum tw_status tw_job_check_choices(const struct tw_job *job, struct tw_error *why);

#endif
