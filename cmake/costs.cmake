# What tests cost: a meter around each, its budget of CPU seconds, and the order of their start.
#
# test/costs.txt has the tests that take long or need more than the standard budget.

set(TW_BUDGET 30) # CPU seconds

# Rows "NAME SECONDS [BUDGET REASON]" as variables tw_seconds_NAME and tw_budget_NAME.
file(STRINGS ${CMAKE_SOURCE_DIR}/test/costs.txt rows REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/costs.txt)
set(tw_costs)
foreach(row ${rows})
	if(NOT row MATCHES "^([a-z0-9_]+) +([0-9]+)( +([0-9]+) +[a-z].*)?$")
		message(FATAL_ERROR "test/costs.txt: '${row}' is not NAME SECONDS [BUDGET REASON]")
	endif()
	list(APPEND tw_costs ${CMAKE_MATCH_1})
	set(tw_seconds_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
	set(tw_budget_${CMAKE_MATCH_1} ${CMAKE_MATCH_4})
endforeach()

if(NOT TW_SANITIZE)
	add_executable(meter ${CMAKE_SOURCE_DIR}/test/meter.c)
	target_compile_definitions(meter PRIVATE _GNU_SOURCE)
	set_target_properties(meter PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
	file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/times)
endif()

# tw_metered(out test labels...): the words before a test's command.  A test of ./check has a
# budget.  What is built with sanitizers has none and is not measured.
function(tw_metered out test)
	set(words)
	if(NOT TW_SANITIZE)
		set(budget ${TW_BUDGET})
		if(test MATCHES "_test_full_" OR "full" IN_LIST ARGN OR "soak" IN_LIST ARGN)
			set(budget 0)
		elseif(tw_budget_${test})
			set(budget ${tw_budget_${test}})
		endif()
		set(words $<TARGET_FILE:meter> ${CMAKE_BINARY_DIR}/times/${test} ${budget})
	endif()
	set(${out} ${words} PARENT_SCOPE)
endfunction()

# CTest starts the longest first, so that none runs alone at the end.
function(tw_order_tests)
	foreach(test ${tw_costs})
		if(TEST ${test})
			set_tests_properties(${test} PROPERTIES COST ${tw_seconds_${test}})
		elseif(NOT TW_SANITIZE)
			message(FATAL_ERROR "test/costs.txt: there is no test ${test}")
		endif()
	endforeach()
endfunction()
