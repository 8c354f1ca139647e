# libthalweg.so and libthalweg.a: the rooms below the faces behind include/thalweg.h, with nothing
# global in either but thalweg_*; and what other programs find it by.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(rooms base vec data graph model strategy actor wire engine node world spec checkpoint metrics run query api)
list(TRANSFORM rooms PREPEND tw_)
# One set of objects serves the program and both libraries.
foreach(room ${rooms})
	if(TARGET ${room})
		set_target_properties(${room} PROPERTIES POSITION_INDEPENDENT_CODE ON
			C_VISIBILITY_PRESET hidden)
	endif()
endforeach()

# The sanitizers look at the rooms through the tests of api/.
if(NOT TARGET tw_api OR TW_SANITIZE)
	return()
endif()

set(TW_SONAME ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(map ${CMAKE_SOURCE_DIR}/cmake/thalweg.map)

add_library(thalweg_shared SHARED $<TARGET_OBJECTS:tw_api>)
target_link_libraries(thalweg_shared PRIVATE tw_query)
target_link_options(thalweg_shared PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined
	-Wl,--as-needed)
set_target_properties(thalweg_shared PROPERTIES OUTPUT_NAME thalweg LINKER_LANGUAGE C
	VERSION ${PROJECT_VERSION} SOVERSION ${TW_SONAME} LINK_DEPENDS ${map})

# All rooms in one object, so that what they share need not be global outside it.
set(archives)
foreach(room ${rooms})
	if(TARGET ${room})
		list(APPEND archives $<TARGET_FILE:${room}>)
	endif()
endforeach()
set(static ${CMAKE_BINARY_DIR}/libthalweg.a)
set(whole ${CMAKE_BINARY_DIR}/gen/thalweg.o)
add_custom_command(OUTPUT ${static}
	COMMAND ${CMAKE_LINKER} -r -o ${whole} $<TARGET_OBJECTS:tw_api> --start-group ${archives}
		--end-group
	COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=thalweg_* ${whole}
	COMMAND ${CMAKE_COMMAND} -E rm -f ${static}
	COMMAND ${CMAKE_AR} rcs ${static} ${whole}
	DEPENDS ${rooms} $<TARGET_OBJECTS:tw_api> COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(thalweg_static ALL DEPENDS ${static})

# What the static library needs beside itself; the shared one carries it in its own header.
set(TW_REQUIRES "yaml-0.1 jansson libxxhash zlib libpng libjpeg openssl")
set(TW_PRIVATE -ldnnl -lgomp -lm -lpthread)
set(TW_LINK -lyaml -ljansson -lxxhash -lz -lpng -ljpeg -lssl -lcrypto ${TW_PRIVATE})
list(JOIN TW_PRIVATE " " TW_PRIVATE)
# From where thalweg.pc will lie back to the prefix, so that an installed tree may be moved.
file(RELATIVE_PATH TW_PC_UP /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/thalweg.pc.in thalweg.pc @ONLY)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/thalweg)
configure_package_config_file(cmake/thalwegConfig.cmake.in thalwegConfig.cmake
	INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(thalwegConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS thalweg_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${static} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/thalweg.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/thalweg.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_BINARY_DIR}/thalwegConfig.cmake
	${CMAKE_BINARY_DIR}/thalwegConfigVersion.cmake DESTINATION ${package})
