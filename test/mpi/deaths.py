#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""deaths.py [--full] [SEED] - ranks that die or get stuck, and runs that are stopped.

Whatever the launcher does: the run ends with an error, no rank is left later than cluster.limit and
ten seconds after the death, the last checkpoint is whole, a rank that is stuck is named, and running
again resumes.  With --full fifty times, at random from the seed, under Slurm's srun as well."""
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from functools import partial

import slurm_here
from ranks import Launcher, Run, there, thalweg
from together import together
from checks import check, failures

FULL = "--full" in sys.argv
LIMIT = 3.0
SLACK = 4.0  # a busy machine
JOB = ("model: {quadratic: {dimension: 20000, noise: 0.3}}\n"
       "data: {source: none, samples: 1000000, batch: 2}\ntrain: {epochs: 1000, seed: 5}\n"
       "update: {rate: 0.02}\nstrategy: %s\n"
       "cluster: {limit: 3s}\ncheckpoint: {every: %s}\n")
METHODS = ("ssgd", "asgd", "allreduce", "{name: averaging, push: 4}")


def words_of(name, number):
    return "stopped" if number == signal.SIGSTOP else "killed"


def ends(r, since, what):
    """The launcher ends with an error, and no rank outlives the limit."""
    until = since + LIMIT + 10 + SLACK
    code = None
    try:
        code = r.wait(max(0.1, until - time.monotonic()))
    except Exception:  # noqa: BLE001 - it has not ended
        check(False, f"{what}: it ends within the limit and 10 s")
        return False
    while r.left() and time.monotonic() < until:
        time.sleep(0.05)
    check(not r.left(), f"{what}: no rank is left, but {r.left()}")
    check(code != 0, f"{what}: the exit code is not 0")
    check("parameters_digest" not in r.printed(), f"{what}: there is no result")
    return True


def resumes(launcher, folder, method, ranks, newest, what):
    """Running again goes on from the last checkpoint, or a newer one that was whole."""
    with Run(launcher, ranks, JOB % (method, "50ms"), words=["--checkpoints", "1"],
             folder=folder) as r:
        code = r.wait(60)
        said = r.said()
        from_ = [int(w.rpartition("ckpt-")[2]) for w in said.split() if "/ckpt-" in w and
                 "resuming" in said]
        check(code == 75 and from_ and from_[0] >= newest,
              f"{what}: it resumes from checkpoint {newest} or later with {ranks} ranks: "
              f"{code} {said[-300:]}")


def one_death(launcher, method, victim, number, pause, again):
    """`again`: with how many ranks it is to resume."""
    ranks = 3
    what = f"{launcher.name}, {method}: rank {victim} {words_of('', number)} after {pause:.2f} s"
    folder = tempfile.mkdtemp(prefix="thalweg-mpi-")
    try:
        with Run(launcher, ranks, JOB % (method, "50ms"), folder=folder) as r:
            r.wait_for_ranks()
            r.wait_for(r.checkpoints, what="a checkpoint")
            time.sleep(pause)
            before = r.checkpoints()
            os.kill(r.pids[victim], number)
            if not ends(r, time.monotonic(), what):
                return
            if number == signal.SIGSTOP:
                check(f"rank {victim} on " in r.said() and "silent" in r.said(),
                      f"{what}: it is named: {r.said()[-300:]}")
            after = r.checkpoints()
            check(after and after[-1] >= before[-1], f"{what}: checkpoint {before[-1]} is kept")
        inspected = thalweg("inspect", os.path.join(folder, "run"))
        check(inspected.returncode == 0, f"{what}: it is whole: {inspected.stderr}")
        resumes(launcher, folder, method, again, before[-1], what)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def no_checkpoint_after_a_death(launcher):
    """A launcher sends SIGTERM to those that are left: it is no reason for a checkpoint."""
    with Run(launcher, 3, JOB % ("ssgd", "1h")) as r:
        r.wait_for_ranks()
        r.wait_for(lambda: os.path.isdir(os.path.join(r.dir, "run")), what="the run")
        time.sleep(0.5)
        os.kill(r.pids[2], signal.SIGKILL)
        for rank in (0, 1):
            with contextlib.suppress(ProcessLookupError):
                os.kill(r.pids[rank], signal.SIGTERM)
        ends(r, time.monotonic(), f"{launcher.name}: SIGTERM after a death")
        check(not r.checkpoints(), f"{launcher.name}: no checkpoint after a death")


def stopping(launcher, number, rank=None, slurm=None):
    """A signal to the launcher, by Slurm to its job, or to one rank, checkpoints and stops."""
    what = f"{launcher.name}: {signal.Signals(number).name}"
    folder = tempfile.mkdtemp(prefix="thalweg-mpi-")
    try:
        with Run(launcher, 3, JOB % ("ssgd", "1h"), folder=folder) as r:
            r.wait_for_ranks()
            r.wait_for(lambda: os.path.isdir(os.path.join(r.dir, "run")), what="the run")
            time.sleep(0.7)
            if slurm:
                job = slurm.run("squeue", "-h", "-o", "%i").stdout.split()[0]
                slurm.run("scancel", f"--signal={signal.Signals(number).name[3:]}", job)
            else:
                os.kill(r.child.pid if rank is None else r.pids[rank], number)
            code = r.wait(30)
            # hydra gives 0 for whatever happens after it has passed a signal on
            good = (0, 75) if launcher.name == "hydra" and rank is None else (75,)
            check(code in good, f"{what} gives 75, not {code}: {r.said()[-300:]}")
            check("interrupted after a checkpoint" in r.said(), f"{what}: rank 0 says so")
            check(r.checkpoints() == [1], f"{what} makes a checkpoint")
        resumes(launcher, folder, "ssgd", 2, 1, what)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def during_the_start(launcher):
    """A rank that is stuck before training begins is found as well."""
    big = JOB % ("ssgd", "1h")
    with Run(launcher, 3, big) as r:
        r.wait_for_ranks()
        r.wait_for(lambda: os.path.isdir(os.path.join(r.dir, "run")), what="the run")
        os.kill(r.pids[1], signal.SIGSTOP)
        since = time.monotonic()
        until = since + 15.0 + 10 + SLACK  # the job's limit may not be known yet
        try:
            code = r.wait(until - since)
        except Exception:  # noqa: BLE001
            code = 0
        check(code != 0 and not r.left(), f"{launcher.name}: a rank that is stuck at the start")


def slurm_launchers(slurm):
    srun = ["srun", "--overcommit", "--cpu-bind=none"]
    return [Launcher("srun-pmix", [*srun, "--mpi=pmix"], "openmpi", **slurm.more),
            Launcher("srun-pmi2", [*srun, "--mpi=pmi2"], "mpich", **slurm.more)]


def at_random(launchers, draw, times):
    for k in range(times):
        launcher = launchers[k % len(launchers)]
        how = (draw.choice(METHODS), draw.randrange(3),
               draw.choice((signal.SIGKILL, signal.SIGSTOP)), draw.uniform(0, 1.0),
               draw.choice((2, 3, 4)))
        yield f"death {k + 1} under {launcher.name}: {how}", partial(one_death, launcher, *how)


def one_of_each(launchers):
    """A rank killed under one launcher and one stopped under the other."""
    for k, number in enumerate((signal.SIGSTOP, signal.SIGKILL)):
        launcher = launchers[k % len(launchers)]
        yield (f"rank {k} of {launcher.name}, signal {number}",
               partial(one_death, launcher, METHODS[k], k, number, 0.1, 2 + k))


def signals(launchers):
    for launcher in launchers:
        yield f"USR1 to {launcher.name}", partial(stopping, launcher, signal.SIGUSR1)
        yield (f"TERM after a death under {launcher.name}",
               partial(no_checkpoint_after_a_death, launcher))
    yield ("USR1 to one rank", partial(stopping, launchers[-1], signal.SIGUSR1, rank=1))
    yield ("a rank stuck at the start", partial(during_the_start, launchers[0]))


def main():
    seeds = [w for w in sys.argv[1:] if w.isdigit()]
    seed = int(seeds[0]) if seeds else int(time.time())
    draw = random.Random(seed)
    launchers = there()
    with contextlib.ExitStack() as stack:
        if FULL and slurm_here.missing():
            print(f"skipped: {slurm_here.missing()}\n[  SKIPPED ] srun")
        elif FULL:
            slurm = stack.enter_context(slurm_here.Slurm())
            launchers = launchers + slurm_launchers(slurm)
            for launcher in launchers[-2:]:  # one at a time: the queue has no other job
                stopping(launcher, signal.SIGTERM, slurm=slurm)
                stopping(launcher, signal.SIGUSR1, slurm=slurm)
        together([*signals(launchers),
                  *(at_random(launchers, draw, 50) if FULL else one_of_each(launchers))])
    print("deaths%s: %s" % (f", seed {seed}" if FULL else "",
                            f"{len(failures)} failures" if failures else "all as it must be"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
