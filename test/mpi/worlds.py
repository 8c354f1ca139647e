#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""worlds.py [--full] - jobs on MPI ranks give what they give elsewhere.

Methods that commit whole rounds end with the bits of `threads`, under every launcher, with 2, 3 and 5
ranks.  Every preset that `tcp` accepts trains on ranks.  Data reaches ranks that do not have it, a
job may come by standard input, servers and workers may be placed otherwise, and a run resumes with
another number of ranks.  With --full, benches print one result."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial

from ranks import THALWEG, Run, environment, there, thalweg
from together import together
from checks import check, failures

FULL = "--full" in sys.argv
ROUNDS = {"ssgd": "ssgd", "averaging": "{name: averaging, push: 2}", "allreduce": "allreduce"}
if FULL:
    ROUNDS.update(ring="ring", tree="tree")
DELTAS = ("averaging", "update-based", "local-sgd", "post-local-sgd", "bmuf", "easgd", "eamsgd",
          "diloco", "async-diloco", "fedbuff", "fedasync")
# presets of the most different kinds, for a run without --full
KINDS = ("backup", "d-psgd", "gossip", "strom", "downpour", "ssp", "ringmaster", "dana-dc", "easgd",
         "streaming-diloco")


def job(strategy, workers="", model="quadratic: {dimension: 300000, noise: 0.3}", more=""):
    return (f"model: {{{model}}}\ndata: {{source: none, samples: 60, batch: 3}}\n"
            f"train: {{epochs: 2, seed: 5, evaluate: 1}}\nupdate: {{rate: 0.02}}\n"
            f"{workers}strategy: {strategy}\n{more}")


OPTIMISER = ("model: {least-squares: {dimension: 40, noise: 0.1}}\n"
             "data: {source: none, samples: 90, batch: 3}\ntrain: {seed: 5}\n"
             "strategy: sandblaster\noptimiser: {iterations: 6}\n")


STAGES = ("gpipe", "pipedream-flush", "pipedream", "pipedream-2bw")  # models cut into three
OWING = "{name: gpipe, codec: {up: topk, up_share: 0.1}}"
VERTICAL = "{gate: async, pipeline: {schedule: pipedream, vertical: true}}"


def staged(strategy, cluster="stages: 3"):
    micros = 1 if strategy in ("pipedream", VERTICAL) else 4
    return (f"model: {{quadratic: {{dimension: 30000, noise: 0.3, stages: 3}}}}\n"
            f"data: {{source: none, samples: 60, batch: 3, accumulate: {micros}}}\n"
            f"train: {{epochs: 2, seed: 5, evaluate: 1}}\nupdate: {{rate: 0.02}}\n"
            f"cluster: {{{cluster}}}\nstrategy: {strategy}\n")


def in_threads(text, workers):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.yaml")
        with open(path, "w") as f:
            f.write(text)
        done = thalweg("train", path, "--json", "--run", os.path.join(d, "run"), "--set",
                       f"cluster.workers={workers}")
        if done.returncode:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout)


def bits_of(name, text, ranks, launchers):
    want = in_threads(text, ranks)
    for launcher in launchers:
        with Run(launcher, ranks, text) as r:
            code = r.wait()
            what = f"{name} on {ranks} ranks under {launcher.name}"
            if not check(code == 0, f"{what} ends with 0, not {code}: {r.said()[-300:]}"):
                continue
            got = r.result()
            check(got["world"] == "mpi" and got["workers"] == ranks,
                  f"{what}: every rank is a worker")
            check(got["parameters_digest"] == want["parameters_digest"],
                  f"{what} has the bits of threads")


def same_bits(launchers):
    """Each method with 2, 3 and 5 ranks; launchers take turns, or all with --full."""
    cases = {name: job(strategy) for name, strategy in ROUNDS.items()}
    cases["sandblaster"] = OPTIMISER
    turn = 0
    for k, (name, text) in enumerate(cases.items()):
        for ranks in (2, 3, 5):
            mine = launchers if FULL else [launchers[turn % len(launchers)]]
            turn += 1
            yield f"{name} on {ranks} ranks", partial(bits_of, name, text, ranks, mine)
        turn += k % 2  # so that no number of ranks has one launcher only


def stages_on(strategy, ranks, launchers, *cluster):
    """The cells of a worker are ranks, or share them."""
    text = staged(strategy, *cluster)
    want = in_threads(text, 1)
    for launcher in launchers:
        with Run(launcher, ranks, text) as r:
            code = r.wait()
            what = f"{strategy} on {ranks} ranks under {launcher.name}"
            if not check(code == 0 and r.result()["parameters_digest"] ==
                         want["parameters_digest"],
                         f"{what} has the bits of threads: {r.said()[-300:]}"):
                continue
            mine, theirs = r.result()["pipeline"], want["pipeline"]
            check([[c[k] for k in ("stage", "micro_batches", "in_flight")] for c in mine["cells"]]
                  == [[c[k] for k in ("stage", "micro_batches", "in_flight")]
                      for c in theirs["cells"]] and 0 < mine["bubble"] < 1 and
                  all(c["backward_seconds"] > 0 for c in mine["cells"]),
                  f"{what}: rank 0 knows the figures of all cells: {mine}")


def stages(launchers):
    for k, strategy in enumerate((*STAGES, VERTICAL, OWING)):
        for ranks in (2, 3, 5) if FULL else (3,):
            mine = launchers if FULL else [launchers[k % len(launchers)]]
            yield f"{strategy} on {ranks} ranks", partial(stages_on, strategy, ranks, mine)
    for k, place in enumerate(("servers", "with-stage")):
        for ranks in (3, 5) if FULL else (5,):
            mine = launchers if FULL else [launchers[k % len(launchers)]]
            cluster = f"lanes: [2, 1, 2], place: {place}"
            yield f"{cluster} on {ranks} ranks", partial(stages_on, "gpipe", ranks, mine, cluster)


LIBRARY = job("{gate: bsp, topology: library}", "cluster: {shards: 3}\n")


def library(ranks, launcher):
    """MPI_Iallreduce promises no bits; to rounding it gives what our own sums give."""
    want = in_threads(LIBRARY.replace("library", "direct"), ranks)
    with Run(launcher, ranks, LIBRARY) as r:
        code = r.wait()
        what = f"schedule: library on {ranks} ranks under {launcher.name}"
        if not check(code == 0, f"{what} ends with 0, not {code}: {r.said()[-300:]}"):
            return
        got = r.result()
        check(abs(got["loss"] / want["loss"] - 1) < 1e-4,
              f"{what}: loss {got['loss']}, with direct {want['loss']}")
        check(all(got[k] == want[k] for k in ("steps", "samples", "updates")),
              f"{what}: the same steps, samples and updates")


def library_refused(launcher):
    with Run(launcher, 2, LIBRARY.replace("shards: 3", "shards: 3, workers: 3")) as r:
        check(r.wait() == 2 and "every rank takes part with one worker" in r.said(),
              f"two workers on a rank are refused: {r.said()[-300:]}")


def diverges(topology, launcher):
    """Contributions that are not finite, on all ranks at once; then the run starts again."""
    text = ("model: {quadratic: {dimension: 1000, noise: 0.1, start: 1}}\n"
            "data: {source: none, samples: 300, batch: 2}\n"
            "train: {epochs: 1, seed: 1, on_divergence: {restarts: 2, rate: 0.01}}\n"
            "update: {rate: 1000}\nstrategy: {gate: bsp, topology: %s}\n")
    want = in_threads(text % "direct", 3)
    check(want["restarts"] > 0, "it diverges in threads")
    with Run(launcher, 3, text % topology) as r:
        code = r.wait()
        if not check(code == 0, f"{topology} ends after a divergence: {r.said()[-300:]}"):
            return
        got = r.result()
        check(got["restarts"] == want["restarts"] and
              abs(got["loss"] / want["loss"] - 1) < 1e-4,
              f"{topology} starts again as in threads: {got['restarts']}, {got['loss']}")


def presets():
    names, on = [], False
    for line in thalweg("help", "strategies").stdout.split("\n"):
        if line and not line.startswith(" "):
            on = line.startswith("Presets")
        elif on and line.startswith("  "):
            names.append(line.split()[0])
    return names


def preset_job(name):
    if name == "sandblaster":
        return OPTIMISER
    strategy = f"{{name: {name}, push: 2}}" if name in DELTAS else name
    if name in STAGES:
        return staged(name)
    if name == "streaming-diloco":
        strategy = "{name: streaming-diloco, push: 4, fragments: 2, delay: 1}"
    return job(strategy, "cluster: {shards: 2}\n", "quadratic: {dimension: 37, noise: 0.1}")


def tcp_accepts(text):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.yaml")
        with open(path, "w") as f:
            f.write(text)
        return thalweg("train", path, "--world", "tcp", "--explain").returncode == 0


def preset(name, accepted, launchers):
    for launcher in launchers:
        with Run(launcher, 3, preset_job(name)) as r:
            code = r.wait()
            if accepted:
                check(code == 0, f"{name} runs on ranks under {launcher.name}: {r.said()[-300:]}")
            else:
                check(code != 0 and not r.printed(),
                      f"{name}, which tcp refuses, is refused on ranks")


def every_preset(launchers):
    """All of them with --full; without, those of the most different kinds, by turns."""
    accepted = {name: tcp_accepts(preset_job(name)) for name in (presets() if FULL else KINDS)}
    count = sum(accepted.values())
    check(count >= (40 if FULL else len(KINDS)), f"tcp accepts the presets: {accepted}")
    for k, name in enumerate(accepted):
        mine = launchers if FULL else [launchers[k % len(launchers)]]
        yield f"preset {name}", partial(preset, name, accepted[name], mine)


def placed_otherwise(launcher):
    text = job("ssgd", "cluster: {workers: 2, servers: 2}\n")
    want = in_threads(text, 2)["parameters_digest"]
    with Run(launcher, 4, text) as r:
        check(r.wait() == 0 and r.result()["parameters_digest"] == want,
              "two servers and two workers have a rank each")
    with Run(launcher, 2, job("ssgd", "cluster: {workers: 5}\n")) as r:
        check(r.wait() == 0 and r.result()["workers"] == 5, "five workers share two ranks")
    with Run(launcher, 4, job("ssgd", "cluster: {workers: 1, servers: 1}\n")) as r:
        check(r.wait() == 0 and "2 of 4 ranks have nothing to do" in r.said(),
              "ranks without work are named")
    with Run(launcher, 2, None, text=job("ssgd")) as r:
        check(r.wait() == 0 and r.result()["workers"] == 2, "a job by standard input")


def data_travels(launcher):
    """A network on digits; then one whose file only rank 0 could name."""
    text = ("model: {layers: [linear 20, relu, linear 10]}\n"
            "data: {source: digits, count: 300, batch: 10}\n"
            "train: {epochs: 1}\nupdate: {rate: 0.1}\nstrategy: ssgd\n")
    want = in_threads(text, 2)["parameters_digest"]
    with Run(launcher, 2, text) as r:
        check(r.wait() == 0 and r.result()["parameters_digest"] == want,
              "a network on digits has the bits of threads")
    folder = tempfile.mkdtemp(prefix="thalweg-mpi-")
    try:
        with open(os.path.join(folder, "rows.csv"), "w") as f:
            f.write("a,b,class\n" + "".join(f"{k % 7},{k % 5},{k % 2}\n" for k in range(200)))
        text = ("model: {layers: [linear 8, relu, linear 2]}\n"
                "data: {source: csv, file: rows.csv, label: class, batch: 10}\n"
                "train: {epochs: 1}\nupdate: {rate: 0.1}\nstrategy: ssgd\n")
        with Run(launcher, 3, text, folder=folder) as r:
            check(r.wait() == 0 and r.result()["samples"] > 0,
                  f"a file by a relative path reaches all ranks: {r.said()[-300:]}")
    finally:
        shutil.rmtree(folder)


def resumes(launchers):
    """Stopped after a checkpoint, run again with another number of ranks."""
    text = job("ssgd", model="quadratic: {dimension: 1000, noise: 0.3}",
               more="checkpoint: {every: 20ms}\n").replace("epochs: 2", "epochs: 100000")
    folder = tempfile.mkdtemp(prefix="thalweg-mpi-")
    try:
        first = launchers[0]
        with Run(first, 3, text, words=["--checkpoints", "1"], folder=folder) as r:
            code = r.wait()
            check(code == 75,
                  f"it stops with 75, not {code}, after a checkpoint: {r.said()[-200:]}")
        for launcher, ranks in zip(launchers * 2, (2, 5)):
            with Run(launcher, ranks, text, words=["--checkpoints", "1"], folder=folder) as r:
                code = r.wait()
                check(code == 75 and "resuming from" in r.said(),
                      f"it resumes with {ranks} ranks under {launcher.name}: {code} "
                      f"{r.said()[-200:]}")
        done = thalweg("train", os.path.join(folder, "job.yaml"), "--json", "--run",
                       os.path.join(folder, "run"))
        check(done.returncode == 2 and "on MPI ranks" in done.stderr,
              f"and not in threads, whose runs are others: {done.stderr[-300:]}")
    finally:
        shutil.rmtree(folder)


CASES = {"exchange": ["exchange-mpi", "idle-mpi"],
         "allreduce": ["allreduce-mpi-library", "allreduce-mpi-library-round",
                       "allreduce-mpi-direct-round"]}


def bench(what, launcher):
    """Standard output has the result and nothing else; how fast it is depends on the machine."""
    words = ["bench", what, "--world", "mpi", "--json"]
    done = subprocess.run(launcher.command(2, THALWEG, words), capture_output=True, text=True,
                          env=environment(OMPI_MCA_mpi_yield_when_idle="1"), check=False,
                          timeout=1200)  # floors spin, and so does whoever else is here
    check(done.returncode == 0, f"bench {what} under {launcher.name}: {done.stderr[-300:]}")
    cases = json.loads(done.stdout)["cases"]
    check([case["name"] for case in cases] == CASES[what] and all(c["value"] > 0 for c in cases),
          f"the cases of bench {what} under {launcher.name}: {cases}")


def main():
    launchers = there()
    first, last = launchers[0], launchers[-1]
    calls = [*same_bits(launchers), *stages(launchers), *every_preset(launchers),
             ("two workers on a rank", partial(library_refused, first)),
             ("runs that resume", partial(resumes, launchers))]
    for k, ranks in enumerate((2, 3)):
        for launcher in launchers if FULL else [launchers[k % len(launchers)]]:
            calls.append((f"the library with {ranks} ranks", partial(library, ranks, launcher)))
    for topology in ("server", "direct", "library") if FULL else ("library",):
        calls.append((f"{topology} that diverges", partial(diverges, topology, last)))
    for what in (placed_otherwise, data_travels):
        for launcher in launchers if FULL else [last if what is data_travels else first]:
            calls.append((what.__name__, partial(what, launcher)))
    together(calls)
    if FULL:
        together([(f"bench {what}", partial(bench, what, launcher)) for what in CASES
                  for launcher in launchers], width=1)
    print("worlds: %s" % (f"{len(failures)} failures" if failures else "all as it must be"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
