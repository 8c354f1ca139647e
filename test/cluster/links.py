#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""links.py [--full] [NAME...]: what networks do: a cut, lost packets, delay.  The first two need
root, network namespaces (iproute2) and nftables; the relay that delays is a thread of this test."""
import os
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from cluster import SKIPPED, Cluster, free_port, main, need


class Namespaces:
    """Two machines and the cable between them: here the master and a worker, there a worker."""

    def __init__(self):
        self.here, self.there = (f"tw{os.getpid()}{k}" for k in "ab")
        self.cable = [f"twc{os.getpid() % 100000}{k}" for k in "ab"]

    @staticmethod
    def run(*words):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")

    def inside(self, name, *words):
        self.run("ip", "netns", "exec", name, *words)

    def __enter__(self):
        try:
            for name in (self.here, self.there):
                self.run("ip", "netns", "add", name)
                self.inside(name, "ip", "link", "set", "lo", "up")
            self.run("ip", "link", "add", self.cable[0], "netns", self.here, "type", "veth",
                     "peer", "name", self.cable[1], "netns", self.there)
            for k, name in enumerate((self.here, self.there)):
                self.inside(name, "ip", "address", "add", f"10.77.0.{k + 1}/24", "dev",
                            self.cable[k])
                self.inside(name, "ip", "link", "set", self.cable[k], "up")
        except OSError:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        for name in (self.here, self.there):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        return False

    def small_packets(self):
        """Packets as on a wire, none of many segments: one loss is one packet."""
        for name, cable in zip((self.here, self.there), self.cable):
            self.inside(name, "ip", "link", "set", cable, "gso_max_segs", "1")

    def drop(self, percent):
        """Lose so many of the packets that come in on either side; the cable itself stays."""
        some = f"numgen random mod 100 < {percent} " if percent < 100 else ""
        for name, cable in zip((self.here, self.there), self.cable):
            self.inside(name, "nft", f"add table inet loss; add chain inet loss in {{ type filter "
                        f"hook input priority 0; }}; add rule inet loss in iifname {cable} "
                        f"{some}drop")

    def mend(self):
        for name in (self.here, self.there):
            self.inside(name, "nft", "delete table inet loss")


def in_namespaces(name, strategy, test, both=False, **more):
    def run(epochs):
        with Namespaces() as n:
            with Cluster(name, strategy, epochs, host="10.77.0.1", inside=n.here, **more) as c:
                serve = c.serve()
                near = c.worker(inside=n.there if both else n.here)
                far = c.worker(inside=n.there)
                c.until_steps(near, 20)
                c.until_steps(far, 20)
                return test(c, n, serve, near, far)
    return run


def cut(strategy, seconds=0):
    """The cable is out until the far worker is removed, and so much longer; then it comes back."""
    def test(c, n, serve, near, far):
        n.drop(100)
        c.until_gone(far, serve)
        c.until_steps(near, 20)
        c.rest(seconds, serve)
        n.mend()
        c.until_steps(far, 20, 30)
        r = c.finish(serve, survivors=(near,))
        return f"redealt {r['redealt']}, repeated {r['repeated']}"
    return in_namespaces(f"cut-{strategy}", strategy, test)


def loss(strategy, percent=20):
    """A bad line, and patience: nobody is removed, and the run ends."""
    def test(c, n, serve, near, far):
        n.small_packets()
        n.drop(percent)
        c.until_steps(far, 15, 120)
        c.rest(5.0)
        n.mend()
        r = c.finish(serve, survivors=(near, far))
        need("is gone" not in serve.err(), "a worker on a bad line was removed")
        return f"redealt {r['redealt']}"
    return in_namespaces(f"loss-{strategy}", strategy, test, both=True, hidden=16, target=0.88,
                         sets=[("cluster.limit", "60s"), ("cluster.suspect", ""),
                               ("cluster.heartbeat", "")])


def paced(strategy, percent, epochs):
    """A small job on a line that loses so many packets in each direction, from the first greeting
    to the end, with the standard limits.  Returns samples per second."""
    with Namespaces() as n:
        with Cluster(f"pace-{strategy}-{percent}", strategy, epochs, host="10.77.0.1",
                     inside=n.here, size=320, batch=32, hidden=16, target=0, sets=[
                         ("cluster.limit", ""), ("cluster.suspect", ""),
                         ("cluster.heartbeat", "")]) as c:
            serve = c.serve()
            n.small_packets()
            if percent:
                n.drop(percent)
            for _ in range(2):
                c.worker(inside=n.there)
            r = c.finish(serve)
            # TCP waits 3 s, 6 s and 12 s for data that follow a lost SYN, so a worker on such a line
            # may be silent for the whole limit; nothing else may remove it
            err = serve.err()
            need(err.count("is gone") <= err.count("it was silent for"), "a worker that was heard of was removed")
            return r["samples_per_second"]


def pace(strategy, percent=20):
    """The job finishes on a bad line, and we see what that costs."""
    def test(epochs):
        good, bad = paced(strategy, 0, 20 * epochs), paced(strategy, percent, epochs)
        need(bad < good / 2, f"{bad:.0f} samples/s with loss, {good:.0f} without: was there any?")
        return (f"{good:.0f} samples/s without loss, {bad:.0f} samples/s with {percent} %: "
                f"a factor of {good / bad:.0f}")
    return test


class Relay:
    """Carries bytes between whoever connects and an address, each of them late."""

    def __init__(self, address, delay):
        host, port = address.rsplit(":", 1)
        self.to, self.delay = (host, int(port)), delay
        self.listener = socket.create_server(("127.0.0.1", free_port()))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self.to)
            except OSError:
                near.close()  # nobody is there now
                continue
            for a, b in ((near, far), (far, near)):
                a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.carry(a, b)

    def carry(self, a, b):
        late, come = [], threading.Condition()

        def take():
            data = b"?"
            while data:
                try:
                    data = a.recv(1 << 16)
                except OSError:
                    data = b""
                with come:
                    late.append((time.monotonic() + self.delay, data))
                    come.notify()

        def give():
            while True:
                with come:
                    while not late:
                        come.wait()
                    at, data = late.pop(0)
                time.sleep(max(0.0, at - time.monotonic()))
                try:
                    if data:
                        b.sendall(data)
                        self.carried(b, len(data))
                    else:
                        b.shutdown(socket.SHUT_WR)
                except OSError:
                    data = b""
                if not data:
                    return

        for f in (take, give):
            threading.Thread(target=f, daemon=True).start()

    def carried(self, to, count):
        """So many bytes went to this socket."""

    def close(self):
        self.listener.close()


def delay(strategy, seconds=0.05):
    """Every message of the workers is late in both directions."""
    def test(epochs):
        with Cluster(f"delay-{strategy}", strategy, epochs, rate=0.2, sets=[
                ("cluster.limit", "60s"), ("cluster.suspect", ""), ("cluster.heartbeat", ""),
                ("data.batch", "100"), ("update.schedule", "{kind: cosine}")]) as c:
            serve = c.serve()
            relay = Relay(c.address, seconds)
            workers = [c.worker(relay.address) for _ in range(2)]
            for w in workers:
                c.until_steps(w, 20)
            # 200 updates; at a constant rate the last ones would throw the accuracy about
            r = c.finish(serve, target=0.8, survivors=workers)
            relay.close()
            for w in workers:
                times = [line["time"] for line in w.lines("step")]
                mean = (times[-1] - times[0]) / (len(times) - 1)
                need(mean >= 2 * seconds * 0.9, f"a step each {mean:.3f} s: nothing was late")
            need("is gone" not in serve.err(), "a worker far away was removed")
            return f"redealt {r['redealt']}, accuracy {r['accuracy']:.3f}"
    return test


TESTS = {
    "delay_async": (delay("asgd"), 1),
    "cut_bsp": (cut("ssgd"), 18),
    "pace_bsp": (pace("ssgd"), 1),
}
FULL = {
    "delay_bsp": (delay("ssgd"), 1),
    "cut_bsp_10s": (cut("ssgd", 8), 30),
    "cut_async_10s": (cut("asgd", 8), 40),
    "cut_ssp_10s": (cut("ssp", 8), 40),
    "pace_bsp_long": (pace("ssgd"), 10),
    "pace_async_long": (pace("asgd"), 10),
    "loss_bsp": (loss("ssgd"), 3),
    "loss_async": (loss("asgd"), 3),
}


def usable():
    """Whether there can be namespaces here, in a sentence if not."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    try:
        with Namespaces() as n:
            n.drop(1)
            n.mend()
    except OSError as e:
        return f"no network namespaces here: {e}"
    return ""


def run(script, tests, words, cable):
    """All tests, or those that are named; those with a cable only where there can be namespaces."""
    missing = usable()
    left_out = [k for k in words or tests if missing and k.startswith(cable)]
    if left_out:
        print(f"{script}: skipped: {', '.join(left_out)}: {missing}")
    if not words or set(words) - set(left_out):
        main({k: v for k, v in tests.items() if k not in left_out},
             [w for w in words if w not in left_out], at_once=4)
    if left_out:
        sys.exit(SKIPPED)


if __name__ == "__main__":
    names = sys.argv[1:]
    chosen = TESTS
    if names[:1] == ["--full"]:
        chosen, names = FULL, names[1:]
    elif names:
        chosen = {**TESTS, **FULL}
    run("links.py", chosen, names, ("cut", "loss", "pace"))
