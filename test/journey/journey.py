#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""journey.py - the functions that a gradient passes, file by file, and how often its way changes files.

    TW_BUILD=build test/journey/journey.py            compare with README.md beside it
    TW_BUILD=build test/journey/journey.py --print    print what belongs there
    TW_BUILD=build test/journey/journey.py --write    put it there
    TW_BUILD=build test/journey/journey.py --ways     whole ways alone, with each of their files
    TW_BUILD=build test/journey/journey.py --at COMMIT   the same of another commit of this repository

Builds the program once more with -finstrument-functions (in $TW_BUILD/journey), and runs it.

**The journey** is in the world `threads`, with one worker and one shard (asgd, sgd, fp32), on the
worker's own thread.  It begins where the engine is asked for a gradient, and ends when the shard has
made the update and notes it.  A function counts once, where it is first entered.  What does not
count:

  - functions that a header defines inline: they are read where they are used;
  - what goes on inside the engine, src/vec and src/base: only the way in counts;
  - notes (what observers are told), which tell of the gradient and do not carry it.

**Whole ways** (WAYS) are inside src/node and to the next step: all that actors do from the moment
when a computation is made until the same computation of the next step is made, in the simulator, where
handlers run one after the other.  (Worlds run the same actors; what crosses a wire passes the same
files.)  Functions of src/node count once, where they are first entered, but for inline ones and
notes.

All gradients of a run should go the same way; the most frequent way is the journey.  A change of file
is where the next function is in another file than the one before it.  It is a return if that file
was left before.  Exit code 77: a tool is missing here.
"""
import collections
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TW_BUILD") or os.path.join(ROOT, "build"))
PAGE = os.path.join(ROOT, "test", "journey", "README.md")
BEGIN, END = "<!-- journey.py -->\n", "<!-- end of journey.py -->\n"
# changes of file; whoever makes it shorter lowers this.  Two lead to well_formed.c and back: a
# message is checked before it changes anything.
MOST = 37
JOB = """
model: {quadratic: {dimension: 64}}
data: {source: none, samples: 64, batch: 1}
train: {epochs: 1, evaluate: 0}
update: {rule: sgd, rate: 0.01}
cluster: {workers: 1, shards: 1}
strategy: asgd
"""
# Whole ways: fields of the job, computations of one step, and the most changes of file and returns
# to a file that was left.  Whoever makes one shorter lowers its limits; none may rise.
QUADRATIC = """
model: {quadratic: {dimension: 64%s}}
data: {source: none, samples: 64, batch: 1}
train: {epochs: 1, evaluate: 0}
update: {rule: sgd, rate: 0.01}
"""
WAYS = {
    "asgd": (QUADRATIC % "" + "cluster: {workers: 1, shards: 1}\nstrategy: asgd\n", 1, 46, 23),
    "ssgd": (QUADRATIC % "" + "cluster: {workers: 1, shards: 1}\nstrategy: ssgd\n", 1, 130, 77),
    "ring": (QUADRATIC % "" + "cluster: {workers: 2}\nstrategy: ring\n", 2, 178, 114),
    "micro-batch": (QUADRATIC % ", stages: 2" + "cluster: {workers: 1, stages: 2, shards: 2}\n"
                    "strategy: {gate: async, pipeline: {schedule: gpipe}}\n", 4, 81, 52),
}
LEFT = 1 << 63
ENTRY_ONLY = ("engine", "vec", "base")  # folders whose inside does not count


def build(root=ROOT, name="journey"):
    """The instrumented program."""
    for tool in ("cmake", "ninja", "cc", "addr2line"):
        if not shutil.which(tool):
            print(f"journey: skipped: there is no {tool} here")
            sys.exit(77)
    folder = os.path.join(BUILD, name)
    os.makedirs(folder, exist_ok=True)
    trace = os.path.join(folder, "trace.o")
    said = ""
    for words in (["cc", "-O1", "-c", os.path.join(ROOT, "test", "journey", "trace.c"), "-o", trace],
                  ["cmake", "-S", root, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
                   "-DTW_TESTS=OFF", "-DTW_WERROR=OFF",
                   "-DCMAKE_C_FLAGS=-O0 -g1 -finstrument-functions",
                   f"-DCMAKE_EXE_LINKER_FLAGS=-no-pie {trace}"],
                  ["ninja", "-C", folder, "thalweg"]):
        done = subprocess.run(words, capture_output=True, text=True)
        said = done.stdout + done.stderr
        if done.returncode:
            print(said)
            sys.exit("journey: the instrumented program cannot be built")
    return os.path.join(folder, "thalweg")


def run(program, job_text, verb):
    """For each thread, its (left, function, file) in order."""
    with tempfile.TemporaryDirectory() as folder:
        job, out = os.path.join(folder, "job.yaml"), os.path.join(folder, "trace")
        with open(job, "w", encoding="utf-8") as f:
            f.write(job_text)
        subprocess.run([program, verb, job, "--run", os.path.join(folder, "run"), "-q"],
                       check=True, stdout=subprocess.DEVNULL, env=dict(os.environ, TW_JOURNEY=out))
        with open(out, "rb") as f:
            records = list(struct.iter_unpack("<QQ", f.read()))
    functions = sorted({f & ~LEFT for _, f in records})
    lines = subprocess.run(["addr2line", "-f", "-e", program], text=True, capture_output=True,
                           input="\n".join(map(hex, functions)), check=True).stdout.splitlines()
    names = {}
    for k, f in enumerate(functions):
        file = lines[2 * k + 1].rsplit(":", 1)[0]
        names[f] = (lines[2 * k], file[file.rindex("/src/") + 1:] if "/src/" in file
                    else re.sub(r".*?(src/)", r"\1", file))
    threads = collections.defaultdict(list)
    for thread, f in records:
        threads[thread].append((bool(f & LEFT), *names[f & ~LEFT]))
    return threads.values()


def inline_functions(root=ROOT):
    names = set()
    for header in glob.glob(os.path.join(root, "src", "**", "*.h"), recursive=True):
        with open(header, encoding="utf-8") as f:
            names |= set(re.findall(r"^static inline (?:__attribute__\(\(\w+\)\) )?[^;{(]*?(\w+)\(", f.read(), re.M))
    return names


def begins(left, name, file):
    return not left and file.startswith("src/engine/") and name.endswith("_gradient")


def is_note(name):
    return re.search(r"(^|_)note$", name) is not None


def cut(events):
    """From a gradient's beginning: up to the last note inside the shard's handler; None: no such."""
    depth, handler, end = 0, None, None
    for k, (left, name, file) in enumerate(events):
        depth += -1 if left else 1
        if handler is None:
            if not left and file.startswith("src/node/s") and name.endswith("_message"):
                handler = depth
        elif depth < handler:
            break
        elif not left and is_note(name):
            end = k
    return events[:end] if end else None


def journey_of(events, inline):
    hidden, way = [], {}
    for left, name, file in events:
        if left:
            if hidden:
                hidden.pop()
            continue
        inside = bool(hidden) and hidden[-1]
        hidden.append(inside or is_note(name) or file.split("/")[1] in ENTRY_ONLY)
        if not inside and not is_note(name) and name not in inline:
            way[name, file] = True
    return tuple(way)


def journeys(threads):
    """How many gradients went each way."""
    inline, ways = inline_functions(), collections.Counter()
    for events in threads:
        starts = [k for k, e in enumerate(events) if begins(*e)]
        for k, start in enumerate(starts):
            whole = cut(events[start:starts[k + 1] if k + 1 < len(starts) else len(events)])
            if whole:
                ways[journey_of(whole, inline)] += 1
    return ways


def stations(way):
    """Functions in a row that are in one file."""
    rows = []
    for name, file in way:
        if not rows or rows[-1][0] != file:
            rows.append((file, []))
        rows[-1][1].append(name)
    return rows


# --- whole ways -----------------------------------------------------------------------------------

def handlers(events, inline):
    """What each call from outside src/node enters inside: lists of (function, file)."""
    out, depth, base, note = [], 0, None, None
    for left, name, file in events:
        if left:
            depth -= 1
            note = None if note == depth else note
            base = None if base == depth else base
            continue
        own = file.startswith("src/node/") and name not in inline
        if base is None and own:
            base = depth
            out.append([])
        if base is not None and note is None:
            if is_note(name):
                note = depth
            elif own:
                out[-1].append((name, file))
        depth += 1
    return [h for h in out if h]


def whole_way(threads, steps, inline):
    """The most frequent way from one step to the next, and how many of all steps go it."""
    calls = max((handlers(events, inline) for events in threads), key=len)
    made = [k for k, h in enumerate(calls) if h[0][0].endswith("_computed")]
    ways = collections.Counter()
    for k in range(0, len(made) - steps, steps):
        ways[tuple(dict.fromkeys(f for h in calls[made[k]:made[k + steps]] for f in h))] += 1
    if not ways:
        sys.exit("journey: no step was followed to the next one")
    way, count = ways.most_common(1)[0]
    return way, count, sum(ways.values())


def figures_of(way):
    """(functions, files, changes of file, returns to a file that was left)"""
    rows = stations(way)
    files = len({file for file, _ in rows})
    return len(way), files, len(rows) - 1, len(rows) - files


def all_ways(program, root=ROOT):
    inline, out = inline_functions(root), {}
    for name, (job, steps, _, _) in WAYS.items():
        way, count, total = whole_way(run(program, job, "sim"), steps, inline)
        if 3 * count <= total:
            sys.exit(f"journey: only {count} of {total} steps of {name} go the same way")
        out[name] = way
    return out


def print_ways(ways):
    print(f"{'way':14}{'functions':>10}{'files':>7}{'changes':>9}{'returns':>9}")
    for name, way in ways.items():
        print(f"{name:14}{'{:10}{:7}{:9}{:9}'.format(*figures_of(way))}")


def at_commit(commit):
    """Builds another commit of this repository in $TW_BUILD/journey-COMMIT, and counts its ways."""
    folder = os.path.join(BUILD, "journey-" + commit)
    os.makedirs(os.path.join(folder, "tree"), exist_ok=True)
    tree = os.path.join(folder, "tree")
    packed = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, capture_output=True)
    subprocess.run(["tar", "-xf", "-", "-C", tree], input=packed.stdout, check=True)
    print_ways(all_ways(build(tree, os.path.join("journey-" + commit, "build")), tree))


def over_limit(ways):
    bad = False
    for name, way in ways.items():
        _, _, changes, returns = figures_of(way)
        most = WAYS[name][2:]
        if changes > most[0] or returns > most[1]:
            print(f"journey: {name}: {changes} changes of file and {returns} returns; at most "
                  f"{most[0]} and {most[1]} are allowed (--ways shows them)")
            bad = True
        elif (changes, returns) != most:
            print(f"journey: {name} is shorter: lower its limits to {changes}, {returns}")
    return bad


# --- the page ---------------------------------------------------------------------------------------

def text_of(way):
    rows = stations(way)
    own = [w for w in way if w[1].split("/")[1] not in ("vec", "base")]
    files = {file for _, file in way}
    lines = textwrap.wrap(
        f"{len(way)} functions in {len(files)} files, with {len(rows) - 1} changes of file; without "
        f"the entries into `src/base/` and `src/vec/`, {len(own)} functions in "
        f"{len({file for _, file in own})} files, with {len(stations(own)) - 1} changes. "
        "`test/journey/journey.py` counts them, and its first lines say how.", 100) + [""]
    for k, (file, names) in enumerate(rows):
        lines += textwrap.wrap(f"{k + 1}. `{file}`: " + ", ".join(f"`{n}`" for n in names), 100,
                               subsequent_indent="   ", break_on_hyphens=False)
    return "\n".join(lines) + "\n", len(rows) - 1


def main():
    if "--at" in sys.argv:
        at_commit(sys.argv[sys.argv.index("--at") + 1])
        return
    program = build()
    whole = all_ways(program)
    if "--ways" in sys.argv:
        for name, way in whole.items():
            print(name)
            for file, functions in stations(way):
                print(f"    {file}: {', '.join(functions)}")
        print_ways(whole)
        return
    ways = journeys(run(program, JOB, "train"))
    if not ways:
        sys.exit("journey: no gradient was followed from the engine to a shard's note")
    way, count = ways.most_common(1)[0]
    if 2 * count <= sum(ways.values()):
        sys.exit(f"journey: only {count} of {sum(ways.values())} gradients went the same way")
    text, changes = text_of(way)
    if "--print" in sys.argv:
        print(text, end="")
        return
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    if BEGIN not in page or END not in page:
        sys.exit(f"journey: {PAGE} has no place for it: {BEGIN}{END}")
    before, rest = page.split(BEGIN, 1)
    there, after = rest.split(END, 1)
    if "--write" in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + text + END + after)
    elif there != text:
        print("journey: test/journey/README.md says another way than a gradient goes; "
              "run test/journey/journey.py --write.  It goes:\n" + text)
        sys.exit(1)
    if changes > MOST:
        sys.exit(f"journey: {changes} changes of file; at most {MOST} are allowed")
    if over_limit(whole):
        sys.exit(1)
    print_ways(whole)
    print(f"journey: {len(way)} functions, {changes} changes of file")


if __name__ == "__main__":
    main()
