# SPDX-License-Identifier: Apache-2.0
"""Mistakes with torch: each gets its sentence, and none hangs or crashes."""
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from networks import problem, train

import thalweg as tw

MAKE, X, Y = problem("mlp", 64)
RATE = {"update.rate": 0.05}
OWN = {"strategy": {"name": "local-sgd", "push": 2}, "update": {"rule": "caller"}, "data": {"batch": 8}}


def opened(model=None, job="asgd", overrides=RATE, **more):
    return tw.local(job, overrides if job == "asgd" else None, model=model or MAKE(), workers=2, **more)


def model_of(run):
    return run._bound.model


def iterate(run, **options):
    return next(iter(run.loader((X, Y), **{"batch_size": 8, **options})))




def step(run, opt=None, **options):
    opt = opt or run.optimizer()
    model = model_of(run)
    for k, (xb, yb) in enumerate(run.loader((X, Y), batch_size=8, **options)):
        loss = F.cross_entropy(model(xb.to(next(model.parameters()).dtype)), yb)
        loss.backward()
        yield_to = getattr(run, "_meanwhile", None)
        if yield_to:
            yield_to(k)
        opt.step(loss)
        opt.zero_grad()


def meanwhile(change):
    def call(run):
        run._meanwhile = lambda k: change(run) if k == 2 else None
        step(run)
    return call


class Streams(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(())


def replaced(run):
    model_of(run)[0] = nn.Linear(12, 24)


WRONG = {
    "no_module": (lambda: tw.local("asgd", model=[1]), "give a torch.nn.Module, and not list"),
    "nothing_trained": (lambda: tw.local("asgd", model=nn.ReLU()), "no parameter that is trained"),
    "doubles": (lambda: tw.local("asgd", model=MAKE().double()), "float64; parameters are float32"),
    "halves": (lambda: tw.local("asgd", model=MAKE().half()), "float16; parameters are float32"),
    "meta": (lambda: tw.local("asgd", model=nn.Linear(3, 3, device="meta")), "meta"),
}


@pytest.mark.parametrize("name", WRONG)
def test_models(name):
    call, text = WRONG[name]
    with pytest.raises((tw.JobError, NotImplementedError, RuntimeError)) as caught:
        call()
    assert text in str(caught.value)


IN_RUNS = {
    "tasks_of_a_model": (lambda run: list(run), "use run.loader(dataset)"),
    "two_optimizers": (lambda run: (run.optimizer(), run.optimizer()), "has an optimizer already"),
    "no_optimizer": (iterate, "the run has no optimizer"),
    "two_loaders": (lambda run: (run.loader((X, Y), 8), run.loader((X, Y), 8)), "has a loader already"),
    "wrong_batch": (lambda run: run.loader((X, Y), batch_size="8"), "batch_size: '8' is no number"),
    "other_lengths": (lambda run: run.loader((X, Y[:9])), "different lengths: 64, 9"),
    "stream": (lambda run: run.loader(Streams()), "has no numbered samples"),
    "test_without_score": (lambda run: run.loader((X, Y), 8, test=(X, Y)), "test samples need both"),
    "accumulate": (lambda run: run.loader((X, Y), 8, accumulate=0), "accumulate: 0 is no number of parts"),
    "processes": (lambda run: run.loader((X, Y), 8, num_workers=-1), "num_workers: -1 is no number"),
    "schedule": (lambda run: (run.optimizer(), run.schedule(lambda p: 1.0)), "use update.schedule there"),
    "schedule_alone": (lambda run: run.schedule(lambda p: 1.0), "run.schedule goes with an own optimizer"),
    "no_torch_optimizer": (lambda run: run.optimizer("adam"), "takes an optimizer of torch, and not str"),
    "lbfgs": (lambda run: run.optimizer(torch.optim.LBFGS(model_of(run).parameters())), "LBFGS needs a closure"),
    "others_parameters": (lambda run: run.optimizer(torch.optim.SGD(MAKE().parameters(), lr=1)),
                          "none of the model's parameters"),
    "closure": (lambda run: run.optimizer().step(lambda: 1.0), "and no closure"),
    "no_loss": (lambda run: run.optimizer().step(), "step needs the loss"),
    "no_batch": (lambda run: run.optimizer().step(1.0), "there is no batch to answer"),
    "unanswered": (lambda run: (run.optimizer(), list(run.loader((X, Y), 8))), "the last batch was not answered"),
    "twice": (lambda run: twice(run), "there is no batch to answer"),
    "early_step": (lambda run: step(run, accumulate=2), "1 of the 2 parts of the batch are not out yet"),
    "other_dtype_later": (meanwhile(lambda run: model_of(run).double()), "is elsewhere than when the run was opened"),
    "replaced_layer": (meanwhile(replaced), "was replaced or frozen after the run was opened"),
    "frozen_later": (meanwhile(lambda run: model_of(run)[0].weight.requires_grad_(False)), "was replaced or frozen"),
    "added_layer": (meanwhile(lambda run: model_of(run).add_module("more", nn.Linear(2, 2))),
                    "has 6 trained parameters, and had 4"),
    "closed_inside": (meanwhile(lambda run: run.close()), "the run was closed"),
    "own_for_gradients": (lambda run: own_with_asgd(run), "use local-sgd|takes gradients|rule"),
}


def twice(run):
    opt = run.optimizer()
    for xb, yb in run.loader((X, Y), 64 // 2):
        loss = F.cross_entropy(model_of(run)(xb), yb)
        loss.backward()
        opt.step(loss)
        if run.result is not None:
            opt.step(loss)


def own_with_asgd(run):
    run.optimizer(torch.optim.SGD(model_of(run).parameters(), lr=0.1))
    run.loader((X, Y), 8)


@pytest.mark.parametrize("name", IN_RUNS)
def test_loops(name):
    call, text = IN_RUNS[name]
    with opened() as run:
        with pytest.raises(tw.Error) as caught:
            call(run)
        assert any(part in str(caught.value) for part in text.split("|")), caught.value


def test_a_model_in_two_runs():
    model = MAKE()
    with opened(model):
        with pytest.raises(tw.JobError, match="belongs to another run"):
            opened(model)
    opened(model).close()


def test_jobs_that_do_not_fit():
    with opened(job={"data": {"batch": 4}, "strategy": "asgd"}) as run:
        run.optimizer()
        with pytest.raises(tw.JobError, match="batch_size is 8, and the job's 4"):
            run.loader((X, Y), batch_size=8)
    with opened(samples=63) as run:
        with pytest.raises(tw.JobError, match="the dataset has 64 samples, and the job 63"):
            run.loader((X, Y))
    with opened(job=OWN) as run:
        run.optimizer()
        with pytest.raises(tw.JobError, match="your optimizer takes the steps"):
            run.loader((X, Y))


def test_gradients_that_are_not_finite():
    model = MAKE()
    with pytest.warns(RuntimeWarning, match="the loss is not finite"):
        with opened(model) as run:
            opt = run.optimizer()
            for k, (xb, yb) in enumerate(run.loader((X, Y), 8)):
                opt.zero_grad()
                loss = F.cross_entropy(model(xb), yb) * (float("nan") if k == 1 else 1.0)
                loss.backward()
                opt.step(loss)
    assert run.result.refused >= 1
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_after_its_block():
    with opened() as run:
        opt = run.optimizer()
        loader = run.loader((X, Y), 8)
        xb, yb = next(iter(loader))
    with pytest.raises(tw.Error, match="the run was closed"):
        opt.step(1.0)
    with pytest.raises(tw.Error, match="the run was closed"):
        next(iter(loader))


def test_a_reader_that_dies():
    class Deadly(torch.utils.data.Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, k):
            import os
            os._exit(3)
    with opened() as run:
        run.optimizer()
        with pytest.raises(tw.Error, match="a process that reads samples has died"):
            next(iter(run.loader(Deadly(), 8, num_workers=2)))


def test_all_is_well_without_mistakes():
    model = MAKE()
    with opened(model) as run:
        train(run, model, X, Y, batch_size=8)
    assert run.result.samples == 64
