#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""waits.py [NAME...]: the master waits for somebody who does not come or does nothing.  It says for
whom, and ends its waiting by itself: it goes on without, or it stops with exit code 75."""
import re
import signal
import sys
import threading
import time

sys.dont_write_bytecode = True
from cluster import SLACK, Cluster, TooShort, main, need
from hostile import TYPE, Member, ask, frame

WAIT = 6.0  # cluster.wait: longer than the five seconds after which a wait is said aloud


def stops_with_75(serve, seconds):
    code = serve.wait(seconds + SLACK)
    need(code == 75, f"{serve.name} ended with {code}, wanted 75")


def too_few_while_agreeing(epochs):
    """With cluster.min 2, the master asks the shards for their state, one server is stopped, and one
    of the two workers dies: too few are left.  The master gives up the run after cluster.wait,
    although it still waits for the server."""
    with Cluster("too-few-while-agreeing", "ssp", epochs, servers=2, sets=[
            ("cluster.min", "2"), ("cluster.wait", f"{WAIT:g}s"), ("cluster.limit", "60s"),
            ("cluster.suspect", "2s")]) as c:
        serve, server, one = c.serve(), c.server(), c.worker()
        c.until(lambda: "server 1 on" in serve.err() and "worker 0 on" in serve.err(),
                "a server and a worker join", 30, serve)
        c.rest(0.5, serve)  # the server takes its shard: it has nothing else to do
        server.signal(signal.SIGSTOP)
        begin, two = time.monotonic(), c.worker()
        c.until(lambda: "worker 1 on" in serve.err(), "the second worker joins", 30, two)
        late = time.monotonic() > begin + WAIT / 3
        if not serve.running():
            raise TooShort("the second worker came too late")
        two.kill()
        c.until(lambda: re.search(r"worker [01] is gone", serve.err()), "the worker is removed",
                2 + SLACK, serve)
        stops_with_75(serve, 2 * WAIT)
        asks = re.search(r"has waited [0-9.]+ s for shard \d of server 1 on .*: its state",
                         serve.err())
        if late and not asks:
            raise TooShort("of cluster.wait there was not enough left to say it")
        need(asks, "the master was not asking the shards for their state")
        need("1 of at least 2 workers" in serve.err(), "the master does not say why it stops")
        for p in (one, server):
            need(p.running(), f"{p.name} does not wait for the master to come back")


def nobody_comes_back(servers):
    """All processes die; the master is started again, and nobody joins."""
    def test(epochs):
        with Cluster("nobody-comes-back", "ssgd", epochs, servers=servers,
                     sets=[("cluster.wait", f"{WAIT:g}s")]) as c:
            serve, joined, workers = c.begin(2)
            c.until_checkpoint(serve)
            for p in (*workers, *joined, serve):
                p.kill()
            serve = c.serve()
            stops_with_75(serve, 2 * WAIT)
            need("resuming from" in serve.err(), "the second master does not say that it goes on")
            need(re.search(r"has waited [0-9.]+ s for ", serve.err()),
                 "the master does not say for whom it waits")
    return test


class Idler:
    """A member that reads what it is told, sends heartbeats, and never pushes anything."""

    def __init__(self, address):
        port = int(address.rsplit(":", 1)[1])
        asker, facts = ask(port)
        asker.close()
        self.member = Member(port, facts)
        self.slot, self.leases, self.over = self.member.slot, 0, False
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.ping, self.hear)]
        for t in self.threads:
            t.start()

    def ping(self):
        number = 0
        while not self.over:
            number += 1
            if not self.member.send(frame("PING", number.to_bytes(8, "little"))):
                return
            time.sleep(0.1)

    def hear(self):
        try:
            while True:
                h, _ = self.member.message()
                self.leases += h["type"] == TYPE["LEASE"]
                if h["type"] == TYPE["OVER"]:
                    break
        except (EOFError, OSError):
            pass
        self.over = True
        self.member.close()

    def close(self):
        self.over = True
        self.member.close()
        for t in self.threads:
            t.join()


def stuck_worker(epochs):
    """A worker under a round gate is alive and does nothing: it is named, and removed after
    cluster.stuck; the others finish."""
    with Cluster("stuck-worker", "ssgd", epochs, workers=3, sets=[
            ("cluster.wait", "1s"), ("cluster.stuck", "7s")]) as c:
        serve, _, (one, two) = c.begin(2)
        idler = Idler(c.address)
        c.until(lambda: idler.leases, "the idle worker has a lease", 10, serve)
        before = time.monotonic()
        whom = rf"has waited [0-9.]+ s for worker {idler.slot} on \S+: "
        c.until(lambda: re.search(whom, serve.err()), f"serve says '{whom}'", 6 + SLACK, serve)
        removed = rf"worker {idler.slot} .*(is gone|removed|stuck|no progress)"
        c.until(lambda: re.search(removed, serve.err()), f"serve says '{removed}'", 7 + SLACK,
                serve)
        seconds = time.monotonic() - before
        need(seconds > 6, f"the idle worker was removed after {seconds:.1f} s, wanted 7")
        c.until_steps(one, 20)
        r = c.finish(serve, survivors=(one, two), stop=9)
        idler.close()
        return f"removed after {seconds:.1f} s, redealt {r['redealt']}"


def stopped_master(epochs):
    """A master that was stopped for longer than cluster.stuck blames nobody for it."""
    with Cluster("stopped-master", "ssgd", epochs, workers=3, hidden=64, batch=256, rate=0.2,
                 sets=[("cluster.stuck", "2s"), ("cluster.limit", "30s"),
                       ("cluster.suspect", "10s")]) as c:
        serve, _, workers = c.begin(3)
        for _ in range(3):
            serve.signal(signal.SIGSTOP)
            c.rest(4, serve)
            serve.signal(signal.SIGCONT)
            c.rest(1, serve)
            if not serve.running():
                raise TooShort("the run was over before the master was stopped")
        c.finish(serve, survivors=workers, stop=12)
        need("no progress" not in serve.err(), "a worker was removed for the master's pause")


TESTS = {
    "too_few_while_agreeing": (too_few_while_agreeing, 4),
    "nobody_comes_back": (nobody_comes_back(1), 6),
    "nobody_comes_back_servers": (nobody_comes_back(2), 6),
    "stuck_worker": (stuck_worker, 4),
    "stopped_master": (stopped_master, 60),
}

if __name__ == "__main__":
    main(TESTS, sys.argv[1:], at_once=len(TESTS))
