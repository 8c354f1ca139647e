/* SPDX-License-Identifier: Apache-2.0 */
/* choice.c - names that fields of a job take from the tables. */
#include "spec/choice.h"

#include "graph/loss.h"
#include "spec/field.h"
#include "strategy/outer.h"

#define CHOICES(all, field_, also_, what_, prefix_)                                                \
	for (size_t i = 0; (all)[i]; i++)                                                          \
		if (k-- == 0) {                                                                    \
			*out = (struct tw_choice){ field_,           also_, (all)[i]->name,        \
						   (all)[i]->help,   what_, prefix_,               \
						   (all)[i]->options };                            \
			return true;                                                               \
		}

bool tw_choice_at(size_t k, struct tw_choice *out)
{
	CHOICES(tw_source_all, "data.source", NULL, "a data source", "data.")
	CHOICES(tw_zoo_all, "model.name", "model", "a network", "model.")
	CHOICES(tw_gate_all, "strategy.gate", NULL,
		"a gate, which decides when a gradient is applied", "strategy.")
	CHOICES(tw_staleness_all, "strategy.staleness", NULL,
		"a staleness policy, which corrects late gradients", "strategy.")
	CHOICES(tw_rule_all, "update.rule",
		tw_rule_all[i]->traits & TW_RULE_PER_WORKER ? NULL : "strategy.local.rule",
		"a rule, which says what a gradient does to the parameters", "update.")
	CHOICES(tw_outer_all, "strategy.outer.rule", NULL,
		"an outer rule, which says what a delta does to the parameters", "strategy.outer.")
	CHOICES(tw_codec_all, "strategy.codec.up",
		tw_codec_all[i]->traits & TW_CODEC_DOWN ? "strategy.codec.down" : NULL,
		"a codec, which encodes values for the network", "strategy.codec.up_")
	CHOICES(tw_optimiser_all, "optimiser.name", "optimiser",
		"an optimiser, a batch method with a line search", "optimiser.")
	for (size_t i = 0; tw_reduction_all[i]; i++)
		if (k-- == 0) {
			*out = (struct tw_choice){
				"strategy.topology.schedule",
				NULL,
				tw_reduction_all[i]->name,
				tw_reduction_all[i]->help,
				"a reduction, which adds up what workers contribute without a "
				"server",
			};
			return true;
		}
	for (size_t i = 0; tw_mixing_all[i]; i++)
		if (k-- == 0) {
			*out = (struct tw_choice){
				"strategy.topology.mixing",
				NULL,
				tw_mixing_all[i]->name,
				tw_mixing_all[i]->help,
				"a mixing, which keeps replicas that differ close to each other",
			};
			return true;
		}
	CHOICES(tw_pipeline_all, "strategy.pipeline.schedule", "strategy.pipeline",
		"a pipeline, the order in which stages compute micro-batches", "strategy.pipeline.")
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		if (k-- == 0) {
			*out = (struct tw_choice){ "strategy", "strategy.name", p->name, p->help };
			return true;
		}
	for (size_t i = 0; tw_loss_all[i]; i++)
		if (k-- == 0) {
			const struct tw_op *op = &tw_loss_all[i]->op;

			*out = (struct tw_choice){ "loss", "loss.name", op->name,   op->help,
						   NULL,   "loss.",     op->options };
			return true;
		}
	return false;
}
