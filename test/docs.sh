#!/usr/bin/env bash
# docs.sh: every file that a document names exists, every relative link leads somewhere, a README.md of a
# folder names only files and functions that are there, docs/ARCHITECTURE.md stays a tour, lines have at
# most 100 columns, and every example of README.md, docs/NETWORKS.md, docs/RECIPES.md, docs/PYTHON.md and
# docs/COMING_FROM.md does what it says; those of the last two with --python.
#
# The blocks of a page that have a language are taken in order, in one folder for each page.  Behind
# the language stand words: file=NAME writes the block there; needs=numpy, torch, mnist or moby-dick passes
# over what cannot be run here; wrong marks a job that is refused; like compares figures by their form
# only.  yaml: explained and inspected.  sh: run.  python: written and run.  console: each line after
# "$ " is run, and what follows it must be all that it prints; "..." stands for any rest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
bad=0
# What CONTRIBUTING.md shows how to add does not exist yet.
shown=$(sed -n 's/^```c file=//p' CONTRIBUTING.md)
mapfile -t folders < <(find src test -name README.md | LC_ALL=C sort)
for doc in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md "${folders[@]}"; do
	for path in $(grep -oE '`[^`]+`' "$doc" | tr -d '`' |
		grep -E '^(src|test|fuzz|cmake|docs|examples|bench|\.ci|\.)(/[A-Za-z0-9_./-]*)?$' | sort -u); do
		[ -e "$path" ] || grep -qxF "$path" <<<"$shown" ||
			{ echo "$doc: names $path, which does not exist"; bad=1; }
	done
	for link in $(grep -oE '\]\([^)#]+' "$doc" | cut -c3- | grep -v '^https\?:' | sort -u); do
		[ -e "$(dirname "$doc")/$link" ] || { echo "$doc: the link $link leads nowhere"; bad=1; }
	done
done
# The README.md of a folder: its tables name files of the folder, and functions that exist.
python3 - "${folders[@]}" <<'END' || bad=1
import os
import re
import sys
words, bad = set(), 0
for top in ("src", "test", "include"):
    for path, _, names in os.walk(top):
        for name in names:
            if name.endswith((".c", ".h", ".py", ".sh")):
                with open(os.path.join(path, name), encoding="utf-8") as f:
                    words |= set(re.findall(r"\w+", f.read()))
prefixes = {w[:k] for w in words if w.startswith("tw_") for k in range(len(w)) if w[k - 1] == "_"}
for doc in sys.argv[1:]:
    for number, line in enumerate(open(doc, encoding="utf-8"), 1):
        row = re.match(r"\| ((?:`[^`]+`(?:, )?)+) \|", line)
        names = re.findall(r"`([\w/.-]+\.(?:c|h|py|sh))`", row[1]) if row else []
        inside = os.path.dirname(doc)
        for name in names:
            at = [name, os.path.join(inside, name)]
            if "/" in names[0]:  # the first of a row may say where the others are
                at += [os.path.join(d, os.path.dirname(names[0]), name) for d in ("", inside)]
            if not any(map(os.path.exists, at)):
                print(f"{doc}:{number}: names {name}, which is not there")
                bad += 1
        for word in re.findall(r"`[^`]*?\b(tw_\w+)[^`]*`", line):
            if word not in words and word not in prefixes:
                print(f"{doc}:{number}: names {word}, which does not exist")
                bad += 1
with open("docs/ARCHITECTURE.md", encoding="utf-8") as f:
    tour = len(f.read().split())
if tour > 4000:
    print(f"docs/ARCHITECTURE.md: {tour} words, at most 4000: what belongs to a folder goes to its README.md")
    bad += 1
sys.exit(bad > 0)
END
# Every preset has a row in docs/STRATEGIES.md, and README.md names it.
for preset in $(sed -n 's/^.*\.name = "\([a-z0-9-]*\)",$/\1/p' src/spec/presets.c); do
	grep -q "^| \`$preset\` |" docs/STRATEGIES.md ||
		{ echo "docs/STRATEGIES.md: has no row for the preset $preset"; bad=1; }
	grep -q "^| .*\`$preset\`" README.md || { echo "README.md: does not name the preset $preset"; bad=1; }
done
# Lines of at most 100 columns, but for tables, code, and the page that is made from tables.
python3 - README.md CONTRIBUTING.md CHANGELOG.md docs/*.md "${folders[@]}" <<'END' || bad=1
import sys
long = 0
for name in sys.argv[1:]:
    if name == "docs/REFERENCE.md":
        continue
    code = False
    for number, line in enumerate(open(name, encoding="utf-8"), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.lstrip().startswith("|") and len(line.rstrip("\n")) > 100:
            print(f"{name}:{number}: {len(line) - 1} columns, at most 100 outside tables and code")
            long += 1
sys.exit(long > 0)
END
[ $bad -eq 0 ] || exit 1

build=$(cd "${TW_BUILD:-build}" && pwd)
[ -x "$build/thalweg" ] || { echo "docs: there is no $build/thalweg to try the examples with"; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PATH=$build:$PATH
export PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1 TW_LIBRARY=$build/libthalweg.so TW_PROGRAM=$build/thalweg
# for examples of clusters: a port that was free a moment ago
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT
block=
fail() { echo "$doc:${line:-?}: $*"; [ -z "$block" ] || sed 's/^/    /' "$block"; exit 1; }

declare -A known # what is here, looked for once
have() { # numpy, torch, mnist, moby-dick or nothing
	[ -n "$1" ] || return 0
	[ -n "${known[$1]:-}" ] || { look "$1" && known[$1]=true || known[$1]=false; }
	${known[$1]}
}
look() {
	case $1 in
	numpy | torch) /usr/bin/python3 -c "import $1" >/dev/null 2>&1 ;;
	mnist | moby-dick) thalweg data check "$1" >/dev/null 2>&1 ;;
	*) fail "needs=$1 is not known" ;;
	esac
}

yaml() {
	if [ -n "$wrong" ]; then
		! thalweg inspect - <"$block" >out 2>&1 || fail "this job is said to be wrong"
		return
	fi
	thalweg train - --explain <"$block" >explained 2>out || { cat out; fail "is refused"; }
	thalweg train - --explain <explained 2>&1 | diff explained - ||
		fail "what --explain says of it explains itself otherwise"
	thalweg inspect - <"$block" >out 2>&1 || { cat out; fail "cannot be opened"; }
}

# The commands of a block and what each should print, one after the other.
console() {
	local command='' expected='' text
	while IFS= read -r text || [ -n "$text" ]; do
		if [[ $text == '$ '* ]]; then
			[ -z "$command" ] || compare "$command" "$expected"
			command=${text#'$ '} expected=
		else
			expected+=$text$'\n'
		fi
	done <"$block"
	compare "$command" "$expected"
}

# Figures of the same form are equal: digits to one 0, digests to one x; and so are instruction sets.
form() { sed -E 's/, (plain|avx2|avx512)\)/, isa)/g; s/\b[0-9a-f]{32,}\b/x/g; s/[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?/0/g'; }

compare() { # COMMAND EXPECTED
	local got status=0 expected=$2
	got=$(bash -o pipefail -c "$1" </dev/null 2>&1) || status=$?
	# a request that is wrong ends with 2 and a sentence
	[ $status -eq 0 ] || { [ $status -eq 2 ] && [[ $2 == thalweg:* ]]; } ||
		fail "'$1' ends with $status and says: $got"
	local said=$got
	[ -z "$like" ] || { got=$(form <<<"$got") expected=$(form <<<"$expected")$'\n'; }
	if [[ $expected == *$'...\n' ]]; then
		[[ $got$'\n' == "${expected%$'...\n'}"* ]] || fail "'$1' says: $said"
	else
		[ "$got" = "${expected%$'\n'}" ] || fail "'$1' says: $said"
	fi
}

# Run all blocks of a page; fewer than AT-LEAST is a failure.
page() { # DOC AT-LEAST
	local passed=0 ran=0 able word words language
	doc=$1 block=
	rm -rf "$dir/blocks" "$dir/here"
	mkdir "$dir/blocks" "$dir/here"
	cd "$dir/here"
	awk -v to="$dir/blocks/" '
		!inside && /^```[a-z]/ {
			inside = 1
			name = sprintf("%s%03d", to, ++count)
			printf "%d %s\n", NR, substr($0, 4) >(name ".words")
			printf "" >name
			next
		}
		/^```$/ { inside = 0; next }
		inside { print >name }' "$root/$doc"
	for block in "$dir"/blocks/[0-9][0-9][0-9]; do
		read -r line language words <"$block.words"
		file='' needs='' wrong='' like=''
		for word in $words; do
			case $word in
			file=*) file=${word#file=} ;;
			needs=*) needs=${word#needs=} ;;
			wrong) wrong=$word ;;
			like) like=$word ;;
			*) fail "'$word' behind the language is not known" ;;
			esac
		done
		[ -z "$file" ] || cp "$block" "$file"
		able=true
		have "$needs" || able=false
		case $language in
		yaml) ! $able || yaml ;;
		csv | json) [ -n "$file" ] || fail "a table without file=" ;;
		sh) ! $able || bash -e -o pipefail "$block" </dev/null >out 2>&1 || { cat out; fail "does not run"; } ;;
		python) ! $able || /usr/bin/python3 "$file" </dev/null >out 2>&1 || { cat out; fail "does not run"; } ;;
		console) ! $able || console ;;
		*) fail "a block of '$language', which nothing here runs" ;;
		esac
		if $able; then ran=$((ran + 1)); else passed=$((passed + 1)); fi
	done
	[ $ran -ge "$2" ] || { echo "docs: only $ran examples of $doc were found"; exit 1; }
	cd "$root"
	echo "docs: $ran examples of $doc run, $passed passed over for what is not here"
}

if [ "${1:-}" = --python ]; then # most of them start PyTorch
	page docs/PYTHON.md 2
	page docs/COMING_FROM.md 0
else
	page README.md 4
	page docs/NETWORKS.md 20
	page docs/RECIPES.md 4
fi
echo "docs: every path and link is there"
