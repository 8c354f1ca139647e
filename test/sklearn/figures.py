#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the figures of `thalweg eval` with those of scikit-learn on the same predictions.

    TW_BUILD=build /usr/bin/python3 test/sklearn/figures.py [CASE ...]

Each case trains a little, writes `eval --predictions`, and gives that file to scikit-learn: accuracy,
balanced accuracy, precision, recall and F1 of each class, the confusion matrix, log loss and ROC AUC,
or mean absolute error, root of the mean squared error and R^2.  They agree to 1e-9.  The worst rows
and the notes are worked out again from the same file.  Needs python3-sklearn; exits 77 (skipped)
without it.
"""
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
try:
    import numpy as np
    import sklearn.datasets
    from sklearn import metrics
except ImportError as missing:
    print(f"sklearn_figures: skipped: {missing.name} is not installed (./setup --full installs it)",
          file=sys.stderr)
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"))
THALWEG = os.path.join(BUILD, "thalweg")
NEAR = 1e-9


class Failed(Exception):
    pass


def expect(truth, sentence):
    if not truth:
        raise Failed(sentence)


def same(name, ours, theirs):
    expect(ours is not None and abs(ours - theirs) <= NEAR * max(1, abs(theirs)),
           f"{name}: {ours} here, {theirs} in scikit-learn")


def exact(text):
    """The float that nine digits stand for."""
    return float(np.float32(text))


def thalweg(*words, cwd):
    done = subprocess.run([THALWEG, *words], cwd=cwd, capture_output=True, text=True)
    expect(done.returncode == 0,
           f"thalweg {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


# --- a case: rows, a job, and what is scored ------------------------------------------------------

def table(folder, x, y):
    with open(os.path.join(folder, "rows.csv"), "w", newline="") as f:
        out = csv.writer(f)
        out.writerow([f"x{k}" for k in range(x.shape[1])] + ["y"])
        for row, answer in zip(x, y):
            out.writerow([f"{v:.9g}" for v in row] + [answer])
    return "{source: csv, file: rows.csv, label: y, batch: 16, test: 0.4}"


def train(folder, data, layers, loss, epochs=3, rate=0.05):
    with open(os.path.join(folder, "job.yaml"), "w") as f:
        f.write(f"data: {data}\nmodel: {{layers: [{layers}]}}\nloss: {loss}\n"
                f"train: {{epochs: {epochs}}}\nupdate: {{rate: {rate}}}\ncluster: {{workers: 1}}\n")
    thalweg("train", "job.yaml", "--again", cwd=folder)


def score(folder, *words):
    out = json.loads(thalweg("eval", "runs/job", "--json", "--worst", "7", "--predictions",
                             "said.csv", "--force", *words, cwd=folder))
    shown = thalweg("eval", "runs/job", "--worst", "7", *words, cwd=folder)
    for note in out["notes"]:
        expect(note in shown, f"the note '{note}' is not printed")
    with open(os.path.join(folder, "said.csv"), newline="") as f:
        return out, list(csv.DictReader(f)), shown


def check_classes(out, lines, shown):
    names = [c["name"] for c in out["classes"]]
    truth = np.array([names.index(r["truth"]) for r in lines])
    said = np.array([names.index(r["predicted"]) for r in lines])
    raw = np.array([[exact(r["p_" + n]) for n in names] for r in lines])
    labels = list(range(len(names)))
    # floats do not add up to 1 exactly; and scikit-learn takes no 0
    p = np.clip(raw, 2 ** -52, 1 - 2 ** -52)
    p /= p.sum(axis=1, keepdims=True)
    each = metrics.precision_recall_fscore_support(truth, said, labels=labels, zero_division=0)
    same("accuracy", out["accuracy"], metrics.accuracy_score(truth, said))
    same("balanced accuracy", out["balanced_accuracy"],
         metrics.balanced_accuracy_score(truth, said))
    same("log loss", out["log_loss"], metrics.log_loss(truth, p, labels=labels))
    for k, c in enumerate(out["classes"]):
        for name, theirs in zip(("precision", "recall", "f1", "rows"), each):
            same(f"{name} of {c['name']}", c[name], theirs[k])
        expect(c["predicted"] == (said == k).sum(), f"predicted as {c['name']}")
    matrix = metrics.confusion_matrix(truth, said, labels=labels)
    expect(out["confusion"] == matrix.tolist(), "the confusion matrix differs")
    wrong = sorted(((-matrix[t, s], t, s) for t in labels for s in labels
                    if t != s and matrix[t, s]))[:20]
    expect([(m["rows"], m["truth"], m["predicted"]) for m in out["mistakes"]] ==
           [(-n, names[t], names[s]) for n, t, s in wrong], "the mistakes differ")
    if len(set(truth)) == 1:
        expect(out["roc_auc"] is None, "one class has no ROC AUC")
    elif len(names) == 2:
        same("ROC AUC", out["roc_auc"], metrics.roc_auc_score(truth, raw[:, 1]))
        expect(f"of class '{names[1]}'" in shown, "whose ROC AUC it is")
    elif len(set(truth)) == len(names):
        same("ROC AUC", out["roc_auc"],
             metrics.roc_auc_score(truth, raw, multi_class="ovr", labels=labels))
        expect("each against the rest" in shown, "which mean of ROC AUC it is")
    off = -np.log(p[np.arange(len(lines)), truth])
    worst = sorted(range(len(lines)), key=lambda i: (-off[i], i))[:7]
    expect([w["row"] - 1 for w in out["worst"]] == worst, "the worst rows differ")
    for w in out["worst"]:
        same("log loss of a row", w["log_loss"], off[w["row"] - 1])
        expect(w["truth"] == lines[w["row"] - 1]["truth"], "truth of a bad row")
        expect(w["predicted"] == lines[w["row"] - 1]["predicted"], "prediction of a bad row")
    return truth, said


def check_values(out, lines, names):
    def column(prefix):
        return np.array([[exact(r[prefix if len(names) == 1 else f"{prefix}_{n}"])
                          for n in names] for r in lines])

    truth, said = column("truth"), column("predicted")
    for k, t in enumerate(out["targets"]):
        same("mae", t["mae"], metrics.mean_absolute_error(truth[:, k], said[:, k]))
        same("rmse", t["rmse"], math.sqrt(metrics.mean_squared_error(truth[:, k], said[:, k])))
        same("r2", t["r2"], metrics.r2_score(truth[:, k], said[:, k]))
    same("mean mae", out["mae"], metrics.mean_absolute_error(truth, said))
    same("mean rmse", out["rmse"],
         np.mean([math.sqrt(metrics.mean_squared_error(truth[:, k], said[:, k]))
                  for k in range(len(names))]))
    same("mean r2", out["r2"], metrics.r2_score(truth, said))
    spread = truth.std(axis=0) if len(names) > 1 else 1
    off = np.sqrt((((said - truth) / spread) ** 2).mean(axis=1))
    expect([w["row"] for w in out["worst"]] ==
           [i + 1 for i in sorted(range(len(lines)), key=lambda i: (-off[i], i))[:7]],
           "the worst rows differ")
    for w in out["worst"]:
        same("error of a row", w["error"], off[w["row"] - 1])
    return truth, said


# --- cases ----------------------------------------------------------------------------------------

def three_classes(folder):
    """iris: three classes with names."""
    iris = sklearn.datasets.load_iris()
    data = table(folder, iris.data, [iris.target_names[k] for k in iris.target])
    train(folder, data, "linear 8, relu, linear 3", "cross-entropy")
    truth, said = check_classes(*score(folder))
    expect(0 < (truth == said).mean() < 1, "iris should be neither hopeless nor solved")


def two_outputs(folder):
    """breast_cancer: two classes, an output for each."""
    d = sklearn.datasets.load_breast_cancer()
    data = table(folder, d.data, [d.target_names[k] for k in d.target])
    train(folder, data, "linear 8, relu, linear 2", "cross-entropy")
    check_classes(*score(folder))


def one_output(folder):
    """breast_cancer: two classes, one output, probabilities that saturate and tie."""
    d = sklearn.datasets.load_breast_cancer()
    data = table(folder, d.data, [d.target_names[k] for k in d.target])
    train(folder, data, "linear 8, relu, linear 1, scale 40", "binary-cross-entropy")
    out, lines, shown = score(folder)
    check_classes(out, lines, shown)
    p = [r["p_" + out["classes"][1]["name"]] for r in lines]
    expect(len(set(p)) < len(p), "no two probabilities are the same: nothing is tied")


def many_classes(folder):
    """digits: ten classes, and more than the terminal shows as a matrix would be a list."""
    d = sklearn.datasets.load_digits()
    data = table(folder, d.data[:600], d.target[:600])
    train(folder, data, "linear 10", "cross-entropy")
    check_classes(*score(folder))
    data = table(folder, d.data[:600], [f"{k}{'ab'[i % 2]}" for i, k in enumerate(d.target[:600])])
    train(folder, data, "linear 20", "cross-entropy")
    out, lines, shown = score(folder)
    check_classes(out, lines, shown)
    expect("truth\\predicted" not in shown, "a matrix of 20 columns is printed")
    expect(f"{out['mistakes'][0]['rows']:8}" in shown, "the mistakes are not printed")


def few_positives(folder):
    """4 % positives: only one class is predicted, and that is said; so is a set of one class."""
    random = np.random.default_rng(3)
    x = random.normal(size=(500, 4)) / 10
    y = np.where(np.arange(500) % 25 == 0, "yes", "no")
    train(folder, table(folder, x, y), "linear 2", "cross-entropy", epochs=5, rate=0.1)
    out, lines, shown = score(folder)
    truth, said = check_classes(out, lines, shown)
    expect(len(set(said)) == 1, "the network should predict one class here")
    positives = int((truth != said).sum())
    expect(any(n.startswith("only one class is predicted: every row gets 'no', and "
                            f"{positives} of 200 rows are of other classes")
               for n in out["notes"]), f"not said: {out['notes']}")
    expect(any("is not above the share of the largest class: always answering 'no' is right in"
               in n for n in out["notes"]), f"not said: {out['notes']}")
    with open(os.path.join(folder, "no.csv"), "w") as f:
        f.write("x0,x1,x2,x3,y\n" + "1,2,3,4,no\n2,1,0,1,no\n" * 4)
    out, lines, shown = score(folder, "--data", "no.csv")
    check_classes(out, lines, shown)
    expect(any(n.startswith("all rows are of class 'no'") for n in out["notes"]), "one class")
    with open(os.path.join(folder, "huge.csv"), "w") as f:
        f.write("x0,x1,x2,x3,y\n1,2,3,4,no\n3e38,-3e38,3e38,3e38,yes\n1,2,3,4,no\n")
    out, lines, shown = score(folder, "--data", "huge.csv")
    expect(out["log_loss"] is None and out["roc_auc"] is None, "there is no log loss of infinity")
    expect(any(n.startswith("1 rows have outputs that are not numbers") for n in out["notes"]),
           "outputs that are not numbers are not said")
    expect(out["worst"][0]["row"] == 2 and out["worst"][0]["predicted"] is None, "the worst row")
    expect(sum(map(sum, out["confusion"])) == 2, "a row without a class is in the matrix")


def values(folder):
    """diabetes: one value; and with a network that learns nothing, R^2 is at most 0."""
    d = sklearn.datasets.load_diabetes()
    data = table(folder, d.data, [f"{v / 100:.6f}" for v in d.target])
    data = data.replace("label: y", "label: y, task: values")
    train(folder, data, "linear 1", "mean-squared")
    out, lines, shown = score(folder)
    check_values(out, lines, ["y"])
    data = data.replace("label: y", "label: y, normalise_targets: none")
    train(folder, data, "linear 1, scale 0.001", "mean-squared", epochs=1, rate=0.001)
    out, lines, shown = score(folder)
    check_values(out, lines, ["y"])
    expect(any(n.startswith("R^2 of 'y' is -") and "predicting the mean" in n
               for n in out["notes"]), f"not said: {out['notes']}")


def several_values(folder):
    """linnerud: three values of a sample, in NumPy arrays."""
    d = sklearn.datasets.load_linnerud()
    np.save(os.path.join(folder, "x.npy"), d.data.astype("<f4"))
    np.save(os.path.join(folder, "y.npy"), (d.target / 50).astype("<f4"))
    train(folder, "{source: npy, x: x.npy, y: y.npy, batch: 4, test: 0.4}", "linear 3",
          "mean-squared", rate=0.01)
    out, lines, shown = score(folder)
    check_values(out, lines, ["value_0", "value_1", "value_2"])
    expect("MAE" in shown and out["targets"][2]["name"] == "2", "three rows of targets")


CASES = [three_classes, two_outputs, one_output, many_classes, few_positives, values,
         several_values]


def main():
    warnings.simplefilter("ignore")
    wanted = sys.argv[1:] or [c.__name__ for c in CASES]
    failed = 0
    for case in CASES:
        if case.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(folder)
                print(f"ok {case.__name__}: {case.__doc__}")
            except Failed as why:
                failed += 1
                print(f"FAILED {case.__name__}: {why}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
