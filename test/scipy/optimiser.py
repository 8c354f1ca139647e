#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""optimiser.py - L-BFGS of Thalweg against L-BFGS-B of SciPy on the same problems.

    test/scipy/optimiser.py [BINARY]    default: build/thalweg, or the one below TW_BUILD

Logistic regression on digits, softmax regression on MNIST with L2 (if the set was fetched) and ridge
regression.  Both begin at zero.  SciPy works in double; its minimum, with tolerances near the
precision of doubles, is the reference.  Thalweg must come to (1 + 1e-6) times that minimum in at
most 1.2 times the evaluations that SciPy needs for it, and its last point must be that near.
Prints a table; exit code 1 if a row is not as it must be."""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
from scipy.optimize import minimize

NEAR = 1e-6
HISTORY = 10


def write_zeros(path, shapes):
    """A safetensors file of zeros."""
    header, at = {}, 0
    for name, shape in shapes:
        size = 4 * int(np.prod(shape))
        header[name] = {'dtype': 'F32', 'shape': list(shape), 'data_offsets': [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + bytes(at))


def softmax(x, y, classes, l2):
    """Mean cross-entropy of x W^T + b, with l2/2 |W, b|^2; parameters W then b."""
    n, features = x.shape
    x = x.astype(np.float64)
    one = np.eye(classes)[y]

    def f(w):
        weight, bias = w[:classes * features].reshape(classes, features), w[classes * features:]
        z = x @ weight.T + bias
        z -= z.max(axis=1, keepdims=True)
        total = np.log(np.exp(z).sum(axis=1))
        p = np.exp(z - total[:, None]) - one
        loss = (total - (z * one).sum(axis=1)).mean() + l2 / 2 * (w @ w)
        return loss, np.concatenate([(p.T @ x / n).ravel(), p.mean(axis=0)]) + l2 * w
    return f, classes * (features + 1)


def ridge(x, y, l2):
    """Mean squared error of x w + b, with l2/2 |w, b|^2."""
    n, features = x.shape
    x, y = x.astype(np.float64), y.astype(np.float64)

    def f(w):
        r = x @ w[:features] + w[features] - y
        g = np.concatenate([2 * (x.T @ r) / n, [2 * r.mean()]])
        return (r @ r) / n + l2 / 2 * (w @ w), g + l2 * w
    return f, features + 1


def with_scipy(f, n):
    """The minimum, and the evaluations until a value is near it."""
    options = {'maxcor': HISTORY, 'maxiter': 100000, 'maxfun': 1000000, 'gtol': 1e-12, 'ftol': 1e-15}
    best = minimize(f, np.zeros(n), jac=True, method='L-BFGS-B', options=options).fun
    seen = []

    def counted(w):
        value, g = f(w)
        seen.append(value)
        return value, g
    minimize(counted, np.zeros(n), jac=True, method='L-BFGS-B', options=options)
    return best, next(k + 1 for k, v in enumerate(seen) if v <= best + NEAR * abs(best))


def with_thalweg(binary, folder, text):
    """Rows of the log: (evaluations, loss)."""
    job = os.path.join(folder, 'job.yaml')
    with open(job, 'w', encoding='utf-8') as f:
        f.write(text)
    run = os.path.join(folder, 'run')
    subprocess.run([binary, 'train', job, '--run', run, '--again', '-q'], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(run, 'log.jsonl'), encoding='utf-8') as f:
        lines = [json.loads(line) for line in f]
    return [(e['evaluations'], e['loss']) for e in lines if e['event'] == 'iteration']


def idx(path):
    with gzip.open(path, 'rb') if path.endswith('.gz') else open(path, 'rb') as f:
        magic = f.read(4)
        dims = struct.unpack('>' + 'I' * magic[3], f.read(4 * magic[3]))
        return np.frombuffer(f.read(), np.uint8).reshape(dims)


def problems(folder):
    """name, function, dimension, job"""
    def job(x, y, layer, loss, l2, shapes, name):
        np.save(os.path.join(folder, name + '_x.npy'), x.astype(np.float32))
        np.save(os.path.join(folder, name + '_y.npy'), y)
        write_zeros(os.path.join(folder, name + '.safetensors'), shapes)
        return (f'data: {{source: npy, x: {name}_x.npy, y: {name}_y.npy, test_x: {name}_x.npy, '
                f'test_y: {name}_y.npy, normalise: none}}\n'
                f'model: {{layers: [{layer}], weights: {name}.safetensors}}\nloss: {loss}\n'
                f'optimiser: {{name: lbfgs, history: {HISTORY}, portion: 256, l2: {l2}, '
                'gradient: 0, decrease: 0, evaluations: 400}\n'
                'train: {evaluate: 1000}\ncluster: {workers: 2}\n')

    from sklearn.datasets import load_digits
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
    f, n = softmax(x, y, 10, 1e-3)
    yield 'logistic regression on digits', f, n, job(
        x, y, 'linear 10', 'cross-entropy', 1e-3,
        [('0.weight', (10, 64)), ('0.bias', (10,))], 'digits')

    rng = np.random.default_rng(1)
    x = rng.standard_normal((2000, 60)).astype(np.float32) * np.logspace(0, 1, 60, dtype=np.float32)
    y = (x @ rng.standard_normal(60) + rng.standard_normal(2000)).astype(np.float32)
    f, n = ridge(x, y, 0.1)
    yield 'ridge regression', f, n, job(
        x, y[:, None], 'linear 1', 'mean-squared', 0.1,
        [('0.weight', (1, 60)), ('0.bias', (1,))], 'ridge')

    cache = os.path.expanduser(os.path.join(os.environ.get('XDG_CACHE_HOME', '~/.cache'),
                                            'thalweg', 'mnist'))
    for name in ('train-images-idx3-ubyte', 'train-images.idx3-ubyte'):
        for end in ('', '.gz'):
            images = os.path.join(cache, name + end)
            labels = images.replace('images', 'labels').replace('idx3', 'idx1')
            if os.path.exists(images) and os.path.exists(labels):
                x = (idx(images).reshape(60000, 784) / np.float32(255)).astype(np.float32)
                y = idx(labels).astype(np.int64)
                f, n = softmax(x, y, 10, 1e-3)
                yield 'softmax regression on MNIST', f, n, job(
                    x, y, 'linear 10', 'cross-entropy', 1e-3,
                    [('0.weight', (10, 784)), ('0.bias', (10,))], 'mnist')
                return


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ.get('TW_BUILD', 'build'),
                                                                'thalweg')
    good = True
    print(f'{"problem":32} {"minimum":>14} {"off":>9} {"scipy":>6} {"thalweg":>8} {"ratio":>6}')
    with tempfile.TemporaryDirectory() as folder:
        for name, f, n, text in problems(folder):
            best, theirs = with_scipy(f, n)
            rows = with_thalweg(binary, folder, text)
            near = [e for e, loss in rows if loss <= best + NEAR * abs(best)]
            off = (rows[-1][1] - best) / abs(best)
            ours = near[0] if near else float('inf')
            good = good and ours <= 1.2 * theirs and abs(off) <= NEAR
            print(f'{name:32} {best:14.9g} {off:9.1e} {theirs:6} {ours:8} {ours / theirs:6.2f}')
    if not good:
        print('optimiser: a minimum is not reached, or takes more than 1.2 times the evaluations')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
