#!/usr/bin/env bash
# add_variant.sh [--full]: the files that CONTRIBUTING.md shows, put into a copy of the tree, work.
#
# Takes the text of each "```c file=PATH" block as the file PATH, and of "```c line=PATH" as a row of
# the first table in PATH.  Builds the contract suites of the copy and runs them.  Then breaks one
# file of each kind and expects a suite to fail.  --full builds the program, too, runs jobs that use
# the new names, and breaks the files in more ways.
set -euo pipefail
full=
case ${1-} in
'') ;;
--full) full=1 ;;
*) echo "add_variant: unknown argument '$1'" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
copy=$dir/tree build=$dir/build

fail() { echo "add_variant: $*"; exit 1; }

mkdir "$copy"
cd "$root"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -co --exclude-standard -z
else
	find . -type f -not -path './build*' -print0
fi | while IFS= read -r -d '' file; do
	[ ! -e "$file" ] || printf '%s\0' "$file"
done | tar --null -cf - -T - | tar -xf - -C "$copy"
cd "$copy"

awk '/^```c file=/ { file = $2; sub(/^file=/, "", file); print file; next }
	/^```/ { file = ""; next }
	file != "" { print > file }' CONTRIBUTING.md >"$dir/files"
for kind in strategy/rule strategy/gate strategy/staleness strategy/codec graph/op model/zoo data/source; do
	grep -q "^src/$kind/" "$dir/files" || fail "CONTRIBUTING.md shows no file of src/$kind"
done
awk '/^```c line=/ { file = $2; sub(/^line=/, "", file); next }
	/^```/ { file = ""; next }
	file != "" { print file "\t" $0 }' CONTRIBUTING.md >"$dir/lines"
[ -s "$dir/lines" ] || fail "CONTRIBUTING.md shows no line for the samples of data sources"
while IFS=$'\t' read -r file line; do
	awk -v row="$line" '{ print } !done && /^} [a-z]+\[\] = {$/ { print row; done = 1 }' "$file" >"$dir/new"
	cmp -s "$dir/new" "$file" && fail "$file has no table for: $line"
	cp "$dir/new" "$file"
done <"$dir/lines"
while read -r file; do
	[ ! -e "$root/$file" ] || fail "$file exists already; CONTRIBUTING.md must show a new one"
done <"$dir/files"

bash test/layers.sh "$copy" || fail "the examples break the layers"
if command -v clang-format-14 >/dev/null 2>&1; then
	while read -r file; do
		clang-format-14 --style=file "$file" | diff -u "$file" - ||
			fail "$file in CONTRIBUTING.md is not as .clang-format wants it"
	done <"$dir/files"
fi

suites=()
for file in test/strategy/test_*.c; do
	name=$(basename "$file" .c)
	[[ $name == test_full_* ]] || suites+=("strategy_$name")
done
others=(graph_test_ops graph_test_op_table model_test_zoo data_test_contract)
make_it() {
	{ cmake -G Ninja -S "$copy" -B "$build" -DCMAKE_BUILD_TYPE=Release &&
		cmake --build "$build" --target "$@"; } >"$dir/log" 2>&1 ||
		{ tail -n 40 "$dir/log"; fail "the copy with the new files does not build"; }
}
run_suites() { # NAMES
	local names
	names=$(IFS='|' && echo "$*")
	ctest --test-dir "$build" -R "^($names)\$" --no-tests=error --output-on-failure </dev/null >"$dir/log" 2>&1
}

make_it ${full:+thalweg} "${suites[@]}" "${others[@]}"
run_suites "${suites[@]}" "${others[@]}" ||
	{ cat "$dir/log"; fail "a contract suite refuses a file of CONTRIBUTING.md"; }

job() { # STRATEGY RULE RATE: prints the result
	"$build/thalweg" sim --json - <<END || fail "'thalweg sim' failed with $1 and $2"
model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 0.1, start: 1}}
data: {source: none, samples: 512, batch: 1}
train: {epochs: 2, seed: 1}
update: {rule: $2, rate: $3}
cluster: {workers: 4}
strategy: $1
sim: {compute: {law: exponential, mean: 100ms}}
END
}

digest() { sed -n 's/.*"parameters_digest": *"\([^"]*\)".*/\1/p'; }

train() { # DATA MODEL EPOCHS: prints the result
	"$build/thalweg" sim --json -q - <<END || fail "'thalweg sim' failed with $1 and $2"
data: $1
model: $2
train: {epochs: $3, seed: 1}
update: {rule: adam, rate: 0.01}
cluster: {workers: 2}
strategy: asgd
END
}

right() { sed -n 's/.*"accuracy": *\([0-9.e-]*\).*/\1/p' | head -n 1; }
above() { awk -v x="$(right)" -v least="$1" 'BEGIN { exit !(x > least) }'; }

# The new names are in the help, and jobs that use them do what they should.
by_name() {
	local file name plain change strategy rule rate result digits spirals tiny bent straight

	{ "$build/thalweg" help strategies && "$build/thalweg" help layers; } >"$dir/help"
	while read -r file; do
		name=$(basename "$file" .c)
		grep -qE "^ *$name( |$)" "$dir/help" || { cat "$dir/help"; fail "neither 'thalweg help strategies' nor 'help layers' lists $name"; }
	done <"$dir/files"

	plain=$(job '{gate: async}' sgd 0.01)
	for change in '{gate: async}/lion/0.001' '{gate: async, staleness: exponential, keep: 0.5}/sgd/0.01' \
		'{gate: async, codec: {up: fp24}}/sgd/0.01' '{gate: lead-share, share: 0.05}/sgd/0.01'; do
		IFS=/ read -r strategy rule rate <<<"$change"
		result=$(job "$strategy" "$rule" "$rate")
		[ -n "$(digest <<<"$result")" ] || fail "no result of $change: $result"
		[ "$(digest <<<"$result")" != "$(digest <<<"$plain")" ] ||
			fail "$strategy, $rule gives what plain asynchronous SGD gives: it was not used"
	done
	[ "$(job '{gate: lead-share, share: 1}' sgd 0.01 | digest)" = "$(digest <<<"$plain")" ] ||
		fail "lead-share that holds nobody is not async"
	[ "$(job '{gate: async, staleness: exponential, keep: 1}' sgd 0.01 | digest)" = "$(digest <<<"$plain")" ] ||
		fail "exponential with keep: 1 is not none"

	digits='{source: digits, count: 1000, tests: 200, batch: 20, distort: 0.3}'
	spirals='{source: spirals, count: 1000, tests: 200, batch: 10, shake: 0}'
	tiny=$(train "$digits" '{name: tiny-conv, filters: 12, activation: tanh, init: he}' 8)
	above 0.2 <<<"$tiny" || fail "tiny-conv learns nothing: $tiny"
	bent=$(train "$spirals" '{init: he, layers: [linear 32, softsign, linear 32, softsign, linear 2]}' 20)
	straight=$(train "$spirals" '{init: he, layers: [linear 32, linear 32, linear 2]}' 20)
	above 0.95 <<<"$bent" || fail "a network with softsign does not learn the spirals: $(right <<<"$bent")"
	! above 0.85 <<<"$straight" || fail "without softsign the spirals should not be learnt: $(right <<<"$straight")"
}
[ -z "$full" ] || by_name

# A suite that cannot fail would pass everything: break each file in a way its contract forbids.
breaks() { # FILE SED-SCRIPT SUITES
	local whole file=$1 script=$2
	shift 2
	whole=$(cat "$file")
	sed -i "$script" "$file"
	[ "$whole" != "$(cat "$file")" ] || fail "nothing to break in $file"
	make_it "$@"
	run_suites "$@" && fail "no contract suite notices: $file with $script"
	printf '%s\n' "$whole" >"$file"
}
breaks src/strategy/codec/fp24.c 's/return 3 \* n;/return 2 * n;/' strategy_test_codec
breaks src/strategy/rule/lion.c 's/i < a->n/i < a->n + 1/' strategy_test_rule
breaks src/strategy/staleness/exponential.c 's/c->n);/c->n + 1);/' strategy_test_staleness
breaks src/strategy/gate/lead-share.c 's/TW_GATE_HOLDS/0/' strategy_test_gate
breaks src/graph/op/softsign.c 's/dy\[i\] \* rest \* rest/dy[i] * rest/' graph_test_ops
breaks src/model/zoo/tiny-conv.c 's/, tw_sheet_outputs(site)/, 9u/' model_test_zoo
breaks src/data/source/spirals.c 's/= i % o->arms;/= i % 4;/' data_test_contract
if [ -n "$full" ]; then
	breaks src/strategy/codec/fp24.c 's/len != bound(options, n)/0 \&\& len/' strategy_test_codec
	breaks src/graph/op/softsign.c 's/\(i < \)n; i++) y/\1n \/ 16 * 16; i++) y/' graph_test_ops
	breaks test/data/test_contract.c '/"spirals"/d' data_test_contract
fi
echo "add_variant: $(wc -l <"$dir/files") new files, no other file of src/ touched; suites${full:+ and jobs} agree, and broken ones are noticed"
