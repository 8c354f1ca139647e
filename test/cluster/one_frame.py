#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""one_frame.py [--full [COUNT [SEED]] | NAME...]: one frame of one worker is lost, said twice, late
or altered.

A worker reaches the master, and the workers that it dials, through relays of this test.  One frame of
one kind, in one direction, does not arrive as it was sent; all others do.  Whatever the strategy: the
run ends by itself, or names that worker and removes it, within three times cluster.stuck and 15
seconds; nobody else is removed in its place, and no process crashes.  Unless the frame was altered,
the totals are right, too: every sample once where rounds promise that.

--full draws COUNT cases (750) from the seeds from SEED (1) on, over all presets that processes
accept; in about a third of them no such frame comes along.  A case is named
PRESET:WAY:KIND:NTH:DEED:SEED and can be run alone."""
import os
import random
import re
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from cluster import SLACK, THALWEG, Cluster, main, need, side_by_side
from false_peers import Frames, Liar, changed
from hostile import AT, BODY, TYPE, TYPES

STUCK = 2.0
ALLOWED = 3 * STUCK + 15  # seconds in which nothing may move
STAGED = ("gpipe", "pipedream-flush", "pipedream", "pipedream-2bw")
EXACT = ("ssgd", "ring", "tree", "allreduce", "dc-ssgd", "gpipe", "pipedream-flush")
REPLICAS = ("ring", "tree", "allreduce", "d-psgd", "gossip", "strom")
ALONE = ("pipedream-2bw",)  # it has one worker
DEEDS = ("lost", "twice", "late", "altered")
WAYS = ("up", "down", "across")


def presets():
    """Those that processes accept; hogwild is for threads."""
    said = subprocess.run([THALWEG, "help", "strategies"], stdout=subprocess.PIPE, check=True,
                          text=True).stdout
    names = []
    for line in said.split("\n"):
        if line.startswith("Gates"):
            break
        if re.match(r"  [a-z]", line):
            names.append(line.split()[0])
    return [n for n in names if n != "hogwild"]


def workers(preset):
    return 1 if preset in ALONE else 2 if preset in STAGED else 3


def job(preset, epochs):
    strategy = {"streaming-diloco": "{name: streaming-diloco, push: 4, fragments: 2, delay: 1}",
                "strom": "{name: strom, codec: {up_tau: 0.05}}",
                "backup": "{name: backup, extra: 1}"}.get(preset, preset)
    stages = preset in STAGED
    more = ", stages: 2" if stages else ""
    accumulate = ", accumulate: 4" if stages and preset != "pipedream" else ""
    update = "optimiser: {iterations: 12}" if preset == "sandblaster" else "update: {rate: 0.02}"
    return f"""\
data: {{source: digits, count: 1600, tests: 200, batch: 8{accumulate}}}
model: {{layers: [linear 24, relu, linear 10]}}
train: {{epochs: {epochs}, seed: 3}}
{update}
cluster: {{workers: {workers(preset)}, min: 1, wait: 4s, servers: {0 if preset in REPLICAS else 1}, shards: 2, stuck: {STUCK:g}s{more}}}
checkpoint: {{every: 1s, keep: 2}}
strategy: {strategy}
"""


class Meddler(Liar):
    """The relays; what becomes of the frame that is looked for."""

    def __init__(self, port, way, kind, nth, deed, seed):
        self.way, self.kind, self.nth, self.deed = way, kind, nth, deed
        self.dice = random.Random(seed)
        self.seen, self.between = {}, {}
        self.touched = None  # when, and which kind
        self.lock = threading.Lock()
        self.master = Frames(port, self.up, self.down)

    def up(self, h, whole):
        return self.pass_on("up", h, self.greets(h, whole))

    def down(self, h, whole):
        return self.pass_on("down", h, self.places(h, whole))

    def speaks(self, h, whole):
        return self.pass_on("across", h, self.greets(h, whole))

    def is_it(self, way, kind):
        """kind: a name, or a number: the so many-th kind that comes along this way."""
        with self.lock:
            if way != self.way or self.touched or kind == "PING":
                return False
            self.seen[kind] = self.seen.get(kind, 0) + 1
            wanted = self.kind
            if wanted.isdigit():
                order = list(self.seen)
                if int(wanted) >= len(order) or order[int(wanted)] != kind:
                    return False
            elif wanted != kind:
                return False
            if self.seen[kind] < self.nth:
                return False
            self.touched = time.monotonic(), kind
            return True

    def pass_on(self, way, h, whole):
        if not 0 < h["type"] <= len(TYPES) or not self.is_it(way, TYPES[h["type"] - 1]):
            return whole
        if self.deed == "lost":
            return b""
        if self.deed == "twice":
            return whole + whole
        if self.deed == "late":  # what follows it waits, too: a connection keeps the order
            time.sleep(STUCK)
            return whole
        return self.altered(h, whole)

    def altered(self, h, whole):
        """Another round of a contribution; else a field of header or body, or a byte behind them."""
        kind, dice = TYPES[h["type"] - 1], self.dice
        body = BODY[kind]
        if self.deed == "another round":
            return changed(whole, at={AT[kind].get("round", 0): struct.pack("<Q", 10**6)})
        rest = len(whole) - 64 - body
        place = dice.choice(["from_", "incarnation", "shard", "flags"] + ["body"] * 4 * (body > 0) +
                            ["payload"] * 2 * (rest > 0))
        if place == "body":
            at = 4 * dice.randrange(body // 4)
            new = dice.choice([0, 1, 2**32 - 1, 2**31, 0x7fc00000, dice.getrandbits(32)])
            return changed(whole, at={at: struct.pack("<I", new)})
        if place == "payload":
            data = bytearray(whole[64 + body:])
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            return changed(whole, bytes(data))
        value = dice.choice([0, 1, h[place] + 1, 2**32 - 1]) & 0xffffffff
        return changed(whole, **{place: value})


def meddle(name, must=False):
    """must: such a frame comes along."""
    preset, way, kind, nth, deed, seed = name.split(":")

    def test(epochs):
        staged = preset in STAGED
        processes = workers(preset) * (2 if staged else 1)
        with Cluster("one-frame", preset, epochs, workers=workers(preset),
                     servers=0 if preset in REPLICAS else 1, size=1600, batch=8,
                     job=job(preset, epochs)) as c:
            serve = c.serve()
            m = Meddler(int(c.address.rsplit(":", 1)[1]), way, kind, int(nth), deed, int(seed))
            honest = [c.worker() for _ in range(processes - 1)]
            # of two workers the later one dials
            c.until(lambda: serve.err().count(" joined") >= 2 or staged, "others join", 30, serve)
            if staged:
                time.sleep(0.3)
            mine = c.worker(f"127.0.0.1:{m.master.port}")
            begin = time.monotonic()
            while serve.running():
                need(time.monotonic() < begin + 150, "the run does not end")
                time.sleep(0.05)
            m.close()
            ended = code = serve.child.returncode
            if not m.touched:
                need(not must, f"no such frame came along; there were {m.seen}")
                return "no such frame came along"
            removed = re.findall(r"worker (\d+)(?:\.\d+)? is removed", serve.err())
            slots = set(re.findall(r"worker (\d+)(?:\.\d+)? on", mine.err()))
            if deed == "altered" and code == 1 and "training diverged" in serve.err():
                return f"{m.touched[1]}, diverged"  # false values that are finite cannot be told
            # where its only worker is gone, a run stops at its checkpoint
            need(code == 0 or preset in ALONE and code == 75, f"{serve.name} ended with {code}")
            r = serve.result()
            for w in [*honest, mine]:
                if w is mine and w.running() and not w.child.poll():
                    time.sleep(1)
                if w is mine and w.running():  # it may not have heard of the end
                    w.kill()
                    continue
                code = w.wait(15 + SLACK)
                told = "is removed" in serve.err() or "no progress" in w.err()
                need(code >= 0, f"{w.name} ended with {code}")
                need(code == 0 or w is mine or told and (staged or preset in REPLICAS),
                     f"{w.name} ended with {code}")
            # of two replicas of which one says that it waits for the other, both may lie
            if not staged and preset not in REPLICAS:
                need(set(removed) <= slots or not slots, f"{removed} removed, not one of {slots}")
            need(len(removed) <= 2, f"{removed} removed")
            gap = max(w.longest_gap()[0] for w in honest)
            need(gap <= ALLOWED + SLACK, f"nothing moved for {gap:.1f} s")
            size = epochs * 1600
            if deed in ("lost", "twice", "late") and preset != "sandblaster" and ended == 0:
                exact = preset in EXACT
                need(r["samples"] == size if exact else
                     r["samples"] + r["dropped"] + 8 * r["lost_updates"] >= size,
                     f"{r['samples']} of {size} samples")
                need(not exact or r["repeated"] == 0, f"{r['repeated']} samples repeated")
            return f"{m.touched[1]}, longest gap {gap:.1f} s, removed {removed or 'nobody'}"
    return test


def drawn(count, first):
    """Names of cases: presets in turn, all else by the seed."""
    names = presets()
    for seed in range(first, first + count):
        dice = random.Random(seed)
        preset = names[seed % len(names)]
        way = dice.choice(WAYS if preset in REPLICAS or preset in STAGED else WAYS[:2])
        yield (f"{preset}:{way}:{dice.randrange(4 if way == 'across' else 10)}:{dice.choice([1, 1, 2, 3, 5, 20])}:"
               f"{dice.choice(DEEDS)}:{seed}")


# what evaded cluster.stuck once, and a message of each kind of protocol
CHOSEN = ("ssgd:up:PUSH:9:another round:1", "diloco:up:PUSH:2:another round:1",
          "gpipe:across:GRAD:3:lost:1", "pipedream:across:GRAD:3:lost:1",
          "ssp:up:PUSH:9:lost:1", "ring:across:REDUCE:9:lost:1", "asgd:up:PUSH:5:lost:1",
          "gossip:across:SPREAD:9:lost:1", "malenia:up:IDLE:3:lost:1")


class Cases(dict):
    """Any case by its name."""

    def __contains__(self, name):
        return name.count(":") == 5

    def __missing__(self, name):
        return meddle(name), 6


if __name__ == "__main__":
    words, Cluster.share = sys.argv[1:], 1.0
    cases = Cases({name: (meddle(name, True), 6) for name in CHOSEN})
    if words[:1] == ["--full"]:
        count = int(words[1]) if len(words) > 1 else 750
        first = int(words[2]) if len(words) > 2 else 1
        failed = side_by_side([*CHOSEN, *drawn(count, first)], 4)
        sys.exit(f"failed: {' '.join(failed)}" if failed else 0)
    main(cases, words, at_once=4)
