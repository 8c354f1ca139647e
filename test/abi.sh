#!/usr/bin/env bash
# abi.sh: thalweg_abi says what the public structs look like; a struct that changes changes it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "abi: $*"; exit 1; }

said() { # FOLDER: what a library with FOLDER/thalweg.h would say
	mkdir -p "$1/api"
	cp src/api/abi.h "$1/api/"
	sh cmake/abi.sh "$1/thalweg.h" "$1/rows.c"
	printf '%s\n' '#include <stdio.h>' '#include "thalweg.h"' \
		'int main(void) { puts(thalweg_abi()); return 0; }' >"$1/main.c"
	cc -std=gnu11 -w -I"$1" "$1/rows.c" src/api/abi.c "$1/main.c" -o "$1/say" -lpthread
	"$1/say"
}
changed() { # NAME SED-PROGRAM: the header so changed must say something else
	mkdir "$dir/$1"
	sed "$2" include/thalweg.h >"$dir/$1/thalweg.h"
	cmp -s include/thalweg.h "$dir/$1/thalweg.h" && fail "$1: the header is as it was"
	[ "$(said "$dir/$1")" != "$now" ] || fail "$1: the text did not change"
}

mkdir "$dir/now"
cp include/thalweg.h "$dir/now/"
now=$(said "$dir/now")
[[ $now == "thalweg "[0-9]*" thalweg_error "* ]] || fail "it says: $now"

# Every struct with fields is in it, with its size as the compiler has it.
while read -r name; do
	printf '%s\n' '#include <stdio.h>' '#include "thalweg.h"' \
		"int main(void) { printf(\"%zu\", sizeof(struct $name)); return 0; }" >"$dir/size.c"
	cc -std=gnu11 -Iinclude "$dir/size.c" -o "$dir/size"
	[[ $now == *" $name $("$dir/size") "* ]] || fail "struct $name is missing, or its size is wrong"
done < <(grep -oE '^struct thalweg_[a-z_]+ \{' include/thalweg.h | awk '{ print $2 }')
[ "$(grep -oE '[a-z_]+@[0-9]+/[0-9]+' <<<"$now" | wc -l)" -ge 100 ] || fail "too few fields"

changed longer 's/^\tuint64_t version; .*/&\n\tint more;/'
changed other_type 's/^\tdouble staleness;$/\tfloat staleness;/'
changed renamed 's/^\tconst char \*data; /\tconst char *about; /'
changed order 's/^\tuint64_t samples;$/\tuint64_t tests_first;\n&/'
if [ -n "${TW_BUILD:-}" ] && [ -f "$TW_BUILD/libthalweg.so" ]; then
	cp include/thalweg.h "$dir/"
	cc -std=gnu11 -Iinclude "$dir/now/main.c" -o "$dir/linked" -L"$TW_BUILD" -lthalweg
	[ "$(LD_LIBRARY_PATH=$TW_BUILD "$dir/linked")" = "$now" ] || fail "the library says something else"
fi
echo "abi: $(wc -w <<<"$now") words, and every change shows"
