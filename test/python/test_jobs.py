# SPDX-License-Identifier: Apache-2.0
"""Jobs of the library's own networks: results, events, files, predictions, comparisons."""
import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest

import thalweg as tw

JOB = {"model": {"quadratic": {}}, "data": {"batch": 2}, "train": {"epochs": 4, "evaluate": 1}, "update": {"rate": 0.01},
       "strategy": "ssgd"}


def test_the_result_is_the_programs(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(JOB))
    said = json.loads(subprocess.run([os.environ["TW_PROGRAM"], "train", str(file), "--json", "--set", "train.seed=5",
                                      "--run", str(tmp_path / "run")],
                                     check=True, capture_output=True, text=True).stdout)
    results = [tw.train(job, {"train.seed": 5}) for job in (file, str(file), JOB, json.dumps(JOB))]
    assert {r.parameters_digest for r in results} == {said["parameters_digest"]}
    assert results[0].loss == said["loss"] and results[0]["strategy"] == "ssgd"
    assert [row["epochs"] for row in results[0].curve] == [1, 2, 3, 4]
    assert results[0].evaluate()["loss"] == pytest.approx(results[0].loss)
    assert "ssgd, 2 workers" in repr(results[0]) and "<svg" in results[0]._repr_html_()
    with pytest.raises(AttributeError, match="a result has no nonsense; it has "):
        results[0].nonsense


def test_events_come_on_this_thread_and_may_stop():
    import threading
    here, seen = threading.current_thread(), []

    def listen(event):
        assert threading.current_thread() is here
        seen.append(event["kind"])
        return event["kind"] == "evaluation" and event["epochs"] >= 3
    result = tw.train(JOB, {"train.epochs": 10 ** 6}, listen=listen)
    assert result.interrupted and "evaluation" in seen
    with pytest.raises(tw.Error, match="there are no parameters"):
        result.tensors


def test_predictions(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    rows = "\n".join(f"{a:.4f},{b:.4f},{c:.4f},{'yes' if a + b > c else 'no'}" for a, b, c in x)
    (tmp_path / "t.csv").write_text("a,b,c,label\n" + rows + "\n")
    job = {"data": {"source": "csv", "file": str(tmp_path / "t.csv"), "batch": 16}, "model": {"layers": ["linear 8", "relu",
           "linear 2"]}, "train": {"epochs": 20}, "update": {"rate": 0.2}, "strategy": "ssgd"}
    result = tw.train(job)
    result.save(tmp_path / "m.safetensors")
    model = tw.load(tmp_path / "m.safetensors")
    assert (model.inputs, model.outputs, model.classes, model.output_names) == (3, 2, True, ["no", "yes"])
    p = model.predict(x[:5])
    assert p.shape == (5, 2) and np.allclose(p.sum(axis=1), 1, atol=1e-5)
    t = result.tensors
    assert sum(a.size for a in t.values()) == result.parameters == 8 * 3 + 8 + 2 * 8 + 2
    assert result.accuracy > 0.9
    with pytest.raises(tw.JobError, match="7 values are no rows of 3"):
        model.predict(np.zeros(7))
    with pytest.raises(Exception, match="none.safetensors"):
        tw.load(tmp_path / "none.safetensors")


def test_cells_of_a_table(tmp_path):
    rows = "".join(f"{k % 13}.5,{'red' if k % 2 else 'blue, dark'},2024-01-{1 + k % 28:02d},{'yes' if k % 3 else 'no'}\n"
                   .replace("blue, dark", '"blue, dark"') for k in range(90))
    (tmp_path / "t.csv").write_text("size,colour,since,left\n" + rows)
    result = tw.train({"data": {"source": "csv", "file": str(tmp_path / "t.csv"), "label": "left", "missing": "zero", "batch": 16},
                       "model": {"layers": ["linear 2"]}, "train": {"epochs": 2}, "update": {"rate": 0.1}, "strategy": "ssgd"})
    result.save(tmp_path / "m.safetensors")
    model = tw.load(tmp_path / "m.safetensors")
    assert (model.columns, model.column_names, model.inputs) == (3, ["size", "colour", "since"], 8)
    said = model.predict_cells([[1.5, "blue, dark", "2024-05-06"], {"since": None, "colour": "mauve", "size": float("nan")}])
    same = model.predict([[1.5, 1, 0, 0, 2024, 5, 6, 0], [0, 0, 0, 1, 0, 0, 0, 0]])
    assert np.array_equal(said, same) and not np.array_equal(said[0], said[1])
    assert model.predict_cells([]).shape == (0, 2)
    with pytest.raises(tw.JobError, match="row 2: has 2 cells, and the model takes 3"):
        model.predict_cells([[1, "red", ""], [1, "red"]])
    with pytest.raises(tw.JobError, match="row 1: has no column 'since'"):
        model.predict_cells([{"size": 1, "colour": "red"}])
    with pytest.raises(tw.JobError, match="cells:1: column 1.*'many' is not accepted"):
        model.predict_cells([["many", "red", ""]])


def test_a_job_error_says_where(tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text("model: {quadratic: {}}\ndata: {batch: 2}\nupdate:\n  rat: 0.1\n")
    with pytest.raises(tw.JobError) as caught:
        tw.train(file)
    e = caught.value
    assert (e.file, e.line, e.field) == (str(file), 4, "update.rat") and "rate" in e.remedy and e.status == "bad input"
    assert isinstance(e, ValueError)


def test_a_training_that_diverges():
    with pytest.raises(tw.Rejected, match="diverged"):
        tw.train(JOB, {"update.rate": 1000})


def test_compare(monkeypatch):
    c = tw.compare(JOB, vary={"strategy": ["ssgd", "asgd"]}, seeds=2, overrides={"train.epochs": 1})
    assert len([r for r in c.rows if not r["baseline"]]) == 4 and {r["seed"] for r in c.rows} == {1, 2}
    assert all(np.isfinite(r["loss"]) for r in c.rows) and c.best and "ssgd" in repr(c)
    fake = types.ModuleType("pandas")
    fake.DataFrame = lambda rows: list(rows)
    monkeypatch.setitem(sys.modules, "pandas", fake)
    assert c.to_pandas() == c.rows
    with pytest.raises(tw.JobError, match="strategy"):
        tw.compare(JOB, vary={"strategy": ["nope"]}, seeds=1)


def test_arrays_as_data(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(120, 5)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.int64)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    job = {"model": {"layers": ["linear 8", "relu", "linear 2"]}, "data": {"batch": 8}, "train": {"epochs": 3},
           "update": {"rate": 0.1}, "strategy": "ssgd"}
    files = {"data.source": "npy", "data.x": str(tmp_path / "x.npy"), "data.y": str(tmp_path / "y.npy")}
    digest = tw.train(job, files).parameters_digest

    class Dataset:
        def __len__(self):
            return len(x)

        def __getitem__(self, k):
            return x[k], y[k]
    assert tw.train(job, data=(x, y)).parameters_digest == digest
    assert tw.train(job, data=(x.astype(np.float16).astype(np.float32) * 0 + x, y)).parameters_digest == digest
    assert tw.train(job, data=Dataset()).parameters_digest == digest
    other = tw.train(job, data=(x[:100], y[:100], x[100:], y[100:]))
    assert other.evaluate()["samples"] == 20
    for data, text in (((x, y[:9]), "120 inputs and 9 labels"), (x, "data: give"), ((x, np.array(["a"] * 120)), "y is of"),
                       ((x, y, x), "data: give")):
        with pytest.raises(tw.JobError, match=text):
            tw.train(job, data=data)
