# The Python package: where Debian's python3 finds it, and its tests.

# Files as they are, not compiled: one package for all versions of Python 3.  Debian's python3 looks
# in /usr/lib/python3/dist-packages and /usr/local/lib/python3.N/dist-packages.
install(CODE "
	set(root \"\${CMAKE_INSTALL_PREFIX}\")
	set(folder lib/python3/dist-packages)
	if(root STREQUAL \"/usr/local\")
		execute_process(COMMAND /usr/bin/python3 -c
			\"import sys; print('%d.%d' % sys.version_info[:2])\"
			OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
		if(found)
			set(folder lib/python\${found}/dist-packages)
		endif()
	endif()
	file(GLOB files \"${CMAKE_SOURCE_DIR}/python/thalweg/*.py\"
		\"${CMAKE_SOURCE_DIR}/python/thalweg/py.typed\")
	file(INSTALL \${files} DESTINATION \"\${root}/\${folder}/thalweg\")
")

if(TW_TESTS AND NOT TW_SANITIZE AND EXISTS /usr/bin/python3)
	tw_script(python "" /usr/bin/python3 ${CMAKE_SOURCE_DIR}/test/python/run.py)
	tw_script(python_full full /usr/bin/python3 ${CMAKE_SOURCE_DIR}/test/python/run.py --full)
	tw_script(docs_python full bash ${CMAKE_SOURCE_DIR}/test/docs.sh --python)
endif()
