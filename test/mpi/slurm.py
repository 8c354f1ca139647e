#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""slurm.py - jobs on a Slurm of one node that this test starts: every way of the manual, and the
scripts of examples/slurm."""
import os
import re
import shutil
import signal
import sys
import tempfile
import time

import slurm_here
from ranks import SKIPPED, THALWEG, Launcher, Run, processes_of, thalweg
from checks import check, failures

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "examples", "slurm")
JOB = ("model: {quadratic: {dimension: 2000, noise: 0.3}}\n"
       "data: {source: none, samples: 400, batch: 2}\ntrain: {epochs: %d, seed: 5}\n"
       "update: {rate: 0.02}\nstrategy: ssgd\ncluster: {limit: 3s}\ncheckpoint: {every: 50ms}\n")


def srun(slurm, *words, plugin="openmpi"):
    return Launcher("srun " + " ".join(words), ["srun", "--overcommit", *words], plugin,
                    **slurm.more)


def ranks(slurm):
    want = None
    for mpi, plugin in (("pmix", "openmpi"), ("pmi2", "mpich")):
        with Run(srun(slurm, f"--mpi={mpi}", plugin=plugin), 4, JOB % 3) as r:
            code = r.wait()
            check(code == 0, f"srun --mpi={mpi} trains: {r.said()[-300:]}")
            got = r.result()["parameters_digest"] if code == 0 else None
            want = want or got
            check(got == want, "both MPI give the same bits")


def refusals(slurm):
    for words in (["--mpi=none"], ["--mpi=pmi2"]):
        with Run(srun(slurm, *words), 3, JOB % 1, words=["--world", "mpi"]) as r:
            code = r.wait()
            if words == ["--mpi=none"]:
                check(code == 2 and "--mpi=pmix" in r.said() and "--mpi=pmi2" in r.said(),
                      f"srun without MPI names the options: {r.said()[-300:]}")
            else:
                check(code == 0, f"--world mpi takes what the launcher speaks: {r.said()[-300:]}")


def elastic(slurm):
    """Task 0 serves, the others join; one of them is killed, and the run goes on."""
    folder = tempfile.mkdtemp(prefix="thalweg-mpi-")
    key = os.path.join(folder, "key")
    with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
        f.write(thalweg("key").stdout)
    text = (JOB % 60).replace("ssgd", "asgd").replace("limit: 3s", "limit: 3s, min: 1")
    try:
        launcher = srun(slurm, "--mpi=none", "--kill-on-bad-exit=0")
        with Run(launcher, 3, text, folder=folder,
                 words=["--world", "tcp", "--key", key]) as r:
            r.wait_for(r.checkpoints, what="a checkpoint")
            victims = [p for p in processes_of(folder) if environ_of(p).get("SLURM_PROCID") == "2"
                       and "thalweg" in command_of(p)[0]]
            check(len(victims) == 1, f"task 2 is one process: {victims}")
            os.kill(victims[0], signal.SIGKILL)
            r.wait(120)
            check('"parameters_digest"' in r.printed() and r.result()["world"] == "tcp",
                  f"the others go on without task 2: {r.said()[-400:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def command_of(pid):
    with open(f"/proc/{pid}/cmdline") as f:
        return f.read().split("\0")


def environ_of(pid):
    with open(f"/proc/{pid}/environ", errors="replace") as f:
        return dict(v.split("=", 1) for v in f.read().split("\0") if "=" in v)


def scripts(slurm):
    """examples/slurm/*.sh, as they are, but shorter."""
    for name in sorted(os.listdir(SCRIPTS)):
        folder = tempfile.mkdtemp(prefix="thalweg-mpi-")
        try:
            with open(os.path.join(folder, "job.yaml"), "w") as f:
                f.write(JOB % 3)
            os.symlink(THALWEG, os.path.join(folder, "thalweg"))
            done = slurm.run("sbatch", "--wait", "--ntasks=3", "--overcommit", "--nodes=1",
                             f"--output={folder}/out", "--export=ALL",
                             os.path.abspath(os.path.join(SCRIPTS, name)), "job.yaml", cwd=folder)
            with open(os.path.join(folder, "out")) as f:
                said = f.read()
            check(done.returncode == 0 and re.search(r"\d", said) and "rror" not in said,
                  f"{name} runs: {done.stdout} {done.stderr} {said[-600:]}")
            check(os.path.exists(os.path.join(folder, "runs", "job", "result.json")),
                  f"{name} leaves a result")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def requeues(slurm):
    """A job whose time is up checkpoints, is put back into the queue, and goes on from there."""
    folder = tempfile.mkdtemp(prefix="thalweg-mpi-")
    try:
        with open(os.path.join(folder, "job.yaml"), "w") as f:
            f.write(JOB % 100000)
        os.symlink(THALWEG, os.path.join(folder, "thalweg"))
        sent = slurm.run("sbatch", "--parsable", "--ntasks=2", "--overcommit", "--nodes=1",
                         f"--output={folder}/out", "--open-mode=append",
                         os.path.abspath(os.path.join(SCRIPTS, "mpi-openmpi.sh")), "job.yaml",
                         cwd=folder)
        number = sent.stdout.strip()
        run = os.path.join(folder, "runs", "job")
        wait(lambda: os.path.isdir(run) and any(n.startswith("ckpt-") for n in os.listdir(run)), 60)
        # what --signal does when the time is nearly up
        slurm.run("scancel", "--batch", "--signal=USR1", number)
        wait(lambda: "Requeued" in state(slurm, number) or "PENDING" in state(slurm, number), 60)
        with open(os.path.join(folder, "out")) as f:
            said = f.read()
        check("interrupted after a checkpoint" in said, f"it checkpoints first: {said[-400:]}")
        check("Restarts=1" in state(slurm, number), f"it is in the queue again: "
              f"{state(slurm, number)[:200]}")
        slurm.run("scancel", number)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def state(slurm, number):
    return slurm.run("scontrol", "show", "job", number).stdout


def wait(true, seconds):
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.1)


def main():
    why = slurm_here.missing()
    if why:
        print(f"skipped: {why}")
        return SKIPPED
    with slurm_here.Slurm() as slurm:
        ranks(slurm)
        refusals(slurm)
        elastic(slurm)
        scripts(slurm)
        requeues(slurm)
    print("slurm: %s" % (f"{len(failures)} failures" if failures else "all as it must be"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
