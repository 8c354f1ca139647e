#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py [NAME...]: workers without servers die, stop, leave, come and are cut off; the run goes
on, and what it counted is right.  The cable needs root and network namespaces, as in links.py."""
import signal
import sys

sys.dont_write_bytecode = True
from cluster import Cluster, main, need
from faults import hears_of_the_end, stop_and_go_on
from links import SKIPPED, Namespaces, usable


def peers(name, topology, epochs, workers=3, sets=(), **more):
    return Cluster(f"{name}-{topology}", "ssgd", epochs, workers=workers, servers=0,
                   sets=[("strategy.topology", topology), *sets], **more)


def kill(topology, key=False):
    """kill -9: the others go on without it.  Then another comes in its place."""
    def test(epochs):
        with peers("kill", topology, epochs, key=key) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.kill()
            c.until_steps(one, 50)
            c.until_steps(three, 50)
            four = c.worker()
            c.until_steps(four, 20)
            r = c.finish(serve, survivors=(one, three))
            return f"redealt {r['redealt']}"
    return test


def kill_two(topology):
    """Two of four die at once."""
    def test(epochs):
        with peers("kill-two", topology, epochs, workers=4) as c:
            serve, _, (one, two, three, four) = c.begin(4)
            one.kill()
            three.kill()
            c.until_steps(two, 100)
            c.until_steps(four, 100)
            r = c.finish(serve, survivors=(two, four))
            return f"redealt {r['redealt']}"
    return test


def stop(topology):
    """SIGSTOP for longer than the limit: it is removed; it wakes up, is told so, and joins again."""
    def test(epochs):
        with peers("stop", topology, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.signal(signal.SIGSTOP)
            c.rest(c.limit + 2.0, serve)
            c.until_steps(one, 50)
            two.signal(signal.SIGCONT)
            c.until_steps(two, 50)
            r = c.finish(serve, survivors=(one, three))
            return f"redealt {r['redealt']}"
    return test


def stop_over_end(topology):
    """The others finish while one is stopped, and it hears of that when it goes on."""
    def test(epochs):
        with peers("stop-over-end", topology, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.signal(signal.SIGSTOP)
            c.until(lambda: "is gone" in serve.err(), "serve removes the worker", 10, serve)
            r = c.finish(serve, survivors=(one, three), asleep=(two,))
            two.signal(signal.SIGCONT)
            hears_of_the_end(two, one)
            c.nobody_left()
            return f"redealt {r['redealt']}"
    return test


def kill_master(topology):
    """The master dies, and the same command goes on; the workers keep their connections."""
    def test(epochs):
        with peers("kill-master", topology, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            c.until_checkpoint(serve)
            serve.kill()
            c.rest(1.0, one, two, three)
            serve = c.serve()
            for w in (one, two, three):
                c.until_steps(w, 50)
            r = c.finish(serve, again=True)
            return f"redealt {r['redealt']}"
    return test


def join(topology):
    """Three come to two that train."""
    def test(epochs):
        with peers("join", topology, epochs, workers=5, sets=[("cluster.wait", "1s")]) as c:
            serve, _, first = c.begin(2)
            later = [c.worker() for _ in range(3)]
            for w in later:
                c.until_steps(w, 20)
            r = c.finish(serve, survivors=first + later)
            return f"redealt {r['redealt']}"
    return test


def leave(topology):
    """One leaves by SIGTERM, the master stops and goes on, one comes."""
    def test(epochs):
        with peers("leave", topology, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            one.signal(signal.SIGTERM)
            code = one.wait(20)
            need(code == 0, f"{one.name} was asked to leave and ended with {code}")
            need(one.result()["left"], "a worker that left says that it did not")
            c.until_steps(two, 50)
            serve = stop_and_go_on(c, serve)
            four = c.worker()
            c.until_steps(two, 20)
            c.until_steps(four, 20)
            r = c.finish(serve, again=True)
            return f"redealt {r['redealt']}"
    return test


def cut(topology):
    """The cable between two machines is out for longer than the limit; then it is mended."""
    def test(epochs):
        with Namespaces() as n:
            with peers("cut", topology, epochs, host="10.77.0.1", inside=n.here, key=True) as c:
                serve = c.serve()
                near = [c.worker(inside=n.here) for _ in range(2)]
                far = c.worker(inside=n.there)
                for w in (*near, far):
                    c.until_steps(w, 20)
                n.drop(100)
                before = near[0].steps()
                c.rest(c.limit + 3.0, serve)
                need(near[0].steps() > before, "those who were not cut off have stood still")
                n.mend()
                c.until_steps(far, 20, 30)
                r = c.finish(serve, survivors=near)
                return f"redealt {r['redealt']}"
    return test


TESTS = {
    "kill_ring": (kill("ring"), 5),
    "kill_tree_key": (kill("tree", key=True), 5),
    "kill_two_direct": (kill_two("direct"), 5),
    "stop_ring": (stop("ring"), 9),
    "stop_over_end_tree": (stop_over_end("tree"), 5),
    "kill_master_direct": (kill_master("direct"), 6),
    "join_ring": (join("ring"), 6),
    "leave_tree": (leave("tree"), 6),
    "cut_ring": (cut("ring"), 6),
}

if __name__ == "__main__":
    missing = usable()
    if missing:
        print(f"peers.py: skipped: cut_ring: {missing}")
        del TESTS["cut_ring"]
    main(TESTS, sys.argv[1:])
    if missing:
        sys.exit(SKIPPED)
