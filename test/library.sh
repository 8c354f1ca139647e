#!/usr/bin/env bash
# library.sh: the installed library, as another program finds it: symbols, pkg-config, CMake, examples,
# and the snippets of docs/LIBRARY.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
build=${TW_BUILD:?the build directory}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "library: $*"; exit 1; }

# Somewhere else than it was configured for: nothing installed may know where it was to be.
DESTDIR=$dir/stage cmake --install "$build" --prefix /opt/thalweg >"$dir/log"
mv "$dir/stage/opt/thalweg" "$dir/prefix"
prefix=$dir/prefix
pc=$(find "$prefix" -name thalweg.pc)
[ -n "$pc" ] || fail "thalweg.pc is not installed"
lib=$(cd "$(dirname "$pc")/.." && pwd)
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib

# --- symbols: the API, all of it, and nothing else ---
grep -oE '\bthalweg_[a-z_]+\(' include/thalweg.h | tr -d '(' | sort -u >"$dir/api"
[ "$(wc -l <"$dir/api")" -ge 10 ] || fail "found no API in the header"
nm -D --defined-only "$lib/libthalweg.so" | awk '{ print $3 }' | sort >"$dir/shared"
diff "$dir/api" "$dir/shared" || fail "the shared library's symbols are not the API"
nm --extern-only --defined-only "$lib/libthalweg.a" | awk 'NF == 3 { print $3 }' | sort >"$dir/static"
diff "$dir/api" "$dir/static" || fail "the static library's symbols are not the API"
version=$(sed -n 's/^#define THALWEG_VERSION[[:space:]]*"\(.*\)"$/\1/p' include/thalweg.h)
[ "$(pkg-config --modversion thalweg)" = "$version" ] || fail "thalweg.pc has another version than the header"
readelf -d "$lib/libthalweg.so" | grep -q "SONAME.*libthalweg.so.${version%.*}\]" || fail "the soname is not ${version%.*}"

# --- the header, alone, in C and in C++ ---
flags=(-Wall -Wextra -Wno-unused-parameter -Werror)
echo '#include <thalweg.h>' >"$dir/alone.c"
read -ra includes < <(pkg-config --cflags thalweg)
cc -std=c11 -pedantic-errors "${flags[@]}" "${includes[@]}" -fsyntax-only "$dir/alone.c"
if command -v c++ >/dev/null; then
	c++ -std=c++11 -pedantic-errors "${flags[@]}" "${includes[@]}" -x c++ -fsyntax-only "$dir/alone.c"
fi

# --- the examples, with the shared and with the static library ---
[ "$(wc -l <examples/embed/own_gradient.c)" -lt 80 ] || fail "the example has grown to 80 lines"
read -ra shared < <(pkg-config --libs thalweg)
read -ra static < <(pkg-config --static --libs thalweg)
static=("${static[@]/#-lthalweg/$lib/libthalweg.a}")

try() { # PROGRAM-own PROGRAM-job: run both, look at what they say
	local said accuracy
	said=$(timeout 120 "$1") || fail "$1 ended with $?"
	accuracy=$(sed -n 's/^accuracy \([01]\.[0-9]*\) after 10 epochs$/\1/p' <<<"$said")
	[ -n "$accuracy" ] || fail "$1 said: $said"
	awk -v a="$accuracy" 'BEGIN { exit !(a > 0.9 && a <= 1) }' || fail "$1: accuracy only $accuracy"
	said=$(timeout 120 "$2" examples/ssgd.yaml "$dir/out.safetensors" train.epochs=1 2>"$dir/err") ||
		fail "$2 ended with $?: $(cat "$dir/err")"
	[[ $said == '{"strategy":"ssgd",'*'loss '*' test samples'*'parameters: '*' values' ]] || fail "$2 said: $said"
	[ -s "$dir/out.safetensors" ] || fail "$2 saved nothing"
	if timeout 120 "$2" examples/ssgd.yaml "$dir/out.safetensors" train.epocs=1 >"$dir/said" 2>&1; then
		fail "$2 took an unknown field"
	fi
	grep -q 'train.epocs' "$dir/said" || fail "$2 said: $(cat "$dir/said")"
}

for name in own_gradient train_job; do
	cc -std=c11 "${flags[@]}" "${includes[@]}" "examples/embed/$name.c" "${shared[@]}" -lm -o "$dir/$name-shared"
	cc -std=c11 "${flags[@]}" "${includes[@]}" "examples/embed/$name.c" "${static[@]}" -o "$dir/$name-static"
	if ldd "$dir/$name-static" | grep -q libthalweg; then
		fail "$name-static needs the shared library"
	fi
done
try "$dir/own_gradient-shared" "$dir/train_job-shared"
try "$dir/own_gradient-static" "$dir/train_job-static"

# --- sessions: simulated workers, and a cluster that is joined with a key ---
for name in join simulate federated; do
	[ "$(wc -l <"examples/embed/$name.c")" -le 80 ] || fail "$name.c has more than 80 lines"
	cc -std=c11 "${flags[@]}" "${includes[@]}" "examples/embed/$name.c" "${shared[@]}" -lm -o "$dir/$name"
done
said=$(timeout 120 "$dir/simulate") || fail "simulate ended with $?"
[ "$(grep -cE '^strategy=[a-z]+ +loss [0-9.]+ after [0-9.]+ virtual seconds' <<<"$said")" -eq 3 ] || fail "simulate said: $said"
[ "$said" = "$(timeout 120 "$dir/simulate")" ] || fail "simulate said something else the second time"
mkdir "$dir/cluster"
cp examples/embed/join.yaml "$dir/cluster/"
thalweg() { "$build/thalweg" "$@"; }
(cd "$dir/cluster" && eval "$(sed -n 's/^ \*\t\((umask.*\)$/\1/p' "$root/examples/embed/join.c")" &&
	eval "$(sed -n '/^ \*\t(printf/,/model.safetensors$/ { s/^ \*\t//; p }' "$root/examples/embed/join.c")")
(cd "$dir/cluster" && exec timeout 120 "$build/thalweg" serve join.yaml --listen 127.0.0.1:0 --key cluster.key \
	--http off --json >result 2>log) &
served=$!
for ((k = 0; k < 200; k++)); do
	port=$(sed -n 's/.*join 127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/cluster/log" 2>/dev/null | head -1) || true
	[ -z "$port" ] || break
	sleep 0.05
done
[ -n "$port" ] || fail "serve does not listen: $(cat "$dir/cluster/log")"
timeout 120 "$dir/join" "127.0.0.1:$port" "$dir/cluster/cluster.key" 2>"$dir/cluster/other" &
other=$!
timeout 120 "$dir/join" "127.0.0.1:$port" "$dir/cluster/cluster.key" 2>"$dir/cluster/one" ||
	fail "join ended with $?: $(cat "$dir/cluster/one")"
wait $other || fail "the other join ended: $(cat "$dir/cluster/other")"
wait $served || fail "serve ended: $(cat "$dir/cluster/log")"
accuracy=$(sed -n 's/^ *"accuracy": \([0-9.]*\),.*/\1/p' "$dir/cluster/result" | head -1)
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.9 && a <= 1) }' || fail "join: accuracy only $accuracy"

# --- callers with data of their own ---
cp examples/embed/federated.yaml "$dir/cluster/"
(cd "$dir/cluster" && exec timeout 120 "$build/thalweg" serve federated.yaml --listen 127.0.0.1:0 \
	--http off --json >own_result 2>own_log) &
served=$!
for ((k = 0; k < 200; k++)); do
	port=$(sed -n 's/.*join 127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/cluster/own_log" 2>/dev/null | head -1) || true
	[ -z "$port" ] || break
	sleep 0.05
done
[ -n "$port" ] || fail "serve does not listen: $(cat "$dir/cluster/own_log")"
others=
for k in 0 1 2 3 4; do
	timeout 120 "$dir/federated" "127.0.0.1:$port" $k 2>"$dir/cluster/own_$k" &
	others="$others $!"
done
for other in $others; do
	wait "$other" || fail "a caller ended: $(cat "$dir"/cluster/own_[0-4])"
done
wait $served || fail "serve ended: $(cat "$dir/cluster/own_log")"
grep -q '"vacant": 10000' "$dir/cluster/own_result" || fail "own: $(grep -A3 '"own"' "$dir/cluster/own_result")"
grep -q '"samples": 30000,' "$dir/cluster/own_result" || fail "own: not all samples: $(cat "$dir/cluster/own_result")"
accuracy=$(sed -n 's/^ *"accuracy": \([0-9.]*\),.*/\1/p' "$dir/cluster/own_result" | head -1)
awk -v a="$accuracy" 'BEGIN { exit !(a > 0.85 && a <= 1) }' || fail "federated: accuracy only $accuracy"

# --- CMake's package ---
mkdir "$dir/cmake"
cat >"$dir/cmake/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.13)
project(embed LANGUAGES C)
find_package(thalweg ${version%.*} REQUIRED)
foreach(name own_gradient train_job)
	add_executable(\${name} $root/examples/embed/\${name}.c)
	target_link_libraries(\${name} PRIVATE thalweg::thalweg m)
	add_executable(\${name}-static $root/examples/embed/\${name}.c)
	target_link_libraries(\${name}-static PRIVATE thalweg::static)
endforeach()
END
(cmake -G Ninja -S "$dir/cmake" -B "$dir/cmake/build" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$dir/cmake/build") \
	>"$dir/log" 2>&1 || { cat "$dir/log"; fail "CMake's package does not do"; }
try "$dir/cmake/build/own_gradient" "$dir/cmake/build/train_job"
try "$dir/cmake/build/own_gradient-static" "$dir/cmake/build/train_job-static"

# --- the snippets of docs/LIBRARY.md: each block of C compiles, the command of the first one works ---
awk -v dir="$dir" '/^```c$/ { file = sprintf("%s/snippet-%d.c", dir, ++n); next } /^```/ { file = "" }
	file { print >file }' docs/LIBRARY.md
[ -s "$dir/snippet-3.c" ] || fail "found no snippets in docs/LIBRARY.md"
for snippet in "$dir"/snippet-*.c; do
	cc -std=c11 "${flags[@]}" "${includes[@]}" -c "$snippet" -o "$dir/snippet.o" || fail "a snippet does not compile"
done
cp examples/embed/own_gradient.c "$dir/"
works() { # WHERE COMMAND: it makes own_gradient, which runs; in $dir
	(cd "$dir" && rm -f own_gradient && eval "$2" && timeout 120 ./own_gradient) >"$dir/log" 2>&1 ||
		{ cat "$dir/log"; fail "this line of $1 does not work: $2"; }
}
command=$(awk '/^```sh build$/ { on = 1; next } /^```/ { on = 0 } on' docs/LIBRARY.md)
works docs/LIBRARY.md "$command"
command=$(awk '/^```sh static$/ { on = 1; next } /^```/ { on = 0 } on' docs/LIBRARY.md)
works docs/LIBRARY.md "$command"
(unset LD_LIBRARY_PATH && works docs/LIBRARY.md "$command") # static: nothing is looked for

# --- the lines of README.md, word by word: by pkg-config, and without, finding the library by itself ---
mapfile -t lines < <(grep '^cc .*thalweg' README.md)
[ ${#lines[@]} -eq 2 ] || fail "README.md has ${#lines[@]} lines that compile, not 2"
[[ ${lines[0]} == *pkg-config* && ${lines[1]} == *-rpath,* ]] || fail "README.md's lines are others"
ln -s "$root/examples" "$dir/examples"
works README.md "${lines[0]}"
[ "$lib" = "$prefix/lib" ] || fail "README.md says \$prefix/lib, and it is $lib"
(unset LD_LIBRARY_PATH PKG_CONFIG_PATH && works README.md "${lines[1]}")
if (unset LD_LIBRARY_PATH && cd "$dir" && eval "${lines[0]}" && ./own_gradient) >"$dir/log" 2>&1; then
	ldconfig -p | grep -q libthalweg || fail "README.md's warning about the library path is not needed"
fi
echo "library: found, linked and run, shared and static, by pkg-config and CMake"
