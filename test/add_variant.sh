#!/usr/bin/env bash
# add_variant.sh [--full]: a new variant of every kind is one file, a new kind of variants is one row,
# and everything finds them.
#
# Takes the text of each "```c file=PATH" block of CONTRIBUTING.md as the file PATH, and the files
# below test/variants/ (a rule with its own view, a codec with a residual).  Puts them into a copy
# of the tree; no other file of the copy is written but docs/REFERENCE.md, which the program makes
# itself.  Then, in the copy: layers, the contract suites, the tests that compare help,
# manual and reference page with the tables, and a small run with each variant.  Then breaks each
# file in a way that its contract forbids and expects a suite to fail.  At last adds a new kind, with
# the files below test/registry/.
#
# The copy is configured by CMake, which finds the new files and makes the registries.  Only these
# are compiled; everything else is linked from the build that TW_BUILD names.  --full builds all of
# the copy instead, tries the documents' examples, too, and breaks the files in more ways.
set -euo pipefail
full=
case ${1-} in
'') ;;
--full) full=1 ;;
*) echo "add_variant: unknown argument '$1'" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
base=$(cd "${TW_BUILD:-$root/build}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
copy=$dir/tree build=$dir/build

fail() { echo "add_variant: $*"; exit 1; }

[ -n "$full" ] || [ -f "$base/build.ninja" ] || fail "$base is no build by Ninja to link from; try --full"

# --- the copy and the new files ---

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

{
	awk '/^```c file=/ { file = $2; sub(/^file=/, "", file); print file; next }
		/^```/ { file = ""; next }
		file != "" { print > file }' CONTRIBUTING.md
	(cd test/variants && find src -type f)
} >"$dir/files"
cp -r test/variants/src .
for kind in strategy/rule strategy/outer strategy/gate strategy/staleness strategy/codec strategy/reduction \
	strategy/mixing strategy/pipeline strategy/optimiser graph/op graph/loss model/zoo data/source \
	cli/verb; do
	grep -q "^src/$kind/" "$dir/files" || fail "there is no new file of src/$kind"
done
for trait in TW_RULE_OWN_VIEW TW_OPTION_ALIAS TW_CODEC_REMEMBERS; do
	xargs grep -q "$trait" <"$dir/files" || fail "no new file has $trait"
done
while read -r file; do
	[ ! -e "$root/$file" ] || fail "$file exists already; a new variant needs a name of its own"
done <"$dir/files"

bash test/layers.sh "$copy" || fail "the new files break the layers"
if command -v clang-format-14 >/dev/null 2>&1; then
	while read -r file; do
		clang-format-14 --style=file "$file" | diff -u "$file" - ||
			fail "$file is not as .clang-format wants it"
	done <"$dir/files"
fi

# --- building ---

# The test programs of the copy: contract suites that walk the tables, and what compares documents.
suites=(graph_test_ops graph_test_op_table graph_test_loss_table model_test_zoo model_test_loss data_test_contract
	job_test_presets job_test_suggest job_test_facts cli_test_help cli_test_completion)
for file in test/strategy/test_*.c; do
	name=$(basename "$file" .c)
	[[ $name == test_full_* ]] || suites+=("strategy_$name")
done

quietly() { "$@" >"$dir/log" 2>&1; }

build_all() { cmake --build "$build" --target "$@"; }

rooms='strategy graph model data cli'

# What CMake would run to make a file of the build.
command_of() { ninja -C "$build" -t commands "$1" | tail -n 1; }

# The objects of the copy that are not in the other build: registries and new files, by room.
new_objects() { # ROOM
	sed -n "s|^build \(CMakeFiles/tw_$1\.dir/gen/[a-z_]*_all\.c\.o\):.*|\1|p" "$build/build.ninja"
	sed -n "s|^src/$1/.*\.c$|CMakeFiles/tw_$1.dir/&.o|p" "$dir/files"
}

# Make the objects that are older than their sources.  Not by Ninja: for a registry it would first
# make all libraries that its room needs.
compile() {
	local room object source
	for room in $rooms; do
		new_objects "$room" | while read -r object; do
			source=${object#CMakeFiles/tw_"$room".dir/} source=${source%.o}
			case $source in
			gen/*)
				[ -e "$build/$source" ] || (cd "$build" && eval "$(command_of "$source")") || return 1
				source=$build/$source
				;;
			*) source=$copy/$source ;;
			esac
			[ "$build/$object" -nt "$source" ] && continue
			mkdir -p "$build/$(dirname "$object")"
			command_of "$object"
		done || return 1
	done >"$dir/commands"
	(cd "$build" && xargs -r -d '\n' -P "$(nproc)" -I '{}' sh -c '{}' <"$dir/commands")
}

# Link a target as CMake would, with the new objects before the other build's libraries: a library's
# own registry is not taken when there is one already.
link() { # TARGET
	local line room new=''
	line=$(command_of "$1")
	for room in $rooms; do
		case $line in
		*libtw_$room.a*) new+=" $(new_objects "$room" | tr '\n' ' ')" ;;
		esac
	done
	line=$(sed -e "s|CMakeFiles/|$base/CMakeFiles/|g" -e "s, lib\(tw_[a-z]*\|[a-z]*_tools\)\.a, $base/lib\1.a,g" -e "s| -o |$new -o |" <<<"$line")
	(cd "$build" && mkdir -p test && eval "$line")
}

build_new() { # TARGETS
	local target
	compile || return 1
	for target in "$@"; do
		link "$target" || return 1
	done
}

how=build_new
[ -z "$full" ] || how=build_all
make_it() { # TARGETS
	quietly "$how" "$@" && return
	tail -n 40 "$dir/log"
	fail "the copy with the new files does not build"
}

type=$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$base/CMakeCache.txt" 2>/dev/null || true)
quietly cmake -G Ninja -S "$copy" -B "$build" -DCMAKE_BUILD_TYPE="${type:-Release}" ||
	{ cat "$dir/log"; fail "CMake refuses the copy"; }
make_it thalweg "${suites[@]}"

# --- the tests of the copy ---

export TW_BUILD=$build
thalweg=$build/thalweg
"$thalweg" help options --markdown >docs/REFERENCE.md
while read -r file; do
	name=$(basename "$file" .c)
	case $file in
	src/cli/verb/*) grep -qE "^## thalweg $name( |$)" docs/REFERENCE.md ;;
	*) grep -qE "^\| \`$name[ \`]" docs/REFERENCE.md ;;
	esac || fail "docs/REFERENCE.md does not have $name"
done <"$dir/files"

# The suite of ops takes one alone if TW_TEST_OP names it; without --full it takes the new ones only.
ops=$(sed -n 's,^src/graph/\(op\|loss\)/\(.*\)\.c$,\2,p' "$dir/files")
run_suite() { # NAME
	# by a shell of its own, so that nobody says aloud that a broken one was aborted
	quietly sh -c '"$0"; exit $?' "$build/test/$1" </dev/null
}
run_suites() { # NAMES
	local suite op
	for suite in "$@"; do
		if [ "$suite" = graph_test_ops ] && [ -z "$full" ]; then
			for op in $ops; do
				TW_TEST_OP=$op run_suite "$suite" || return 1
			done
		else
			run_suite "$suite" || return 1
		fi
	done
}
run_suites "${suites[@]}" || { cat "$dir/log"; fail "a suite refuses a new file"; }
# README's loop of PyTorch needs the shared library.
[ -z "$full" ] || { quietly build_all thalweg_shared && quietly bash test/docs.sh; } ||
	{ cat "$dir/log"; fail "an example of a document is not what it was"; }

# --- a run with each ---

# STRATEGY RULE RATE: prints the result
job() {
	"$thalweg" sim --json - <<END
model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 0.1, start: 1}}
data: {source: none, samples: 512, batch: 1}
train: {epochs: 2, seed: 1}
update: {rule: $2, rate: $3}
cluster: {workers: 4}
strategy: $1
sim: {compute: {law: exponential, mean: 100ms}}
END
}

field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1; }

train() { # DATA MODEL LOSS EPOCHS: prints the result
	"$thalweg" sim --json -q - <<END
data: $1
model: $2
loss: $3
train: {epochs: $4, seed: 1}
update: {rule: adam, rate: 0.01}
cluster: {workers: 2}
strategy: asgd
END
}

above() { awk -v x="$1" -v least="$2" 'BEGIN { exit !(x > least) }'; }

strategies() {
	local plain change strategy rule rate result share
	plain=$(job '{gate: async}' sgd 0.01)
	for change in '{gate: async}/lion/0.001' '{gate: async, staleness: exponential, keep: 0.5}/sgd/0.01' \
		'{gate: async, codec: {up: fp24}}/sgd/0.01' '{gate: lead-share, share: 0.05}/sgd/0.01' \
		'{gate: lead-share, percent: 5}/sgd/0.01' '{gate: async}/optimistic/0.01' \
		'{gate: async, codec: {up: sign}}/sgd/0.01'; do
		IFS=/ read -r strategy rule rate <<<"$change"
		result=$(job "$strategy" "$rule" "$rate") || fail "'thalweg sim' failed with $change"
		[ -n "$(field parameters_digest <<<"$result")" ] || fail "no result of $change: $result"
		[ "$(field parameters_digest <<<"$result")" != "$(field parameters_digest <<<"$plain")" ] ||
			fail "$strategy, $rule gives what plain asynchronous SGD gives: it was not used"
	done
	same() { # STRATEGY RULE, as the plain job
		[ "$(job "$1" "$2" 0.01 | field parameters_digest)" = "$(field parameters_digest <<<"$plain")" ] ||
			fail "$1, $2 is not plain asynchronous SGD"
	}
	same '{gate: lead-share, share: 1}' sgd
	same '{gate: async, staleness: exponential, keep: 1}' sgd
	same '{gate: async}' 'optimistic, ahead: 0'
	share=$(job '{gate: lead-share, share: 0.05}' sgd 0.01 | field parameters_digest)
	[ "$(job '{gate: lead-share, percent: 5}' sgd 0.01 | field parameters_digest)" = "$share" ] ||
		fail "percent: 5 is not share: 0.05"
	! job '{gate: lead-share, percent: 5, share: 0.05}' sgd 0.01 >"$dir/log" 2>&1 ||
		fail "an alias is accepted together with the field that it stands for"
	grep -q 'strategy.percent: cannot be combined with strategy.share' "$dir/log" || { cat "$dir/log"; fail "no reason"; }
	[ "$(job '{gate: async}' optimistic 0.01 | field evaluated)" = 'w (optimistic)' ] ||
		fail "the result does not say which vector of a rule with its own view is evaluated"
	! job '{gate: async, codec: {down: sign}}' sgd 0.01 >"$dir/log" 2>&1 ||
		fail "a codec for gradients carries parameters"
}

# FIELDS: prints the result of a job with these fields
with() {
	"$thalweg" sim --json -q - 2>"$dir/log" <<END
model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 0.1, start: 1, stages: 4}}
data: {source: none, samples: 512, batch: 1${accumulate+, accumulate: $accumulate}}
train: {epochs: ${epochs-2}, seed: 1}
$1
sim: {compute: {law: exponential, mean: 100ms}}
END
}
differ() { # FIELDS OTHER-FIELDS FIGURE: both run, and this figure of their results is another one
	local one other
	one=$(with "$1") || { cat "$dir/log"; fail "'thalweg sim' failed with $1"; }
	other=$(with "$2") || { cat "$dir/log"; fail "'thalweg sim' failed with $2"; }
	[ -n "$(field "$3" <<<"$one")" ] && [ "$(field "$3" <<<"$one")" != "$(field "$3" <<<"$other")" ] ||
		fail "$1 and $2 have the same $3: it was not used"
}
protocols() {
	local sgd='update: {rule: sgd, rate: 0.01}' four='cluster: {workers: 4}'
	differ "$sgd
$four
strategy: {gate: bsp, topology: chain}" "$sgd
$four
strategy: {gate: bsp, topology: ring}" bytes_sent
	differ "$sgd
$four
strategy: {gate: async, topology: turns}" "$sgd
$four
strategy: {gate: async, topology: gossip}" parameters_digest
	local accumulate=8
	differ "$sgd
cluster: {stages: 4}
strategy: {gate: bsp, pipeline: eager-flush}" "$sgd
cluster: {stages: 4}
strategy: {gate: bsp, pipeline: 1f1b-flush}" in_flight
	unset accumulate
	differ "$sgd
$four
strategy: {gate: bsp, send: delta, outer: {rule: bounded, most: 0.001}}" "$sgd
$four
strategy: {gate: bsp, send: delta, outer: {rule: average}}" parameters_digest
	local epochs=12
	differ "$four
optimiser: bb" "$four
optimiser: gd" parameters_digest
}

networks() {
	local digits spirals tiny bent straight own
	digits='{source: digits, count: 1000, tests: 200, batch: 20, distort: 0.3}'
	spirals='{source: spirals, count: 1000, tests: 200, batch: 10, shake: 0}'
	tiny=$(train "$digits" '{name: tiny-conv, filters: 12, activation: tanh, init: he}' cross-entropy 8)
	above "$(field accuracy <<<"$tiny")" 0.2 || fail "tiny-conv learns nothing: $tiny"
	bent=$(train "$spirals" '{init: he, layers: [linear 32, softsign, linear 32, softsign, linear 2]}' cross-entropy 20)
	straight=$(train "$spirals" '{init: he, layers: [linear 32, linear 32, linear 2]}' cross-entropy 20)
	above "$(field accuracy <<<"$bent")" 0.95 || fail "a network with softsign does not learn the spirals: $bent"
	! above "$(field accuracy <<<"$straight")" 0.85 || fail "without softsign the spirals should not be learnt: $straight"
	own=$(train "${spirals%\}}, predict: input}" '{layers: [linear 8, linear 2]}' '{name: huber, delta: 0.5}' 5)
	above 0.01 "$(field loss <<<"$own")" || fail "huber does not become small: $own"
	[ "$(field accuracy <<<"$own")" = null ] || fail "huber judges: $own"
	! train "$spirals" '{layers: [linear 2]}' huber 1 >"$dir/log" 2>&1 || fail "huber takes labels"
	grep -q "loss 'huber[^']*': needs target values, but the data has labels of 2 classes" "$dir/log" ||
		{ cat "$dir/log"; fail "no reason"; }
}

strategies
protocols
networks
quietly "$thalweg" presets --papers || fail "the new verb fails"
grep -q 'downpour.*Dean' "$dir/log" || { cat "$dir/log"; fail "the new verb does not list its table"; }
! quietly "$thalweg" prests || fail "there is no verb prests"
grep -q 'did you mean presets?' "$dir/log" || { cat "$dir/log"; fail "the new verb is not suggested"; }

# --- no other file was touched ---

diff -rq "$root" "$copy" -x .git -x 'build*' -x .cache | grep -v "^Only in $root" >"$dir/changed" || true
{
	while read -r file; do echo "Only in $copy/$(dirname "$file"): $(basename "$file")"; done <"$dir/files"
	echo "Files $root/docs/REFERENCE.md and $copy/docs/REFERENCE.md differ"
} | LC_ALL=C sort >"$dir/expected"
LC_ALL=C sort "$dir/changed" | diff "$dir/expected" - || fail "other files were touched"

# --- suites that can fail ---

# A suite that cannot fail would pass everything: break each file in a way its contract forbids.
breaks() { # FILE SED-SCRIPT SUITES
	local whole file=$1 script=$2
	shift 2
	whole=$(cat "$file")
	sed -i "$script" "$file"
	[ "$whole" != "$(cat "$file")" ] || fail "nothing to break in $file"
	make_it "$@"
	! run_suites "$@" || fail "no contract suite notices: $file with $script"
	printf '%s\n' "$whole" >"$file"
}
breaks src/strategy/codec/fp24.c 's/return 3 \* n;/return 2 * n;/' strategy_test_codec
breaks src/strategy/codec/sign.c 's/owed\[i\] -= minus.*/owed[i] = 0.0f;/' strategy_test_codec
breaks src/strategy/rule/lion.c 's/i < a->n/i < a->n + 1/' strategy_test_rule
breaks src/strategy/rule/optimistic.c 's/\.kept = .*//' strategy_test_rule
breaks src/strategy/staleness/exponential.c 's/c->n);/c->n + 1);/' strategy_test_staleness
breaks src/strategy/gate/lead-share.c 's/TW_GATE_HOLDS/0/' strategy_test_gate
breaks src/strategy/gate/lead-share.c 's/percent \/ 100.0/percent/' strategy_test_options
breaks src/strategy/outer/bounded.c 's/i < a->n/i < a->n + 1/' strategy_test_outer
breaks src/strategy/reduction/chain.c 's/TW_MOVE_GIVE, rank/TW_MOVE_SEND, rank/' strategy_test_reduction
breaks src/strategy/mixing/turns.c 's/rank < half ?/rank <= half ?/' strategy_test_mixing
breaks src/strategy/pipeline/eager-flush.c 's/first + at - m }/first }/' strategy_test_pipeline
breaks src/strategy/optimiser/bb.c 's/TW_VECTOR_DIRECTION, -1/TW_VECTOR_DIRECTION, 1/' strategy_test_descent
breaks src/graph/op/softsign.c 's/dy\[i\] \* rest \* rest/dy[i] * rest/' graph_test_ops
breaks src/graph/loss/huber.c 's/e < 0 ? -delta : delta/e/' graph_test_ops
breaks src/graph/loss/huber.c 's/\.takes = .*/.takes = TW_LOSS_LABELS,/' graph_test_loss_table
breaks src/model/zoo/tiny-conv.c 's/, tw_layer_list_outputs(site)/, 9u/' model_test_zoo
breaks src/data/source/spirals.c 's/= i % o->arms;/= i % 4;/' data_test_contract
breaks src/cli/verb/presets.c 's/{ "thalweg presets", .*/{ "thalweg", "nothing" },/' cli_test_help
if [ -n "$full" ]; then
	breaks src/strategy/codec/fp24.c 's/len != bound(options, n)/0 \&\& len/' strategy_test_codec
	breaks src/graph/op/softsign.c 's/\(i < \)n; i++) y/\1n \/ 16 * 16; i++) y/' graph_test_ops
	breaks src/data/source/spirals.c '/\.sample = /d' data_test_contract
fi

# --- a new kind ---

kind() {
	local added=$(wc -l <"$dir/files")
	cp -r test/registry/src .
	sed -i 's|^tw_registry(gate .*|&\ntw_registry(toy strategy/toy)|' cmake/rooms.cmake
	sed -i -e 's|^#include "strategy/outer.h"|&\n#include "strategy/toy.h"|' -e 's|^\t{ .field = NULL },|\
	ROW("strategy.toy", "toy", tw_toy_heads, "strategy.", AT(toy), AT(toy_options),\
	    .always = true, .title = "Toys", .about = "which only tests have"),\n&|' src/spec/registries.c
	# its field and what is chosen; at the end, because most of the other build's objects are used
	sed -i 's|^\tsize_t fields;$|&\n\tconst char *toy_name;\n\tconst void *toy, *toy_options;|' src/spec/job.h
	sed -i 's|^const struct tw_option tw_strategy_rows.*|&\
	{ .name = "toy", .standard = "top", .type = TW_TEXT, .help = "what to play with; see the toys",\
	  .offset = offsetof(struct tw_job, toy_name) - offsetof(struct tw_job, strategy) },|' src/spec/fields.c
	printf '%s\n' src/strategy/toy/top.c src/spec/{read,fields,registries}.c >>"$dir/files"
	rooms+=' spec'
	quietly cmake "$build" || { cat "$dir/log"; fail "CMake refuses the copy with a new registry"; }
	make_it thalweg
	shows() { # WORDS TEXT...
		local text words=$1
		shift
		# shellcheck disable=SC2086
		quietly "$thalweg" $words || { cat "$dir/log"; fail "'thalweg $words' fails"; }
		for text; do
			grep -qF -- "$text" "$dir/log" || fail "'thalweg $words' does not have '$text'"
		done
	}
	shows 'help options --markdown' '## Toys' '| `top` | a toy that spins |' 'With `strategy.toy: top`:' \
		'| `strategy.spin` | 3 |'
	shows 'help strategies' 'Toys (strategy.toy)' '  top               a toy that spins'
	shows 'help top' 'top - a toy, which only tests have: a toy that spins' '  strategy.spin '
	shows 'help strategy.spin' 'with strategy.toy: top'
	shows 'completion bash' "'strategy.toy=') list='top " ' strategy.spin= '
	shows 'completion zsh' "'top:"
	quietly job '{gate: async, spin: 5}' sgd 0.01 || { cat "$dir/log"; fail "a job with a toy fails"; }
	! quietly job '{gate: async, toy: pot}' sgd 0.01 || fail "there is no toy called pot"
	grep -q "strategy.toy: no toy is called 'pot'; there are top" "$dir/log" ||
		{ cat "$dir/log"; fail "no reason"; }
	! quietly job '{gate: async, spin: 0}' sgd 0.01 || fail "a toy does not spin 0 turns"
	head -n "$added" "$dir/files" >"$dir/variants"
	mv "$dir/variants" "$dir/files"
}
kind
echo "add_variant: $(wc -l <"$dir/files") new files, no other file of src/ touched; suites and runs agree, and broken ones are noticed; a new kind is known everywhere"
