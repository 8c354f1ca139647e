#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tally.py [--full] REPORT TIMES: what CTest's JUnit report says, for ./check.

The first line is "PASSED FAILED SKIPPED".  Then comes a line for each skipped test, "skipped: NAME:
REASON", with the text after "skipped: " in what the test printed.  A test that is one program of many
cases counts once; cases of it that were skipped count beside it.  A test that skips without a reason
has failed.

TIMES is the folder in which test/meter.c has left the CPU seconds of each test and its budget (0:
none).  A line "time: CPU WALL NAME" comes for each test, and "over: NAME: REASON" for one over its
budget; with --full this is a failure."""
import os
import re
import sys
import xml.etree.ElementTree

CASE = re.compile(r"^\[  SKIPPED \] (\w+)$")
REASON = re.compile(r"\bskipped: (.+)")


def last_reason(lines):
    found = [m.group(1) for m in map(REASON.search, lines) if m]
    return found[-1].strip() if found else None


def skipped_cases(lines):
    """Cases of a cmocka program that were skipped: name and reason, in order."""
    cases, since = {}, 0
    for k, line in enumerate(lines):
        m = CASE.match(line)
        if m and m.group(1) not in cases:
            cases[m.group(1)] = last_reason(lines[since:k])
        if line.startswith("["):
            since = k + 1
    return cases


def cpu_time(folder, name):
    """CPU seconds of a test and its budget; None: they were not measured."""
    try:
        with open(os.path.join(folder, name)) as f:
            cpu, budget = map(float, f.read().split())
            return cpu, budget
    except (OSError, ValueError):
        return None


def main(path, folder, full):
    passed = failed = 0
    skipped, silent, times, over = [], [], [], []
    for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = test.get("name")
        lines = (test.findtext("system-out") or "").split("\n")
        found = [(name, last_reason(lines))] if test.find("skipped") is not None else [
            (f"{name}, {case}", why) for case, why in skipped_cases(lines).items()]
        silent += [what for what, why in found if not why]
        skipped += [f"{what}: {why}" for what, why in found if why]
        if test.find("failure") is not None:
            failed += 1
        elif test.find("skipped") is None:
            passed += 1
        took = cpu_time(folder, name)
        if took:
            cpu, budget = took
            times.append(f"{cpu:.1f} {float(test.get('time') or 0):.1f} {name}")
            if 0 < budget < cpu:
                over.append(f"{name}: {cpu:.1f} CPU seconds, and its budget is {budget:.0f}")
    print(passed, failed + len(silent) + (len(over) if full else 0), len(skipped))
    for kind, lines in (("skipped", skipped), ("time", times), ("over", over)):
        print("".join(f"{kind}: {line}\n" for line in lines), end="")
    for what in silent:
        print(f"check: {what}: it was skipped and does not say why", file=sys.stderr)


SAMPLE = """<testsuite tests="5">
<testcase name="good" time="4.2"><system-out>[       OK ] a</system-out></testcase>
<testcase name="bad"><failure/><system-out>no</system-out></testcase>
<testcase name="left_out"><skipped/><system-out>left_out: skipped: no network</system-out></testcase>
<testcase name="silent"><skipped/><system-out>something else</system-out></testcase>
<testcase name="cases"><system-out>[ RUN      ] one
skipped: no terminal
[  SKIPPED ] one
[ RUN      ] two
[  SKIPPED ] two
[  SKIPPED ] 2 test(s), listed below:
[  SKIPPED ] one
[  SKIPPED ] two
</system-out></testcase></testsuite>"""


def tally(*words):
    import subprocess
    return subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True)


def self_test():
    import tempfile
    with tempfile.TemporaryDirectory() as d:
        report = os.path.join(d, "report.xml")
        with open(report, "w") as f:
            f.write(SAMPLE)
        for name, text in (("good", "3.51 20"), ("cases", "20.5 20"), ("bad", "99.0 0")):
            with open(os.path.join(d, name), "w") as f:
                f.write(text + "\n")
        done, full = tally(report, d), tally("--full", report, d)
    rest = ("2\nskipped: left_out: no network\nskipped: cases, one: no terminal\n"
            "time: 3.5 4.2 good\ntime: 99.0 0.0 bad\ntime: 20.5 0.0 cases\n"
            "over: cases: 20.5 CPU seconds, and its budget is 20\n")
    for out, want in ((done.stdout, "2 3 " + rest), (full.stdout, "2 4 " + rest)):
        if out != want:
            sys.exit(f"tally: wanted {want!r}, got {out!r}")
    if not all(x in done.stderr for x in ("silent:", "cases, two:")):
        sys.exit(f"tally: said {done.stderr!r}")
    print("tally: counts, reasons and budgets are as they should be")


if __name__ == "__main__":
    words = [w for w in sys.argv[1:] if w != "--full"]
    self_test() if words == ["--self-test"] else main(*words, full="--full" in sys.argv)
