#!/usr/bin/env bash
# cppcheck.sh: static analysis of src/ with no finding allowed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v cppcheck >/dev/null 2>&1 ||
	{ echo "cppcheck: skipped: it is not installed (./setup --full installs it)"; exit 77; }

# jansson's loops are macros, so its header is read; of other system headers cppcheck knows enough.
# invalidPointerCast: blocks of bytes hold floats by design, and heap.h aligns them.
cppcheck --std=c11 --language=c -j2 --quiet --error-exitcode=1 --inline-suppr \
	--enable=warning,performance,portability \
	--suppress=missingIncludeSystem --suppress=invalidPointerCast \
	--include="$(pkg-config --variable=includedir jansson)/jansson.h" \
	-D_GNU_SOURCE -D__x86_64__ -DTW_VERSION='"0"' -I src -I include src
echo "cppcheck: nothing found"
