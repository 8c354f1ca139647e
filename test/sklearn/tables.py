#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tables.py - what `thalweg init` writes, against scikit-learn on ten tables that nobody here wrote.

Five tables are bundled with scikit-learn, five are drawn by its generators; into four of the ten
words, dates and missing values are put.  For ten splits of each, `thalweg init` and `train` get the
training rows, and `predict` the test rows without their answers.  The measure is the balanced
accuracy of classes and R2 of values.  It must reach the better one of scikit-learn's MLP and its
linear model, both behind the same ColumnTransformer, minus one standard error of the paired
differences.  The model of the first split is also written as a C file, which must give what
`predict --raw` gives of the test rows, to 1e-5 of the largest output (of 1 where that is below 1):
a value near 0 is the difference of two large ones.

    tables.py THALWEG [TABLE...]                all tables, or those that are named
    tables.py THALWEG --c-files [TABLE...]      only the C files
"""
import csv
import math
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    from sklearn import datasets
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.metrics import balanced_accuracy_score, r2_score
    from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
except ImportError:
    print("tables.py: skipped: scikit-learn is not installed")
    sys.exit(77)

SPLITS = 10
CC = shutil.which("cc")


class Table:
    """Columns of cells as text ("" is missing), and the answers."""

    def __init__(self, name, x, y, classes):
        self.name, self.classes = name, classes
        self.cells = [["%.9g" % v for v in column] for column in np.asarray(x).T]
        self.words = [False] * len(self.cells)
        self.y = [("k%d" % v if classes else "%.9g" % v) for v in y]

    def mess(self, seed):
        """Two columns become words by their quartiles, and values go missing in three."""
        draw = np.random.RandomState(seed)
        for k in (0, 2):
            v = np.array([float(c) for c in self.cells[k]])
            at = np.searchsorted(np.quantile(v, [0.25, 0.5, 0.75]), v)
            self.cells[k] = [["low", "middling", "high", "very high"][i] for i in at]
            self.words[k] = True
        for k in (1, 2, 3):
            for i in np.nonzero(draw.rand(len(self.y)) < 0.1)[0]:
                self.cells[k][i] = ""
        return self

    def write(self, path, rows, answers):
        with open(path, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(["c%d" % k for k in range(len(self.cells))] + (["answer"] if answers else []))
            for i in rows:
                w.writerow([c[i] for c in self.cells] + ([self.y[i]] if answers else []))

    def frame(self, rows):
        out = np.empty((len(rows), len(self.cells)), dtype=object)
        for k, column in enumerate(self.cells):
            for n, i in enumerate(rows):
                cell = column[i]
                out[n, k] = (cell or "(none)") if self.words[k] else float(cell) if cell else np.nan
        return out

    def answers(self, rows):
        return np.array([self.y[i] if self.classes else float(self.y[i]) for i in rows])


def tables():
    iris, wine = datasets.load_iris(), datasets.load_wine()
    cancer, digits = datasets.load_breast_cancer(), datasets.load_digits()
    diabetes = datasets.load_diabetes()
    five = datasets.make_classification(1000, 20, n_informative=8, n_classes=5, random_state=5)
    rare = datasets.make_classification(1500, 12, n_informative=6, weights=[0.9], random_state=6)
    friedman = datasets.make_friedman1(800, noise=1.0, random_state=7)
    circuits = datasets.make_friedman2(700, noise=50.0, random_state=9)
    straight = datasets.make_regression(600, 15, n_informative=8, noise=20, random_state=8)
    return [
        Table("iris", iris.data, iris.target, True),
        Table("wine", wine.data, wine.target, True),
        Table("cancer", cancer.data, cancer.target, True).mess(1),
        Table("digits", digits.data, digits.target, True),
        Table("five", *five, True),
        Table("rare", *rare, True).mess(2),
        Table("diabetes", diabetes.data, diabetes.target, False),
        Table("friedman", *friedman, False).mess(4),
        Table("circuits", *circuits, False).mess(3),
        Table("straight", *straight, False),
    ]


def score(table, truth, predicted):
    if table.classes:
        return balanced_accuracy_score(truth, predicted)
    return r2_score(truth, np.array(predicted, dtype=float))


def theirs(table, train, test):
    """The better one of an MLP and a linear model, by each of them."""
    words = [k for k, w in enumerate(table.words) if w]
    numbers = [k for k, w in enumerate(table.words) if not w]

    def columns():
        return ColumnTransformer([
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ("words", OneHotEncoder(handle_unknown="ignore"), words),
        ], sparse_threshold=0)

    x, y, z = table.frame(train), table.answers(train), table.frame(test)
    if table.classes:
        models = [MLPClassifier(random_state=1), LogisticRegression(max_iter=1000)]
    else:
        models = [TransformedTargetRegressor(MLPRegressor(random_state=1), transformer=StandardScaler()),
                  Ridge()]
    out = []
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out.append(score(table, table.answers(test), make_pipeline(columns(), model).fit(x, y).predict(z)))
    return out


def run(*words, cwd):
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("tables.py: %s: %s" % (" ".join(words), done.stderr))
    return done.stdout


def numbers(text):
    return np.array([[float(v) for v in line.split(",")] for line in text.splitlines()])


def c_file(thalweg, folder):
    """How far the C file is from `predict --raw` at most; cells go in as they are in the file."""
    run(thalweg, "export", "runs/t", "--to", "model.c", "-q", cwd=folder)
    run(CC, "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-DMODEL_MAIN", "-o", "model",
        "model.c", "-lm", cwd=folder)
    with open(os.path.join(folder, "new.csv")) as f:
        here = numbers(subprocess.run(["./model"], cwd=folder, stdin=f, stdout=subprocess.PIPE,
                                      text=True, check=True).stdout)
    there = csv.reader(run(thalweg, "predict", "runs/t", "--data", "new.csv", "--raw", "-q",
                           cwd=folder).splitlines())
    out = [k for k, name in enumerate(next(there)) if name.startswith("output_")]
    there = np.array([[float(row[k]) for k in out] for row in there])
    if here.shape != there.shape:
        sys.exit("tables.py: the C file gives %s outputs, not %s" % (here.shape, there.shape))
    return float(np.max(np.abs(here - there) / np.maximum(1, np.abs(there).max(axis=0))))


def ours(thalweg, table, train, test, more=(), away=None):
    """What thalweg scores; the C file's distance is appended to `away`, if there is such a list."""
    with tempfile.TemporaryDirectory() as folder:
        table.write(os.path.join(folder, "t.csv"), train, True)
        table.write(os.path.join(folder, "new.csv"), test, False)
        run(thalweg, "init", "t.csv", "--label", "answer", cwd=folder)
        # the test rows are another file: of these one is held out, since a run is scored on something
        run(thalweg, "train", "t.yaml", "-q", "--set", "data.test=0.001", *more, cwd=folder)
        rows = csv.DictReader(run(thalweg, "predict", "runs/t", "--data", "new.csv", "-q", cwd=folder)
                              .splitlines())
        if away is not None:
            away.append(c_file(thalweg, folder))
        return score(table, table.answers(test), [row["predicted"] for row in rows])


def splits(table):
    # the rows that are to be trained on and those that are not, ten times
    kind = StratifiedShuffleSplit if table.classes else ShuffleSplit
    n = len(table.y)
    return list(kind(SPLITS, test_size=0.25, random_state=1).split(np.zeros(n), table.y))


def only_c_files(thalweg, names):
    wrong = 0
    for table in tables():
        if names and table.name not in names:
            continue
        far = []
        ours(thalweg, table, *splits(table)[0], away=far)
        wrong += far[0] > 1e-5
        print("%-14s %8.1e%s" % (table.name, far[0], "  differs" if far[0] > 1e-5 else ""), flush=True)
    return 1 if wrong else 0


def main(thalweg, names):
    missed = 0
    if not CC:
        print("tables.py: there is no C compiler (cc): C files are not compared")
    print("%-14s %8s %8s %8s %10s %8s" % ("table", "thalweg", "MLP", "linear", "margin", "C file"))
    for table in tables():
        if names and table.name not in names:
            continue
        we, they, far = [], [], []
        for train, test in splits(table):
            we.append(ours(thalweg, table, train, test, away=None if far or not CC else far))
            they.append(theirs(table, train, test))
        we, they = np.array(we), np.array(they)
        best = they[:, they.mean(axis=0).argmax()]
        away = we - best
        margin = away.mean() + away.std(ddof=1) / math.sqrt(len(away))
        wrong = [text for text, bad in (("missed", margin < 0), ("C file differs", max(far, default=0) > 1e-5))
                 if bad]
        missed += bool(wrong)
        print("%-14s %8.4f %8.4f %8.4f %+10.4f %8.1e  %s" % (table.name, we.mean(), *they.mean(axis=0), margin,
                                                         max(far, default=math.nan), ", ".join(wrong)),
              flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = os.path.abspath(sys.argv[1])
    if sys.argv[2:3] != ["--c-files"]:
        sys.exit(main(program, sys.argv[2:]))
    if not CC:
        print("tables.py: skipped: there is no C compiler (cc)")
        sys.exit(77)
    sys.exit(only_c_files(program, sys.argv[3:]))
