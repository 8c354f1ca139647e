# SPDX-License-Identifier: Apache-2.0
"""Train one model on many machines: your loop, your framework, and Thalweg between the machines.

    import thalweg as tw

    for task in tw.simulate("ssp", parameters=n, samples=60_000, workers=64):
        task.done(gradient=g(task), loss=l(task))

`local`, `simulate` and `join` open runs whose gradients your program computes, with torch or
anything else; `serve` starts the master of a cluster; `train` and `compare` run jobs with Thalweg's
own networks; `load` opens a trained one.
"""
from ._errors import Error, Interrupted, JobError, Lost, ModelMismatch, Rejected
from ._library import lib as _lib
from ._result import Result
from ._run import Run, Task, join, local, ranks, simulate
from ._serve import Comparison, Master, compare, make_key, serve
from ._train import Model, Trained, load, train

__version__: str = _lib.thalweg_version().decode()
__all__ = ["Comparison", "Error", "Interrupted", "JobError", "Lost", "Master", "Model", "ModelMismatch", "Rejected",
           "Result", "Run", "Task", "Trained", "compare", "join", "load", "local", "make_key", "ranks", "serve", "simulate",
           "train"]
