# SPDX-License-Identifier: Apache-2.0
"""Mistakes without torch: each gets its exception and its sentence, and the run goes on or ends."""
import numpy as np
import pytest
from problem import N, SAMPLES, Cluster, answer

import thalweg as tw

JOB = {"data.batch": 4, "update.rate": 0.05}


def opened(**more):
    return tw.local("asgd", JOB, **{"parameters": N, "samples": SAMPLES, "workers": 2, **more})


WRONG = [
    (lambda: tw.local("asgd", parameters=N), tw.JobError, "samples: give the number"),
    (lambda: opened(samples=0), tw.JobError, "samples: 0 are too few"),
    (lambda: opened(parameters=0), tw.JobError, "parameters: 0 are too few"),
    (lambda: opened(parameters="six"), tw.JobError, "parameters: give their number"),
    (lambda: opened(parameters={}), tw.JobError, "the dict is empty"),
    (lambda: opened(parameters=np.zeros(3, dtype=complex)), tw.JobError, "complex128 of 3 values cannot be trained"),
    (lambda: opened(parameters=np.array([1, np.nan])), tw.JobError, "initial value 1"),
    (lambda: opened(parameters=np.zeros((1,) * 9)), tw.JobError, "rank 9 is above 8"),
    (lambda: opened(parameters={"a b": np.zeros(2)}), tw.JobError, "tensor 0 needs a name"),
    (lambda: opened(buffers={"b": np.zeros(2)}), tw.JobError, "buffers have names"),
    (lambda: opened(model=object()), tw.JobError, "and not both"),
    (lambda: tw.local("asgd", [1], parameters=N, samples=9), tw.JobError, "overrides are a dict"),
    (lambda: tw.local(7, parameters=N, samples=9), tw.JobError, "and not int"),
    (lambda: tw.local("asgd", {"update.rate": object()}, parameters=N, samples=9), tw.JobError, "is no value for a field"),
    (lambda: tw.local("asgd", {"update.rat": 1}, parameters=N, samples=9), tw.JobError, "did you mean 'rate'"),
    (lambda: tw.local("nope", parameters=N, samples=9), tw.JobError, "no preset is called 'nope'"),
    (lambda: tw.local("gpipe", parameters=N, samples=9), tw.JobError, "stages"),
    (lambda: tw.local("no.yaml", parameters=N, samples=9), tw.JobError, "no.yaml: cannot be opened"),
    (lambda: tw.join("", parameters=N), tw.JobError, "address: give the master's"),
    (lambda: tw.join("x:y:z", parameters=N), tw.JobError, "address: "),
    (lambda: tw.join("127.0.0.1:1", "/none.key", parameters=N), Exception, "/none.key"),
    (lambda: tw.join("127.0.0.1:1", parameters=N, patience=0.2), tw.Lost, "127.0.0.1:1: "),
    (lambda: tw.train("job: {", world="threads"), tw.JobError, "is not YAML"),
    (lambda: tw.train({"strategy": "ssgd"}, world="moon"), tw.JobError, "world: 'moon' is none"),
    (lambda: tw.compare(), tw.JobError, "compare needs a job"),
]


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_requests(wrong):
    call, kind, text = WRONG[wrong]
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)


def test_answers():
    with opened(tests=4) as run:
        seen = set()
        for task in run:
            wrong = [(dict(gradient=np.zeros(N - 1), loss=1), "has 5 values, and the model 6"),
                     (dict(gradient=np.zeros(N, dtype=int), loss=1), "is of int64; use float32"),
                     (dict(gradient=np.zeros(N)), "done needs the loss"),
                     (dict(loss=1), "done needs the gradient"),
                     (dict(gradient={"w": np.zeros(N)}, loss=1), "the gradient has no parameters"),
                     (dict(gradient={"parameters": np.zeros((1, N))}, loss=1), "has the shape (1, 6), and the tensor (6,)"),
                     (dict(gradient={"parameters": np.zeros(N), "x": 1}, loss=1), "has x, which the model does not"),
                     (dict(parameters=np.zeros(N), loss=1), "the job's rule takes gradients")] if not task.score else [
                     (dict(gradient=np.zeros(N), loss=1), "they have no gradient"),
                     (dict(loss=1, correct=99), "correct is 99, but the task has only"),
                     (dict(correct=1), "done needs the loss")]
            if task.score not in seen:
                seen.add(task.score)
                for arguments, text in wrong:
                    with pytest.raises(tw.JobError) as caught:
                        task.done(**arguments)
                    assert text in str(caught.value)
            answer(task)
            with pytest.raises(tw.JobError, match="answered already"):
                answer(task)
        assert seen == {True, False}
        with pytest.raises(tw.JobError, match="needs a torch model"):
            run.loader([1, 2])
        with pytest.raises(tw.JobError, match="needs a torch model"):
            run.optimizer()


def test_own_steps():
    with tw.local({"strategy": {"name": "local-sgd", "push": 2}, "update": {"rule": "caller"}, "data": {"batch": 4}},
                  parameters=N, samples=SAMPLES, workers=2, epochs=2) as run:
        for task in run:
            with pytest.raises(tw.JobError, match="your loop takes the steps"):
                task.done(gradient=np.zeros(N), loss=1)
            with pytest.raises(tw.JobError, match="parameters has 5 values, and the model 6"):
                task.done(parameters=np.zeros(N - 1), loss=1)
            task.done(parameters=task.parameters + 1, loss=1)
        steps = 2 * SAMPLES // 4 // 2  # of each of the two workers
        assert np.allclose(run.parameters, steps)


def test_what_is_not_finite():
    with pytest.warns(RuntimeWarning, match="the loss is not finite"):
        with opened() as run:
            for k, task in enumerate(run):
                task.done(gradient=np.full(N, np.nan if k == 3 else 0.1), loss=np.nan if k == 3 else 1.0)
    assert run.result.refused >= 1 and np.isfinite(run.parameters).all()
    with pytest.raises(tw.Rejected, match="refused"), pytest.warns(RuntimeWarning):
        with opened() as run:
            for task in run:
                task.done(gradient=np.full(N, np.inf), loss=np.inf)


def test_after_the_end():
    with opened() as run:
        task = run.next()
        with pytest.raises(tw.Error, match="there is nothing to save"):
            run.save("x.safetensors")
    for call in (run.next, lambda: answer(task), run.stop, lambda: task.fail("no")):
        with pytest.raises(tw.Error, match="the run was closed"):
            call()
    run.close()
    assert "over" in repr(run)


def test_joins():
    with Cluster(workers=1) as c:
        other = c.key + "2"
        tw.make_key(other)
        with pytest.raises(FileExistsError):
            tw.make_key(other)
        with pytest.raises(tw.ModelMismatch) as caught:
            tw.join(c.address, c.key, parameters={"parameters": np.zeros(N + 1), "more": np.zeros(2)})
        assert caught.value.differences == ["parameters is 7 here and 6 there", "more (2) is not in the master's"]
        for kind, more, text in ((tw.Rejected, {"key": other, "parameters": N, "patience": 2}, "another key"),
                                 (tw.JobError, {"key": c.key, "parameters": N, "samples": 3}, "the layout has 3 samples"),
                                 (tw.JobError, {"key": c.key, "parameters": N, "data": "x"}, "the data is 'x' here"),
                                 (tw.Lost, {"parameters": N, "patience": 0.3}, "does it need a key")):
            with pytest.raises(kind, match=text):
                tw.join(c.address, **more)
        with tw.join(c.address, c.key, parameters=N) as run:
            for task in run:
                answer(task)


def test_serve(tmp_path):
    with pytest.raises(tw.JobError, match="cannot be opened"):
        tw.serve(np.zeros(3), "none.yaml", directory=tmp_path / "run", quiet=True)
