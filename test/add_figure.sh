#!/usr/bin/env bash
# add_figure.sh: a figure that shards count is shown wherever its row in src/node/figures.c says.
#
# The row of a count that is shown nowhere gets a path, a sentence and the name of a metric.  Only
# that file is compiled again; everything else is linked from the build that TW_BUILD names.  Then
# the count is in a result, in that of a run that was resumed from a checkpoint, in the reference
# and on the page of metrics.  node_test_figures sees to it that every count has its row.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${TW_BUILD:-$root/build}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() { echo "add_figure: $*"; exit 1; }

[ -f "$build/build.ninja" ] || { echo "add_figure: $build is no build by Ninja"; exit 77; }
source=src/node/figures.c object=CMakeFiles/tw_node.dir/$source.o
sed 's/TALLY(updates, TW_COUNT, NULL)/TALLY(updates, TW_COUNT, "toy", "updates of all shards", "thalweg_toy_total")/' \
	"$root/$source" >"$dir/figures.c"
! cmp -s "$root/$source" "$dir/figures.c" || fail "there is no such row in $source"

command_of() { ninja -C "$build" -t commands "$1" | tail -n 1; }

cd "$build"
eval "$(command_of "$object" | sed -e "s| -c [^ ]*| -c $dir/figures.c|" -e "s| -o [^ ]*| -o $dir/figures.o|" \
	-e "s| -MF [^ ]*| -MF $dir/figures.d|")"
for target in thalweg test/job_test_gauges_run; do
	# before the library, whose own table is not taken then
	eval "$(command_of "$target" | sed "s| -o [^ ]*| $dir/figures.o -o $dir/$(basename "$target")|")"
done

cat >"$dir/job.yaml" <<'END'
model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 0.1, start: 1}}
data: {source: none, samples: 64, batch: 1}
train: {epochs: 4, seed: 1}
update: {rule: sgd, rate: 0.01}
cluster: {workers: 4, servers: 2, shards: 3}
strategy: asgd
checkpoint: {every: 2s}
sim: {compute: {law: exponential, mean: 100ms}}
END
cd "$dir"
field() { sed -n "s/^  \"$1\": *\([0-9]*\).*/\1/p"; }
counts() { # RESULT
	[ "$(field toy <"$1")" = $((3 * $(field updates <"$1"))) ] && [ "$(field updates <"$1")" -gt 0 ] ||
		{ cat "$1"; fail "the result does not have the count of three shards"; }
}
./thalweg sim job.yaml --json -q >result
counts result
./thalweg sim job.yaml --json -q --run run --checkpoints 1 >part || true
./thalweg sim job.yaml --json -q --run run >resumed
[ "$(field updates <part)" -lt "$(field updates <resumed)" ] || { cat part; fail "it was not resumed"; }
counts resumed
./thalweg help options --markdown | grep -F '| `toy` | updates of all shards |' >/dev/null || fail "the reference does not have it"
./job_test_gauges_run --pages job.yaml >pages
grep -q '^# TYPE thalweg_toy_total counter$' pages || fail "it is no metric"
[ "$(sed -n 's/^thalweg_toy_total //p' pages | head -n 1)" -gt 100 ] ||
	{ grep toy pages; fail "the metric does not count"; }
echo "add_figure: one row is enough for the result, the checkpoint, the reference and /metrics"
