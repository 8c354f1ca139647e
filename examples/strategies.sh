#!/usr/bin/env bash
# strategies.sh: compare six strategies on one simulated cluster with two stragglers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
'') ;;
-h | --help)
	echo "usage: examples/strategies.sh    compare six strategies on eight simulated workers, two of them slow"
	exit 0
	;;
*) echo "strategies.sh: takes no arguments" >&2; exit 2 ;;
esac
[ -x build/thalweg ] || { echo "strategies.sh: there is no build/thalweg yet; run ./demo first" >&2; exit 2; }

cat >build/strategies.yaml <<'END'
# Eight workers, the last two eight times slower, on one noisy quadratic.
model:    {quadratic: {dimension: 200, curvature: [0.02, 1], noise: 0.5, start: 1}}
data:     {source: none, samples: 4096, batch: 4}
train:    {epochs: 1000, time: 80s, seed: 1, evaluate: 0.01}
update:   {rate: 0.01}
cluster:  {workers: 8}
strategy: asgd
sim:      {compute: {law: log-normal, median: 100ms, sigma: 0.2}, stragglers: {count: 2, slower: 8}, latency: 1ms}
END
limit=80 goal=0.2
rates="0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5"
strategies=(ssgd '{name: backup, extra: 2}' ssp asgd dc-asgd-a dana)

# field RESULT NAME: a number of the JSON object that `thalweg sim --json` prints.
field() { tr -d '\n' <<<"$1" | sed -n "s/.*\"$2\": *\([-+.0-9eE]*\).*/\1/p"; }

sim() { # STRATEGY RATE MORE...
	local strategy=$1 rate=$2
	shift 2
	build/thalweg sim build/strategies.yaml --json -q --set strategy="$strategy" --set update.rate="$rate" "$@"
}

# The rate of `rates` with which STRATEGY reaches the goal first, and when; "- LIMIT" if none does.
best() {
	local rate result
	for rate in $rates; do
		# skip a rate with which it diverges
		result=$(sim "$1" "$rate" --set train.until.loss=$goal 2>/dev/null) || continue
		echo "$rate $(field "$result" virtual_seconds)"
	done | awk -v limit=$limit 'BEGIN { rate = "-"; time = limit }
		$2 < time { rate = $1; time = $2 } END { print rate, time }'
}

cat <<END
strategies: eight simulated workers, two of them 8 times slower; one job, ${#strategies[@]} strategies, each with
strategies: the learning rate (of nine) that reaches a loss of $goal first

              rate   seconds to   updates        mean   loss after
strategy     taken    loss $goal   in $limit s   staleness         $limit s
END
for strategy in "${strategies[@]}"; do
	read -r rate seconds < <(best "$strategy")
	whole=$(sim "$strategy" "${rate/#-/0.01}")
	awk -v name="$(sed -n 's/.*"strategy": *"\([^"]*\)".*/\1/p' <<<"$whole")" -v rate="$rate" -v seconds="$seconds" -v limit=$limit \
		-v updates="$(field "$whole" updates)" -v staleness="$(field "$whole" mean)" \
		-v loss="$(field "$whole" loss)" '
	BEGIN {
		there = rate != "-"
		for (k = 1; k <= seconds; k += 2)
			bar = bar "#"
		printf "%-10s %7s %12s %9d %11.2f %12.3f  %s\n", name, there ? rate : "none",
			there ? sprintf("%.1f", seconds) : "not in " limit, updates, staleness, loss, bar
	}'
done
cat <<'END'

Strategies that wait for all workers (ssgd), or for the slowest to catch up (ssp), take the time of the slowest. Those
that do not wait for two workers (backup) or for any (asgd, dc-asgd-a, dana) are faster, but lose gradients or use stale
ones. Time here is virtual, and every run gives the same digits on any number of cores.

Try next:
  build/thalweg sim build/strategies.yaml --set strategy=dana             one run, in full
  build/thalweg sim build/strategies.yaml --set sim.stragglers.count=0    without stragglers
  build/thalweg sim build/strategies.yaml --trace build/trace.json        a timeline for https://ui.perfetto.dev
END
