#!/usr/bin/env bash
# clean_clone.sh [--working-tree]: ./demo and ./check from a clean clone in a fresh Debian 12.
#
# Makes a minimal Debian in a temporary directory, installs nothing in it but git, clones the
# project (the last commit, or with --working-tree the files as they are now), and runs the two
# commands of the README there without a terminal.  test/fresh_debian.sh says what that needs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
me=clean_clone

working_tree=
case ${1:-} in
'') ;;
--working-tree) working_tree=1 ;;
*) echo "usage: test/clean_clone.sh [--working-tree]" >&2; exit 2 ;;
esac
command -v git >/dev/null || { echo "$me: skipped: there is no git"; exit 77; }
[ -n "$working_tree" ] || git -C "$root" rev-parse -q --verify HEAD >/dev/null ||
	{ echo "$me: skipped: there is no commit to clone"; exit 77; }
. "$root/test/fresh_debian.sh"

step "git, and nothing else"
inside 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install git' \
	>"$dir/log" 2>&1 || { tail -n 20 "$dir/log"; echo "clean_clone: git could not be installed"; exit 1; }

step "a clone of the project"
mkdir -p "$target/srv"
cd "$root"
if [ -n "$working_tree" ]; then
	mkdir "$dir/tree"
	git ls-files -co --exclude-standard -z | while IFS= read -r -d '' file; do
		[ ! -e "$file" ] || printf '%s\0' "$file"
	done | tar --null -cf - -T - | tar -xf - -C "$dir/tree"
	git -C "$dir/tree" init -q -b main
	git -C "$dir/tree" add -A
	git -C "$dir/tree" -c user.name=test -c user.email=test@localhost commit -q -m "the working tree"
	git clone -q --bare "$dir/tree" "$target/srv/thalweg.git"
else
	[ -z "$(git status --porcelain)" ] ||
		echo "clean_clone: the working tree has changes; only what is committed is tested"
	git clone -q --bare "$root" "$target/srv/thalweg.git"
fi
chown -R 0:0 "$target/srv"
inside 'git clone -q /srv/thalweg.git /root/thalweg'

for command in ./demo ./check; do
	step "$command"
	if ! inside "cd /root/thalweg && $command" >"$dir/out" 2>&1; then
		cat "$dir/out"
		echo "clean_clone: $command failed in a fresh Debian"
		exit 1
	fi
	tail -n 4 "$dir/out" | sed 's/^/    /'
done
grep -qE '^[1-9][0-9]* passed, 0 failed(, [0-9]+ skipped)?$' "$dir/out" || { cat "$dir/out"; echo "clean_clone: ./check did not end with its count"; exit 1; }
[ -z "$(inside 'cd /root/thalweg && git status --porcelain')" ] ||
	{ inside 'cd /root/thalweg && git status --porcelain'; echo "clean_clone: the two commands left files in the tree"; exit 1; }
step "both commands work"
