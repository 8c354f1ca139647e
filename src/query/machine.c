/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - what is on this machine: sources of data, libraries that networks need. */
#include "query/query.h"

#include "graph/onednn.h"

#include <zlib.h>

json_t *tw_query_sources(const char *cache)
{
	json_t *o = json_object(), *sources = json_array(), *sets = json_array();

	json_array_append_new(sources,
			      json_pack("{s:s, s:s}", "name", "none", "help",
					"for quadratic and least-squares: the model generates "
					"its samples"));
	for (size_t k = 0; tw_source_all[k]; k++)
		json_array_append_new(sources,
				      json_pack("{s:s, s:s}", "name", tw_source_all[k]->name,
						"help", tw_source_all[k]->help));
	for (size_t k = 0; tw_source_all[k]; k++) {
		const struct tw_source *s = tw_source_all[k];
		struct tw_error why = { 0 };
		enum tw_status st;

		if (!s->recipe)
			continue;
		st = *cache ? tw_data_verify(s->name, cache, &why) : TW_ABSENT;
		json_array_append_new(sets,
				      json_pack("{s:s, s:s, s:s, s:s}", "name", s->name, "help",
						s->recipe->help, "needs", s->recipe->needs, "state",
						st == TW_OK          ? "whole"
						: st == TW_BAD_BYTES ? "damaged"
								     : "absent"));
	}
	json_object_set_new(o, "sources", sources);
	json_object_set_new(o, "fetchable", sets);
	json_object_set_new(o, "cache", json_string(cache));
	return o;
}

static const char *isa_name(dnnl_cpu_isa_t isa)
{
	static const struct {
		dnnl_cpu_isa_t isa;
		const char *name;
	} names[] = {
		{ dnnl_cpu_isa_sse41, "sse41" },
		{ dnnl_cpu_isa_avx, "avx" },
		{ dnnl_cpu_isa_avx2, "avx2" },
		{ dnnl_cpu_isa_avx2_vnni, "avx2_vnni" },
		{ dnnl_cpu_isa_avx512_core, "avx512_core" },
		{ dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni" },
		{ dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16" },
		{ dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx" },
	};

	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
		if (names[k].isa == isa)
			return names[k].name;
	return "an instruction set without a name here";
}

json_t *tw_query_libraries(void)
{
	const dnnl_version_t *v = dnnl_version();
	char version[120];

	snprintf(version, sizeof version, "%d.%d.%d, will use %s", v->major, v->minor, v->patch,
		 isa_name(tw_onednn_effective_isa()));
	return json_pack("{s:s, s:s}", "onednn", version, "zlib", zlibVersion());
}
