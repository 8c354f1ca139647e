/* SPDX-License-Identifier: Apache-2.0 */
/* roll.h - who joins says that it is there; README.md says what it promises.
 * The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_ROLL_ROLL_H
#define TW_NODE_DUTY_ROLL_ROLL_H

struct tw_duty;

/* Named by master.c and worker.c alone. */
extern const struct tw_duty tw_roll_master, tw_roll_worker;

#endif
