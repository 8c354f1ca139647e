#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""student.py - means, deviations and paired 95 % intervals of thalweg compare against SciPy.

    test/scipy/student.py [BINARY]    default: build/thalweg, or the one below TW_BUILD

Compares three methods on a noisy quadratic with 2, 3, 5, 8 and 20 seeds, and computes every summary
and interval of report.json again from its runs.  Exit code 1 if one differs."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from scipy import stats

JOB = """\
model:   {quadratic: {dimension: 10, curvature: [0.1, 1], noise: 0.3, start: 1}}
data:    {source: none, samples: 64, batch: 1}
train:   {epochs: 2, seed: 5}
cluster: {workers: 4}
"""


def report(program, seeds):
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.yaml")
        with open(job, "w", encoding="utf-8") as f:
            f.write(JOB)
        subprocess.run([program, "compare", job, "--vary", "strategy=ssgd,asgd,dana", "--seeds", str(seeds),
                        "--run", os.path.join(folder, "run"), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "run", "report.json"), encoding="utf-8") as f:
            return json.load(f)


def near(said, true, what):
    if not abs(said - true) <= 1e-6 * max(abs(true), 1e-9):
        sys.exit(f"student.py: {what}: {said} is not {true}")


def check(r):
    values = {row["label"]: np.array([x["values"]["loss"] for x in row["runs"]]) for row in r["rows"]}
    intervals = 0
    for row in r["rows"]:
        own = values[row["label"]]
        near(row["summary"]["loss"]["mean"], own.mean(), "mean of " + row["label"])
        near(row["summary"]["loss"]["deviation"], own.std(ddof=1), "deviation of " + row["label"])
        for name in ("against_best", "against_baseline"):
            said = row[name]
            if said is None:
                continue
            d = own - values[said["row"]]
            low, high = stats.t.interval(0.95, len(d) - 1, loc=d.mean(), scale=stats.sem(d))
            near(said["difference"], d.mean(), f"difference of {row['label']}")
            near(said["half"], (high - low) / 2, f"interval of {row['label']}")
            open_ = low <= 0 <= high
            wanted = "not resolved" if open_ else "worse" if d.mean() > 0 else "better"
            if said["verdict"] != wanted:
                sys.exit(f"student.py: {row['label']}: {said['verdict']} is not {wanted}")
            # the same question asked in another way
            assert open_ == (stats.ttest_rel(own, values[said["row"]]).pvalue >= 0.05)
            intervals += 1
    return intervals


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ.get("TW_BUILD", "build"), "thalweg")
    for seeds in (2, 3, 5, 8, 20):
        print(f"{seeds} seeds: {check(report(program, seeds))} intervals are those of SciPy")


if __name__ == "__main__":
    main()
