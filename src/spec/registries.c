/* SPDX-License-Identifier: Apache-2.0 */
/* registries.c - the tables of variants, and the fields of a job that take names from them.
 *
 *  (1) a field that is asked for has a row. */
#include "spec/registries.h"

#include "graph/loss.h"
#include "spec/field.h"
#include "spec/optimiser.h"
#include "strategy/outer.h"

#include <stdio.h>
#include <string.h>

/* "0.001; usually 1e-05 to 0.01". */
static const char *rates(const struct tw_variant *v, char *out, size_t room)
{
	const struct tw_usual_rate *r = &((const struct tw_rule *)v)->rate;

	snprintf(out, room, "%g; usually %g to %g", r->standard, r->low, r->high);
	return out;
}

#define AT(member) offsetof(struct tw_job, member)
#define ROW(field_, kind_, heads_, prefix_, chosen_, options_, ...)                                \
	{                                                                                          \
		.field = field_, .kind = kind_, .heads = heads_, .prefix = prefix_,                \
		.chosen = chosen_, .options = options_, __VA_ARGS__                                \
	}

/* In the order of the groups that they make (tw_group_at). */
const struct tw_registry tw_registries[] = {
	ROW("data.source", "data source", tw_source_heads, "data.", AT(data.from), AT(data.options),
	    .none = true, .title = "Data sources", .list = TW_LIST_NETWORKS),
	ROW("model.name", "network", tw_zoo_heads, "model.", AT(network.zoo), AT(network.options),
	    .also = "model", .title = "Networks", .fields = "model", .list = TW_LIST_NETWORKS),
	ROW("loss.name", "loss", tw_loss_heads, "loss.", AT(loss.op), AT(loss.options),
	    .also = "loss"),
	ROW("strategy.gate", "gate", tw_gate_heads, "strategy.", AT(plan.gate),
	    AT(plan.gate_options), .always = true, .title = "Gates",
	    .about = "which decides when a gradient is applied"),
	ROW("strategy.staleness", "staleness policy", tw_staleness_heads, "strategy.",
	    AT(plan.staleness), AT(plan.staleness_options), .always = true,
	    .title = "Staleness policies", .about = "which corrects late gradients"),
	ROW("update.rule", "rule", tw_rule_heads, "update.", AT(plan.far.rule),
	    AT(plan.far.options), .title = "Rules", .more = "rate", .tell = rates,
	    .about = "which says what a gradient does to the parameters"),
	/* codec.up is a name, so that its options have names of their own */
	ROW("strategy.codec.up", "codec", tw_codec_heads, "strategy.codec.up_", AT(plan.traffic.up),
	    AT(plan.traffic.up_options), .always = true, .title = "Codecs", .list = TW_LIST_NEXT,
	    .about = "which encodes values for the network",
	    .fields = "strategy.codec.up, strategy.codec.down, strategy.codec.act"),
	ROW("strategy.codec.down", "codec", tw_codec_heads, "strategy.codec.down_",
	    AT(plan.traffic.down), AT(plan.traffic.down_options), .always = true,
	    .with = TW_CODEC_DOWN),
	ROW("strategy.codec.act", "codec", tw_codec_heads, "strategy.codec.act_",
	    AT(plan.traffic.act), AT(plan.traffic.act_options), .always = true,
	    .with = TW_CODEC_DOWN),
	/* the near half until both are known: bind_outer exchanges them */
	ROW("strategy.outer.rule", "outer rule", tw_outer_heads, "strategy.outer.",
	    AT(plan.near.rule), AT(plan.near.options), .none = true, .title = "Outer rules",
	    .about = "which says what a delta does to the parameters"),
	ROW("strategy.topology.schedule", "reduction", tw_reduction_heads, "strategy.topology.",
	    AT(plan.topology.reduction), 0, .title = "Reductions", .list = TW_LIST_NEXT,
	    .about = "which adds up what workers contribute without a server"),
	ROW("strategy.topology.mixing", "mixing", tw_mixing_heads, "strategy.topology.",
	    AT(plan.topology.mixing), 0, .title = "Mixings", .list = TW_LIST_NEXT,
	    .about = "which keeps replicas that differ close to each other"),
	ROW("optimiser.name", "optimiser", tw_optimiser_heads, "optimiser.",
	    AT(plan.optimising.method), AT(plan.optimising.options), .also = "optimiser",
	    .none = true, .any = tw_optimising_rows, .any_at = AT(optimiser), .title = "Optimisers",
	    .list = TW_LIST_LAST, .about = "a batch method with a line search"),
	ROW("strategy.pipeline.schedule", "pipeline", tw_pipeline_heads, "strategy.pipeline.",
	    AT(plan.staging.schedule), AT(plan.staging.options), .none = true,
	    .any = tw_pipeline_rows, .any_at = AT(strategy), .title = "Pipelines",
	    .list = TW_LIST_NEXT, .about = "the order in which stages compute micro-batches"),
	ROW("strategy.local.rule", "rule", tw_rule_heads, "strategy.local.", AT(plan.local.rule),
	    AT(plan.local.options), .without = TW_RULE_PER_WORKER, .none = true,
	    .any = tw_local_rows, .any_at = AT(strategy), .any_called = "any rule"),
	{ .field = NULL },
};

const struct tw_registry *tw_registry_of(const char *field)
{
	const struct tw_registry *g = tw_registries;

	while (g->field && strcmp(g->field, field) != 0)
		g++;
	HOLDS(1, g->field);
	return g;
}

const char *tw_name_at(const char *field, size_t k, const char **help)
{
	const bool presets = strcmp(field, "strategy") == 0 || strcmp(field, "strategy.name") == 0;

	for (const struct tw_preset *p = tw_presets; presets && p->name; p++)
		if (k-- == 0) {
			*help = p->help;
			return p->name;
		}
	for (const struct tw_registry *g = tw_registries; g->field; g++) {
		if (strcmp(g->field, field) != 0 && (!g->also || strcmp(g->also, field) != 0))
			continue;
		for (const struct tw_variant *const *v = g->heads; *v; v++)
			if (tw_variant_fits(*v, g->with, g->without) && k-- == 0) {
				*help = (*v)->help;
				return (*v)->name;
			}
	}
	return NULL;
}
