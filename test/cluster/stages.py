#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""stages.py [--full] [NAME...]: a model over several processes.  The bits are those of the simulator
and of threads, over sockets with and without TLS and over socket pairs; cells die, stop, leave, come
and are cut off, and the run goes on."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
from cluster import SLACK, THALWEG, Cluster, TooShort, free_port, main, need
from links import SKIPPED, Namespaces, usable

SCHEDULES = {
    "gpipe": "gpipe",
    "1f1b-flush": "pipedream-flush",
    "2bw": "pipedream-2bw",
    "vertical": "{gate: async, pipeline: {schedule: pipedream, vertical: true}}",
    "pipedream": "pipedream",
    "topk": "{name: gpipe, codec: {up: topk, up_share: 0.1}}",
    "onebit": "{name: pipedream-flush, codec: {up: onebit}}",
}
EXACT = ("gpipe", "1f1b-flush", "topk", "onebit")  # in rounds: every sample counts once, whoever dies


def text(schedule, epochs, size, stages, workers, servers, every, cluster):
    accumulate = 1 if schedule in ("vertical", "pipedream") else 4
    return f"""\
data: {{source: digits, count: {size}, batch: 8, accumulate: {accumulate}}}
model: {{layers: [linear 48, relu, linear 48, relu, linear 48, relu, linear 10]}}
train: {{epochs: {epochs}, seed: 3}}
update: {{rate: 0.05}}
cluster: {{workers: {workers}, min: 1, wait: 30s, stages: {stages}, servers: {servers}{cluster}}}
checkpoint: {{every: {every}, keep: 2}}
strategy: {SCHEDULES[schedule]}
"""


class Pipeline(Cluster):
    def __init__(self, name, schedule, epochs, size=2000, lanes=(1, 1, 1), workers=1, servers=1,
                 every="1s", cluster="", **more):
        if max(lanes) > 1:
            cluster += f", lanes: {list(lanes)}"
        super().__init__(f"{name}-{schedule}", schedule, epochs, size=size, batch=8,
                         servers=servers, job=text(schedule, epochs, size, len(lanes), workers,
                                                   servers, every, cluster), **more)
        self.stage_of = [s for s, n in enumerate(lanes) for _ in range(n)]
        self.cells, self.workers, self.exact = sum(lanes), workers, schedule in EXACT

    def here(self, verb, *words):
        """The same job on this machine."""
        done = subprocess.run([THALWEG, verb, os.path.join(self.dir, "job.yaml"), "--json",
                               *words], capture_output=True, text=True, timeout=120)
        need(done.returncode == 0, f"{verb} {words}: {done.stderr[-600:]}")
        return json.loads(done.stdout)

    def finish(self, serve, **more):
        more.setdefault("exact", self.exact and not more.get("again"))
        r = super().finish(serve, **more)
        for p in self.all:
            for line in p.err().split("\n"):
                need("has waited" not in line or
                     re.search(r"for (master|server \d+|shard \d+ of server \d+|worker \d+\.\d+)"
                               r"( on \S+)?: \S", line),
                     f"{p.name} does not say for whom it waits: {line}")
        return r


COUNTED = ("worker", "stage", "lane", "micro_batches", "in_flight")  # the same wherever it runs


def same_figures(world, got, want):
    """The master knows what every cell has done."""
    got, want = got["pipeline"], want["pipeline"]
    counts = [[[c[k] for k in COUNTED] for c in p["cells"]] for p in (got, want)]
    need(counts[0] == counts[1], f"{world}: cells have done {counts[0]}, in sim {counts[1]}")
    need(0 < got["bubble"] < 1 and got["seconds"] > 0, f"{world}: {got}")
    for c, k in zip(got["cells"], want["cells"]):
        need(c["forward_seconds"] > 0 and c["backward_seconds"] > 0 and c["memory_bytes"] > 0 and
             0 <= c["idle"] < 1, f"{world}: {c}")
        # what is sent again after a reconnect counts, too
        need(k["activation_bytes_sent"] <= c["activation_bytes_sent"] <
             1.5 * k["activation_bytes_sent"], f"{world}: {c}, and sim {k}")


def same(*schedules, everywhere=False, **shape):
    """The digests of `sim` are those of all worlds, and so is what cells have done."""
    def test(epochs):
        for schedule in schedules:
            # a drain for a checkpoint ends a stream, and with it a delay
            with Pipeline("same", schedule, 2, size=400, every="0s", **shape) as c:
                sim = c.here("sim")
                want = sim["parameters_digest"]
                runs = [("threads", c.here("train", "--run", os.path.join(c.dir, "threads"))),
                        ("processes", c.here("train", "--processes", "--run",
                                             os.path.join(c.dir, "processes")))]
                for key in (False, True) if everywhere or schedule == "gpipe" else (False,):
                    c.key = c.make_key() if key else []
                    c.address = f"127.0.0.1:{free_port()}"
                    c.count, c.all = {}, []
                    serve = c.serve()
                    for _ in range(c.cells):
                        c.worker()
                    runs.append(("tls" if key else "tcp", c.finish(serve)))
                    shutil.rmtree(os.path.join(c.dir, "run"))
                for world, r in runs:
                    need(r["parameters_digest"] == want,
                         f"{schedule}, {world}: {r['parameters_digest']}, and sim has {want}")
                    same_figures(f"{schedule}, {world}", r, sim)
        return f"{len(schedules)} schedules"
    return test


def cells(c, serve):
    """The processes of a cluster by the cell that they are: "0.1"."""
    found = {}
    for p in c.all:
        named = re.findall(r"worker (\d+\.\d+) on \S+: joined", p.err())
        if named and p.running():
            found[named[-1]] = p
    return found


def begin(c, processes=None):
    """All cells are there, and the first of each worker has done some steps."""
    serve = c.serve()
    for _ in range(processes or c.cells * c.workers):
        c.worker()
    c.until(lambda: len(cells(c, serve)) == c.cells * c.workers, "all cells have joined", 60, serve)
    for cell, p in sorted(cells(c, serve).items()):
        if cell.endswith(".0"):
            c.until_steps(p, 20)
    return serve


def goes_on(c, serve, more=20):
    """Whoever is the first cell of a worker now does so many steps more."""
    before = sum(p.steps() for p in c.all)
    c.until(lambda: sum(p.steps() for p in c.all) >= before + more, f"{more} steps more", 60, serve)


def figures(r):
    return f"samples {r['samples']}, redealt {r['redealt']}, repeated {r['repeated']}"


def kill(schedule, cell, key=False, waits=True, **shape):
    """kill -9 of a cell: the worker is lost.  Who joins takes the cell that is missing."""
    def test(epochs):
        with Pipeline("kill", schedule, epochs, key=key, **shape) as c:
            serve = begin(c)
            cells(c, serve)[f"0.{cell}"].kill()
            c.until(lambda: "worker 0 is gone" in serve.err(), "serve removes the worker", 10, serve)
            c.until(lambda: f"1 more must join, for stage {c.stage_of[cell]}" in serve.err(),
                    "serve says what it needs", 15, serve)
            if waits:
                c.until(lambda: re.search(rf"has waited .* for worker 0\.{cell}: it has not joined",
                                          serve.err()), "serve names the cell", 9 + SLACK, serve)
            last = c.worker()
            c.until(lambda: f"worker 0.{cell} on" in last.err(), "the newcomer is that cell", 20,
                    serve)
            goes_on(c, serve)
            return figures(c.finish(serve))
    return test


def page(serve, name):
    at = re.search(r"http://\S+(?= has /metrics)", serve.err()).group(0)
    try:
        with urllib.request.urlopen(f"{at}/{name}", timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as e:  # 503: somebody is waited for
        return e.read().decode()
    except OSError as e:
        serve.child.wait(timeout=20)
        if serve.child.returncode == 0:
            raise TooShort(f"the run was over before it showed /{name}") from e
        raise


def health(schedule):
    """/health says who has which cell, which are vacant and which one is waited for; /metrics has
    what each cell has done."""
    def test(epochs):
        with Pipeline("health", schedule, epochs) as c:
            c.http = "0"

            def places():
                return {f"{p['worker']}.{p['cell']}": p for p in
                        json.loads(page(serve, "health"))["cells"]}
            serve = c.serve()
            need([p["state"] for p in places().values()] == ["vacant"] * 3, f"{places()}")
            first = c.worker()
            c.until(lambda: sorted(p["state"] for p in places().values()) ==
                    ["vacant", "vacant", "waiting"], "one cell waits for the others", 20, serve)
            c.worker()
            c.worker()
            c.until(lambda: all(p["state"] == "working" and p["micro_batches"] and
                                p["host"] == "127.0.0.1" and p["node"] is not None and
                                not p["awaited"] for p in places().values()),
                    "all cells work", 30, first, serve)
            text = page(serve, "metrics")
            for figure in ("micro_batches_total", "forward_seconds_total",
                           "backward_seconds_total", "sent_bytes_total", "memory_bytes"):
                for stage in range(3):
                    labels = f'{{worker="0",stage="{stage}",lane="0"}}'
                    found = re.search(rf"thalweg_stage_{figure}{labels} (\S+)", text)
                    need(found and float(found.group(1)) > 0, f"{figure} of stage {stage}")
            done = {k: p["micro_batches"] for k, p in places().items()}
            cells(c, serve)["0.1"].kill()
            c.until(lambda: places()["0.1"]["state"] == "vacant" and places()["0.1"]["awaited"],
                    "the cell that is gone is waited for", 20 + SLACK, serve)
            now = json.loads(page(serve, "health"))
            need(now["status"] == "waiting" and any(
                w["who"].startswith("master") and w["whom"] == "worker 0.1" and w["why"] ==
                "it has not joined" for w in now["waits"]), f"{now['waits']}")
            need([p["state"] for p in now["cells"]] == ["waiting", "vacant", "waiting"] and
                 not now["cells"][0]["awaited"], f"{now['cells']}")
            c.worker()
            c.until(lambda: all(p["state"] == "working" and p["micro_batches"] > done[k]
                                for k, p in places().items()), "it goes on", 30, serve)
            return figures(c.finish(serve))
    return test


def spare(schedule):
    """One process more than there are cells waits, and takes the place of one that dies."""
    def test(epochs):
        with Pipeline("spare", schedule, epochs) as c:
            serve = begin(c, c.cells + 1)
            cells(c, serve)["0.1"].kill()
            c.until(lambda: len(cells(c, serve)) == c.cells, "the spare one is a cell", 20, serve)
            goes_on(c, serve)
            return figures(c.finish(serve))
    return test


def vacancies(schedule):
    """Both workers lose a cell for good: those who are left are one worker."""
    def test(epochs):
        with Pipeline("vacancies", schedule, epochs, workers=2) as c:
            serve = begin(c)
            at = cells(c, serve)
            at["0.2"].kill()
            at["1.2"].kill()
            goes_on(c, serve, 60)
            # one process has no place: it waits until the run is over
            return figures(c.finish(serve))
    return test


def stop(schedule, cell):
    """SIGSTOP for longer than the limit; it wakes up and joins again."""
    def test(epochs):
        with Pipeline("stop", schedule, epochs) as c:
            serve = begin(c)
            one = cells(c, serve)[f"0.{cell}"]
            one.signal(signal.SIGSTOP)
            c.until(lambda: "worker 0 is gone" in serve.err(), "serve removes the worker", 15, serve)
            one.signal(signal.SIGCONT)
            goes_on(c, serve)
            return figures(c.finish(serve))
    return test


def pause(schedule):
    """SIGSTOP for less than the limit: nobody is lost."""
    def test(epochs):
        with Pipeline("pause", schedule, epochs, sets=[("cluster.limit", "20s"),
                      ("cluster.suspect", "10s"), ("cluster.heartbeat", "")]) as c:
            serve = begin(c)
            one = cells(c, serve)["0.1"]
            one.signal(signal.SIGSTOP)
            c.rest(7.0, serve)
            need(any(re.search(r"has waited .* for worker 0\.\d on \S+: (activations|gradients) of",
                               p.err()) for p in c.all), "nobody says for which cell it waits")
            if schedule in EXACT:  # a round waits for it
                need(re.search(r"has waited .* for worker 0\.1 on \S+: its contribution",
                               serve.err()), "the master does not name the cell")
            one.signal(signal.SIGCONT)
            goes_on(c, serve)
            r = c.finish(serve, exact=True)
            need(not r["redealt"], f"nobody went: {figures(r)}")
            return figures(r)
    return test


def leave(schedule, cell):
    """SIGTERM: a cell leaves, and another process comes."""
    def test(epochs):
        with Pipeline("leave", schedule, epochs) as c:
            serve = begin(c)
            one = cells(c, serve)[f"0.{cell}"]
            one.signal(signal.SIGTERM)
            code = one.wait(20)
            need(code == 0, f"{one.name} was asked to leave and ended with {code}")
            c.worker()
            goes_on(c, serve)
            return figures(c.finish(serve))
    return test


def cut(schedule, times=1, **more):
    """The cable to the machine of one cell is out for longer than the limit, so many times; then it
    is mended."""
    def test(epochs):
        with Namespaces() as n:
            with Pipeline("cut", schedule, epochs, host="10.77.0.1", inside=n.here, key=True,
                          **more) as c:
                serve = c.serve()
                for there in (n.here, n.there, n.here):
                    c.worker(inside=there)
                c.until(lambda: len(cells(c, serve)) == 3, "all cells have joined", 60, serve)
                for k in range(times):
                    goes_on(c, serve)
                    n.drop(100)
                    c.until(lambda: serve.err().count("worker 0 is gone") > k,
                            "serve removes the worker", c.limit + 10, serve)
                    n.mend()
                goes_on(c, serve)
                return figures(c.finish(serve))
    return test


def blink(schedule):
    """The cable is out for less than the limit, several times: nobody is lost, nothing is dealt
    again, and the bits are those of a run without that."""
    def test(epochs):
        with Namespaces() as n:
            with Pipeline("blink", schedule, epochs, host="10.77.0.1", inside=n.here, key=True,
                          every="0s", sets=[("cluster.limit", "20s"), ("cluster.suspect", "10s"),
                                            ("cluster.heartbeat", "")]) as c:
                want = c.here("train", "--run", os.path.join(c.dir, "threads"))
                serve = c.serve()
                for there in (n.here, n.there, n.here):
                    c.worker(inside=there)
                c.until(lambda: len(cells(c, serve)) == 3, "all cells have joined", 60, serve)
                for _ in range(3):
                    goes_on(c, serve)
                    n.drop(100)
                    c.rest(1.0, serve)
                    n.mend()
                goes_on(c, serve)
                r = c.finish(serve, exact=True)
                need(not r["redealt"], f"nobody went: {figures(r)}")
                need(r["parameters_digest"] == want["parameters_digest"], "the bits are others")
                return figures(r)
    return test


def kill_master(schedule):
    """The master dies, and the same command goes on; all cells join it again."""
    def test(epochs):
        with Pipeline("kill-master", schedule, epochs) as c:
            serve = begin(c)
            c.until_checkpoint(serve)
            serve.kill()
            c.rest(1.0)
            serve = c.serve()
            goes_on(c, serve)
            return figures(c.finish(serve, again=True))
    return test


TESTS = {
    "same": (same("gpipe", "topk"), 2),
    "same_others": (same("2bw", "vertical"), 2),
    "same_lanes": (same("gpipe", lanes=(2, 1, 2)), 2),
    "kill_last": (kill("gpipe", 2, waits=False), 12),
    "kill_lane": (kill("pipedream", 1, waits=False, lanes=(2, 1, 1)), 12),
    "health": (health("gpipe"), 96),
}


def full():
    tests = {"same_everywhere": (same(*SCHEDULES, everywhere=True), 2)}
    for schedule in ("gpipe", "pipedream", "2bw", "topk"):
        for cell in range(3):
            tests[f"kill_{cell}_{schedule}"] = (kill(schedule, cell, key=cell == 1), 12)
            tests[f"stop_{cell}_{schedule}"] = (stop(schedule, cell), 12)
            tests[f"leave_{cell}_{schedule}"] = (leave(schedule, cell), 12)
        tests[f"spare_{schedule}"] = (spare(schedule), 12)
        tests[f"pause_{schedule}"] = (pause(schedule), 8)
        tests[f"kill_master_{schedule}"] = (kill_master(schedule), 12)
    for schedule in ("gpipe", "pipedream"):
        tests[f"vacancies_{schedule}"] = (vacancies(schedule), 12)
        tests[f"cut_{schedule}"] = (cut(schedule), 12)
        for cell in range(4):
            tests[f"kill_lane_{cell}_{schedule}"] = (
                kill(schedule, cell, key=cell == 1, lanes=(2, 1, 1)), 12)
    # the second lane reads from the node of the first
    tests["cut_lane_with_stage"] = (cut("pipedream", 2, lanes=(1, 2), servers=0,
                                        cluster=", place: with-stage"), 24)
    tests["blink_gpipe"] = (blink("gpipe"), 12)
    tests["same_lanes_with_stage"] = (same("gpipe", "1f1b-flush", everywhere=True, servers=0,
                                           lanes=(3, 1, 2), cluster=", place: with-stage"), 2)
    return tests


if __name__ == "__main__":
    words = sys.argv[1:]
    tests = TESTS
    if words[:1] == ["--full"]:
        tests, words = full(), words[1:]
    elif words:
        tests = {**full(), **TESTS}
    missing = usable()
    if missing:
        left_out = [k for k in tests if k.startswith(("cut", "blink"))]
        tests = {k: v for k, v in tests.items() if k not in left_out}
        words = [w for w in words if w not in left_out]
    main(tests, words)
    if missing and left_out:
        print(f"stages.py: skipped: {', '.join(left_out)}: {missing}")
        sys.exit(SKIPPED)
