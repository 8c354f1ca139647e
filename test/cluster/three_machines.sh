#!/usr/bin/env bash
# three_machines.sh: docs/CLUSTER.md, run on three machines: network namespaces behind one bridge,
# each with a host name and a home of its own.
#
# Blocks of the document: sh run=NAME is a command of the scenario below, which must use all of
# them; file=NAME is written to that file on node1; elsewhere=TEST is tried by another test; text is
# what somebody must have said meanwhile, numbers apart (of metrics: the names).  scp, sbatch and
# srun are this test's own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
doc=$PWD/docs/CLUSTER.md
build=$(cd "${TW_BUILD:-build}" && pwd)
skip() { echo "three_machines: skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
for program in ip unshare openssl curl; do
	command -v $program >/dev/null || skip "there is no $program"
done
[ -x "$build/thalweg" ] || { echo "three_machines: there is no $build/thalweg"; exit 1; }
net=tw$$
ip netns add $net-0 2>/dev/null || skip "network namespaces cannot be made here"
dir=$(mktemp -d)
declare -A pid=()
started=()
clean() {
	local n
	for n in "${started[@]}"; do kill -KILL "$n" 2>/dev/null || true; done
	for n in 0 1 2 3; do ip netns del $net-$n 2>/dev/null || true; done
	rm -rf "$dir"
}
trap clean EXIT
fail() {
	echo "three_machines: $*"
	for f in "$dir"/said/*; do echo "--- ${f##*/}"; tail -n 40 "$f"; done
	exit 1
}

# --- the machines ---

ip -n $net-0 link add bridge0 type bridge 2>/dev/null || skip "there are no bridges here"
ip -n $net-0 link set bridge0 up
mkdir "$dir"/{bin,said,blocks,node1,node2,node3}
echo '127.0.0.1 localhost' >"$dir/hosts"
for n in 1 2 3; do
	ip netns add $net-$n
	ip -n $net-0 link add port$n type veth peer name eth0 netns $net-$n
	ip -n $net-0 link set port$n master bridge0 up
	ip -n $net-$n link set lo up
	ip -n $net-$n link set eth0 up
	ip -n $net-$n addr add 10.77.0.$n/24 dev eth0
	echo "10.77.0.$n node$n" >>"$dir/hosts"
done
ln -s "$build/thalweg" "$dir/bin/thalweg"
cat >"$dir/bin/on" <<-END # on N TEXT: what a shell on machine N does with the text
	#!/bin/bash
	export HOME=$dir/node\$1 PATH=$dir/bin:\$PATH XDG_CACHE_HOME=
	cd "\$HOME"
	exec ip netns exec $net-\$1 unshare -u bash -c \
		'hostname node\$0; mount --bind $dir/hosts /etc/hosts; exec bash -c "\$1"' "\$1" "\$2"
END
cat >"$dir/bin/scp" <<-END # scp -p FILE... HOST:
	#!/bin/bash
	files=("\${@:2:\$#-2}") host=\${!#}
	cp -p "\${files[@]}" $dir/\${host%:}/
END
cat >"$dir/bin/sbatch" <<-END
	#!/bin/bash
	export SLURM_JOB_NODELIST='node[1-3]' SLURM_NTASKS=3
	exec bash "\$1"
END
cat >"$dir/bin/srun" <<-END # one task on each machine
	#!/bin/bash
	while [[ \$1 == --* ]]; do shift; done
	tasks=() worst=0
	for rank in 0 1 2; do
		SLURM_PROCID=\$rank on \$((rank + 1)) "\$*" & tasks+=(\$!)
	done
	for task in "\${tasks[@]}"; do wait \$task || worst=\$?; done
	exit \$worst
END
chmod +x "$dir"/bin/{on,scp,sbatch,srun}
PATH=$dir/bin:$PATH

# --- the blocks ---

awk -v to="$dir/blocks/" -v home="$dir/node1/" '
	!inside && /^```[a-z]/ {
		inside = 1
		name = ""
		if ($1 == "```text") name = to "said"
		else if ($2 ~ /^run=/) name = to substr($2, 5) ".sh"
		else if ($2 ~ /^file=/) name = home substr($2, 6)
		else if ($2 !~ /^elsewhere=/) { print FILENAME ":" NR ": what is this block for?"; exit 1 }
		next
	}
	/^```$/ { inside = 0; next }
	inside && name { print >name }' "$doc" || exit 1

text() { # NAME: of the block, which counts as used
	[ -e "$dir/blocks/$1.sh" ] || fail "there is no block run=$1 in $doc"
	touch "$dir/blocks/$1.used"
	cat "$dir/blocks/$1.sh"
}

run() { # MACHINE BLOCK: it ends well
	timeout 60 on "$1" "$(text "$2")" >"$dir/said/$2.out" 2>"$dir/said/$2.err" || fail "$2 ended with $?"
}

start() { # NAME MACHINE BLOCK [WORDS]
	touch "$dir/blocks/$3.used"
	on "$2" "$(text "$3") ${4:-}" >"$dir/said/$1.out" 2>"$dir/said/$1.err" </dev/null &
	pid[$1]=$!
	started+=($!)
}

until_said() { # NAME SENTENCE
	local n
	for ((n = 0; n < 600; n++)); do
		! grep -qsF -- "$2" "$dir/said/$1".err || return 0
		kill -0 "${pid[$1]}" 2>/dev/null || fail "$1 ended before it said '$2'"
		sleep 0.05
	done
	fail "$1 did not say '$2' within 30 s"
}

ends() { # CODE NAME...
	local want=$1 name code n
	shift
	for name; do
		for ((n = 0; n < 6000; n++)); do
			kill -0 "${pid[$name]}" 2>/dev/null || break
			sleep 0.1
		done
		[ $n -lt 6000 ] || fail "$name has not ended after ten minutes"
		code=0
		wait "${pid[$name]}" 2>/dev/null || code=$?
		[ $code = "$want" ] || fail "$name ended with $code, not $want"
	done
}

good() { # NAME: it printed a result that has learnt
	awk '$1 == "accuracy" && $2 > 0.9 { found = 1 } END { exit !found }' "$dir/said/$1.out" ||
		fail "$1 has no accuracy above 0.9"
}

# --- three machines ---

run 1 key
for n in 1 2 3; do
	[ "$(stat -c %a "$dir/node$n/cluster.key")" = 600 ] || fail "the key on node$n is not closed to others"
done
code=0
on 1 'thalweg serve job.yaml --listen :7433' 2>"$dir/said/open.err" || code=$?
[ $code = 2 ] || fail "listening to all without a key ended with $code, not 2"

start serve 1 serve
until_said serve 'to join'
start two 2 join
start three 3 join
until_said serve 'epoch 1'
run 1 health
run 1 metrics
grep -q '"status":"ok"' "$dir/said/health.out" || fail "it is not in good health"
for name in $(sed -n 's/^\(thalweg_[a-z_]*\).*/\1/p' "$dir/blocks/said"); do
	grep -q "^$name[ {]" "$dir/said/metrics.out" || fail "there are no metrics $name"
done
ends 0 serve two three
good serve
good three
run 1 processes
good processes

# --- a model over four processes ---

start stages 1 serve-stages
until_said stages 'to join'
for n in 1 2 3; do start cell$n $n join-stage; done
until_said stages 'worker 0 has 3 of 4 cells; 1 more must join'
start cell4 2 join-stage
ends 0 stages cell1 cell2 cell3 cell4
good stages

# --- elastic; deaths; stopped and resumed ---

export THALWEG_TRAIN_EPOCHS=20 THALWEG_CLUSTER_WORKERS=2 # both at once, and time to do harm
start elastic 1 serve-elastic
until_said elastic 'to join'
start server 2 join-server
start doomed 3 join
start stays 2 join
until_said elastic 'epoch 1'
kill -KILL "${pid[doomed]}"
until_said elastic 'is gone; '
kill -KILL "${pid[server]}"
until_said elastic 'is gone, and its shards with it'
start again 3 join-server
pid=${pid[elastic]} bash -c "$(text stop)"
ends 75 elastic
until_said stays 'cannot reach the master'
start resumed 1 resume
until_said resumed 'resuming from'
ends 0 resumed stays again
good resumed
unset THALWEG_TRAIN_EPOCHS THALWEG_CLUSTER_WORKERS

# --- data, certificates, ranks ---

start points 1 serve-points
until_said points 'to join'
start guest 2 save-points
ends 0 points guest
on 1 'thalweg export runs/points --to exported.safetensors' >/dev/null || fail "the run is not exported"
cmp -s "$dir/node1/exported.safetensors" "$dir/node2/points.safetensors" ||
	fail "what a joiner saved is not what the master exports"

run 1 certificates
export THALWEG_CLUSTER_SERVERS=2 THALWEG_CLUSTER_WORKERS=1
start tls 1 serve-certificates
until_said tls 'to join'
start tls_server 2 join-certificates '--as server'
start tls_worker 3 join-certificates
ends 0 tls tls_server tls_worker
good tls
unset THALWEG_CLUSTER_SERVERS THALWEG_CLUSTER_WORKERS

run 1 slurm
good slurm
for n in 1 2 3; do
	rank=$((n - 1)) start rank$n $n ranks
done
ends 0 rank1 rank2 rank3
good rank1

if command -v systemd-analyze >/dev/null; then
	for unit in thalweg-serve thalweg-join; do
		sed "s,/usr/local/bin/thalweg,$build/thalweg," "$dir/node1/$unit.service" >"$dir/$unit.service"
		systemd-analyze verify --man=no "$dir/$unit.service" >"$dir/said/$unit.err" 2>&1 ||
			fail "systemd does not take $unit.service"
	done
fi

# --- nothing is left over, and what the document shows was said ---

for block in "$dir"/blocks/*.sh; do
	[ -e "${block%.sh}.used" ] || fail "nothing here runs the block ${block##*/}"
done
plain() { sed -E "s,$dir/node[123]/,~/,g; s/[0-9a-f]{16,}/H/g; s/[0-9]+/N/g; s/ +$//"; }
cat "$dir"/said/*.err "$dir"/said/*.out | plain >"$dir/all"
missing=$(grep '^thalweg: ' "$dir/blocks/said" | plain | grep -vxFf "$dir/all" || true)
[ -z "$missing" ] || fail "nobody said, numbers apart: $missing"
echo "three_machines: $(ls "$dir"/blocks/*.sh | wc -l) commands of docs/CLUSTER.md ran on three machines"
