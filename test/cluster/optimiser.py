#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""optimiser.py [BINARY]: processes that an optimiser drives are killed, and the result has the bits
of an undisturbed run in the simulator and in threads.

Workers, a server and the master (which has the first server) die by kill -9 while L-BFGS runs over
TCP; each is started again.  Nothing of that may change a bit of the parameters."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

JOB = """data: {source: digits, count: 3000, tests: 100}
model: {layers: [linear 24, tanh, linear 10]}
optimiser: {name: lbfgs, portion: 100, l2: 1e-4, iterations: 100, decrease: 0, gradient: 0}
train: {evaluate: 20}
cluster: {workers: 3, servers: 2, shards: 3, wait: 60s, limit: 3s}
checkpoint: {every: 100ms}
"""


class Early(Exception):
    """The run ended before anybody could be killed."""


class Run:
    """One cluster: a master, a server, three workers."""

    def __init__(self, binary, folder, name):
        self.binary, self.folder, self.name = binary, folder, name
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.address = f'127.0.0.1:{s.getsockname()[1]}'
        self.job = os.path.join(folder, 'job.yaml')
        self.all = []
        self.master = self.serve()
        self.server = self.join('--as', 'server')
        self.workers = [self.join() for _ in range(3)]

    def start(self, *words):
        err = open(os.path.join(self.folder, f'{self.name}.{len(self.all)}.err'), 'wb')
        p = subprocess.Popen([self.binary, *words], stdout=subprocess.PIPE, stderr=err)
        err.close()
        self.all.append(p)
        return p

    def serve(self):
        return self.start('serve', self.job, '--listen', self.address, '--json', '--run',
                          os.path.join(self.folder, self.name))

    def join(self, *words):
        return self.start('join', self.address, *words)

    def lines(self, event):
        path = os.path.join(self.folder, self.name, 'log.jsonl')
        try:
            with open(path, encoding='utf-8') as f:
                return [e for e in map(json.loads, f) if e['event'] == event]
        except (OSError, ValueError):
            return []

    def until(self, event, count):
        """Wait until the log has so many lines of an event."""
        for _ in range(1200):
            if len(self.lines(event)) >= count:
                return
            if self.master.poll() is not None:
                raise Early(f'{self.name}: the run ended before {count} lines of {event}')
            time.sleep(0.05)
        raise SystemExit(f'{self.name}: no {count} lines of {event} in a minute')

    def digest(self):
        out, _ = self.master.communicate(timeout=180)
        if self.master.returncode:
            with open(os.path.join(self.folder, f'{self.name}.0.err'), encoding='utf-8') as f:
                raise SystemExit(f'{self.name}: exit code {self.master.returncode}: {f.read()}')
        return json.loads(out)['parameters_digest']

    def end(self):
        for p in self.all:
            if p.poll() is None:
                p.kill()
            p.communicate()


def kill(p):
    if p.poll() is not None:
        raise Early('the process ended before it could be killed')
    p.send_signal(signal.SIGKILL)
    p.wait()


def finished(run):
    """Did the run end before its master was killed?"""
    return os.path.exists(os.path.join(run.folder, run.name, 'result.json'))


def undisturbed(run):
    run.until('iteration', 1)


def worker_dies(run):
    run.until('iteration', 5)
    kill(run.workers[1])
    run.until('iteration', 12)
    run.join()


def all_workers_die(run):
    run.until('iteration', 8)
    for w in run.workers:
        kill(w)
    time.sleep(0.5)
    for _ in range(3):
        run.join()


def server_dies(run):
    run.until('checkpoint', 1)
    kill(run.server)
    run.join('--as', 'server')


def master_dies(run):
    run.until('checkpoint', 1)
    kill(run.master)
    if finished(run):
        raise Early('the run ended before its master could be killed')
    run.master = run.serve()


def attempt(binary, folder, test, want):
    """One of these runs.  On a quick machine it may end before its time: then it is made again."""
    for k in range(10):
        run = Run(binary, folder, f'{test.__name__}-{k}')
        try:
            test(run)
            return run.digest() == want, len(run.lines('rollback'))
        except Early as e:
            print(f'{test.__name__}: {e}; once more')
        finally:
            run.end()
    raise SystemExit(f'{test.__name__}: ten runs ended before anybody could be killed')


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ.get('TW_BUILD', 'build'),
                                                                'thalweg')
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, 'job.yaml')
        with open(job, 'w', encoding='utf-8') as f:
            f.write(JOB)
        words = {'sim': ['sim', job, '--json'],
                 'threads': ['train', job, '--json', '--run', os.path.join(folder, 'threads')],
                 'processes': ['train', job, '--processes', '--json', '--run',
                               os.path.join(folder, 'processes')]}
        want = {}
        for name, w in words.items():
            out = subprocess.run([binary, *w], check=True, capture_output=True).stdout
            want[name] = json.loads(out)['parameters_digest']
        if len(set(want.values())) != 1:
            print(f'optimiser: other bits in another world: {want}')
            return 1
        for test in (undisturbed, worker_dies, all_workers_die, server_dies, master_dies):
            same, rolled = attempt(binary, folder, test, want['sim'])
            failed += not same
            print(f'{test.__name__:16} {"same bits" if same else "OTHER BITS"}, '
                  f'{rolled} rollbacks')
    print(f'optimiser: {failed} of 5 runs have other bits' if failed else
          'optimiser: all runs have the bits of the simulator')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
