#!/usr/bin/env bash
# reference_doc.sh: docs/REFERENCE.md is what the program says about its options today.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${TW_BUILD:?the build directory}
if ! difference=$("$build/thalweg" help options --markdown | diff -u docs/REFERENCE.md -); then
	head -n 40 <<<"$difference"
	echo "reference_doc: docs/REFERENCE.md is not up to date; run: build/thalweg help options --markdown > docs/REFERENCE.md"
	exit 1
fi
echo "reference_doc: docs/REFERENCE.md is up to date"
