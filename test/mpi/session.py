#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""session.py LIBRARY - sessions on MPI ranks (address "mpi"): rounds come to the bits of workers in one
process; a process without a launcher, and a program that has initialised MPI, are refused.

Run by itself it starts ranks of itself, which are callers through ctypes."""
import ctypes as C
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import session as S  # noqa: E402

LIBRARY = sys.argv[1]
JOB = ("data: {batch: 3}\ntrain: {epochs: 2, seed: 5}\nupdate: {rate: 0.05}\n%sstrategy: %s\n")


def run(lib, strategy, address, cluster=""):
    """One rank, or all workers of this process: status, text, digest (of rank 0)."""
    job = S.Job(text=(JOB % (cluster, strategy)).encode())
    q = S.Request(size=C.sizeof(S.Request), job=C.addressof(job), address=address)
    q.layout = S.Layout(parameters=S.DIMENSION, samples=S.SAMPLES)
    session, why, result = C.c_void_p(), S.Error(), S.Result()
    if lib.thalweg_session_open(C.byref(q), C.byref(session), C.byref(why)):
        return why.status, why.text.decode(), ""
    status = S.serve(lib, session, why, 0)
    text, digest = why.text.decode(), ""
    if lib.thalweg_session_result(session, C.byref(result), None) == 0:
        digest = result.digest.decode()
    lib.thalweg_session_close(session, None)
    return status, text, digest


def rank():
    lib = S.load(LIBRARY)
    if "--initialised" in sys.argv:
        C.CDLL(sys.argv[-1], mode=C.RTLD_GLOBAL).MPI_Init(None, None)
    status, text, digest = run(lib, sys.argv[4], b"mpi")
    with open(os.path.join(sys.argv[3], str(os.getpid())), "w") as f:
        f.write(f"{status} {digest} {text}")


def launch(launcher, environment, ranks, *words):
    """What each rank says, in a file of its own: launchers may mix their output."""
    with tempfile.TemporaryDirectory() as said:
        command = launcher.command(ranks, sys.executable, [os.path.abspath(__file__), LIBRARY, "--rank", said, *words])
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment())
        lines = [open(os.path.join(said, name)).read().split(" ", 2) for name in sorted(os.listdir(said))]
    return done.returncode, lines, done.stderr


def main():
    from ranks import environment, there
    lib = S.load(LIBRARY)
    status, text, _ = run(lib, "ssgd", b"mpi")
    assert status == 2 and "mpirun" in text, (status, text)
    for launcher in there():
        for ranks, strategy in ((3, "ssgd"), (2, "{name: averaging, push: 2}"), (2, "allreduce"), (2, "asgd")):
            code, lines, err = launch(launcher, environment, ranks, strategy)
            assert code == 0 and len(lines) == ranks and all(x[0] == "0" for x in lines), (launcher.name, code, lines, err)
            digests = [x[1] for x in lines if x[1]]
            assert len(digests) == 1, lines  # rank 0 has the result
            if strategy != "asgd":
                want = run(lib, strategy, None, f"cluster: {{workers: {ranks}}}\n")
                assert digests[0] == want[2], (launcher.name, strategy, digests, want)
        library = subprocess.run(["ldd", os.path.join(os.path.dirname(LIBRARY), f"thalweg-{launcher.plugin}.so")],
                                 capture_output=True, text=True).stdout
        mpi = next(line.split("=>")[1].split()[0] for line in library.splitlines() if "libmpi" in line)
        code, lines, err = launch(launcher, environment, 1, "ssgd", "--initialised", mpi)
        assert any("has initialised MPI itself" in " ".join(x) for x in lines), (launcher.name, code, lines, err)
        print(f"session: on ranks of {launcher.name}")


if __name__ == "__main__":
    rank() if "--rank" in sys.argv else main()
