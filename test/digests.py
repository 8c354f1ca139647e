#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""digests.py - the parameters that every preset ends with in the simulator stay as they are.

    test/digests.py BINARY                    compare with test/digests.txt; exit code 1 if a row differs
    test/digests.py BINARY --print            print the table, to be kept as test/digests.txt
    test/digests.py BINARY --against OTHER    compare two programs, row by row

Every preset that `sim` accepts, on a quadratic and on least squares, with two seeds, with 1 and with
7 shards:

    calm      without faults
    resets    links lose messages, and connections are reset
    crashes   links lose messages, a worker and a server crash and come back, a worker leaves
    master    the master crashes and comes back (one seed, 7 shards, the quadratic)

Then, with the quadratic, one seed and 7 shards, protocols that no preset has by itself: lanes,
parameters with their stage, checkpoints while the run goes on, checkpoints that are larger than the
master's memory, and codecs with a residual.

The bandwidth is infinite, so that the length of a message changes nothing.  A row is the name of the
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
BATCH = ('sandblaster',)  # an optimiser drives the run: no rate, no number of epochs
ALONE = ('pipedream-2bw',)  # one worker only
ROUGH = ('sim:\n'
         '  compute: {law: exponential, mean: 100ms}\n'
         '  latency: 3ms\n  jitter: 4ms\n  bandwidth: 0bit/s\n  loss: 0.02\n'
         '  load_time: 20ms\n')
FAULTS = {
    'calm': 'sim: {compute: {law: log-normal, median: 100ms, sigma: 0.4}, latency: 1ms, '
            'bandwidth: 0bit/s}\n',
    'resets': ROUGH + '  faults: [{reset: worker 1, to: server 0, at: 0.3s}, '
                      '{reset: worker 3, to: master, at: 0.5s}, '
                      '{reset: worker 1, to: server 0, at: 0.6s}, '
                      '{reset: worker 4, to: server 0, at: 0.9s}]\n',
    'crashes': ROUGH + '  faults: [{crash: worker 3, at: 0.4s, restart: 0.3s}, '
                       '{crash: server 0, at: 0.8s, restart: 0.2s}, {leave: worker 4, at: 1s}]\n',
}
MASTER = ROUGH + '  faults: [{crash: master, at: 0.5s, restart: 0.2s}]\n'
# name of a row: presets, what is replaced in their jobs
OTHERS = {
    'lanes': (('gpipe', 'pipedream-flush', 'pipedream'),
              (('stages: 3, shards', 'stages: 3, lanes: [2, 1, 2], shards'),)),
    'with-stage': (('gpipe', 'pipedream-flush', 'pipedream', 'pipedream-2bw'),
                   (('workers: 2', 'workers: 1'), ('servers: 2', 'place: with-stage'),
                    ('to: server 0', 'to: worker 0.1'), ('server 0', 'worker 0.2'))),
    'cut-running': (('asgd', 'softsync', 'ssp', 'ssgd', 'backup', 'easgd', 'diloco', 'pipedream',
                     'allreduce', 'dana'), (('every: 300ms', 'every: 300ms, cut: running'),)),
    'large-checkpoint': (('asgd', 'ssgd', 'easgd', 'dana', 'gpipe', 'allreduce', 'gossip',
                          'sandblaster'), (('every: 300ms', 'every: 300ms, memory: 0B'),)),
    'residual-onebit': (('asgd', 'ssgd', 'backup', 'diloco'),
                        (('codec', 'codec: {up: onebit, up_tile: 8}'),)),
    'residual-topk': (('asgd', 'ssgd', 'softsync', 'ringmaster'),
                      (('codec', 'codec: {up: topk, up_share: 0.2}'),)),
    'residual-dgc': (('asgd', 'ssgd'), (('codec', 'codec: {up: dgc, up_share: 0.2}'),)),
}


def faults_of(preset, faults):
    """Who is hit depends on who is there."""
    if preset in PEERS:
        return faults.replace('to: server 0', 'to: worker 2').replace('server 0', 'worker 0')
    if preset in STAGES:
        for old, new in (('worker 3', 'worker 0.1'), ('worker 1', 'worker 0.2'),
                         ('worker 4', 'worker 0.0'), (', {leave: worker 0.0, at: 1s}', '')):
            faults = faults.replace(old, new)
    return faults


def job(preset, model, seed, shards, sim):
    # presets that send deltas do so every two steps: the runs are short
    strategy = f'{{name: {preset}, push: 2}}' if preset in DELTAS else f'{{name: {preset}}}'
    if preset in STREAMS:  # a part for every shard
        strategy = f'{{name: {preset}, push: {2 * shards}, fragments: {shards}, delay: 1}}'
    servers = 0 if preset in PEERS else 1 if shards == 1 else 2
    train = f'{{epochs: 4, seed: {seed}, evaluate: 1}}'
    cluster = f'workers: 6, shards: {shards}'
    text, batch, update = MODELS[model], 'batch: 3', 'update: {rate: 0.02}\n'
    if preset in STAGES:  # two workers, or one that must be alone; a shard has one stage
        text = text.replace('dimension', 'stages: 3, dimension')
        batch += ', accumulate: 2'
        cluster = f'workers: {1 if preset in ALONE else 2}, stages: 3, shards: {shards + 6}'
    if preset in BATCH:
        text = text.replace(', buffers: 5', '')
        batch, update = 'batch: 7', 'optimiser: {iterations: 9}\n'
        train = f'{{seed: {seed}, evaluate: 2}}'
    return (text + f'data: {{source: none, samples: 80, {batch}}}\n'
            f'train: {train}\n{update}cluster: {{{cluster}, servers: {servers}}}\n'
            f'strategy: {strategy}\ncheckpoint: {{every: 300ms}}\n' + faults_of(preset, sim))


def changed(text, replaced):
    for old, new in replaced:
        if old == 'codec':  # of the strategy
            line = next(x for x in text.splitlines() if x.startswith('strategy: '))
            text = text.replace(line, f'{line[:-1]}, {new}}}')
        else:
            text = text.replace(old, new)
    return text


def presets(binary):
    out = subprocess.run([binary, 'help', 'strategies'], capture_output=True, text=True, check=True)
    names = []
    listed = False
    for line in out.stdout.splitlines():
        if line.startswith('  ') and listed:
            names.append(line.split()[0])
        elif line:
            listed = line.startswith('Presets')
    return [n for n in names if n != 'hogwild']  # which `sim` refuses


def run(binary, folder, name, text):
    path = os.path.join(folder, 'job.yaml')
    with open(path, 'w') as f:
        f.write(text)
    out = subprocess.run([binary, 'sim', path, '--json', '-q'], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f'{name}: exit code {out.returncode}: {out.stderr}{text}')
    r = json.loads(out.stdout)
    return f"{name} {r['parameters_digest']} {r['events']} {r['updates']}"


def jobs(binary):
    """(name, text) of every run."""
    for preset in presets(binary):
        for model in MODELS:
            for seed in (1, 2):
                for shards in (1, 7):
                    for name, sim in FAULTS.items():
                        yield (f'{preset}/{model}/seed-{seed}/shards-{shards}/{name}',
                               job(preset, model, seed, shards, sim))
        yield (f'{preset}/quadratic/seed-1/shards-7/master',
               job(preset, 'quadratic', 1, 7, MASTER))
    for other, (of, replaced) in OTHERS.items():
        for preset in of:
            for name, sim in (*FAULTS.items(), ('master', MASTER)):
                yield (f'{other}/{preset}/{name}',
                       changed(job(preset, 'quadratic', 1, 7, sim), replaced))


def rows(binary):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in jobs(binary):
            yield run(binary, folder, name, text)


def main():
    if len(sys.argv) == 3 and sys.argv[2] == '--print':
        print('\n'.join(rows(sys.argv[1])))
        return 0
    if len(sys.argv) == 4 and sys.argv[2] == '--against':
        want = list(rows(sys.argv[3]))
    elif len(sys.argv) == 2:
        with open(TABLE) as f:
            want = f.read().splitlines()
    else:
        sys.exit('usage: digests.py BINARY [--print | --against OTHER]')
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
