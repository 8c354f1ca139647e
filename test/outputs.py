#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""outputs.py - what two builds print and write is the same, byte for byte.

    test/outputs.py OLD NEW       compare two build directories; exit code 1 if anything differs
    test/outputs.py BUILD --save DIR      only write what BUILD gives to DIR

For changes that are meant to change nothing.  Kept are: every page of help, the reference in its three
formats, the completion scripts; 20 jobs in the simulator, each with its explained job, its result, its
log, the files of its checkpoints, and its pages /metrics and /health; and what the program says of
2,600 jobs that combine a preset with fields which often do not go together.  Times of the wall clock,
the name of the folder and the build's own path are replaced by a mark.  The digests of all presets are
a test of their own (digests.py)."""
import concurrent.futures
import filecmp
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import digests  # noqa: E402

# A field and a value that some presets do not go together with.
FIELDS = '''
strategy.gate=bsp strategy.gate=async strategy.gate=ssp strategy.gate=softsync strategy.gate=lockfree
strategy.gate=backup strategy.gate=ringmaster strategy.gate=rennala strategy.staleness=dc
strategy.staleness=inverse strategy.staleness=fasgd strategy.send=momentum strategy.send=delta
strategy.push=3 strategy.fetch=2 strategy.merge=keep strategy.merge=elastic strategy.merge=mix
strategy.cache=true strategy.overlap=true strategy.skip.push=0.1 strategy.skip.fetch=0.1
strategy.local.rule=sgd strategy.local.rule=multi strategy.outer.rule=average strategy.outer.rule=block
strategy.codec.up=topk strategy.codec.up=int8 strategy.codec.up=threshold strategy.codec.up=dgc
strategy.codec.down=fp16 strategy.codec.down=topk strategy.codec.act=fp16 strategy.topology=ring
strategy.topology=mesh strategy.topology=gossip strategy.topology=direct strategy.topology=server
strategy.sum=total strategy.sum=median strategy.apply=turn strategy.average_state=true
strategy.fragments=2 strategy.delay=1 strategy.adaptive=true strategy.stop=true strategy.fresh=true
strategy.pipeline=gpipe strategy.pipeline=pipedream strategy.lead=2 strategy.collect=2
update.rule=adam update.rule=momentum update.rule=dana update.rule=nesterov update.decay=0.01
update.clip=1 update.global_clip=1 update.schedule.kind=cosine update.schedule.kind=step
optimiser=lbfgs optimiser=cg train.gap=true train.until.accuracy=0.9 train.until.loss=0.1
train.updates=10 train.steps=10 train.warm.workers=1 checkpoint.cut=running sim.delay.steps=2
sim.compute.law=uniform sim.compute.median=1s sim.speeds=[1,2] sim.stragglers.slower=2
cluster.workers=1 cluster.servers=0 cluster.stages=2 cluster.lanes=[2,1] cluster.place=with-stage
data.deal=partition data.global_batch=8 data.accumulate=2 data.source=digits model=mlp loss=hinge
loss=cross-entropy nonsense.field=1 strategy.nonsense=1 update.rule=nonsense
'''.split()


def command(build, words, text=None, folder=None):
    """What the program prints, and its exit code."""
    binary = os.path.join(os.path.abspath(build), 'thalweg')
    env = {k: v for k, v in os.environ.items() if not k.startswith('THALWEG_') or k == 'THALWEG_ISA'}
    out = subprocess.run([binary, *words], input=text, capture_output=True, text=True, cwd=folder, env=env)
    said = f'{out.stdout}--- stderr\n{out.stderr}--- exit code {out.returncode}\n'
    return said.replace(os.path.abspath(build), 'BUILD'), out.stdout


def put(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as f:
        f.write(text)


def without_wall_clock(text):
    for field in ('seconds', 'samples_per_second', 'wall', 'time', 'at'):
        text = re.sub(rf'("{field}": ?)[0-9.e+-]+', r'\1TIME', text)
    return text


# --- what people read -------------------------------------------------------------------------------


def help_pages(build, folder):
    pages = [['help'], ['--version'], ['help', 'options'], ['help', 'options', '--markdown'],
             ['help', 'options', '--man'], ['help', '--man'], ['help', 'strategies'], ['help', 'codecs'],
             ['help', 'layers']]
    pages += [['completion', shell] for shell in ('bash', 'zsh', 'fish')]
    top, _ = command(build, ['help'])
    pages += [[line.split()[0], '--help'] for line in top.splitlines() if re.match(r'  [a-z]+  ', line)]
    # every field, preset, variant and layer is in the reference
    words = set(re.findall(r'^\| `([^`]+)`', command(build, ['help', 'options', '--markdown'])[1], re.M))
    words |= {w.split()[0] for w in words} | {w.split('.')[-1] for w in words}
    words |= set('lstm onnx f1 federated lr momentum batch_size adagrad selu conv1d nonsense'.split())
    pages += [['help', w] for w in sorted(words)]
    for page in pages:
        name = 'help/' + re.sub(r'[^a-zA-Z0-9.-]+', '_', ' '.join(page))
        put(folder, name, command(build, page)[0])


# --- jobs that run ----------------------------------------------------------------------------------


def jobs(build):
    """20 presets of all families, calm or with faults."""
    names = digests.presets(os.path.join(build, 'thalweg'))
    for k, preset in enumerate(names[::max(1, len(names) // 19)][:19]):
        yield preset, digests.job(preset, ['quadratic', 'least-squares'][k % 2], 1, [7, 1][k % 2],
                                  ['faults', 'calm'][k % 3 == 0])
    yield 'lbfgs', ('model: {least-squares: {dimension: 23, noise: 0.1}}\n'
                    'data: {source: none, samples: 80}\ntrain: {seed: 1}\n'
                    'optimiser: {name: lbfgs, iterations: 6, portion: 16}\n'
                    'cluster: {workers: 4, shards: 3, servers: 2}\ncheckpoint: {every: 300ms}\n' +
                    digests.FAULTS['calm'])


def run_jobs(build, folder):
    for name, text in jobs(build):
        at = os.path.join(folder, 'jobs', name)
        put(at, 'job.yaml', text)
        put(at, 'explained', command(build, ['sim', 'job.yaml', '--explain'], folder=at)[0])
        said, _ = command(build, ['sim', 'job.yaml', '--json', '-q', '--run', 'run'], folder=at)
        put(at, 'result', without_wall_clock(said))
        for base, _, files in os.walk(os.path.join(at, 'run')):
            for file in files:
                path = os.path.join(base, file)
                if not file.endswith('.safetensors'):
                    with open(path, errors='replace') as f:
                        mended = without_wall_clock(f.read()).replace(os.path.abspath(folder), 'FOLDER')
                    if file == 'DONE':  # a digest of the manifest, which has times
                        mended = ''
                    with open(path, 'w') as f:
                        f.write(mended)
        pages = subprocess.run([os.path.join(build, 'test', 'job_test_gauges_run'), '--pages',
                                os.path.join(at, 'job.yaml')], capture_output=True, text=True)
        put(at, 'pages', pages.stdout + pages.stderr)


# --- jobs that are refused --------------------------------------------------------------------------


def combinations(build):
    names = digests.presets(os.path.join(build, 'thalweg')) + ['hogwild', 'sandblaster']
    pairs = list(itertools.product(names, FIELDS))
    draw = random.Random(1)
    for preset, field in draw.sample(pairs, 1300):
        yield preset, [field]
    for _ in range(1300):
        yield draw.choice(names), draw.sample(FIELDS, draw.choice((2, 3)))


def say_of(build, preset, fields):
    words = ['--explain', '-', '--set', f'strategy={preset}']
    words = ['sim', *words] if hash_free(preset, fields) % 4 else ['train', *words]
    for field in fields:
        words += ['--set', field]
    text = 'model: {quadratic: {dimension: 12}}\ndata: {source: none, samples: 80}\n'
    return f'{preset} {" ".join(fields)}\n{command(build, words, text)[0]}\n'


def hash_free(preset, fields):
    return sum(map(ord, preset + ''.join(fields)))


def refusals(build, folder):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda c: say_of(build, *c), combinations(build)))
    put(folder, 'refusals', ''.join(said))


def save(build, folder):
    help_pages(build, folder)
    run_jobs(build, folder)
    refusals(build, folder)


# --- comparing --------------------------------------------------------------------------------------


def files_of(folder):
    return {os.path.relpath(os.path.join(base, f), folder)
            for base, _, files in os.walk(folder) for f in files}


def compare(old, new):
    """Names of the files that differ, or that only one has."""
    a, b = files_of(old), files_of(new)
    _, differ, odd = filecmp.cmpfiles(old, new, sorted(a & b), shallow=False)
    return sorted(a ^ b) + differ + odd


def main():
    if len(sys.argv) == 4 and sys.argv[2] == '--save':
        save(sys.argv[1], sys.argv[3])
        return 0
    if len(sys.argv) != 3:
        sys.exit('usage: outputs.py OLD NEW | outputs.py BUILD --save DIR')
    folder = tempfile.mkdtemp()
    try:
        sides = [os.path.join(folder, side) for side in ('old', 'new')]
        for build, side in zip(sys.argv[1:], sides):
            if os.path.exists(os.path.join(build, 'thalweg')):
                save(build, side)
            else:  # what was saved before
                shutil.copytree(build, side)
        wrong = compare(*sides)
        for name in wrong[:20]:
            print(f'differs: {name}')
            subprocess.run(['diff', '-a', '-U1', *(os.path.join(s, name) for s in sides)],
                           stdout=sys.stdout, stderr=subprocess.DEVNULL)
        print(f'{len(files_of(sides[0]))} files, {len(wrong)} of them differ')
        return 1 if wrong or not files_of(sides[0]) else 0
    finally:
        shutil.rmtree(folder)


if __name__ == '__main__':
    sys.exit(main())
