#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""faults.py [NAME...]: processes of a cluster die, stop, leave and come back; the run goes on.

Limits are short, so that the tests are; full.py has the long ones, with the standard limits."""
import re
import signal
import sys

sys.dont_write_bytecode = True
from cluster import SLACK, Cluster, TooShort, main, need


def kill_worker(strategy):
    def test(epochs):
        with Cluster(f"kill-worker-{strategy}", strategy, epochs, workers=3) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.kill()
            c.until_gone(two, serve)
            c.until_steps(one, 20)
            c.until_steps(three, 20)
            r = c.finish(serve, survivors=(one, three))
            return f"redealt {r['redealt']}, repeated {r['repeated']}"
    return test


def stop_worker(strategy):
    """Longer than the limit: it is removed; it wakes up, is told so, and joins again."""
    def test(epochs):
        with Cluster(f"stop-worker-{strategy}", strategy, epochs, workers=2) as c:
            serve, _, (one, two) = c.begin(2)
            two.signal(signal.SIGSTOP)
            c.until_gone(two, serve)
            c.until_steps(one, 50)
            two.signal(signal.SIGCONT)
            c.until(lambda: two.err().count("joined") == 2, "it joins again", 60, serve, two)
            c.until_steps(two, 50)
            r = c.finish(serve, survivors=(one,))
            return f"redealt {r['redealt']}, repeated {r['repeated']}"
    return test


def hears_of_the_end(one, other):
    """`one` was stopped over the end of the run: it ends soon, and as `other` did."""
    code = one.wait(5 + SLACK)
    need(code == other.child.returncode,
         f"{one.name} ended with {code}, {other.name} with {other.child.returncode}")
    said = [{k: v for k, v in p.result().items() if not k.startswith("own_")} for p in (one, other)]
    need(said[0] == said[1], f"{one.name} says {said[0]}, and {other.name} {said[1]}")


def stop_over_end(strategy, key=False):
    """A worker is stopped and removed, the others finish, and it hears of that when it goes on."""
    def test(epochs):
        with Cluster(f"stop-over-end-{strategy}", strategy, epochs, key=key) as c:
            serve, _, (one, two) = c.begin(2)
            two.signal(signal.SIGSTOP)
            c.until_gone(two, serve)
            r = c.finish(serve, survivors=(one,), asleep=(two,))
            two.signal(signal.SIGCONT)
            hears_of_the_end(two, one)
            c.nobody_left()
            return f"redealt {r['redealt']}"
    return test


def stop_server_over_end(epochs):
    """A server is stopped until another has its place and the run is over."""
    with Cluster("stop-server-over-end", "ssgd", epochs, servers=2) as c:
        serve, (first,), (one, two) = c.begin(2)
        c.until_checkpoint(serve)
        first.signal(signal.SIGSTOP)
        second = c.server()
        c.until(lambda: "joined" in second.err(), "the second takes its place", 60, serve)
        r = c.finish(serve, survivors=(one, two), asleep=(first,))
        first.signal(signal.SIGCONT)
        hears_of_the_end(first, second)
        c.nobody_left()
        return f"redealt {r['redealt']}"


def kill_server(strategy):
    """A joined server dies and another process takes its place: others wait for it, no longer."""
    def test(epochs):
        with Cluster(f"kill-server-{strategy}", strategy, epochs, servers=2) as c:
            serve, (server,), (one, two) = c.begin(2)
            c.until_checkpoint(serve)
            server.kill()
            other = c.server()
            c.until(lambda: "joined" in other.err(), "another takes its place", 60, serve)
            need("is gone, and its shards with it" in serve.err(), "the server was not removed")
            c.until_steps(one, 50)
            c.until_steps(two, 50)
            r = c.finish(serve, survivors=(one, two))
            return f"lost_updates {r['lost_updates']}, redealt {r['redealt']}"
    return test


def replace_server(strategy):
    """A server is stopped for so long that another takes its place; it waits for one again, and
    gets it when the other dies."""
    def test(epochs):
        with Cluster(f"replace-server-{strategy}", strategy, epochs, servers=2) as c:
            serve, (first,), (one, two) = c.begin(2)
            c.until_checkpoint(serve)
            first.signal(signal.SIGSTOP)
            second = c.server()
            c.until(lambda: "joined" in second.err(), "the second takes its place", 60, serve)
            c.until_steps(one, 100)
            first.signal(signal.SIGCONT)
            c.until(lambda: "joining again" in first.err(), "the first is told so", 60, serve, first)
            c.until_steps(one, 100)
            second.kill()
            c.until(lambda: first.err().count("joined") == 2, "the first is back", 60, serve, first)
            c.until_steps(one, 100)
            c.until_steps(two, 100)
            r = c.finish(serve, survivors=(one, two))
            return f"lost_updates {r['lost_updates']}, redealt {r['redealt']}"
    return test


def kill_master(strategy):
    """The master dies, and the same command goes on from its last checkpoint."""
    def test(epochs):
        with Cluster(f"kill-master-{strategy}", strategy, epochs) as c:
            serve, _, (one, two) = c.begin(2)
            c.until_checkpoint(serve)
            serve.kill()
            c.rest(1.0, one, two)
            serve = c.serve()
            c.until_back(one, two)
            c.until_steps(one, 50)
            c.until_steps(two, 50)
            r = c.finish(serve, again=True)
            need("resuming from" in serve.err(), "the second master does not say that it goes on")
            return f"redealt {r['redealt']}, samples {r['samples']}"
    return test


def join_five(strategy):
    def test(epochs):
        with Cluster(f"join-five-{strategy}", strategy, epochs, workers=7,
                     sets=[("cluster.wait", "1s")]) as c:
            serve, _, first = c.begin(2)
            later = [c.worker() for _ in range(5)]
            for w in later:
                c.until_steps(w, 20)
            r = c.finish(serve, survivors=first + later)
            return f"redealt {r['redealt']}"
    return test


def churn(strategy, times, pause=1.0):
    """Every second, or as often, one leaves and one joins."""
    def test(epochs):
        with Cluster(f"churn-{strategy}", strategy, epochs, workers=4,
                     sets=[("cluster.wait", "1s")]) as c:
            serve, _, workers = c.begin(2)
            stays = workers[0]
            files = serve.open_files()
            for _ in range(times):
                leaver = workers.pop()
                workers.append(c.worker())
                c.leave(leaver)
                c.rest(pause, serve)
                c.until_steps(workers[-1], 1)
            c.until_steps(workers[-1], 20)
            need(serve.open_files() <= files + 8,
                 f"{serve.open_files()} open files, {files} at first")
            r = c.finish(serve, survivors=(stays,))
            return f"redealt {r['redealt']}, repeated {r['repeated']}"
    return test


def interrupt(serve):
    """The master stops at a checkpoint."""
    serve.signal(signal.SIGTERM)
    code = serve.wait(30 + SLACK)
    if code == 0:
        raise TooShort(f"{serve.name} was done before it was interrupted")
    need(code == 75, f"{serve.name} was interrupted and ended with {code}, wanted 75")
    serve.doomed = True  # it is over, as it should be


def stop_and_go_on(c, serve):
    """Those who joined wait for the master."""
    interrupt(serve)
    return c.serve()


def terminate(strategy):
    """SIGTERM to everybody in turn: a worker and a server leave, serve stops and goes on."""
    def test(epochs):
        with Cluster(f"terminate-{strategy}", strategy, epochs, servers=2) as c:
            serve, (server,), (one, two) = c.begin(2)
            c.leave(two)
            c.until_steps(one, 50)
            c.leave(server)
            c.until_steps(one, 50)
            serve = stop_and_go_on(c, serve)
            c.server()
            three = c.worker()
            c.until_steps(three, 20)
            c.until_steps(one, 20)
            serve = stop_and_go_on(c, serve)
            c.until_steps(three, 20)
            c.until_steps(one, 20)
            r = c.finish(serve, again=True)
            return f"lost_updates {r['lost_updates']}, redealt {r['redealt']}"
    return test


def names_whom(epochs):
    """A wait of more than five seconds says for whom; one that wakes up in time goes on."""
    with Cluster("names-whom", "ssgd", epochs, sets=[("cluster.limit", "15s"),
                 ("cluster.suspect", ""), ("cluster.heartbeat", "")]) as c:
        serve, _, (one, two) = c.begin(2)
        two.signal(signal.SIGSTOP)
        whom = rf"has waited [0-9.]+ s for worker {two.slot()} on \S+: "
        c.until(lambda: re.search(whom, serve.err()), f"serve says '{whom}'", 7 + SLACK, serve)
        two.signal(signal.SIGCONT)
        c.until_steps(two, 50)
        r = c.finish(serve, survivors=(one,))
        return f"redealt {r['redealt']}"


TESTS = {
    "churn_async": (churn("asgd", 6, 0.3), 40),
    "kill_server_async": (kill_server("asgd"), 20),
    "stop_worker_bsp": (stop_worker("ssgd"), 16),
    "names_whom": (names_whom, 12),
    "terminate_bsp": (terminate("ssgd"), 16),
    "kill_master_bsp": (kill_master("ssgd"), 16),
    "kill_server_bsp": (kill_server("ssgd"), 16),
    "kill_worker_async": (kill_worker("asgd"), 16),
    "kill_master_async": (kill_master("asgd"), 16),
    "join_five_bsp": (join_five("ssgd"), 24),
    "kill_worker_bsp": (kill_worker("ssgd"), 12),
    "stop_over_end_key": (stop_over_end("asgd", key=True), 16),
    "stop_over_end_bsp": (stop_over_end("ssgd"), 12),
}

if __name__ == "__main__":
    Cluster.share, Cluster.samples = 0.2, 5000
    main(TESTS, sys.argv[1:], at_once=4)
