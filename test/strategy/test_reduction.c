/* SPDX-License-Identifier: Apache-2.0 */
/* test_reduction.c - every reduction of the table keeps reduction.h's word. */
#include "strategy/tools.h"
#include "strategy/reduction.h"
#include "kit/reduce.h"
#include "vec/vec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST    64
#define LONGEST 1003

/* All of the table, and what takes the place of some of them; NULL after the last. */
static const struct tw_reduction *every(size_t i)
{
	size_t all = 0;

	while (tw_reduction_all[all])
		all++;
	if (i < all)
		return tw_reduction_all[i];
	i -= all;
	for (size_t k = 0; k < all; k++)
		if (tw_reduction_all[k]->gather && i-- == 0)
			return tw_reduction_all[k]->gather;
	return NULL;
}

/* --- the lists ------------------------------------------------------------------------------ */

/* How often one peer sends to another, and how often that one waits for it. */
struct traffic {
	uint32_t sent[2], wanted[2];
};

static void count_moves(const struct tw_reduction *r, uint32_t peers, uint32_t chunk,
			struct traffic *t)
{
	for (uint32_t rank = 0; rank < peers; rank++) {
		uint32_t own = 0;

		for (uint32_t k = 0; k < r->moves(peers, rank, chunk); k++) {
			const struct tw_move m = r->move(peers, rank, chunk, k);
			const bool gift = m.kind == TW_MOVE_GIVE || m.kind == TW_MOVE_TAKE;

			CHECK(m.peer < peers);
			if (m.kind == TW_MOVE_ADD && m.peer == rank) {
				own++;
				continue;
			}
			CHECK(m.peer != rank);
			if (m.kind == TW_MOVE_SEND || m.kind == TW_MOVE_GIVE)
				t[rank * peers + m.peer].sent[gift]++;
			else
				t[m.peer * peers + rank].wanted[gift]++;
		}
		CHECK(own <= 1);
	}
}

static void every_send_is_wanted_once(void **state)
{
	for (size_t i = 0; every(i); i++)
		for (uint32_t peers = 1; peers <= MOST; peers++)
			for (uint32_t c = 0; c < every(i)->chunks(peers); c++) {
				struct traffic *t = calloc((size_t)peers * peers, sizeof *t);

				assert_non_null(t);
				count_moves(every(i), peers, c, t);
				for (uint32_t k = 0; k < peers * peers; k++)
					for (int gift = 0; gift < 2; gift++) {
						CHECK(t[k].sent[gift] <= 1);
						CHECK(t[k].sent[gift] == t[k].wanted[gift]);
					}
				free(t);
			}
}

/* Which inputs are in what a peer has of a chunk, or has sent: one bit for each rank. */
struct parts {
	uint64_t here[MOST], mail[MOST][MOST][2];
	uint32_t made[MOST];
};

static bool add_parts(const struct tw_reduction *r, uint32_t peers, uint32_t chunk, uint32_t rank,
		      struct parts *x)
{
	const uint64_t all = peers == 64 ? ~0ull : (1ull << peers) - 1;
	const struct tw_move m = r->move(peers, rank, chunk, x->made[rank]);
	const bool gift = m.kind == TW_MOVE_GIVE || m.kind == TW_MOVE_TAKE;
	const uint64_t came = m.peer == rank ? 1ull << rank : x->mail[m.peer][rank][gift];

	if (m.kind == TW_MOVE_SEND || m.kind == TW_MOVE_GIVE) {
		CHECK(x->here[rank] || r->own);
		CHECK(!gift || (x->here[rank] == all && !r->own));
		x->mail[rank][m.peer][gift] = r->own ? 1ull << rank : x->here[rank];
	} else if (!came) {
		return false;
	} else {
		CHECK(gift || !(x->here[rank] & came)); /* nothing is added twice */
		x->here[rank] = gift ? came : x->here[rank] | came;
	}
	x->made[rank]++;
	return true;
}

static void what_is_given_is_the_whole_sum(void **state)
{
	for (size_t i = 0; every(i); i++)
		for (uint32_t peers = 1; peers <= MOST; peers++)
			for (uint32_t c = 0; c < every(i)->chunks(peers); c++) {
				const struct tw_reduction *r = every(i);
				struct parts *x = calloc(1, sizeof *x);
				bool moved = true;

				assert_non_null(x);
				while (moved) {
					moved = false;
					for (uint32_t p = 0; p < peers; p++)
						while (x->made[p] < r->moves(peers, p, c) &&
						       add_parts(r, peers, c, p, x))
							moved = true;
				}
				for (uint32_t p = 0; p < peers; p++) {
					CHECK(x->made[p] == r->moves(peers, p, c));
					CHECK(__builtin_popcountll(x->here[p]) == (int)peers);
				}
				free(x);
			}
}

static void alone_the_own_input_is_the_sum(void **state)
{
	for (size_t i = 0; every(i); i++) {
		const struct tw_reduction *r = every(i);
		const struct tw_reduction_load load = { 1, 1e6, 0.1, 1e-6, 4096 };

		CHECK(r->chunks(1) == 1 && r->moves(1, 0, 0) == 1);
		CHECK(r->move(1, 0, 0, 0).kind == TW_MOVE_ADD);
		CHECK(r->move(1, 0, 0, 0).peer == 0);
		CHECK(r->busiest(&load) == 0 && (!r->seconds || r->seconds(&load) == 0));
		CHECK(!r->name || tw_reduction_find(r->name) == r);
		CHECK(!r->gather || (r->gather->own && r->gather->chunks(9) == 1));
	}
	CHECK(!tw_reduction_find("no such reduction"));
}

static void borders_cut_a_vector_into_nearly_equal_pieces(void **state)
{
	for (size_t n = 0; n < 200; n++)
		for (uint32_t chunks = 1; chunks < 70; chunks++) {
			CHECK(tw_reduction_border(n, chunks, 0) == 0);
			CHECK(tw_reduction_border(n, chunks, chunks) == n);
			for (uint32_t k = 0; k < chunks; k++) {
				const size_t piece = tw_reduction_border(n, chunks, k + 1) -
						     tw_reduction_border(n, chunks, k);

				CHECK(piece == n / chunks || piece == n / chunks + 1);
			}
		}
}

static void count_bytes(const struct tw_reduction *r, uint32_t peers, uint32_t chunk, size_t n,
			double *sent, double *received)
{
	const double bytes = 4.0 * (tw_reduction_border(n, r->chunks(peers), chunk + 1) -
				    tw_reduction_border(n, r->chunks(peers), chunk));

	for (uint32_t rank = 0; rank < peers; rank++)
		for (uint32_t k = 0; k < r->moves(peers, rank, chunk); k++) {
			const struct tw_move m = r->move(peers, rank, chunk, k);

			if (m.kind == TW_MOVE_SEND || m.kind == TW_MOVE_GIVE)
				sent[rank] += bytes;
			else if (m.peer != rank)
				received[rank] += bytes;
		}
}

/* Exactly where the vector can be cut into equal chunks, else to one value of each message. */
static void the_busiest_peer_has_the_bytes_it_says(void **state)
{
	for (size_t i = 0; every(i); i++)
		for (uint32_t peers = 2; peers <= MOST; peers++)
			for (size_t n = 1000 * peers; n < 1000 * peers + 3; n++) {
				const struct tw_reduction *r = every(i);
				const struct tw_reduction_load load = { peers, 4.0 * n, 0, 0, 1 };
				double sent[MOST] = { 0 }, received[MOST] = { 0 }, most = 0;

				for (uint32_t c = 0; c < r->chunks(peers); c++)
					count_bytes(r, peers, c, n, sent, received);
				for (uint32_t p = 0; p < peers; p++)
					most = fmax(most, fmax(sent[p], received[p]));
				if (n % r->chunks(peers) == 0)
					CHECK(r->busiest(&load) == most);
				CHECK(fabs(r->busiest(&load) - most) <= 4 * 2 * peers);
			}
}

/* --- sums ----------------------------------------------------------------------------------- */

struct inputs {
	uint32_t peers;
	size_t n;
	float *in[MOST], *out[MOST];
	float weight[MOST], divide[MOST], weight_out[MOST], divide_out[MOST];
};

/* Every third one is a sum already (divide == weight), others a mean, or a sum of batches. */
static void inputs_init(struct inputs *x, uint32_t peers, size_t n, bool plain)
{
	*x = (struct inputs){ .peers = peers, .n = n };
	for (uint32_t p = 0; p < peers; p++) {
		x->in[p] = calloc(n + 1, sizeof(float));
		x->out[p] = calloc(n + 1, sizeof(float));
		assert_non_null(x->in[p]);
		assert_non_null(x->out[p]);
		gauss(x->in[p], n, 1000 * n + p, 1.0f);
		x->weight[p] = plain ? 1.0f : (float)(1 + pick(p, 64));
		x->divide[p] = plain ? 1.0f : p % 3 == 0 ? x->weight[p] : (float)(1 + p % 3);
	}
}

static void inputs_release(struct inputs *x)
{
	for (uint32_t p = 0; p < x->peers; p++) {
		free(x->in[p]);
		free(x->out[p]);
	}
}

static void reduce(const struct tw_reduction *r, struct inputs *x)
{
	kit_reduce(r, x->peers, x->n, (const float *const *)x->in, x->weight, x->divide, x->out,
		   x->weight_out, x->divide_out);
}

static void check_sum(const struct tw_reduction *r, const struct inputs *x)
{
	double weight = 0;

	for (uint32_t p = 0; p < x->peers; p++) {
		weight += x->weight[p];
		CHECK(same_bits(x->out[p], x->out[0], x->n));
	}
	for (uint32_t c = 0; c < r->chunks(x->peers); c++) {
		CHECK(x->weight_out[c] == (float)weight);
		CHECK(x->divide_out[c] == (x->peers == 1 ? x->divide[0] : (float)weight));
	}
	for (size_t i = 0; i < x->n; i++) {
		double sum = 0, size = 0;

		for (uint32_t p = 0; p < x->peers; p++) {
			const double one = (double)x->weight[p] / x->divide[p] * x->in[p][i];

			sum += one;
			size += fabs(one);
		}
		if (x->peers == 1)
			CHECK(x->out[0][i] == x->in[0][i]);
		else
			CHECK(fabs(x->out[0][i] - sum) <= 1e-6 * size);
	}
}

static const size_t lengths[] = { 0, 1, 2, 3, 7, 16, 17, 63, LONGEST };
#define LENGTHS (sizeof lengths / sizeof *lengths)

static void all_peers_have_the_sum(void **state)
{
	for (size_t i = 0; every(i); i++)
		for (uint32_t peers = 1; peers <= 17; peers++)
			for (size_t l = 0; l < LENGTHS; l++)
				for (int plain = 0; plain < 2; plain++) {
					struct inputs x;

					inputs_init(&x, peers, lengths[l], plain);
					reduce(every(i), &x);
					check_sum(every(i), &x);
					inputs_release(&x);
				}
}

static void many_peers_have_the_sum_too(void **state)
{
	static const uint32_t many[] = { 31, 32, 33, 64 };

	for (size_t i = 0; every(i); i++)
		for (size_t k = 0; k < sizeof many / sizeof *many; k++) {
			struct inputs x;

			inputs_init(&x, many[k], 67, false);
			reduce(every(i), &x);
			check_sum(every(i), &x);
			inputs_release(&x);
		}
}

/* What a server does with the contributions of a round, before it divides. */
static void fold(const struct inputs *x, float *sum)
{
	for (uint32_t p = 0; p < x->peers; p++) {
		const float share = x->weight[p] / x->divide[p];

		for (size_t i = 0; i < x->n; i++)
			if (p == 0)
				sum[i] = share * x->in[p][i];
			else
				sum[i] = share == 1.0f ? sum[i] + x->in[p][i]
						       : fmaf(share, x->in[p][i], sum[i]);
	}
}

static void direct_adds_as_a_server_does(void **state)
{
	static float sum[LONGEST];

	for (uint32_t peers = 2; peers <= 17; peers++)
		for (size_t l = 0; l < LENGTHS; l++)
			for (int plain = 0; plain < 2; plain++) {
				struct inputs x;

				inputs_init(&x, peers, lengths[l], plain);
				fold(&x, sum);
				reduce(tw_reduction_find("direct"), &x);
				CHECK(same_bits(x.out[peers - 1], sum, x.n));
				reduce(tw_reduction_find("direct")->gather, &x);
				CHECK(same_bits(x.out[peers - 1], sum, x.n));
				inputs_release(&x);
			}
}

/* --- any order ------------------------------------------------------------------------------ */

/* Until nobody can move: a random one of those who can makes one move. */
static void shuffle(struct kit_reduction *k, uint64_t seed)
{
	const uint32_t all = k->peers * k->chunks;
	uint32_t idle = 0;

	for (uint64_t draw = 0; idle < all; draw++) {
		const uint32_t first = pick(seed << 20 | draw, all);

		for (idle = 0; idle < all; idle++) {
			const uint32_t at = (first + idle) % all;

			if (kit_reduction_step(k, at / k->chunks, at % k->chunks))
				break;
		}
	}
}

static void check_shuffled(const struct tw_reduction *r, struct inputs *x, uint64_t seed)
{
	struct kit_reduction k = { .r = r,
				   .peers = x->peers,
				   .n = x->n,
				   .in = (const float *const *)x->in,
				   .weight = x->weight,
				   .divide = x->divide };

	kit_reduction_init(&k);
	shuffle(&k, seed);
	CHECK(kit_reduction_ended(&k));
	for (uint32_t p = 0; p < x->peers; p++)
		for (uint32_t c = 0; c < k.chunks; c++) {
			const size_t at = tw_reduction_border(x->n, k.chunks, c);

			CHECK(same_bits(k.has[p * k.chunks + c].v, x->out[0] + at,
					tw_reduction_border(x->n, k.chunks, c + 1) - at));
		}
	kit_reduction_release(&k);
}

static void any_order_comes_to_the_same_end(void **state)
{
	for (size_t i = 0; every(i); i++)
		for (uint32_t peers = 2; peers <= 9; peers++) {
			struct inputs x;

			inputs_init(&x, peers, 23, false);
			reduce(every(i), &x);
			for (uint64_t seed = 0; seed < (peers <= 4 ? 2000 : 50); seed++)
				check_shuffled(every(i), &x, seed);
			inputs_release(&x);
		}
}

/* How far every peer is with one chunk: a state of the model.  Chunks know nothing of each other,
 * so one at a time says all. */
struct model {
	const struct tw_reduction *r;
	uint32_t peers, chunk;
	uint8_t *seen; /* by the number that a state is */
	uint64_t ends;
};

static bool has_made(const struct model *m, const uint32_t *made, uint32_t from, uint32_t to,
		     enum tw_move_kind kind)
{
	for (uint32_t k = 0; k < made[from]; k++) {
		const struct tw_move x = m->r->move(m->peers, from, m->chunk, k);

		if (x.kind == kind && x.peer == to)
			return true;
	}
	return false;
}

static bool can_move(const struct model *m, const uint32_t *made, uint32_t rank)
{
	struct tw_move x;

	if (made[rank] == m->r->moves(m->peers, rank, m->chunk))
		return false;
	x = m->r->move(m->peers, rank, m->chunk, made[rank]);
	if (x.kind == TW_MOVE_SEND || x.kind == TW_MOVE_GIVE || x.peer == rank)
		return true;
	return has_made(m, made, x.peer, rank, x.kind == TW_MOVE_ADD ? TW_MOVE_SEND : TW_MOVE_GIVE);
}

static void explore(struct model *m, uint32_t *made)
{
	uint64_t number = 0;
	bool moved = false, ended = true;

	for (uint32_t p = 0; p < m->peers; p++) {
		const uint32_t all = m->r->moves(m->peers, p, m->chunk);

		number = number * (all + 1) + made[p];
		ended = ended && made[p] == all;
	}
	if (m->seen[number])
		return;
	m->seen[number] = 1;
	for (uint32_t p = 0; p < m->peers; p++)
		if (can_move(m, made, p)) {
			moved = true;
			made[p]++;
			explore(m, made);
			made[p]--;
		}
	CHECK(moved || ended);
	m->ends += ended;
}

static void no_interleaving_of_a_few_peers_stops_early(void **state)
{
	for (size_t i = 0; every(i); i++)
		for (uint32_t peers = 1; peers <= 5; peers++)
			for (uint32_t c = 0; c < every(i)->chunks(peers); c++) {
				struct model m = { every(i), peers, c, NULL, 0 };
				uint32_t made[5] = { 0 };
				size_t states = 1;

				for (uint32_t p = 0; p < peers; p++)
					states *= m.r->moves(peers, p, c) + 1;
				m.seen = calloc(states, 1);
				assert_non_null(m.seen);
				explore(&m, made);
				CHECK(m.ends == 1);
				free(m.seen);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_send_is_wanted_once),
		cmocka_unit_test(what_is_given_is_the_whole_sum),
		cmocka_unit_test(alone_the_own_input_is_the_sum),
		cmocka_unit_test(borders_cut_a_vector_into_nearly_equal_pieces),
		cmocka_unit_test(the_busiest_peer_has_the_bytes_it_says),
		cmocka_unit_test(all_peers_have_the_sum),
		cmocka_unit_test(many_peers_have_the_sum_too),
		cmocka_unit_test(direct_adds_as_a_server_does),
		cmocka_unit_test(any_order_comes_to_the_same_end),
		cmocka_unit_test(no_interleaving_of_a_few_peers_stops_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
