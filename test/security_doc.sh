#!/usr/bin/env bash
# security_doc.sh: every claim of docs/SECURITY.md names a test that exists and is run.
#
# A claim is a row of a table with the columns "claim" and "test".  The second cell has one or more
# `file:function`.  In C the function must be in the list of its program's tests; in Python it must
# be defined and called, and cmake/house.cmake must run the file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
doc=docs/SECURITY.md
bad=0 claims=0 tests=0

fail() {
	echo "$doc: $1"
	bad=1
}

while IFS= read -r row; do
	claims=$((claims + 1))
	claim=$(cut -d'|' -f2 <<<"$row")
	names=$(cut -d'|' -f3- <<<"$row" | grep -oE '`[^`]+`' | tr -d '`' || true)
	[ -n "$names" ] || fail "no test is named for:$claim"
	for name in $names; do
		tests=$((tests + 1))
		file=${name%%:*} function=${name#*:}
		if [ "$file" = "$name" ] || [ ! -f "$file" ]; then
			fail "$name is no file:function of a test"
			continue
		fi
		case $file in
		*.c) grep -qE "cmocka_unit_test(_setup_teardown|_teardown|_setup)?\($function\b" "$file" ||
			fail "$file does not run a test $function" ;;
		*.py) grep -q "^def $function(" "$file" && [ "$(grep -cw "$function" "$file")" -gt 1 ] &&
			grep -qF "\${here}/${file#test/})" cmake/house.cmake ||
			fail "$file has no $function that is called, or is not run" ;;
		*) fail "$name is neither C nor Python" ;;
		esac
	done
done < <(grep '^|' $doc | grep -vE '^\| (---|claim) \|')
[ "$claims" -gt 20 ] || fail "has only $claims claims"
[ $bad -eq 0 ] || exit 1
echo "security_doc: $claims claims, $tests tests"
