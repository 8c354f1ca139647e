#!/bin/sh
# embed.sh FILE NAME OUT: the text of FILE as `const char NAME[]` in a C file.
set -eu
file=$1 name=$2 out=$3
mkdir -p "$(dirname "$out")"
{
	echo "/* Made by cmake/embed.sh from $(basename "$file"); do not edit. */"
	echo "extern const char $name[];"
	echo "const char $name[] ="
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' "$file"
	echo ";"
} > "$out.new"
mv "$out.new" "$out"
