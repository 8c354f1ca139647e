# The manual page, made by the program from its own tables; tests of cli/ start the program.

if(TARGET thalweg)
	add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/thalweg.1
		COMMAND thalweg help --man > ${CMAKE_BINARY_DIR}/thalweg.1
		DEPENDS thalweg VERBATIM)
	add_custom_target(man ALL DEPENDS ${CMAKE_BINARY_DIR}/thalweg.1)
	install(FILES ${CMAKE_BINARY_DIR}/thalweg.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

	get_property(tests DIRECTORY PROPERTY TESTS)
	foreach(test ${tests})
		if(test MATCHES "^cli_" AND TARGET ${test})
			add_dependencies(${test} thalweg)
		endif()
	endforeach()
endif()
