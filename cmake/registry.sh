#!/bin/sh
# registry.sh KIND FOLDER OUT FILES...: the tables of a folder's variants and of their heads
# (base/variant.h), in order of name.  A file a-b.c or a_b.c defines `const struct tw_KIND
# tw_KIND_a_b`; an outer rule is a struct tw_rule, and a family of ops has no head.
set -eu
kind=$1 folder=$2 out=$3
shift 3
mkdir -p "$(dirname "$out")"
case $kind in
outer) type=tw_rule ;;
*) type=tw_$kind ;;
esac
head=variant
[ "$kind" != loss ] || head=op.variant
names=$(for f in "$@"; do basename "$f" .c | tr - _; done | LC_ALL=C sort)
{
	echo "/* Made by cmake/registry.sh from src/$folder; do not edit. */"
	case $kind in
	op_family) echo '#include "graph/op.h"' ;;
	zoo) echo '#include "model/model.h"' ;;
	*) echo "#include \"$(dirname "$folder")/$kind.h\"" ;;
	esac
	for n in $names; do echo "extern const struct $type tw_${kind}_$n;"; done
	echo "const struct $type *const tw_${kind}_all[] = {"
	for n in $names; do echo "	&tw_${kind}_$n,"; done
	echo "	0"
	echo "};"
	if [ "$kind" != op_family ]; then
		echo "_Static_assert(!offsetof(struct $type, $head), \"a variant begins with its head\");"
		echo "const struct tw_variant *const tw_${kind}_heads[] = {"
		for n in $names; do echo "	&tw_${kind}_$n.$head,"; done
		echo "	0"
		echo "};"
	fi
} > "$out.new"
mv "$out.new" "$out"
