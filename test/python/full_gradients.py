# SPDX-License-Identifier: Apache-2.0
"""Where gradients are when they are sent: copied from autograd's memory, or lent from one piece."""
import ctypes as C
import gc

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import thalweg as tw
from thalweg import _library as L

ONE = (tw.local, "ssgd", 1)
MANY = [ONE, (tw.local, "ssgd", 4), (tw.simulate, "asgd", 8), (tw.simulate, "local-sgd", 3)]


def make():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def data():
    g = torch.Generator().manual_seed(4)
    x = torch.randn(96, 6, generator=g)
    return x, (x @ torch.randn(6, 3, generator=g)).argmax(1)


def run_with(world, clear, after=None, change=None):
    """Train; `clear` empties the gradients before each batch, `after` is called behind each step."""
    opener, strategy, workers = world
    model = make()
    with opener(strategy, {"update.rate": 0.05, "update.clip": 0.7}, model=model, workers=workers, epochs=2) as run:
        opt = run.optimizer()
        for xb, yb in run.loader(data(), batch_size=8):
            clear(opt, model)
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            if change:
                change(model)
            opt.step(loss)
            if after:
                after(opt, model)
    return run.result.parameters_digest, model


def kept(opt, model):
    opt.zero_grad(set_to_none=False)


def anew(opt, model):
    opt.zero_grad(set_to_none=True)


@pytest.mark.parametrize("world", MANY, ids=str)
def test_lent_gradients_give_the_same_run(world):
    assert run_with(world, kept)[0] == run_with(world, anew)[0]


def test_they_are_in_one_piece_and_nothing_is_copied(monkeypatch):
    calls, places = {"thalweg_done": 0, "thalweg_done_with": 0}, []

    def counted(name):
        function = getattr(L.lib, name)

        def call(*arguments):
            calls[name] += 1
            return function(*arguments)
        return call

    for name in calls:
        monkeypatch.setattr(L.lib, name, counted(name))

    def after(opt, model):
        places.append([p.grad.data_ptr() for p in model.parameters()])
    run_with(ONE, kept, after)
    assert calls == {"thalweg_done": 1, "thalweg_done_with": 23}, calls  # the first: autograd's memory
    sizes = [4 * p.numel() for p in make().parameters()]
    for place in places[1:]:
        assert place == places[1]
        assert [b - a for a, b in zip(place, place[1:])] == sizes[:-1]


@pytest.mark.parametrize("world", MANY, ids=str)
def test_a_program_may_write_into_them_after_a_step(world):
    """What the library still reads must not change."""
    def spoil(opt, model):
        for p in model.parameters():
            if p.grad is not None:
                p.grad.fill_(1e6)

    def clear(opt, model):  # model.zero_grad is not ours
        opt.zero_grad(set_to_none=False)
        model.zero_grad()
    assert run_with(world, clear, spoil)[0] == run_with(world, anew)[0]


@pytest.mark.parametrize("world", [ONE, (tw.local, "ssgd", 4)], ids=str)
def test_gradients_that_are_not_zeroed_add_up(world):
    """As in torch: also where the library still reads them."""
    sums = {kept: [], anew: []}
    opener, strategy, workers = world
    for how in sums:
        model = make()
        with opener(strategy, {"update.rate": 0.0001}, model=model, workers=workers, epochs=1) as run:
            opt = run.optimizer()
            for k, (xb, yb) in enumerate(run.loader(data(), batch_size=8)):
                if k == 1:
                    how(opt, model)
                loss = F.cross_entropy(model(xb), yb)
                loss.backward()
                sums[how].append([p.grad.clone() for p in model.parameters()])
                opt.step(loss)
    for a, b in zip(sums[kept], sums[anew]):
        assert all(torch.equal(p, q) for p, q in zip(a, b))


def test_mixed_ones_are_put_together():
    """Some are gone, some are elsewhere: the piece has all of them when it is lent."""
    def some(model):
        model[0].bias.grad = None
        model[3].weight.grad = model[3].weight.grad.clone()
    assert run_with(ONE, kept, change=some)[0] == run_with(ONE, anew, change=some)[0]


def test_they_outlive_the_run():
    _, model = run_with(ONE, kept)
    grads = [p.grad for p in model.parameters()]
    before = [g.clone() for g in grads]
    del model
    gc.collect()
    C.CDLL(None).malloc_trim(0)
    assert all(torch.equal(a, b) for a, b in zip(grads, before))
    for g in grads:
        g.fill_(2.0)


def test_zero_grad_after_the_run():
    _, model = run_with(ONE, kept, lambda opt, model: setattr(model, "opt", opt))
    model.opt.zero_grad(set_to_none=False)
    assert all(p.grad.abs().max() == 0 for p in model.parameters())
