# The fuzzers: one per fuzz/target_*.c, with the rooms compiled by clang for libFuzzer and its
# sanitizers.  Nothing else is built then: no tests, no libraries, no program.

if(TW_FUZZ)
	if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
		message(FATAL_ERROR "TW_FUZZ needs clang, for libFuzzer: cmake --preset fuzz")
	endif()
	enable_testing()
	set(TW_TESTS OFF)
	set(TW_WERROR OFF) # gcc has the say in warnings
	set(TW_SANITIZE fuzzer-no-link,address,undefined)
	add_compile_options(-O1 -gline-tables-only)
	# oneDNN brings gcc's OpenMP, whose header clang cannot read; this is all we use of it.
	file(CONFIGURE OUTPUT gen/omp.h CONTENT
		"int omp_get_max_threads(void);\nvoid omp_set_num_threads(int threads);\n")
	# Hashes are the library's, not inlined: with the sanitizers they would take most of the time.
	file(CONFIGURE OUTPUT gen/xxhash.h CONTENT "#undef XXH_INLINE_ALL
#ifndef XXH_STATIC_LINKING_ONLY
#define XXH_STATIC_LINKING_ONLY
#endif
#include_next <xxhash.h>
")
	add_library(OpenMP::OpenMP_C INTERFACE IMPORTED)
	target_link_libraries(OpenMP::OpenMP_C INTERFACE gomp)
endif()

# After the rooms: target `fuzzers`, and a test fuzz_<name> for each.
function(tw_fuzz_targets)
	if(NOT TW_FUZZ)
		return()
	endif()
	target_compile_options(tw_flags INTERFACE -Wno-unknown-pragmas)
	# Actors and worlds see no bytes that a fuzzer makes, and are linked only because others name
	# them: without sanitizers they take a fifth of the time to compile.
	get_target_property(actors tw_node SOURCES)
	list(FILTER actors INCLUDE REGEX "/src/node/(master|shard|worker|kernel|duty|reducer)/")
	get_target_property(worlds tw_world SOURCES)
	set_source_files_properties(${actors} ${worlds} PROPERTIES COMPILE_OPTIONS
		"-O0;-g0;-fno-sanitize=all;-fno-sanitize-coverage=trace-pc-guard,inline-8bit-counters,pc-table,trace-cmp,indirect-calls")
	add_custom_target(fuzzers)
	add_library(tw_fuzz STATIC fuzz/fuzz.c test/kit/one_frame.c test/kit/pictures.c)
	target_include_directories(tw_fuzz PUBLIC ${CMAKE_SOURCE_DIR}/test)
	# the highest rooms that read what strangers wrote: those above them are not compiled
	target_link_libraries(tw_fuzz PUBLIC tw_checkpoint tw_wire)
	file(GLOB targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/fuzz/target_*.c)
	foreach(source ${targets})
		get_filename_component(name ${source} NAME_WE)
		string(REPLACE target_ fuzz_ name ${name})
		add_executable(${name} ${source})
		target_link_libraries(${name} PRIVATE tw_fuzz)
		target_link_options(${name} PRIVATE -fsanitize=fuzzer)
		add_dependencies(fuzzers ${name})
		add_test(NAME ${name} COMMAND bash ${CMAKE_SOURCE_DIR}/fuzz/run.sh
			$<TARGET_FILE:${name}>)
		set_tests_properties(${name} PROPERTIES TIMEOUT 3600)
	endforeach()
	add_executable(make_seeds fuzz/make_seeds.c)
	target_link_libraries(make_seeds PRIVATE tw_fuzz tw_query)
endfunction()
