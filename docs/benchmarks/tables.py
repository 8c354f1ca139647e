#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the tables of README.md and docs/BENCHMARKS.md from saved runs of `thalweg bench`.

    thalweg bench WHAT --repeat 3 --save docs/benchmarks/runs.jsonl
    thalweg bench WHAT --repeat 3 --save docs/benchmarks/runs.jsonl --isa avx2
    docs/benchmarks/tables.py                 writes the tables
    docs/benchmarks/tables.py --check         says which ones are not as it would write them
    docs/benchmarks/tables.py --self-test

A run is a line of runs.jsonl.  Its instruction set says to which column it belongs; of a case that
several runs have, the table shows the lowest and the highest figure.  To measure again, remove the
old lines of that bench.  Where no run of a column has a case, its figure comes from earlier.jsonl:
the lowest and the highest one of runs that were not saved.  A table stands between `<!-- tables.py NAME -->` and `<!-- tables.py -->`.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGES = ["README.md", "docs/BENCHMARKS.md"]
COLUMNS = {"avx512": "AVX-512", "avx2": "AVX2"}
NONE = "not measured"


class Wrong(Exception):
    pass


# --- figures ---------------------------------------------------------------------------------

def digits(x):
    """Three digits, and no exponent."""
    if x == 0:
        return "0"
    text = f"{x:.3g}"
    return f"{float(text):,.0f}" if "e" in text else text


def scaled(x, units):
    for size, unit in units:
        if x >= size:
            return f"{digits(x / size)} {unit}"
    size, unit = units[-1]
    return f"{digits(x / size)} {unit}"


def seconds(x):
    return scaled(x, [(1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")])


def memory(x):
    return scaled(x, [(1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "bytes")])


def number(x):
    return scaled(x, [(1e6, "million"), (1, "")]).strip()


def ratio(x):
    return f"{x:.2f}"


def spread(values, show):
    """The lowest and the highest, once if they look alike."""
    if not values:
        return NONE
    low, high = show(min(values)), show(max(values))
    if low == high:
        return low
    a, b = low.split(" ", 1), high.split(" ", 1)
    if len(a) == 2 and a[1:] == b[1:]:  # the unit once
        return f"{a[0]} to {high}"
    return f"{low} to {high}"


# --- rows: what people call it, case, field, form, text around it, command -----------------------

TIMES_TORCH = "{} times PyTorch's speed"


def step(name):
    return f"training step of {name}"


README = [
    (step("an MLP 784-512-512-10, batch 64"), "compute-mlp", "ratio", ratio, TIMES_TORCH,
     "compute"),
    (step("an MLP 784-2048-2048-2048-10, batch 128"), "compute-mlp-large", "ratio", ratio,
     TIMES_TORCH, "compute"),
    (step("LeNet, batch 64"), "compute-lenet", "ratio", ratio, TIMES_TORCH, "compute"),
    ("two asynchronous threads against one loop without exchange", "scale-2", "ratio", ratio,
     "{} times the samples", "scale"),
    ("two processes that add up gradients without a server, an MLP as above", "allreduce-ddp",
     "ratio", ratio, "{} times PyTorch's DDP over Gloo", "allreduce"),
    ("two stages of a pipeline in two processes against one worker", "pipeline-two-processes",
     "ratio", ratio, "{} times the samples", "pipeline --world tcp"),
    ("one iteration of L-BFGS on 14.6 million parameters", "lbfgs-iteration", "ratio", ratio,
     "{} times the passes of the textbook", "optimiser"),
    ("simulator with 1,000 workers", "sim-events", "value", number, "{} events a second", "sim"),
    ("simulator with 300,000 workers", "growth-workers-300000", "bytes", memory, "{} of memory",
     "growth"),
]

STEP = [
    ("MLP 784-512-512-10, batch 64", "compute-mlp", "ratio", ratio, "{}", "compute"),
    ("MLP 784-128-10, batch 32", "compute-mlp-small", "ratio", ratio, "{}", "compute"),
    ("MLP 784-2048-2048-2048-10, batch 128", "compute-mlp-large", "ratio", ratio, "{}", "compute"),
    ("LeNet, batch 64", "compute-lenet", "ratio", ratio, "{}", "compute"),
    ("resnet20 on 3x32x32, batch 64", "compute-resnet20", "ratio", ratio, "{}", "compute"),
    ("first MLP, share of the core's peak, median", "compute-mlp-peak", "value", ratio, "{}",
     "compute"),
    ("first MLP, share of the core's peak, quickest step", "compute-mlp-peak-best", "value",
     ratio, "{}", "compute"),
]

FLOORS = [
    ("two asynchronous threads, times the samples of one loop without exchange", "scale-2",
     "ratio", ratio, "{}", "scale"),
    ("the same, times PyTorch's DDP over Gloo with two processes", "scale-ddp", "ratio", ratio,
     "{}", "scale"),
    ("push, apply and pull in threads, times one SGD pass plus one memcpy", "exchange-1", "ratio",
     ratio, "{}", "exchange"),
    ("two workers exchange, times as often as one", "exchange-2", "ratio", ratio, "{}",
     "exchange"),
    ("two threads without a server, times the passes over memory", "allreduce-threads", "ratio",
     ratio, "{}", "allreduce"),
    ("two processes without a server, times Gloo's all-reduce", "allreduce-pair", "ratio", ratio,
     "{}", "allreduce"),
    ("the same over loopback TCP", "allreduce-tcp", "ratio", ratio, "{}", "allreduce"),
    ("MLP 784-512-512-10 in two processes, times PyTorch's DDP", "allreduce-ddp", "ratio", ratio,
     "{}", "allreduce"),
    ("`lbfgs`, history 10, times the passes of the textbook", "lbfgs-iteration", "ratio", ratio,
     "{}", "optimiser"),
    ("`gd`, the same", "gd-iteration", "ratio", ratio, "{}", "optimiser"),
    ("`cg`, the same", "cg-iteration", "ratio", ratio, "{}", "optimiser"),
    ("500 workers that push as often as they can: CPU of an update, times that with 10",
     "connections-cpu-flat-out", "ratio", ratio, "{}", "connections"),
    ("500 workers, 2,000 pushes a second in all: the same", "connections-cpu", "ratio", ratio,
     "{}", "connections"),
    ("2,000 workers, 2,000 pushes a second in all: the same", "connections-2000-cpu", "ratio",
     ratio, "{}", "connections"),
    ("500 worker processes on one server: memory of a connection", "connections-memory", "value",
     memory, "{}", "connections"),
    ("simulator, events a second with 1,000 workers", "sim-events", "value", number, "{}", "sim"),
    ("simulator, 10,000 workers of 10,000 parameters", "sim-memory", "value", memory, "{}", "sim"),
    ("65,535 shards, times the events a second of 64", "sim-shards", "ratio", ratio, "{}", "sim"),
    ("100,000 workers, times the events a second of 1,000: `asgd`", "sim-crowd-asgd", "ratio",
     ratio, "{}", "sim"),
    ("the same: `ssp`", "sim-crowd-ssp", "ratio", ratio, "{}", "sim"),
    ("the same: `softsync`", "sim-crowd-softsync", "ratio", ratio, "{}", "sim"),
    ("the same: `ssgd`", "sim-crowd-ssgd", "ratio", ratio, "{}", "sim"),
]


# --- tables ----------------------------------------------------------------------------------

def of_column(runs, column, case, field):
    for earlier in (False, True):
        found = []
        for run in runs:
            if run["isa"] != column or run.get("earlier", False) != earlier:
                continue
            for c in run["cases"]:
                if c["name"] == case and isinstance(c.get(field), (int, float)):
                    found.append(c[field])
        if found:
            return found
    return []


def cell(runs, column, case, field, show, text):
    values = of_column(runs, column, case, field)
    return text.format(spread(values, show)) if values else NONE


def lines(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def figures(runs, rows):
    made = []
    for what, case, field, show, text, command in rows:
        cells = [cell(runs, c, case, field, show, text) for c in COLUMNS]
        made.append([what, *cells, f"`thalweg bench {command}`"])
    return lines(["what", *COLUMNS.values(), "command"], made)


def size_of(case):
    """A case of growth: what it counts, and how many."""
    for field in ("workers", "parameters"):
        if case["name"].startswith(f"growth-{field}-"):
            return field, case[field]
    return None


def growth(runs):
    sizes = {}
    for run in runs:
        for c in run["cases"]:
            if size_of(c):
                sizes[c["name"]] = size_of(c)
    made = []
    for name, (what, n) in sorted(sizes.items(), key=lambda s: (s[1][0] != "workers", s[1][1])):
        each = "bytes_per_" + what[:-1]
        every = [x for c in COLUMNS for x in of_column(runs, c, name, "bytes")]
        some = [x for c in COLUMNS for x in of_column(runs, c, name, each)]
        made.append([f"{n:,.0f} {what}",
                     "an event" if what == "workers" else "a step",
                     *(cell(runs, c, name, "value", seconds, "{}") for c in COLUMNS),
                     spread(every, memory), spread(some, memory)])
    if not made:
        raise Wrong("no run is of `thalweg bench growth`")
    return lines(["size", "time of", *COLUMNS.values(), "memory", "memory of each"], made)


def machines(runs):
    made = []
    for column, name in COLUMNS.items():
        mine = [r for r in runs if r["isa"] == column and not r.get("earlier")]
        if not mine:
            continue
        days = sorted(r["measured"][:10] for r in mine if "measured" in r) or ["not noted"]
        cpus = sorted({f"{r['cores']} cores, {r['cpu']}" for r in mine})
        made.append([name, "; ".join(cpus), str(len(mine)),
                     days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"])
    return lines(["column", "machine", "runs", "measured"], made)


TABLES = {
    "readme": lambda runs: figures(runs, README),
    "machines": machines,
    "step": lambda runs: figures(runs, STEP),
    "floors": lambda runs: figures(runs, FLOORS),
    "growth": growth,
}


# --- files -----------------------------------------------------------------------------------

def read_runs(path):
    runs = []
    for number_, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            run = json.loads(line)
            if run["isa"] not in COLUMNS:
                raise Wrong(f"{path}:{number_}: isa is {run['isa']}, and there are columns for "
                            + " and ".join(COLUMNS))
            if not all(isinstance(c["name"], str) for c in run["cases"]):
                raise KeyError("name")
            run["cpu"], run["cores"]
        except (ValueError, KeyError, TypeError) as e:
            raise Wrong(f"{path}:{number_}: is not a run of `thalweg bench --save`") from e
        runs.append(run)
    return runs


TABLE = re.compile(r"(<!-- tables\.py (\w+) -->\n)(.*?)(<!-- tables\.py -->\n)", re.S)


def rewrite(text, runs, page):
    def one(match):
        if match[2] not in TABLES:
            raise Wrong(f"{page}: there is no table '{match[2]}'; use " + ", ".join(TABLES))
        return match[1] + "".join(line + "\n" for line in TABLES[match[2]](runs)) + match[4]
    return TABLE.sub(one, text)


def main(check):
    runs = read_runs(HERE / "runs.jsonl")
    runs += [{**run, "earlier": True} for run in read_runs(HERE / "earlier.jsonl")]
    stale = 0
    for name in PAGES:
        page = ROOT / name
        before = page.read_text(encoding="utf-8")
        after = rewrite(before, runs, name)
        if check and after != before:
            print(f"{name}: a table is not what docs/benchmarks/tables.py makes of the saved runs")
            stale += 1
        elif not check:
            page.write_text(after, encoding="utf-8")
    return 1 if stale else 0


# --- self-test -------------------------------------------------------------------------------

def self_test():
    def run(isa, *cases):
        return {"isa": isa, "cpu": "X", "cores": 2, "measured": "2026-01-02T03:04:05Z",
                "cases": list(cases)}

    def same(got, wanted):
        assert got == wanted, f"{got!r} is not {wanted!r}"

    runs = [run("avx2", {"name": "a", "value": 2.0, "ratio": 1.5}),
            run("avx2", {"name": "a", "value": 3.0, "ratio": None}),
            run("avx512", {"name": "b", "value": 1.0}),
            run("avx512", {"name": "growth-workers-100", "value": 2e-6, "workers": 100,
                           "bytes": 5e6, "bytes_per_worker": 5e4})]
    same(of_column(runs, "avx2", "a", "value"), [2.0, 3.0])
    same(of_column(runs, "avx2", "a", "ratio"), [1.5])  # null is none
    same(list(figures(runs, [("x", "a", "value", ratio, "{} times", "sim")])),
         ["| what | AVX-512 | AVX2 | command |", "| --- | --- | --- | --- |",
          "| x | not measured | 2.00 to 3.00 times | `thalweg bench sim` |"])
    same(list(growth(runs))[2], "| 100 workers | an event | 2 µs | not measured | 5 MB | 50 KB |")
    same(list(machines(runs))[2:], ["| AVX-512 | 2 cores, X | 2 | 2026-01-02 |",
                                    "| AVX2 | 2 cores, X | 2 | 2026-01-02 |"])
    same([seconds(1.5e-3), memory(12_700), number(1.2e6), digits(123456)],
         ["1.5 ms", "12.7 KB", "1.2 million", "123,000"])
    old = [{**run("avx512", {"name": "a", "value": 9.0}, {"name": "b", "value": 9.0}),
            "earlier": True}]
    same(of_column(runs + old, "avx512", "a", "value"), [9.0])
    same(of_column(runs + old, "avx512", "b", "value"), [1.0])  # a saved run has it
    same(spread([1e6, 2e6], memory), "1 to 2 MB")
    same(spread([5e5, 2e6], memory), "500 KB to 2 MB")
    page = "a\n<!-- tables.py machines -->\nold\n<!-- tables.py -->\nb\n"
    new = rewrite(page, runs, "p")
    assert "old" not in new and new.startswith("a\n<!--") and new.endswith("-->\nb\n")
    same(rewrite(new, runs, "p"), new)
    for text, said in (("<!-- tables.py nothing -->\n<!-- tables.py -->\n", "no table 'nothing'"),):
        try:
            rewrite(text, runs, "p")
        except Wrong as e:
            assert said in str(e)
        else:
            raise AssertionError("it was not refused")
    print("tables.py: self-test passed")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"], ["--self-test"]):
        print(__doc__.strip(), file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else main(sys.argv[1:] == ["--check"]))
    except (Wrong, OSError) as wrong:
        print(f"tables.py: {wrong}", file=sys.stderr)
        sys.exit(2)
