#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""without_server.py - strom, gossip and d-psgd on MNIST: the tables of docs/STRATEGIES.md.

    examples/without_server.py time          virtual time of strom and ssgd to an accuracy
    examples/without_server.py warm          strom's first epoch, with and without a warm start
    examples/without_server.py slow          two slow workers among 16: who waits for them
    examples/without_server.py TABLE --tune  time, slow: try all settings, print the best ones

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
import subprocess
import sys
import tempfile

from fewer_bytes import JOB, ROOT, SEEDS, TUNING_SEED, computing, megabytes, seconds

NEVER = "none"  # no warm start


def strom(tau, warm):
    alone = "{workers: 0, for: 0 epochs}" if warm == NEVER else f"{{workers: 1, for: {warm}}}"
    return {"strategy": f"{{name: strom, codec: {{up_tau: {tau}}}}}", "train.warm": alone}


# --- time: 100 Mbit/s and 50 ms ---

TIME = {
    "`ssgd`": ({"rate": (0.2, 0.3, 0.4, 0.5, 0.7)}, {"rate": 0.4}),
    "`strom`": ({"rate": (0.007, 0.01, 0.014), "tau": (0.06, 0.1),
                 "warm": (NEVER, "0.02 epochs")},
                {"rate": 0.014, "tau": 0.1, "warm": "0.02 epochs"}),
}

# --- warm: two epochs, so that none of WHEN is the end of the run ---

WARM_TAU = 0.06
LINKS = {"50 ms": {}, "1 ms": {"sim.latency": "1ms", "sim.bandwidth": "1Gbit/s"}}
WARM_RATES = (("50 ms", 0.01), ("1 ms", 0.03), ("1 ms", 0.06))
WARM_FOR = (NEVER, "0.1 epochs", "0.1 epochs, release: gradual")
WHEN = (0.1, 0.2, 0.5, 1.0)

# --- slow: 1 Gbit/s and 1 ms, the last two workers 8 times slower ---

EPOCHS = 3
RATES = (0.1, 0.2, 0.4, 0.8)
SLOW = {"ssgd": 0.4, "allreduce": 0.4, "d-psgd": 0.4, "gossip": 0.4}


def fields_of_time(name, setting):
    more = {"strategy": "ssgd"} if name == "`ssgd`" else strom(setting["tau"], setting["warm"])
    return {"update.rate": setting["rate"], "train.epochs": 10} | more


def fields_of_warm(links, rate, warm):
    return {"update.rate": rate, "train.epochs": 2, "train.until.accuracy": "none",
            } | LINKS[links] | strom(WARM_TAU, warm)


def fields_of_slow(strategy, rate):
    return {"strategy": strategy, "update.rate": rate, "train.epochs": EPOCHS,
            "train.evaluate": 0, "train.until.accuracy": "none",
            "sim.stragglers": "{count: 2, slower: 8}"} | LINKS["1 ms"]


def simulated(program, seed, fields):
    """The result of one run of JOB with other fields, and its evaluations."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        command = [program, "sim", JOB, "--json", "-q", "--threads", "1", "--log", log,
                   "--set", f"train.seed={seed}"]
        for field, value in fields.items():
            command += ["--set", f"{field}={value}"]
        run = subprocess.run(command, text=True, capture_output=True, check=False)
        if run.returncode not in (0, 1):  # 1: training diverged
            sys.exit(f"without_server.py: {' '.join(command)}: {run.stderr.strip()}")
        result = json.loads(run.stdout)
        with open(log, encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines]
    result["evaluations"] = [event for event in events if event["event"] == "evaluation"]
    return result


def all_of(asked, runs):
    """The results of all (seed, fields) of `runs`, in their order."""
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        return list(pool.map(lambda run: simulated(asked.thalweg, *run), runs))


def by_seeds(asked, rows):
    """The results of each row of fields, with each of SEEDS."""
    results = all_of(asked, [(seed, fields) for fields in rows for seed in SEEDS])
    return [results[k:k + len(SEEDS)] for k in range(0, len(results), len(SEEDS))]


def mean_and_range(values, form):
    return (f"{statistics.mean(values):{form}} | "
            f"{min(values):{form}}, {max(values):{form}}")


def show_time(asked):
    first = None
    print("| | settings | virtual seconds, mean | least, largest | of `ssgd` | epochs | sent | "
          "computing |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = [(name, best) for name, (_, best) in TIME.items()]
    if TIME["`strom`"][1]["warm"] != NEVER:
        rows.append(("`strom`", TIME["`strom`"][1] | {"warm": NEVER}))
    found = by_seeds(asked, [fields_of_time(*row) for row in rows])
    for (name, best), results in zip(rows, found):
        times = [seconds(r) for r in results]
        mean = statistics.mean(times)
        first = first or mean
        setting = ", ".join(f"{key} {value}" for key, value in best.items())
        if math.isinf(mean):
            print(f"| {name} | {setting} | not reached with "
                  f"{sum(map(math.isinf, times))} of {len(SEEDS)} seeds | | | | | |")
            continue
        print(f"| {name} | {setting} | {mean_and_range(times, '.1f')} | {mean / first:.3f} | "
              f"{statistics.mean(r['goal']['epochs'] for r in results):.1f} | "
              f"{megabytes(results, lambda r: r['bytes_sent'])} | {computing(results):.0%} |")


def at(result, epochs):
    """The evaluation that is nearest to this many epochs."""
    return min(result["evaluations"], key=lambda e: abs(e["epochs"] - epochs))


def show_warm(asked):
    rows = [(*row, warm) for row in WARM_RATES for warm in WARM_FOR]
    print("| latency | rate | warm start | " + " | ".join(f"{when:g}" for when in WHEN) +
          " (epochs) | virtual seconds | mean staleness |\n" + "| --- " * (5 + len(WHEN)) + "|")
    for (links, rate, warm), results in zip(rows, by_seeds(asked,
                                                           [fields_of_warm(*r) for r in rows])):
        cells = []
        for when in WHEN:
            right = [at(r, when)["accuracy"] for r in results]
            cells.append(f"{statistics.mean(right):.3f} ({min(right):.3f}, {max(right):.3f})")
        time = statistics.mean(at(r, WHEN[-1])["time"] for r in results)
        print(f"| {links} | {rate} | {warm} | " + " | ".join(cells) + f" | {time:.1f} | "
              f"{statistics.mean(r['staleness']['mean'] for r in results):.0f} |")


def show_slow(asked):
    print("| | rate | test accuracy, mean | least, largest | virtual seconds | sent |\n" +
          "| --- " * 6 + "|")
    found = by_seeds(asked, [fields_of_slow(*row) for row in SLOW.items()])
    for (name, rate), results in zip(SLOW.items(), found):
        print(f"| `{name}` | {rate} | "
              f"{mean_and_range([r['accuracy'] for r in results], '.4f')} | "
              f"{statistics.mean(r['virtual_seconds'] for r in results):.1f} | "
              f"{megabytes(results, lambda r: r['bytes_sent'])} |")


def best_of(name, settings, scores, chosen):
    """Print all scores, where less is better, and the best setting."""
    for setting, score in zip(settings, scores):
        print(f"{name}: {setting}: {score:.4g}")
    best = settings[min(range(len(settings)), key=lambda k: scores[k])]
    note = "" if best == chosen else f" (the table has {chosen})"
    print(f"{name}: the best is {best}{note}", flush=True)


def tune_time(asked):
    for name, (tried, chosen) in TIME.items():
        settings = [dict(zip(tried, values)) for values in itertools.product(*tried.values())]
        results = all_of(asked, [(TUNING_SEED, fields_of_time(name, s)) for s in settings])
        best_of(name, settings, [seconds(r) for r in results], chosen)


def tune_slow(asked):
    for name, chosen in SLOW.items():
        results = all_of(asked, [(TUNING_SEED, fields_of_slow(name, rate)) for rate in RATES])
        best_of(name, RATES, [1 - (r["accuracy"] or 0) for r in results], chosen)


def main():
    parser = argparse.ArgumentParser(description="Strategies without a server on MNIST.")
    parser.add_argument("table", choices=("time", "warm", "slow"))
    parser.add_argument("--thalweg", default=os.path.join(ROOT, "build", "thalweg"),
                        metavar="PROGRAM", help="the program to run (default: build/thalweg)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                        help="runs at the same time (default: the number of cores)")
    parser.add_argument("--tune", action="store_true",
                        help="time, slow: try all settings, print the best ones, make no table")
    asked = parser.parse_args()
    if not os.access(asked.thalweg, os.X_OK):
        sys.exit(f"without_server.py: there is no program {asked.thalweg}; run ./demo first, "
                 "or give --thalweg PROGRAM")
    if asked.tune and asked.table == "warm":
        parser.error("warm has nothing to tune")
    show = {"time": show_time, "warm": show_warm, "slow": show_slow}
    tune = {"time": tune_time, "slow": tune_slow}
    (tune if asked.tune else show)[asked.table](asked)


if __name__ == "__main__":
    main()
