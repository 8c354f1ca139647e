#!/usr/bin/env bash
# layers.sh [ROOT | --self-test]: who may include whom (LAYERS), and who may do what.
#
# Prints one line per offence, "file:line: what", and exits with 1 if there was any.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Source without comments and without the contents of strings, lines kept in place.
strip() {
	awk '
	{
		out = ""; i = 1; n = length($0)
		while (i <= n) {
			two = substr($0, i, 2); c = substr($0, i, 1)
			if (comment) {
				if (two == "*/") { comment = 0; i += 2 } else i++
			} else if (two == "/*") {
				comment = 1; i += 2
			} else if (two == "//") {
				break
			} else if (c == "\"" && $0 !~ /^[ \t]*#[ \t]*include/) {
				i++
				while (i <= n && (c = substr($0, i, 1)) != "\"")
					i += c == "\\" ? 2 : 1
				i++
				out = out "\"\""
			} else {
				out = out c; i++
			}
		}
		print out
	}' "$1"
}

# check_tree ROOT: all offences of ROOT/src against ROOT/LAYERS, on stdout.
check_tree() {
	local root=$1 file folder kinds words
	# The folders of src/strategy: gate, rule, ...
	# What actors say to each other: the kinds of messages before those of the worlds.
	words=$(awk '/^enum tw_type/ { on = 1; next } /TW_GREET/ { exit }
		on && match($1, /^TW_[A-Z]+/) { print substr($1, 1, RLENGTH) }' "$root/src/actor/message.h")
	kinds=$(cd "$root/src" && for kind in strategy/*/; do basename "$kind"; done)
	(cd "$root" && find src -name '*.[ch]' | LC_ALL=C sort) | while read -r file; do
		folder=${file#src/} folder=${folder%%/*}
		strip "$root/$file" | awk -v file="$file" -v folder="$folder" -v layers="$root/LAYERS" \
			-v kinds=" ${kinds//$'\n'/ } " -v words="${words//$'\n'/ }" '
		function offence(what) { printf "%s:%d: %s\n", file, FNR, what }
		# A call of a function of the C library: not a member (x->open, x.open), not a longer name.
		function calls(name) { return $0 ~ ("(^|[^A-Za-z0-9_.>])" name "[ \t]*\\(") }
		function forbid(names, why,    list, k, count) {
			count = split(names, list, " ")
			for (k = 1; k <= count; k++)
				if (calls(list[k]))
					offence("calls " list[k] "(): " why)
		}
		# The folder inside src/FOLDER/ that a path belongs to, of those with a row in LAYERS; "" if none.
		function room(path,    at) {
			for (at = path; sub(/\/[^\/]*$/, "", at) && at ~ /\//;)
				if (at in known)
					return at
			return ""
		}
		BEGIN {
			while ((getline line < layers) > 0) {
				if (line ~ /^#/ || line !~ /:/)
					continue
				name = line; sub(/:.*/, "", name)
				sub(/^[^:]*:/, "", line)
				known[name] = 1
				below[name] = " " line " "
			}
			if (!(folder in known)) {
				printf "%s:1: LAYERS does not know the folder %s\n", file, folder
			}
			from = room(substr(file, 5))
			if (from == "")
				from = folder "/."
			quiet = folder !~ /^(cli|web)$/
			pure = folder ~ /^(node|strategy)$/
			# src/strategy/rule/sgd.c -> rule; "" for files of src/strategy itself
			kind = file ~ /^src\/strategy\/[^\/]*\// ? file : ""
			sub(/^src\/strategy\//, "", kind); sub(/\/.*/, "", kind)
			if (folder != "strategy")
				kind = ""
		}
		/^[ \t]*#[ \t]*include[ \t]*"/ {
			path = $0; sub(/^[^"]*"/, "", path); sub(/".*/, "", path)
			if (path !~ /\//) {
				if (path != "thalweg.h")
					offence("include \"" path "\" by its folder: \"folder/name.h\"")
			} else {
				to = path; sub(/\/.*/, "", to)
				if (!(to in known))
					offence("includes \"" path "\", of a folder LAYERS does not know")
				else if (to != folder && below[folder] !~ ("[ \t]" to "[ \t]"))
					offence(folder " may not include " to " (\"" path "\"); see LAYERS")
				else if (to == folder && (inner = room(path)) != "" && inner != from &&
					 below[from] !~ ("[ \t]" inner "[ \t]"))
					offence(from " may not include " inner " (\"" path "\"); see LAYERS")
				else if (to == "strategy" && kind != "" && path != "strategy/" kind ".h") {
					other = path; sub(/^strategy\//, "", other); sub(/(\/.*|\.h)$/, "", other)
					if (other != kind && index(kinds, " " other " "))
						offence("a " kind " may not know of a " other " (\"" path "\")")
				}
			}
			next
		}
		/^[ \t]*#[ \t]*include[ \t]*</ {
			path = $0; sub(/^[^<]*</, "", path); sub(/>.*/, "", path)
			if (pure && path ~ /^(time|sys\/time|pthread|threads|sys\/socket|netdb|netinet\/.*|fcntl|unistd|sys\/random)\.h$/)
				offence(folder " may not include <" path ">: time, chance, threads, files and sockets are the world'"'"'s")
			if (folder == "strategy" && path == "stdio.h")
				offence("a policy neither reads nor prints: no <stdio.h> in strategy")
			next
		}
		{
			if (pure) {
				forbid("tw_clock clock_gettime gettimeofday time clock nanosleep usleep sleep", "time comes from the context")
				forbid("rand srand rand_r random srandom drand48 getrandom", "chance comes from base/rng.h")
				forbid("fopen fdopen open openat creat socket connect listen accept", "files and sockets are the world'"'"'s")
				forbid("pthread_create pthread_mutex_lock thrd_create mtx_lock", "threads are the world'"'"'s")
			}
			# a clock that somebody sets may jump: no deadline and no measured time follows it
			forbid("gettimeofday time timespec_get sem_timedwait pthread_mutex_timedlock", "this clock can be set; use CLOCK_MONOTONIC")
			if ($0 ~ /(^|[^A-Za-z0-9_])CLOCK_(REALTIME|TAI)/)
				offence("names a clock that can be set; use CLOCK_MONOTONIC")
			if (folder == "world")
				for (k = split(words, word, " "); k > 0; k--)
					if ($0 ~ ("(^|[^A-Za-z0-9_])" word[k] "([^A-Za-z0-9_]|$)"))
						offence("names " word[k] ": a world does not read what actors say; they tell it by effects")
			if (folder == "strategy")
				forbid("malloc calloc realloc free aligned_alloc", "a policy says what it needs, the shard allocates")
			if (quiet) {
				forbid("printf puts putchar vprintf perror", "only the faces speak on stdout, the rest through base/machine/log.h")
				if ($0 ~ /(^|[^A-Za-z0-9_])(stdout|STDOUT_FILENO)([^A-Za-z0-9_]|$)/)
					offence("names stdout: only the faces write results")
				if ($0 ~ /(^|[^A-Za-z0-9_])(stderr|STDERR_FILENO)([^A-Za-z0-9_]|$)/ && file !~ /^src\/base\/(machine\/log|status)\.c$/)
					offence("names stderr: speak through base/machine/log.h")
			}
		}'
	done
}

# Each case: a file with an offence, put into a copy of the tree's skeleton, must be named; and what
# only looks like an offence must not.
self_test() {
	local bad=0
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT

	expect() { # FILE OFFENCE LINE-OF-CODE...: OFFENCE "" means none
		local file=$1 offence=$2 said
		shift 2
		rm -rf "${dir:?}/src"
		mkdir -p "$dir/$(dirname "$file")" "$dir"/src/strategy/{gate,staleness,rule,codec} "$dir/src/actor"
		cp "$here/src/actor/message.h" "$dir/src/actor/message.h"
		printf '%s\n' '/* SPDX-License-Identifier: Apache-2.0 */' "$@" >"$dir/$file"
		cp "$here/LAYERS" "$dir/LAYERS"
		said=$(check_tree "$dir")
		if [ -z "$offence" ] && [ -n "$said" ]; then
			echo "wrongly refused: $said"
			bad=1
		elif [ -n "$offence" ] && [[ $said != *"$file:2: $offence"* ]]; then
			echo "not noticed: $file: $* (it said: '$said', not '$offence')"
			bad=1
		fi
	}

	expect src/base/a.c 'base may not include vec' '#include "vec/vec.h"'
	expect src/actor/a.h 'actor may not include node' '#include "node/plan.h"'
	expect src/world/a.c 'world may not include strategy' '#include "strategy/gate.h"'
	expect src/node/a.c 'node may not include world' '# include "world/sim/sim.h"'
	expect src/cli/verb/a.c 'cli may not include node' '#include "node/plan.h"'
	expect src/world/sim/a.c 'world/sim may not include world/tcp' '#include "world/tcp/tcp.h"'
	expect src/world/a.c 'world/. may not include world/sim' '#include "world/sim/sim.h"'
	expect src/data/format/picture/a.c 'data/format may not include data/source' '#include "data/source/a.h"'
	expect src/spec/a.c 'include "job.h" by its folder' '#include "job.h"'
	expect src/spec/a.c 'includes "cellar/a.h"' '#include "cellar/a.h"'
	expect src/strategy/rule/a.c 'a rule may not know of a' '#include "strategy/gate.h"'
	expect src/strategy/rule/a.c 'a rule may not know of a codec' '#include "strategy/codec/fp16.h"'
	expect src/strategy/gate/a.c 'a policy neither' '#include <stdio.h>'
	expect src/strategy/gate/a.c 'calls malloc()' 'void *f(void) { return malloc(1); }'
	expect src/strategy/a.c 'calls printf()' 'int f(void) { return printf("x"); }'
	expect src/node/a.c 'node may not include <time.h>' '#include <time.h>'
	expect src/node/a.c 'node may not include <pthread.h>' '#include <pthread.h>'
	expect src/node/a.c 'calls clock_gettime()' '	clock_gettime(0, &t);'
	expect src/world/a.c 'calls time()' '	until = time(NULL) + 5;'
	expect src/run/a.c 'names a clock that can be set' '	clock_gettime(CLOCK_REALTIME, &t);'
	expect src/run/a.c 'names a clock that can be set' '	clock_gettime(CLOCK_REALTIME_COARSE, &t);'
	expect src/run/a.c '' '	clock_gettime(CLOCK_MONOTONIC, &t);'
	expect src/node/a.c 'calls rand()' '	return rand () % 6;'
	expect src/node/a.c 'calls fopen()' '	f = fopen(path, "r");'
	expect src/node/a.c 'calls rand()' '	puts_nothing("/*"); x = rand();'
	expect src/spec/a.c 'names stdout' '	fputs(text, stdout);'
	expect src/world/a.c 'names stderr' '	fputs(text, stderr);'
	expect src/bench/a.c 'calls printf()' '	printf("%d\n", 1);'

	expect src/world/a.c 'names TW_VIEW' '	if (m->h.type == TW_VIEW)'
	expect src/world/a.c 'names TW_HELLO' '	case TW_HELLO:'
	expect src/world/a.c '' '	if (m->h.type == TW_GREET || n == TW_NOTE_VIEW || w.TW_VIEWS)'

	expect src/node/a.c '' '#include "actor/actor.h"' '#include "strategy/rule.h"' '#include <stdio.h>' \
		'	snprintf(out, room, "time(0) %s", s->open(1));' '	/* rand() and' '	 * fopen(), stdout */'
	expect src/strategy/rule/a.c '' '#include "strategy/rule.h"' '#include "strategy/scalar.h"' '#include "vec/vec.h"' '#include <math.h>'
	expect src/world/tcp/a.c '' '#include "world/desk.h"' '#include "world/tcp/tcp.h"' '#include "world/threads/threads.h"'
	expect src/data/a.c '' '#include "data/format/picture/picture.h"' '#include "data/batch.h"'
	expect src/strategy/a.c '' '#include "strategy/rule.h"' '#include "strategy/gate.h"'
	expect src/base/machine/log.c '' '	fputs(line, stderr);'
	expect src/cli/a.c '' '#include "spec/job.h"' '	printf("%d\n", 1);'

	rm -rf "$dir/src"
	mkdir -p "$dir/src/attic" "$dir/src/actor"
	cp "$here/src/actor/message.h" "$dir/src/actor/message.h"
	echo >"$dir/src/attic/a.c"
	[[ $(check_tree "$dir") == *'LAYERS does not know the folder attic'* ]] ||
		{ echo "an unknown folder was not noticed"; bad=1; }
	[ $bad -eq 0 ] && echo "layers: every offence of the self-test was noticed"
	return $bad
}

case ${1:-} in
--self-test) self_test ;;
-*) echo "usage: test/layers.sh [ROOT | --self-test]" >&2; exit 2 ;;
*)
	offences=$(check_tree "${1:-$here}")
	if [ -n "$offences" ]; then
		echo "$offences"
		echo "layers: $(wc -l <<<"$offences") offences"
		exit 1
	fi
	echo "layers: every include and call is where it may be"
	;;
esac
