#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""keep.py [BINARY]: train.keep: best between real processes that are killed.

Runs in threads, in processes and over TCP die by kill -9, after a checkpoint that holds the best
evaluation so far, and are resumed by the same command; a master dies and servers and workers outlive
it.  The result must be the evaluation that the log has under the digest of its parameters.  What was
kept may be lost only where some shards die and others outlive them without rounds: what was kept
after the last checkpoint goes with those that die, and the program says so."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

JOB = """data: {{source: digits, count: 1500, tests: 200, validation: 0.2, evaluate: validation,
       batch: 20}}
model: {{layers: [linear 16, relu, linear 10]}}
update: {{rule: adam, rate: 0.01}}
train: {{epochs: {epochs}, evaluate: 1, keep: best}}
cluster: {{{cluster}, wait: 60s, limit: 3s}}
strategy: {strategy}
checkpoint: {{every: 50ms}}
"""


class Early(Exception):
    """The run ended before anybody could be killed."""


class Run:
    def __init__(self, binary, folder, name, epochs, strategy, cluster, words=('train',)):
        self.binary, self.words = binary, words
        self.folder = os.path.join(folder, f'{name}-{epochs}')
        os.mkdir(self.folder)
        self.job = os.path.join(self.folder, 'job.yaml')
        with open(self.job, 'w', encoding='utf-8') as f:
            f.write(JOB.format(epochs=epochs, strategy=strategy, cluster=cluster))
        self.dir = os.path.join(self.folder, 'run')
        self.all = []
        self.address = None

    def spawn(self, *words):
        err = open(os.path.join(self.folder, f'{len(self.all)}.err'), 'wb')
        p = subprocess.Popen([self.binary, *words], stdout=subprocess.PIPE, stderr=err,
                             start_new_session=True)
        err.close()
        self.all.append(p)
        return p

    def start(self):
        words = list(self.words)
        if self.address:
            words += ['--listen', self.address]
        return self.spawn(words[0], self.job, *words[1:], '--json', '--run', self.dir)

    def said(self):
        text = ''
        for k in range(len(self.all)):
            with open(os.path.join(self.folder, f'{k}.err'), encoding='utf-8') as f:
                text += f.read()
        return text

    def log(self):
        lines = []
        try:
            with open(os.path.join(self.dir, 'log.jsonl'), encoding='utf-8') as f:
                for line in f:
                    try:
                        lines.append(json.loads(line))
                    except ValueError:
                        pass  # the one that was being written
        except OSError:
            pass
        return lines

    def until_saved(self, p, more):
        """Until there were `more` evaluations, and then two checkpoints: the second began later."""
        done = len(self.log())
        for _ in range(2400):
            events = [e['event'] for e in self.log()[done:]]
            at = [k for k, e in enumerate(events) if e == 'evaluation']
            if len(at) >= more and events[at[more - 1]:].count('checkpoint') >= 2:
                return
            if p.poll() is not None:
                raise Early
            time.sleep(0.02)
        raise SystemExit(f'{self.folder}: nothing was saved in {2400 * 0.02:.0f} s')

    def kill(self, p):
        if p.poll() is not None or os.path.exists(os.path.join(self.dir, 'result.json')):
            raise Early
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()

    def result(self, p):
        out, _ = p.communicate(timeout=240)
        if p.returncode:
            raise SystemExit(f'{self.folder}: exit code {p.returncode}: {self.said()}')
        return json.loads(out)

    def judge(self, r, may_lose):
        kept = r['kept']
        seen = [e for e in self.log() if e['event'] == 'evaluation']
        same = [e for e in seen if e.get('parameters_digest') == r['parameters_digest']]
        if not any(e['loss'] == kept['loss'] and e['epochs'] == kept['epochs'] for e in same):
            return f"the result {r['parameters_digest']} ({kept}) is no best evaluation of the log"
        # evaluations after the last checkpoint of a run that died are made again, or others are
        if not may_lose and 'train.keep)' in self.said():
            return 'something was lost'
        if not r['test'] or not r['test']['loss'] > 0:
            return 'the test set was not scored'
        return None

    def end(self):
        for p in self.all:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
            p.communicate()


def resumed(run):
    for more in (3, 5, 2):
        p = run.start()
        run.until_saved(p, more)
        run.kill(p)
    return run.result(run.start())


def joined(run):
    """A server and two workers outlive their master, twice."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        run.address = f'127.0.0.1:{s.getsockname()[1]}'
    p = run.start()
    run.spawn('join', run.address, '--as', 'server')
    for _ in range(2):
        run.spawn('join', run.address)
    for more in (3, 4):
        run.until_saved(p, more)
        run.kill(p)
        p = run.start()
    return run.result(p)


CASES = {
    'threads_asgd': (resumed, 'asgd', 'workers: 3, servers: 2, shards: 3', ('train',)),
    'threads_ring': (resumed, 'ring', 'workers: 2', ('train',)),
    'processes_ssgd': (resumed, 'ssgd', 'workers: 2, servers: 1', ('train', '--processes')),
    'processes_asgd': (resumed, 'asgd', 'workers: 2, servers: 1', ('train', '--processes')),
    'master_asgd': (joined, 'asgd', 'workers: 2, servers: 2, shards: 3', ('serve',)),
}


def attempt(binary, folder, name):
    test, strategy, cluster, words = CASES[name]
    epochs = 100
    while epochs < 100000:
        run = Run(binary, folder, name, epochs, strategy, cluster, words)
        try:
            r = test(run)
            return run.judge(r, test is joined), r
        except Early:
            epochs *= 4  # this machine is quick
        finally:
            run.end()
    raise SystemExit(f'{name}: every run ended before anybody could be killed')


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ.get('TW_BUILD', 'build'),
                                                                'thalweg')
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or CASES:
            wrong, r = attempt(binary, folder, name)
            print(f"{name:16} kept epoch {r['kept']['epochs']:g} of {r['epochs_applied']:g}: "
                  f"{wrong or 'right'}")
            failed += wrong is not None
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
