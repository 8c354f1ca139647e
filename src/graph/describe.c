/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - a program for people: one line per step. */
#include "graph/inner.h"

static const char *const verb[] = {
	[TW_STEP_FORWARD] = "forward",   [TW_STEP_BACKWARD] = "backward",
	[TW_STEP_REORDER] = "reorder",   [TW_STEP_ADD] = "add gradient",
	[TW_STEP_SUM] = "sum gradients", [TW_STEP_ZERO] = "no gradient",
	[TW_STEP_COPY] = "copy",
};

static void print_shapes(const struct tw_item *item, FILE *out)
{
	const struct tw_op_site *site = &item->site;
	char text[40];

	for (uint32_t k = 0; k < site->ins; k++)
		fprintf(out, "%s%s", k ? "," : " ", tw_shape_text(&site->in[k], text));
	if (site->out.rank)
		fprintf(out, " -> %s", tw_shape_text(&site->out, text));
	if (site->in[0].rank == 3)
		fprintf(out, " %s", tw_layout_name(site->in_layout[0]));
	if (site->out.rank == 3 && site->out_layout != site->in_layout[0])
		fprintf(out, " -> %s", tw_layout_name(site->out_layout));
}

static void print_primitives(const struct tw_program *p, const struct tw_step *step, FILE *out)
{
	const struct tw_item *item = &p->net.item[step->item];
	const enum tw_onednn_way way =
		step->kind == TW_STEP_FORWARD ? TW_KIT_FORWARD : TW_KIT_BACKWARD;
	const char *between = " by ";

	for (uint32_t k = item->kit_first; k < item->kit_last; k++) {
		if (!(tw_onednn_way(p->kit, k) & way))
			continue;
		fprintf(out, "%s%s", between, tw_onednn_implementation(p->kit, k));
		between = ", ";
	}
}

static void print_op(const struct tw_program *p, const struct tw_step *step, FILE *out)
{
	const struct tw_item *item = &p->net.item[step->item];
	const struct tw_graph_node *node = &p->net.graph->node[item->node];

	fprintf(out, "%s%s%s", node->name, node->name[0] ? " " : "", node->op->name);
	print_shapes(item, out);
	if (item->site.relu_in)
		fprintf(out, " behind relu");
	if (item->site.relu && step->kind == TW_STEP_FORWARD)
		fprintf(out, " with relu");
	if (step->kind == TW_STEP_FORWARD && step->in[0] == step->out)
		fprintf(out, " in place");
	if (step->kind == TW_STEP_BACKWARD && step->in_gradient[0] == step->out_gradient)
		fprintf(out, " in place");
	print_primitives(p, step, out);
}

static void print_reorder(const struct tw_program *p, const struct tw_step *step, FILE *out)
{
	const struct tw_item *item = &p->net.item[step->item];
	const struct tw_graph_node *node = &p->net.graph->node[item->node];
	const char *producer = tw_layout_name(p->net.item[item->in[0]].layout);
	const char *reader = tw_layout_name(item->layout);
	const bool back = step->primitive == item->back && item->needs;
	char text[40];

	fprintf(out, "%s%s%s %s -> %s by %s", node->name, node->name[0] ? " " : "",
		tw_shape_text(&node->shape, text), back ? reader : producer,
		back ? producer : reader, tw_onednn_implementation(p->kit, step->primitive));
}

void tw_program_describe(const struct tw_program *p, FILE *out)
{
	const struct tw_list *list = tw_program_list(p);

	for (uint32_t k = 0; k < list->steps; k++) {
		const struct tw_step *step = &list->step[k];
		const struct tw_graph_node *node;

		fprintf(out, "%3u %-13s ", k, verb[step->kind]);
		switch (step->kind) {
		case TW_STEP_FORWARD:
		case TW_STEP_BACKWARD:
			print_op(p, step, out);
			break;
		case TW_STEP_REORDER:
			print_reorder(p, step, out);
			break;
		case TW_STEP_ZERO:
			node = &p->net.graph->node[step->item];
			fprintf(out, "%s%s%s", node->name, node->name[0] ? " " : "",
				node->op->name);
			break;
		default:
			node = &p->net.graph->node[p->net.item[step->item].node];
			fprintf(out, "of %s", node->op ? node->name : "the input");
		}
		fputc('\n', out);
	}
}
