# What stands around the code: labels of tests, tests that are scripts, installation.

include(GNUInstallDirs)

# A test file may say `/* labels: full threads */` near its top.
#   full     only under ./check --full; test_full_*.c is so by its name
#   threads  also runs under ThreadSanitizer; *threads*.c is so by its name
#   serial   measures time: nothing else runs beside it
#   waits    mostly waits: others may run beside it
#   numbers  numbers of networks and kernels: also runs with THALWEG_ISA=avx2; tests of the rooms
#            that compute are so by their name
# ./check has five places for two cores: a test takes two, or one if it mostly waits.
function(tw_label_tests)
	get_property(tests DIRECTORY PROPERTY TESTS)
	set(with_threads)
	foreach(test ${tests})
		if(NOT TARGET ${test})
			continue()
		endif()
		get_target_property(sources ${test} SOURCES)
		list(GET sources 0 source)
		file(STRINGS ${source} line REGEX "^/\\* labels: [a-z ]+ \\*/$" LIMIT_COUNT 1)
		string(REGEX REPLACE "^/\\* labels: ([a-z ]+) \\*/$" "\\1" labels "${line}")
		separate_arguments(labels)
		if(test MATCHES "_test_full_")
			list(APPEND labels full)
		endif()
		if(test MATCHES "threads")
			list(APPEND labels threads)
		endif()
		if(test MATCHES "^(vec|graph|model|strategy|engine)_test_")
			list(APPEND labels numbers)
		endif()
		foreach(label ${labels})
			if(NOT label MATCHES "^(full|threads|serial|waits|numbers)$")
				message(FATAL_ERROR "${source}: unknown label '${label}'; "
					"full, threads, serial, waits and numbers are known")
			endif()
		endforeach()
		list(REMOVE_DUPLICATES labels)
		set_tests_properties(${test} PROPERTIES LABELS "${labels}")
		if(NOT waits IN_LIST labels)
			set_tests_properties(${test} PROPERTIES PROCESSORS 2)
		endif()
		if(serial IN_LIST labels)
			set_tests_properties(${test} PROPERTIES RUN_SERIAL TRUE)
		endif()
		if(threads IN_LIST labels)
			list(APPEND with_threads ${test})
		endif()
	endforeach()
	# What ThreadSanitizer looks at, and the program, which some of them start.
	add_custom_target(threads_tests)
	if(with_threads)
		add_dependencies(threads_tests ${with_threads})
	endif()
	if(TARGET thalweg)
		add_dependencies(threads_tests thalweg)
	endif()
endfunction()

# tw_script(name labels command...): a test that is a script; exit code 77 means skipped.  Those of
# clusters, of dying ranks and of sessions mostly wait.
function(tw_script name labels)
	set(places 2)
	if(name MATCHES "^(cluster_|mpi_deaths|mpi_session|session)")
		set(places 1)
	endif()
	tw_metered(meter ${name} ${labels})
	add_test(NAME ${name} COMMAND ${meter} ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(${name} PROPERTIES LABELS "${labels}" SKIP_RETURN_CODE 77
		PROCESSORS ${places} TIMEOUT 3600 ENVIRONMENT "TW_BUILD=${CMAKE_BINARY_DIR}")
endfunction()

if(TW_TESTS)
	tw_label_tests()
	if(NOT TW_SANITIZE)
		set(here ${CMAKE_SOURCE_DIR}/test)
		tw_script(layers "" bash ${here}/layers.sh)
		tw_script(layers_self_test "" bash ${here}/layers.sh --self-test)
		tw_script(names "" python3 ${here}/names.py)
		tw_script(names_self_test "" python3 ${here}/names.py --self-test)
		tw_script(format "" bash ${here}/format.sh)
		tw_script(unused "" python3 ${here}/unused.py)
		tw_script(unused_self_test "" python3 ${here}/unused.py --self-test)
		tw_script(docs "" bash ${here}/docs.sh)
		tw_script(bench_tables "" python3 ${CMAKE_SOURCE_DIR}/docs/benchmarks/tables.py --check)
		tw_script(bench_tables_self_test ""
			python3 ${CMAKE_SOURCE_DIR}/docs/benchmarks/tables.py --self-test)
		tw_script(curves "" python3 ${here}/curves.py)
		tw_script(firecaffe full python3 ${here}/curves.py firecaffe)
		tw_script(tally_self_test "" python3 ${here}/tally.py --self-test)
		tw_script(meter_self_test "" bash ${here}/meter.sh)
		tw_script(digests "" python3 ${here}/digests.py ${CMAKE_BINARY_DIR}/thalweg)
		# no file of src is in a cycle
		file(GLOB free RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/src/*)
		list(TRANSFORM free REPLACE "(.+)" "--free;\\1")
		set(circles ${free}
			# duties are in no circle, have one header each, and only dispatchers name their tables
			--acyclic src/node/duty --data --doors src/node/duty
			--only src/node/duty=src/node/master/master.c,src/node/shard/shard.c,src/node/worker/worker.c)
		tw_script(cycles "" python3 ${here}/cycles.py ${CMAKE_BINARY_DIR} ${circles})
		tw_script(cycles_planted "" python3 ${here}/cycles.py ${CMAKE_BINARY_DIR} --planted
			${circles})
		tw_script(cycles_self_test "" python3 ${here}/cycles.py --self-test)
		tw_script(structs "" python3 ${here}/structs.py)
		tw_script(structs_self_test "" python3 ${here}/structs.py --self-test)
		tw_script(wire_doc "" bash ${here}/wire_doc.sh)
		tw_script(security_doc "" bash ${here}/security_doc.sh)
		tw_script(install "" bash ${here}/install.sh)
		tw_script(abi "" bash ${here}/abi.sh)
		tw_script(session "" python3 ${here}/session.py ${CMAKE_BINARY_DIR}/thalweg
			${CMAKE_BINARY_DIR}/libthalweg.so)
		tw_script(session_full full python3 ${here}/session.py ${CMAKE_BINARY_DIR}/thalweg
			${CMAKE_BINARY_DIR}/libthalweg.so --runs 60)
		tw_script(disk full python3 ${here}/disk.py ${CMAKE_BINARY_DIR}/thalweg)
		tw_script(library "" bash ${here}/library.sh)
		tw_script(add_variant "" bash ${here}/add_variant.sh)
		tw_script(add_row "" bash ${here}/add_row.sh)
		tw_script(add_duty full bash ${here}/add_duty.sh)
		tw_script(add_variant_full full bash ${here}/add_variant.sh --full)
		tw_script(results_self_test "" python3 ${CMAKE_SOURCE_DIR}/results --self-test)
		tw_script(report_page full bash ${here}/compare/report_page.sh)
		tw_script(journey full python3 ${here}/journey/journey.py)
		tw_script(cppcheck full bash ${here}/cppcheck.sh)
		tw_script(three_machines full bash ${here}/cluster/three_machines.sh)
		if(EXISTS /usr/bin/python3)
			tw_script(cluster_faults "" /usr/bin/python3 ${here}/cluster/faults.py)
			tw_script(cluster_waits "" /usr/bin/python3 ${here}/cluster/waits.py)
			tw_script(cluster_links "" /usr/bin/python3 ${here}/cluster/links.py)
			tw_script(cluster_peers "" /usr/bin/python3 ${here}/cluster/peers.py)
			tw_script(cluster_peers_full full /usr/bin/python3
				${here}/cluster/peers.py --full)
			tw_script(cluster_stages "" /usr/bin/python3 ${here}/cluster/stages.py)
			tw_script(cluster_stages_full full /usr/bin/python3
				${here}/cluster/stages.py --full)
			tw_script(cluster_keep "" /usr/bin/python3 ${here}/cluster/keep.py)
			tw_script(cluster_deltas "" /usr/bin/python3 ${here}/cluster/deltas.py)
			tw_script(cluster_optimiser "" /usr/bin/python3
				${here}/cluster/optimiser.py)
			tw_script(cluster_deltas_full full /usr/bin/python3
				${here}/cluster/deltas.py --full)
			tw_script(cluster_large_model numbers /usr/bin/python3
				${here}/cluster/large_model.py)
			tw_script(cluster_large_model_full full /usr/bin/python3
				${here}/cluster/large_model.py --full)
			tw_script(cluster_residuals "" /usr/bin/python3 ${here}/cluster/residuals.py)
			tw_script(cluster_on_demand "" /usr/bin/python3 ${here}/cluster/on_demand.py)
			tw_script(cluster_residuals_full full /usr/bin/python3
				${here}/cluster/residuals.py --full)
			tw_script(cluster_faults_full full /usr/bin/python3
				${here}/cluster/full.py)
			tw_script(cluster_links_full full /usr/bin/python3
				${here}/cluster/links.py --full)
			tw_script(cluster_hostile "" /usr/bin/python3 ${here}/cluster/hostile.py)
			tw_script(cluster_false_peers "" /usr/bin/python3
				${here}/cluster/false_peers.py)
			tw_script(cluster_one_frame "" /usr/bin/python3
				${here}/cluster/one_frame.py)
			tw_script(cluster_one_frame_full full /usr/bin/python3
				${here}/cluster/one_frame.py --full)
			tw_script(cluster_liars "" /usr/bin/python3 ${here}/cluster/liars.py)
			tw_script(cluster_scarce "" /usr/bin/python3 ${here}/cluster/scarce.py)
			tw_script(cluster_early_signals "" /usr/bin/python3
				${here}/cluster/early_signals.py)
			tw_script(cluster_early_signals_full full /usr/bin/python3
				${here}/cluster/early_signals.py --many)
			# a quarter of an hour: ./check --full lets it run beside the fuzzers
			tw_script(cluster_soak soak /usr/bin/python3 ${here}/cluster/soak.py)
			tw_script(mpi_worlds "" /usr/bin/python3 ${here}/mpi/worlds.py)
			tw_script(mpi_refusals "" /usr/bin/python3 ${here}/mpi/refusals.py)
			tw_script(mpi_session "" /usr/bin/python3 ${here}/mpi/session.py
				${CMAKE_BINARY_DIR}/libthalweg.so)
			tw_script(mpi_session_full full /usr/bin/python3 ${here}/mpi/session.py
				${CMAKE_BINARY_DIR}/libthalweg.so --full)
			tw_script(mpi_deaths "" /usr/bin/python3 ${here}/mpi/deaths.py)
			tw_script(mpi_worlds_full full /usr/bin/python3
				${here}/mpi/worlds.py --full)
			tw_script(mpi_deaths_full full /usr/bin/python3
				${here}/mpi/deaths.py --full)
			tw_script(mpi_slurm full /usr/bin/python3 ${here}/mpi/slurm.py)
			# as many ranks as the machine has cores, and more
			set_tests_properties(mpi_worlds PROPERTIES PROCESSORS 4)
			tw_script(export_c_file numbers /usr/bin/python3
				${here}/export/c_file.py)
			tw_script(sklearn_figures numbers /usr/bin/python3
				${here}/sklearn/figures.py)
			tw_script(sklearn_c_files full /usr/bin/python3
				${here}/sklearn/tables.py $<TARGET_FILE:thalweg> --c-files)
			tw_script(scipy_student full /usr/bin/python3 ${here}/scipy/student.py)
			tw_script(scipy_optimiser full /usr/bin/python3 ${here}/scipy/optimiser.py)
			tw_script(torch_rules full /usr/bin/python3 ${here}/strategy/torch_rules.py)
			add_executable(network_probe ${here}/torch/network_probe.c)
			target_link_libraries(network_probe PRIVATE tw_query)
			set_target_properties(network_probe PROPERTIES
				RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
			tw_script(torch_networks full /usr/bin/python3 ${here}/torch/networks.py)
			tw_script(torch_groups "" /usr/bin/python3 ${here}/torch/groups.py)
			tw_script(torch_tables full /usr/bin/python3 ${here}/torch/tables.py)
			tw_script(torch_moby_dick full /usr/bin/python3 ${here}/torch/moby_dick.py)
			tw_script(torch_standalone full /usr/bin/python3 ${here}/torch/standalone.py)
			tw_script(torch_attention "" /usr/bin/python3 ${here}/torch/standalone.py
				attention)
		endif()
		tw_script(clean_clone full bash ${here}/clean_clone.sh)
		set_tests_properties(clean_clone PROPERTIES RUN_SERIAL TRUE)
	endif()
	tw_order_tests()
endif()

if(TARGET thalweg)
	install(TARGETS thalweg RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md"
	PATTERN "*.svg")
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS FILES_MATCHING
	PATTERN "*.yaml" PATTERN "*.sh"
	PATTERN "*.c")
