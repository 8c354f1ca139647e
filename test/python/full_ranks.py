# SPDX-License-Identifier: Apache-2.0
"""torch models on the ranks of an MPI: what local workers do."""
import json
import os
import shutil
import subprocess
import sys

import pytest
from networks import problem, train

import thalweg as tw

RANK = """
import json, sys
import thalweg as tw
from networks import problem, train
make, x, y = problem(sys.argv[1], 96)
model = make()
with tw.ranks('ssgd', {'update.rate': 0.05}, model=model, epochs=2) as run:
    train(run, model, x, y, batch_size=8)
    if run.result is not None:
        with open(sys.argv[2], 'w') as f:
            json.dump(run.result.json, f)
"""
LAUNCHERS = [name for name in ("mpirun.openmpi", "mpirun.mpich") if shutil.which(name)]


@pytest.mark.skipif(not LAUNCHERS, reason="there is no MPI here")
@pytest.mark.parametrize("launcher", LAUNCHERS or [None])
@pytest.mark.parametrize("name", ["mlp", "lenet", "transformer"])
def test_ranks_do_what_local_workers_do(name, launcher, tmp_path):
    flags = ["--allow-run-as-root", "--oversubscribe"] if "openmpi" in launcher else []
    p = subprocess.run([launcher, *flags, "-n", "2", sys.executable, "-c", RANK, name, str(tmp_path / "result")],
                       capture_output=True, text=True, timeout=200, cwd=os.path.dirname(os.path.abspath(__file__)))
    assert p.returncode == 0, p.stdout + p.stderr
    with open(tmp_path / "result") as f:
        result = json.load(f)
    make, x, y = problem(name, 96)
    model = make()
    with tw.local("ssgd", {"update.rate": 0.05}, model=model, workers=2, epochs=2) as run:
        train(run, model, x, y, batch_size=8)
    assert result["parameters_digest"] == run.result.parameters_digest and result["workers"] == 2
