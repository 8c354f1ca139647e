#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on scikit-learn's tables as a user would, and compares with PyTorch on the same rows.

    TW_BUILD=build /usr/bin/python3 test/torch/tables.py [SET ...]

For each of five splits of breast_cancer, wine, diabetes and digits:

  * a CSV file of the training rows goes to `thalweg train`; the unseen rows go to `thalweg predict`
    without their labels, with their columns in another order and an extra column of names;
  * PyTorch loads `thalweg export --standalone`, and its outputs for the raw unseen rows must be
    those of `thalweg predict --raw` to 1e-5 (of the value's size where that is above 1);
  * PyTorch trains the same network by itself, from the same first weights, in its own order of the
    samples.  The mean difference over the splits of accuracy (or, for values, of the squared error)
    must be within two standard errors of the paired differences.

A true difference of 0 fails the last test in about one of nine draws, so everything is drawn from
fixed seeds.  Needs python3-torch and python3-sklearn; exits 77 (skipped) without them.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
try:
    import numpy as np
    import sklearn.datasets
    import torch
    import torch.nn as nn
except ImportError as missing:
    print(f"torch_tables: skipped: {missing.name} is not installed (./setup --full installs it)",
          file=sys.stderr)
    sys.exit(77)

from safe import safe_read, safe_write

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"))
THALWEG = os.path.join(BUILD, "thalweg")
SPLITS, STARTS = 5, 3  # splits of the rows, and first weights for each
BATCH = 32

# hidden layers, epochs, rate
SETS = {
    "breast_cancer": ([16], 30, 0.003),
    "wine": ([16], 40, 0.01),
    "diabetes": ([32], 60, 0.02),
    "digits": ([64], 20, 0.003),
}


class Failed(Exception):
    pass


def expect(truth, sentence):
    if not truth:
        raise Failed(sentence)


def thalweg(*words, cwd, feed=None):
    done = subprocess.run([THALWEG, *words], cwd=cwd, input=feed, capture_output=True, text=True)
    expect(done.returncode == 0,
           f"thalweg {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


# --- the rows -------------------------------------------------------------------------------------

class Table:
    """One of scikit-learn's sets, with names for columns and classes."""

    def __init__(self, name):
        got = getattr(sklearn.datasets, "load_" + name)()
        self.name = name
        self.x = got.data.astype(np.float32)
        self.columns = [str(c) for c in got.feature_names]
        self.values = name == "diabetes"
        if self.values:
            self.y = got.target.astype(np.float32)
            self.classes = []
        else:
            # classes are numbered as sorted words, or as numbers where they are numbers
            self.classes = [str(c) for c in got.target_names]
            order = np.argsort(self.classes, kind="stable")
            rank = np.empty(len(order), int)
            rank[order] = np.arange(len(order))
            self.y = rank[got.target]
            self.classes = sorted(self.classes)

    def answer(self, i):
        return repr(float(self.y[i])) if self.values else self.classes[self.y[i]]

    def outputs(self):
        return 1 if self.values else len(self.classes)

    def split(self, k):
        order = np.random.default_rng(100 + k).permutation(len(self.x))
        unseen = len(self.x) // 4
        return order[unseen:], order[:unseen]


def write_rows(path, header, rows):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(header)
        out.writerows(rows)


def write_training(table, rows, path):
    write_rows(path, table.columns + ["answer"],
               [[repr(float(v)) for v in table.x[i]] + [table.answer(i)] for i in rows])


def write_unseen(table, rows, path, seed):
    """Without answers, columns in another order, a column that the model does not know."""
    order = np.random.default_rng(seed).permutation(len(table.columns))
    write_rows(path, ["sample"] + [table.columns[c] for c in order],
               [[f"sample-{i}"] + [repr(float(table.x[i][c])) for c in order] for i in rows])


# --- PyTorch --------------------------------------------------------------------------------------

def network(table, hidden, seed):
    torch.manual_seed(seed)
    sizes = [len(table.columns), *hidden, table.outputs()]
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def loss_of(table, out, y):
    if table.values:
        return nn.functional.mse_loss(out[:, 0], y)
    return nn.functional.cross_entropy(out, y)


def train_torch(table, net, rows, epochs, rate, seed):
    """The usual loop: standardised columns, shuffled batches, Adam."""
    x = torch.from_numpy(table.x[rows])
    mean, deviation = x.mean(0), x.std(0, unbiased=False)
    deviation[deviation == 0] = float("inf")  # a constant column becomes 0
    x = (x - mean) / deviation
    y = torch.from_numpy(table.y[rows])
    rule = torch.optim.Adam(net.parameters(), lr=rate)
    draw = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for some in torch.randperm(len(rows), generator=draw).split(BATCH):
            rule.zero_grad()
            loss_of(table, net(x[some]), y[some]).backward()
            rule.step()

    def apply(raw):
        with torch.no_grad():
            return net((raw - mean) / deviation)
    return apply


# --- one split ------------------------------------------------------------------------------------

def train_ours(table, rows, hidden, epochs, rate, seed, at):
    write_training(table, rows, os.path.join(at, "rows.csv"))
    job = f"""
data:    {{source: csv, file: rows.csv, label: answer, task: {'values' if table.values else 'classes'},
          global_batch: {BATCH}, test_file: rows.csv, normalise_targets: none}}
model:   {{name: mlp, hidden: {hidden}, weights: first.safetensors}}
train:   {{epochs: {epochs}, seed: {seed}}}
update:  {{rule: adam, rate: {rate}}}
cluster: {{workers: 2}}
strategy: ssgd
"""
    with open(os.path.join(at, "job.yaml"), "w") as f:
        f.write(job)
    thalweg("train", "job.yaml", "--run", "run", "--quiet", cwd=at)


def read_predictions(table, path, unseen):
    """What thalweg predict wrote, by the sample's name: answers and probabilities."""
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    expect(len(rows) == len(unseen), f"{len(rows)} predictions for {len(unseen)} rows")
    by = {r["sample"]: r for r in rows}
    expect(len(by) == len(rows), "the column 'sample' does not tell rows apart")
    return [by[f"sample-{i}"] for i in unseen]


def score(table, answers, unseen):
    truth = table.y[unseen]
    if table.values:
        return float(np.mean((np.array(answers, float) - truth) ** 2))
    return float(np.mean([table.classes.index(a) == t for a, t in zip(answers, truth)]))


def network_told(program):
    """The network of the program that export prints, without its loading by a library."""
    lines = [line for line in program.splitlines()
             if "safetensors" not in line and not line.startswith("net.eval")]
    known = {}
    exec("\n".join(lines), known)
    return known["net"]


def compare_outputs(table, at, unseen):
    """predict --raw against PyTorch with the standalone file; returns the worst difference."""
    thalweg("predict", "run", "--data", "unseen.csv", "--raw", "--to", "raw.npy", cwd=at)
    told = thalweg("export", "run", "--standalone", "--to", "alone.safetensors", "--json", cwd=at)
    ours = np.load(os.path.join(at, "raw.npy"))
    alone = safe_read(os.path.join(at, "alone.safetensors"))
    net = network_told(json.loads(told)["pytorch"])
    net.load_state_dict({name: torch.from_numpy(t) for name, t in alone.items()})
    net.eval()
    with torch.no_grad():
        theirs = net(torch.from_numpy(table.x[unseen])).numpy()
    expect(ours.shape == theirs.shape, f"outputs are {ours.shape}, PyTorch's {theirs.shape}")
    worst = float(np.max(np.abs(ours - theirs) / np.maximum(1, np.abs(theirs))))
    expect(worst <= 1e-5, f"an output differs from PyTorch's by {worst:.2g}")
    # the parameters alone must be those of the run: the same file, scored by ourselves
    for model in ("run", "alone.safetensors"):
        thalweg("predict", model, "--data", "unseen.csv", "--to", "p.csv", "--force", cwd=at)
        with open(os.path.join(at, "p.csv"), newline="") as f:
            rows = list(csv.DictReader(f))
        with open(os.path.join(at, "out.csv"), newline="") as f:
            first = list(csv.DictReader(f))
        expect([r["sample"] for r in rows] == [r["sample"] for r in first],
               f"{model}: other rows than before")
        if not table.values:
            same = np.mean([a["predicted"] == b["predicted"] for a, b in zip(rows, first)])
            expect(same > 0.99, f"{model}: other classes than the run's")
    return worst


def one(table, k, start, hidden, epochs, rate, at):
    """Scores of both sides on split k from first weights `start`, and the worst difference."""
    rows, unseen = table.split(k)
    seed = 1000 + 100 * k + start
    net = network(table, hidden, seed)
    safe_write(os.path.join(at, "first.safetensors"),
               {n: p.detach().numpy() for n, p in net.state_dict().items()})
    train_ours(table, rows, hidden, epochs, rate, seed, at)
    write_unseen(table, unseen, os.path.join(at, "unseen.csv"), seed)
    thalweg("predict", "run", "--data", "unseen.csv", "--to", "out.csv", cwd=at)
    told = read_predictions(table, os.path.join(at, "out.csv"), unseen)
    answers = [r["predicted"] for r in told]
    worst = compare_outputs(table, at, unseen) if start == 0 else 0.0
    theirs = train_torch(table, net, rows, epochs, rate, seed)(torch.from_numpy(table.x[unseen]))
    if table.values:
        said = theirs[:, 0].numpy()
    else:
        said = [table.classes[c] for c in theirs.argmax(1)]
    return score(table, answers, unseen), score(table, said, unseen), worst


def check(name):
    table = Table(name)
    hidden, epochs, rate = SETS[name]
    ours, theirs, worst = np.zeros(SPLITS), np.zeros(SPLITS), 0.0
    for k in range(SPLITS):
        for start in range(STARTS):
            with tempfile.TemporaryDirectory(prefix="tables-") as at:
                a, b, w = one(table, k, start, hidden, epochs, rate, at)
            ours[k] += a / STARTS
            theirs[k] += b / STARTS
            worst = max(worst, w)
    apart = ours - theirs
    error = float(apart.std(ddof=1) / np.sqrt(SPLITS))
    print(f"{name:14} {'squared error' if table.values else 'accuracy':13} "
          f"ours {ours.mean():9.5g}  PyTorch {theirs.mean():9.5g}  difference {apart.mean():8.2g} "
          f"(standard error {error:.2g})  outputs within {worst:.2g}", flush=True)
    expect(abs(apart.mean()) <= 2 * error + 1e-12,
           f"{name}: the mean difference {apart.mean():.3g} is above two standard errors "
           f"({error:.3g}); by split: {apart.tolist()}")


def main():
    failed = 0
    for name in sys.argv[1:] or SETS:
        try:
            check(name)
        except Failed as why:
            print(f"{name}: FAILED: {why}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
