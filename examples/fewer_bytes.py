#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fewer_bytes.py - what codecs and local steps save: the tables of docs/STRATEGIES.md.

    examples/fewer_bytes.py bytes          test accuracy against bytes, for each codec
    examples/fewer_bytes.py time           virtual time to an accuracy, with and without each part
    examples/fewer_bytes.py time --tune    try all settings of each row and print the best ones

Needs Python 3, a built thalweg and MNIST (thalweg data fetch mnist).  Every run is
examples/wan-mnist.yaml with other fields.  The simulator is deterministic: the same program prints
the same tables again on a machine with the same instruction set.
"""
import argparse
import concurrent.futures
import itertools
import json
import math
import os
import statistics
import string
import subprocess
import sys
import typing

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOB = os.path.join(ROOT, "examples", "wan-mnist.yaml")

SEEDS = (1, 2, 3)
TUNING_SEED = 4  # none of SEEDS: what is chosen with it is measured with others

# --- accuracy against bytes ---

EPOCHS = 3
RATE = 0.02  # the best one of asgd without a codec, in TIME
CODECS = (
    "fp32", "onebit",
    "threshold, up_tau: 0.0003", "threshold, up_tau: 0.001", "threshold, up_tau: 0.003",
    "threshold, up_tau: 0.01", "threshold, up_tau: 0.03",
    "threshold, up_tau: 0.03, up_coding: rice",
    "threshold, up_density: 0.1", "threshold, up_density: 0.01", "threshold, up_density: 0.001",
    "topk, up_share: 0.1", "topk, up_share: 0.01", "topk, up_share: 0.001",
)

# --- time to an accuracy ---

STEP = 0.02 * 1.0202  # mean seconds of a step: median 20 ms, log-normal with sigma 0.2
WORKERS, BATCH, SAMPLES = 16, 32, 60000
LOCAL = "push: 8, fetch: 8, merge: keep, local: {rule: sgd, rate: $local}"
UP, DOWN = "up: threshold, up_tau: $tau", "down: int8"



class Row(typing.NamedTuple):
    name: str
    strategy: str  # with $local and $tau
    tried: dict  # settings: all combinations of these
    best: dict  # the best of them
    more: tuple = ()  # other fields


LARGE = ("data.batch=128", "sim.compute.median=80ms", "update.rule=momentum")
ALONE = {"rate": (0.01, 0.02, 0.03, 0.05)}
SPARSE = {"rate": (0.02, 0.05, 0.1, 0.2), "tau": (0.003, 0.01, 0.03)}
STEPS = {"rate": (0.01, 0.02, 0.03, 0.05), "local": (0.2, 0.3, 0.5)}
BOTH = {"rate": (0.03, 0.05), "local": (0.2, 0.3), "tau": (0.02, 0.03, 0.04)}
EVERY = {"rate": (0.03, 0.1), "local": (0.1, 0.3), "tau": (0.001, 0.002, 0.004)}

TIME = (
    Row("`ssgd`", "ssgd", {"rate": (0.2, 0.3, 0.4, 0.5, 0.7)}, {"rate": 0.4}),
    Row("`ssgd`, momentum", "ssgd", {"rate": (0.05, 0.1, 0.15, 0.2)}, {"rate": 0.15},
        ("update.rule=momentum",)),
    Row("`ssgd`, momentum, batches of 128", "ssgd", {"rate": (0.1, 0.15, 0.2, 0.3)},
        {"rate": 0.15}, LARGE),
    Row("`asgd`", "asgd", ALONE, {"rate": 0.02}),
    Row("int8", "{name: asgd, codec: {%s}}" % DOWN, ALONE, {"rate": 0.02}),
    Row("threshold", "{name: asgd, codec: {%s}}" % UP, SPARSE, {"rate": 0.05, "tau": 0.01}),
    Row("local steps", "{name: asgd, %s}" % LOCAL, STEPS, {"rate": 0.03, "local": 0.3}),
    Row("threshold, int8", "{name: asgd, codec: {%s, %s}}" % (UP, DOWN), SPARSE,
        {"rate": 0.05, "tau": 0.01}),
    Row("int8, local steps", "{name: asgd, %s, codec: {%s}}" % (LOCAL, DOWN), STEPS,
        {"rate": 0.02, "local": 0.3}),
    Row("threshold, local steps", "{name: asgd, %s, codec: {%s}}" % (LOCAL, UP), BOTH,
        {"rate": 0.05, "local": 0.3, "tau": 0.03}),
    Row("all three", "{name: asgd, %s, codec: {%s, %s}}" % (LOCAL, UP, DOWN), BOTH,
        {"rate": 0.05, "local": 0.3, "tau": 0.03}),
    Row("all three, `push: 1`",
        "{name: asgd, %s, codec: {%s, %s}}" % (LOCAL.replace("push: 8", "push: 1"), UP, DOWN),
        EVERY, {"rate": 0.1, "local": 0.3, "tau": 0.002}),
    Row("all three, `overlap: true`",
        "{name: asgd, overlap: true, %s, codec: {%s, %s}}" % (LOCAL, UP, DOWN), BOTH,
        {"rate": 0.05, "local": 0.3, "tau": 0.04}),
)


def simulated(program, seed, fields):
    """The result of one run of JOB with other fields."""
    command = [program, "sim", JOB, "--json", "-q", "--threads", "1",
               "--set", f"train.seed={seed}"]
    for field in fields:
        command += ["--set", field]
    run = subprocess.run(command, text=True, capture_output=True, check=False)
    if run.returncode not in (0, 1):  # 1: training diverged
        sys.exit(f"fewer_bytes.py: {' '.join(command)}: {run.stderr.strip()}")
    result = json.loads(run.stdout)
    if result["seed"] != seed:
        sys.exit(f"fewer_bytes.py: {' '.join(command)}: ran with seed {result['seed']}")
    return result


def all_of(jobs, runs):
    """The results of all (program, seed, fields) of `runs`, in their order."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda run: simulated(*run), runs))


def by_seeds(asked, rows):
    """The results of each row of fields, with each of SEEDS."""
    results = all_of(asked.jobs, [(asked.thalweg, s, fields) for fields in rows for s in SEEDS])
    return [results[k:k + len(SEEDS)] for k in range(0, len(results), len(SEEDS))]


def megabytes(results, size):
    return f"{statistics.mean(map(size, results)) / 1e6:,.1f} MB"


def show_bytes(asked):
    rows = [[f"strategy={{name: asgd, codec: {{up: {codec}}}}}", f"update.rate={RATE}",
             f"train.epochs={EPOCHS}", "train.evaluate=0", "train.until.accuracy=none"]
            for codec in CODECS]
    print("| `codec: {up: ...}` | test accuracy, mean | least, largest | pushed | times less "
          "than `fp32` | sent in all | virtual seconds |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for codec, results in zip(CODECS, by_seeds(asked, rows)):
        right = [r["accuracy"] for r in results]
        raw, encoded = (sum(r["codec"]["up"][k] for r in results) for k in ("raw", "encoded"))
        print(f"| `{codec}` | {statistics.mean(right):.4f} | {min(right):.4f}, {max(right):.4f} | "
              f"{megabytes(results, lambda r: r['codec']['up']['encoded'])} | "
              f"{raw / encoded:{'.0f' if raw >= 10 * encoded else '.1f'}} | "
              f"{megabytes(results, lambda r: r['bytes_sent'])} | "
              f"{statistics.mean(r['virtual_seconds'] for r in results):.0f} |")


def fields_of(row, setting):
    strategy = string.Template(row.strategy).safe_substitute(setting)
    return [f"strategy={strategy}", f"update.rate={setting['rate']}", *row.more]


def seconds(result):
    """Virtual seconds until the accuracy was reached; infinite if it never was."""
    goal = result["goal"]
    return goal["seconds"] if goal["reached"] else math.inf


def computing(results):
    """The share of those seconds in which a worker computed, on average."""
    steps = statistics.mean(r["goal"]["epochs"] for r in results) * SAMPLES / BATCH
    return steps * STEP / WORKERS / statistics.mean(map(seconds, results))


def show_time(asked):
    first = None
    print("| | settings | virtual seconds, mean | least, largest | of `ssgd` | epochs | sent | "
          "computing |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row, results in zip(TIME, by_seeds(asked, [fields_of(row, row.best) for row in TIME])):
        times = [seconds(r) for r in results]
        mean = statistics.mean(times)
        first = first or mean
        setting = ", ".join(f"{key} {value:g}" for key, value in row.best.items())
        if math.isinf(mean):
            never = sum(map(math.isinf, times))
            print(f"| {row.name} | {setting} | not reached with {never} of {len(SEEDS)} seeds | "
                  "| | | | |")
            continue
        print(f"| {row.name} | {setting} | {mean:.1f} | {min(times):.1f}, {max(times):.1f} | "
              f"{mean / first:.3f} | {statistics.mean(r['goal']['epochs'] for r in results):.1f} | "
              f"{megabytes(results, lambda r: r['bytes_sent'])} | {computing(results):.0%} |")


def tune(asked):
    for row in TIME:
        values = itertools.product(*row.tried.values())
        settings = [dict(zip(row.tried, value)) for value in values]
        results = all_of(asked.jobs, [(asked.thalweg, TUNING_SEED, fields_of(row, setting))
                                      for setting in settings])
        for setting, result in zip(settings, results):
            print(f"{row.name}: {setting}: {seconds(result):.1f} s")
        best = settings[min(range(len(settings)), key=lambda k: seconds(results[k]))]
        note = "" if best == row.best else f" (the table has {row.best})"
        print(f"{row.name}: the best is {best}{note}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="What codecs and local steps save on MNIST.")
    parser.add_argument("table", choices=("bytes", "time"))
    parser.add_argument("--thalweg", default=os.path.join(ROOT, "build", "thalweg"),
                        metavar="PROGRAM", help="the program to run (default: build/thalweg)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                        help="runs at the same time (default: the number of cores)")
    parser.add_argument("--tune", action="store_true",
                        help="time: try all settings, print the best ones, make no table")
    asked = parser.parse_args()
    if not os.access(asked.thalweg, os.X_OK):
        sys.exit(f"fewer_bytes.py: there is no program {asked.thalweg}; run ./demo first, "
                 "or give --thalweg PROGRAM")
    if asked.table == "bytes":
        show_bytes(asked)
    elif asked.tune:
        tune(asked)
    else:
        show_time(asked)


if __name__ == "__main__":
    main()
