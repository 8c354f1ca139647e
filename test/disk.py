#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""disk.py - a set larger than the memory that is allowed: imported, checked and trained on.

    disk.py THALWEG [--samples N] [--limit MiB] [--speed RUNS]

Counts what the system says: private memory of the process (RssAnon), bytes read from the disk
(/proc/PID/io), and the digests of runs with the set on disk and in memory. --speed adds a
comparison of training times with a warm page cache, which wants an idle machine.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

BLOCK = 1024
WIDTH = 784
MIB = 1 << 20


class Failed(Exception):
    """What a process did is not what it should have done."""


def watch(command, where, limit=None):
    """Run it; return what it printed, its largest RssAnon, the bytes it read, and the seconds."""

    def allow():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    began = time.monotonic()
    process = subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, preexec_fn=allow)
    anon, read = 0, 0
    out = err = None
    while out is None:
        try:
            with open(f'/proc/{process.pid}/status', encoding='ascii') as f:
                for line in f:
                    if line.startswith('RssAnon:'):
                        anon = max(anon, int(line.split()[1]) * 1024)
            with open(f'/proc/{process.pid}/io', encoding='ascii') as f:
                for line in f:
                    if line.startswith('read_bytes:'):
                        read = max(read, int(line.split()[1]))
        except (OSError, ValueError):
            pass
        try:
            out, err = process.communicate(timeout=0.02)
        except subprocess.TimeoutExpired:
            pass
    if process.returncode:
        raise Failed(f'{" ".join(command)} ended with {process.returncode}: {err[-600:]}')
    return out, anon, read, time.monotonic() - began


def job(where, name, source, workers, more=''):
    """A linear model in blocks; returns the file's name."""
    with open(os.path.join(where, name), 'w', encoding='ascii') as f:
        f.write(f'data:    {{{source}, batch: 64, shuffle: {{block: {BLOCK}}}{more}}}\n'
                'model:   {layers: [linear 10]}\n'
                'train:   {epochs: 1, seed: 1}\n'
                'update:  {rate: 0.01}\n'
                f'strategy: {"asgd" if workers > 1 else "ssgd"}\n'
                f'cluster: {{workers: {workers}}}\n')
    return name


def train(thalweg, where, name, limit=None):
    """Train it in a fresh run directory; returns its result and the figures of watch."""
    out, *figures = watch([thalweg, 'train', name, '--world', 'threads', '--again', '--json', '-q'],
                          where, limit)
    return json.loads(out), *figures


def forget(path):
    """The file leaves the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def must(truth, what):
    """Say it, or fail with it."""
    if not truth:
        raise Failed(what)
    print(f'disk: {what}', flush=True)


def run(a, where):
    """All of it."""
    drawn = f'source: digits, count: {a.samples}, tests: 1000'
    held, mapped = job(where, 'held.yaml', drawn, 1), job(where, 'mapped.yaml',
                                                         'source: set-file, file: set.tws', 1)
    path, limit = os.path.join(where, 'set.tws'), a.limit * MIB
    out, anon, _, seconds = watch([a.thalweg, 'data', 'import', held, '--to', 'set.tws', '--json'],
                                  where, None)
    size = os.path.getsize(path)
    must(anon < 64 * MIB, f'import of {size / MIB:.0f} MiB: RssAnon {anon / MIB:.1f} MiB, '
         f'{seconds:.1f} s')
    _, anon, _, seconds = watch([a.thalweg, 'data', 'verify', 'set.tws'], where)
    must(anon < 64 * MIB, f'verify: RssAnon {anon / MIB:.1f} MiB, {seconds:.1f} s')
    values = a.samples * WIDTH

    digest = None
    for readers in a.readers:
        name = job(where, f'readers-{readers}.yaml', 'source: set-file, file: set.tws', readers)
        forget(path)
        result, anon, read, _ = train(a.thalweg, where, name, size + limit)
        must(result['samples'] == a.samples, f'{readers} readers: every sample once')
        must(anon <= limit and read <= 1.1 * values,
             f'{readers} readers with RLIMIT_AS of the file and {a.limit} MiB: RssAnon '
             f'{anon / MIB:.1f} MiB, {read / values:.3f} of the values were read')
        if readers == 1:
            digest = result['parameters_digest']
    result, anon, _, _ = train(a.thalweg, where, held)
    must(result['parameters_digest'] == digest,
         f'the digest is {digest} from the disk and from memory (RssAnon there '
         f'{anon / MIB:.0f} MiB)')
    times = {held: [], mapped: []}
    for k in range(a.speed):
        for name in (held, mapped) if k % 2 else (mapped, held):
            result, *_ = train(a.thalweg, where, name)
            times[name].append(result['steady']['seconds'])
    if a.speed:
        best = {name: min(t) for name, t in times.items()}
        print(f'disk: seconds of training in memory {times[held]}, mapped {times[mapped]}: '
              f'the best are as 1 to {best[mapped] / best[held]:.3f}')


def main():
    """Read the flags, run in a folder that goes afterwards."""
    p = argparse.ArgumentParser()
    p.add_argument('thalweg')
    p.add_argument('--samples', type=int, default=700000)
    p.add_argument('--limit', type=int, default=256, help='MiB beyond the file itself')
    p.add_argument('--readers', type=int, nargs='+', default=[1, 4, 16])
    p.add_argument('--speed', type=int, default=0, help='runs of each kind')
    a = p.parse_args()
    a.thalweg = os.path.abspath(a.thalweg)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(a.thalweg)) as where:
        try:
            run(a, where)
        except Failed as e:
            print(f'disk: FAILED: {e}')
            return 1
    return 0


sys.exit(main())
