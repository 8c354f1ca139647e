#!/usr/bin/env bash
# clean_clone.sh [--working-tree]: ./demo and ./check from a clean clone in a fresh Debian 12.
#
# Makes a minimal Debian in a temporary directory, installs nothing in it but git, clones the
# project (the last commit, or with --working-tree the files as they are now), and runs the two
# commands of the README there without a terminal.  TW_MIRROR names another Debian mirror than the
# one in this machine's own sources.  All mounts are in a namespace of their own and end with it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=bookworm

skip() { echo "clean_clone: skipped: $*"; exit 77; }

working_tree=
case ${1:-} in
'') ;;
--working-tree) working_tree=1 ;;
*) echo "usage: test/clean_clone.sh [--working-tree]" >&2; exit 2 ;;
esac
[ "$(id -u)" -eq 0 ] || skip "a chroot needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap (./setup --full installs it)"
command -v git >/dev/null || skip "there is no git"
[ -n "$working_tree" ] || git -C "$root" rev-parse -q --verify HEAD >/dev/null ||
	skip "there is no commit to clone"

if [ -z "${TW_CLEAN_CLONE_INSIDE:-}" ]; then
	unshare --mount --propagation private true 2>/dev/null || skip "this machine does not let us mount"
	TW_CLEAN_CLONE_INSIDE=1 exec unshare --mount --propagation private bash "$0" "$@"
fi

mirror=${TW_MIRROR:-$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(SITE)' 'Created-By: Packages' 2>/dev/null |
	awk -v suite=$suite '$1 == suite && $2 == "main" { print $3; exit }')}
[ -n "$mirror" ] || skip "this machine's sources have no Debian $suite; TW_MIRROR=http://... names a mirror"

dir=$(mktemp -d)
target=$dir/debian
# What is mounted in the new Debian, by this script or by its tests (ip netns), the last one first.
mounted() { awk -v below="$target/" 'index($5, below) == 1 { print $5 }' /proc/self/mountinfo | tac; }
cleanup() {
	local each
	while read -r each; do
		umount -l "$each" || true
	done < <(mounted)
	[ -z "$(mounted)" ] || { echo "clean_clone: these stay mounted: $(mounted)"; return 1; }
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

step() { printf 'clean_clone: %s (%d s)\n' "$*" $SECONDS; }

step "a minimal Debian $suite from $mirror"
debootstrap --variant=minbase "$suite" "$target" "$mirror" >"$dir/log" 2>&1 ||
	{ tail -n 20 "$dir/log"; echo "clean_clone: debootstrap failed"; exit 1; }

# The network of this machine: names, proxies, how apt fetches.
cp -L /etc/resolv.conf "$target/etc/resolv.conf"
cp -L /etc/hosts "$target/etc/hosts"
apt-config dump | grep -E '^Acquire::(http|https|Check-Valid-Until|Retries|ForceIPv[46])' \
	>"$target/etc/apt/apt.conf.d/90network" || true
mount -t proc proc "$target/proc"
mount --bind /dev "$target/dev"
mount -t tmpfs tmpfs "$target/dev/shm"

environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CI=true LANG=C.UTF-8)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
	[ -z "${!name:-}" ] || environment+=("$name=${!name}")
done
inside() { chroot "$target" env -i "${environment[@]}" bash -c "$1" </dev/null; }

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
