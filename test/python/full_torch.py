# SPDX-License-Identifier: Apache-2.0
"""torch models in every world: against plain PyTorch, and against Thalweg's own networks."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from networks import LeNet, Mlp, apart, problem, train
from problem import Cluster, program

import thalweg as tw
from thalweg._layout import write_safetensors

NAMES = ["mlp", "lenet", "transformer"]


@pytest.mark.parametrize("name", NAMES)
def test_one_worker_is_plain_sgd(name):
    make, x, y = problem(name, 96)
    model, plain = make(), make()
    sgd, worst = torch.optim.SGD(plain.parameters(), lr=0.05), 0.0

    def each(xb, yb):
        nonlocal worst
        worst = max(worst, apart(model, plain))  # before the step: what the last one led to
        sgd.zero_grad()
        F.cross_entropy(plain(xb), yb).backward()
        sgd.step()
    with tw.local("ssgd", {"update.rate": 0.05}, model=model, workers=1, epochs=2) as run:
        train(run, model, x, y, batch_size=8, each=each)
    assert max(worst, apart(model, plain)) <= 1e-6, worst
    assert run.result.samples == 192


def serial(make, x, y, batches, workers):
    """Rounds of ssgd with plain PyTorch: the mean of the workers' gradients, one step."""
    plain = make()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.05)
    for k in range(0, len(batches), workers):
        sgd.zero_grad()
        for xb, yb in batches[k:k + workers]:
            (F.cross_entropy(plain(xb), yb) / workers).backward()
        sgd.step()
    return plain


@pytest.mark.parametrize("open_run", [tw.local, tw.simulate])
@pytest.mark.parametrize("name", NAMES)
def test_rounds_are_a_serial_loop(name, open_run):
    make, x, y = problem(name, 96)
    model, batches = make(), []
    with open_run("ssgd", {"update.rate": 0.05}, model=model, workers=4, epochs=2) as run:
        train(run, model, x, y, batch_size=8, each=lambda a, b: batches.append((a, b)))
    assert apart(model, serial(make, x, y, batches, 4)) <= 1e-5


@pytest.mark.parametrize("name", ["mlp", "lenet"])
def test_it_is_what_our_own_network_does(name, tmp_path):
    make, x, y = problem(name, 96)
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "y.npy", y.numpy().astype(np.int64))
    write_safetensors(str(tmp_path / "w.safetensors"), {n: p.detach().numpy() for n, p in make().named_parameters()})
    files = {"x": str(tmp_path / "x.npy"), "y": str(tmp_path / "y.npy")}
    ours = {"data": {"source": "npy", **files, "test_x": files["x"], "test_y": files["y"], "batch": 8, "normalise": "none",
                     "classes": 5},
            "model": {"layers": {"mlp": Mlp, "lenet": LeNet}[name].layers, "weights": str(tmp_path / "w.safetensors")},
            "update": {"rate": 0.05}, "cluster": {"workers": 3}, "strategy": "ssgd", "train": {"seed": 4}}
    for rounds in (1, 2, 3, 4):
        share = rounds * 3 * 8 / 96
        result = tw.train(ours, {"train.epochs": share})
        model = make()
        with tw.local("ssgd", {"update.rate": 0.05}, model=model, workers=3, epochs=share, seed=4) as run:
            train(run, model, x, y, batch_size=8)
        assert run.result.updates == result.updates == rounds
        for (n, p), q in zip(model.named_parameters(), result.tensors.values()):
            assert np.abs(p.detach().numpy() - q.reshape(p.shape)).max() <= 1e-5, (rounds, n)


@pytest.mark.parametrize("name", NAMES)
def test_thirty_two_simulated_workers_learn(name):
    make, x, y = problem(name, 512)
    model = make()
    job = {"update.rate": {"mlp": 0.05, "lenet": 0.01, "transformer": 0.05}[name]}
    with torch.no_grad():
        before = F.cross_entropy(model(x), y).item()
    with tw.simulate("asgd", job, model=model, workers=32, epochs={"mlp": 5, "lenet": 3, "transformer": 5}[name]) as run:
        train(run, model, x, y, batch_size=8)
    with torch.no_grad():
        after = F.cross_entropy(model(x), y).item()
    assert run.result.staleness["mean"] > 20 and after < 0.9 * before, (before, after)


WORKER = """
import sys
import torch
import thalweg as tw
from networks import problem, train
make, x, y = problem(sys.argv[3], 96)
model = make(seed=99)  # the master's initial values count
with tw.join(sys.argv[1], sys.argv[2], model=model) as run:
    train(run, model, x, y)
"""


@pytest.mark.parametrize("name", NAMES)
def test_joined_over_tcp(name):
    make, x, y = problem(name, 96)
    with Cluster(model=make(), samples=96, job={"data": {"batch": 8}}) as c:
        workers = [program(WORKER, c.address, c.key, name) for _ in range(2)]
        for p in workers:
            out, err = p.communicate(timeout=200)
            assert p.returncode == 0, err
        result = c.master.wait()
    model = make()
    with tw.local("ssgd", {"update.rate": 0.05}, model=model, workers=2, epochs=2) as run:
        train(run, model, x, y, batch_size=8)
    assert result.parameters_digest == run.result.parameters_digest
