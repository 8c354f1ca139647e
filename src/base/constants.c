/* SPDX-License-Identifier: Apache-2.0 */
/* constants.c - the elements of a model that never change, among those that do. */
#include "base/constants.h"

#include <string.h>

void tw_mingle(struct tw_mingling *m, const float *values, size_t n, tw_mingled put, void *arg)
{
	const struct tw_constants *c = &m->of;

	for (;;) {
		size_t some = n;

		while (m->next < c->pieces && c->piece[m->next].from == m->at) {
			put(arg, c->piece[m->next].at, c->piece[m->next].n);
			m->at += c->piece[m->next++].n;
		}
		if (m->next < c->pieces && c->piece[m->next].from - m->at < n)
			some = c->piece[m->next].from - m->at;
		if (!n)
			return;
		put(arg, values, some);
		values += some;
		n -= some;
		m->at += some;
	}
}

void tw_constants_leave_out(const struct tw_constants *c, const float *model, size_t n, float *out)
{
	size_t at = 0;

	for (size_t k = 0; k <= c->pieces; k++) {
		const size_t to = k < c->pieces ? c->piece[k].from : n;

		memmove(out, model + at, (to - at) * sizeof *out);
		out += to - at;
		at = k < c->pieces ? to + c->piece[k].n : to;
	}
}
