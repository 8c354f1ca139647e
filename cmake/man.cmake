# What the program makes from its own tables: the manual page, scripts that let shells complete
# commands, and, on demand, docs/REFERENCE.md.  Tests of cli/ start the program.

if(TARGET thalweg)
	add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/thalweg.1
		COMMAND thalweg help --man > ${CMAKE_BINARY_DIR}/thalweg.1
		DEPENDS thalweg VERBATIM)
	add_custom_target(man ALL DEPENDS ${CMAKE_BINARY_DIR}/thalweg.1)
	install(FILES ${CMAKE_BINARY_DIR}/thalweg.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

	# docs/REFERENCE.md and the manual page; a program that fails leaves the page as it was.
	set(page ${CMAKE_BINARY_DIR}/REFERENCE.md)
	add_custom_target(reference COMMAND thalweg help options --markdown > ${page}
		COMMAND ${CMAKE_COMMAND} -E copy_if_different ${page} ${CMAKE_SOURCE_DIR}/docs
		DEPENDS man VERBATIM)

	# Shells look for these names in these folders.
	set(bash_script bash-completion/completions/thalweg)
	set(zsh_script zsh/site-functions/_thalweg)
	set(fish_script fish/vendor_completions.d/thalweg.fish)
	set(scripts)
	foreach(shell bash zsh fish)
		set(script ${CMAKE_BINARY_DIR}/share/${${shell}_script})
		get_filename_component(folder ${script} DIRECTORY)
		file(MAKE_DIRECTORY ${folder})
		add_custom_command(OUTPUT ${script} COMMAND thalweg completion ${shell} > ${script}
			DEPENDS thalweg VERBATIM)
		list(APPEND scripts ${script})
		get_filename_component(folder ${${shell}_script} DIRECTORY)
		install(FILES ${script} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
	endforeach()
	add_custom_target(completion ALL DEPENDS ${scripts})

	get_property(tests DIRECTORY PROPERTY TESTS)
	foreach(test ${tests})
		if(test MATCHES "^cli_" AND TARGET ${test})
			add_dependencies(${test} thalweg)
		endif()
	endforeach()
endif()
