#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""curves.py - loss against virtual time for seven strategies on one simulated cluster.

    examples/curves.py                      write curves.svg and print a table
    examples/curves.py --to docs/curves.svg write the picture of README.md
    examples/curves.py --rates              try all rates and print the best one of each strategy

Needs Python 3 and a built thalweg, nothing else.  The simulator is deterministic: the same program
writes the same bytes again on a machine with the same instruction set.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SECONDS = 30
JOB = f"""\
data:    {{source: digits, count: 8000, tests: 1000, batch: 32}}
model:   {{name: mlp, hidden: [64]}}
train:   {{epochs: 1000, time: {SECONDS}s, seed: 1, evaluate: 0.2}}
cluster: {{workers: 16}}
sim:
  compute:    {{law: log-normal, median: 100ms, sigma: 0.2}}
  stragglers: {{count: 2, slower: 8}}
  latency:    1ms
"""

# Each strategy has the rate of RATES with the lowest loss at the end; --rates chooses it again.
RATES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)

# name, field of the job, rate, colour, dashes, marker
STRATEGIES = (
    ("ssgd", "ssgd", 0.2, "#4d4d4d", "", "square"),
    ("ssp", "ssp", 0.02, "#8c5109", "9 4", "circle"),
    ("backup", "{name: backup, extra: 2}", 0.2, "#0060a8", "2 3", "triangle"),
    ("softsync", "{name: softsync, collect: 16}", 0.2, "#a3338a", "12 3 2 3", "diamond"),
    ("asgd", "asgd", 0.02, "#c43c00", "", "circle"),
    ("dc-asgd-a", "dc-asgd-a", 0.02, "#00705a", "6 3", "cross"),
    ("dana", "dana", 0.005, "#5b3fc4", "", "triangle"),
)
GOAL = 0.2

WIDTH, HEIGHT = 860, 500
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 66, 56
SPAN = SECONDS + 0.5  # the last evaluation is of what was under way at the end
HIGH, LOW = 3.0, 0.06  # loss at the top and at the bottom of the plot


def evaluations(program, strategy, rate):
    """The evaluations of one simulated run, as (virtual seconds, loss)."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        command = [program, "sim", "-", "--json", "-q", "--log", log,
                   "--set", f"strategy={strategy}", "--set", f"update.rate={rate:g}"]
        run = subprocess.run(command, input=JOB, text=True, capture_output=True, check=False)
        if run.returncode not in (0, 1):  # 1: training diverged, which --rates expects
            sys.exit(f"curves.py: {' '.join(command)}: {run.stderr.strip()}")
        with open(log, encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines]
    return [(e["time"], e["loss"]) for e in events
        if e["event"] == "evaluation" and e["loss"] is not None and math.isfinite(e["loss"])]


def reached(curve, goal):
    """When the loss was first at or below the goal, in virtual seconds; None if it never was."""
    return next((time for time, loss in curve if loss <= goal), None)


def best_rate(program, strategy):
    """The rate of RATES with the lowest loss at the end, and that loss."""
    ends = []
    for rate in RATES:
        curve = evaluations(program, strategy, rate)
        if curve:
            ends.append((curve[-1][1], rate))
    loss, rate = min(ends)
    return rate, loss


def across(time):
    return LEFT + (WIDTH - LEFT - RIGHT) * time / SPAN


def down(loss):
    share = math.log(HIGH / min(max(loss, LOW), HIGH)) / math.log(HIGH / LOW)
    return TOP + (HEIGHT - TOP - BOTTOM) * share


def marker(kind, x, y, colour):
    """A hollow mark of about 8 pixels around (x, y)."""
    shapes = {
        "square": f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z",
        "circle": f"M{x - 4.2:.1f} {y:.1f}a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0 -8.4 0z",
        "triangle": f"M{x:.1f} {y - 5:.1f}l5 8.6h-10z",
        "diamond": f"M{x:.1f} {y - 5.4:.1f}l5.4 5.4l-5.4 5.4l-5.4 -5.4z",
        "cross": f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8",
    }
    return f'<path d="{shapes[kind]}" fill="#fff" stroke="{colour}" stroke-width="1.6"/>'


def spread(wanted, gap):
    """Heights near the wanted ones, in the same order, at least `gap` apart."""
    order = sorted(range(len(wanted)), key=lambda k: wanted[k])
    heights = list(wanted)
    for _ in range(200):
        for a, b in zip(order, order[1:]):
            short = gap - (heights[b] - heights[a])
            if short > 0:
                heights[a] -= short / 2
                heights[b] += short / 2
    return heights


def axes():
    out = []
    floor, end = HEIGHT - BOTTOM, WIDTH - RIGHT
    for loss in (2, 1, 0.5, 0.2, 0.1):
        y = down(loss)
        out.append(f'<path d="M{LEFT} {y:.1f}H{end}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:g}</text>')
    for time in range(0, SECONDS + 1, 5):
        x = across(time)
        out.append(f'<path d="M{x:.1f} {floor}v5" stroke="#444"/>')
        out.append(f'<text x="{x:.1f}" y="{floor + 19}" text-anchor="middle">{time}</text>')
    out.append(f'<path d="M{LEFT} {TOP}V{floor}H{end}" fill="none" stroke="#444"/>')
    out.append(f'<text x="{(LEFT + end) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">'
           "virtual time, seconds</text>")
    out.append(f'<text transform="translate(22 {(TOP + floor) / 2:.0f}) rotate(-90)" '
           'text-anchor="middle">loss on the test set (logarithmic)</text>')
    return out


def series(k, curve, height):
    """Strategy k: its line, six marks on it, and its name at `height` to the right."""
    name, _, rate, colour, dashes, kind = STRATEGIES[k]
    points = [(across(time), down(loss)) for time, loss in curve]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    end = WIDTH - RIGHT
    out = [f'<g class="series" id="{name}">',
           f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" '
           f'stroke-linejoin="round"{dash}/>']
    for n in range(6):  # at times of its own: marks of two near curves do not hide each other
        at = across(2.5 + 5 * n + 0.6 * (k - 3))
        x, y = min(points, key=lambda p: abs(p[0] - at))
        out.append(marker(kind, x, y, colour))
    x, y = points[-1]
    out.append(f'<path d="M{x + 3:.1f} {y:.1f}L{end + 16} {height:.1f}h6" fill="none" '
               f'stroke="{colour}" stroke-width="0.8"/>')
    out.append(marker(kind, end + 29, height, colour))
    out.append(f'<text x="{end + 40}" y="{height + 4.5:.1f}" fill="{colour}" font-weight="600">'
               f'{name}<tspan fill="#555" font-weight="400"> rate {rate:g}</tspan></text>')
    return out + ["</g>"]


def picture(curves):
    """The whole SVG; `curves` has a list of (time, loss) for each of STRATEGIES."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           f'width="{WIDTH}" height="{HEIGHT}" font-size="13" fill="#222" '
           'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" '
           'role="img" aria-labelledby="t d">',
           '<title id="t">Loss against virtual time for seven strategies</title>',
           '<desc id="d">Sixteen simulated workers, two of them eight times slower.</desc>',
           f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#fff" stroke="#ccc"/>',
           f'<text x="{LEFT}" y="28" font-size="16" font-weight="600">'
           "One network, seven strategies, two stragglers</text>",
           f'<text x="{LEFT}" y="48" fill="#555">16 simulated workers, the last two 8 times '
           "slower; each strategy at its best learning rate of nine</text>"]
    out += axes()
    heights = spread([down(curve[-1][1]) for curve in curves], 19)
    for k, (curve, height) in enumerate(zip(curves, heights)):
        out += series(k, curve, height)
    return "\n".join(out + ["</svg>"]) + "\n"


def show_rates(program):
    for name, field, chosen, *_ in STRATEGIES:
        rate, loss = best_rate(program, field)
        note = "" if rate == chosen else f"  (the picture has {chosen:g})"
        print(f"{name:10} {rate:6g}  loss {loss:.3f}{note}", flush=True)


def show_curves(curves):
    print(f"strategy     rate  seconds to loss {GOAL:g}  loss after {SECONDS} s")
    for (name, _, rate, *_), curve in zip(STRATEGIES, curves):
        when = reached(curve, GOAL)
        when = "never" if when is None else f"{when:.1f}"
        print(f"{name:10} {rate:6g}  {when:>19}  {curve[-1][1]:15.3f}")


def main():
    parser = argparse.ArgumentParser(description="Loss against virtual time for seven strategies.")
    parser.add_argument("--thalweg", default=os.path.join(ROOT, "build", "thalweg"),
                        metavar="PROGRAM", help="the program to run (default: build/thalweg)")
    parser.add_argument("--to", default="curves.svg", metavar="FILE", help="the SVG file to write")
    parser.add_argument("--rates", action="store_true",
                        help="try all rates (two minutes), print the best ones, write nothing")
    asked = parser.parse_args()
    if not os.access(asked.thalweg, os.X_OK):
        sys.exit(f"curves.py: there is no program {asked.thalweg}; run ./demo first, "
                 "or give --thalweg PROGRAM")
    if asked.rates:
        show_rates(asked.thalweg)
        return
    curves = [evaluations(asked.thalweg, field, rate) for _, field, rate, *_ in STRATEGIES]
    show_curves(curves)
    with open(asked.to, "w", encoding="utf-8") as file:
        file.write(picture(curves))


if __name__ == "__main__":
    main()
