# Plugins for MPI, one for each that is found: the same source, compiled and linked with that MPI.
# The program opens them at run time; nothing else links MPI.

include(GNUInstallDirs)
set(plugins ${CMAKE_INSTALL_LIBDIR}/thalweg)
if(TARGET tw_world)
	set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/world/mpi/mpi_load.c APPEND PROPERTY COMPILE_DEFINITIONS
		TW_PLUGIN_FOLDER="${CMAKE_INSTALL_FULL_LIBDIR}/thalweg")
endif()

function(tw_mpi_plugin name title module)
	string(TOUPPER ${name} upper)
	pkg_check_modules(${upper} IMPORTED_TARGET ${module})
	if(NOT ${upper}_FOUND)
		message(STATUS "${title} was not found: the world mpi cannot use it")
		return()
	endif()
	file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/mpi/*.c)
	add_library(thalweg-${name} MODULE ${sources})
	target_include_directories(thalweg-${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
	target_compile_definitions(thalweg-${name} PRIVATE _GNU_SOURCE TW_MPI_NAME="${title}")
	target_compile_options(thalweg-${name} PRIVATE -Wall -Wextra -Wshadow -Wno-unused-parameter
		-Wno-stringop-overflow # MPI_STATUSES_IGNORE of MPICH is an address of no memory
		-ffp-contract=off $<$<CONFIG:Release>:-O3> $<$<BOOL:${TW_WERROR}>:-Werror>)
	target_link_libraries(thalweg-${name} PRIVATE PkgConfig::${upper})
	set_target_properties(thalweg-${name} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
	if(TARGET thalweg)
		add_dependencies(thalweg thalweg-${name})
	endif()
	install(TARGETS thalweg-${name} LIBRARY DESTINATION ${plugins})
endfunction()

if(NOT TW_FUZZ AND NOT TW_SANITIZE)
	tw_mpi_plugin(openmpi "Open MPI" ompi-c)
	tw_mpi_plugin(mpich "MPICH" mpich)
endif()
