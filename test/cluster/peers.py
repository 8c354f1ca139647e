#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""peers.py [--full] [NAME...]: workers without servers die, stop, leave, come and are cut off; the
run goes on, and what it counted is right.  Replicas are equal (ssgd), or differ (strom, gossip,
d-psgd).  The cable needs root and network namespaces, as in links.py."""
import json
import math
import os
import re
import signal
import subprocess
import sys
import urllib.request

sys.dont_write_bytecode = True
from cluster import SLACK, THALWEG, Cluster, TooShort, end_with_us, need, read
from deltas import Counter
from faults import hears_of_the_end, interrupt, stop_and_go_on
from links import Namespaces, run


def peers(name, topology, epochs, workers=3, sets=(), **more):
    return Cluster(f"{name}-{topology}", "ssgd", epochs, workers=workers, servers=0,
                   sets=[("strategy.topology", topology), *sets], **more)


def counts(topology):
    """The result has the bytes that all nodes sent: between processes, as in sim."""
    def test(epochs):
        with peers("counts", topology, epochs) as c:
            serve, _, _ = c.begin(3)
            r = c.finish(serve, target=0.85)
            job = [os.path.join(c.dir, "job.yaml"), "--set", f"strategy.topology={topology}",
                   "--json", "--quiet", "--run", os.path.join(c.dir, "counts")]
            sums = r["updates"] * 2 * 4 * r["parameters"] * 2
            need(sums <= r["bytes_sent"] <= 1.5 * sums, f"{r['bytes_sent']}, sums have {sums}")
            for verb in ("sim", "train --processes --again", "train --again"):
                words = [THALWEG, *verb.split(), *job]
                one = json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout)
                share = r["bytes_sent"] / one["bytes_sent"]
                need(0.8 <= share <= 1.25, f"{r['bytes_sent']}, {verb}: {one['bytes_sent']}")
            return f"{r['bytes_sent']} bytes, sums have {sums}"
    return test


def kill(topology, key=False):
    """kill -9: the others go on without it.  Then another comes in its place."""
    def test(epochs):
        with peers("kill", topology, epochs, key=key) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.kill()
            c.until_gone(two, serve)
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
            c.until_gone(one, serve)
            c.until_gone(three, serve)
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
            c.until_gone(two, serve)
            c.until_steps(one, 50)
            two.signal(signal.SIGCONT)
            c.until(lambda: two.err().count("joined") == 2, "it joins again", 60, serve, two)
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
            c.until_gone(two, serve)
            r = c.finish(serve, survivors=(one, three), asleep=(two,))
            two.signal(signal.SIGCONT)
            hears_of_the_end(two, one)
            c.nobody_left()
            return f"redealt {r['redealt']}"
    return test


def kill_master(topology):
    """The master dies, and the same command goes on; the workers keep their connections and what
    they have: nothing goes back to the checkpoint."""
    def test(epochs):
        with peers("kill-master", topology, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            c.until_checkpoint(serve)
            for w in (one, two, three):
                c.until_steps(w, 50)
            serve.kill()
            c.rest(1.0, one, two, three)
            serve = c.serve()
            c.until(lambda: "the run goes on after round" in serve.err(),
                    "serve says that the run goes on", 60, serve)
            for w in (one, two, three):
                c.until_steps(w, 50)
            need("restored from checkpoint" not in serve.err(), "it went back to a checkpoint")
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
            c.leave(one)
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
                c.until_gone(far, serve)
                c.until_steps(near[0], 20)
                n.mend()
                c.until_steps(far, 20, 30)
                r = c.finish(serve, survivors=near)
                return f"redealt {r['redealt']}"
    return test


# --- replicas that differ ---

TUNED = {"strom": ", codec: {up_tau: 0.05}"}  # a gradient value of this job is about so large
EXACT = ("d-psgd",)  # the presets with rounds: every sample counts once, whoever dies
WAITS = (r" has waited [0-9.]+ s for ((shard \d+ of )?(master|worker \d+) on \S+: \S"
         r"|worker \d+: it has not joined)")


class Mixed(Cluster):
    """A cluster of such a preset; `finish` looks at what all of its runs have in common."""

    def __init__(self, name, preset, epochs, workers=3, **more):
        strategy = f"{{name: {preset}{TUNED.get(preset, '')}}}"
        super().__init__(f"{name}-{preset}", strategy, epochs, workers=workers, servers=0,
                         target=0.85, **more)
        self.preset = preset

    def finish(self, serve, **more):
        more.setdefault("exact", self.preset in EXACT and not more.get("again"))
        r = super().finish(serve, **more)
        losses = [line["loss"] for p in self.all for line in p.lines("evaluation")
                  if p.name.startswith("serve")]
        need(len(losses) >= 2 and all(math.isfinite(x) for x in [*losses, r["loss"]]),
             f"these are losses: {losses}, at the end {r['loss']}")
        need(r["loss"] < losses[0], f"the loss has not fallen: {losses}, at the end {r['loss']}")
        self.words()
        return r

    def words(self):
        """Nobody says that equal replicas differ, and who waits knows for whom."""
        for p in self.all:
            need("are not those of" not in p.err(), f"{p.name}: replicas that should be equal differ")
            for line in p.err().split("\n"):
                need("has waited" not in line or re.search(WAITS, line),
                     f"{p.name} does not say for whom it waits: {line}")
                need("has waited" not in line or "new worker" not in line,
                     f"{p.name} does not know who waits: {line}")


def figures(r):
    return (f"samples {r['samples']}, redealt {r['redealt']}, repeated {r['repeated']}, "
            f"lost {r['lost_updates']}")


def mixed_kill(preset, which=1, key=False):
    """kill -9: of the first one, too, which speaks for all.  Then another comes in its place."""
    def test(epochs):
        with Mixed("kill", preset, epochs, key=key) as c:
            serve, _, workers = c.begin(3)
            workers.sort(key=lambda w: w.slot())
            dead = workers.pop(which)
            dead.kill()
            c.until_gone(dead, serve)
            for w in workers:
                c.until_steps(w, 50)
            c.until_steps(c.worker(), 20)
            return figures(c.finish(serve, survivors=workers))
    return test


def mixed_kill_two(preset):
    """Two of four die at once."""
    def test(epochs):
        with Mixed("kill-two", preset, epochs, workers=4) as c:
            serve, _, (one, two, three, four) = c.begin(4)
            one.kill()
            three.kill()
            c.until_gone(one, serve)
            c.until_gone(three, serve)
            c.until_steps(two, 100)
            c.until_steps(four, 100)
            return figures(c.finish(serve, survivors=(two, four)))
    return test


def mixed_stop(preset):
    """SIGSTOP for longer than the limit: it is removed; it wakes up, and joins again."""
    def test(epochs):
        with Mixed("stop", preset, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.signal(signal.SIGSTOP)
            c.until_gone(two, serve)
            c.until_steps(one, 50)
            two.signal(signal.SIGCONT)
            c.until(lambda: two.err().count("joined") == 2, "it joins again", 60, serve, two)
            c.until_steps(two, 50)
            return figures(c.finish(serve, survivors=(one, three)))
    return test


def mixed_names_whom(preset):
    """Who waits for more than five seconds says for whom; one that wakes up in time goes on."""
    def test(epochs):
        with Mixed("names-whom", preset, epochs, sets=[("cluster.limit", "25s"),
                   ("cluster.suspect", ""), ("cluster.heartbeat", "")]) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.signal(signal.SIGSTOP)
            whom = rf"has waited [0-9.]+ s for worker {two.slot()} on \S+: its "
            c.until(lambda: any(re.search(whom, p.err()) for p in (serve, one, three)),
                    f"somebody says '{whom}'", 9 + SLACK, serve)
            two.signal(signal.SIGCONT)
            c.until_steps(two, 50)
            r = c.finish(serve, survivors=(one, three), exact=True)
            need(not r["redealt"], f"nobody went: {figures(r)}")
            return figures(r)
    return test


def mixed_stop_over_end(preset):
    """The others finish while one is stopped, and it hears of that when it goes on."""
    def test(epochs):
        with Mixed("stop-over-end", preset, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            two.signal(signal.SIGSTOP)
            c.until_gone(two, serve)
            r = c.finish(serve, survivors=(one, three), asleep=(two,))
            two.signal(signal.SIGCONT)
            hears_of_the_end(two, one)
            c.nobody_left()
            return figures(r)
    return test


def mixed_kill_master(preset):
    """The master dies, and the same command goes on; the workers keep their connections."""
    def test(epochs):
        with Mixed("kill-master", preset, epochs) as c:
            serve, _, workers = c.begin(3)
            c.until_checkpoint(serve)
            serve.kill()
            c.rest(1.0, *workers)
            serve = c.serve()
            c.until_back(*workers)
            for w in workers:
                c.until_steps(w, 50)
            return figures(c.finish(serve, again=True))
    return test


def mixed_resume(preset):
    """The master stops at a checkpoint with 75; so do the workers leave.  All of them are started
    again, and the run goes on from there."""
    def test(epochs):
        with Mixed("resume", preset, epochs) as c:
            serve, _, workers = c.begin(3)
            interrupt(serve)
            first = serve.result()
            need(first["interrupted"], "an interrupted run says that it was not")
            for w in workers:
                w.signal(signal.SIGTERM)
                code = w.wait(20)
                need(code == 0, f"{w.name} was asked to leave and ended with {code}")
            serve = c.serve()
            for w in [c.worker() for _ in range(3)]:
                c.until_steps(w, 20)
            # nobody died: all samples are counted once
            r = c.finish(serve, exact=True)
            need(r["samples"] > first["samples"] > 0, "it began again")
            return figures(r)
    return test


def mixed_join(preset):
    """Two come to two that train."""
    def test(epochs):
        with Mixed("join", preset, epochs, workers=4, sets=[("cluster.wait", "1s")]) as c:
            serve, _, first = c.begin(2)
            later = [c.worker() for _ in range(2)]
            for w in later:
                c.until_steps(w, 20)
            r = c.finish(serve, survivors=first + later, exact=True)
            need(r["redealt"] == 0 or preset in EXACT, f"{r['redealt']} dealt again: nobody died")
            return figures(r)
    return test


def mixed_leave(preset):
    """One leaves by SIGTERM, and one comes."""
    def test(epochs):
        with Mixed("leave", preset, epochs) as c:
            serve, _, (one, two, three) = c.begin(3)
            c.leave(one)
            c.until_steps(two, 50)
            four = c.worker()
            c.until_steps(four, 20)
            r = c.finish(serve, survivors=(two, three, four))
            need(not r["lost_updates"], f"{r['lost_updates']} lost updates, but nobody died")
            return figures(r)
    return test


def mixed_cut(preset):
    """The cable between two machines is out for longer than the limit; then it is mended."""
    def test(epochs):
        with Namespaces() as n:
            with Mixed("cut", preset, epochs, host="10.77.0.1", inside=n.here, key=True) as c:
                serve = c.serve()
                near = [c.worker(inside=n.here) for _ in range(2)]
                far = c.worker(inside=n.there)
                for w in (*near, far):
                    c.until_steps(w, 20)
                n.drop(100)
                c.until_gone(far, serve)
                c.until_steps(near[0], 20)
                n.mend()
                c.until_steps(far, 20, 30)
                return figures(c.finish(serve, survivors=near))
    return test


def mixed_blink(preset):
    """The cable is out for less than the limit, several times: nobody is removed, nothing is lost."""
    def test(epochs):
        with Namespaces() as n:
            with Mixed("blink", preset, epochs, host="10.77.0.1", inside=n.here, key=True,
                       sets=[("cluster.limit", "20s"), ("cluster.suspect", "10s")]) as c:
                serve = c.serve()
                near = c.worker(inside=n.here)
                far = [c.worker(inside=n.there) for _ in range(2)]
                for w in (near, *far):
                    c.until_steps(w, 20)
                for _ in range(3):
                    n.drop(100)
                    c.rest(1.0, serve)
                    n.mend()
                    c.until_steps(near, 20)
                r = c.finish(serve, exact=True)
                need("is gone" not in serve.err(), "a worker that came back in time was removed")
                need(not r["redealt"] and not r["lost_updates"], f"nobody went: {figures(r)}")
                return figures(r)
    return test


def page(p):
    """/metrics of a process that has said where it is, as a dictionary."""
    at = re.search(r"http://\S+(?= has /metrics)", p.err())
    need(at, f"{p.name} does not say where /metrics is")
    try:
        with urllib.request.urlopen(at.group() + "/metrics", timeout=10) as answer:
            lines = answer.read().decode().split("\n")
    except OSError as e:
        raise TooShort(f"{p.name} has no /metrics any more: {e}") from None
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines
                                     if line and not line.startswith("#"))}


def same_bytes(c, serve, workers):
    """What a worker has received another one has sent, and the other way round."""
    number = {w: w.slot() for w in workers}

    def count(w, way, other):
        return next(v for k, v in page(w).items() if k.startswith(f"thalweg_peer_bytes_{way}_total")
                    and f'peer="worker {number[other]}"' in k)

    for a in workers:
        for b in workers:
            if a is b:
                continue
            # a page may be a little old
            for one, way, other, back in ((a, "sent", b, "received"), (b, "received", a, "sent")):
                now = count(one, way, other)
                c.until(lambda: count(other, back, one) >= now, f"{other.name} has {back} the "
                        f"{now:.0f} bytes that {one.name} has {way}", 30, serve)


def mixed_figures(preset):
    """What a user sees of a run: /metrics of the master and of a worker, the bytes, the codec."""
    def test(epochs):
        with Mixed("figures", preset, epochs) as c:
            c.http = "0"
            serve = c.serve()
            relay = Counter(c.address)
            workers = [c.start("worker", ["join", relay.address, "--http", "0"]) for _ in range(3)]
            for w in workers:
                c.until_steps(w, 50)
            master, one = page(serve), page(workers[0])
            for name in ("steps_total", "samples_total", "samples_per_second", "epochs", "workers"):
                need(master[f"thalweg_{name}"] > 0, f"/metrics of the master: no thalweg_{name}")
            need(master["thalweg_samples_total"] <= epochs * c.size, "more samples than there are")
            peers = sorted(re.search(r'peer="([^"]*)"', k).group(1) for k in one
                           if k.startswith("thalweg_peer_up"))
            need(len(peers) == 3 and peers[0] == "master" and
                 all(re.fullmatch(r"worker [012]", p) for p in peers[1:]),
                 f"/metrics of a worker: it calls the others {peers}")
            need(one["thalweg_steps_total"] > 0, "/metrics of a worker: no steps")
            same_bytes(c, serve, workers)
            r = c.finish(serve, exact=True)
            relay.close()
            # the result is made before the last words, which carry it
            need(relay.there - 16384 < r["bytes_received"] <= relay.there,
                 f"bytes_received {r['bytes_received']}, carried {relay.there}")
            # the workers', too: most of it goes past the master
            need(r["bytes_sent"] > 5 * (relay.back + relay.there), f"bytes_sent {r['bytes_sent']}")
            up = r["codec"]["up"]
            need(up["encoded"] < up["raw"] if preset == "strom" else
                 up["encoded"] == up["raw"] and up["density"] == 1, f"the codec made {up}")
            need(sum(w.result()["own_samples"] for w in workers) == r["samples"],
                 "the workers' own samples are not those of the run")
            need((r["residual"] is not None) == (preset == "strom"), f"residual: {r['residual']}")
            return f"{r['bytes_sent']} bytes, {r['bytes_received']} to the master"
    return test


def mixed_processes(preset):
    """`train --processes`: a worker is killed, another takes its place, the run ends by itself."""
    def test(epochs):
        with Mixed("processes", preset, epochs) as c:
            at = {k: os.path.join(c.dir, f"train.{k}") for k in ("out", "err", "log")}
            words = [THALWEG, "train", os.path.join(c.dir, "job.yaml"), "--processes", "--run",
                     os.path.join(c.dir, "run"), "--json", "--log", at["log"]]
            with open(at["out"], "w") as out, open(at["err"], "w") as err:
                p = subprocess.Popen(words, stdout=out, stderr=err, preexec_fn=end_with_us)
            try:
                c.until(lambda: "run: epoch " in read(at["err"]), "the first epoch", 60)
                children = read(f"/proc/{p.pid}/task/{p.pid}/children").split()
                if not children:
                    raise TooShort("it is over")
                os.kill(int(children[-1]), signal.SIGKILL)
                code = p.wait(120)
            finally:
                p.kill()
                p.wait()
            said = read(at["err"])
            need(code == 0, f"it ended with {code}: {said[-800:]}")
            need("are not those of" not in said, "replicas that should be equal differ")
            r = json.loads(read(at["out"]))
            size = epochs * c.size
            if "was killed by signal 9" not in said:
                raise TooShort("it was over before the kill")
            need(r["epochs"] >= epochs and math.isfinite(r["loss"]), f"{r['epochs']}, {r['loss']}")
            need(r["samples"] == size if preset in EXACT else
                 size <= r["samples"] + c.batch * r["lost_updates"] and
                 r["samples"] <= size + r["redealt"], figures(r))
            return figures(r)
    return test


TESTS = {
    "counts_ring": (counts("ring"), 6),
    "kill_ring": (kill("ring"), 16),
    "kill_tree_key": (kill("tree", key=True), 16),
    "kill_two_direct": (kill_two("direct"), 16),
    "stop_ring": (stop("ring"), 20),
    "stop_over_end_tree": (stop_over_end("tree"), 12),
    "kill_master_direct": (kill_master("direct"), 16),
    "join_ring": (join("ring"), 20),
    "leave_tree": (leave("tree"), 16),
    "cut_ring": (cut("ring"), 16),
}

SHORT = {
    "kill_first_strom": (mixed_kill("strom", 0), 24),
    "kill_gossip_key": (mixed_kill("gossip", key=True), 24),
    "kill_two_d-psgd": (mixed_kill_two("d-psgd"), 16),
    "stop_gossip": (mixed_stop("gossip"), 24),
    "leave_strom": (mixed_leave("strom"), 36),
    "resume_gossip": (mixed_resume("gossip"), 16),
    "processes_gossip": (mixed_processes("gossip"), 24),
    "figures_gossip": (mixed_figures("gossip"), 12),
}


def full():
    """Every fault for every preset."""
    tests = {}
    for preset, more in (("strom", 1), ("gossip", 2), ("d-psgd", 1)):
        for name, (test, epochs) in {
                "kill": (mixed_kill(preset), 6), "kill_first": (mixed_kill(preset, 0, True), 6),
                "kill_two": (mixed_kill_two(preset), 8), "stop": (mixed_stop(preset), 12),
                "names_whom": (mixed_names_whom(preset), 6),
                "stop_over_end": (mixed_stop_over_end(preset), 6),
                "kill_master": (mixed_kill_master(preset), 8),
                "resume": (mixed_resume(preset), 6), "join": (mixed_join(preset), 6),
                "leave": (mixed_leave(preset), 6), "processes": (mixed_processes(preset), 6),
                "figures": (mixed_figures(preset), 4),
                "cut": (mixed_cut(preset), 12), "blink": (mixed_blink(preset), 12)}.items():
            tests[f"{name}_{preset}"] = (test, more * epochs)
    return tests


if __name__ == "__main__":
    words = sys.argv[1:]
    tests = {**TESTS, **SHORT}
    if words[:1] == ["--full"]:
        tests, words = full(), words[1:]
    else:
        Cluster.share, Cluster.samples = 0.2, 5000
        tests = {**full(), **tests} if words else tests
    run("peers.py", tests, words, ("cut", "blink"))
