#!/usr/bin/env bash
# format.sh: every C file as .clang-format wants it, with its opening lines, within 100 columns.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t files < <(find src include test bench fuzz examples -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
[ ${#files[@]} -gt 0 ] || { echo "format: found no C file"; exit 1; }
bad=0

for file in "${files[@]}"; do
	name=$(basename "$file")
	{ read -r first && read -r second; } <"$file" || true
	if [ "$first" != '/* SPDX-License-Identifier: Apache-2.0 */' ]; then
		echo "$file:1: must be the SPDX line: /* SPDX-License-Identifier: Apache-2.0 */"
		bad=1
	fi
	if [[ $second != "/* $name - "* ]]; then
		echo "$file:2: must say what the file is: /* $name - ... */"
		bad=1
	fi
done

wide() { LC_ALL=C.UTF-8 grep -nE '^.{101,}'; }
if expand -t 8 "${files[@]}" | wide >/dev/null; then # one by one only to say where
	bad=1
	for file in "${files[@]}"; do
		expand -t 8 "$file" | wide | sed "s,^\([0-9]*\):.*,$file:\1: more than 100 columns," || true
	done
fi

# Other versions of clang-format break some lines elsewhere.
tool=
for candidate in clang-format-14 clang-format; do
	if command -v $candidate >/dev/null 2>&1 && $candidate --version | grep -q 'version 14\.'; then
		tool=$candidate
		break
	fi
done
if [ -z "$tool" ]; then
	[ $bad -eq 0 ] || exit 1
	echo "format: skipped: there is no clang-format 14 here (./setup --full installs it)"
	exit 77
fi
# One process for all files: starting it takes longer than formatting one.
other=$($tool --style=file --dry-run "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning:.*/\1/p' | sort -u)
for file in $other; do
	echo "$file: not as .clang-format wants it; run: $tool -i $file"
	bad=1
done
[ $bad -eq 0 ] && echo "format: ${#files[@]} files are as they should be"
exit $bad
