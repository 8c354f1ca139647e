#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""curves.py [NAME] - examples/NAME.py still makes docs/NAME.svg; NAME is curves or firecaffe.

Runs the script and compares the two pictures: the same strategies with the same labels, the same
number of points, and every point within 2 % of the picture's height and width.  The bytes may
differ, because networks give other last digits on another instruction set.
"""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 60_000
SHARE = 0.02
FEWEST = {"curves": 6, "firecaffe": 4}  # series of each picture


def read(path):
    """The size of a picture, and its series: name, label, points."""
    root = ET.parse(path).getroot()
    size = float(root.get("width")), float(root.get("height"))
    series = []
    for group in root.iter(SVG + "g"):
        if group.get("class") == "series":
            line = group.find(SVG + "polyline").get("points") + " " + group.get("data-marks", "")
            points = [tuple(map(float, pair.split(","))) for pair in line.split()]
            series.append((group.get("id"), "".join(group.find(SVG + "text").itertext()), points))
    return size, series


def differences(kept, made):
    (size, old), (new_size, new) = kept, made
    if size != new_size:
        return [f"the picture is {new_size}, not {size}"]
    if [s[:2] for s in old] != [s[:2] for s in new]:
        return [f"the series are {[s[1] for s in new]}, not {[s[1] for s in old]}"]
    found = []
    for (name, _, before), (_, _, after) in zip(old, new):
        if len(before) != len(after):
            found.append(f"{name}: {len(after)} points, not {len(before)}")
            continue
        away = max(abs(a - b) / size[axis]
                   for p, q in zip(before, after) for axis, (a, b) in enumerate(zip(p, q)))
        if away > SHARE:
            found.append(f"{name}: a point is {100 * away:.1f} % of the picture away")
    return found


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else "curves"
    script, kept = f"examples/{name}.py", f"docs/{name}.svg"
    program = os.path.join(os.environ.get("TW_BUILD", os.path.join(ROOT, "build")), "thalweg")
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "made.svg")
        subprocess.run([sys.executable, os.path.join(ROOT, script),
                        "--thalweg", program, "--to", made], check=True)
        before = read(os.path.join(ROOT, kept))
        found = differences(before, read(made))
    if os.path.getsize(os.path.join(ROOT, kept)) > LARGEST:
        found.append(f"{kept} is larger than {LARGEST} bytes")
    if len(before[1]) < FEWEST[name]:
        found.append(f"{kept} has fewer than {FEWEST[name]} curves")
    for line in found:
        print(f"curves: {line}")
    if found:
        sys.exit(f"curves: if the change is wanted: {script} --to {kept}")
    print(f"curves: the picture is what {script} makes")


if __name__ == "__main__":
    main()
