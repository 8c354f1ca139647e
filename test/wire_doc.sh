#!/usr/bin/env bash
# wire_doc.sh [--print]: the tables of docs/WIRE.md against what the compiler makes of the headers.
#
# Reads the structs of src/actor/message.h (and two they lean on), asks the compiler for offsets and
# sizes, and compares with the rows "| offset | bytes | type | field |" under each "`struct tw_...`".
# --print shows what the compiler says, to copy from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Members of the structs, one "struct type member" a line.
members() {
	echo '#include "actor/actor.h"' | "${CC:-cc}" -std=gnu11 -I src -E -P -x c - | awk '
	/^struct tw_(header|range|version|command|scalar|place|peer_place|ticket|member|judged|span|tally|account|stage_work|body_[a-z]+) \{/ { name = $2; next }
	/^\}/ { name = "" }
	name != "" && NF {
		line = $0
		gsub(/^[ \t]+|[ \t]*;[ \t]*$/, "", line)
		type = line
		sub(/^struct /, "", type); sub(/ .*/, "", type)
		sub(/^(struct )?[A-Za-z0-9_]+ /, "", line)
		count = split(line, list, /, */)
		for (k = 1; k <= count; k++) {
			sub(/\[.*/, "", list[k])
			print name, type, list[k]
		}
	}'
}

{
	echo '#include "actor/actor.h"'
	echo '#include <stdio.h>'
	echo 'int main(void) {'
	members | awk '{
		printf "printf(\"%s | %%zu | %%zu | %s | %s\\n\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));\n",
			$1, $2, $3, $1, $3, $1, $3
	}'
	members | awk '!seen[$1]++ { printf "printf(\"%s is %%zu\\n\", sizeof(struct %s));\n", $1, $1 }'
	echo '}'
} >"$dir/layout.c"
"${CC:-cc}" -std=gnu11 -I src -o "$dir/layout" "$dir/layout.c"
"$dir/layout" | sed 's/tw_body_//g; s/| tw_/| /; s/^tw_//' >"$dir/compiler"
[ "${1:-}" != --print ] || { cat "$dir/compiler"; exit 0; }

# The document: a heading "### PUSH" or "### `range`" names the struct, "(N bytes)" its size.
awk '
/^##+ / {
	name = ""
	if (match($0, /\([0-9]+ bytes\)/)) {
		size = substr($0, RSTART + 1, RLENGTH - 8)
		name = tolower($2); gsub(/`/, "", name)
		print name " is " size
	}
}
name != "" && /^\| [0-9]+ \| [0-9]+ \|/ {
	split($0, cell, / *\| */)
	gsub(/`/, "", cell[5])
	print name " | " cell[2] " | " cell[3] " | " cell[4] " | " cell[5]
}' docs/WIRE.md | LC_ALL=C sort >"$dir/document"

if ! LC_ALL=C sort "$dir/compiler" | diff -u "$dir/document" - >"$dir/diff"; then
	echo "docs/WIRE.md (-) and the compiler (+) disagree; test/wire_doc.sh --print shows all:"
	tail -n +3 "$dir/diff" | grep '^[-+]'
	exit 1
fi
# Every type and every flag has its number in the document.
number=0
for type in $(awk '/^enum tw_type/ { on = 1; next } /TW_TYPES/ { on = 0 }
	on && match($1, /^TW_[A-Z]+/) { print substr($1, 4, RLENGTH - 3) }' src/actor/message.h); do
	number=$((number + 1))
	grep -q "^| $number | $type |" docs/WIRE.md ||
		{ echo "docs/WIRE.md: no row '| $number | $type |' in the table of types"; exit 1; }
done
while read -r flag bit; do
	grep -q "^| $bit | $flag |" docs/WIRE.md ||
		{ echo "docs/WIRE.md: no row '| $bit | $flag |' in the table of flags"; exit 1; }
done < <(sed -n 's/^\tTW_FLAG_\([A-Z]*\) = \([0-9]*\),.*/\1 \2/p' src/actor/message.h)
# So have the reasons of a refusal and of a denial.
codes=0
for list in 'tw_refusal REFUSED' 'tw_denial DENY'; do
	code=0
	for name in $(awk -v enum="${list% *}" -v prefix="TW_${list#* }_" '
		$1 == "enum" && $2 == enum && $3 == "{" { on = 1; next } /^}/ { on = 0 }
		on && match($1, /^TW_[A-Z_]+/) { print substr($1, length(prefix) + 1, RLENGTH - length(prefix)) }
		' src/actor/message.h); do
		code=$((code + 1))
		grep -q "^| $code | $name |" docs/WIRE.md ||
			{ echo "docs/WIRE.md: no row '| $code | $name |' for enum ${list% *}"; exit 1; }
	done
	[ "$code" -gt 0 ] || { echo "wire_doc: found no enum ${list% *} in src/actor/message.h"; exit 1; }
	codes=$((codes + code))
done
# Who says what to whom: the table of kinds against the third column, as pairs of roles.
cat >"$dir/says.c" <<'END'
#include "actor/actor.h"
#include <stdio.h>
int main(void)
{
	static const char *const role[] = { "master", "server", "shard", "worker" };

	for (uint16_t t = 1; t < TW_GREET; t++)
		for (uint32_t a = 0; a < TW_ROLES; a++)
			for (uint32_t b = 0; b < TW_ROLES; b++)
				if (tw_may_say(t, a, b, true))
					printf("%s: %s > %s\n", tw_type_name(t), role[a], role[b]);
}
END
"${CC:-cc}" -std=gnu11 -I src -o "$dir/says" "$dir/says.c" src/actor/message_kinds.c
first_world=$(sed -n 's/^| \([0-9]*\) | GREET |.*/\1/p' docs/WIRE.md)
awk -v first_world="$first_world" -F ' *[|] *' '
function one(word) { gsub(/^ +| +$/, "", word); sub(/s$/, "", word); return word }
/^## Flags/ { exit }
/^\| [0-9]+ \| [A-Z]+ \|/ && $2 < first_world + 0 {
	text = $4
	gsub(/ *\([^)]*\)/, "", text)
	for (p = split(text, phrase, ";"); p > 0; p--)
		for (k = split(phrase[p], end, "→"); k > 1; k--)
			for (a = split(end[k - 1], from, ","); a > 0; a--)
				for (b = split(end[k], to, ","); b > 0; b--)
					print $3 ": " one(from[a]) " > " one(to[b])
}' docs/WIRE.md | LC_ALL=C sort >"$dir/said"
if ! "$dir/says" | LC_ALL=C sort | diff -u "$dir/said" - >"$dir/diff"; then
	echo "docs/WIRE.md (-) and src/actor/message_kinds.c (+) disagree about who says what to whom:"
	tail -n +3 "$dir/diff" | grep '^[-+]'
	exit 1
fi
[ "$number" -gt 0 ] || { echo "wire_doc: found no types in src/actor/message.h"; exit 1; }
echo "wire_doc: $(wc -l <"$dir/compiler") sizes and offsets, $number types and $codes reasons agree"
