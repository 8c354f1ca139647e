# SPDX-License-Identifier: Apache-2.0
"""cluster.py - a cluster of real processes on this machine, for tests that do harm to it.

A Cluster has a directory of its own, a job, a port, and the processes that were started; leaving
the `with` block ends whatever is left, and prints everything anybody said if the test failed."""
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

BUILD = os.environ.get("TW_BUILD") or os.path.join(os.path.dirname(__file__), "..", "..", "build")
THALWEG = os.path.join(BUILD, "thalweg")
SIZE = 20000  # samples in an epoch of digits
SLACK = 6.0   # seconds that a busy machine may add to anything


class TooShort(Exception):
    """The run was over before the fault was: try again with more epochs."""


class Wrong(Exception):
    """What the test is about did not happen."""


def need(condition, sentence):
    if not condition:
        raise Wrong(sentence)


def free_port(host="127.0.0.1"):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((host, 0))
        return s.getsockname()[1]


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


LIBC = ctypes.CDLL(None)


def end_with_us():
    """In the child: whatever ends this test, by a kill -9 too, leaves nobody behind."""
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Process:
    """One `thalweg serve` or `thalweg join`, with what it said."""

    def __init__(self, cluster, name, words, inside=None):
        self.name = name
        self.at = {k: os.path.join(cluster.dir, f"{name}.{k}") for k in ("out", "err", "log")}
        self.command = [THALWEG, *words, "--json", "--log", self.at["log"]]
        if inside:
            self.command = ["ip", "netns", "exec", inside, *self.command]
        with open(self.at["out"], "w") as out, open(self.at["err"], "w") as err:
            self.child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=err, start_new_session=True,
                                          preexec_fn=end_with_us)
        self.pid = self.child.pid
        self.started = time.monotonic()
        self.doomed = False  # killed by the test: its exit code says nothing

    def running(self):
        return self.child.poll() is None

    def kill(self):
        """As a machine dies: no word to anybody."""
        self.doomed = True
        self.child.kill()
        self.child.wait()

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, seconds):
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Wrong(f"{self.name} has not ended within {seconds:.0f} s") from None

    def err(self):
        return read(self.at["err"])

    def result(self):
        text = read(self.at["out"])
        try:
            return json.loads(text)
        except ValueError:
            raise Wrong(f"{self.name} printed no JSON object: {text!r}") from None

    def lines(self, event):
        """Lines of the log; the last may be half written."""
        found = []
        for line in read(self.at["log"]).split("\n")[:-1]:
            if f'"event":"{event}"' in line:
                try:
                    found.append(json.loads(line))
                except ValueError:
                    pass  # cut off by a kill
        return found

    def steps(self):
        return read(self.at["log"]).count('"event":"step"')

    def longest_gap(self):
        """The longest time between two steps of this process, and when it began."""
        times = [line["time"] for line in self.lines("step")]
        return max(((b - a, a) for a, b in zip(times, times[1:])), default=(0.0, 0.0))

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self):
        """KiB that are resident."""
        for line in read(f"/proc/{self.pid}/status").split("\n"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0


class Cluster:
    def __init__(self, name, strategy, epochs, workers=2, servers=1, rate=0.05, sets=(),
                 host="127.0.0.1", inside=None, hidden=32, target=0.93, key=False,
                 size=SIZE, batch=16, job=None):
        """job: a text of its own, with so many samples and steps; it has no accuracy."""
        self.name, self.epochs, self.inside = name, epochs, inside
        self.strategy, self.servers = strategy, servers
        self.target = target if job is None else None
        self.size, self.batch = size, batch  # samples in an epoch, and in a step
        self.address = f"{host}:{free_port() if inside is None else 7433}"
        self.dir = tempfile.mkdtemp(prefix=f"thalweg-{name}-")
        self.key = self.make_key() if key else []
        self.all, self.count = [], {}
        self.began = time.monotonic()
        self.limit = 15.0
        self.sets = {"cluster.limit": "2s", "cluster.suspect": "1s", "cluster.heartbeat": "200ms",
                     **dict(sets)}
        if self.sets.get("cluster.limit", "").endswith("s"):
            self.limit = float(self.sets["cluster.limit"][:-1])
        self.http = "off"
        self.write("job.yaml", job or f"""\
data: {{source: digits, count: {size}, batch: {batch}}}
model: {{name: mlp, hidden: [{hidden}]}}
train: {{epochs: {epochs}, seed: 1}}
update: {{rule: sgd, rate: {rate}}}
cluster: {{workers: {workers}, min: 1, wait: 30s, servers: {servers}, shards: {max(2, servers)}}}
checkpoint: {{every: 1s, keep: 2}}
strategy: {strategy}
""")

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)

    def make_key(self):
        path = os.path.join(self.dir, "cluster.key")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            subprocess.run([THALWEG, "key"], stdout=f, check=True)
        return ["--key", path]

    # --- starting ---

    def start(self, kind, words, inside=None):
        self.count[kind] = self.count.get(kind, 0) + 1
        p = Process(self, f"{kind}{self.count[kind]}", words + self.key, inside)
        self.all.append(p)
        return p

    def serve(self):
        words = ["serve", os.path.join(self.dir, "job.yaml"), "--listen", self.address, "--http",
                 self.http, "--run", os.path.join(self.dir, "run")]
        for k, v in self.sets.items():
            if v:
                words += ["--set", f"{k}={v}"]
        if self.inside and not self.key:
            words += ["--insecure"]
        p = self.start("serve", words, self.inside)
        self.until(lambda: "to join:" in p.err(), "serve says how to join", 30, p)
        return p

    def worker(self, address=None, inside=None):
        return self.start("worker", ["join", address or self.address], inside)

    def server(self, address=None, inside=None):
        return self.start("server", ["join", address or self.address, "--as", "server"], inside)

    def begin(self, workers=2, steps=50):
        """Serve, servers, workers; returns when all workers have done some steps."""
        serve = self.serve()
        servers = [self.server() for _ in range(self.servers - 1)]
        ws = [self.worker() for _ in range(workers)]
        for w in ws:
            self.until_steps(w, steps)
        return serve, servers, ws

    # --- waiting ---

    def until(self, true, what, seconds, *alive):
        """Wait until it is true; the processes named must live meanwhile."""
        begin = time.monotonic()
        while not true():
            for p in alive:
                if not p.running() and not true():
                    if p.child.returncode == 0:
                        raise TooShort(f"{p.name} was done before: {what}")
                    raise Wrong(f"{p.name} ended with {p.child.returncode}; wanted: {what}")
            need(time.monotonic() < begin + seconds, f"not within {seconds:.0f} s: {what}")
            time.sleep(0.02)
        if time.monotonic() > begin + 5:
            self.say(f"took {time.monotonic() - begin:.1f} s: {what}")

    def say(self, sentence):
        print(f"{self.name}: at {time.monotonic() - self.began:.1f} s: {sentence}", flush=True)

    def masters(self):
        """The one that runs, if any does."""
        return [p for p in self.all if p.name.rstrip("0123456789") == "serve" and not p.doomed][-1:]

    def until_steps(self, worker, more, seconds=60):
        before = worker.steps()
        self.until(lambda: worker.steps() >= before + more, f"{worker.name} does {more} steps",
                   seconds, worker, *self.masters())

    def rest(self, seconds, *alive):
        """Let time pass while others train."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for p in alive:
                if not p.running():
                    if p.child.returncode == 0:
                        raise TooShort(f"{p.name} was done within a rest of {seconds:.1f} s")
                    raise Wrong(f"{p.name} ended with {p.child.returncode}")
            time.sleep(min(0.05, max(0.0, end - time.monotonic())))

    def checkpoints(self):
        run = os.path.join(self.dir, "run")
        return sorted(int(d[5:]) for d in os.listdir(run) if d[:5] == "ckpt-" and
                      d[5:].isdigit() and os.path.exists(os.path.join(run, d, "DONE")))

    def until_checkpoint(self, *alive):
        """A checkpoint that is not there yet."""
        before = (self.checkpoints() or [0])[-1]
        self.until(lambda: (self.checkpoints() or [0])[-1] > before, "another checkpoint", 60,
                   *alive)

    # --- the end ---

    def finish(self, serve, target=None, seconds=240, exact=None, survivors=(), stop=None,
               again=False, strangers=False, asleep=()):
        """The run ends by itself; everybody ends with it; what it counted is right.  Those who
        are asleep end later: the caller sees to that."""
        code = serve.wait(seconds)
        need(code == 0, f"{serve.name} ended with {code}")
        for p in self.all:
            if p.doomed or p in asleep or (strangers and self.too_late(p)):
                continue
            code = p.wait(15 + SLACK)
            # one that was told to go before it was in has nothing to say
            early = code == 75 and "interrupted before the master answered" in p.err()
            need(code == 0 or early, f"{p.name} ended with {code}")
        self.nobody_left(asleep)
        r = serve.result()
        size = self.epochs * self.size
        target = target or self.target
        need(target is None or r["accuracy"] >= target, f"accuracy {r['accuracy']}, wanted {target}")
        if exact is None:
            exact = self.strategy in ("ssgd",)
        if exact:
            need(r["samples"] == size, f"{r['samples']} samples, wanted exactly {size}")
            need(r["repeated"] == 0, f"{r['repeated']} samples were repeated")
        else:
            # samples are what the shards have applied: all of them, but for what a server took along
            known = r["samples"] + self.batch * r["lost_updates"]
            need(known >= size, f"{r['samples']} samples and {r['lost_updates']} lost updates, "
                                f"wanted at least {size}")
            # a master that comes back deals again what its checkpoint does not know
            need(again or r["samples"] <= size + r["redealt"],
                 f"{r['samples']} samples, {size} wanted and {r['redealt']} dealt again")
            need(r["samples"] <= 2 * size, f"{r['samples']} samples were counted of {size}")
            need(r["repeated"] <= r["redealt"],
                 f"{r['repeated']} repeated, but {r['redealt']} dealt again")
        need(r["epochs"] >= self.epochs, f"{r['epochs']} epochs, wanted {self.epochs}")
        need(r["refused"] == 0, f"{r['refused']} were refused")
        allowed = (self.limit + 2.0 if stop is None else stop) + SLACK
        for p in survivors:
            gap, at = p.longest_gap()
            need(gap <= allowed,
                 f"{p.name} stood still for {gap:.1f} s from {at:.1f} s on; at most "
                 f"{allowed:.1f} s are allowed")
        return r

    def too_late(self, p):
        """It came when the run was ending, or stood still then: it waits for a master."""
        end = time.monotonic() + 15 + SLACK
        while p.running() and time.monotonic() < end:
            last = (p.err().strip().split("\n") or [""])[-1]
            if re.search(r"(on \S+: cannot reach|join: no master yet) .*refused", last):
                p.kill()
                return True
            time.sleep(0.05)
        return False

    def nobody_left(self, but=()):
        for p in self.all:
            if p in but:
                continue
            try:
                os.killpg(p.pid, 0)
            except ProcessLookupError:
                continue
            raise Wrong(f"{p.name} left a process of its group {p.pid} behind")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for p in self.all:
            if p.running():
                p.signal(signal.SIGCONT)
                p.child.kill()
                p.child.wait()
        if kind and kind is not TooShort:
            self.tell(value)
        shutil.rmtree(self.dir, ignore_errors=True)
        return False

    def tell(self, value):
        print(f"--- {self.name}: {value}")
        print(read(os.path.join(self.dir, "job.yaml")), end="")
        for p in self.all:
            print(f"--- {p.name} (pid {p.pid}, from {p.started - self.began:.1f} s on, "
                  f"{p.steps()} steps, longest gap {p.longest_gap()}): {' '.join(p.command)}")
            print(f"    ended with {p.child.returncode}; stderr:")
            print("".join(f"    {line}\n" for line in p.err().split("\n")[-60:] if line), end="")
            print("    stdout: " + " ".join(read(p.at["out"]).split()))
        sys.stdout.flush()


# --- running tests ---

def attempt(name, test, epochs):
    """Run it; if the run was too short for the fault, again with more epochs."""
    begin = time.monotonic()
    for _ in range(6):
        try:
            said = test(epochs) or ""
        except TooShort as e:
            print(f"{name}: {e}; trying with {2 * epochs} epochs", flush=True)
            epochs *= 2
            continue
        print(f"{name}: {time.monotonic() - begin:.1f} s {said}", flush=True)
        return
    raise Wrong(f"{name}: the run was always over before the fault")


def side_by_side(tests):
    """Each in a process of its own: for tests that mostly wait."""
    running = {name: subprocess.Popen([sys.executable, sys.argv[0], name], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, preexec_fn=end_with_us)
               for name in tests}
    said = {name: p.communicate()[0] for name, p in running.items()}
    print("".join(said.values()), end="", flush=True)
    return [name for name, p in running.items() if p.returncode]


def main(tests, words, waiting=False):
    """tests: name -> (function of epochs, epochs).  Words: which; none: all, and side by side if
    they mostly wait."""
    if not os.access(THALWEG, os.X_OK):
        sys.exit(f"{THALWEG} is not there: build it, or set TW_BUILD")
    unknown = [w for w in words if w not in tests]
    if unknown:
        sys.exit(f"no test {', '.join(unknown)}; there are: {' '.join(tests)}")
    failed = side_by_side(tests) if waiting and not words else []
    for name in words or ([] if waiting else tests):
        try:
            attempt(name, *tests[name])
        except Exception as e:
            if not isinstance(e, Wrong):
                traceback.print_exc(file=sys.stdout)
            print(f"{name}: FAILED: {e}", flush=True)
            failed.append(name)
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")
