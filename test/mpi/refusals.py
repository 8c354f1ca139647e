#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""refusals.py - a launcher that does not fit is refused by one sentence with the right option.

Copies of the program, each with some of the plugins beside it, are started by each launcher."""
import os
import shutil
import subprocess
import sys
import tempfile

from ranks import LAUNCHERS, PLUGINS, Run, environment, there, thalweg
from cluster import BUILD, THALWEG
from checks import check, failures

JOB = ("model: {quadratic: {dimension: 10}}\ndata: {source: none, samples: 20, batch: 1}\n"
       "train: {epochs: 1}\nstrategy: ssgd\n")
OTHER = {"openmpi": ("mpich", "mpiexec.hydra"), "mpich": ("openmpi", "mpirun.openmpi")}


def copy(folder, plugins):
    program = os.path.join(folder, "thalweg")
    shutil.copy(THALWEG, program)
    for each in plugins:
        shutil.copy(os.path.join(BUILD, PLUGINS[each]), folder)
    return program


def refused(r, words, what):
    code = r.wait()
    said = r.said()
    check(code == 2 and not r.printed() and all(w in said for w in words),
          f"{what}: {code} {said[-400:]}")
    check(said.count("thalweg: ") == 1, f"{what}: one rank says so: {said[-400:]}")


def wrong_plugin(launchers):
    for launcher in launchers:
        other, right = OTHER[launcher.plugin]
        if os.path.exists(os.path.join(BUILD, PLUGINS[other])):
            with tempfile.TemporaryDirectory() as d:
                program = copy(d, [other])
                with Run(launcher, 3, JOB, program=program) as r:
                    refused(r, [right, "run of its own"],
                            f"{launcher.name} with the plugin for {other} only")
        with tempfile.TemporaryDirectory() as d:
            program = copy(d, [])
            with Run(launcher, 2, JOB, program=program) as r:
                refused(r, ["no plugin", "--world threads"], f"{launcher.name} without plugins")
            with Run(launcher, 2, JOB, program=program, words=["--world", "threads"]) as r:
                r.wait()
                check('"world": "threads"' in r.printed(),
                      f"--world threads needs no plugin under {launcher.name}")


def alone(*words, **more):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "job.yaml")
        with open(path, "w") as f:
            f.write(JOB)
        return thalweg("train", path, "--run", os.path.join(d, "run"), *words, **more)


def without_mpi():
    done = alone(SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="0")
    check(done.returncode == 2 and "--mpi=pm" in done.stderr and "--mpi=none" in done.stderr,
          f"srun without --mpi=: {done.stderr}")
    done = alone(SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="2")
    check(done.returncode == 2 and not done.stderr, f"of its tasks one speaks: {done.stderr}")
    done = alone("--world", "threads", SLURM_STEP_NUM_TASKS="4")
    check(done.returncode == 0, f"--world threads overrides: {done.stderr}")
    done = alone(SLURM_NTASKS="4", SLURM_PROCID="0", SLURM_JOB_ID="7")
    check(done.returncode == 0, f"a batch script is no rank: {done.stderr}")
    done = alone(SLURM_STEP_NUM_TASKS="1", SLURM_NTASKS="1")
    check(done.returncode == 0, f"one task is one process: {done.stderr}")
    done = alone("--world", "mpi")
    check(done.returncode == 2 and "no launcher" in done.stderr, f"no launcher: {done.stderr}")
    done = alone("--world", "mpi", "--processes")
    check(done.returncode == 2 and "--processes" in done.stderr, f"two worlds: {done.stderr}")
    done = alone("--world", "cluster")
    check(done.returncode == 2 and "threads" in done.stderr, f"no such world: {done.stderr}")


def counted_wrongly(launchers):
    """The launcher says four, and MPI finds one: these would be separate runs."""
    if not any(each.plugin == "openmpi" for each in launchers):
        return
    done = alone(OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_RANK="0", OMPI_ALLOW_RUN_AS_ROOT="1",
                 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    check(done.returncode == 2 and "started 4 processes" in done.stderr,
          f"a size that is not MPI's: {done.returncode} {done.stderr[-300:]}")


def wrong_jobs(launchers):
    for launcher in launchers:
        with Run(launcher, 3, JOB.replace("ssgd", "hogwild")) as r:
            refused(r, ["hogwild"], f"a method of one process under {launcher.name}")
        with Run(launcher, 3, JOB.replace("dimension: 10", "dimensoin: 10")) as r:
            refused(r, ["dimension"], f"a wrong field under {launcher.name}")
        with Run(launcher, 2, JOB, words=["--explain"]) as r:
            r.wait()
            check("--explain" in r.said(), f"--explain with --json under {launcher.name}")


def doctor(launchers):
    said = thalweg("doctor").stdout
    for launcher in launchers:
        check(launcher.words[0] in said, f"doctor names {launcher.words[0]}: {said}")
    out = subprocess.run([*launchers[0].words, "-n", "2", THALWEG, "doctor"], text=True,
                         capture_output=True, env=environment(), check=False).stdout
    check("one of 2" in out, f"doctor names the launcher that it runs under: {out}")


def main():
    launchers = there()
    wrong_plugin(launchers)
    without_mpi()
    counted_wrongly(launchers)
    wrong_jobs(launchers)
    doctor(launchers)
    print("refusals: %s" % (f"{len(failures)} failures" if failures else "all as it must be"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
