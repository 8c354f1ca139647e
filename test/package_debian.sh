#!/usr/bin/env bash
# package_debian.sh: the .deb of `cpack`, and `pip install ./python` without a network, in a fresh Debian 12.
#
# apt installs the package there with what it depends on, and nothing else.  The program and the
# Python package train, and nothing is left when the package is removed.  Then pip installs the Python
# package into a clean virtual environment, with no network at all.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
me=package_debian
build=${TW_BUILD:?the build directory}
for tool in cpack dpkg-deb; do
	command -v $tool >/dev/null || { echo "$me: skipped: there is no $tool here"; exit 77; }
done
. "$root/test/fresh_debian.sh"
fail() { echo "$me: $*"; exit 1; }
quietly() { # WHAT COMMAND: in the new Debian, its output only if it fails
	inside "$2" >"$dir/log" 2>&1 || { tail -n 30 "$dir/log"; fail "$1 failed"; }
}
apt="DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends"
python='import thalweg as tw
r = tw.train({"model": {"quadratic": {}}, "data": {"batch": 2}, "update": {"rate": 0.01}, "strategy": "ssgd"})
print(tw._lib._name, tw._library.program(), r.samples)'

step "the package"
cpack --config "$build/CPackConfig.cmake" -B "$dir/out" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "cpack failed"; }
mkdir -p "$target/srv/build"
cp "$(find "$dir/out" -maxdepth 1 -name 'thalweg_*.deb')" "$target/srv/thalweg.deb"
printf '%s\n' 'model: {quadratic: {}}' 'data: {batch: 2}' 'train: {epochs: 1}' 'update: {rate: 0.01}' \
	'cluster: {workers: 2}' 'strategy: ssgd' >"$target/srv/job.yaml"
printf '%s\n' "$python" >"$target/srv/try.py"
quietly "apt-get update" "$apt update"
quietly "installing the package" "$apt install /srv/thalweg.deb"
quietly "thalweg train" "cd /srv && thalweg --version && thalweg train job.yaml --run run"
[ -z "$(inside 'command -v python3')" ] || fail "the package brings Python along, which it only recommends"

step "its Python package"
quietly "installing Python" "$apt install python3 python3-numpy python3-venv"
said=$(inside 'cd / && PYTHONDONTWRITEBYTECODE=1 python3 /srv/try.py')
[[ $said == *"/libthalweg.so.0.1 /usr/bin/thalweg 1024" ]] || fail "the installed Python package says: $said"

step "removed"
inside 'dpkg -L thalweg' >"$dir/files"
quietly "removing the package" "$apt purge thalweg && ldconfig"
while read -r file; do
	[ -d "$target$file" ] || [ ! -e "$target$file" ] || fail "it leaves behind: $file"
done <"$dir/files"
left=$(find "$target/usr" "$target/etc" "$target/var/lib/dpkg/info" -name '*thalweg*')
[ -z "$left" ] || fail "it leaves behind: $left"

step "pip, without a network"
cp -r "$root/python" "$target/srv/python"
cp -a "$build"/libthalweg.so* "$build/thalweg" "$target/srv/build/"
alone() { inside "unshare --net bash -c '$1'"; } # not even a loopback that is up
alone 'cd /srv && python3 -m venv env && env/bin/pip install ./python --config-settings build=/srv/build' \
	>"$dir/log" 2>&1 || { tail -n 30 "$dir/log"; fail "pip failed"; }
said=$(alone 'cd / && /srv/env/bin/python /srv/try.py')
[[ $said == "/srv/env/lib/python"*"/site-packages/thalweg/libthalweg.so.0.1 /srv/env/bin/thalweg 1024" ]] ||
	fail "the package that pip installed says: $said"
alone '/srv/env/bin/pip uninstall -y thalweg' >"$dir/log" 2>&1 || { cat "$dir/log"; fail "pip uninstall failed"; }
left=$(find "$target/srv/env" -name '*thalweg*')
[ -z "$left" ] || fail "pip leaves behind: $left"
step "installed, run and removed, both ways"
