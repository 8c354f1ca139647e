# shellcheck shell=bash
# fresh_debian.sh: a minimal Debian 12 in a temporary directory, for the tests that source this file.
#
# The test sets `me`, its name.  It gets `dir`, a temporary directory, `target`, the root of that
# Debian in it, and the functions skip, step and inside.  TW_MIRROR names another Debian mirror than
# the one in this machine's own sources.  All mounts are in a namespace of their own and end with it:
# the test is started anew there, with its arguments.
suite=bookworm

skip() { echo "$me: skipped: $*"; exit 77; }
step() { printf '%s: %s (%d s)\n' "$me" "$*" $SECONDS; }

[ "$(id -u)" -eq 0 ] || skip "a chroot needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap (./setup --full installs it)"

if [ -z "${TW_FRESH_DEBIAN_INSIDE:-}" ]; then
	unshare --mount --propagation private true 2>/dev/null || skip "this machine does not let us mount"
	TW_FRESH_DEBIAN_INSIDE=1 exec unshare --mount --propagation private bash "$0" "$@"
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
	[ -z "$(mounted)" ] || { echo "$me: these stay mounted: $(mounted)"; return 1; }
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

step "a minimal Debian $suite from $mirror"
debootstrap --variant=minbase "$suite" "$target" "$mirror" >"$dir/log" 2>&1 ||
	{ tail -n 20 "$dir/log"; echo "$me: debootstrap failed"; exit 1; }

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
