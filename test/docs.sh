#!/usr/bin/env bash
# docs.sh: every file that a document names exists, and every relative link leads somewhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bad=0
# What CONTRIBUTING.md shows how to add does not exist yet.
shown=$(sed -n 's/^```c file=//p' CONTRIBUTING.md)
for doc in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
	for path in $(grep -oE '`[^`]+`' "$doc" | tr -d '`' |
		grep -oE '^(src|test|cmake|docs|examples|bench|\.ci|\./)[A-Za-z0-9_./-]*$' | sort -u); do
		[ -e "$path" ] || grep -qxF "$path" <<<"$shown" ||
			{ echo "$doc: names $path, which does not exist"; bad=1; }
	done
	for link in $(grep -oE '\]\([^)#]+' "$doc" | cut -c3- | grep -v '^https\?:' | sort -u); do
		[ -e "$(dirname "$doc")/$link" ] || { echo "$doc: the link $link leads nowhere"; bad=1; }
	done
done
[ $bad -eq 0 ] && echo "docs: every path and link is there"
exit $bad
