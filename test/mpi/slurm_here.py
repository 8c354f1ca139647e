# SPDX-License-Identifier: Apache-2.0
"""slurm_here.py - a Slurm of one node on this machine, with everything in a scratch folder.

Needs root, slurmctld, slurmd and munged; starts them and ends them."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from ranks import environment
from cluster import end_with_us, free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

CONFIGURATION = """ClusterName=tw
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
CredType=cred/munge
SlurmctldPort={ctld}
SlurmdPort={slurmd}
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
ReturnToService=2
KillWait=5
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES State=UP
"""


def missing():
    """Why there can be no Slurm here; None: there can."""
    if os.geteuid() != 0:
        return "a Slurm of its own needs root"
    absent = [p for p in PROGRAMS if not shutil.which(p, path=PATH)]
    return f"{', '.join(absent)} not found (./setup --full)" if absent else None


class Slurm:
    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="thalweg-slurm-")
        os.chmod(self.dir, 0o755)
        self.children = []
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool"):
            os.mkdir(os.path.join(self.dir, name))
        with open(self.at("conf"), "w") as f:
            f.write(CONFIGURATION.format(host=host, dir=self.dir, ctld=free_port(),
                                         slurmd=free_port()))
        with open(self.at("munge.key"), "wb") as f:
            f.write(os.urandom(128))
        os.chmod(self.at("munge.key"), 0o400)
        self.more = {"SLURM_CONF": self.at("conf"), "PATH": PATH}
        try:
            self.start("munged", "--foreground", "--force", f"--key-file={self.at('munge.key')}",
                       f"--socket={self.at('munge.socket')}", f"--pid-file={self.at('munge.pid')}",
                       f"--log-file={self.at('munge.log')}", f"--seed-file={self.at('munge.seed')}")
            self.wait_for(lambda: os.path.exists(self.at("munge.socket")), "munged")
            self.start("slurmctld", "-D")
            self.start("slurmd", "-D")
            self.wait_for(self.idle, "slurmd")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def at(self, name):
        return os.path.join(self.dir, name)

    def start(self, *command):
        with open(self.at(f"{command[0]}.said"), "w") as said:
            self.children.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said,
                                                  stderr=said, env=environment(**self.more),
                                                  start_new_session=True,
                                                  preexec_fn=end_with_us))

    def wait_for(self, true, what):
        until = time.monotonic() + 30
        while not true():
            if time.monotonic() > until:
                raise AssertionError(f"{what} did not start; see {self.dir}")
            time.sleep(0.1)

    def idle(self):
        return "idle" in self.run("sinfo", "-h", "-o", "%T").stdout

    def run(self, *command, **how):
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300,
                              env=environment(**self.more), **how)

    def __exit__(self, *_):
        self.run("scancel", "-u", "root")
        for child in reversed(self.children):
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
