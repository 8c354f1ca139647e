#!/usr/bin/env bash
# add_duty.sh: a protocol is added as CONTRIBUTING.md says ("Add a duty"): a folder, a kind of message,
# and one line at each place that the guide names.
#
# Puts the files of test/duty/ into a copy of the tree, makes the edits, and builds the program with
# assertions.  Then, in the copy: layers, the circles of calls, and runs in the simulator
# that end with the parameters of a program without it; then with workers that say nothing: the run
# waits for them, as the duty says.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
base=$(cd "${TW_BUILD:-$root/build}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
copy=$dir/tree

fail() { echo "add_duty: $*"; exit 1; }

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

edit() { # FILE SED-SCRIPT
	cp "$1" "$dir/before"
	sed -i "$2" "$1"
	! cmp -s "$dir/before" "$1" || fail "there is no such place in $1 any more: $2"
}
cp -r test/duty/src .
# the kind, and what it carries; who may say it to whom; what nobody can have said
edit src/actor/message.h 's|^\tTW_FIGURES,.*|\tTW_ROLL, /* worker → master: I am this member now */\n&|'
edit src/actor/message_kinds.c 's|^\t\[TW_MIX\] = .*|\t[TW_ROLL] = { "ROLL", .to = { [TW_WORKER] = TO_MASTER } },\n&|'
edit src/node/well_formed.c 's|^\tcase TW_BYE:|\tcase TW_ROLL:\n&|'
# the state of the duty
edit src/node/master/master_state.h 's|^\tstruct finish_master \*finish;.*|\tstruct roll_master *roll; /* duty/roll */\n&|'
# the dispatchers: the table, the door, the message
for actor in master worker; do
	sed -i "0,/^#include \"node/s|^#include \"node.*|#include \"node/duty/roll/roll.h\"\n&|" src/node/$actor/$actor.c
	edit src/node/$actor/$actor.c "s|^static const struct tw_duty \*const duties\[\] = {|& \&tw_roll_$actor,|"
done
edit src/node/master/master.c 's|^\tcase TW_RESULT:|\tcase TW_ROLL:\n&|'

bash test/layers.sh "$copy" || fail "the layers are broken"

build() {
	cmake --build "$dir/build" --target thalweg >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; fail "it does not build"; }
}
cmake -G Ninja -S "$copy" -B "$dir/build" -DCMAKE_BUILD_TYPE=Debug -DTW_TESTS=OFF >"$dir/log" 2>&1 ||
	{ cat "$dir/log"; fail "CMake refuses the copy"; }
build

job() { # PROGRAM STRATEGY: prints the digest of the parameters
	# shellcheck disable=SC2086
	$1 sim --json -q - >"$dir/result" 2>"$dir/said" <<END || { cat "$dir/said"; fail "'$2' fails"; }
model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 0.1, start: 1}}
data: {source: none, samples: 512, batch: 1}
train: {epochs: 2, seed: 1}
update: {rule: sgd, rate: 0.01}
cluster: {workers: 4}
strategy: $2
sim: {compute: {law: exponential, mean: 100ms}}
END
	sed -n 's/.*"parameters_digest": *"\([^"]*\).*/\1/p' "$dir/result"
}
for strategy in asgd ssgd ring gossip; do
	said=$(job "$dir/build/thalweg" $strategy)
	[ -n "$said" ] && [ "$said" = "$(job "$base/thalweg" $strategy)" ] ||
		fail "$strategy ends with other parameters than without the duty: $said"
done
events() { sed -n 's/.*"events": *\([0-9]*\).*/\1/p' "$dir/result"; }
job "$dir/build/thalweg" asgd >"$dir/digest"
more=$(events)
job "$base/thalweg" asgd >"$dir/digest"
[ -z "$more" ] || [ "$more" -gt "$(events)" ] || fail "no message of the duty was sent: $more events"

# a duty has one door, is in no circle, and only dispatchers name its table
python3 test/cycles.py "$dir/build" --free src/node/duty --data --doors src/node/duty \
	--only src/node/duty=src/node/master/master.c,src/node/shard/shard.c,src/node/worker/worker.c >"$dir/log" 2>&1 ||
	{ tail -n 20 "$dir/log"; fail "the duty is in a circle"; }

# who says nothing is waited for
sed -i 's/^\tif (m)/\tif (m \&\& !actor)/' src/node/duty/roll/roll_worker.c
build
! (job "timeout 10 $dir/build/thalweg" asgd) >"$dir/log" 2>&1 || fail "the run ends although nobody says ROLL"
echo "add_duty: a folder and a line at each place are a new protocol; runs end with the same parameters, and wait for it"
