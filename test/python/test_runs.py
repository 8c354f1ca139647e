# SPDX-License-Identifier: Apache-2.0
"""Runs whose gradients come from numpy: against a serial loop, in every world."""
import threading
import time

import numpy as np
import pytest
from problem import N, SAMPLES, Cluster, answer, gradient, program

import thalweg as tw

JOB = {"data.batch": 4, "update.rate": 0.05}


def rounds(tasks, workers):
    """The serial loop: the mean of each round's gradients, applied once."""
    w = np.zeros(N, dtype=np.float32)
    for k in range(0, len(tasks), workers):
        batch = tasks[k:k + workers]
        assert len({t[0] for t in batch}) == 1
        for _, _, seen in batch:
            np.testing.assert_allclose(seen, w, atol=1e-6)
        w = w - 0.05 * np.mean([gradient(s, w)[0] for _, s, _ in batch], axis=0)
    return w


@pytest.mark.parametrize("open_run", [tw.simulate, tw.local])
def test_synchronous_rounds_are_a_serial_loop(open_run):
    tasks = []
    with open_run("ssgd", JOB, parameters=N, samples=SAMPLES, workers=3, epochs=3) as run:
        for task in run:
            tasks.append((task.version, task.samples.copy(), task.parameters.copy()))
            answer(task)
        assert len(tasks) == 3 * SAMPLES // 4 and run.result.samples == 3 * SAMPLES
        np.testing.assert_allclose(run.parameters, rounds(tasks, 3), atol=1e-6)
    seen = np.concatenate([s for _, s, _ in tasks])
    assert (np.bincount(seen, minlength=SAMPLES) == 3).all()  # each sample once in each epoch


def test_a_simulation_is_the_same_again():
    digests = set()
    for _ in range(2):
        run = tw.simulate("dc-asgd", JOB, parameters=N, samples=SAMPLES, workers=8, epochs=2, seed=4)
        for task in run:
            answer(task)
        digests.add(run.result.parameters_digest)
    assert len(digests) == 1


def test_facts_and_a_result():
    with tw.simulate("ssp", JOB, parameters=np.ones(N), samples=SAMPLES, tests=8, workers=5) as run:
        assert (run.batch_size, run.workers, run.samples, run.tests, run.simulated) == (4, 5, SAMPLES, 8, True)
        assert run.result is None and run.parameters is None and "running" in repr(run)
        first = run.next()
        assert (first.parameters == 1).all()
        answer(first)
        for task in run:
            answer(task)
        assert run.evaluations and run.evaluations[-1]["loss"] == pytest.approx(run.result.loss)
        assert run.result.loss == pytest.approx(gradient(np.arange(8), run.parameters)[1], rel=1e-5)
        assert "ssp, 5 workers" in repr(run) and "<svg" in run._repr_html_()
        assert len(run.evaluations) == len(run.result.curve)


def test_tensors_by_name_and_buffers(tmp_path):
    first = {"weight": np.zeros((2, 3)), "bias": np.zeros(3)}
    with tw.local("ssgd", {"data.batch": 1, "update.rate": 1.0}, parameters=first, buffers={"count": np.zeros(())},
                  samples=4, workers=1) as run:
        for task in run:
            t = task.tensors
            assert t["weight"].shape == (2, 3) and t["count"].shape == ()
            task.done(gradient={"weight": -np.ones((2, 3)), "bias": np.zeros(3, dtype=np.float16),
                                "count": np.float64(2)}, loss=1.0)
        assert (run.tensors["weight"] == 4).all() and (run.tensors["bias"] == 0).all()
        assert run.tensors["count"] == 8  # a buffer is not scaled by the rate
        run.save(tmp_path / "w.safetensors")
    from thalweg._layout import read_safetensors
    back = read_safetensors(tmp_path / "w.safetensors")
    assert (back["weight"] == 4).all() and back["count"] == 8


def test_threads_share_a_run():
    threads, failed = [], []
    with tw.local("asgd", JOB, parameters=N, samples=SAMPLES, workers=4, epochs=3) as run:
        def loop():
            try:
                for task in run:
                    answer(task)
            except BaseException as why:
                failed.append(why)
        threads = [threading.Thread(target=loop) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failed and run.result.samples == 3 * SAMPLES


def test_parameters_are_the_callers():
    kept = []
    with tw.local("asgd", JOB, parameters=N, samples=SAMPLES, workers=2) as run:
        for task in run:
            kept.append((task.parameters, task.parameters.copy()))
            g, loss = gradient(task.samples, task.parameters)
            task.parameters[:] = 7.0  # of no consequence for others
            kept[-1][1][:] = 7.0
            task.done(gradient=g, loss=loss)
    assert all((a == b).all() for a, b in kept)
    assert len({id(a) for a, _ in kept}) == len(kept)  # what somebody has is not used again
    assert np.isfinite(run.parameters).all()


def test_stop_and_resume(tmp_path):
    def go(stop):
        with tw.local("ssgd", JOB, parameters=N, samples=SAMPLES, workers=2, epochs=6, directory=tmp_path / "run") as run:
            for k, task in enumerate(run):
                answer(task)
                if stop and k == 40:
                    run.stop()
                if stop and k >= 40:
                    time.sleep(0.02)  # the wish to stop is looked at many times a second
            return run
    first = go(True)
    assert first.result.interrupted
    second = go(False)
    assert not second.result.interrupted
    whole = tw.local("ssgd", JOB, parameters=N, samples=SAMPLES, workers=2, epochs=6)
    for task in whole:
        answer(task)
    assert second.result.parameters_digest == whole.result.parameters_digest


def test_a_failed_task_ends_the_run():
    with pytest.raises(tw.Rejected, match="a task could not be computed: no such sample"):
        with tw.local("asgd", JOB, parameters=N, samples=SAMPLES) as run:
            for task in run:
                task.fail("no such sample")


def test_background_and_stop():
    def loop(run):
        for task in run:
            answer(task)
    with tw.local("asgd", JOB, parameters=N, samples=SAMPLES, workers=2, epochs=10 ** 6) as run:
        run.background(loop)
        with pytest.raises(tw.JobError, match="in the background already"):
            run.background(loop)
        assert not run.wait(0.05)
        assert "<table>" in run._repr_html_()
        run.stop()
        assert run.result.interrupted
    with tw.local("asgd", JOB, parameters=N, samples=SAMPLES) as run:
        run.background(lambda run: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run.wait()


WORKER = """
import sys
import thalweg as tw
from problem import N, answer
with tw.join(sys.argv[1], sys.argv[2], parameters=N) as run:
    for task in run:
        answer(task)
"""


def test_joined_workers_do_what_local_ones_do():
    with Cluster() as c:
        workers = [program(WORKER, c.address, c.key) for _ in range(2)]
        for p in workers:
            out, err = p.communicate(timeout=120)
            assert p.returncode == 0, err
        result = c.master.wait()
    alone = tw.local("ssgd", JOB, parameters=np.zeros(N), samples=SAMPLES, workers=2, epochs=2)
    for task in alone:
        answer(task)
    assert result.parameters_digest == alone.result.parameters_digest


POLICIES = """
import os
import sys
import thalweg as tw
from problem import N, answer
policies = set()
with tw.join(sys.argv[1], sys.argv[2], parameters=N) as run:
    for task in run:
        policies |= {os.sched_getscheduler(int(t)) for t in os.listdir("/proc/self/task")}
        answer(task)
assert policies == {os.sched_getscheduler(0)}, policies
"""


def test_no_thread_of_a_session_gives_way_to_others():
    """The program computes; the threads of the library only carry what it waits for."""
    with Cluster(workers=1) as c:
        worker = program(POLICIES, c.address, c.key)
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
        c.master.wait()
