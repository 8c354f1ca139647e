#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""full.py [--seed N] [NAME...]: the long ones: standard limits, more gates, a minute of churn, and
a cluster to which random things happen for minutes."""
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True
from cluster import SLACK, Cluster, TooShort, main, need
from faults import (churn, join_five, kill_master, kill_server, kill_worker, replace_server,
                    stop_server_over_end, stop_worker, terminate)

SECONDS = float(os.environ.get("TW_FAULT_SECONDS", "90"))  # of random faults, for each gate
STILL = 12.0  # seconds without a step of anybody, while one thing after another happens
SOFTSYNC = "{name: softsync, collect: 2}"


def standard_limits(epochs):
    """A worker stands still for longer than 15 s: named after 5 s, removed, back again."""
    with Cluster("standard-limits", "ssgd", epochs, sets=[("cluster.limit", ""),
                 ("cluster.suspect", ""), ("cluster.heartbeat", "")]) as c:
        serve, _, (one, two) = c.begin(2)
        two.signal(signal.SIGSTOP)
        c.until(lambda: "for worker" in serve.err(), "serve says whom it waits for", 9, serve)
        c.until(lambda: "is gone" in serve.err(), "serve removes the worker", 20, serve)
        c.until_steps(one, 50)
        two.signal(signal.SIGCONT)
        c.until_steps(two, 50)
        r = c.finish(serve, survivors=(one,))
        return f"redealt {r['redealt']}, longest gap {one.longest_gap()[0]:.1f} s"


class Stillness:
    """How long nobody at all made a step: the logs of workers grow by nothing else."""

    def __init__(self, cluster):
        self.c, self.bytes, self.longest = cluster, 0, 0.0
        self.since = time.monotonic()

    def look(self):
        logs = [p.at["log"] for p in self.c.all if p.name.startswith("worker")]
        now, size = time.monotonic(), sum(map(os.path.getsize, filter(os.path.exists, logs)))
        self.longest = max(self.longest, now - self.since)
        if size > self.bytes:
            self.bytes, self.since = size, now


class Storm:
    """Three workers, three servers, and events drawn from a seed."""

    def __init__(self, cluster, dice):
        self.c, self.dice = cluster, dice
        self.master, self.servers, self.workers = cluster.begin(3)
        self.still = Stillness(cluster)
        self.asleep = {}  # process -> when it wakes up

    def do(self, what, *words):
        self.c.say(" ".join([what, *map(str, words)]))

    def some_worker(self):
        return self.dice.randrange(len(self.workers))

    def kill_worker(self):
        k = self.some_worker()
        self.do("kill", self.workers[k].name)
        self.workers[k].kill()
        self.asleep.pop(self.workers[k], None)
        self.workers[k] = self.c.worker()

    def leave(self):
        k = self.some_worker()
        w = self.workers[k]
        if w in self.asleep or not w.steps():
            return
        self.do("leave", w.name)
        w.signal(signal.SIGTERM)
        self.workers[k] = self.c.worker()

    def sleep(self, p, longest):
        if p in self.asleep:
            return
        seconds = self.dice.uniform(0.3, longest)
        self.do("stop", p.name, f"for {seconds:.1f} s")
        p.signal(signal.SIGSTOP)
        self.asleep[p] = time.monotonic() + seconds

    def stop_worker(self):
        self.sleep(self.workers[self.some_worker()], 5.0)

    def stop_server(self):
        self.sleep(self.dice.choice(self.servers), 4.0)

    def stop_master(self):
        self.sleep(self.master, 3.0)

    def kill_server(self):
        k = self.dice.randrange(len(self.servers))
        self.do("kill", self.servers[k].name)
        self.servers[k].kill()
        self.asleep.pop(self.servers[k], None)
        self.servers[k] = self.c.server()

    def leave_server(self):
        k = self.dice.randrange(len(self.servers))
        if self.servers[k] in self.asleep or time.monotonic() < self.servers[k].started + 5:
            return
        self.do("leave", self.servers[k].name)
        self.servers[k].signal(signal.SIGTERM)
        self.servers[k] = self.c.server()

    def kill_master(self):
        if self.master in self.asleep:
            return
        self.do("kill", self.master.name)
        self.master.kill()
        time.sleep(self.dice.uniform(0.0, 1.5))
        self.master = self.c.serve()

    def wake(self, everybody=False):
        for p, when in list(self.asleep.items()):
            if everybody or time.monotonic() >= when:
                p.signal(signal.SIGCONT)
                del self.asleep[p]

    def event(self):
        kinds = [self.kill_worker, self.stop_worker, self.leave, self.kill_server,
                 self.leave_server, self.stop_server, self.stop_master, self.kill_master]
        try:
            self.dice.choices(kinds, [4, 4, 3, 2, 2, 2, 1, 1])[0]()
        except TooShort:
            pass  # the run ended just then: the next round has more

    def rage(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.master.running():
            self.event()
            pause = time.monotonic() + self.dice.uniform(0.3, 3.5)
            while time.monotonic() < pause and self.master.running():
                self.wake()
                self.still.look()
                time.sleep(0.05)
        self.wake(True)

    def calm_down(self):
        """Nothing happens any more: it goes on, or it is over.  Returns the longest stillness."""
        end = time.monotonic() + self.c.limit + 2 + SLACK
        before = self.still.bytes
        while self.master.running() and self.still.bytes == before:
            need(time.monotonic() < end, f"nobody makes a step {self.c.limit + 2 + SLACK:.0f} s "
                 "after the last thing that happened")
            self.still.look()
            time.sleep(0.05)
        need(self.still.longest <= STILL + SLACK,
             f"nobody made a step for {self.still.longest:.1f} s; {STILL + SLACK:.0f} s are "
             "allowed")
        return self.still.longest


def storm(strategy, seed):
    def test(epochs):
        print(f"storm: TW_FAULT_SECONDS={SECONDS:g} full.py --seed {seed}", flush=True)
        dice = random.Random(f"{seed} {strategy}")
        begin, most, rounds, still = time.monotonic(), 0, 0, 0.0
        while time.monotonic() < begin + SECONDS:
            with Cluster(f"storm-{rounds}", strategy, epochs, workers=3, servers=3,
                         sets=[("cluster.wait", "5s")]) as c:
                s = Storm(c, dice)
                s.rage(begin + SECONDS - time.monotonic())
                files = s.master.open_files() if s.master.running() else 0
                need(files < 100, f"{files} open files in the master")
                most = max(most, s.master.memory())
                still = max(still, s.calm_down())
                # after so much loss the target is that of fewer epochs
                c.finish(s.master, target=0.85, seconds=300, again=True, strangers=True)
                rounds += 1
        if not rounds:
            raise TooShort("no round")
        return (f"{rounds} rounds, at most {most} KiB in the master, nobody made a step for at "
                f"most {still:.1f} s")
    return test


def tests(seed):
    return {
        "standard_limits": (standard_limits, 40),
        "kill_worker_ssp": (kill_worker("ssp"), 6),
        "kill_worker_softsync": (kill_worker(SOFTSYNC), 6),
        "stop_worker_async": (stop_worker("asgd"), 24),
        "stop_worker_ssp": (stop_worker("ssp"), 20),
        "stop_over_end_server": (stop_server_over_end, 5),
        "kill_server_ssp": (kill_server("ssp"), 10),
        "kill_server_softsync": (kill_server(SOFTSYNC), 10),
        "replace_server_bsp": (replace_server("ssgd"), 40),
        "replace_server_async": (replace_server("asgd"), 40),
        "kill_master_ssp": (kill_master("ssp"), 10),
        "kill_master_softsync": (kill_master(SOFTSYNC), 10),
        "join_five_async": (join_five("asgd"), 25),
        "terminate_async": (terminate("asgd"), 10),
        "churn_bsp_minute": (churn("ssgd", 60), 150),
        "storm_bsp": (storm("ssgd", seed), 30),
        "storm_async": (storm("asgd", seed), 60),
    }


if __name__ == "__main__":
    words = sys.argv[1:]
    number = random.SystemRandom().randrange(1000000)
    if words[:1] == ["--seed"]:
        number, words = int(words[1]), words[2:]
    main(tests(number), words)
