#!/usr/bin/env bash
# run.sh PROGRAM [LIBFUZZER-ARGUMENT...]: run one fuzzer over its seeds and on from them.
# run.sh --works: can fuzzers be built here?
#
# For TW_FUZZ_SECONDS (3).  What it finds stays in findings/ beside the program; from a minute on,
# so does what it learns, in corpus/.  The last line says how it went.
set -euo pipefail
if [ "${1:-}" = --works ]; then
	echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
		clang -x c -fsanitize=fuzzer,address,undefined -o /dev/null - >/dev/null 2>&1
	exit
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$(realpath -m "$1")
[ -x "$program" ] || { echo "fuzz: there is no program $program: cmake --build --preset fuzz" >&2; exit 1; }
shift
name=$(basename "$program")
name=${name#fuzz_}
out=$(dirname "$program")
seconds=${TW_FUZZ_SECONDS:-3}

scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out/findings" "$scratch/new"
learnt=$scratch/new
if [ "$seconds" -ge 60 ]; then
	learnt=$out/corpus/$name
	mkdir -p "$learnt"
fi
words=()
[ ! -f "$here/$name.dict" ] || words=(-dict="$here/$name.dict")

most=4096
[ "$name" != checkpoint ] || most=8192
failed=0
TMPDIR=$scratch ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 "$program" \
	-seed=1 -max_total_time="$seconds" -max_len=$most -timeout=10 -rss_limit_mb=2048 \
	-print_final_stats=1 -artifact_prefix="$out/findings/$name-" "${words[@]}" "$@" \
	"$learnt" "$here/corpus/$name" >"$scratch/log" 2>&1 </dev/null || failed=1

number() { sed -n "s/^stat::$1: *//p" "$scratch/log" | tail -n 1; }
if [ $failed -ne 0 ]; then
	cat "$scratch/log"
	echo "fuzz $name: a finding, see above; its input is in $out/findings"
	exit 1
fi
echo "fuzz $name: $(number number_of_executed_units) executions, $(number average_exec_per_sec) a second, nothing found" |
	tee "$out/$name.said"
