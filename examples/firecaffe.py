#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""firecaffe.py - the time of a round against the number of workers, with and without a server.

    examples/firecaffe.py                          write firecaffe.svg and print a table
    examples/firecaffe.py --to docs/firecaffe.svg  write the picture of docs/STRATEGIES.md

Lines are what thalweg plan predicts, marks are what thalweg sim measures.  Needs Python 3, a built
thalweg and 4 GB of memory (64 simulated workers with 10 MB of parameters each).  All times are
virtual: they do not depend on the machine.
"""
import argparse
import json
import math
import os
import subprocess
import sys

from curves import ROOT, marker, spread

WORKERS = (2, 4, 8, 16, 32, 64)
ROUNDS = 2  # between the end of a short run and the end of a long one
JOB = """\
model:      {quadratic: {dimension: 2500000}}
data:       {source: none, samples: 1024, batch: 1}
train:      {seed: 1}
update:     {rate: 0.01}
checkpoint: {every: 0s}
sim:        {compute: {law: constant, mean: 1ms}, latency: 100us, bandwidth: 1Gbit/s}
"""

# strategy, label, colour, dashes, marker
SERIES = (
    ("ssgd", "one server", "#4d4d4d", "", "square"),
    ("tree", "tree", "#00705a", "9 4", "triangle"),
    ("allreduce", "allreduce", "#0060a8", "", "diamond"),
    ("ring", "ring", "#c43c00", "7 9", "circle"),  # the same times: its dashes let allreduce show
)

WIDTH, HEIGHT = 760, 460
LEFT, RIGHT, TOP, BOTTOM = 78, 150, 66, 56
LOW, HIGH = 0.05, 15.0  # seconds at the bottom and at the top of the plot


def answer(program, verb, strategy, workers, *more):
    """What the program says as JSON about JOB with this strategy and number of workers."""
    command = [program, verb, "-", "--json", "-q", "--set", f"strategy={strategy}",
               "--set", f"cluster.workers={workers}", *more]
    run = subprocess.run(command, input=JOB, text=True, capture_output=True, check=False)
    if run.returncode != 0:
        sys.exit(f"firecaffe.py: {' '.join(command)}: {run.stderr.strip()}")
    return json.loads(run.stdout)


def predicted(program, strategy, workers):
    """Seconds of a round, by thalweg plan."""
    return answer(program, "plan", strategy, workers)["rows"][0]["step_seconds"]


def measured(program, strategy, workers):
    """Virtual seconds of a round: the start and the end of a run are in both and cancel out."""
    short, long = (answer(program, "sim", strategy, workers,
                          "--set", f"train.steps={rounds * workers}")["virtual_seconds"]
                   for rounds in (1, 1 + ROUNDS))
    return (long - short) / ROUNDS


def across(workers):
    share = math.log2(workers / WORKERS[0]) / math.log2(WORKERS[-1] / WORKERS[0])
    return LEFT + 24 + (WIDTH - LEFT - RIGHT - 48) * share


def down(seconds):
    share = math.log(HIGH / seconds) / math.log(HIGH / LOW)
    return TOP + (HEIGHT - TOP - BOTTOM) * share


def axes():
    out = []
    floor, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    for seconds in (0.1, 0.2, 0.5, 1, 2, 5, 10):
        y = down(seconds)
        out.append(f'<path d="M{LEFT} {y:.1f}H{end}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{seconds:g}</text>')
    for workers in WORKERS:
        x = across(workers)
        out.append(f'<path d="M{x:.1f} {floor}v5" stroke="#444"/>')
        out.append(f'<text x="{x:.1f}" y="{floor + 19}" text-anchor="middle">{workers}</text>')
    out.append(f'<path d="M{LEFT} {TOP}V{floor}H{end}" fill="none" stroke="#444"/>')
    out.append(f'<text x="{(LEFT + end) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">'
               "workers (logarithmic)</text>")
    out.append(f'<text transform="translate(22 {(TOP + floor) / 2:.0f}) rotate(-90)" '
               'text-anchor="middle">seconds of a round (logarithmic)</text>')
    return out


def points_of(times):
    return [(across(workers), down(seconds)) for workers, seconds in zip(WORKERS, times)]


def series(k, plan, sim, height):
    """Strategy k: the line of `plan`, the marks of `sim`, and its name at `height` to the right."""
    strategy, label, colour, dashes, kind = SERIES[k]
    end = WIDTH - RIGHT
    line, marks = (" ".join(f"{x:.1f},{y:.1f}" for x, y in points_of(times))
                   for times in (plan, sim))
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    x, y = points_of(plan)[-1]
    return [f'<g class="series" id="{strategy}" data-marks="{marks}">',
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-linejoin="round"{dash}/>',
            *(marker(kind, *point, colour) for point in points_of(sim)),
            f'<path d="M{x + 9:.1f} {y:.1f}L{end + 10} {height:.1f}h6" fill="none" '
            f'stroke="{colour}" stroke-width="0.8"/>',
            marker(kind, end + 25, height, colour),
            f'<text x="{end + 37}" y="{height + 4.5:.1f}" fill="{colour}" font-weight="600">'
            f"{label}</text>", "</g>"]


def picture(plans, sims):
    """The whole SVG; `plans` and `sims` have the seconds of each of SERIES, for each of WORKERS."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'width="{WIDTH}" height="{HEIGHT}" font-size="13" fill="#222" '
           'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" '
           'role="img" aria-labelledby="t d">',
           '<title id="t">Time of a round against the number of workers</title>',
           '<desc id="d">With one server it grows with the number of workers, along a tree with '
           "its logarithm; with ring and allreduce it stays almost the same.</desc>",
           f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff" stroke="#ccc"/>',
           f'<text x="{LEFT}" y="28" font-size="16" font-weight="600">'
           "A round with one server and without a server</text>",
           f'<text x="{LEFT}" y="48" fill="#555">10 MB of parameters, 1 Gbit/s, 100 µs; '
           "lines: predicted by plan, marks: measured by sim</text>"]
    out += axes()
    heights = spread([down(plan[-1]) for plan in plans], 19)
    for k, (plan, sim, height) in enumerate(zip(plans, sims, heights)):
        out += series(k, plan, sim, height)
    return "\n".join(out + ["</svg>"]) + "\n"


def show(plans, sims):
    print("| N | " + " | ".join(label for _, label, *_ in SERIES) + " |\n| --- " +
          "| --- " * len(SERIES) + "|")
    for k, workers in enumerate(WORKERS):
        cells = (f"{1000 * plan[k]:,.0f}, {1000 * sim[k]:,.0f}" for plan, sim in zip(plans, sims))
        print(f"| {workers} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description="Time of a round against the number of workers.")
    parser.add_argument("--thalweg", default=os.path.join(ROOT, "build", "thalweg"),
                        metavar="PROGRAM", help="the program to run (default: build/thalweg)")
    parser.add_argument("--to", default="firecaffe.svg", metavar="FILE",
                        help="the SVG file to write")
    asked = parser.parse_args()
    if not os.access(asked.thalweg, os.X_OK):
        sys.exit(f"firecaffe.py: there is no program {asked.thalweg}; run ./demo first, "
                 "or give --thalweg PROGRAM")
    plans, sims = ([[time(asked.thalweg, strategy, workers) for workers in WORKERS]
                    for strategy, *_ in SERIES] for time in (predicted, measured))
    show(plans, sims)
    with open(asked.to, "w", encoding="utf-8") as file:
        file.write(picture(plans, sims))


if __name__ == "__main__":
    main()
