#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""hostile.py - peers that lie, flood, stall and break off, while two workers train over TCP.

A run of `serve` with two workers is attacked in every way below, in the clear and with a key.  It
must end as if nothing had been there: the same parameters_digest, every sample once, memory and file
descriptors bounded, every refusal in the log, and no more of such lines than the limit allows.

One worker comes through a relay of this test.  It sets the pace (the run must outlast the attacks),
records what the worker says (to say it again elsewhere), and damages its connection.

    TW_BUILD=build test/cluster/hostile.py [-v]
"""
import ctypes
import json
import os
import random
import re
import resource
import selectors
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

from checks import VERBOSE, check, failures

BUILD = os.environ.get("TW_BUILD", "build")
THALWEG = os.path.join(BUILD, "thalweg")
SLOW = float(os.environ.get("TW_SLOW", "1"))  # a build with sanitizers has more memory and time
SEED = 20

JOB = """
data: {source: digits, count: 4000, tests: 200, batch: 20}
model: {name: mlp, hidden: [48]}
train: {epochs: 12, seed: 3}
update: {rule: momentum, rate: 0.05}
cluster: {workers: 2, shards: 3, wait: 30s, limit: 8s, suspect: 3s}
checkpoint: {every: 0s}
strategy: {gate: bsp}
"""
SAMPLES = 48000

MASTER, SERVER, SHARD, WORKER = range(4)
WIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/WIRE.md")


def kinds():
    """Names of all kinds, in the order of their numbers: test/wire_doc.sh holds the page to the compiler."""
    rows = (re.match(r"\| (\d+) \| ([A-Z]+) \| \w+.* → ", line) for line in open(WIRE))
    number = {int(m.group(1)): m.group(2) for m in rows if m}
    assert sorted(number) == list(range(1, len(number) + 1)), number
    return [number[k] for k in sorted(number)]


TYPES = kinds()
TYPE = {name: k + 1 for k, name in enumerate(TYPES)}


def sizes():
    """Bytes of the body of every kind: test/wire_doc.sh holds the page to the compiler."""
    size = {m.group(1): int(m.group(2))
            for m in map(re.compile(r"### ([A-Z]+) \((\d+) bytes\)$").match, open(WIRE)) if m}
    size.update(BYE=0, LEAVING=0, HOSTED=size["HOST"], UNCHANGED=size["PARAMS"], SPREAD=size["PUSH"],
                SAMPLES=size["FETCH"])
    return {name: size[name] for name in TYPES}


BODY = sizes()


def offsets():
    """Where the fields of every body and record are: test/wire_doc.sh holds the page to the compiler."""
    tables, name = {}, None
    for line in open(WIRE):
        head = re.match(r"### `?(\w+)`?( \(\d+ bytes\))?$", line)
        row = re.match(r"\| (\d+) \| \d+ \| (\w+) \| `(\w+)`", line)
        if head:
            name = head.group(1)
        elif row and name:
            tables.setdefault(name, []).append((int(row.group(1)), row.group(2), row.group(3)))
    fields = {name: {field: at for at, _, field in rows} for name, rows in tables.items()}
    for name, rows in tables.items():
        for at, kind, field in rows:
            for inner, more in list(fields.get(kind, {}).items()):
                fields[name][f"{field}.{inner}"] = at + more
    return {**fields, "SPREAD": fields["PUSH"], "SAMPLES": fields["FETCH"]}


AT = offsets()
NEW = 0xFFFFFFFF
NEVER = (1 << 64) - 1  # a clock that is not known
FRESH, LOCAL, LENT = 64, 16384, 32768

# --- frames (docs/WIRE.md) ------------------------------------------------------------------------

HEADER = struct.Struct("<IBBHIHBBQIIQIIIIQ")
FIELDS = ("magic major minor type length chunk sender receiver view from_ incarnation seq shard flags "
          "tail payload hash").split()
xxh = ctypes.CDLL("libxxhash.so.0")
for f, args in (("XXH3_64bits", 2), ("XXH3_64bits_withSeed", 3)):
    getattr(xxh, f).restype = ctypes.c_uint64
    getattr(xxh, f).argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64][:args]


def seal(head, rest):
    """Header without hash and what follows it: with the hash that belongs there."""
    seed = xxh.XXH3_64bits(head[:56], 56)
    return head[:56] + struct.pack("<Q", xxh.XXH3_64bits_withSeed(rest, len(rest), seed)) + rest


def frame(kind, body=None, tail=b"", payload=b"", **over):
    """One frame; any field of the header may be said otherwise, and is hashed so."""
    number = TYPE.get(kind, kind)
    body = bytes(BODY.get(kind, 0)) if body is None else body
    rest = body + tail + payload
    h = dict(magic=0x57414854, major=4, minor=0, type=number, length=len(rest), chunk=0, sender=WORKER,
             receiver=MASTER, view=0, from_=0, incarnation=0, seq=0, shard=0, flags=0, tail=len(tail),
             payload=len(payload), hash=0)
    h.update((f[:-1] if f in ("tail_", "payload_") else f, v) for f, v in over.items())
    return seal(HEADER.pack(*(h[f] for f in FIELDS)), rest)


def parse(head):
    return dict(zip(FIELDS, HEADER.unpack(head)))


def greet(facts=None, role=WORKER, flags=0, node=NEW, boot=0, run=0, ticket=bytes(16), process=None):
    hashes = facts["hashes"] if facts else (bytes(32),) * 3
    process = random.getrandbits(64) if process is None else process
    return frame("GREET", struct.pack("<IIIIQ16s32s32s32sIIQ", role, flags, node, boot, run, ticket, *hashes, 0, 0,
                                      process))


class Client:
    """A connection in the clear that says what it likes."""

    def __init__(self, port, small=False):
        self.s = socket.socket()
        if small:  # takes as little as it can
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.s.settimeout(10)
        self.s.connect(("127.0.0.1", port))
        self.name = "127.0.0.1:%d" % self.s.getsockname()[1]

    def send(self, *frames):
        try:
            self.s.sendall(b"".join(frames))
            return True
        except OSError:
            return False

    def exactly(self, n):
        got = b""
        while len(got) < n:
            more = self.s.recv(n - len(got))
            if not more:
                raise EOFError
            got += more
        return got

    def message(self):
        h = parse(self.exactly(64))
        return h, self.exactly(h["length"])

    def answer(self, kind):
        """The next message of this kind; None when the other side closed."""
        try:
            while True:
                h, rest = self.message()
                if h["type"] == TYPE[kind]:
                    return h, rest
        except (EOFError, OSError):
            return None

    def closed(self, seconds=5):
        """Does the other side close within this time, whatever it says before?"""
        self.s.settimeout(seconds)
        try:
            while self.s.recv(65536):
                pass
            return True
        except socket.timeout:
            return False
        except OSError:
            return True

    def close(self):
        self.s.close()


def terms(rest):
    v = struct.unpack("<IIIIIIQ16s32s32s32sQqqq", rest)
    return dict(node=v[0], boot=v[1], run=v[6], ticket=v[7], hashes=v[8:11], data_bytes=v[11])


def ask(port):
    c = Client(port)
    c.send(greet(flags=1))
    return c, terms(c.answer("TERMS")[1])


def join(port, facts, **over):
    """A client that has greeted as a worker, and was let in."""
    c = Client(port)
    c.send(greet(facts, **over))
    got = c.answer("TERMS")
    check(got, "a client that greets properly as a worker is answered")
    c.terms = terms(got[1])
    return c


# --- the run that is attacked ---------------------------------------------------------------------

class Program:
    """A thalweg process; its stderr is read all the time."""

    def __init__(self, *args):
        self.lines = []
        self.p = subprocess.Popen([THALWEG, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  errors="replace")
        self.out = ""
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.hear, self.read)]
        for t in self.threads:
            t.start()

    def hear(self):
        for line in self.p.stderr:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def read(self):
        self.out = self.p.stdout.read()

    def said(self, text):
        return [line for at, line in list(self.lines) if text in line]

    def await_line(self, pattern, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while time.monotonic() < end:
            for at, line in list(self.lines):
                found = re.search(pattern, line)
                if found:
                    return found
            if self.p.poll() is not None:
                break
            time.sleep(0.02)
        return None

    def wait(self, seconds):
        """Its exit code.  One that says nothing for so long is killed; a busy machine only makes it slow."""
        began, code = time.monotonic(), None
        while code is None:
            try:
                code = self.p.wait(0.2)
            except subprocess.TimeoutExpired:
                heard = self.lines[-1][0] if self.lines else began
                if time.monotonic() - max(began, heard) > seconds * SLOW:
                    self.p.kill()
                    self.p.wait()
                    code = "killed by the test: it did not end"
        for t in self.threads:
            t.join(5)
        return code

    def end(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()


class Watch:
    """Memory and file descriptors of a process, at most."""

    def __init__(self, pid):
        self.pid, self.rss, self.fds = pid, 0, 0
        self.over = threading.Event()
        self.t = threading.Thread(target=self.look, daemon=True)
        self.t.start()

    def look(self):
        while not self.over.wait(0.02):
            try:
                with open("/proc/%d/status" % self.pid) as f:
                    kib = re.search(r"VmRSS:\s+(\d+)", f.read())
                if kib:
                    self.rss = max(self.rss, int(kib.group(1)) / 1024)
                self.fds = max(self.fds, len(os.listdir("/proc/%d/fd" % self.pid)))
            except OSError:
                return

    def stop(self):
        self.over.set()
        self.t.join()


class Relay:
    """Between one worker and the master: paces, records, injects, damages."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pace = 0.0
        self.pushes, self.hello = [], None
        self.repeat = 0       # so many of the next pushes are said three times
        self.trick = None     # what happens to the next push: "flip", "cut"
        self.tricks = 0
        self.pairs = []
        self.over = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.over:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for s in (near, far):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append((near, far))
            threading.Thread(target=self.carry, args=(near, far, self.up), daemon=True).start()
            threading.Thread(target=self.carry, args=(far, near, self.down), daemon=True).start()

    def carry(self, source, sink, how):
        try:
            how(source, sink)
        except OSError:
            pass
        for s in (source, sink):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def down(self, source, sink):
        while True:
            some = source.recv(1 << 16)
            if not some:
                return
            sink.sendall(some)

    def up(self, source, sink):
        data = b""
        while True:
            some = source.recv(1 << 16)
            if not some:
                return
            data += some
            if not data.startswith(b"THAW"):  # TLS: nothing to be seen
                time.sleep(self.pace)
                sink.sendall(data)
                data = b""
                continue
            while len(data) >= 64:
                h = parse(data[:64])
                if len(data) < 64 + h["length"]:
                    break
                whole, data = data[:64 + h["length"]], data[64 + h["length"]:]
                if not self.pass_on(h, whole, sink):
                    return

    def pass_on(self, h, whole, sink):
        if h["type"] == TYPE["GREET"]:  # as between two machines: all is hashed
            whole = seal(whole[:44] + struct.pack("<I", h["flags"] & ~LOCAL) + whole[48:56], whole[64:])
        if h["type"] != TYPE["PUSH"]:
            sink.sendall(whole)
            return True
        time.sleep(self.pace / 3)  # one push to each of three shards
        self.pushes = self.pushes[-5:] + [whole]
        trick, self.trick = self.trick, None
        if trick:
            self.tricks += 1
            at = 200
            sink.sendall(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:] if trick == "flip" else whole[:at])
            return trick == "flip"  # or the connection ends in the middle of the frame
        sink.sendall(whole)
        if self.repeat:
            self.repeat -= 1
            sink.sendall(whole + whole)
        return True

    def close(self):
        self.over = True
        self.listener.close()


class Cluster:
    """serve and two workers, one of them through the relay."""

    def __init__(self, name, key=None, job=JOB, pace=0.0):
        self.dir = tempfile.mkdtemp(prefix="hostile-", dir=WORK)
        file = os.path.join(self.dir, "job.yaml")
        with open(file, "w") as f:
            f.write(job)
        self.key = ["--key", key] if key else []
        self.serve = Program("serve", file, "--listen", "127.0.0.1:0", "--http", "off", "--run",
                             os.path.join(self.dir, "run"), "--json", *self.key)
        found = self.serve.await_line(r"to join: thalweg join 127\.0\.0\.1:(\d+)")
        if not found:
            sys.exit("%s: serve does not say where to join: %s" % (name, self.serve.lines))
        self.port = int(found.group(1))
        self.watch = Watch(self.serve.p.pid)
        self.relay = Relay(self.port)
        self.relay.pace = pace
        self.workers = [Program("join", "127.0.0.1:%d" % port, "--json", *self.key)
                        for port in (self.port, self.relay.port)]

    def running(self):
        return self.serve.p.poll() is None

    def finish(self, name, seconds=40):
        self.relay.pace = 0.0
        code = self.serve.wait(seconds)
        self.watch.stop()
        codes = [w.wait(10) for w in self.workers]
        self.relay.close()
        check(code == 0, "%s: serve ends well (%s)" % (name, code))
        check(codes == [0, 0], "%s: the workers end well (%s)" % (name, codes))
        if code != 0 or VERBOSE:
            print("\n".join(line for at, line in self.serve.lines[-60:]))
        try:
            return json.loads(self.serve.out)
        except ValueError:
            check(False, "%s: serve prints a result" % name)
            return {}

    def end(self):
        for p in [self.serve] + self.workers:
            p.end()


# --- attacks --------------------------------------------------------------------------------------

def expect_closed(c, what):
    check(c.closed(), "closed: %s" % what)
    c.close()


def random_bytes(port, rng):
    for k in range(40):
        c = Client(port)
        some = rng.randbytes(rng.choice((1, 7, 64, 65, 500, 9000, 100000)))
        c.send(b"THAW\x01\x00" + some if k % 2 else some)
        if k % 4 == 0 and len(some) >= 64:
            expect_closed(c, "%d random bytes" % len(some))
        c.close()


def bent_frames(port, rng, facts):
    good = greet(facts)
    for at in (1, 4, 8, 63, 64, 65, 100, len(good) - 1):  # the connection ends inside the frame
        c = Client(port)
        c.send(good[:at])
        c.close()
    huge = 0xFFFFFFFF
    for what, f in (
            ("a length of 4 GiB", frame("GREET", length=huge)),
            ("a payload of 4 GiB", frame("PUSH", length=BODY["PUSH"] + 262144, payload_=huge, receiver=SHARD)),
            ("a tail of 4 GiB", frame("HELLO", receiver=MASTER, length=64)[:48] + struct.pack("<II", huge, 0) +
             bytes(80)),
            ("a tail above 16 MiB", frame("HELLO", length=64 + (16 << 20) + 16)[:64])):
        c = Client(port)
        c.send(f)
        expect_closed(c, what)
    for field, value in (("tail_", huge), ("payload_", huge), ("length", 0), ("length", huge), ("chunk", 1),
                         ("chunk", 65535), ("sender", 4), ("receiver", 255), ("type", 0), ("type", 33),
                         ("type", 65535), ("magic", 0x46445450)):
        c = Client(port)
        over = {field: value}
        c.send(frame("GREET", good[64:], **over))
        expect_closed(c, "GREET with %s %d" % (field, value))
    for at in (0, 10, 56, 63, 64, 90, len(good) - 1):  # damaged somewhere
        c = Client(port)
        c.send(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:])
        expect_closed(c, "GREET with byte %d damaged" % at)


def other_version(cluster, port, facts):
    time.sleep(1.1)  # a new second: this one is not among those that are only counted
    for major in (0, 1, 3, 255):
        c = Client(port)
        c.send(frame("GREET", greet(facts)[64:], major=major))
        got = c.answer("DENY")
        check(got and b"version %d.0" % major in got[1], "major version %d is denied by name" % major)
        expect_closed(c, "major version %d" % major)
    check(cluster.serve.await_line(r"127\.0\.0\.1:\d+: .*version 3\.0"), "and so does the log")


def not_greeted(port):
    for kind in TYPES:
        if kind in ("GREET",):
            continue
        c = Client(port)
        c.send(frame(kind, sender=WORKER, receiver=SHARD if kind in ("PUSH", "PULL") else MASTER,
                     payload=b"" if kind != "PUSH" else bytes(4)))
        expect_closed(c, "%s before a greeting" % kind)


def other(sha):
    """A hash that differs in its last bit only."""
    return sha[:-1] + bytes([sha[-1] ^ 1])


def denied(cluster, port, facts):
    h = facts["hashes"]
    for what, word, hashes in (("job", "another job", (other(h[0]), h[1], h[2])),
                               ("layout", "and workers is different", (h[0], other(h[1]), h[2])),
                               ("data", "another data set", (h[0], h[1], other(h[2])))):
        c = Client(port)
        c.send(greet(dict(hashes=hashes)))
        got = c.answer("DENY")
        check(got and word.encode() in got[1], "another %s is denied with a sentence" % what)
        expect_closed(c, "another " + what)
    for what, g in (("a node that it was not given", greet(facts, node=2, boot=1, run=facts["run"], ticket=bytes(15) + b"7")),
                    ("node 0", greet(facts, node=0, boot=1, run=facts["run"], ticket=bytes(15) + b"7")),
                    ("node 1 as a server", greet(facts, role=SERVER, node=1, boot=1, run=facts["run"], ticket=bytes(16))),
                    ("another run", greet(facts, node=2, boot=1, run=5, ticket=bytes(15) + b"7")),
                    ("a server too many", greet(facts, role=SERVER)),
                    ("the role of the master", greet(facts, role=MASTER)),
                    ("no role", greet(facts, role=77))):
        c = Client(port)
        c.send(g)
        check(c.answer("DENY"), "denied: %s" % what)
        expect_closed(c, what)


def foreign_words(port, facts):
    """A worker by its greeting that speaks for others, or says what nobody says to a master."""
    says = {"HELLO", "BYE", "DONE", "IDLE", "PUSH", "PULL", "RESULT", "PART", "PING"}
    for kind in TYPES:
        for sender in (MASTER, SERVER, SHARD, WORKER):
            if kind in says and sender == WORKER or kind in ("PING", "LEAVING"):
                continue
            c = join(port, facts)
            c.send(frame(kind, sender=sender, receiver=SHARD, payload=b"" if kind != "PUSH" else bytes(4)))
            expect_closed(c, "%s from a worker that speaks as role %d" % (kind, sender))
    for kind in ("HELLO", "PUSH"):
        c = join(port, facts)
        c.send(frame(kind, receiver=WORKER))
        expect_closed(c, "%s that a worker says to a worker" % kind)


def bad_requests(port, facts):
    for what, body in (("nothing", struct.pack("<IIQQ", 0, 0, 0, 10)), ("too much", struct.pack("<IIQQ", 1, 0, 0, 1 << 40)),
                       ("beyond the end", struct.pack("<IIQQ", 2, 0, facts["data_bytes"], 1)),
                       ("around the end", struct.pack("<IIQQ", 2, 0, (1 << 64) - 8, 16)),
                       ("the model of a run that is not over", struct.pack("<IIQQ", 3, 0, 0, 1)),
                       ("nothing of that model", struct.pack("<IIQQ", 3, 0, 0, 0)),
                       ("another kind", struct.pack("<IIQQ", 9, 0, 0, 1))):
        c, _ = ask(port)
        c.send(frame("DATA", body))
        check(c.answer("DENY"), "data is not given: %s" % what)
        expect_closed(c, "asked for " + what)
    c, _ = ask(port)
    c.send(frame("DATA", struct.pack("<IIQQ", 2, 0, max(facts["data_bytes"] - 9, 0), min(9, facts["data_bytes"]))))
    check(c.answer("DATA"), "the end of the data set is given")
    c.close()


def wrong_pushes(port, facts, recorded):
    """Contributions as the recorded ones, but from another node, and wrong in themselves."""
    c = join(port, facts)
    h = parse(recorded[:64])
    border = 64 + BODY["PUSH"]
    body, payload = recorded[64:border], recorded[border:]
    nan = struct.pack("<f", float("nan"))

    def push(b=body, p=payload, **over):
        o = {f: h[f] for f in ("sender", "receiver", "view", "from_", "incarnation", "seq", "shard", "flags")}
        o.update(over)
        return frame("PUSH", b, payload=p, **o)

    def with_u32(field, value):
        at = AT["PUSH"][field]
        return body[:at] + struct.pack("<I", value) + body[at + 4:]

    c.send(recorded, recorded)
    c.send(push(p=nan * (len(payload) // 4)), push(p=payload[:-4]), push(p=payload + b"0000"), push(p=b""),
           push(b=with_u32("ranges", 7)), push(b=with_u32("ranges", NEW)), push(b=with_u32("account.samples", NEW)),
           push(b=with_u32("account.own_steps", NEW)), push(b=with_u32("account.steps", NEW)), push(seq=h["seq"] + 1), push(seq=1 << 63), push(seq=0),
           push(b=with_link(body, h["seq"] + 1)), push(b=with_link(body, 1 << 63)), push(b=with_link(body, 0)),
           push(shard=7), push(shard=65535), push(view=0), push(view=(1 << 64) - 1), push(from_=NEW), push(from_=2),
           push(flags=NEW ^ LENT), push(flags=2, p=b""), push(flags=256), push(flags=2048))
    for kind in ("DONE", "IDLE", "BYE", "RESULT", "PART", "PULL", "HELLO"):
        c.send(frame(kind, view=h["view"], from_=h["from_"], incarnation=h["incarnation"], seq=h["seq"],
                     receiver=SHARD if kind == "PULL" else MASTER))
        c.send(frame(kind, view=h["view"], from_=NEW, incarnation=NEW, seq=NEW,
                     receiver=SHARD if kind == "PULL" else MASTER))
    c.send(frame("HELLO", struct.pack("<IIIIQQQQIIQ", SERVER, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0)))
    c.send(frame("HELLO", struct.pack("<IIIIQQQQIIQ", 9, NEW, NEW, NEW, NEW, NEW, NEW, NEW, NEW, 0, 0), tail=bytes(16000)))
    check(c.send(frame("HELLO", bytes(64), flags=FRESH)), "still connected after words that mean nothing")
    got = c.answer("REFUSE")
    check(got, "a removed or unknown worker is told that it is fenced")
    for flags in (LENT, NEW):  # an address in place of bytes: only on a socket pair, and if asked for
        c = join(port, facts)
        c.send(push(flags=flags))
        expect_closed(c, "a push that is lent, flags %x" % flags)
    for what, f in (("a shard beyond what there can be", push(shard=65536)),
                    ("more payload than a push has", push(p=bytes(262144), payload_=1 << 30))):
        c2 = join(port, facts)
        c2.send(f)
        expect_closed(c2, what)
    return c


def claims(port, facts, relay):
    """A stranger that says it is a real worker, newer than that one is; one pull would do."""
    c = join(port, facts)
    for k in range(5):
        recorded = relay.pushes[-1]
        h = parse(recorded[:64])
        for incarnation in (h["incarnation"] + 1, h["incarnation"] | 0xFFFFF):
            o = dict(view=h["view"], from_=h["from_"], incarnation=incarnation, receiver=SHARD)
            for shard in range(3):
                c.send(frame("PULL", shard=shard, flags=FRESH, **o))
                border = 64 + BODY["PUSH"]
                c.send(frame("PUSH", with_link(recorded[64:border], 1), payload=recorded[border:], shard=shard, seq=1, **o))
        time.sleep(0.1)
    return c


def flood(what, port, make, first, seconds, lots):
    """Ask all the time, never read; returns how many bytes went."""
    c = Client(port, small=True)
    c.send(first)
    c.answer("TERMS")
    c.s.settimeout(0.2)
    block, sent, end = make(c) * lots, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            sent += c.s.send(block[sent % len(block):] or block)
        except socket.timeout:
            continue
        except OSError:
            break
    return c, sent


class Hold:
    """Connections that stay: silent ones, and one byte a second."""

    def __init__(self, port, facts):
        self.silent = []
        for _ in range(1000):
            s = socket.socket()
            s.settimeout(10)
            try:
                s.connect(("127.0.0.1", port))
            except OSError:
                pass
            self.silent.append(s)
        self.slow = [Client(port) for _ in range(5)]
        self.over = threading.Event()
        self.word = greet(facts)
        self.t = threading.Thread(target=self.drip, daemon=True)
        self.t.start()

    def drip(self):
        for k in range(len(self.word)):
            for c in self.slow:
                c.send(self.word[k:k + 1])
            if self.over.wait(1):
                return

    def end(self):
        self.over.set()
        self.t.join()
        for s in self.silent:
            s.close()
        for c in self.slow:
            c.close()


def hurry(port, count):
    """Connections that are closed as soon as they are there; some have greeted halfway."""
    for k in range(count):
        s = socket.socket()
        s.settimeout(10)
        try:
            s.connect(("127.0.0.1", port))
            if k % 10 == 0:
                s.send(b"THAW\x01")
            if k % 3 == 0:  # with a reset
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        s.close()


def tls_to_plain(port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
            context.wrap_socket(s).close()
        return False
    except (OSError, ssl.SSLError):
        return True


# --- scenes ---------------------------------------------------------------------------------------

def quiet_lines(cluster, name, begun):
    """Refusals name the peer and are few: at most six a second (five, and how many more there were)."""
    lines = [(at, x) for at, x in cluster.serve.lines if re.search(r"127\.0\.0\.1:\d+: |more connections were refused", x)]
    check(len(lines) > 5, "%s: refusals are in the log (%d lines)" % (name, len(lines)))
    seconds = max(1.0, (lines[-1][0] - lines[0][0]) if lines else 0)
    check(len(lines) <= 6 * (seconds + 2), "%s: refusals are few: %d lines in %.1f s" % (name, len(lines), seconds))
    check(len(cluster.serve.lines) < 6 * (time.monotonic() - begun + 2) + 1000,
          "%s: the whole log has %d lines" % (name, len(cluster.serve.lines)))


def same(name, result, reference):
    check(result.get("parameters_digest") == reference["parameters_digest"],
          "%s: the same parameters as undisturbed" % name)
    check(result.get("samples") == SAMPLES and result.get("repeated") == 0 and result.get("dropped") == 0,
          "%s: every sample once (%s, repeated %s, dropped %s)" %
          (name, result.get("samples"), result.get("repeated"), result.get("dropped")))


def bounded(name, cluster, base):
    check(cluster.watch.rss < base.rss + 64 * SLOW, "%s: memory %.0f MiB, undisturbed %.0f MiB" %
          (name, cluster.watch.rss, base.rss))
    check(cluster.watch.fds < base.fds + 450, "%s: %d file descriptors, undisturbed %d" %
          (name, cluster.watch.fds, base.fds))


def undisturbed():
    c = Cluster("undisturbed")
    try:
        result = c.finish("undisturbed")
    finally:
        c.end()
    return result, c.watch


def step(name, f, *args):
    began = time.monotonic()
    got = f(*args)
    if VERBOSE:
        print("%5.1f s  %s" % (time.monotonic() - began, name), flush=True)
    return got


def training(c):
    """Wait until pushes pass; False: the run is over or never began."""
    end = time.monotonic() + 20 * SLOW
    while time.monotonic() < end and not c.relay.pushes and c.running():
        time.sleep(0.02)
    return bool(c.relay.pushes)


def in_the_clear(reference, base):
    begun = time.monotonic()
    rng = random.Random(SEED)
    c = Cluster("clear", pace=0.03)
    try:
        port = c.port
        check(training(c), "clear: the run begins")
        asker, facts = ask(port)
        hold = step("1000 silent", Hold, port, facts)
        step("random bytes", random_bytes, port, rng)
        step("bent frames", bent_frames, port, rng, facts)
        step("another version", other_version, c, port, facts)
        step("before a greeting", not_greeted, port)
        step("denied", denied, c, port, facts)
        step("foreign words", foreign_words, port, facts)
        step("bad requests", bad_requests, port, facts)
        check(tls_to_plain(port), "TLS is not understood in the clear")
        kept = [step("wrong pushes", wrong_pushes, port, facts, c.relay.pushes[-1])]
        kept.append(step("claims", claims, port, facts, c.relay))
        c.relay.repeat = 12
        for trick in ("flip", "cut"):
            c.relay.trick = trick
            end = time.monotonic() + 10 * SLOW
            while c.relay.trick and time.monotonic() < end:
                time.sleep(0.02)
        check(c.relay.tricks == 2, "a worker's connection was damaged and cut")
        step("5000 connections", hurry, port, 5000)
        full = frame("HELLO", struct.pack("<IIIIQQQQIIQ", WORKER, NEW, 0, 0, 0, 0, 0, 0, 1, 0, 0), flags=FRESH)
        h = parse(c.relay.pushes[-1][:64])
        floods = (("HELLO", lambda x: full, greet(facts), 2000),
                  ("PULL", lambda x: frame("PULL", view=h["view"], from_=h["from_"], receiver=SHARD), greet(facts), 2000),
                  ("DATA", lambda x: frame("DATA", struct.pack("<IIQQ", 2, 0, 0, min(facts["data_bytes"], 1 << 20))),
                   greet(flags=1), 500))
        for name, make, first, lots in floods:
            kept.append(step("flood of " + name, flood, name, port, make, first, 1.5, lots)[0])
        check(c.running(), "clear: the run outlasts the attacks")
        for x in kept + [asker]:
            x.close()
        result = c.finish("clear")
        hold.end()
    finally:
        c.end()
    same("clear", result, reference)
    bounded("clear", c, base)
    quiet_lines(c, "clear", begun)


def with_a_key(reference, base):
    begun = time.monotonic()
    rng = random.Random(SEED + 1)
    keys = []
    for name in ("right", "wrong"):
        keys.append(os.path.join(WORK, name + ".key"))
        with open(keys[-1], "w") as f:
            subprocess.run([THALWEG, "key"], stdout=f, check=True)
        os.chmod(keys[-1], 0o600)
    c = Cluster("key", key=keys[0], pace=0.02)
    try:
        port = c.port
        for _ in range(int(100 * SLOW)):
            if c.relay.pairs:
                break
            time.sleep(0.05)
        time.sleep(0.5)
        wrong = Program("join", "127.0.0.1:%d" % port, "--key", keys[1])
        plain = Program("join", "127.0.0.1:%d" % port, "--json")
        code = wrong.wait(20)
        check(code not in (0, "killed by the test: it did not end") and wrong.lines,
              "another key: join ends (%s) and says why: %s" % (code, [x for _, x in wrong.lines[-1:]]))
        check(c.serve.await_line(r"127\.0\.0\.1:\d+: .*key"), "the log says that a key was wrong")
        hold = step("1000 silent", Hold, port, None)
        step("random bytes", random_bytes, port, rng)
        client = Client(port)
        client.send(greet(flags=1))
        expect_closed(client, "a greeting in the clear at a port with a key")
        check(tls_to_plain(port), "TLS without the key is refused")
        step("2000 connections", hurry, port, 2000)
        plain.end()
        check(plain.lines, "no key: join says what is wrong: %s" % [x for _, x in plain.lines[-1:]])
        check(c.running(), "key: the run outlasts the attacks")
        result = c.finish("key")
        hold.end()
    finally:
        c.end()
    same("key", result, reference)
    bounded("key", c, base)
    quiet_lines(c, "key", begun)


class Member(Client):
    """A worker that the master has welcomed: it knows its slot, and where the shards are."""

    def __init__(self, port, facts, small=False):
        super().__init__(port, small)
        self.send(greet(facts))
        self.answer("TERMS")
        self.send(frame("HELLO", struct.pack("<IIIIQQQQIIQ", WORKER, NEW, 0, 0, 0, 0, 0, 0, 1, 0, 0), flags=FRESH))
        got = self.answer("WELCOME")
        check(got, "there is a slot for a third worker, and it is welcomed")
        self.view = got[0]["view"] if got else 0
        self.slot, self.incarnation = struct.unpack_from("<II", got[1]) if got else (0, 0)

    def says(self, kind, body=None, **over):
        o = dict(view=self.view, from_=self.slot, incarnation=self.incarnation, receiver=SHARD)
        o.update(over)
        return frame(kind, body, **o)

    def pull(self, shard):
        return self.says("PULL", struct.pack("<IIQQQQQQII", 0, 0, 0, 0, 0, 1, NEVER, 0, 0, 0), shard=shard, flags=FRESH)


def with_link(body, number):
    """The body of a PUSH, with another number of its link."""
    at = AT["PUSH"]["link"]
    return body[:at] + struct.pack("<Q", number) + body[at + 8:]


def finite_numbers(c, body, size):
    """What is finite is believed, whatever it does to the model: nobody can know what a gradient should be."""
    c.send(c.says("PUSH", with_link(body, 1), seq=1, payload=struct.pack("<f", 1e-6) * (size // 4)))
    h, _ = c.message()
    while h["type"] not in (TYPE["ACK"], TYPE["PARAMS"]):
        h, _ = c.message()
    check(not h["flags"] & 12, "a gradient that a member made up is taken")


def bad_numbers(port, facts):
    """A member whose contributions are not finite is told so, and at last let go."""
    c = Member(port, facts)
    c.send(c.pull(0))
    got = c.answer("PARAMS")
    if not check(got, "a member is given the parameters"):
        return c
    size, base = got[0]["payload"], got[1][:16]
    body = bytearray(base + bytes(BODY["PUSH"] - len(base)))
    for field in ("account.steps", "account.samples", "ranges", "range.count"):
        struct.pack_into("<I", body, AT["PUSH"][field], 1)
    for field in ("account.weight", "account.divide"):
        struct.pack_into("<f", body, AT["PUSH"][field], 1.0)
    for field in ("number", "clock", "link"):
        struct.pack_into("<Q", body, AT["PUSH"][field], 1)
    body, told = bytes(body), 0
    finite_numbers(c, body, size)
    for seq in range(2, 40):
        c.send(c.says("PUSH", with_link(body, seq), seq=seq, payload=struct.pack("<f", float("nan")) * (size // 4)))
        time.sleep(0.05)
        h, rest = c.message()
        told += h["type"] == TYPE["ACK"] and h["flags"] & 12 == 12
        if h["type"] == TYPE["REFUSE"] and rest[0] == 3:
            break
    check(told > 0, "it is told that its numbers are not finite (%d times)" % told)
    check(h["type"] == TYPE["REFUSE"], "and it is let go after %d of them" % seq)
    return c


def from_within(base):
    """No rounds, and a third slot: members that push nonsense, or ask all the time and never read."""
    job = JOB.replace("gate: bsp", "gate: async").replace("workers: 2", "workers: 3, min: 2").replace(
        "limit: 8s, suspect: 3s", "limit: 3s, suspect: 1s").replace("wait: 30s", "wait: 2s").replace(
            "rate: 0.05", "rate: 0.02")
    c = Cluster("within", job=job, pace=0.02)
    try:
        check(training(c), "within: the run begins")
        asker, facts = ask(c.port)
        kept = [asker, step("bad numbers", bad_numbers, c.port, facts)]
        m = Member(c.port, facts, small=True)
        block, sent, end = b"".join(m.pull(k % 3) for k in range(3000)), 0, time.monotonic() + 2
        m.s.settimeout(0.2)
        while time.monotonic() < end:
            try:
                sent += m.s.send(block[sent % len(block):])
            except OSError:
                pass
        check(c.running(), "within: the run outlasts the attacks")
        result = c.finish("within")
    finally:
        c.end()
    # the contribution that a member made up says that it is of sample 0
    check(result.get("samples") == SAMPLES and result.get("repeated") <= 1,
          "within: every sample once (%s, repeated %s)" % (result.get("samples"), result.get("repeated")))
    check(result.get("refused", 0) > 0, "within: what was refused is counted")
    check(result.get("accuracy", 0) > 0.85, "within: it has learned (%s)" % result.get("accuracy"))
    check(c.serve.said("not finite"), "within: the log says who was let go")
    check(c.serve.said("has not read") or c.serve.said("was silent"), "within: the log says who did not read")
    bounded("within", c, base)
    for x in kept + [m]:
        x.close()


def main():
    global WORK
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    WORK = tempfile.mkdtemp(prefix="thalweg-hostile-")
    random.seed(SEED)
    try:
        reference, base = step("undisturbed", undisturbed)
        if not failures:
            step("in the clear", in_the_clear, reference, base)
            step("with a key", with_a_key, reference, base)
            step("from within", from_within, base)
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    print("hostile: %s" % ("%d failures" % len(failures) if failures else "all as it must be"))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
