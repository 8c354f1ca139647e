#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# report_page.sh: report.html in a browser without a network; see report_page.js.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${TW_BUILD:-build}/thalweg
browser=${TW_CHROMIUM:-/usr/bin/chromium}
modules=${XDG_CACHE_HOME:-$HOME/.cache}/thalweg/browser/node_modules/playwright-core

for needed in "$browser" "$modules"; do
	[ -e "$needed" ] || { echo "report_page: skipped: there is no $needed; ./setup --full installs it"; exit 77; }
done
command -v node >/dev/null || { echo "report_page: skipped: there is no node; ./setup --full installs it"; exit 77; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# 12 rows of 5 seeds, one of which diverges, and rates to choose from; labels in a language with
# letters beyond ASCII, and one that would end a script.
cat >"$scratch/many.yaml" <<'END'
data:    {source: digits, count: 600, tests: 200, batch: 10}
model:   {name: mlp, hidden: [16]}
train:   {epochs: 2, seed: 1}
cluster: {workers: 8}
sim:     {compute: {law: log-normal, median: 100ms, sigma: 0.2}, stragglers: {count: 1, slower: 4}}
compare:
  seeds: 5
  methods:
    ssgd: {strategy: ssgd}
    backup: {strategy: backup}
    asgd: {strategy: asgd}
    ssp: {strategy: ssp}
    softsync: {strategy: softsync}
    staleness-aware: {strategy: staleness-aware}
    dc-asgd: {strategy: dc-asgd}
    dc-asgd-a: {strategy: dc-asgd-a}
    dana: {strategy: dana}
    Zürich ≤ 3 </script>: {strategy: ring}
    a very long name of a method that says all that there is to say about it: {strategy: gossip}
  tune: {update.rate: [0.01, 0.1]}
  tune_seeds: 1
  widen: 1
END
"$program" compare "$scratch/many.yaml" --run "$scratch/run" --quiet >"$scratch/table"
pictures=${TW_BUILD:-build}/report_page
mkdir -p "$pictures"
node test/compare/report_page.js "$modules" "$scratch/run" "$pictures"
