# SPDX-License-Identifier: Apache-2.0
"""cluster.py - a cluster of real processes on this machine, for tests that do harm to it.

A Cluster has a directory of its own, a job, a port, and the processes that were started; leaving
the `with` block ends whatever is left, and prints everything anybody said if the test failed."""
import ctypes
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = os.environ.get("TW_BUILD") or os.path.join(os.path.dirname(__file__), "..", "..", "build")
THALWEG = os.path.join(BUILD, "thalweg")
SIZE = 20000  # samples in an epoch of digits
SLACK = 6.0   # seconds that a busy machine may add to anything
SKIPPED = 77  # exit code: some tests cannot run here


class TooShort(Exception):
    """The run was over before the fault was: try again with more epochs."""


class Wrong(Exception):
    """What the test is about did not happen."""


def need(condition, sentence):
    if not condition:
        raise Wrong(sentence)


KEPT = []  # a name for each port that this process has chosen


def free_port(host="127.0.0.1"):
    """A port that stays ours until this process ends, also while nobody listens on it: below those
    that the system gives to connections, and named in a place that other tests look at."""
    while True:
        port = random.randrange(10000, 32000)
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0thalweg-test-port-{port}")
            with socket.socket() as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                s.bind((host, port))
        except OSError:
            name.close()
            continue
        KEPT.append(name)
        return port


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
        self.stopped = threading.Lock()  # held while it is stopped, by the test or by Pace
        self.counted = (0, 0)  # bytes of the log that were read, and the steps in them

    def running(self):
        return self.child.poll() is None

    def must_run(self, what):
        if not self.running():
            code = self.child.returncode
            if code == 0:
                raise TooShort(f"{self.name} was done before: {what}")
            raise Wrong(f"{self.name} ended with {code}; wanted: {what}")

    def kill(self):
        """As a machine dies: no word to anybody.  It was alive, or there was no fault."""
        self.child.kill()
        self.child.wait()
        if self.child.returncode != -signal.SIGKILL:
            self.must_run("it is killed")
        self.doomed = True

    def signal(self, number):
        self.must_run(f"it gets {signal.Signals(number).name}")
        if number == signal.SIGSTOP:
            self.stopped.acquire()
        self.child.send_signal(number)
        if number == signal.SIGCONT:
            self.stopped.release()

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
        """Reads only what is new in the log: tests ask often."""
        begin, steps = self.counted
        try:
            with open(self.at["log"], "rb") as f:
                f.seek(begin)
                new = f.read()
        except FileNotFoundError:
            return 0
        new = new[:new.rfind(b"\n") + 1]
        self.counted = begin + len(new), steps + new.count(b'"event":"step"')
        return self.counted[1]

    def slot(self):
        """The number of this worker in its last step."""
        return self.lines("step")[-1]["worker"]

    def longest_gap(self):
        """The longest time between two steps of this process, and when it began."""
        times = [line["time"] for line in self.lines("step")]
        return max(((b - a, a) for a, b in zip(times, times[1:])), default=(0.0, 0.0))

    def open_files(self):
        self.must_run("its open files are counted")
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory(self):
        """KiB that are resident."""
        for line in read(f"/proc/{self.pid}/status").split("\n"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0


class Pace:
    """Workers compute for a share of the time only: tests mostly wait for limits, and what is
    trained meanwhile is of no use.  One that the test has stopped stays so."""
    TURN = 0.01  # seconds

    def __init__(self, share):
        self.share, self.workers, self.ended = share, [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended.wait(self.TURN * self.share):
            held = [w for w in self.workers if w.running() and w.stopped.acquire(blocking=False)]
            for w in held:
                w.child.send_signal(signal.SIGSTOP)
            self.ended.wait(self.TURN * (1 - self.share))
            for w in held:
                w.child.send_signal(signal.SIGCONT)
                w.stopped.release()

    def end(self):
        self.ended.set()
        self.thread.join()


class Cluster:
    share = 1.0     # of the time in which workers compute
    samples = SIZE  # in an epoch

    def __init__(self, name, strategy, epochs, workers=2, servers=1, rate=0.05, sets=(),
                 host="127.0.0.1", inside=None, hidden=32, target=0.93, key=False,
                 size=None, batch=16, job=None):
        """job: a text of its own, with so many samples and steps; it has no accuracy."""
        self.name, self.epochs, self.inside = name, epochs, inside
        self.strategy, self.servers = strategy, servers
        self.target = target if job is None else None
        size = size or self.samples
        self.size, self.batch = size, batch  # samples in an epoch, and in a step
        self.address = f"{host}:{free_port() if inside is None else 7433}"
        self.dir = tempfile.mkdtemp(prefix=f"thalweg-{name}-")
        self.key = self.make_key() if key else []
        self.all, self.count = [], {}
        self.pace = Pace(self.share) if self.share < 1 else None
        self.began = time.monotonic()
        self.limit = 15.0
        self.sets = {"cluster.limit": "2s", "cluster.suspect": "1s", "cluster.heartbeat": "200ms",
                     **dict(sets)}
        if self.sets.get("cluster.limit", "").endswith("s"):
            self.limit = float(self.sets["cluster.limit"][:-1])
        self.http = "off"
        self.write("job.yaml", job or f"""\
data: {{source: digits, count: {size}, tests: {size // 5}, batch: {batch}}}
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
        try:
            self.until(lambda: "to join:" in p.err(), "serve says how to join", 30 + SLACK, p)
        except Wrong:
            if "holds a finished run" in p.err():
                raise TooShort("the run was over before its master was gone") from None
            raise
        return p

    def worker(self, address=None, inside=None):
        w = self.start("worker", ["join", address or self.address], inside)
        if self.pace:
            self.pace.workers.append(w)
        return w

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
                    self.must_run(p, what)
            need(time.monotonic() < begin + seconds, f"not within {seconds:.0f} s: {what}")
            time.sleep(0.02)
        if time.monotonic() > begin + 5:
            self.say(f"took {time.monotonic() - begin:.1f} s: {what}")

    def over(self):
        """Whether the run is over, or is just ending."""
        end = time.monotonic() + SLACK
        while self.masters() and self.masters()[0].running() and time.monotonic() < end:
            time.sleep(0.05)
        return any(p.child.returncode == 0 for p in self.masters())

    def must_run(self, p, what):
        """Who comes when the run is ending may be turned away with an error."""
        if not p.running() and p.child.returncode > 0 and self.over():
            raise TooShort(f"the run was over before: {what}")
        p.must_run(what)

    def say(self, sentence):
        print(f"{self.name}: at {time.monotonic() - self.began:.1f} s: {sentence}", flush=True)

    def masters(self):
        """The one that runs, if any does."""
        return [p for p in self.all if p.name.rstrip("0123456789") == "serve" and not p.doomed][-1:]

    def until_steps(self, worker, more, seconds=60):
        before = worker.steps()
        self.until(lambda: worker.steps() >= before + more, f"{worker.name} does {more} steps",
                   seconds, worker, *self.masters())

    def until_gone(self, worker, serve):
        """The master has removed a worker that was killed or stopped."""
        gone = f"worker {worker.slot()} is gone"
        self.until(lambda: gone in serve.err(), f"serve says '{gone}'", self.limit + 10 + SLACK,
                   serve)

    def until_back(self, *workers):
        """They have found the master that was started again."""
        for w in workers:
            self.until(lambda: "connected to the master" in w.err(), f"{w.name} finds the master",
                       60, w, *self.masters())

    def leave(self, p, seconds=30):
        """Ask it to leave; it does, and says so."""
        p.signal(signal.SIGTERM)
        code = p.wait(seconds)
        need(code == 0, f"{p.name} was asked to leave and ended with {code}")
        if not p.result()["left"]:
            need(self.over(), f"{p.name} was asked to leave and says that it did not")
            raise TooShort(f"the run was over before {p.name} had left")

    def rest(self, seconds, *alive):
        """Let time pass while others train."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for p in alive:
                self.must_run(p, f"a rest of {seconds:.1f} s")
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
        if self.pace:
            self.pace.end()
        for p in self.all:
            if p.running():
                p.child.send_signal(signal.SIGCONT)
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
    """Run it; if the run was over before the fault had its effect, again with more epochs."""
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


def side_by_side(tests, at_once):
    """Each in a process of its own: for tests that mostly wait."""
    todo, running, failed = list(tests), {}, []
    while todo or running:
        while todo and len(running) < at_once:
            name, said = todo.pop(0), tempfile.TemporaryFile("w+")
            running[name] = subprocess.Popen([sys.executable, sys.argv[0], name], stdout=said,
                                             stderr=subprocess.STDOUT, preexec_fn=end_with_us), said
        for name, (p, said) in list(running.items()):
            if p.poll() is not None:
                said.seek(0)
                print(said.read(), end="", flush=True)
                said.close()
                failed += [name] if p.returncode not in (0, SKIPPED) else []
                del running[name]
        time.sleep(0.05)
    return failed


def main(tests, words, at_once=1):
    """tests: name -> (function of epochs, epochs).  Words: which; none: all, so many at once."""
    if not os.access(THALWEG, os.X_OK):
        sys.exit(f"{THALWEG} is not there: build it, or set TW_BUILD")
    unknown = [w for w in words if w not in tests]
    if unknown:
        sys.exit(f"no test {', '.join(unknown)}; there are: {' '.join(tests)}")
    apart = at_once > 1 and not words
    failed = side_by_side(tests, at_once) if apart else []
    for name in words or ([] if apart else tests):
        try:
            attempt(name, *tests[name])
        except Exception as e:
            if not isinstance(e, Wrong):
                traceback.print_exc(file=sys.stdout)
            print(f"{name}: FAILED: {e}", flush=True)
            failed.append(name)
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")
