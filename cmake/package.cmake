# `cpack` in the build directory makes a Debian package of everything that `cmake --install` installs.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME thalweg)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The authors of Thalweg <thalweg@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train one neural network on many machines")
set(CPACK_PACKAGE_DESCRIPTION "Program, C library with its header, and Python package.  Workers may
join, leave and fail; strategies range from synchronous to asynchronous, and the same job runs in
threads, on many machines, on the ranks of MPI or in a simulator.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Of Debian 12; test/package.sh compares them with what the program and the library are linked with.
# The plugins for MPI want theirs only where they are used.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6, libdnnl2, libgomp1, libjansson4, libjpeg62-turbo,
 libmicrohttpd12, libpng16-16, libssl3, libxxhash0, libyaml-0-2, zlib1g")
string(REPLACE "\n" "" CPACK_DEBIAN_PACKAGE_DEPENDS "${CPACK_DEBIAN_PACKAGE_DEPENDS}")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-numpy")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-torch, openmpi-bin | mpich")
# The loader learns of the library when the package comes and goes.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
include(CPack)

if(TW_TESTS AND NOT TW_SANITIZE)
	tw_script(package full bash ${CMAKE_SOURCE_DIR}/test/package.sh)
	tw_script(package_debian full bash ${CMAKE_SOURCE_DIR}/test/package_debian.sh)
endif()
