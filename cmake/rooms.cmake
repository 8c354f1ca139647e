# One static library per room of src/, in the order of LAYERS; registries made from folders;
# one test program per test/<room>/test_*.c, linked with that room and those below it.

add_library(tw_flags INTERFACE)
target_include_directories(tw_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include
	${CMAKE_BINARY_DIR}/gen)
target_compile_definitions(tw_flags INTERFACE _GNU_SOURCE TW_VERSION="${PROJECT_VERSION}")
target_compile_options(tw_flags INTERFACE -Wall -Wextra -Wshadow -Wstrict-prototypes
	-Wmissing-prototypes -Wpointer-arith -Wvla -Wno-unused-parameter -Wno-missing-field-initializers
	-ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing
	$<$<BOOL:${TW_WERROR}>:-Werror>)
if(TW_SANITIZE)
	# with assertions: no preset that ./check runs has them otherwise
	target_compile_options(tw_flags INTERFACE -UNDEBUG -fsanitize=${TW_SANITIZE}
		-fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(tw_flags INTERFACE -fsanitize=${TW_SANITIZE})
	target_compile_definitions(tw_flags INTERFACE TW_SANITIZED)
endif()
target_link_libraries(tw_flags INTERFACE Threads::Threads m PkgConfig::YAML PkgConfig::JANSSON
	PkgConfig::XXHASH)

# tw_registry(kind folder): every file of the folder, which is a room's, is a variant named like it.
function(tw_registry kind folder)
	file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.c)
	set(out ${CMAKE_BINARY_DIR}/gen/${kind}_all.c)
	add_custom_command(OUTPUT ${out}
		COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/registry.sh ${kind} ${folder} ${out} ${files}
		DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/registry.sh VERBATIM)
	string(REGEX REPLACE "/.*" "" room ${folder})
	set(TW_GENERATED_${room} ${TW_GENERATED_${room}} ${out} PARENT_SCOPE)
endfunction()

function(tw_room room)
	cmake_parse_arguments(R "" "" "SOURCES;NEEDS;LIBRARIES" ${ARGN})
	file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.c)
	list(FILTER files EXCLUDE REGEX "/main\\.c$")
	list(APPEND files ${TW_GENERATED_${room}} ${R_SOURCES})
	if(NOT files)
		return()
	endif()
	add_library(tw_${room} STATIC ${files})
	target_link_libraries(tw_${room} PUBLIC tw_flags ${R_LIBRARIES})
	foreach(need ${R_NEEDS})
		if(TARGET tw_${need})
			target_link_libraries(tw_${room} PUBLIC tw_${need})
		endif()
	endforeach()
endfunction()

tw_registry(gate strategy/gate)
tw_registry(staleness strategy/staleness)
tw_registry(rule strategy/rule)
tw_registry(outer strategy/outer)
tw_registry(codec strategy/codec)
tw_registry(reduction strategy/reduction)
tw_registry(mixing strategy/mixing)
tw_registry(optimiser strategy/optimiser)
tw_registry(pipeline strategy/pipeline)
tw_registry(source data/source)
tw_registry(op_family graph/op)
tw_registry(loss graph/loss)
tw_registry(zoo model/zoo)
tw_registry(verb cli/verb)

set(torch_program ${CMAKE_BINARY_DIR}/gen/torch_program.c)
add_custom_command(OUTPUT ${torch_program}
	COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/embed.sh ${CMAKE_SOURCE_DIR}/src/bench/baseline/torch_bench.py
		tw_torch_program ${torch_program}
	DEPENDS ${CMAKE_SOURCE_DIR}/src/bench/baseline/torch_bench.py ${CMAKE_SOURCE_DIR}/cmake/embed.sh
	VERBATIM)

# The page of `thalweg compare`, and Chart.js as Debian packages it (libjs-chart.js).
find_file(TW_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH)
if(NOT TW_CHART_JS)
	message(FATAL_ERROR "Chart.js is needed (Debian's libjs-chart.js has it); run ./setup --build, "
		"or give -DTW_CHART_JS=/path/to/chart.min.js")
endif()
set(page_parts)
foreach(part head body style script charts)
	set(from_head head.html)
	set(from_body body.html)
	set(from_style style.css)
	set(from_script script.js)
	set(file ${CMAKE_SOURCE_DIR}/src/compare/page/${from_${part}})
	if(part STREQUAL charts)
		set(file ${TW_CHART_JS})
	endif()
	set(out ${CMAKE_BINARY_DIR}/gen/page_${part}.c)
	add_custom_command(OUTPUT ${out}
		COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/embed.sh ${file} tw_report_${part} ${out}
		DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed.sh VERBATIM)
	list(APPEND page_parts ${out})
endforeach()

# What the public structs look like (thalweg_abi), from the public header.
set(abi_rows ${CMAKE_BINARY_DIR}/gen/abi_rows.c)
add_custom_command(OUTPUT ${abi_rows}
	COMMAND sh ${CMAKE_SOURCE_DIR}/cmake/abi.sh ${CMAKE_SOURCE_DIR}/include/thalweg.h ${abi_rows}
	DEPENDS ${CMAKE_SOURCE_DIR}/include/thalweg.h ${CMAKE_SOURCE_DIR}/cmake/abi.sh VERBATIM)

tw_room(base LIBRARIES PkgConfig::OPENSSL)
tw_room(vec NEEDS base)
tw_room(data NEEDS vec base LIBRARIES ZLIB::ZLIB PkgConfig::PNG PkgConfig::JPEG)
tw_room(graph NEEDS vec base LIBRARIES ${DNNL_LIBRARY} OpenMP::OpenMP_C)
tw_room(model NEEDS graph vec base)
tw_room(strategy NEEDS vec base)
tw_room(actor NEEDS base)
tw_room(engine NEEDS model graph data actor vec base)
tw_room(node NEEDS strategy actor vec base)
tw_room(wire NEEDS actor base LIBRARIES PkgConfig::OPENSSL)
tw_room(world NEEDS wire actor base)
tw_room(planner NEEDS strategy base)
tw_room(cost NEEDS node world strategy actor base)
tw_room(spec NEEDS planner node world engine strategy actor model graph data vec base)
tw_room(checkpoint NEEDS spec node engine actor model graph data vec base)
tw_room(metrics NEEDS checkpoint spec node world actor vec base)
tw_room(run NEEDS metrics checkpoint spec node world wire engine strategy actor model graph data vec
	base)
tw_room(query NEEDS planner cost run metrics checkpoint spec strategy engine actor model graph data vec
	base)
tw_room(compare NEEDS run metrics checkpoint spec node world engine strategy actor model graph data
	vec base SOURCES ${page_parts})
tw_room(api NEEDS query run metrics checkpoint spec engine world wire actor model graph data vec base
	SOURCES ${abi_rows})
tw_room(bench NEEDS api query cost run metrics checkpoint spec node world wire engine strategy actor model
	graph data vec base SOURCES ${torch_program})
tw_room(web NEEDS metrics base LIBRARIES PkgConfig::MICROHTTPD)
tw_room(cli NEEDS web bench compare query run)

if(EXISTS ${CMAKE_SOURCE_DIR}/src/cli/main.c)
	add_executable(thalweg src/cli/main.c)
	target_link_libraries(thalweg PRIVATE tw_cli)
	set_target_properties(thalweg PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endif()

if(TW_TESTS)
	enable_testing()
	include(cmake/costs.cmake)
	# more than two hundred programs: gold links one in a third of the time
	find_program(TW_GOLD ld.gold)
	set(linker)
	if(TW_GOLD AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT TW_SANITIZE)
		set(linker -fuse-ld=gold)
	endif()
	pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
	# What tests of several rooms share; each takes only the files that it uses.
	file(GLOB kit CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/kit/*.c)
	add_library(tw_kit STATIC ${kit})
	target_include_directories(tw_kit PUBLIC ${CMAKE_SOURCE_DIR}/test)
	target_link_libraries(tw_kit PUBLIC tw_flags PkgConfig::CMOCKA)
	# test/job has whole jobs, from the file to the result: all rooms below the faces.
	add_library(tw_job INTERFACE)
	target_link_libraries(tw_job INTERFACE tw_query)
	foreach(room base vec data graph model strategy planner actor wire engine node world cost job compare
			bench web api cli)
		file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${room}/test_*.c)
		set(with tw_kit)
		if(TARGET tw_${room})
			list(APPEND with tw_${room}) # after tw_kit, which may need it
		endif()
		# other .c files beside the tests are their shared tools; they are compiled once
		file(GLOB tools CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/${room}/*.c)
		list(FILTER tools EXCLUDE REGEX "/test_[^/]*\\.c$")
		if(tools)
			add_library(${room}_tools STATIC ${tools})
			target_link_libraries(${room}_tools PUBLIC ${with})
			set(with ${room}_tools)
		endif()
		foreach(test ${tests})
			get_filename_component(name ${test} NAME_WE)
			set(target ${room}_${name})
			add_executable(${target} ${test})
			target_link_libraries(${target} PRIVATE ${with})
			# a test is run a few times only: what it tests and its tools have -O3
			target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
			target_link_options(${target} PRIVATE ${linker})
			set_target_properties(${target} PROPERTIES
				RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
			tw_metered(meter ${target})
			add_test(NAME ${target} COMMAND ${meter} $<TARGET_FILE:${target}>
				WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
			set_tests_properties(${target} PROPERTIES TIMEOUT 1800 ENVIRONMENT
				"TW_BUILD=${CMAKE_BINARY_DIR}")
		endforeach()
	endforeach()
endif()
