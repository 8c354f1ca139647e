#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""liars.py - masters that lie to those who join them, and text that a terminal would obey.

A small master of this test answers `thalweg join`.  It has learned its facts from a real one, and
then says what no honest one says: sentences with control characters, jobs that are wrong, long or
slow.  The joiner must print nothing that a terminal obeys, and one signal must stop it.

    TW_BUILD=build test/cluster/liars.py [-v]
"""
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import hostile
from hostile import THALWEG, TYPE, WORKER, Client, Program, check, frame, greet, parse

EVIL = (b"\x1b]0;owned\x07\x1b[31m \x9b32m \xc2\x9b33m \x7f \xe2\x80\xae \xe2\x80\xa8 \xe2\x81\xa6 \xff\xc3 "
        b"\r\nthalweg: a line of my own")
SMALL = "data: {source: digits, count: 200, tests: 20, batch: 20}\nmodel: {name: mlp, hidden: [8]}\ntrain: {epochs: 1}\ncluster: {workers: 2}\n"
PIECE = 256 << 10


def is_printable(data):
    """Nothing but printable characters and line ends; what is wrong, or None."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        return "no UTF-8 at %r" % data[max(0, e.start - 20):e.start + 20]
    for k, c in enumerate(text):
        n = ord(c)
        if (n < 0x20 and c != "\n") or 0x7f <= n < 0xa0 or 0x2028 <= n <= 0x202e or 0x2066 <= n <= 0x2069:
            return "U+%04X in %r" % (n, text[max(0, k - 20):k + 20])
    return None


def clean(name, *outputs):
    for data in outputs:
        wrong = is_printable(data)
        check(not wrong, "%s: only printable text (%s)" % (name, wrong))


class Facts:
    """What a real master says: replayed byte for byte by those who lie."""

    def __init__(self, work):
        file = os.path.join(work, "job.yaml")
        with open(file, "w") as f:
            f.write(SMALL)
        serve = Program("serve", file, "--listen", "127.0.0.1:0", "--http", "off", "--run", os.path.join(work, "run"))
        try:
            port = int(serve.await_line(r"to join: thalweg join 127\.0\.0\.1:(\d+)").group(1))
            c = Client(port)
            c.send(greet(flags=1))
            self.asked = self.whole(c)
            facts = hostile.terms(self.asked[64:])
            c.send(frame("DATA", struct.pack("<IIQQ", 1, 0, 0, 0)))
            size = struct.unpack_from("<Q", c.answer("DATA")[1], 16)[0]
            c.send(frame("DATA", struct.pack("<IIQQ", 1, 0, 0, size)))
            self.job = c.answer("DATA")[1][24:]
            c.close()
            c = Client(port)
            c.send(greet(facts))
            self.joined = self.whole(c)
            c.close()
        finally:
            serve.end()

    @staticmethod
    def whole(c):
        """The next message with its header."""
        head = c.exactly(64)
        return head + c.exactly(parse(head)["length"])


class Liar:
    """A master in the clear; `scene` is asked what to do."""

    def __init__(self, facts, job=None, ask=None, join=None, given=None):
        self.facts, self.job = facts, facts.job if job is None else job
        self.ask, self.join, self.given = ask, join, given
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.over = False
        self.served = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.over:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(s,), daemon=True).start()

    def talk(self, s):
        c = Client.__new__(Client)
        c.s = s
        s.settimeout(60)
        try:
            h, rest = c.message()
            asks = struct.unpack_from("<II", rest)[1] & 1
            act = self.ask if asks else self.join
            if act and act(c):
                return
            c.send(self.facts.asked if asks else self.facts.joined)
            while True:
                h, rest = c.message()
                if h["type"] == TYPE["DATA"]:
                    self.give(c, rest)
        except (EOFError, OSError):
            pass

    def give(self, c, rest):
        what, _, start, size = struct.unpack("<IIQQ", rest)
        if self.given:
            self.given(start)
        piece = self.job[start:start + size]
        self.served += len(piece)
        c.send(frame("DATA", struct.pack("<IIQQ", what, 0, start, size or len(self.job)), payload=piece))

    def close(self):
        self.over = True
        self.listener.close()


def deny(c):
    c.send(frame("DENY", struct.pack("<II", 6, 0), payload=EVIL))
    time.sleep(0.5)
    c.close()
    return True


def joins(port, *more, seconds=30):
    """thalweg join to its end: exit code, stdout, stderr; everything as bytes."""
    p = subprocess.Popen([THALWEG, "join", "127.0.0.1:%d" % port, "--patience", "20s", *more],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = p.communicate(timeout=seconds * hostile.SLOW)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        return "killed by the test", out, err
    return p.returncode, out, err


def denials(facts):
    for name, how in (("DENY to one who asks", dict(ask=deny)), ("DENY to one who joins", dict(join=deny))):
        liar = Liar(facts, **how)
        code, out, err = joins(liar.port)
        liar.close()
        clean(name, out, err)
        check(code == 1 and b"owned" in err, "%s: it ends with the sentence (%s)" % (name, code))
        check(not any(x.startswith(b"thalweg: a line of") for x in err.split(b"\n")), "%s: in one line" % name)


def jobs(facts):
    evil = r'"\e]0;owned\a\x7f\x9b31m\u202e\L\P\N"'.encode()
    for name, text in (("a value", b"model: {name: " + evil + b"}\n"), ("a field", b"train: {" + evil + b": 1}\n"),
                       ("a layer", b"data: {source: digits}\nmodel: {layers: [" + evil + b"]}\n"),
                       ("a number", b"train: {epochs: " + evil + b"}\n"), ("a source", b"data: {source: " + evil + b"}\n"),
                       ("raw bytes", b"train: {epochs: " + EVIL + b"}\n"), ("a file", b"data: {source: csv, file: " + evil + b"}\n"),
                       ("no YAML", b"{[" + EVIL)):
        liar = Liar(facts, job=text)
        code, out, err = joins(liar.port)
        liar.close()
        clean("a job with %s that a terminal obeys" % name, out, err)
        check(code in (1, 2) and err, "a job with such %s: refused with a sentence (%s)" % (name, code))


MOST = 1500 << 20  # bytes of memory that a joiner may take for a job it cannot do


def chosen(work):
    """Jobs that a master may choose to do harm: they are refused with a sentence, soon, and within
    bounds; files that they name on the joiner's machine are not opened."""
    fifo = os.path.join(work, "fifo")
    os.mkfifo(fifo)  # who opens it waits for ever
    small = b"data: {source: digits, count: 200, tests: 20, batch: 20}\n"
    mlp = b"model: {name: mlp, hidden: [8]}\n"
    path = fifo.encode()
    nines = b"9" * 18
    yield from {
        "samples": b"data: {source: digits, count: %s}\n" % nines + mlp,
        "tests": b"data: {source: digits, count: 200, tests: %s}\n" % nines + mlp,
        "samples that a field takes": b"data: {source: digits, count: 10000000}\n" + mlp,
        "a dimension that a field takes": b"data: {source: none, samples: 9}\nmodel: {quadratic: {dimension: 10000000000}}\n",
        "layers that a field takes": small + b"model: {name: mlp, hidden: [1000000, 1000000]}\n",
        "a batch that a field takes": b"data: {source: digits, count: 200, batch: 1000000000}\nmodel: {layers: [linear 1000000, linear 10]}\n",
        "a batch": b"data: {source: digits, count: 200, batch: 2000000000}\n" + mlp,
        "accumulate": b"data: {source: digits, count: 200, batch: 20, accumulate: 2000000000}\n" + mlp,
        "samples of nothing": b"data: {source: none, samples: %s}\nmodel: {quadratic: {dimension: 10}}\n" % nines,
        "a dimension": b"data: {source: none, samples: 9}\nmodel: {quadratic: {dimension: %s}}\n" % nines,
        "a hidden layer": small + b"model: {name: mlp, hidden: [2000000000, 2000000000]}\n",
        "many layers": small + b"model: {layers: [%s linear 10]}\n" % (b"linear 8, " * 20000),
        "a long layer": small + b"model: {layers: [%s 10]}\n" % (b"x" * 200000),
        "a filter": small + b"model: {layers: [conv 65535 65535x65535, linear 10]}\n",
        "workers": small + mlp + b"cluster: {workers: 4000000000}\n",
        "shards": small + mlp + b"cluster: {shards: 4000000000}\n",
        "servers": small + mlp + b"cluster: {servers: 4000000000}\n",
        "stages": small + mlp + b"cluster: {stages: 4000000000}\n",
        "lanes": small + mlp + b"cluster: {lanes: [%s1]}\n" % (b"1, " * 20000),
        "epochs": small + mlp + b"train: {epochs: 1e300}\n",
        "a seed": small + mlp + b"train: {seed: -1}\n",
        "a file of data": b"data: {source: csv, file: %s}\nmodel: mlp\n" % path,
        "a path of data": b"data: {source: mnist, path: %s}\n" % os.path.dirname(path) + mlp,
        "weights": small + b"model: {name: mlp, hidden: [8], weights: %s}\n" % path,
        "a deep list": b"data: " + b"[" * 100000,
        "a deep mapping": b"".join(b" " * k + b"a:\n" for k in range(400)),
        "aliases": b"a: &a [x, x, x, x, x, x, x, x]\n" +
                   b"".join(b"%c: &%c [*%c, *%c, *%c, *%c]\n" % (k + 1, k + 1, k, k, k, k) for k in range(97, 117)),
        "a tag": b"!!python/object/apply:os.system [id]\n",
        "many fields": b"".join(b"f%d: 1\n" % k for k in range(100000)),
        "a strategy": small + mlp + b"strategy: {name: ssgd, codec: {up: topk, up_share: 1e-300}}\n",
        "periods": small + mlp + b"strategy: {name: averaging, push: 4000000000}\n",
        "times": small + mlp + b"cluster: {heartbeat: 1ns, suspect: 1ns, limit: 1ns}\n",
        "nothing": b"",
        "zeros": bytes(1000),
    }.items()


def bounded():
    """However much the machine has."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * MOST, 2 * MOST))


def chosen_jobs(facts, work):
    for name, text in chosen(work):
        liar = Liar(facts, job=text)
        p = subprocess.Popen([THALWEG, "join", "127.0.0.1:%d" % liar.port, "--patience", "5s"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             preexec_fn=None if hostile.SLOW > 1 else bounded)
        timer = threading.Timer(60 * hostile.SLOW, p.kill)
        timer.start()
        err = p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        timer.cancel()
        p.stdout.close()
        liar.close()
        code = os.waitstatus_to_exitcode(status)
        check(code in (1, 2) and err, "a job with %s: refused with a sentence (%s): %s" % (name, code, err[-200:]))
        check(usage.ru_maxrss << 10 < MOST * hostile.SLOW, "a job with %s: %d KiB" % (name, usage.ru_maxrss))
        clean("a job with %s" % name, err)


def peers_and_end(facts, work):
    result = b'{"strategy": "%s", "\\u001bkey": ["\\u009b31m\\u007f\\u202eowned"]}' % rb"\u001b]0;owned\u0007"

    def act(c):
        c.send(facts.joined)
        place = struct.pack("<IIII16s112s", 2, 1, 9, 1, bytes(16), EVIL)
        c.send(frame("PEERS", struct.pack("<Q", 9), tail=place, sender=0))
        time.sleep(1.5)
        c.send(frame("OVER", struct.pack("<IIQQ32s", 0, 0, 0, 0, bytes(32)), payload=result, sender=0))
        time.sleep(1)
        return True

    for more in ((), ("--json",)):
        log = os.path.join(work, "log.jsonl")
        liar = Liar(facts, join=act)
        code, out, err = joins(liar.port, "--log", log, *more)
        liar.close()
        with open(log, "rb") as f:
            clean("PEERS and OVER", out, err, f.read())
        check(code == 0, "PEERS and OVER: it ends as the master says (%s): %s" % (code, err[-300:]))
        check(b"cannot reach server 1" in err, "PEERS: it says whom it cannot reach: %s" % err[-400:])
        check(not more or b"owned" in out, "OVER: the result is shown")


def stopped(facts):
    """One signal stops a joiner that reads what its master gives it: slowly, or a job that takes long."""
    long = b"data: {source: digits, count: 3000000, tests: 20, batch: 20}\nmodel: {name: mlp, hidden: [8]}\ntrain: {epochs: 1}\n"
    for name, how in (("a huge job that comes slowly", dict(job=b"#" * (1 << 20), given=lambda start: time.sleep(2))),
                      ("a job whose data takes long", dict(job=long))):
        for number in (signal.SIGTERM, signal.SIGINT):
            liar = Liar(facts, **how)
            p = subprocess.Popen([THALWEG, "join", "127.0.0.1:%d" % liar.port], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(1.5 * hostile.SLOW)
            check(p.poll() is None, "%s: it is still at it" % name)
            began = time.monotonic()
            p.send_signal(number)
            try:
                out, err = p.communicate(timeout=6 * hostile.SLOW)
            except subprocess.TimeoutExpired:
                p.kill()
                out, err = p.communicate()
            check(p.returncode == 75, "%s: one signal stops it (%s after %.1f s): %s" %
                  (name, p.returncode, time.monotonic() - began, err[-200:]))
            clean(name, out, err)
            liar.close()


def local(work):
    """What users and files bring along."""
    evil = "\x1b]0;owned\x07\u009b31m\x7f\u202e"
    path = os.path.join(work, evil + ".csv")
    with open(path, "w") as f:
        f.write("a,b\n1,2\n3,%s\n" % evil)
    job = os.path.join(work, evil + ".yaml")
    with open(job, "w") as f:
        f.write("data: {source: csv, file: '%s'}\nmodel: {name: linear}\n" % path.replace("\x1b", "?"))
    for args in (["data", "check", job], ["data", "check", path], ["inspect", path], ["inspect", job], ["train", job], ["eval", path],
                 [evil], ["train", "--" + evil], ["train", job, "--set", evil], ["train", job, "--set", "train.epochs=" + evil],
                 ["help", evil], ["join", evil], ["join", "h:1", "--key", path], ["train", job, "--run", path],
                 ["serve", job, "--listen", evil], ["train", "--set", "data.source=csv", "--set", "data.file=" + path]):
        p = subprocess.run([THALWEG, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        clean("thalweg %r" % args[:2], p.stdout, p.stderr)
        check(p.returncode in (0, 1, 2) and (p.returncode == 0 or p.stderr), "thalweg %r: %d" % (args[:2], p.returncode))


def main():
    work = tempfile.mkdtemp(prefix="thalweg-liars-")
    try:
        facts = Facts(work)
        for scene in (lambda: denials(facts), lambda: jobs(facts), lambda: chosen_jobs(facts, work),
                      lambda: peers_and_end(facts, work), lambda: stopped(facts), lambda: local(work)):
            scene()
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print("liars: %s" % ("%d failures" % len(hostile.failures) if hostile.failures else "nobody believed them"))
    sys.exit(1 if hostile.failures else 0)


if __name__ == "__main__":
    main()
