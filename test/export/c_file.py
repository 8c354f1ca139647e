#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles what `thalweg export --to model.c` writes, and compares it with `thalweg predict`.

    TW_BUILD=build python3 test/export/c_file.py

Networks of every kind of layer, on tables and images: the outputs of the program for the rows as the
files have them are those of `predict --raw` to 1e-5 (of the value's size where that is above 1); the
classes and probabilities are those of `predict`.  Cells of a table may be words, dates and missing.
Then what is refused.  Exits 77 (skipped) without a C compiler.
"""
import csv
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
THALWEG = os.path.join(ROOT, os.environ.get("TW_BUILD", "build"), "thalweg")
CC = shutil.which("cc")
FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]


class Failed(Exception):
    pass


def expect(truth, sentence):
    if not truth:
        raise Failed(sentence)


def thalweg(*words, cwd, code=0):
    done = subprocess.run([THALWEG, *words], cwd=cwd, capture_output=True, text=True)
    expect(done.returncode == code,
           f"thalweg {' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout if code == 0 else done.stderr


def near(a, b):
    return abs(a - b) <= 1e-5 * max(1, abs(b))


# --- rows -----------------------------------------------------------------------------------------

def flowers(folder, answer):
    """A table with names that a C text must escape; returns its rows without answers."""
    draw = random.Random(5)
    rows = [[draw.gauss(k % 3, 0.7), draw.gauss(500 - 30 * (k % 3), 20), draw.gauss(0, 1e-3)]
            for k in range(90)]
    with open(os.path.join(folder, "rows.csv"), "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(['a "b"', "c\\d", "e??/", "answer"])
        for k, row in enumerate(rows):
            out.writerow([f"{v:.9g}" for v in row] + [answer(k, row)])
    return rows


def array(folder, name, shape, values):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }" % \
        ", ".join(str(n) for n in shape)
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(os.path.join(folder, name), "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack(f"<{len(values)}f", *values))


def images(folder, shape, count=60):
    """Images and two values to predict, as arrays; returns the images."""
    draw = random.Random(9)
    size = shape[0] * shape[1] * shape[2]
    rows = [[struct.unpack("<f", struct.pack("<f", draw.gauss(3, 2)))[0] for _ in range(size)]
            for _ in range(count)]
    array(folder, "x.npy", (count, *shape), [v for r in rows for v in r])
    array(folder, "y.npy", (count, 2), [v for r in rows for v in (r[0] - r[1], r[2] / 4)])
    return rows


# --- a network, both ways -------------------------------------------------------------------------

def train(folder, data, layers, loss):
    with open(os.path.join(folder, "job.yaml"), "w") as f:
        f.write(f"data: {data}\nmodel: {{layers: [{layers}]}}\nloss: {loss}\n"
                "train: {epochs: 2}\nupdate: {rate: 0.01}\ncluster: {workers: 1}\n")
    thalweg("train", "job.yaml", cwd=folder)


def compare(folder, rows, file):
    thalweg("export", "runs/job", "--to", "model.c", "--force", cwd=folder)
    subprocess.run([CC, *FLAGS, "-DMODEL_MAIN", "-o", "model", "model.c", "-lm"], cwd=folder,
                   check=True)
    text = "".join(",".join(f"{v:.9g}" for v in r) + "\n" for r in rows)
    said = subprocess.run(["./model"], cwd=folder, input=text, capture_output=True, text=True,
                          check=True).stdout
    ours = [[float(v) for v in line.split(",")] for line in said.splitlines()]
    theirs = [[float(v) for k, v in r.items() if k.startswith("output_")] for r in csv.DictReader(
        thalweg("predict", "runs/job", "--data", file, "--raw", cwd=folder).splitlines())]
    expect(len(ours) == len(theirs) == len(rows), f"{len(ours)} rows, not {len(theirs)}")
    for k, (a, b) in enumerate(zip(ours, theirs)):
        expect(len(a) == len(b) and all(near(x, y) for x, y in zip(a, b)),
               f"row {k + 1}: {a} in C, {b} by predict --raw")


USE = r"""
#include <stdio.h>
#include "model.c"
int main(void)
{
	float in[MODEL_INPUTS], raw[MODEL_OUTPUTS], values[MODEL_VALUES];
	static float room[MODEL_INPUTS + MODEL_ROOM];

	for (;;) {
		for (int i = 0; i < MODEL_INPUTS; i++)
			if (scanf("%f%*[,]", &in[i]) != 1)
				return 0;
		model_raw_in(in, raw, room);
		model_read(raw, values);
		printf("%s|%s", model_class(raw) < 0 ? "" : model_classes[model_class(raw)],
		       model_inputs[0]);
		for (int k = 0; k < MODEL_VALUES; k++)
			printf("|%.9g", values[k]);
		putchar('\n');
	}
}
"""


def compare_reading(folder, rows, file, prefix):
    with open(os.path.join(folder, "use.c"), "w") as f:
        f.write(USE)
    subprocess.run([CC, *FLAGS, "-o", "use", "use.c", "-lm"], cwd=folder, check=True)
    text = "".join(",".join(f"{v:.9g}" for v in r) + "\n" for r in rows)
    said = subprocess.run(["./use"], cwd=folder, input=text, capture_output=True, text=True,
                          check=True).stdout.splitlines()
    theirs = list(csv.DictReader(
        thalweg("predict", "runs/job", "--data", file, cwd=folder).splitlines()))
    expect(len(said) == len(theirs), "other rows")
    for line, r in zip(said, theirs):
        name, first, *values = line.split("|")
        expect(first == 'a "b"', f"the first column is called {first}")
        expect(not prefix or name == r["predicted"], f"class {name}, not {r['predicted']}")
        numbers = [float(v) for k, v in r.items() if k.startswith(prefix or "predicted")]
        expect(len(numbers) == len(values) and
               all(near(float(a), b) for a, b in zip(values, numbers)), f"{values} not {numbers}")


def three_classes(folder):
    """a table of three classes with odd names"""
    names = ["rose", 'the "lily"', "back\\slash"]
    rows = flowers(folder, lambda k, r: names[k % 3])
    train(folder, "{source: csv, file: rows.csv, batch: 16}",
          "linear 7, groupnorm 7, elu 0.5, linear 8, layernorm, silu, linear 6, softplus 2, "
          "linear 5, prelu, linear 3", "cross-entropy")
    compare(folder, rows, "rows.csv")
    compare_reading(folder, rows, "rows.csv", "p_")


def two_classes(folder):
    """two classes by one output, as they are read: sigmoid"""
    rows = flowers(folder, lambda k, r: "yes" if r[0] > 1 else "no")
    train(folder, "{source: csv, file: rows.csv, batch: 16}",
          "linear 9, batchnorm, tanh, dropout 0.3, linear 4, sigmoid, softmax, scale 3, linear 1",
          "binary-cross-entropy")
    compare(folder, rows, "rows.csv")
    compare_reading(folder, rows, "rows.csv", "p_")


def a_value(folder):
    """a value of a table"""
    rows = flowers(folder, lambda k, r: f"{r[0] * 2 + r[1] / 500:.6g}")
    train(folder, "{source: csv, file: rows.csv, task: values, batch: 16}",
          "linear 9, gelu, linear 5, gelu approximate tanh, linear 4, leaky-relu 0.2, linear 1",
          "mean-squared")
    compare(folder, rows, "rows.csv")
    compare_reading(folder, rows, "rows.csv", "")


def of_images(folder):
    """images: convolutions, pools, normalisation and residuals"""
    rows = images(folder, (2, 9, 8))
    train(folder, "{source: npy, x: x.npy, y: y.npy, batch: 20, test: 0.2}",
          "conv 8 3x3 stride 2x1 pad 1, batchnorm, relu, "
          "{residual: [conv 8 3x3 pad 1 groups 4, groupnorm 2, prelu by channel], "
          "shortcut: [conv 8 1x1 bias false]}, maxpool 3x2 stride 1 pad 1, "
          "{residual: [local 8 3x3 pad 1, tanh]}, avgpool 2 stride 2 pad 1, layernorm, "
          "{residual: [{residual: [conv 8 1x1, softmax]}, relu]}, conv 6 2x2, globalpool, linear 2",
          "mean-squared")
    compare(folder, rows, "x.npy")
    shutil.rmtree(os.path.join(folder, "runs"))
    train(folder, "{source: npy, x: x.npy, y: y.npy, batch: 20, test: 0.2, normalise: unit}",
          "flatten, linear 5, relu, linear 2", "mean-squared")
    compare(folder, rows, "x.npy")


DAYS = ["%04d-%02d-%02d", "%04d/%d/%d", "%04d.%02d.%02d"]
TIMES = ["", "T14:30", " 7:05:59", "T23:59:60.25Z", " 00:00:01 +02:00", "T12:00-0330", " 9:15+01"]


def messy(folder, name, rows, head, order):
    """Lines of cells that a careless person may have written."""
    draw = random.Random(11)

    def day(k):
        date = (1890 + 7 * k % 200, 1 + k % 12, 1 + k % 28)
        if k % 5 == 4:
            return "%02d.%02d.%04d" % date[::-1]
        return DAYS[k % 3] % date + TIMES[k % 7]

    with open(os.path.join(folder, name), "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(head)
        for k in range(rows):
            cells = {
                "size": draw.choice(["", "NA", "?", " 12 "]) if k % 4 == 1 else f"{draw.gauss(0, 9):.5g}",
                "colour": draw.choice(["red", " dark, blue", 'a "b"', "", "N/A", "-", "what?\\"]),
                "since": "null" if k % 9 == 8 else day(k),
                "until": f"{1 + k % 13 if k % 13 < 12 else 28}/{1 + k % 12}/{2000 + k % 30}",
                "big": f"{draw.gauss(0, 1):+.3e}",
                "id": f"row {k}",
            }
            cells["answer"] = f"{k % 7 + len(cells['colour']) / 3:.4f}"
            out.writerow([cells[c] for c in order])


def cells(folder):
    """cells of a table: words, dates and missing values, in any order and with other columns"""
    head = ["size", "colour", "since", "until", "big", "id", "answer"]
    for missing in ("indicator", "median"):
        shutil.rmtree(os.path.join(folder, "runs"), ignore_errors=True)
        messy(folder, "rows.csv", 200, head, head)
        train(folder, "{source: csv, file: rows.csv, batch: 16, missing: %s}" % missing,
              "linear 9, tanh, linear 1", "mean-squared")
        # words that are new, another order, and a column that the model does not know
        messy(folder, "new.csv", 300, ["until", "extra", "big", "since", "colour", "size"],
              ["until", "id", "big", "since", "colour", "size"])
        with open(os.path.join(folder, "new.csv"), "a") as f:
            f.write("03/04/2020,x,1,2000-02-29,purple,1e3\n 29/2/2024 ,x, -0.5 ,,,\n")
        thalweg("export", "runs/job", "--to", "model.c", "--force", cwd=folder)
        subprocess.run([CC, *FLAGS, "-DMODEL_MAIN", "-o", "model", "model.c", "-lm"], cwd=folder,
                       check=True)
        with open(os.path.join(folder, "new.csv")) as f:
            said = subprocess.run(["./model"], cwd=folder, stdin=f, capture_output=True, text=True)
        expect(said.returncode == 0, said.stderr)
        ours = [float(v) for v in said.stdout.split()]
        theirs = [float(r["output_0"]) for r in csv.DictReader(thalweg(
            "predict", "runs/job", "--data", "new.csv", "--raw", cwd=folder).splitlines())]
        expect(len(ours) == len(theirs) == 302, f"{len(ours)} rows, not {len(theirs)}")
        for k, (a, b) in enumerate(zip(ours, theirs)):
            expect(near(a, b), f"row {k + 1}: {a} in C, {b} by predict --raw")
    for line, sentence in (
            ("1,red,2024-02-30,1/2/2020,1", "'2024-02-30' is not what column since needs"),
            ("1,red,2024-02-03T25:00,1/2/2020,1", "is not what column since needs"),
            ("0x10,red,2024-02-03,1/2/2020,1", "'0x10' is not what column size needs"),
            ("1,red,2024-02-03,1/13/2020,1", "is not what column until needs"),
            ("1,red,2024-02-03,1/2/2020,1e99", "'1e99' is not what column big needs"),
            ("1,red,2024-02-03", "line 1: has 3 cells, not 5"),
            ("size,colour,since,until", "line 1: has no column big")):
        said = subprocess.run(["./model"], cwd=folder, input=line + "\n", capture_output=True, text=True)
        expect(said.returncode == 1 and sentence in said.stderr, f"{line}: {said.stderr}")
    shutil.rmtree(os.path.join(folder, "runs"))
    train(folder, "{source: csv, file: rows.csv, batch: 16, missing: drop, columns: [big, size]}",
          "linear 1", "mean-squared")
    thalweg("export", "runs/job", "--to", "model.c", "--force", cwd=folder)
    subprocess.run([CC, *FLAGS, "-DMODEL_MAIN", "-o", "model", "model.c", "-lm"], cwd=folder,
                   check=True)
    said = subprocess.run(["./model"], cwd=folder, input="NA,1\n", capture_output=True, text=True)
    expect(said.returncode == 1 and "'NA' is not what column size needs" in said.stderr, said.stderr)


def refusals(folder):
    """what cannot be written, and why"""
    flowers(folder, lambda k, r: "ab"[k % 2])
    train(folder, "{source: csv, file: rows.csv, batch: 16}", "linear 2", "cross-entropy")
    said = thalweg("export", "runs/job", "--to", "m.c", "--standalone", cwd=folder, code=2)
    expect("a C file always contains the normalisation; leave --standalone out" in said, said)
    thalweg("export", "runs/job", "--to", "m.c", cwd=folder)
    said = thalweg("export", "runs/job", "--to", "m.c", cwd=folder, code=2)
    expect("m.c exists already; --force overwrites it" in said, said)
    thalweg("export", "runs/job", "--to", "m.c", "--force", cwd=folder)
    first = open(os.path.join(folder, "m.c")).read()
    thalweg("export", "runs/job", "--to", "plain.safetensors", cwd=folder)
    thalweg("export", "plain.safetensors", "--to", "again.txt", "--format", "c", cwd=folder)
    expect(open(os.path.join(folder, "again.txt")).read() == first,
           "a run and its export give different files")
    thalweg("export", "runs/job", "--to", "alone.safetensors", "--standalone", cwd=folder)
    thalweg("export", "alone.safetensors", "--to", "alone.c", cwd=folder)
    subprocess.run([CC, *FLAGS, "-DMODEL_MAIN", "-o", "alone", "alone.c", "-lm"], cwd=folder,
                   check=True)
    subprocess.run([CC, *FLAGS, "-DMODEL_MAIN", "-o", "m", "m.c", "-lm"], cwd=folder, check=True)
    both = [subprocess.run([f"./{p}"], cwd=folder, input="1,480,0.001\n", capture_output=True,
                           text=True, check=True).stdout for p in ("m", "alone")]
    expect(all(near(float(a), float(b)) for a, b in zip(*(t.split(",") for t in both))), str(both))
    wrong = subprocess.run(["./m"], cwd=folder, input="1,2,3\n4,word,6\n", capture_output=True,
                           text=True)
    expect(wrong.returncode == 1 and "line 2: 'word' is not what column c\\d needs" in wrong.stderr,
           wrong.stderr)
    with open(os.path.join(folder, "made.yaml"), "w") as f:
        f.write("data: {source: none, samples: 200}\nmodel: {quadratic: {}}\n"
                "train: {epochs: 1}\nupdate: {rate: 0.1}\ncluster: {workers: 1}\n")
    thalweg("train", "made.yaml", cwd=folder)
    said = thalweg("export", "runs/made", "--to", "made.c", cwd=folder, code=2)
    expect(not os.path.exists(os.path.join(folder, "made.c")), "a file without a network")


CASES = [three_classes, two_classes, a_value, of_images, cells, refusals]


def main():
    if not CC:
        print("export_c_file: skipped: there is no C compiler (cc)", file=sys.stderr)
        sys.exit(77)
    failed = 0
    for case in CASES:
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
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
