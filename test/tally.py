#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tally.py REPORT: what CTest's JUnit report says, for ./check.

The first line is "PASSED FAILED SKIPPED".  Then comes a line for each skipped test, with its reason:
the text after "skipped: " in what the test printed.  A test that is one program of many cases counts
once; cases of it that were skipped count beside it.  A test that skips without a reason has failed."""
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


def main(path):
    passed = failed = 0
    skipped, silent = [], []
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
    print(passed, failed + len(silent), len(skipped))
    print("".join(f"{line}\n" for line in skipped), end="")
    for what in silent:
        print(f"check: {what}: it was skipped and does not say why", file=sys.stderr)


SAMPLE = """<testsuite tests="5">
<testcase name="good"><system-out>[       OK ] a</system-out></testcase>
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


def self_test():
    import subprocess
    import tempfile
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as f:
        f.write(SAMPLE)
        f.flush()
        done = subprocess.run([sys.executable, __file__, f.name], capture_output=True, text=True)
    want = "2 3 2\nleft_out: no network\ncases, one: no terminal\n"
    if done.stdout != want or not all(x in done.stderr for x in ("silent:", "cases, two:")):
        sys.exit(f"tally: wanted {want!r}, got {done.stdout!r} and {done.stderr!r}")
    print("tally: counts and reasons are as they should be")


if __name__ == "__main__":
    self_test() if sys.argv[1:] == ["--self-test"] else main(sys.argv[1])
