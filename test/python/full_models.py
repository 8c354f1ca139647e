# SPDX-License-Identifier: Apache-2.0
"""What models and loops of torch have: frozen, tied and unused parameters, buffers, groups, parts of
batches, autocast, states, processes that read."""
import math

import numpy as np
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from networks import apart, problem, train

import thalweg as tw
from thalweg._layout import read_safetensors

RATE = {"update.rate": 0.05}


def test_frozen_tied_and_unused():
    make, x, y = problem("mlp", 64)

    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = make()
            self.body[0].weight.requires_grad_(False)
            self.unused = nn.Linear(3, 3)
            self.twin = nn.Linear(5, 5, bias=False)
            self.other = nn.Linear(5, 5, bias=False)
            self.other.weight = self.twin.weight

        def forward(self, x):
            return self.other(self.twin(self.body(x)))
    torch.manual_seed(3)
    model = Odd()
    torch.manual_seed(3)
    plain = Odd()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.05)

    def each(xb, yb):
        sgd.zero_grad()
        F.cross_entropy(plain(xb), yb).backward()
        sgd.step()
    frozen = model.body[0].weight.clone()
    with tw.local("ssgd", RATE, model=model, workers=1, epochs=2) as run:
        assert run.layout.parameters == 24 + 24 * 5 + 5 + 12 + 25  # tied once, frozen not at all
        train(run, model, x, y, batch_size=8, each=each)
    assert apart(model, plain) <= 1e-6
    assert (model.body[0].weight == frozen).all() and model.other.weight is model.twin.weight


def test_frozen_weights_are_compared_at_a_join():
    from problem import Cluster
    make, _, _ = problem("mlp", 64)

    def half(seed):
        model = make(seed)
        model[0].weight.requires_grad_(False)
        return model
    with Cluster(model=half(1), samples=64, workers=1) as c:
        with pytest.raises(tw.JobError, match="frozen"):
            tw.join(c.address, c.key, model=half(2))
        tw.join(c.address, c.key, model=half(1)).close()


def test_buffers_are_those_of_plain_torch(tmp_path):
    def make():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    _, x, y = problem("mlp", 64)
    model, plain = make(), make()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.05)

    def each(xb, yb):
        sgd.zero_grad()
        F.cross_entropy(plain(xb), yb).backward()
        sgd.step()
    with tw.local("ssgd", RATE, model=model, workers=1, epochs=2) as run:
        train(run, model, x, y, batch_size=8, each=each)
        run.save(tmp_path / "m.safetensors")
    assert apart(model, plain) <= 1e-6
    for a, b in zip(model.buffers(), plain.buffers()):
        assert torch.allclose(a, b, atol=1e-6)
    model.eval(), plain.eval()
    assert torch.allclose(model(x), plain(x), atol=1e-5)
    back = read_safetensors(tmp_path / "m.safetensors")
    other = make()
    other.load_state_dict({n: torch.from_numpy(a.copy()) for n, a in back.items()})  # strict: all of it
    assert apart(other, model) == 0


def test_parts_of_a_batch():
    make, x, y = problem("mlp", 64)
    whole, parts = make(), make()
    with tw.local("ssgd", RATE, model=whole, workers=2, epochs=2) as run:
        train(run, whole, x, y, batch_size=16)
    with tw.local("ssgd", RATE, model=parts, workers=2, epochs=2) as run:
        opt = run.optimizer()
        loader = run.loader((x, y), batch_size=16, accumulate=4)
        for k, (xb, yb) in enumerate(loader):
            assert len(xb) == 4 and loader.last == (k % 4 == 3)
            loss = F.cross_entropy(parts(xb), yb) / 4
            loss.backward()
            if loader.last:
                opt.step(4 * loss)
                opt.zero_grad(set_to_none=bool(k % 8 == 3))
    assert apart(whole, parts) <= 1e-6


def test_autocast_and_clipping():
    make, x, y = problem("mlp", 64)
    model, plain = make(), make()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.05)
    with tw.local("ssgd", RATE, model=model, workers=1, epochs=2) as run:
        opt = run.optimizer()
        for xb, yb in run.loader((x, y), batch_size=8):
            for net, o in ((model, opt), (plain, sgd)):
                o.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = F.cross_entropy(net(xb), yb)
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                o.step(loss) if o is opt else o.step()
    assert apart(model, plain) <= 1e-6


def test_groups_and_schedules_of_an_own_optimizer():
    make, x, y = problem("mlp", 64)

    def optimizer(net):
        return torch.optim.AdamW([{"params": net[0].parameters(), "lr": 0.001}, {"params": net[2].parameters()}], lr=0.01,
                                 weight_decay=0.1)

    def factor(p):
        return 0.5 * (1 + math.cos(math.pi * p))
    model, plain = make(), make()
    adam = optimizer(plain)
    with tw.local({"strategy": {"name": "local-sgd", "push": 2}, "update": {"rule": "caller"}, "data": {"batch": 8}},
                  model=model, workers=1, epochs=2) as run:
        opt = run.optimizer(optimizer(model))
        run.schedule(factor)

        def each(xb, yb):
            for group, rate in zip(adam.param_groups, (0.001, 0.01)):
                group["lr"] = rate * factor(run.progress)
            adam.zero_grad()
            F.cross_entropy(plain(xb), yb).backward()
            adam.step()
        train(run, model, x, y, opt=opt, each=each)
        assert opt.param_groups[0]["lr"] < 0.001
    assert apart(model, plain) <= 1e-6
    state = opt.state_dict()
    again = optimizer(make())
    again.load_state_dict(state)
    assert len(again.state) == 4


def test_own_optimizers_have_a_state_for_each_worker():
    make, x, y = problem("mlp", 64)
    model = make()
    with tw.local("local-sgd", model=model, workers=3, epochs=3) as run:
        opt = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
        train(run, model, x, y, opt=opt, batch_size=8)
    assert len(opt._states) == 3
    buffers = [s[model[0].weight]["momentum_buffer"] for s in opt._states.values()]
    assert len({b.data_ptr() for b in buffers}) == 3


class Slow(torch.utils.data.Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, k):
        return self.x[k], self.y[k]


def test_processes_that_read():
    make, x, y = problem("mlp", 64)
    models = []
    for workers in (0, 4):
        model = make()
        with tw.local("ssgd", RATE, model=model, workers=2, epochs=10) as run:
            opt = run.optimizer()
            for xb, yb in run.loader(Slow(x, y), batch_size=8, num_workers=workers):
                opt.zero_grad()
                loss = F.cross_entropy(model(xb), yb)
                loss.backward()
                opt.step(loss)
        models.append(model)
    assert apart(*models) == 0


def test_the_loader_of_torch_beside_a_run():
    make, x, y = problem("mlp", 64)
    model = make()
    with tw.local("asgd", RATE, model=model, workers=2, epochs=2) as run:
        train(run, model, x, y, batch_size=8)
        seen = sum(len(a) for a, _ in torch.utils.data.DataLoader(Slow(x, y), batch_size=8, num_workers=4))
    assert seen == 64


def test_test_samples_are_scored():
    make, x, y = problem("mlp", 64)
    model = make()

    def score(xb, yb):
        assert not model.training and not torch.is_grad_enabled()
        out = model(xb)
        return F.cross_entropy(out, yb), (out.argmax(1) == yb).sum()
    with tw.local("asgd", {**RATE, "train.evaluate": 1}, model=model, workers=2, epochs=3) as run:
        train(run, model, x, y, batch_size=8, test=(x, y), score=score)
    assert len(run.evaluations) >= 3
    with torch.no_grad():
        out = model.eval()(x)
    assert run.result.loss == pytest.approx(F.cross_entropy(out, y).item(), rel=1e-4)
    assert run.result.accuracy == pytest.approx((out.argmax(1) == y).float().mean().item())


def test_parameters_stay_the_models():
    make, x, y = problem("mlp", 64)
    model = make()
    first = [id(p) for p in model.parameters()]
    with tw.local("asgd", RATE, model=model, workers=2) as run:
        train(run, model, x, y, batch_size=8)
    assert [id(p) for p in model.parameters()] == first
    with torch.no_grad():  # nothing of the library's is behind them any more
        for p in model.parameters():
            p.fill_(1.0)
    with tw.local("asgd", RATE, model=model, workers=2) as run:  # and it may be trained again
        train(run, model, x, y, batch_size=8)
    assert np.isfinite(run.parameters).all()
