#!/usr/bin/env bash
# install.sh: `cmake --install` puts program, man page, completion, documents and examples where they
# belong.
set -euo pipefail
build=${TW_BUILD:?the build directory}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cmake --install "$build" --prefix "$dir" >"$dir/log"
for file in bin/thalweg share/man/man1/thalweg.1 share/doc/thalweg/LICENSE share/doc/thalweg/README.md \
	share/doc/thalweg/docs/ARCHITECTURE.md share/doc/thalweg/docs/WIRE.md; do
	[ -s "$dir/$file" ] || { echo "install: $file is missing"; exit 1; }
done
# Every document and every example of the tree.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for file in "$root"/docs/*.md "$root"/examples/*.yaml; do
	cmp -s "$file" "$dir/share/doc/thalweg/${file#"$root"/}" ||
		{ echo "install: ${file#"$root"/} is missing"; exit 1; }
done
for file in "$root"/python/thalweg/*.py "$root"/python/thalweg/py.typed; do
	cmp -s "$file" "$dir/lib/python3/dist-packages/thalweg/${file##*/}" ||
		{ echo "install: ${file#"$root"/} is missing"; exit 1; }
done
# The installed package finds the installed library, wherever the prefix is.
if [ -x /usr/bin/python3 ]; then
	said=$(cd / && PYTHONPATH=$dir/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -c \
		'import thalweg; print(thalweg.__version__, thalweg._lib._name, thalweg._library.program())')
	[[ $said == [0-9]*" $dir/lib"*"/libthalweg.so"*" $dir/bin/thalweg" ]] ||
		{ echo "install: the installed package says: $said"; exit 1; }
fi
case $("$dir/bin/thalweg" --version) in
thalweg\ [0-9]*) ;;
*) echo "install: the installed program does not say its version"; exit 1 ;;
esac
grep -q '^\.TH THALWEG 1' "$dir/share/man/man1/thalweg.1" || { echo "install: the man page is none"; exit 1; }
for row in bash:bash-completion/completions/thalweg zsh:zsh/site-functions/_thalweg \
	fish:fish/vendor_completions.d/thalweg.fish; do
	"$dir/bin/thalweg" completion "${row%%:*}" | cmp -s - "$dir/share/${row#*:}" ||
		{ echo "install: share/${row#*:} is not the script for ${row%%:*}"; exit 1; }
done
echo "install: everything is there"
