#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""digests.py - the parameters that every preset ends with in the simulator stay as they are.

    test/digests.py BINARY            compare with test/digests.txt; exit code 1 if a row differs
    test/digests.py BINARY --print    print the table, to be kept as test/digests.txt

Every preset that `sim` accepts, on a quadratic and on least squares, with two seeds, with 1 and with
7 shards, without faults and with: links that lose, a worker that crashes and comes back, one that
leaves, a connection that is reset, a server that crashes and comes back.  The
bandwidth is infinite, so that the length of a message changes nothing.  A row is the name of the
run, the digest and the numbers of events and updates; all of it is compared.  Both models use only
kernels of our own, which give the same bits on every instruction set: the table holds for every
THALWEG_ISA.  A change that is meant to move rows prints the table again and says why in its
commit."""
import json
import os
import subprocess
import sys
import tempfile

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'digests.txt')

MODELS = {
    'quadratic': 'model: {quadratic: {dimension: 37, noise: 0.3, spread: 0.5, buffers: 5}}\n',
    'least-squares': 'model: {least-squares: {dimension: 23, noise: 0.1}}\n',
}
DELTAS = ('averaging', 'update-based', 'local-sgd', 'post-local-sgd', 'bmuf', 'easgd', 'eamsgd',
          'diloco', 'async-diloco', 'fedbuff', 'fedasync')
PEERS = ('ring', 'tree', 'allreduce', 'd-psgd', 'gossip', 'strom')  # without servers
STREAMS = ('streaming-diloco',)
STAGES = ('gpipe', 'pipedream-flush', 'pipedream', 'pipedream-2bw')  # models cut into three
FAULTS = {
    'calm': 'sim: {compute: {law: log-normal, median: 100ms, sigma: 0.4}, latency: 1ms, '
            'bandwidth: 0bit/s}\n',
    'faults': 'sim:\n'
              '  compute: {law: exponential, mean: 100ms}\n'
              '  latency: 3ms\n  jitter: 4ms\n  bandwidth: 0bit/s\n  loss: 0.02\n'
              '  load_time: 20ms\n'
              '  faults: [{crash: worker 3, at: 0.4s, restart: 0.3s}, '
              '{reset: worker 1, to: server 0, at: 0.6s}, '
              '{crash: server 0, at: 0.8s, restart: 0.2s}, {leave: worker 4, at: 1s}]\n',
}


def job(preset, model, seed, shards, faults):
    # presets that send deltas do so every two steps: the runs are short
    strategy = f'{{name: {preset}, push: 2}}' if preset in DELTAS else preset
    if preset in STREAMS:  # a part for every shard
        strategy = f'{{name: {preset}, push: {2 * shards}, fragments: {shards}, delay: 1}}'
    servers = 0 if preset in PEERS else 1 if shards == 1 else 2
    sim = FAULTS[faults]
    if preset in PEERS:
        sim = sim.replace('to: server 0', 'to: worker 2').replace('server 0', 'worker 0')
    if preset in STAGES:  # two workers, or one that must be alone; a shard has one stage
        sim = sim.replace('worker 3', 'worker 0.1').replace('worker 1', 'worker 0.2')
        sim = sim.replace(', {leave: worker 4, at: 1s}', '')
        alone = preset == 'pipedream-2bw'
        return (MODELS[model].replace('dimension', 'stages: 3, dimension') +
                'data: {source: none, samples: 80, batch: 3, accumulate: 2}\n'
                f'train: {{epochs: 4, seed: {seed}, evaluate: 1}}\nupdate: {{rate: 0.02}}\n'
                f'cluster: {{workers: {1 if alone else 2}, stages: 3, shards: {shards + 6}, '
                f'servers: {servers}}}\n'
                f'strategy: {preset}\ncheckpoint: {{every: 300ms}}\n' + sim)
    return (MODELS[model] + 'data: {source: none, samples: 80, batch: 3}\n'
            f'train: {{epochs: 4, seed: {seed}, evaluate: 1}}\nupdate: {{rate: 0.02}}\n'
            f'cluster: {{workers: 6, shards: {shards}, servers: {servers}}}\n'
            f'strategy: {strategy}\ncheckpoint: {{every: 300ms}}\n' + sim)


def presets(binary):
    out = subprocess.run([binary, 'help', 'strategies'], capture_output=True, text=True, check=True)
    names = []
    listed = False
    for line in out.stdout.splitlines():
        if line.startswith('  ') and listed:
            names.append(line.split()[0])
        elif line:
            listed = line.startswith('Presets')
    # `sim` refuses hogwild; an optimiser takes neither an update nor a number of epochs
    return [n for n in names if n not in ('hogwild', 'sandblaster')]


def run(binary, folder, name, text):
    path = os.path.join(folder, 'job.yaml')
    with open(path, 'w') as f:
        f.write(text)
    out = subprocess.run([binary, 'sim', path, '--json', '-q'], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f'{name}: exit code {out.returncode}: {out.stderr}{text}')
    r = json.loads(out.stdout)
    return f"{name} {r['parameters_digest']} {r['events']} {r['updates']}"


def rows(binary):
    with tempfile.TemporaryDirectory() as folder:
        for preset in presets(binary):
            for model in MODELS:
                for seed in (1, 2):
                    for shards in (1, 7):
                        for faults in FAULTS:
                            name = f'{preset}/{model}/seed-{seed}/shards-{shards}/{faults}'
                            text = job(preset, model, seed, shards, faults)
                            yield run(binary, folder, name, text)


def main():
    if len(sys.argv) == 3 and sys.argv[2] == '--print':
        print('\n'.join(rows(sys.argv[1])))
        return 0
    if len(sys.argv) != 2:
        sys.exit('usage: digests.py BINARY [--print]')
    with open(TABLE) as f:
        want = f.read().splitlines()
    got = list(rows(sys.argv[1]))
    wrong = [(w, g) for w, g in zip(want, got) if w != g]
    for w, g in wrong:
        print(f'was {w}\nis  {g}')
    if len(want) != len(got):
        print(f'the table has {len(want)} rows, and there are {len(got)} runs: '
              'print it again if a preset is new')
    print(f'{len(got)} runs, {len(wrong)} with another digest or number of events')
    return 1 if wrong or len(want) != len(got) or not got else 0


if __name__ == '__main__':
    sys.exit(main())
