#!/usr/bin/env bash
# add_variant.sh: the four files that CONTRIBUTING.md shows, put into a copy of the tree, work.
#
# Takes the text of each "```c file=PATH" block as the file PATH, builds the copy, runs the contract
# suites, and runs jobs that use the new names.  Then breaks each file and expects a suite to fail.
set -euo pipefail
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
for kind in rule gate staleness codec; do
	grep -q "^src/strategy/$kind/" "$dir/files" || fail "CONTRIBUTING.md shows no $kind"
done
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
make_it() {
	{ cmake -G Ninja -S "$copy" -B "$build" -DCMAKE_BUILD_TYPE=Release &&
		cmake --build "$build" --target "$@"; } >"$dir/log" 2>&1 ||
		{ tail -n 40 "$dir/log"; fail "the copy with the new files does not build"; }
}
run_suites() { ctest --test-dir "$build" -R '^strategy_' -LE full --output-on-failure </dev/null >"$dir/log" 2>&1; }

make_it thalweg "${suites[@]}"
run_suites || { cat "$dir/log"; fail "a contract suite refuses a file of CONTRIBUTING.md"; }

"$build/thalweg" help strategies >"$dir/help"
while read -r file; do
	name=$(basename "$file" .c)
	grep -qE "^ *$name( |$)" "$dir/help" || { cat "$dir/help"; fail "'thalweg help strategies' does not list $name"; }
done <"$dir/files"

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

# A suite that cannot fail would pass everything: break each file in a way its contract forbids.
breaks() { # FILE SED-SCRIPT
	local whole
	whole=$(cat "$1")
	sed -i "$2" "$1"
	[ "$whole" != "$(cat "$1")" ] || fail "nothing to break in $1"
	make_it "${suites[@]}"
	run_suites && fail "no contract suite notices: $1 with $2"
	printf '%s\n' "$whole" >"$1"
}
breaks src/strategy/codec/fp24.c 's/return 3 \* n;/return 2 * n;/'
breaks src/strategy/codec/fp24.c 's/len != bound(options, n)/0 \&\& len/'
breaks src/strategy/rule/lion.c 's/i < a->n/i < a->n + 1/'
breaks src/strategy/staleness/exponential.c 's/c->n);/c->n + 1);/'
breaks src/strategy/gate/lead-share.c 's/TW_GATE_HOLDS/0/'
echo "add_variant: $(wc -l <"$dir/files") new files, no other file touched; suites and jobs agree, and broken ones are noticed"
