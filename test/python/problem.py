# SPDX-License-Identifier: Apache-2.0
"""A least-squares problem with a serial answer, and clusters for tests."""
import os
import subprocess
import sys
import tempfile

import numpy as np

import thalweg as tw

N, SAMPLES = 6, 96
_rng = np.random.default_rng(3)
X = _rng.normal(size=(SAMPLES, N)).astype(np.float32)
Y = (X @ _rng.normal(size=N)).astype(np.float32)


def gradient(samples, w):
    """Mean gradient and loss of half the squared error."""
    x, e = X[samples], X[samples] @ w - Y[samples]
    return (x.T @ e / len(samples)).astype(np.float32), float((e * e).mean() / 2)


def answer(task):
    g, loss = gradient(task.samples, task.parameters)
    if task.score:
        return task.done(loss=loss, correct=None)
    return task.done(gradient=g, loss=loss)


def program(text, *arguments, **more):
    """A Python program in a process of its own."""
    return subprocess.Popen([sys.executable, "-c", text, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, cwd=os.path.dirname(os.path.abspath(__file__)), **more)


class Cluster:
    """A master of the problem, with a key, in a folder of its own."""

    def __init__(self, strategy="ssgd", workers=2, epochs=2, start=None, model=None, samples=SAMPLES, **more):
        self.folder = tempfile.TemporaryDirectory()
        self.key = os.path.join(self.folder.name, "cluster.key")
        tw.make_key(self.key)
        job = {"data": {"batch": 4}, "train": {"epochs": epochs}, "update": {"rate": 0.05},
               "cluster": {"workers": workers, "min": start or workers, "limit": "3s"}, "strategy": strategy,
               "checkpoint": {"every": "200ms"}}
        job.update(more.pop("job", {}))
        self.directory = os.path.join(self.folder.name, "run")
        self.make = lambda listen: tw.serve(np.zeros(N) if model is None else model, job, listen=listen, key=self.key,
                                            samples=samples, directory=self.directory, wait=False, quiet=True, **more)
        self.master = self.make("127.0.0.1:0")

    @property
    def address(self):
        return self.master.address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.master.close()
        self.folder.cleanup()
