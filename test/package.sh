#!/usr/bin/env bash
# package.sh: `cpack` makes a .deb; what it has, what it depends on; it is installed into an empty root,
# runs there, and leaves nothing behind when it is removed.
set -euo pipefail
build=${TW_BUILD:?the build directory}
for tool in cpack dpkg dpkg-deb; do
	command -v $tool >/dev/null || { echo "package: skipped: there is no $tool here"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "package: $*"; exit 1; }

cpack --config "$build/CPackConfig.cmake" -B "$dir/out" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "cpack failed"; }
deb=$(find "$dir/out" -maxdepth 1 -name 'thalweg_*.deb')
[ -s "$deb" ] || fail "there is no package"
dpkg-deb -c "$deb" | awk '{ print $6 }' >"$dir/files"
for file in bin/thalweg lib/libthalweg.so lib/libthalweg.a include/thalweg.h lib/pkgconfig/thalweg.pc \
	share/man/man1/thalweg.1 share/bash-completion/completions/thalweg share/zsh/site-functions/_thalweg \
	share/fish/vendor_completions.d/thalweg.fish share/doc/thalweg/README.md \
	lib/python3/dist-packages/thalweg/__init__.py lib/python3/dist-packages/thalweg/py.typed; do
	grep -qE "^\./usr/${file/lib\//lib/([a-z0-9_-]+-linux-gnu/)?}(\.gz)?$" "$dir/files" || fail "$file is not in it"
done
! grep -vE '^\./(usr/.*)?$' "$dir/files" || fail "it has files outside /usr"
! grep -q __pycache__ "$dir/files" || fail "it has compiled files of Python"

# --- an empty root with an administration of its own ---
root=$dir/root
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/triggers" "$root/tmp"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
in_root() {
	dpkg --instdir="$root" --admindir="$root/var/lib/dpkg" --log="$dir/dpkg.log" --force-depends \
		--force-not-root --force-script-chrootless "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; fail "dpkg $*"; }
}
in_root -i "$deb"
lib=$(dirname "$(find "$root/usr/lib" -name 'libthalweg.so')")

# Every library that it is linked with is of a package that it depends on.
depends=$(dpkg-deb -f "$deb" Depends)
for file in "$root/usr/bin/thalweg" "$lib/libthalweg.so"; do
	while read -r name; do
		path=$(ldconfig -p | awk -v n="$name" '$1 == n && !seen++ { print $NF }')
		package=$(dpkg -S "$path" 2>/dev/null || dpkg -S "$(readlink -f "$path")" 2>/dev/null || true)
		package=$(head -1 <<<"$package" | cut -d: -f1)
		[[ ", $depends," == *", $package,"* || ", $depends" == *", $package ("* ]] ||
			fail "$file needs $name of '$package', which is not in Depends: $depends"
	done < <(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' | grep -v '^ld-linux')
done

[[ $("$root/usr/bin/thalweg" --version) == "thalweg "* ]] || fail "the installed program does not run"
printf '%s\n' '#include <stdio.h>' '#include <thalweg.h>' 'int main(void) { puts(thalweg_version()); }' >"$dir/v.c"
if command -v cc >/dev/null; then
	cc "$dir/v.c" -I"$root/usr/include" -L"$lib" -lthalweg -o "$dir/v"
	[[ $(LD_LIBRARY_PATH=$lib "$dir/v") == [0-9]* ]] || fail "a program with the installed library does not run"
fi
if [ -x /usr/bin/python3 ]; then
	said=$(cd / && PYTHONPATH=$root/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c '
import thalweg
r = thalweg.train({"model": {"quadratic": {}}, "data": {"batch": 2}, "update": {"rate": 0.01}, "strategy": "ssgd"})
print(thalweg._lib._name, r.samples)')
	[ "$said" = "$lib/libthalweg.so.0.1 1024" ] || fail "the installed Python package says: $said"
fi
in_root -r thalweg
left=$(find "$root" -path "$root/var/lib/dpkg" -prune -o -type f -print -o -type l -print)
[ -z "$left" ] || fail "it leaves behind: $left"
echo "package: $(basename "$deb"), $(du -h "$deb" | cut -f1); installed, run and removed"
