#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""session.py LIBRARY [--full] - sessions on MPI ranks (address "mpi"): rounds come to the bits of workers
in one process, also after a rank was killed or the run was stopped and the same command was run again;
a process without a launcher, and a program that has initialised MPI, are refused.  With --full each
rank is killed, several times, and under Slurm's srun as well.

Run by itself it starts ranks of itself, which are callers through ctypes."""
import contextlib
import ctypes as C
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import session as S  # noqa: E402

LIBRARY = sys.argv[1]
JOB = ("data: {batch: 3}\ntrain: {epochs: %d, seed: 5}\nupdate: {rate: 0.05}\n"
       "cluster: {limit: 3s%s}\nstrategy: %s\ncheckpoint: {every: 50ms}\n")
SHORT, LONG = 2, 20  # epochs
LATEST = 3 + 10 + 4  # after a death: cluster.limit, ten seconds, and a busy machine


def run(lib, strategy, address, cluster="", epochs=SHORT, folder=None, stop=0):
    """One rank, or all workers of this process: status, text, result (of rank 0).  With a folder the run
    is kept there and is slow, so that something can happen to it; `stop`: after so many tasks."""
    job = S.Job(text=(JOB % (epochs, cluster, strategy)).encode())
    q = S.Request(size=C.sizeof(S.Request), job=C.addressof(job), address=address,
                  directory=folder and os.path.join(folder, "run").encode())
    q.layout = S.Layout(parameters=S.DIMENSION, samples=S.SAMPLES)
    session, why, result = C.c_void_p(), S.Error(), S.Result()
    if lib.thalweg_session_open(C.byref(q), C.byref(session), C.byref(why)):
        return why.status, why.text.decode(), None
    pauses = iter(range(1, 1 << 30))

    def pause():
        if folder:
            time.sleep(0.002)
        if next(pauses) == stop:
            lib.thalweg_session_stop(session)

    status = S.serve(lib, session, why, pause)
    text, said = why.text.decode(), None
    if lib.thalweg_session_result(session, C.byref(result), None) == 0:
        said = json.loads(result.json.decode())
        said["interrupted"] = result.interrupted
    lib.thalweg_session_close(session, None)
    return status, text, said


def number():
    """Which rank this process is, by what its launcher says."""
    return next(os.environ[name] for name in ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
                if name in os.environ)


def rank():
    """session.py LIBRARY --rank SAID STRATEGY EPOCHS FOLDER STOP [--initialised MPI]"""
    said, strategy, epochs, folder, stop = sys.argv[3:8]
    lib = S.load(LIBRARY)
    with open(os.path.join(said, number() + ".pid"), "w") as f:
        f.write(str(os.getpid()))
    if "--initialised" in sys.argv:
        C.CDLL(sys.argv[-1], mode=C.RTLD_GLOBAL).MPI_Init(None, None)
    got = run(lib, strategy, b"mpi", "", int(epochs), folder or None, int(stop) if number() == "0" else 0)
    with open(os.path.join(said, number() + ".said"), "w") as f:
        json.dump(got, f)


class Launch:
    """Ranks under a launcher.  What each says is in a file of its own: launchers may mix their output."""

    def __init__(self, launcher, ranks, strategy, *words, epochs=SHORT, folder="", stop=0):
        from ranks import environment
        self.said, self.ranks = tempfile.mkdtemp(), ranks
        command = launcher.command(ranks, sys.executable,
                                   [os.path.abspath(__file__), LIBRARY, "--rank", self.said, strategy, str(epochs),
                                    folder, str(stop), *words])
        self.err = open(os.path.join(self.said, "err"), "w+")
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.err, stderr=self.err,
                                      env=environment(**launcher.more))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.child.kill()
        self.child.wait()
        self.err.close()
        shutil.rmtree(self.said, ignore_errors=True)

    def files(self, kind):
        return {int(name.split(".")[0]): open(os.path.join(self.said, name)).read()
                for name in sorted(os.listdir(self.said)) if name.endswith(kind)}

    def left(self):
        from ranks import alive
        return [int(pid) for pid in self.files(".pid").values() if pid and alive(int(pid))]

    def answers(self):
        """(status, text, result) of each rank, when all have ended."""
        code = self.child.wait(120)
        got = [json.loads(text) for text in self.files(".said").values()]
        assert len(got) == self.ranks, (code, got, self.why())
        return code, got

    def why(self):
        self.err.seek(0)
        return self.err.read()[-2000:]

    def wait_for(self, true, what, seconds=60):
        until = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < until, f"{what}: not within {seconds} s\n{self.why()}"
            time.sleep(0.01)


def result(launch):
    """All ranks end well, and rank 0 has the result."""
    code, got = launch.answers()
    assert code == 0 and all(status == 0 for status, _, _ in got), (code, got, launch.why())
    assert got[0][2] and not any(said for _, _, said in got[1:]), got
    return got[0][2]


def checkpoints(folder):
    kept = os.path.join(folder, "run")
    return [name for name in (os.listdir(kept) if os.path.isdir(kept) else ())
            if os.path.exists(os.path.join(kept, name, "DONE"))]


def same_run(lib, strategy, ranks, got, what):
    """It is what workers of one process come to without any trouble: every sample once in each epoch."""
    _, text, want = run(lib, strategy, None, f", workers: {ranks}", LONG)
    assert want, text
    assert got["samples"] == LONG * S.SAMPLES and got["repeated"] == 0 and got["interrupted"] == 0, (what, got)
    assert got["parameters_digest"] == want["parameters_digest"], (what, got, want)


def rounds(lib, launcher):
    for ranks, strategy in ((3, "ssgd"), (2, "{name: averaging, push: 2}"), (2, "allreduce"), (2, "asgd")):
        with Launch(launcher, ranks, strategy) as r:
            got = result(r)
        if strategy != "asgd":
            want = run(lib, strategy, None, f", workers: {ranks}")[2]
            assert got["parameters_digest"] == want["parameters_digest"], (launcher.name, strategy, got, want)


def killed(lib, launcher, strategy, victim, ranks=3):
    """A rank is killed: MPI ends all of them in time, and the same command resumes."""
    what = f"{launcher.name}, {strategy}: rank {victim} killed"
    with tempfile.TemporaryDirectory() as folder:
        with Launch(launcher, ranks, strategy, epochs=LONG, folder=folder) as r:
            r.wait_for(lambda: checkpoints(folder), f"{what}: a checkpoint before it")
            os.kill(int(r.files(".pid")[victim]), signal.SIGKILL)
            code = r.child.wait(LATEST)
            r.wait_for(lambda: not r.left(), f"{what}: no rank is left", LATEST)
            assert code != 0, f"{what}: the exit code is not 0"
        with Launch(launcher, ranks, strategy, epochs=LONG, folder=folder) as r:
            same_run(lib, strategy, ranks, result(r), what)


def stopped(lib, launcher, strategy, ranks=2):
    """Rank 0 stops the run with a checkpoint, and the same command resumes."""
    what = f"{launcher.name}, {strategy}: stopped"
    with tempfile.TemporaryDirectory() as folder:
        with Launch(launcher, ranks, strategy, epochs=LONG, folder=folder, stop=40) as r:
            _, got = r.answers()
            assert got[0][2] and got[0][2]["interrupted"] == 1, (what, got)
            assert checkpoints(folder) and got[0][2]["samples"] < LONG * S.SAMPLES, (what, got)
        with Launch(launcher, ranks, strategy, epochs=LONG, folder=folder) as r:
            same_run(lib, strategy, ranks, result(r), what)


def initialised(launcher):
    library = subprocess.run(["ldd", os.path.join(os.path.dirname(LIBRARY), f"thalweg-{launcher.plugin}.so")],
                             capture_output=True, text=True).stdout
    mpi = next(line.split("=>")[1].split()[0] for line in library.splitlines() if "libmpi" in line)
    with Launch(launcher, 1, "ssgd", "--initialised", mpi) as r:
        r.child.wait(60)
        assert any("has initialised MPI itself" in text for text in r.files(".said").values()), r.why()


def main():
    import slurm_here
    from deaths import slurm_launchers
    from ranks import there
    full = "--full" in sys.argv
    lib = S.load(LIBRARY)
    status, text, _ = run(lib, "ssgd", b"mpi")
    assert status == 2 and "mpirun" in text, (status, text)
    launchers = there()
    for k, launcher in enumerate(launchers):
        rounds(lib, launcher)
        initialised(launcher)
        if not full:
            killed(lib, launcher, ("ssgd", "allreduce")[k % 2], k % 2)
            stopped(lib, launcher, ("{name: averaging, push: 2}", "ssgd")[k % 2])
    with contextlib.ExitStack() as stack:
        if full and slurm_here.missing():
            print(f"skipped: {slurm_here.missing()}\n[  SKIPPED ] srun")
        elif full:
            launchers = launchers + slurm_launchers(stack.enter_context(slurm_here.Slurm()))
            for launcher in launchers[-2:]:
                rounds(lib, launcher)
        for launcher in launchers if full else ():
            for strategy in ("ssgd", "allreduce", "{name: averaging, push: 2}"):
                for victim in range(3):
                    killed(lib, launcher, strategy, victim)
                stopped(lib, launcher, strategy)
    print("session: on ranks of " + ", ".join(each.name for each in launchers))


if __name__ == "__main__":
    rank() if "--rank" in sys.argv else main()
