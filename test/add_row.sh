#!/usr/bin/env bash
# add_row.sh: a figure that shards count is shown wherever its row in src/node/figures.c says, and a
# fact with a refusal is two rows.
#
# The row of a count that is shown nowhere gets a path, a sentence and its names on the pages of
# metrics and health; the facts of a plan get one more, and so does a table of refusals.  Only these
# files are compiled again; everything else is linked from the build that TW_BUILD names.  Then the
# count is in a result, in that of a run that was resumed from a checkpoint, in the reference and on
# both pages, and jobs of which the fact is true are refused.  node_test_figures sees to it that every
# count has its row, and job_test_facts that every fact has a refusal and every refusal facts.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${TW_BUILD:-$root/build}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() { echo "add_row: $*"; exit 1; }

[ -f "$build/build.ninja" ] || { echo "add_row: $build is no build by Ninja"; exit 77; }
command_of() { ninja -C "$build" -t commands "$1" | tail -n 1; }

objects=
row() { # FILE SED-SCRIPT: the file of src/node with one more row, or a longer one
	local object=$dir/${1%.c}.o
	sed "$2" "$root/src/node/$1" >"$dir/$1"
	! cmp -s "$root/src/node/$1" "$dir/$1" || fail "there is no such place in src/node/$1"
	(cd "$build" && eval "$(command_of "CMakeFiles/tw_node.dir/src/node/$1.o" | sed -e "s| -c [^ ]*| -c $dir/$1|" \
		-e "s| -o [^ ]*| -o $object|" -e "s| -MF [^ ]*| -MF ${object%.o}.d|")")
	objects+=" $object"
}
row figures.c 's/TALLY(updates, TW_COUNT, NULL)/TALLY(updates, TW_COUNT, "toy", "updates of all shards", "thalweg_toy_total", .health = "toy")/'
row plan_facts.c 's/^\t\t{ "rounds", .*/&\n\t\t{ "toy", p->seed == 13 },/'
row refusals.c 's/^const struct tw_refusal_row tw_refusals_gap.*/&\n\t{ "toy !rounds", "train.seed", "strategy.gate", "13 is no seed for [gate]; use [round gate]" },/'
cd "$build"
for target in thalweg test/job_test_gauges_run; do
	# before the library, whose own tables are not taken then
	eval "$(command_of "$target" | sed "s| -o [^ ]*|$objects -o $dir/$(basename "$target")|")"
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
grep -q '"toy":[0-9]' pages || { grep status pages; fail "it is not on the page of health"; }

! ./thalweg sim job.yaml --set train.seed=13 -q >refused 2>&1 || fail "the job of a new refusal runs"
grep -q '^thalweg: --set train.seed=13: train.seed: 13 is no seed for async; use [a-z]' refused ||
	{ cat refused; fail "the new refusal is not said"; }
./thalweg sim job.yaml --set train.seed=13 --set strategy=ssgd -q >refused 2>&1 ||
	{ cat refused; fail "a job is refused that has only one of two facts"; }
echo "add_row: one row is enough for the result, the checkpoint, the reference, /metrics and /health; and two for a refusal"
