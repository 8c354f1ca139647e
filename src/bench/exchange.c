/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - the exchange, in the world that was asked for. */
#include "bench/exchange.h"

static enum tw_status exchange(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	if (how->world == TW_WORLD_MPI)
		return tw_exchange_mpi(how, cases, why);
	return how->world == TW_WORLD_TCP ? tw_exchange_tcp(how, cases, why)
					  : tw_exchange_threads(how, cases, why);
}

const struct tw_bench tw_bench_exchange = {
	.name = "exchange",
	.help = "push, apply and pull of 14.6 million parameters in threads, processes or ranks",
	.run = exchange,
};
