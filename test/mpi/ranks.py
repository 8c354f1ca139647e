# SPDX-License-Identifier: Apache-2.0
"""ranks.py - runs of `thalweg train` on MPI ranks of this machine, by every launcher that is there.

A Run has a folder of its own and kills what is left when its `with` block ends."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster import BUILD, THALWEG, end_with_us  # noqa: E402

SKIPPED = 77
PLUGINS = {"openmpi": "thalweg-openmpi.so", "mpich": "thalweg-mpich.so"}
# Of two machines, the tests use one: more ranks than cores, and nobody's core is his own.
OPENMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
MPICH = ["mpiexec.hydra"]
QUIET = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl": "self,vader",
         "OMPI_MCA_orte_base_help_aggregate": "1"}


# Open MPI fails if two launchers make the same directory for their session at the same time.
SESSIONS = tempfile.TemporaryDirectory(prefix="thalweg-ompi-")


def environment(**more):
    """Without what another launcher may have left in it."""
    session = tempfile.mkdtemp(dir=SESSIONS.name)
    kept = {k: v for k, v in os.environ.items()
            if not re.match(r"(OMPI_|PMIX_|PMI_|SLURM_|THALWEG_(?!ISA$))", k)}
    return {**kept, **QUIET, "OMPI_MCA_orte_tmpdir_base": session, **more}


class Launcher:
    def __init__(self, name, words, plugin, **more):
        self.name, self.words, self.plugin = name, words, plugin
        self.more = more  # of its environment

    def there(self):
        return (shutil.which(self.words[0]) and
                os.path.exists(os.path.join(BUILD, PLUGINS[self.plugin])))

    def command(self, ranks, program, words):
        return [*self.words, "-n", str(ranks), program, *words]


LAUNCHERS = [Launcher("mpirun", OPENMPI, "openmpi"), Launcher("hydra", MPICH, "mpich")]


def there():
    """The launchers to test with; says which are not there."""
    found = [each for each in LAUNCHERS if each.there()]
    if not found:
        names = " nor ".join(each.words[0] for each in LAUNCHERS)
        print(f"skipped: neither {names} is here with a plugin for it (./setup installs both)")
        sys.exit(SKIPPED)
    for each in LAUNCHERS:
        if each not in found:
            print(f"skipped: {each.words[0]} or the plugin for it is not here\n"
                  f"[  SKIPPED ] {each.name}")  # as test/tally.py wants a case to say it
    return found


def processes_of(folder):
    """All processes whose command names this folder; srun's ranks are no children of srun."""
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{each}/cmdline", "rb") as f:
                if folder.encode() in f.read():
                    found.append(int(each))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def rank_of(pid):
    """Which rank a process is; None: it is none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().split(b"\0")
        with open(f"/proc/{pid}/environ", "rb") as f:
            has = dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    if os.path.basename(words[0]) != b"thalweg":
        return None
    for name in (b"OMPI_COMM_WORLD_RANK", b"PMIX_RANK", b"PMI_RANK", b"SLURM_PROCID"):
        if name in has:
            return int(has[name])
    return None


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Run:
    """One launched job."""

    def __init__(self, launcher, ranks, job, words=(), program=THALWEG, folder=None, text=None):
        self.own = folder is None
        self.dir = folder or tempfile.mkdtemp(prefix="thalweg-mpi-")
        self.job = os.path.join(self.dir, "job.yaml")
        if text is None:
            with open(self.job, "w") as f:
                f.write(job)
        self.out, self.err = (os.path.join(self.dir, k) for k in ("out", "err"))
        self.ranks = ranks
        self.pids = {}
        command = launcher.command(ranks, program,
                                   ["train", "-" if text else self.job, "--json", "--run",
                                    os.path.join(self.dir, "run"), *words])
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.child = subprocess.Popen(command, stdout=out, stderr=err, text=True,
                                          stdin=subprocess.PIPE if text else subprocess.DEVNULL,
                                          env=environment(**launcher.more), cwd=self.dir,
                                          start_new_session=True, preexec_fn=end_with_us)
        if text:
            self.child.stdin.write(text)
            self.child.stdin.close()
        self.launcher = launcher

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for pid in processes_of(self.dir):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.child.kill()
        self.child.wait()
        if kind:
            print(f"--- {self.launcher.name}, {self.ranks} ranks, said:\n{self.said()}")
        if self.own:
            shutil.rmtree(self.dir, ignore_errors=True)

    def look(self):
        """Which process is which rank, as far as can be seen."""
        for pid in processes_of(self.dir):
            rank = rank_of(pid)
            if rank is not None:
                self.pids[rank] = pid
        return self.pids

    def left(self):
        """Ranks that have not ended."""
        return [rank for rank, pid in self.pids.items() if alive(pid)]

    def wait_for(self, true, seconds=60, what="what was waited for"):
        until = time.monotonic() + seconds
        while not true():
            if time.monotonic() > until:
                raise AssertionError(f"{what}: not within {seconds} s")
            time.sleep(0.01)

    def wait_for_ranks(self):
        self.wait_for(lambda: len(self.look()) == self.ranks, what="all ranks")

    def checkpoints(self):
        run = os.path.join(self.dir, "run")
        return sorted(int(name[5:]) for name in (os.listdir(run) if os.path.isdir(run) else [])
                      if re.fullmatch(r"ckpt-\d+", name) and
                      os.path.exists(os.path.join(run, name, "DONE")))

    def wait(self, seconds=120):
        return self.child.wait(seconds)

    def said(self):
        with open(self.err, errors="replace") as f:
            return f.read()

    def printed(self):
        """What ranks printed.  MPI's libraries (hwloc, UCX) complain there, too, where /sys is not
        mounted, in lines that begin with a bracket; a result does not."""
        with open(self.out) as f:
            return "".join(line for line in f if not line.startswith("["))

    def result(self):
        """Exactly one result, which rank 0 has printed."""
        return json.loads(self.printed())


def thalweg(*words, **more):
    """One process without a launcher."""
    return subprocess.run([THALWEG, *words], capture_output=True, text=True,
                          env=environment(**more), check=False, timeout=300)
