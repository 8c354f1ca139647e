#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""false_peers.py [NAME...]: a replica that says to the others what no replica says, over TCP.

One of three workers reaches the master and the other workers through relays of this test. The first
relay puts the others into PEERS that lead to the worker. They add false messages to the true ones,
with the node, slot and incarnation of that worker: wrong lengths, values that are not finite, slots
of others, numbers and places that do not exist, copies that nobody can use. Nobody may crash or
wait for ever, the run must learn, and what was refused must be counted."""
import socket
import struct
import sys
import threading

sys.dont_write_bytecode = True
from cluster import Cluster, main, need
from hostile import AT, BODY, LOCAL, TYPE, TYPES, parse, seal

SERVER, SHARD = 1, 2  # roles
HUGE32, HUGE64 = (1 << 32) - 1, (1 << 64) - 1
SAYS = ("SPREAD", "HEARD", "MIX", "REDUCE")
PUSH, REDUCE = AT["PUSH"], AT["REDUCE"]
WHOLE, WHAT = REDUCE["whole"], REDUCE["what"]
NAN = struct.pack("<f", float("nan"))


class Frames:
    """Carries whole frames between whoever connects and a port; `up` and `down` are asked what to
    pass on instead."""

    def __init__(self, port, up, down=None):
        self.target, self.up, self.down = port, up, down
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                return
            for a, b, what in ((near, far, self.up), (far, near, self.down)):
                a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.carry, args=(a, b, what), daemon=True).start()

    def carry(self, a, b, what):
        data = b""
        try:
            while some := a.recv(1 << 18):
                data += some
                while len(data) >= 64 and len(data) >= 64 + parse(data[:64])["length"]:
                    end = 64 + parse(data[:64])["length"]
                    whole, data = data[:end], data[end:]
                    b.sendall(what(parse(whole[:64]), whole) if what else whole)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def changed(whole, payload=None, at=None, **header):
    """The frame with other header fields, bytes at places of its body, or something else behind it:
    the records of its tail, if it has any, and its payload."""
    names = {"type": 6, "length": 8, "from_": 24, "incarnation": 28, "shard": 40, "flags": 44,
             "tail": 48, "payload": 52}
    body = bytearray(whole[64:64 + BODY[TYPES[parse(whole[:64])["type"] - 1]]])
    for offset, new in (at or {}).items():
        body[offset:offset + len(new)] = new
    if payload is None:
        payload = whole[64 + len(body):]
    head = bytearray(whole[:64])
    header = {"length": len(body) + len(payload),
              "payload": max(0, len(payload) - parse(whole[:64])["tail"]), **header}
    for name, value in header.items():
        struct.pack_into("<H" if name == "type" else "<I", head, names[name], value)
    return seal(bytes(head), bytes(body) + payload)


def u32(x):
    return struct.pack("<I", x)


def u64(x):
    return struct.pack("<Q", x)


def copies(h, whole):
    """Copies that nobody asked for, and that are no copies: what is there must not be let go."""
    head = bytearray(whole[:64])
    shard, term = h["shard"], h["view"] >> 32
    struct.pack_into("<H", head, 6, TYPE["COPY"])
    struct.pack_into("<HBB", head, 12, 0, SHARD, SERVER)
    struct.pack_into("<I", head, 44, 0)
    bad = []
    for said, attempt, payload in ((term, term << 20 | 0xfffff, bytes(100)),
                                   (term, term << 20 | 0xfffff, b""),
                                   (HUGE32, HUGE32, bytes(100)), (term, HUGE32, bytes(4096))):
        struct.pack_into("<I", head, 8, 16 + len(payload))
        struct.pack_into("<I", head, 28, said)
        struct.pack_into("<II", head, 48, 0, len(payload))
        body = struct.pack("<IIII", shard, term << 20 | 0xfffff, attempt, 3)
        bad.append(seal(bytes(head), body + payload))
    return bad


def lies(h, whole):
    """False ones like this true one."""
    kind = TYPES[h["type"] - 1]
    payload = whole[64 + BODY[kind]:]
    bad = [changed(whole, from_=x) for x in (h["from_"] + 1, 1000, HUGE32)]
    bad += [changed(whole, incarnation=h["incarnation"] + 1), changed(whole, shard=77)]
    bad += copies(h, whole)
    if payload:
        bad += [changed(whole, payload[:len(payload) // 8 * 4]), changed(whole, payload + bytes(4)),
                changed(whole, b"")]
    # a whole sum of a round may be too large
    if payload and not (kind == "REDUCE" and whole[64 + WHOLE] and not whole[64 + WHAT]):
        bad += [changed(whole, NAN * (len(payload) // 4))]
    if kind == "SPREAD":
        bad += [changed(whole, at={PUSH["link"]: u64(x)}) for x in (0, HUGE64, HUGE64 - 1, 1 << 40)]
        bad += [changed(whole, at={PUSH["account.weight"]: NAN}),
                changed(whole, at={PUSH["account.steps"]: u32(HUGE32)})]
    if kind == "HEARD":
        bad += [changed(whole, at={0: u64(0), 8: u32(1)}), changed(whole, at={8: u32(HUGE32)})]
    if kind == "MIX":
        bad += [changed(whole, at={0: u64(0)}), changed(whole, at={0: u64(HUGE64), 8: u32(1)}),
                changed(whole, at={8: u32(HUGE32)})]
    if kind == "REDUCE":
        bad += [changed(whole, at={REDUCE[k]: u32(HUGE32)})
                for k in ("attempt", "chunk", "part", "contributions")]
        bad += [changed(whole, at={REDUCE[k]: NAN})
                for k in ("account.weight", "account.divide", "account.drift", "drift_most", "account.residual")]
        bad += [changed(whole, at={WHAT: struct.pack("<H", x)}) for x in (1, 3, 4, 0xffff)]
        bad += [changed(whole, at={REDUCE[k]: u64(HUGE64)}) for k in ("round", "account.loss")]
    return bad


class Liar:
    """Between a worker and the rest of its cluster."""

    def __init__(self, port):
        self.master = Frames(port, self.greets, self.places)
        self.between, self.seen, self.said = {}, {}, 0

    def greets(self, h, whole):
        # as between two machines: everything is hashed, and so is what this test changes
        return changed(whole, flags=h["flags"] & ~LOCAL) if h["type"] == TYPE["GREET"] else whole

    def places(self, h, whole):
        if h["type"] != TYPE["PEERS"]:
            return whole
        rest = bytearray(whole[64:])
        for at in range(BODY["PEERS"], len(rest), 144):
            port = struct.unpack_from("<I", rest, at + 8)[0]
            if port not in self.between:
                self.between[port] = Frames(port, self.speaks)
            struct.pack_into("<I", rest, at + 8, self.between[port].port)
        return seal(whole[:64], bytes(rest))

    def speaks(self, h, whole):
        kind = next((k for k in SAYS if TYPE[k] == h["type"]), None)
        if not kind:
            return self.greets(h, whole)
        self.seen[kind] = self.seen.get(kind, 0) + 1
        bad = lies(h, whole)
        # one false one with some of the true ones, each of them in turn, before it or after it
        if self.seen[kind] % 7:
            return whole
        self.said += 1
        false = bad[self.seen[kind] // 7 % len(bad)]
        return false + whole if self.seen[kind] % 2 else whole + false

    def close(self):
        for x in (self.master, *self.between.values()):
            x.close()


def lie(strategy, kinds, rounds=False):
    """rounds: the result counts contributions that were refused, not pieces of sums."""
    def test(epochs):
        with Cluster("false-peer", strategy, epochs, workers=3, servers=0,
                     sets=[("cluster.stuck", "15s")]) as c:
            serve = c.serve()
            liar = Liar(int(c.address.rsplit(":", 1)[1]))
            honest = [c.worker() for _ in range(2)]
            # of two workers the later one dials
            c.until(lambda: serve.err().count(" joined") == 2, "two workers join", 30, serve)
            false = c.worker(f"127.0.0.1:{liar.master.port}")
            workers = [*honest, false]
            code = serve.wait(120)
            need(code == 0, f"{serve.name} ended with {code}")
            for w in workers:
                code = w.wait(20)
                # a round may wait for what a lie has spoiled, until the liar is removed
                removed = w is false and "made no progress" in w.err()
                need(code == 0 or removed, f"{w.name} ended with {code}")
            c.nobody_left()
            liar.close()
            r = serve.result()
            need(set(kinds) <= set(liar.seen), f"it said only {liar.seen}")
            need(liar.said > 100, f"{liar.said} lies")
            need(r["epochs"] >= epochs and r["accuracy"] > 0.8, f"{r['epochs']}, {r['accuracy']}")
            need(r["refused"] or rounds, "nothing was refused")
            return f"{liar.said} lies, refused {r['refused']}, accuracy {r['accuracy']:.3f}"
    return test


TESTS = {
    "strom": (lie("{name: strom, codec: {up_tau: 0.05}}", ("SPREAD", "HEARD", "REDUCE")), 6),
    "gossip": (lie("gossip", ("SPREAD", "HEARD", "MIX", "REDUCE")), 6),
    "d-psgd": (lie("d-psgd", ("REDUCE",), True), 6),
    "ring": (lie("{name: ssgd, topology: ring}", ("REDUCE",), True), 6),
}

if __name__ == "__main__":
    Cluster.samples = 5000
    main(TESTS, sys.argv[1:])
