#!/usr/bin/env bash
# meter.sh: test/meter.c and test/tally.py together: a test that burns CPU time is over its budget,
# one that sleeps is not, and what a test returns and prints stays as it is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
meter=${TW_BUILD:-$here/../build}/test/meter
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() { echo "meter: $*"; exit 1; }

cat >"$dir/burn.sh" <<'END'
i=0
while [ $i -lt 200000 ]; do i=$((i + 1)); done
END

# NAME COMMAND...: its budget is a tenth of a second; prints what it returned
metered() {
	local name=$1 code=0
	shift
	"$meter" "$dir/$name" 0.1 "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
	echo $code
}

[ "$(metered burns bash "$dir/burn.sh")" = 0 ] || fail "a test that succeeds does not"
# a grandchild, whose time counts because the test waits for it
[ "$(metered nested bash -c "bash '$dir/burn.sh'; exit 77")" = 77 ] || fail "a skipped test is not"
[ "$(metered sleeps sleep 0.5)" = 0 ] || fail "sleep fails"
# one that nobody waits for
[ "$(metered daemon sh -c "setsid bash '$dir/burn.sh' >/dev/null 2>&1 & exit 3")" = 3 ] || fail "an exit code is lost"
[ "$(metered killed sh -c 'kill -ABRT $$')" = 134 ] || fail "a test that was aborted was not"
[ "$(metered absent "$dir/nothing")" = 127 ] || fail "a test that is not there ran"
[ "$(metered prints sh -c 'echo to out; echo to err >&2')" = 0 ] || fail "printing fails"
[ "$(cat "$dir/out" "$dir/err")" = $'to out\nto err' ] || fail "it prints $(cat "$dir/out" "$dir/err")"

{
	echo '<testsuite>'
	for name in burns nested sleeps daemon; do echo "<testcase name=\"$name\" time=\"0.5\"/>"; done
	echo '</testsuite>'
} >"$dir/report.xml"
for full in '' --full; do
	python3 "$here/tally.py" $full "$dir/report.xml" "$dir" >"$dir/tally"
	failed=0
	[ -z "$full" ] || failed=2
	[ "$(head -n 1 "$dir/tally")" = "4 $failed 0" ] ||
		fail "tally.py $full counts $(head -n 1 "$dir/tally")"
	[ "$(grep -c '^over: ' "$dir/tally")" = 2 ] && grep -q '^over: burns: ' "$dir/tally" &&
		grep -q '^over: nested: ' "$dir/tally" || { cat "$dir/tally"; fail "others are over their budgets"; }
done
echo "meter: CPU time is measured, and exit codes and output are the tests' own"
