/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.c - primitives and the hands that run them.
 *
 *  (1) the engine and the attribute are made once per process and never destroyed.
 *  (2) a primitive never changes after tw_onednn_add; its scratchpad is its caller's.
 *  (3) a hand is in the kit's list or with exactly one thread. */
#include "graph/onednn.h"
#include "base/grow.h"
#include "graph/inner.h"
#include "graph/shape.h"
#include "base/machine/isa.h"

#include <omp.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

struct made {
	dnnl_primitive_t primitive;
	uint32_t first, args; /* in a hand's list; the scratchpad is one more, where there is one */
	int arg[TW_KIT_ARGS];
	bool scratch;
};

struct tw_onednn {
	struct tw_heap *heap;
	struct made *made;
	uint32_t count;
	size_t room;
	uint32_t slots; /* arguments of all primitives */
	pthread_mutex_t lock;
	struct tw_hand *rest; /* hands that nobody has */
};

struct tw_hand {
	struct tw_hand *next;
	struct tw_onednn *kit;
	dnnl_stream_t stream;
	uint32_t count, slots; /* what the kit had when the hand was made */
	uint32_t threads;      /* what the thread that has it had before */
	dnnl_exec_arg_t arg[];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_primitive_attr_t attr, adding; /* adding: to what is at the destination */

/* At its first product oneDNN makes kernels (6 MiB), and it crashes when there is no memory for
 * them: so that happens here, once, where there is room. */
#define ROOM (24u << 20)
/* Nor does it look whether it got memory for what a hand is made of. */
#define HAND_ROOM (4u << 20)

static bool has_room(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at != MAP_FAILED && munmap(at, bytes) == 0;
}

static bool first_product(void)
{
	const float a[4] = { 1, 2, 3, 4 };
	float c[4];

	return dnnl_sgemm('N', 'N', 2, 2, 2, 1, a, 2, a, 2, 0, c, 2) == dnnl_success;
}

static _Atomic uint32_t chosen; /* 1 + index of an instruction set: oneDNN takes it once */

enum tw_status tw_onednn_isa(const char *name)
{
	static const struct {
		const char *name;
		dnnl_cpu_isa_t isa;
	} known[] = {
		{ "avx512", dnnl_cpu_isa_all },
		{ "avx2", dnnl_cpu_isa_avx2 },
		{ "plain", dnnl_cpu_isa_sse41 },
	};

	for (uint32_t k = 0; k < sizeof known / sizeof *known; k++) {
		if (strcmp(known[k].name, name))
			continue;
		if (chosen == k + 1)
			return TW_OK;
		if (dnnl_set_max_cpu_isa(known[k].isa) != dnnl_success)
			return TW_REFUSED;
		chosen = k + 1;
		return TW_OK;
	}
	return TW_BAD_INPUT;
}

/* Before oneDNN chooses by itself. */
static void obey_limit(void)
{
	enum tw_isa limit;

	if (!chosen && tw_isa_limit(&limit))
		tw_onednn_isa(tw_isa_name(limit));
}

dnnl_cpu_isa_t tw_onednn_effective_isa(void)
{
	obey_limit();
	return dnnl_get_effective_cpu_isa();
}

static bool make_attr(dnnl_primitive_attr_t *out, bool adds)
{
	dnnl_post_ops_t ops;
	dnnl_status_t st = dnnl_primitive_attr_create(out);

	if (st == dnnl_success)
		st = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
	if (st != dnnl_success || !adds)
		return st == dnnl_success;
	st = dnnl_post_ops_create(&ops);
	if (st != dnnl_success)
		return false;
	st = dnnl_post_ops_append_sum(ops, 1.0f);
	if (st == dnnl_success)
		st = dnnl_primitive_attr_set_post_ops(*out, ops);
	dnnl_post_ops_destroy(ops);
	return st == dnnl_success;
}

static void make_engine(void)
{
	obey_limit();
	if (!has_room(ROOM) || !first_product())
		return;
	if (dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
		engine = NULL;
	if (!make_attr(&attr, false) || !make_attr(&adding, true))
		engine = NULL;
}

dnnl_engine_t tw_onednn_engine(const struct tw_onednn *kit)
{
	return engine;
}

const_dnnl_primitive_attr_t tw_onednn_attr(const struct tw_onednn *kit)
{
	return attr;
}

enum tw_status tw_onednn_status(dnnl_status_t st)
{
	switch (st) {
	case dnnl_success:
		return TW_OK;
	case dnnl_out_of_memory:
		return TW_NO_MEMORY;
	case dnnl_invalid_arguments:
		return TW_BAD_INPUT;
	case dnnl_unimplemented:
		return TW_ABSENT;
	default:
		return TW_REFUSED;
	}
}

uint32_t tw_onednn_threads(uint32_t threads)
{
	const int before = omp_get_max_threads();

	if (before != (int)threads)
		omp_set_num_threads((int)threads);
	return (uint32_t)before;
}

struct tw_onednn *tw_onednn_new(struct tw_heap *heap)
{
	struct tw_onednn *kit;

	pthread_once(&once, make_engine);
	if (!engine)
		return NULL;
	kit = tw_heap_zeros(heap, sizeof *kit);
	if (!kit)
		return NULL;
	kit->heap = heap;
	if (pthread_mutex_init(&kit->lock, NULL) != 0) {
		heap->put(heap, kit);
		return NULL;
	}
	tw_onednn_threads(1);
	return kit;
}

static void hand_free(struct tw_hand *hand)
{
	struct tw_heap *heap = hand->kit->heap;

	for (uint32_t k = 0; k < hand->slots; k++)
		if (hand->arg[k].memory)
			dnnl_memory_destroy(hand->arg[k].memory);
	if (hand->stream)
		dnnl_stream_destroy(hand->stream);
	heap->put(heap, hand);
}

void tw_onednn_free(struct tw_onednn *kit)
{
	if (!kit)
		return;
	while (kit->rest) {
		struct tw_hand *hand = kit->rest;

		kit->rest = hand->next;
		hand_free(hand);
	}
	for (uint32_t k = 0; k < kit->count; k++)
		dnnl_primitive_destroy(kit->made[k].primitive);
	pthread_mutex_destroy(&kit->lock);
	kit->heap->put(kit->heap, kit->made);
	kit->heap->put(kit->heap, kit);
}

uint32_t tw_onednn_count(const struct tw_onednn *kit)
{
	return kit->count;
}

static const_dnnl_primitive_desc_t desc_of(const struct made *m)
{
	const_dnnl_primitive_desc_t pd = NULL;

	return dnnl_primitive_get_primitive_desc(m->primitive, &pd) == dnnl_success ? pd : NULL;
}

const char *tw_onednn_implementation(const struct tw_onednn *kit, uint32_t id)
{
	const const_dnnl_primitive_desc_t pd = desc_of(&kit->made[id]);
	const char *name = NULL;

	if (!pd || dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != 0 || !name)
		return "unknown";
	return name;
}

enum tw_onednn_way tw_onednn_way(const struct tw_onednn *kit, uint32_t id)
{
	const const_dnnl_primitive_desc_t pd = desc_of(&kit->made[id]);
	dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
	dnnl_prop_kind_t prop = dnnl_prop_kind_undef;

	dnnl_primitive_desc_query(pd, dnnl_query_primitive_kind, 0, &kind);
	dnnl_primitive_desc_query(pd, dnnl_query_prop_kind, 0, &prop);
	switch (prop) {
	case dnnl_backward:
	case dnnl_backward_data:
	case dnnl_backward_weights:
	case dnnl_backward_bias:
		return TW_KIT_BACKWARD;
	default:
		return kind == dnnl_reorder ? TW_KIT_BOTH : TW_KIT_FORWARD;
	}
}

static enum tw_status more_room(struct tw_onednn *kit)
{
	return TW_GROW(kit->heap, kit->made, kit->room, kit->count, (size_t)kit->count + 1)
		       ? TW_OK
		       : TW_NO_MEMORY;
}

static size_t scratch_bytes(const_dnnl_primitive_desc_t pd)
{
	const dnnl_memory_desc_t *md =
		dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);

	return md && md->ndims ? dnnl_memory_desc_get_size(md) : 0;
}

/* The library crashes if the system refuses it memory while it writes the code of a primitive, so
 * the system is asked before: for more than any primitive takes. */
#define CODE_MOST ((size_t)32 << 20)

static bool has_room_for_code(void)
{
	void *room =
		mmap(NULL, CODE_MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return room != MAP_FAILED && munmap(room, CODE_MOST) == 0;
}

enum tw_status tw_onednn_add(struct tw_onednn *kit, dnnl_primitive_desc_t pd, const int *arg,
			     size_t n, uint32_t *id, size_t *scratch)
{
	struct made m = { .first = kit->slots, .args = (uint32_t)n };
	const size_t bytes = scratch_bytes(pd);
	enum tw_status st = more_room(kit);

	HOLDS(2, n <= TW_KIT_ARGS);
	memcpy(m.arg, arg, n * sizeof *arg);
	m.scratch = bytes > 0;
	if (st == TW_OK && !has_room_for_code())
		st = TW_NO_MEMORY;
	if (st == TW_OK)
		st = tw_onednn_status(dnnl_primitive_create(&m.primitive, pd));
	dnnl_primitive_desc_destroy(pd);
	if (st != TW_OK)
		return st;
	*id = kit->count;
	kit->made[kit->count++] = m;
	kit->slots += m.args + m.scratch;
	if (scratch && *scratch < bytes)
		*scratch = bytes;
	return TW_OK;
}

enum tw_status tw_onednn_product(const struct tw_onednn *kit, const dnnl_memory_desc_t *a,
				 const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *c,
				 bool adds, dnnl_primitive_desc_t *out)
{
	dnnl_matmul_desc_t d;
	dnnl_status_t st = dnnl_matmul_desc_init(&d, a, b, NULL, c);

	if (st == dnnl_success)
		st = dnnl_primitive_desc_create(out, &d, adds ? adding : attr,
						tw_onednn_engine(kit), NULL);
	return tw_onednn_status(st);
}

enum tw_status tw_onednn_reorder(struct tw_onednn *kit, const dnnl_memory_desc_t *from,
				 const dnnl_memory_desc_t *to, uint32_t *id, size_t *scratch)
{
	static const int arg[] = { DNNL_ARG_FROM, DNNL_ARG_TO };
	dnnl_primitive_desc_t pd;
	enum tw_status st;

	if (dnnl_memory_desc_equal(from, to)) {
		*id = TW_KIT_NONE;
		return TW_OK;
	}
	st = tw_onednn_status(
		dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr));
	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 2, id, scratch) : st;
}

enum tw_status tw_hand_run(struct tw_hand *hand, uint32_t id, void *const *data, void *scratch)
{
	const struct made *m;
	dnnl_exec_arg_t *arg;

	HOLDS(3, id < hand->count);
	m = &hand->kit->made[id];
	arg = hand->arg + m->first;
	for (uint32_t k = 0; k < m->args; k++)
		dnnl_memory_set_data_handle(arg[k].memory, data[k]);
	if (m->scratch)
		dnnl_memory_set_data_handle(arg[m->args].memory, scratch);
	return tw_onednn_status(dnnl_primitive_execute(m->primitive, hand->stream,
						       (int)(m->args + m->scratch), arg));
}

static enum tw_status hand_arg(struct tw_hand *hand, const struct made *m, uint32_t k)
{
	const const_dnnl_primitive_desc_t pd = desc_of(m);
	dnnl_exec_arg_t *arg = &hand->arg[m->first + k];
	const dnnl_memory_desc_t *md;

	arg->arg = k < m->args ? m->arg[k] : DNNL_ARG_SCRATCHPAD;
	md = k < m->args ? dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg->arg)
			 : dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
	HOLDS(2, md && md->ndims); /* an op asked to pass an argument that there is not */
	return tw_onednn_status(dnnl_memory_create(&arg->memory, md, engine, DNNL_MEMORY_NONE));
}

static enum tw_status hand_fill(struct tw_hand *hand)
{
	const struct tw_onednn *kit = hand->kit;
	enum tw_status st = tw_onednn_status(
		dnnl_stream_create(&hand->stream, engine, dnnl_stream_default_flags));

	for (uint32_t i = 0; st == TW_OK && i < kit->count; i++)
		for (uint32_t k = 0; st == TW_OK && k < kit->made[i].args + kit->made[i].scratch;
		     k++)
			st = hand_arg(hand, &kit->made[i], k);
	return st;
}

static struct tw_hand *hand_new(struct tw_onednn *kit)
{
	struct tw_hand *hand = NULL;

	if (has_room(HAND_ROOM))
		hand = tw_heap_zeros(kit->heap,
				     sizeof *hand + kit->slots * sizeof(dnnl_exec_arg_t));
	if (!hand)
		return NULL;
	hand->kit = kit;
	hand->count = kit->count;
	hand->slots = kit->slots;
	if (hand_fill(hand) == TW_OK)
		return hand;
	hand_free(hand);
	return NULL;
}

struct tw_hand *tw_onednn_take(struct tw_onednn *kit)
{
	const uint32_t before = tw_onednn_threads(1);
	struct tw_hand *hand;

	pthread_mutex_lock(&kit->lock);
	hand = kit->rest;
	if (hand)
		kit->rest = hand->next;
	pthread_mutex_unlock(&kit->lock);
	if (hand && hand->count != kit->count) { /* primitives came after it */
		hand_free(hand);
		hand = NULL;
	}
	if (!hand)
		hand = hand_new(kit);
	if (hand)
		hand->threads = before;
	else
		tw_onednn_threads(before);
	return hand;
}

void tw_onednn_give(struct tw_onednn *kit, struct tw_hand *hand)
{
	if (!hand)
		return;
	tw_onednn_threads(hand->threads);
	pthread_mutex_lock(&kit->lock);
	hand->next = kit->rest;
	kit->rest = hand;
	pthread_mutex_unlock(&kit->lock);
}

enum tw_status tw_onednn_describe(const struct tw_shape *s, uint32_t batch, int layout,
				  dnnl_memory_desc_t *out)
{
	static const dnnl_format_tag_t tag[] = {
		[TW_LAYOUT_PLAIN] = dnnl_nchw,
		[TW_LAYOUT_LAST] = dnnl_nhwc,
		[TW_LAYOUT_BLOCK16] = dnnl_nChw16c,
	};
	const dnnl_dims_t d = { batch, s->d[0], s->d[1], s->d[2] };

	if (s->rank == 1)
		return tw_onednn_status(dnnl_memory_desc_init_by_tag(out, 2, d, dnnl_f32, dnnl_ab));
	if (s->rank != 3 || (layout == TW_LAYOUT_BLOCK16 && s->d[0] % 16 != 0))
		return TW_BAD_INPUT;
	return tw_onednn_status(dnnl_memory_desc_init_by_tag(out, 4, d, dnnl_f32, tag[layout]));
}
